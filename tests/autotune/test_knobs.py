"""Spaces written by hand: knobs under conditions, and functions that choose."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import matmul
from tilewright.autotune.errors import TuneError
from tilewright.autotune.knobs import FunctionSpace, KnobSpace, around
from tilewright.autotune.space import Dead, at_random, draw, points, sample, usual
from tilewright.schedule.constraints import holds
from tilewright.schedule.schedule import Schedule


def knobs(*conditions, rows=(8, (4, 8, 12)), columns=(16, (8, 16, 32)), depth=(4, (1, 2, 4))):
    s = matmul.schedule()
    r, c, d = (s.knob(n, *given) for n, given in (("rows", rows), ("columns", columns), ("depth", depth)))
    for condition in conditions:
        s.constrain(condition)
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", r, c).split("k", "ko", "ki", d)
    return s


def test_every_allowed_combination_once_the_schedules_own_first():
    found = [p.values for p in points(KnobSpace(knobs("rows * columns <= 128")))]
    assert found[0] == {"rows": 8, "columns": 16, "depth": 4}
    assert {tuple(v.values()) for v in found} == {
        (r, c, d) for r in (4, 8, 12) for c in (8, 16, 32) for d in (1, 2, 4) if r * c <= 128
    }
    assert len(found) == 6 * 3


def test_points_are_the_schedules_with_these_knobs():
    s = knobs()
    p = draw(KnobSpace(s), lambda name, choices: choices[-1])
    assert p is not None and p.schedule == s.with_knobs(rows=12, columns=32, depth=2)


def test_what_no_later_knob_can_mend_is_not_offered():
    offered = {}

    def choose(name, choices):
        offered[name] = tuple(choices)
        return choices[0]

    draw(KnobSpace(knobs("rows * columns * depth <= 64", rows=(4, (4, 8, 12)), depth=(1, (1, 2, 4)))), choose)
    assert offered == {"rows": (4, 8), "columns": (16, 8)}  # 12 * 8 * 1 is too many already


def test_a_knob_without_choices_has_powers_of_two_around_it():
    assert around(8) == (1, 2, 4, 8, 16, 32, 64)
    assert around(1) == (1, 2, 4, 8)
    assert around(6) == (1, 2, 4, 6, 8, 16, 32)
    space = KnobSpace(knobs(rows=(6, None)))
    assert space.choices["rows"] == (6, 1, 2, 4, 8, 16, 32)


def test_a_schedule_without_knobs_is_no_space():
    with pytest.raises(TuneError, match="no knobs") as e:
        KnobSpace(matmul.schedule())
    assert e.value.code == "tune.space"


@given(st.integers(0, 10**6))
def test_points_at_random_keep_the_conditions(seed):
    conditions = ("rows * columns <= 256", "columns % rows == 0 or depth > 1", "depth <= rows // 2")
    p = sample(KnobSpace(knobs(*conditions)), random.Random(seed))
    assert p is not None and all(holds(c, p.schedule.knobs) for c in conditions)


# Functions --------------------------------------------------------------------------------------------------------


def packed_or_not(s, choose):
    rows = choose("rows", (8, 4))
    s["C.update"].split("i", "io", "ii", rows)
    if choose("across", (False, True)):
        s["C.update"].reorder(*choose("order", (("io", "j", "k", "ii"), ("j", "io", "k", "ii"))))
    elif rows == 4:
        raise Dead
    if choose("pack", (True, False)):
        s.cache_read("B", at="C.update.io")


def test_functions_choose_orders_and_what_is_there():
    space = FunctionSpace(matmul.pipeline(), packed_or_not)
    found = list(points(space))
    assert len(found) == (1 + 2 + 2) * 2  # rows 4 with no order leads nowhere
    assert found[0].values == {"rows": 8, "across": False, "pack": True}
    assert {p.schedule.pipeline.digest for p in found} == {matmul.pipeline().digest}
    assert draw(space, usual) == found[0]


def test_knobs_that_a_function_leaves_open_are_chosen_after_it():
    def fn(s, choose):
        wide = choose("wide", (False, True))
        t = s.knob("t", 8, (4, 8))
        s["C.update"].split("j" if wide else "i", "o", "n", t)

    found = [p.values for p in points(FunctionSpace(matmul.pipeline(), fn))]
    assert found == [{"wide": w, "t": t} for w in (False, True) for t in (8, 4)]


def test_a_directive_that_is_refused_leads_nowhere():
    def fn(s, choose):
        s["C.update"].split(choose("loop", ("i", "nowhere")), "o", "n", 4)

    assert [p.values["loop"] for p in points(FunctionSpace(matmul.pipeline(), fn))] == ["i"]


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda s, choose: (choose("a", (1, 2)), choose("a", (1, 2))), "chosen twice"),
        (lambda s, choose: choose("a", "xyz"), "the choices of a are 'xyz'"),
        (lambda s, choose: choose("a", 3), "the choices of a are 3"),
        (lambda s, choose: choose("a", (1.5, 2)), "1.5 is among the choices of a"),
        (lambda s, choose: choose(1, (1, 2)), "a choice is called 1"),
    ],
)
def test_mistakes_in_functions_are_said(fn, said):
    with pytest.raises(TuneError, match=said) as e:
        draw(FunctionSpace(matmul.pipeline(), fn), at_random(random.Random(0)))
    assert e.value.code == "tune.choice"


def test_other_exceptions_of_a_function_are_its_own():
    def fn(s, choose):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        draw(FunctionSpace(matmul.pipeline(), fn), usual)


def test_schedules_are_bound_to_the_machine():
    space = FunctionSpace(matmul.pipeline(), packed_or_not, machine="toy")
    made = space.build(usual)
    assert isinstance(made, Schedule) and made.machine is not None and made.machine.name == "toy"

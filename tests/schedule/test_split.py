"""split: tails, names, attachments; what is refused."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import blur, chain, edge_blur, gradient, matmul
from tests.schedule.helpers import good, refused
from tilewright.lang.ir import integer
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].split("i", "io", "ii", 3).split("k", "ko", "ki", 2)
    golden(good(s))


@pytest.mark.parametrize("tail", ["guard", "shift"])
@pytest.mark.parametrize("factor", [1, 2, 3, 5, 9])
def test_tails(tail, factor):
    s = Schedule(blur())
    s["blur_y"].split("y", "yo", "yi", factor, tail).split("x", "xo", "xi", 4, tail)
    good(s)


def test_round_up(golden):
    s = Schedule(edge_blur())
    s["blur_x"].compute_root().split("x", "xo", "xi", 4, "round_up").split("y", "yo", "yi", 3, "round_up")
    golden(good(s))


def test_round_up_needs_more_of_the_input():
    s = Schedule(blur())
    s["blur_x"].compute_root().split("x", "xo", "xi", 4, "round_up")
    (condition, meaning), *_ = s.loops().nest.requirements
    assert "A" in meaning
    assert "round_up" in meaning
    assert condition.dtype.is_bool


@pytest.mark.parametrize("factor", [1, 2, 4, 3, 8])
def test_round_up_inside_a_tile_of_the_consumer(factor):
    """Whole tiles of what a tile of 4 columns needs; of the same size, it is one, also at the last one's end."""
    s = Schedule(edge_blur())
    s["blur_y"].split("x", "xo", "xi", 4)
    s["blur_x"].compute_at("blur_y.xo").split("x", "t", "l", factor, "round_up")
    if factor == 4:
        assert s.loops().loop("blur_x.t").stop is integer(1)
    good(s)


def test_a_new_name_may_be_the_old_one(golden):
    s = Schedule(matmul())
    s["C.update"].split("i", "i", "ii", 4).split("i", "io", "i", 2)
    golden(good(s))


def test_what_was_attached_goes_to_the_inner_loop():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y")
    s["blur_y"].split("y", "yo", "yi", 2)
    assert s.state.funcs["blur_x"].compute.loop == "yi"
    good(s)


def test_nested_shift():
    s = Schedule(chain())
    s["d"].split("x", "xo", "xi", 4, "shift").split("xi", "a", "b", 3, "shift").split("xo", "c", "e", 2, "shift")
    good(s)


def test_shift_with_a_producer_inside():
    s = Schedule(blur())
    s["blur_y"].split("y", "yo", "yi", 4, "shift")
    s["blur_x"].compute_at("blur_y.yi")
    good(s)


@pytest.mark.parametrize("factor", [0, -1, True, 2.5, "8", None, 2**31, 2**70])
def test_factor(factor):
    s = Schedule(matmul())
    refused(s, "factor" if factor is not None else "option", lambda: s["C.update"].split("i", "io", "ii", factor))


def test_names():
    s = Schedule(matmul())
    C = s["C.update"]
    refused(s, "name-twice", lambda: C.split("i", "j", "ii", 8), "C.update has a loop j already")
    refused(s, "name-twice", lambda: C.split("i", "ii", "ii", 8), "named twice")
    refused(s, "name", lambda: C.split("i", "2", "ii", 8))
    refused(s, "name", lambda: C.split("i", "for", "ii", 8))
    refused(s, "unknown-loop", lambda: C.split("l", "lo", "li", 8), "known: i, j, k")
    C.split("i", "io", "ii", 8)
    refused(s, "unknown-loop", lambda: C.split("i", "a", "b", 8), "did you mean")
    refused(s, "name-twice", lambda: C.split("ii", "i", "b", 8))
    good(s)


def test_illegal_tails():
    s = Schedule(matmul())
    refused(s, "tail", lambda: s["C.update"].split("i", "io", "ii", 8, "shift"), "guard")
    refused(s, "tail", lambda: s["C.init"].split("i", "io", "ii", 8, "round_up"), "an output")
    refused(s, "tail", lambda: s["C.update"].split("i", "io", "ii", 8, "wrap"), "guard, shift, round_up")
    b = Schedule(blur())
    b["blur_x"].compute_root().split("x", "xo", "xi", 8)
    refused(b, "tail", lambda: b["blur_x"].split("xi", "a", "b", 2, "round_up"), "first split")


def test_mode():
    s = Schedule(gradient())
    s["gradient"].parallel("y")
    refused(s, "loop-mode", lambda: s["gradient"].split("y", "yo", "yi", 2), "is parallel already", "serial('y')")


def test_stage():
    s = Schedule(matmul())
    refused(s, "ambiguous-stage", lambda: s["C"].split("i", "io", "ii", 8), "C.init, C.update")
    refused(s, "unknown-stage", lambda: s["D"], "known: C.init, C.update")


def test_nested_factors_may_not_reach_beyond_what_an_index_holds() -> None:
    s = Schedule(matmul())
    s["C.update"].split("i", "io", "ii", 2**31 - 1)
    refused(s, "factor", lambda: s["C.update"].split("io", "a", "b", 2**31 - 1))


def test_a_step_may_be_split_again_and_again() -> None:
    s = Schedule(matmul())
    rest = "i"
    for k in range(5):
        s["C.update"].split(rest, f"i{k}", f"rest{k}", 1 << 20 - k)
        rest = f"rest{k}"
    assert rest in s["C.update"].loops

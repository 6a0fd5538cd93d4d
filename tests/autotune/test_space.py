"""Spaces: drawing, replaying by name, mutation, crossover, and going through all points."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright.autotune.space import (
    Choose,
    Dead,
    Decision,
    Value,
    _other,
    at_random,
    by_name,
    cross,
    draw,
    mutate,
    neighbours,
    points,
    sample,
    usual,
)
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule

M, N = tw.sizes("M N")


@tw.kernel
def double(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    B = tw.func("B")
    B[i, j] = A[i, j] * 2.0
    return B[:M, :N]


@dataclass(frozen=True)
class Tiles:
    """A tile of at most 64 elements; the order of the loops is a choice where there is a tile at all."""

    name: str = "tiles"

    @property
    def pipeline(self) -> Pipeline:
        return double.pipeline()

    def build(self, choose: Choose) -> Schedule:
        s = double.schedule()
        if not choose("tile", (True, False)):
            return s
        rows, columns = choose("rows", (8, 4, 2, 1)), choose("columns", (8, 16, 32))
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        if rows * columns > 64:
            raise Dead
        s["B"].tile(("i", "j"), ("io", "jo"), ("ii", "ji"), (rows, columns))
        if choose("order", ("rows first", "columns first")) == "columns first":
            s["B"].reorder("jo", "io")
        return s


SPACE = Tiles()
LEGAL = [(r, c) for r, c in product((8, 4, 2, 1), (8, 16, 32)) if r * c <= 64]


def test_all_points_come_once_and_the_usual_one_first():
    found = list(points(SPACE))
    assert len(found) == 2 * len(LEGAL) + 1
    assert len({p.hash for p in found}) == len(found)
    assert found[0].values == {"tile": True, "rows": 8, "columns": 8, "order": "rows first"}
    assert found[0].hash == draw(SPACE, usual).hash  # type: ignore[union-attr]


def test_different_choices_that_say_the_same_are_one_point():
    class Twice(Tiles):
        def build(self, choose: Choose) -> Schedule:
            choose("idle", (1, 2, 3))
            return super().build(choose)

    assert len(list(points(Twice()))) == len(list(points(SPACE)))


def test_choices_that_lead_to_nothing_are_no_point():
    assert draw(SPACE, by_name({"rows": 8, "columns": 32})) is None


def test_what_the_language_refuses_is_no_point():
    class Wrong(Tiles):
        def build(self, choose: Choose) -> Schedule:
            s = double.schedule()
            s["B"].split("no_such_loop", "a", "b", 4)
            return s

    assert draw(Wrong(), usual) is None
    assert sample(Wrong(), random.Random(0), tries=3) is None
    assert list(points(Wrong())) == []


def test_an_empty_list_of_choices_ends_a_branch():
    class Empty(Tiles):
        def build(self, choose: Choose) -> Schedule:
            choose("none", ())
            return double.schedule()

    assert draw(Empty(), usual) is None


@given(st.integers(0, 2**32))
def test_what_is_drawn_is_legal_and_comes_back_by_its_names(seed: int):
    p = sample(SPACE, random.Random(seed))
    assert p is not None
    again = draw(SPACE, by_name(p.values))
    assert again is not None
    assert (again.hash, again.trace) == (p.hash, p.trace)


@given(st.integers(0, 2**32))
def test_mutants_and_children_are_other_points_of_the_space(seed: int):
    rng, everything = random.Random(seed), {p.hash for p in points(SPACE)}
    a, b = sample(SPACE, rng), sample(SPACE, rng)
    assert a is not None
    assert b is not None
    m = mutate(SPACE, a, rng)
    assert m is not None
    assert m.hash in everything - {a.hash}
    child = cross(SPACE, a, b, rng)
    if child is not None:
        assert child.hash in everything
        for name in set(a.values) & set(b.values) & set(child.values):
            assert child.values[name] in (a.values[name], b.values[name])


def test_what_comes_of_equal_seeds_is_equal():
    def some(seed: int) -> list[str]:
        rng = random.Random(seed)
        found = [sample(SPACE, rng) for _ in range(5)]
        return [p.hash for p in (*found, *(mutate(SPACE, p, rng) for p in found if p)) if p]

    assert some(3) == some(3)
    assert some(3) != some(4)


def test_neighbours_differ_in_one_choice():
    p = draw(SPACE, by_name({"rows": 4, "columns": 16}))
    assert p is not None
    near = list(neighbours(SPACE, p))
    assert {tuple(q.values.items()) for q in near if "rows" in q.values} == {
        tuple({**p.values, **change}.items())
        for change in ({"rows": 2}, {"rows": 1}, {"columns": 8}, {"order": "columns first"})
    }
    assert sum("rows" not in q.values for q in near) == 1


@pytest.mark.parametrize(("wanted", "found"), [(64, 32), (22, 16), (24, 32), (1, 8), (10, 8)])
def test_of_numbers_that_are_no_choice_the_nearest_is_taken(wanted: int, found: int):
    p = draw(SPACE, by_name({"columns": wanted, "rows": 2}))
    assert p is not None
    assert p.values["columns"] == found


def test_a_space_without_choices_has_no_mutants():
    class One(Tiles):
        def build(self, choose: Choose) -> Schedule:
            return double.schedule()

    p = draw(One(), usual)
    assert p is not None
    assert mutate(One(), p, random.Random(0)) is None
    assert list(neighbours(One(), p)) == []


def test_choices_at_random_are_among_the_choices():
    choose = at_random(random.Random(0))
    among: Sequence[Value] = (1, "two", (3, 4))
    assert {choose("x", among) for _ in range(50)} == set(among)


def test_a_step_to_a_number_beside_goes_by_size_and_not_by_place():
    d = Decision("tile", (8, 64, 4, 16, 32), 8)
    rng = random.Random(0)
    steps = [_other(d, rng) for _ in range(400)]
    assert 8 not in steps
    assert all(steps.count(near) > 2 * steps.count(far) for near in (4, 16) for far in (32, 64))

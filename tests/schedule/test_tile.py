"""tile: the splits and the order that it stands for."""

from __future__ import annotations

from tests.schedule.algorithms import gradient, matmul, prefix_sum
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4)
    golden(f"{s}\n\n{good(s)}")


def test_groups_say_the_same():
    a, b = Schedule(matmul()), Schedule(matmul())
    a["C.init"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4, tail="shift")
    b["C.init"].tile(("i", "j"), ("io", "jo"), ("ii", "ji"), (2, 4), tail="shift")
    assert a == b
    good(a)


def test_three_loops_and_one():
    s = Schedule(matmul())
    s["C.update"].tile(("i", "j", "k"), ("io", "jo", "ko"), ("ii", "ji", "ki"), (2, 3, 2))
    s["C.init"].tile("i", "io", "ii", 3)
    good(s)


def test_errors():
    s = Schedule(gradient())
    g = s["gradient"]
    refused(s, "arity", lambda: g.tile("y", "x", "yo", "xo", "yi", "xi", 4))
    refused(s, "arity", lambda: g.tile())
    refused(s, "name-twice", lambda: g.tile("y", "y", "yo", "xo", "yi", "xi", 4, 4))
    refused(s, "name-twice", lambda: g.tile("y", "x", "yo", "yo", "yi", "xi", 4, 4))
    refused(s, "factor", lambda: g.tile("y", "x", "yo", "xo", "yi", "xi", 4, 0))


def test_a_scan_is_not_taken_apart():
    s = Schedule(prefix_sum())
    s["s.update"].tile("i", "k", "io", "ko", "ii", "ki", 2, 2)
    good(s)

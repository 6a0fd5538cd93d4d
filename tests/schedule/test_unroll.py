"""unroll: extents that are constant, become so, or never will."""

from __future__ import annotations

from tests.schedule.algorithms import blur, gradient, matmul
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].unroll("k", 3).unroll("j", 2)
    golden(f"{s}\n\n{good(s)}")


def test_whole_loop():
    s = Schedule(gradient(3, 4))
    s["gradient"].unroll("x").unroll("y").unroll("y")
    good(s)


def test_symbolic_extent_is_refused_at_once():
    s = Schedule(matmul())
    refused(s, "extent", lambda: s["C.update"].unroll("k"), "known only at the call", "unroll('k', 8)")
    refused(s, "extent", lambda: s["C.init"].unroll("i"))
    s["C.init"].split("i", "io", "ii", 4)
    refused(s, "extent", lambda: s["C.init"].unroll("io"))
    good(s)


def test_an_extent_that_placement_makes_constant():
    s = Schedule(blur())
    s["blur_x"].compute_root().unroll("y")
    refused(s, "extent", s.check, "blur_x.y can't be unrolled", "split it first")
    s["blur_x"].compute_at("blur_y.y")
    good(s)


def test_budget():
    s = Schedule(matmul())
    s["C.update"].unroll("k", 16).unroll("j", 16).unroll("i", 15).reorder("i", "j", "k", "k_u", "j_u", "i_u")
    s.check()
    s["C.update"].split("i", "i", "ii", 2).unroll("ii")
    e = refused(s, "unroll-budget", s.check, "7681 stores of one nest", "C.update.k_u (16 times)")
    assert e.where[0].line


def test_the_budget_is_per_nest():
    s = Schedule(blur())
    s["blur_x"].compute_root().unroll("x", 64).unroll("y", 60)
    s["blur_y"].unroll("x", 64).unroll("y", 60)
    s.check()

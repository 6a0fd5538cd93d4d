"""vectorize: pure loops and reductions, one a stage, nothing inside; what is refused."""

from __future__ import annotations

from tests.schedule.algorithms import blur, gradient, largest, matmul, prefix_sum, triangle
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].reorder("i", "k", "j").vectorize("j", 4)
    s["C.init"].vectorize("j", 4)
    golden(f"{s}\n\n{good(s)}")


def test_reduction(golden):
    s = Schedule(matmul())
    s["C.update"].vectorize("k", 4)
    golden(f"{s}\n\n{good(s)}")


def test_reduction_of_pairs():
    s = Schedule(largest())
    s["arg.update"].vectorize("j", 4)
    good(s)


def test_a_scan_is_no_reduction():
    s = Schedule(prefix_sum())
    refused(s, "not-associative", lambda: s["s.update"].vectorize("k", 4))
    s["s.update"].vectorize("i", 2)
    good(s)


def test_scatter():
    s = Schedule(triangle())
    s["t.update"].vectorize("x", 2)
    good(s)


def test_one_a_stage():
    s = Schedule(gradient())
    g = s["gradient"].vectorize("x")
    refused(s, "vector-twice", lambda: g.vectorize("y"), "has a vector loop already: x")
    good(s)


def test_nothing_is_computed_inside():
    s = Schedule(blur())
    s["blur_y"].vectorize("x", 4)
    refused(s, "illegal-place", lambda: s["blur_x"].compute_at("blur_y.x_v"), "x_v is a vector loop", "blur_y.x")
    s["blur_x"].compute_at("blur_y.x")
    good(s)
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.x")
    refused(s, "vector-inside", lambda: s["blur_y"].vectorize("x", 4), "blur_x would stand inside")
    s["blur_y"].split("x", "xo", "xi", 4)
    refused(s, "vector-inside", lambda: s["blur_y"].vectorize("xi"))


def test_symbolic_extent():
    s = Schedule(blur())
    refused(s, "extent", lambda: s["blur_y"].vectorize("x"), "vectorize('x', 8)")
    s["blur_x"].compute_root().vectorize("x")
    refused(s, "extent", s.check, "blur_x.x can't be vectorized")


def test_parallel_stands_outside():
    s = Schedule(gradient())
    g = s["gradient"].vectorize("y")
    refused(s, "vector-inside", lambda: g.parallel("x"))
    s = Schedule(gradient())
    g = s["gradient"].parallel("x")
    refused(s, "vector-inside", lambda: g.vectorize("y"))
    refused(s, "loop-mode", lambda: g.vectorize("x"))


def test_outer_loop():
    s = Schedule(matmul())
    s["C.update"].reorder("j", "k", "i").vectorize("i", 4)
    good(s)

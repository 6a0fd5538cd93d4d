"""fuse: order, attachments, empty ranges; what is refused."""

from __future__ import annotations

from tests.schedule.algorithms import blur, convolution, gradient, halves, matmul
from tests.schedule.helpers import agrees, good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.init"].fuse("i", "j", "t").split("t", "to", "ti", 4)
    golden(good(s))


def test_reduction_loops_keep_their_order():
    s = Schedule(convolution())
    s["conv.update"].fuse("dy", "dx", "t").split("t", "to", "ti", 2)
    good(s)


def test_what_was_attached_goes_to_the_fused_loop():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y")
    s["blur_y"].fuse("y", "x", "t")
    assert s.state.funcs["blur_x"].compute.loop == "t"
    good(s)


def test_errors():
    s = Schedule(matmul())
    C = s["C.update"]
    refused(s, "not-adjacent", lambda: C.fuse("i", "k", "t"), "are i, j, k", "reorder")
    refused(s, "not-adjacent", lambda: C.fuse("j", "i", "t"))
    refused(s, "not-adjacent", lambda: C.fuse("i", "i", "t"))
    refused(s, "fuse-mixed", lambda: C.fuse("j", "k", "t"), "only k is a reduction loop")
    refused(s, "name-twice", lambda: C.fuse("i", "j", "k"))
    C.parallel("i")
    refused(s, "loop-mode", lambda: C.fuse("i", "j", "t"))


def test_what_is_fused_may_be_bounded_further_out():
    s = Schedule(blur())
    s["blur_y"].fuse("y", "x", "t")
    s["blur_x"].compute_at("blur_y.t").store_root()
    good(s)


def test_empty_twice_is_empty():
    """Two extents below zero have a positive product."""
    p = halves()
    s = Schedule(p)
    s["p"].compute_root().fuse("y", "x", "t")
    good(s)
    agrees(s, {"M": 0, "N": 0})


def test_extent_zero():
    s = Schedule(gradient(0, 3))
    s["gradient"].fuse("y", "x", "t")
    good(s)
    s = Schedule(gradient(3, 0))
    s["gradient"].fuse("y", "x", "t")
    good(s)

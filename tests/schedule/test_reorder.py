"""reorder: pure loops move freely, reductions where their operator allows it."""

from __future__ import annotations

from tests.schedule.algorithms import convolution, float_matmul, largest, matmul, prefix_sum, triangle
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].reorder("k", "i", "j")
    golden(good(s))


def test_unnamed_loops_keep_their_place():
    s = Schedule(matmul())
    s["C.update"].reorder("k", "i")
    assert s["C.update"].loops == ("k", "j", "i")
    good(s)


def test_integers_may_be_summed_in_any_order():
    s = Schedule(convolution())
    s["conv.update"].reorder("dx", "dy")
    assert s.state.reassociations == ()
    good(s)
    t = Schedule(triangle())
    t["t.update"].reorder("x", "y")
    good(t)


def test_floats_are_marked():
    s = Schedule(float_matmul())
    s["C.update"].split("k", "ko", "ki", 4).reorder("ki", "ko")
    assert s.state.reassociations == ("C.update reorder",)
    s = Schedule(float_matmul())
    s["C.update"].split("k", "ko", "ki", 4).reorder("ko", "ki", "i", "j")
    assert s.state.reassociations == ()


def test_an_unknown_reduction_keeps_its_order():
    s = Schedule(prefix_sum())
    u = s["s.update"].split("k", "ko", "ki", 2)
    refused(s, "reduction-order", lambda: u.reorder("ki", "ko"), "must keep their order (ko, ki)", "associative")
    u.reorder("ko", "ki", "i")
    good(s)


def test_argmax_takes_the_first_of_equal_values():
    s = Schedule(largest())
    u = s["arg.update"].split("j", "jo", "ji", 2)
    refused(s, "reduction-order", lambda: u.reorder("ji", "jo"), "takes the first of equal values")
    good(s)


def test_errors():
    s = Schedule(matmul())
    refused(s, "name-twice", lambda: s["C.update"].reorder("i", "j", "i"), "i is named twice")
    refused(s, "unknown-loop", lambda: s["C.init"].reorder("k", "i"), "C.init has no loop 'k'")
    refused(s, "arity", lambda: s["C.init"].reorder())

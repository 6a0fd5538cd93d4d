"""bound, align, pad."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.algorithms import accumulate, blur, chain, edge_blur, gradient, matmul, prefix_sum
from tests.schedule.helpers import agrees, good, refused
from tests.schedule.native import natively
from tests.schedule.nest_oracle import NestError
from tilewright.codegen.compile import compile_schedule
from tilewright.lang.errors import BoundsError
from tilewright.schedule.schedule import Schedule, parse_schedule


def nest(s: Schedule) -> str:
    """Text and nest, for schedules that not every size allows."""
    assert parse_schedule(str(s), s.pipeline) == s
    s.check()
    return f"{s}\n\n{s.loops()}"


def test_bound_of_an_output(golden):
    s = Schedule(matmul())
    s["C"].bound("j", 0, 6).bound("i", 0, 8)
    s["C.update"].vectorize("j")
    golden(nest(s))
    agrees(s, {"M": 8, "N": 6, "K": 3})
    natively(s, {"M": 8, "N": 6, "K": 3}, {"M": 8, "N": 6, "K": 0})


def test_a_size_known_by_a_bound_is_known_everywhere(golden):
    s = Schedule(blur())
    s["blur_x"].compute_root()
    s["blur_y"].bound("y", 0, 6).bound("x", 0, 5)
    golden(nest(s))
    agrees(s, {"M": 8, "N": 7})


def test_a_broken_promise():
    s = Schedule(matmul())
    s["C"].bound("j", 0, 6)
    compiled = compile_schedule(s.pipeline, s, "strict")
    a, b = np.zeros((3, 4), np.int32), np.zeros((4, 7), np.int32)
    with pytest.raises(BoundsError, match=r"C is needed over 0..6 of its axis j") as e:
        compiled(a, b)
    assert e.value.code == "bounds.schedule"


def test_bound_of_an_intermediate(golden):
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y").bound("x", 0, 8)
    golden(nest(s))
    agrees(s, {"M": 4, "N": 8})
    natively(s, {"M": 4, "N": 8}, {"M": 5, "N": 3}, {"M": 0, "N": 8})
    with pytest.raises(BoundsError, match=r"blur_x is needed over 0..8"):
        natively(s, {"M": 4, "N": 9})


def test_bound_of_an_inout():
    s = Schedule(accumulate())
    axis = s.state.funcs["C"].func.args[1].attr
    s["C"].bound(axis, 0, 6)
    nest(s)
    agrees(s, {"M": 3, "N": 6, "K": 2})


def test_bounds_that_never_hold():
    s = Schedule(gradient(4, 4))
    refused(s, "bound", lambda: s["gradient"].bound("x", 0, 5), "never has the range 0..5")
    refused(s, "bound", lambda: s["gradient"].bound("x", 1, 4))
    s["gradient"].bound("x", 0, 4)
    refused(s, "axis-twice", lambda: s["gradient"].bound("x", 0, 4))
    refused(s, "axis", lambda: s["gradient"].bound("z", 0, 4), "its axes: y, x")
    p = Schedule(prefix_sum())
    refused(p, "bound", lambda: p["s"].bound("i", 1, 4))
    b = Schedule(blur())
    refused(b, "inlined", lambda: b["blur_x"].bound("x", 0, 4), "compute_root")
    refused(b, "factor", lambda: b["blur_y"].bound("x", "0", 4))
    for act in (lambda h: h.bound("x", 0, 4), lambda h: h.align("x", 4), lambda h: h.pad("x", 4)):
        c = Schedule(blur())
        act(c["blur_x"].compute_root())
        refused(c, "inlined", c["blur_x"].compute_inline)


def test_align(golden):
    s = Schedule(edge_blur())
    s["blur_x"].compute_root().align("x", 4)
    s["blur_x"].vectorize("x", 4)
    golden(f"{s}\n\n{good(s)}")
    natively(s, {"M": 4, "N": 8}, {"M": 5, "N": 3}, {"M": 0, "N": 8}, {"M": 3, "N": 0}, {"M": 13, "N": 33})


@pytest.mark.parametrize("remainder", [0, 1, -1, 7])
def test_align_with_remainder(remainder):
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y").align("x", 3, remainder).align("y", 2, remainder)
    good(s)
    natively(s, {"M": 4, "N": 8}, {"M": 0, "N": 8}, {"M": 1, "N": 1})


def test_align_of_a_window_of_a_tile():
    s = Schedule(edge_blur())
    s["blur_y"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 5)
    s["blur_x"].compute_at("blur_y.xo").align("x", 4)
    good(s)
    natively(s, {"M": 5, "N": 11})


def test_align_asks_for_more_of_an_array():
    s = Schedule(blur())
    s["blur_x"].compute_root().align("x", 4)
    assert any("larger region of blur_x" in text for _, text in s.loops().nest.requirements)
    agrees(s, {"M": 4, "N": 10})
    natively(s, {"M": 4, "N": 10}, {"M": 4, "N": 2}, {"M": 2, "N": 9})
    with pytest.raises(BoundsError, match="larger region"):
        natively(s, {"M": 4, "N": 9})


def test_align_moves_on_to_producers(golden):
    s = Schedule(chain())
    s["a"].compute_root()
    s["b"].compute_root().align("x", 4)
    golden(nest(s))
    with pytest.raises(NestError, match="axis 0 of A holds what the larger region of a needs"):
        agrees(s, {"N": 10})


def test_outputs_are_not_ours():
    s = Schedule(matmul())
    refused(s, "output-place", lambda: s["C"].align("j", 4))
    refused(s, "output-place", lambda: s["C"].pad("j", 4))


def test_pad(golden):
    s = Schedule(blur())
    s["blur_x"].compute_root().pad("x", 16).pad("y", 2)
    golden(f"{s}\n\n{good(s)}")
    natively(s, {"M": 5, "N": 7}, {"M": 2, "N": 2})
    t = Schedule(blur())
    t["blur_x"].compute_at("blur_y.y").fold_storage("y", 3)
    refused(t, "fold", lambda: t["blur_x"].pad("y", 4))
    t["blur_x"].pad("x", 8).layout("y x -> x y")
    good(t)

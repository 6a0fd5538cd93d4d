"""Vectors that reach over the edge of a boundary condition: right at every size, and without a repair in every lane."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.codegen import loops as L
from tilewright.codegen.compile import Compiled
from tilewright.lang import ir

H, W = tw.sizes("H W")
CONDITIONS = {
    "repeat": tw.repeat_edge,
    "wrap": tw.wrap_around,
    "mirror": tw.reflect,
    "reflect": tw.reflect_interior,
    "constant": lambda a: tw.constant_exterior(a, 7),
}


def stencil(extend, reach: int):
    @tw.kernel
    def kernel(a: tw.i32[H, W]):
        y, x = tw.vars("y x")
        e = extend(a)
        f = tw.func("f")
        f[y, x] = e[y - reach, x] * 3 + e[y, x - reach] - e[y, x] + e[y, x + reach] * 5 + e[y + 1, x + 1]
        return f[:H, :W]

    return kernel


@pytest.mark.parametrize("reach", [1, 9])
@pytest.mark.parametrize("name", CONDITIONS)
def test_every_width(name, reach):
    kernel = stencil(CONDITIONS[name], reach)
    plain = kernel.schedule()
    plain["f"].vectorize("x", 8)
    tiles = kernel.schedule()
    tiles["f"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 16).split("xi", "xm", "xv", 8).unroll("yi").vectorize("xv")
    whole = kernel.schedule()
    whole["f"].reorder("x", "y").vectorize("y", 4)
    fast = [kernel.compile(s) for s in (plain, tiles, whole)]
    for h, w in [(1, 1), (3, 2), (2, 7), (5, 8), (1, 9), (3, 15), (2, 16), (4, 17), (2, 40), (11, 65)]:
        a = np.arange(h * w, dtype=np.int32).reshape(h, w) ** 2 % 101
        for f in fast:
            testing.assert_bitwise(f(a), kernel.reference(a))


def vectors(fast: Compiled) -> list[ir.Node]:
    """The expressions inside vector loops."""
    body = fast.build().lowered.program.body
    loops = [s for s in L.walk(body) if isinstance(s, L.For) and s.mode == L.VECTORIZE]
    stores = [t for s in loops for t in L.walk(s) if isinstance(t, L.Store)]
    return list(ir.postorder([n for t in stores for n in (*t.values, *(i for _, i in t.targets))]))


def test_lanes_that_wrap_around_run_one_by_one():
    kernel = stencil(tw.wrap_around, 1)
    s = kernel.schedule()
    s["f"].vectorize("x", 16)
    inner = [n for n in vectors(kernel.compile(s)) if n.op == "mod"]
    assert all(not any(v.attr.startswith("f.x") for v in ir.leaves([n], "var")) for n in inner)


def test_a_constant_beyond_the_edge_is_a_mask():
    kernel = stencil(CONDITIONS["constant"], 1)
    s = kernel.schedule()
    s["f"].vectorize("x", 16)
    assert any(n.op == "load_if" for n in vectors(kernel.compile(s)))

"""Register tiles at the edges of a strip: how many forms of the loop that does the work there are, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.interface import CONTIGUOUS
from tilewright.codegen.loops import SERIAL, For, walk
from tilewright.codegen.lower import Request, lower
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import integer
from tilewright.schedule.prove import facts_of
from tilewright.schedule.schedule import Schedule

H, W, C, N = tw.sizes("H W C N")


@tw.kernel
def across(a: tw.f32[H, W, C], w: tw.f32[C, N], bias: tw.f32[N]):
    """Products of every pixel, from strips of rows that are staged in rows of their own."""
    y, x, o = tw.vars("y x o")
    c = tw.rdom(c=C)
    near = tw.constant_exterior(a, 0.0, None, (0, W), None, name="near")
    total, out = tw.func("total"), tw.func("out")
    total[y, x, o] = bias[o]
    total[y, x, o] += near[y, x, c] * w[c, o]
    out[y, x, o] = tw.maximum(total[y, x, o], 0.0)
    return out[:H, :W, :N]


def tiled(align: bool) -> Schedule:
    s = across.schedule()
    s["out"].split("y", "yo", "yi", 3)
    s["total"].compute_at("out.yo")
    s["near"].compute_at("out.yo")
    if align:
        s["total"].align("x", 5)
    total = s["total.update"].split("x", "xo", "xi", 5).split("o", "oo", "ol", 8)
    total.reorder("oo", "y", "xo", "c", "xi", "ol").unroll("xi").vectorize("ol")
    s.cache_write("total", at="total.update.xo", memory="reg")
    s.layout("w", "c o -> o//8 c o%8")
    return s


def works(s: Schedule) -> int:
    """Forms of the loop over channels of the input, in which all the work is."""
    body = lower(Request(s.state, "strict", "k", (CONTIGUOUS,) * 4)).program.body
    return sum(isinstance(t, For) and t.mode == SERIAL and t.var.attr.endswith("update.c") for t in walk(body))


def test_the_loop_is_parted_for_its_own_conditions_only():
    """Where vectors end is a condition of what fills and stores the tile; where pixels end, of the work."""
    assert works(tiled(align=False)) == 2
    assert works(tiled(align=True)) == 1


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (3, 5, 2, 8), (4, 6, 3, 9), (7, 13, 4, 23), (2, 4, 0, 7), (0, 5, 2, 8)]
)
def test_what_they_compute(align, sizes):
    h, w, c, n = sizes
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((h, w, c), dtype=np.float32), rng.standard_normal((c, n), dtype=np.float32)
    bias = rng.standard_normal(n, dtype=np.float32)
    found = across.compile(tiled(align), mode="strict")(a, b, bias)
    np.testing.assert_array_equal(found, across.reference(a, b, bias))


def test_rows_of_a_strip_lie_inside_it():
    """Of a strip that ends where the picture does: the place of a row in it is proven, though its end is a minimum."""
    x, y = ir.var("x"), ir.var("y")
    size, four, one = ir.size("H"), integer(4), integer(1)
    start = simplify.mul(y, four)
    last = simplify.sub(simplify.minimum(size, simplify.add(start, four)), one)
    strips = simplify.sub(simplify.floordiv(simplify.add(size, integer(3)), four), one)
    inside = facts_of(()).entering(y, Interval(integer(0), strips))
    inside = inside.entering(x, Interval(start, last))
    place = simplify.sub(x, start)
    assert inside.nonnegative(place)
    assert inside.nonnegative(simplify.sub(integer(3), place))
    assert not inside.nonnegative(simplify.sub(integer(2), place))

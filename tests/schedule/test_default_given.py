"""Where an argument is given in a layout, the default schedule goes by how it lies: nothing is packed that lies well."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.codegen.physical import pack, unpack
from tilewright.schedule.default import complete
from tilewright.schedule.layout import parse_index_map

M, N, K = tw.sizes("M N K")
RNG = np.random.default_rng(0)


def whole(*shape):
    return np.float32(RNG.integers(-3, 4, shape))


@tw.kernel
def by_rows(x: tw.f32[M, K], w: tw.f32[N, K]):
    return ops.linear(x, w, transpose=True)


def packings(s):
    return [d for d in complete(s).directives if d.kind == "cache_read"]


@pytest.mark.parametrize("layout", ["n k -> k n", "n k -> n//32 k n%32", "n k -> n//16 k n%16"])
def test_a_weight_in_panels_is_not_packed_again(layout):
    s = by_rows.schedule()
    assert len(packings(s)) == 1
    s.layout("w", layout, given=True)
    assert not packings(s)
    fast = by_rows.compile(s)
    for m, n, k in ((1, 40, 7), (30, 33, 16), (5, 0, 3)):
        x, w = whole(m, k), whole(n, k)
        got = fast(x, pack(w, parse_index_map(layout)), sizes={"N": n})
        np.testing.assert_array_equal(got, by_rows.reference(x, w))


@tw.kernel
def columns(x: tw.f32[M, K], w: tw.f32[K, N]):
    return ops.linear(x, w)


def test_a_weight_that_is_given_across_is_packed():
    s = columns.schedule().layout("w", "k n -> n k", given=True)
    assert len(packings(s)) == 1
    fast, x, w = columns.compile(s), whole(30, 20), whole(20, 45)
    np.testing.assert_array_equal(fast(x, np.ascontiguousarray(w.T)), columns.reference(x, w))


@tw.kernel
def copied(x: tw.f32[M, N]):
    i, j = tw.vars("i j")
    c = tw.func("c")
    c[i, j] = x[i, j]
    return c[:M, :N]


@pytest.mark.parametrize("given", [None, "i j -> j i", "i j -> j//8 i j%8"])
@pytest.mark.parametrize("wanted", ["i j -> j i", "i j -> j//16 i j%16", "i j -> i//8 j i%8"])
def test_copies_between_layouts(given, wanted):
    """Vectors run along what is written, and what lies across is transposed in registers."""
    s = copied.schedule().layout("c", wanted, given=True)
    if given:
        s.layout("x", given, given=True)
    (vector,) = [d.operands[0] for d in complete(s).directives if d.kind == "vectorize"]
    assert vector.split("_")[0] == ("j" if wanted.endswith("%16") else "i")
    fast = copied.compile(s)
    for shape in ((50, 37), (1, 3)):
        x = whole(*shape)
        got = fast(pack(x, parse_index_map(given)) if given else x, sizes=dict(zip("MN", shape, strict=True)))
        np.testing.assert_array_equal(unpack(got, parse_index_map(wanted), shape), x)


def test_what_is_converted_at_the_root_is_not_packed_again():
    s = by_rows.schedule().layout("w", "n k -> n//32 k n%32")
    assert not packings(s)
    full = complete(s)
    assert [d.operands[0] for d in full.directives if d.kind == "vectorize" and d.stage == "w_packed"] == ["n_t"], full
    x, w = whole(30, 16), whole(33, 16)
    np.testing.assert_array_equal(by_rows.compile(s)(x, w), by_rows.reference(x, w))


def test_what_is_given_in_a_layout_may_be_converted_to_another():
    s = by_rows.schedule().layout("w", "n k -> k n", given=True).layout("w", "n k -> n//32 k n%32")
    x, w = whole(30, 16), whole(33, 16)
    fast = by_rows.compile(s)
    np.testing.assert_array_equal(fast(x, np.ascontiguousarray(w.T)), by_rows.reference(x, w))


def test_a_tile_of_a_result_that_is_given_across_lies_across():
    s = columns.schedule().layout("linear", "i j -> j i", given=True)
    tiles = [d for d in complete(s).directives if d.kind == "cache_write"]
    assert [d.option("layout") for d in tiles] == ["a0 a1 -> a1 a0"]
    for shape in ((40, 20, 50), (1, 3, 2)):
        x, w = whole(*shape[:2]), whole(*shape[1:])
        np.testing.assert_array_equal(columns.compile(s)(x, w).T, columns.reference(x, w))


@tw.kernel
def turned(x: tw.f32[M, K], w: tw.f32[N, K]):
    return ops.linear(x, ops.transpose(ops.reshape(ops.transpose(w), (K, N))), transpose=True)


def test_a_layout_is_seen_through_views():
    s = turned.schedule()
    for f in turned.pipeline().funcs[:-1]:
        s[f.name].compute_inline()
    assert len(packings(s)) == 1
    s.layout("w", "n k -> k n", given=True)
    assert not packings(s)
    x, w = whole(20, 5), whole(33, 5)
    got = turned.compile(s)(x, np.ascontiguousarray(w.T))
    np.testing.assert_array_equal(got, turned.reference(x, w))

"""Loads and stores in lanes: every index pattern, masks at every length, and nothing touched beyond what was asked."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codegen.emit_support import argument, load, load_if, loop, program, put, run, same
from tilewright.codegen.emit import emit
from tilewright.codegen.loops import VECTORIZE, Allocate, Buffer, If, Store, block
from tilewright.lang import ir, types
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, compare, floordiv, maximum, minimum, mod, mul
from tilewright.lang.types import bf16, bool_, f16, f32, f64, index

ALL = (*types.INTEGERS, f16, bf16, f32, f64, bool_)
LANE = ir.var("l")
I = ir.var("i")


class Guarded:
    """An array that ends (or starts) at a page that must not be touched."""

    def __init__(self, n: int, dtype: np.dtype, at_end: bool):
        page = mmap.PAGESIZE
        pages = -(-n * dtype.itemsize // page)
        self.map = mmap.mmap(-1, (pages + 2) * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self._protect(base, 0)
        self._protect(base + (pages + 1) * page, 0)
        offset = (pages + 1) * page - n * dtype.itemsize if at_end else page
        self.array = np.frombuffer(self.map, dtype, n, offset)
        self.base, self.pages = base, pages

    def _protect(self, address: int, mode: int) -> None:
        libc = ctypes.CDLL(None)
        assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), mode) == 0


def fill(a: np.ndarray, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if a.dtype == np.bool_:
        a[:] = rng.integers(0, 2, a.shape)
    elif a.dtype.kind in "iu":
        a[:] = rng.integers(np.iinfo(a.dtype).min, np.iinfo(a.dtype).max, a.shape, dtype=a.dtype)
    else:
        a[:] = rng.standard_normal(a.shape).astype(a.dtype)
    return a


def patterns(n: int) -> dict[str, tuple[Node, np.ndarray, int]]:
    """Lane index expressions, the indices they stand for, and the length of the array that they just reach into."""
    lanes = np.arange(n)
    out: dict[str, tuple[Node, np.ndarray, int]] = {}

    def put_(name: str, e: Node, at: np.ndarray) -> None:
        out[name] = (e, at, int(at.max()) + 1)

    put_("contiguous", LANE, lanes)
    put_("reversed", add(mul(LANE, integer(-1)), integer(n - 1)), n - 1 - lanes)
    for s in (2, 3, 4, 5):
        put_(f"stride {s}", mul(LANE, integer(s)), s * lanes)
    put_("stride -2", add(mul(LANE, integer(-2)), integer(2 * n - 2)), 2 * n - 2 - 2 * lanes)
    put_("same", integer(3), 0 * lanes + 3)
    put_("pairs", floordiv(LANE, integer(2)), lanes // 2)
    put_("cycle", mod(LANE, integer(3)), lanes % 3)
    put_("swizzle", add(mul(mod(LANE, integer(2)), integer(n)), floordiv(LANE, integer(2))), lanes % 2 * n + lanes // 2)
    put_("square", mul(LANE, LANE), lanes * lanes)
    put_(
        "clamped",
        minimum(maximum(add(LANE, integer(-2)), integer(0)), ir.size("C")),
        np.clip(lanes - 2, 0, max(n - 4, 0)),
    )
    put_("size stride", mul(LANE, ir.size("S")), lanes * 7)
    put_("two strides", add(mul(LANE, ir.size("S")), mul(LANE, integer(3))), lanes * 10)
    return out


@pytest.mark.parametrize("n", (2, 3, 4, 8, 16, 31))
@pytest.mark.parametrize("t", (f32, types.u8, f64, f16, bool_), ids=repr)
def test_index_patterns_of_loads_and_stores(t, n):
    for name, (e, at, size) in patterns(n).items():
        given_sizes = {"sizes": [max(n - 4, 0), 7]}
        for at_end in (True, False):
            source, target = Guarded(size, t.np, at_end), Guarded(n, t.np, at_end)
            fill(source.array)
            a, b = argument("A", t, 0), argument("B", t, 1)
            p = program([a, b], loop(LANE, n, put(b, LANE, load(a, e)), VECTORIZE), sizes=["C", "S"])
            assert run(p, [source.array, target.array], **given_sizes) == 0
            assert same(target.array, source.array[at]), name
        if len(set(at)) < n:
            continue
        back, values = Guarded(size, t.np, True), fill(np.empty(n, t.np), 1)
        fill(back.array, 2)
        expected = back.array.copy()
        expected[at] = values
        p = program([a, b], loop(LANE, n, put(a, e, load(b, LANE)), VECTORIZE), sizes=["C", "S"])
        assert run(p, [back.array, values], **given_sizes) == 0
        assert same(back.array, expected), name


def test_a_store_of_all_lanes_to_one_element_keeps_the_last():
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    p = program([a, b], loop(LANE, 8, put(b, integer(0), load(a, LANE)), VECTORIZE))
    x, y = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    assert run(p, [x, y]) == 0
    assert y[0] == 7
    p = program(
        [a, b], loop(LANE, 8, If(compare("lt", LANE, integer(5)), put(b, integer(0), load(a, LANE))), VECTORIZE)
    )
    assert run(p, [x, y]) == 0
    assert y[0] == 4


@pytest.mark.parametrize("t", ALL, ids=repr)
def test_data_dependent_gather_and_scatter(t):
    n = 8
    ix, a, b = argument("ix", types.i32, 0), argument("A", t, 1), argument("B", t, 2)
    at = ir.node("cast", index, (load(ix, LANE),))
    rng = np.random.default_rng(0)
    places = rng.permutation(20)[:n].astype(np.int32)
    x, y = fill(np.empty(20, t.np)), np.zeros(n, t.np)
    assert run(program([ix, a, b], loop(LANE, n, put(b, LANE, load(a, at)), VECTORIZE)), [places, x, y]) == 0
    assert same(y, x[places])
    z = fill(np.empty(20, t.np), 3)
    want = z.copy()
    want[places] = y
    assert run(program([ix, a, b], loop(LANE, n, put(a, at, load(b, LANE)), VECTORIZE)), [places, z, y]) == 0
    assert same(z, want)


@pytest.mark.parametrize("n", (3, 4, 8, 16, 32))
@pytest.mark.parametrize("t", (f32, f64, types.i8, types.i16, f16, bf16, bool_), ids=repr)
def test_tails_touch_nothing_beyond_the_end(t, n):
    """A guarded tail: for every length the arrays end at a protected page."""
    a, b, c = argument("A", t, 0), argument("B", t, 1), argument("C", t, 2)
    at = add(mul(I, integer(n)), LANE)
    backwards = add(ir.size("N"), add(mul(at, integer(-1)), integer(-1)))
    inside = compare("lt", at, ir.size("N"))
    body = If(inside, block(put(b, at, load(a, at)), put(c, backwards, load(a, at))))
    p = program(
        [a, b, c],
        loop(I, floordiv(add(ir.size("N"), integer(n - 1)), integer(n)), loop(LANE, n, body, VECTORIZE)),
        sizes=["N"],
    )
    for size in range(1, 2 * n + 2):
        for at_end in (True, False):
            arrays = [Guarded(size, t.np, at_end) for _ in range(3)]
            fill(arrays[0].array, size)
            assert run_once(p)(arrays, size) == 0
            assert same(arrays[1].array, arrays[0].array)
            assert same(arrays[2].array, arrays[0].array[::-1])


_kept: dict = {}


def run_once(p):
    from tests.codegen.emit_support import call, compiled

    if p not in _kept:
        _kept.clear()
        _kept[p] = compiled(emit(p))
    return lambda arrays, size: call(_kept[p], [a.array for a in arrays], sizes=[size])


@pytest.mark.parametrize("strided", (1, -1, 2, 7), ids=str)
def test_masked_strided_access_leaves_other_elements_alone(strided):
    n = 8
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    e = add(mul(LANE, integer(strided)), integer(8 if strided < 0 else 0))
    mask_buffer = argument("mask", bool_, 2)
    body = If(load(mask_buffer, LANE), put(b, e, load(a, e)), put(b, add(e, integer(100)), load(a, e)))
    p = program([a, b, mask_buffer], loop(LANE, n, body, VECTORIZE))
    rng = np.random.default_rng(1)
    at = np.arange(n) * strided + (8 if strided < 0 else 0)
    for _ in range(6):
        mask = rng.integers(0, 2, n).astype(bool)
        x, y = rng.standard_normal(200).astype(np.float32), np.zeros(200, np.float32)
        want = y.copy()
        want[at[mask]] = x[at[mask]]
        want[100 + at[~mask]] = x[at[~mask]]
        assert run(p, [x, y, mask]) == 0
        assert same(y, want)


@pytest.mark.parametrize("t", (f32, types.u8, f64, bool_, f16), ids=repr)
@pytest.mark.parametrize("n", (0, 4, 8))
def test_load_if_reads_only_where_its_mask_holds(t, n):
    """Zero padding around an array that ends at protected pages."""
    size, pad = 13, 5
    a, b = argument("A", t, 0), argument("B", t, 1)
    at = add(mul(I, integer(n)), LANE) if n else I
    for scale in (1, -1, 2):
        place = add(mul(at, integer(scale)), integer(-pad if scale > 0 else size + pad))
        mask = ir.node("and", bool_, (compare("ge", place, integer(0)), compare("lt", place, ir.size("N"))))
        body = put(b, at, load_if(a, mask, place))
        count = 24
        body = loop(LANE, n, body, VECTORIZE) if n else body
        p = program([a, b], loop(I, count // max(n, 1), body), sizes=["N"])
        for at_end in (True, False):
            x, y = Guarded(size, t.np, at_end), fill(np.empty(count, t.np), 4)
            fill(x.array)
            where = np.arange(count) * scale + (-pad if scale > 0 else size + pad)
            ok = (where >= 0) & (where < size)
            want = np.where(ok, x.array[np.where(ok, where, 0)], np.zeros(1, t.np))
            assert run(p, [x.array, y], sizes=[size]) == 0
            assert same(y, want.astype(t.np))


def test_load_if_with_one_mask_for_all_lanes_and_with_lanes_of_one_element():
    n = 8
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    for pattern in (LANE, mul(LANE, integer(3)), mul(LANE, ir.size("N"))):
        uniform = compare("gt", ir.size("N"), integer(0))
        p = program([a, b], loop(LANE, n, put(b, LANE, load_if(a, uniform, pattern)), VECTORIZE), sizes=["N"])
        y = np.ones(n, np.float32)
        assert run(p, [np.zeros(0, np.float32), y], sizes=[0]) == 0
        assert not y.any()
    by_lane = compare("lt", LANE, ir.size("N"))
    p = program([a, b], loop(LANE, n, put(b, LANE, load_if(a, by_lane, ir.size("P"))), VECTORIZE), sizes=["N", "P"])
    for k in (0, 3, 8):
        y = np.ones(n, np.float32)
        assert run(p, [np.array([2.5], np.float32), y], sizes=[k, 0 if k else 10**12]) == 0
        assert same(y, np.where(np.arange(n) < k, np.float32(2.5), np.float32(0)))


def test_a_uniform_load_under_a_mask_is_skipped_where_no_lane_is_active():
    n = 8
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    body = If(compare("lt", LANE, ir.size("N")), put(b, LANE, load(a, ir.size("P"))))
    p = program([a, b], loop(LANE, n, body, VECTORIZE), sizes=["N", "P"])
    y = np.ones(n, np.float32)
    assert run(p, [np.zeros(0, np.float32), y], sizes=[0, 10**12]) == 0
    assert y.all()


def test_an_index_that_is_the_same_in_all_lanes_is_so_under_a_mask():
    """A loaded place and a loaded bound stay scalars where some lanes are off; nothing is loaded where all are."""
    n, m = 8, ir.size("M")
    a, b, k = (argument(x, t, i) for i, (x, t) in enumerate((("a", types.i64), ("b", types.i64), ("k", types.i64))))
    at = ir.node("cast", index, (load(b, integer(0)),))
    only = ir.node("cast", index, (load_if(b, compare("lt", m, integer(100)), integer(1)),))
    place = add(mul(at, integer(n)), add(mul(only, integer(n)), LANE))
    inner = block(put(a, place, load(k, LANE)), loop(I, at, put(a, place, mul_i64(load(a, place), 3))))
    p = program([a, b, k], loop(LANE, n, If(compare("lt", LANE, m), inner), VECTORIZE), sizes=("M",))
    for count in (0, 3, 8):
        got, given = np.zeros(4 * n, np.int64), np.arange(1, n + 1)
        assert run(p, [got, np.array([2, 1]), given], sizes=[count]) == 0
        expected = np.zeros(4 * n, np.int64)
        expected[3 * n : 3 * n + count] = 9 * given[:count]
        assert same(got, expected)


def mul_i64(n: Node, c: int) -> Node:
    return ir.node("mul", types.i64, (n, ir.const(c, types.i64)))


def test_a_store_of_several_values_settles_its_places_first():
    """The place may be read from what is written: of the old content, for all of the values."""
    a, b = argument("a", types.i64, 0), argument("b", types.i64, 1)
    at = ir.node("cast", index, (load(a, I),))
    step = ir.node("add", types.i64, (load(a, at), ir.const(1, types.i64)))
    p = program([a, b], loop(I, 4, Store(((a, at), (b, at)), (step, load(b, I)))))
    ours = [np.array([2, 0, 3, 1, 0, 0]), np.array([10, 20, 30, 40, 0, 0])]
    theirs = [x.copy() for x in ours]
    for i in range(4):
        k = theirs[0][i]
        theirs[0][k], theirs[1][k] = theirs[0][k] + 1, theirs[1][i]
    assert run(p, ours) == 0
    assert same(ours[0], theirs[0])
    assert same(ours[1], theirs[1])


@pytest.mark.parametrize("memory", ("reg", "main"))
def test_masked_stores_to_private_memory(memory):
    """A temporary whose size is no multiple of the lanes, filled under masks that reach beyond it."""
    n, size = 8, 13
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    t = Buffer("t", f32, integer(size), memory)
    u = ir.var("u")
    at = add(mul(u, integer(n)), LANE)
    fill_ = loop(
        u, 2, loop(LANE, n, If(compare("lt", at, integer(size)), put(t, at, load(a, at))), VECTORIZE), "unroll"
    )
    copy = loop(I, size, put(b, I, load(t, I)))
    p = program([a, b], Allocate(t, block(fill_, copy)))
    x, y = Guarded(size, np.dtype(np.float32), True), np.zeros(size, np.float32)
    fill(x.array)
    assert run(p, [x.array, y]) == 0
    assert same(y, x.array)


@given(st.data())
def test_affine_indices_with_loops_around(data):
    """Random affine indices over two loops and lanes, positive and negative."""
    n = data.draw(st.sampled_from([2, 4, 5, 8]))
    j = ir.var("j")
    coefs = [data.draw(st.integers(-4, 4)) for _ in range(3)]
    extents = [3, 2, n]
    low = sum(min(0, c * (e - 1)) for c, e in zip(coefs, extents, strict=True))
    high = sum(max(0, c * (e - 1)) for c, e in zip(coefs, extents, strict=True))
    e = integer(-low)
    for v, c in zip((I, j, LANE), coefs, strict=True):
        e = add(e, mul(v, integer(c)))
    out = add(add(mul(I, integer(2 * n)), mul(j, integer(n))), LANE)
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    mode = data.draw(st.sampled_from(["serial", "unroll"]))
    p = program([a, b], loop(I, 3, loop(j, 2, loop(LANE, n, put(b, out, load(a, e)), VECTORIZE), mode)))
    x = Guarded(high - low + 1, np.dtype(np.float32), data.draw(st.booleans()))
    fill(x.array)
    y = np.zeros(6 * n, np.float32)
    assert run(p, [x.array, y]) == 0
    grid = np.ogrid[0:3, 0:2, 0:n]
    where = sum(c * g for c, g in zip(coefs, grid, strict=True)) - low
    assert same(y.reshape(3, 2, n), x.array[np.broadcast_to(where, (3, 2, n))])

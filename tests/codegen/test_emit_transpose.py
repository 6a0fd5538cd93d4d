"""Tiles whose loads and stores run along different axes: the values of gathers and scatters, and none of their code."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.emit_support import argument, load, loop, program, put, run, same
from tests.codegen.test_emit_memory import ALL, Guarded, fill
from tilewright.codegen.emit import emit
from tilewright.codegen.emit.builder import Function, Module
from tilewright.codegen.emit.network import transposed
from tilewright.codegen.loops import UNROLL, VECTORIZE, Store, block
from tilewright.lang import ir
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, mul
from tilewright.lang.types import DType, f16, f32, f64, i32, index, u8, u16

U, V, K = ir.var("u"), ir.var("v"), ir.var("k")
S, W = ir.size("S"), ir.size("W")
POWERS = (2, 4, 8, 16)


def plus(*terms: Node) -> Node:
    out = integer(0)
    for t in terms:
        out = add(out, t)
    return out


def tile(n: int, m: int, *stores: Store):
    return loop(U, n, loop(V, m, block(*stores), VECTORIZE), UNROLL)


def changed(dtype: DType, x: Node) -> Node:
    """An elementwise function of a value that gives the same bits in NumPy."""
    if dtype.is_bool:
        return ir.node("not", dtype, (x,))
    if dtype.name in ("f16", "bf16"):
        doubled = ir.node("mul", f32, (x, ir.const(2.0, f32)))
        return ir.node("round_to", f32, (doubled,), dtype)
    return ir.node("mul", dtype, (x, ir.const(2, dtype)))


def expected(a: np.ndarray, dtype: DType) -> np.ndarray:
    return ~a if dtype.is_bool else (a * np.asarray(2).astype(a.dtype)).astype(a.dtype)


def padded(rows: int, columns: int, step: int, dtype: DType, at_end: bool) -> tuple[Guarded, np.ndarray]:
    """Rows `step` elements apart, ending (or starting) at a page that must not be touched."""
    g = Guarded((rows - 1) * step + columns, dtype.np, at_end)
    view = np.lib.stride_tricks.as_strided(g.array, (rows, columns), (step * dtype.bytes, dtype.bytes))
    return g, view


# The network ----------------------------------------------------------------------------------------------------


def simulated(lines: list[str], rows: int, columns: int, out: list[str]) -> list[list[object]]:
    """The shuffles of a network on vectors of names."""
    known: dict[str, list[object]] = {f"%r{i}": [(i, k) for k in range(columns)] for i in range(rows)}
    for line in lines:
        name, n, a, b, mask = re.fullmatch(
            r"  (\S+) = shufflevector <(\d+) x \w+> (\S+), <\d+ x \w+> (\S+), <\d+ x i32> <(.*)>", line
        ).groups()  # type: ignore[union-attr]
        nothing: list[object] = [None] * int(n)
        both = known.get(a, nothing) + known.get(b, nothing)
        assert len(both) == 2 * int(n)
        known[name] = [both[int(k.split()[1])] for k in mask.split(", ")]
    return [known[x] for x in out]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_network_of_every_shape(size):
    scalar = f"i{8 * size}"
    for columns, rows in itertools.product((*POWERS, 32, 64), (2, 3, 4, 5, 7, 8, 14, 16, 31, 32)):
        f = Function(Module())
        out = transposed(f, scalar, size, [f"%r{i}" for i in range(rows)], columns)
        got = simulated(f.lines, rows, columns, out)
        assert got == [[(i, k) for i in range(rows)] for k in range(columns)]


# Values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("towards", ["load", "store"])
def test_every_type(dtype, towards):
    a, out = argument("a", dtype, 0), argument("out", dtype, 1)
    along, across = plus(mul(U, W), V), plus(U, mul(V, S))
    read, written = (across, along) if towards == "load" else (along, across)
    stores = [tile(n, m, put(out, written, changed(dtype, load(a, read)))) for n, m in [(8, 4)]]
    p = program([a, out], block(*stores), sizes=("S", "W"))
    for at_end in (False, True):
        g, x = padded(4, 8, 11, dtype, at_end) if towards == "load" else padded(8, 4, 9, dtype, at_end)
        h, y = padded(8, 4, 9, dtype, at_end) if towards == "load" else padded(4, 8, 11, dtype, at_end)
        fill(g.array)
        before = h.array.copy()
        assert run(p, [g.array, h.array], sizes=(11, 9)) == 0
        assert same(y, expected(x.T, dtype))
        inside = np.zeros(h.array.size, bool)
        np.lib.stride_tricks.as_strided(inside, y.shape, (y.strides[0] // dtype.bytes, 1))[:] = True
        assert same(h.array[~inside], before[~inside])


@pytest.mark.parametrize("dtype", [u8, u16, f32, f64], ids=str)
@pytest.mark.parametrize("towards", ["load", "store"])
def test_every_shape_in_one_kernel(dtype, towards):
    """All n and m, constant strides, everything one after the other between guard pages."""
    shapes = list(itertools.product((*POWERS, 3, 7, 14), (*POWERS, 3, 6, 14)))
    a, out = argument("a", dtype, 0), argument("out", dtype, 1)
    body, at = [], 0
    for n, m in shapes:
        along, across = plus(mul(U, integer(m)), V, integer(at)), plus(U, mul(V, integer(n)), integer(at))
        read, written = (across, along) if towards == "load" else (along, across)
        body.append(tile(n, m, put(out, written, load(a, read))))
        at += n * m
    p = program([a, out], block(*body))
    for at_end in (False, True):
        x, y = (Guarded(at, dtype.np, at_end) for _ in range(2))
        fill(x.array)
        assert run(p, [x.array, y.array]) == 0
        at_ = 0
        for n, m in shapes:
            piece = x.array[at_ : at_ + n * m]
            want = piece.reshape(m, n).T if towards == "load" else piece.reshape(n, m).T
            assert same(y.array[at_ : at_ + n * m], want.ravel())
            at_ += n * m


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from([u8, i32, f16, f64]), st.integers(2, 18), st.sampled_from([2, 3, 5, 8, 16]),
    st.integers(0, 3), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_tile_between_loops(dtype, n, m, extra, at_end, towards_store):
    """The tile inside a loop, with sums of strides, against NumPy."""
    a, out = argument("a", dtype, 0), argument("out", dtype, 1)
    times = 3
    along = plus(mul(K, integer(n * m)), mul(U, integer(m)), V)
    across = plus(mul(K, integer(n)), U, mul(V, S), mul(V, integer(times * n)))
    read, written = (along, across) if towards_store else (across, along)
    p = program([a, out], loop(K, times, tile(n, m, put(out, written, load(a, read)))), sizes=("S",))
    wide, wide_view = padded(m, times * n, times * n + extra, dtype, at_end)
    tight = Guarded(times * n * m, dtype.np, at_end)
    x, y = (tight, wide) if towards_store else (wide, tight)
    fill(x.array)
    assert run(p, [x.array, y.array], sizes=(extra,)) == 0
    blocks = tight.array.reshape(times, n, m)
    assert same(blocks, wide_view.reshape(m, times, n).transpose(1, 2, 0))


# What is left alone -----------------------------------------------------------------------------------------------


def text(*stores: Store, n: int = 4, m: int = 4) -> str:
    buffers = dict.fromkeys(b for s in stores for b, _ in s.targets)
    loads = {x.attr[0] for s in stores for v in s.values for x in ir.leaves((v,), "load")}
    arguments = sorted({*buffers, *loads}, key=lambda b: b.argument)
    return emit(program(arguments, tile(n, m, *stores), sizes=("S", "W")))


A, B, OUT = (argument(name, f32, k) for k, name in enumerate(("a", "b", "out")))
ALONG, ACROSS = plus(mul(U, W), V), plus(U, mul(V, S))


def test_no_element_goes_alone():
    for t in (text(put(B, ALONG, load(A, ACROSS))), text(put(B, ACROSS, load(A, ALONG)))):
        assert "insertelement" not in t and "extractelement" not in t and "shufflevector" in t


def test_pieces_behind_each_other_are_one_store():
    t = text(put(B, plus(U, mul(V, integer(4))), load(A, ALONG)))
    assert t.count("store <16 x float>") == 1 and t.count("store") == 1


@pytest.mark.parametrize(("dtype", "group"), [(u8, 2), (u8, 4), (u8, 8), (u16, 4), (f16, 2), (f32, 2), (i32, 2)])
@pytest.mark.parametrize("gap", [0, 3])
def test_groups_of_lanes_keep_together(dtype, group, gap):
    """Rows of groups to groups of rows, whose places follow one another or lie apart."""
    n, m = 6, 16
    step = n * group + gap
    q, r = ir.node("floordiv", index, (V, integer(group))), ir.node("mod", index, (V, integer(group)))
    written = plus(mul(U, integer(group)), mul(q, integer(step)), r)
    a, b = argument("a", dtype, 0), argument("b", dtype, 1)
    p = program([a, b], tile(n, m, put(b, written, load(a, plus(mul(U, integer(m)), V)))))
    assert "insertelement" not in emit(p) and "extractelement" not in emit(p)
    x = fill(np.empty((n, m), dtype.np))
    y = Guarded((m // group - 1) * step + n * group, dtype.np, True)
    y.array[:] = 0
    assert run(p, [x, y.array]) == 0
    want = np.zeros((m // group, step), dtype.np)
    want[:, : n * group] = x.reshape(n, m // group, group).transpose(1, 0, 2).reshape(m // group, n * group)
    assert same(y.array, want.ravel()[: y.array.size])


@pytest.mark.parametrize("step", [8, 20])
def test_groups_that_meet_go_alone(step):
    """Groups of one row that overlap those of others (8), or do not keep together (a group wider than u's step)."""
    group = 4 if step == 8 else 2
    q, r = ir.node("floordiv", index, (V, integer(group))), ir.node("mod", index, (V, integer(group)))
    written = plus(mul(U, integer(4 if step == 8 else 3)), mul(q, integer(step)), r)
    a, b = argument("a", u8, 0), argument("b", u8, 1)
    p = program([a, b], tile(4, 16, put(b, written, load(a, plus(mul(U, integer(16)), V)))))
    x, y = fill(np.empty((4, 16), np.uint8)), np.zeros(200, np.uint8)
    want = y.copy()
    for u, v in itertools.product(range(4), range(16)):
        want[u * (4 if step == 8 else 3) + v // group * step + v % group] = x[u, v]
    assert run(p, [x, y]) == 0
    assert same(y, want)


def test_other_loads_beside_it():
    sum_ = ir.node("add", f32, (load(A, ACROSS), load(B, ALONG)))
    p = program([A, B, OUT], tile(4, 8, put(OUT, ALONG, sum_)), sizes=("S", "W"))
    assert "insertelement" not in emit(p)
    a, b = fill(np.empty((8, 5), np.float32)), fill(np.empty((4, 9), np.float32), 1)
    out = np.zeros((4, 9), np.float32)
    assert run(p, [a, b, out], sizes=(5, 9)) == 0
    assert same(out[:, :8], a[:, :4].T + b[:, :8]) and not out[:, 8].any()


def test_what_is_written_is_read_in_order():
    """out[u, v] = 2 * out[v, u] reads elements that earlier u wrote."""
    double = ir.node("mul", f32, (load(OUT, ACROSS), ir.const(2.0, f32)))
    for written, read in ((ALONG, ACROSS), (ACROSS, ALONG)):
        value = double if read is ACROSS else ir.node("mul", f32, (load(OUT, ALONG), ir.const(2.0, f32)))
        p = program([A, B, OUT], tile(4, 4, put(OUT, written, value)), sizes=("S", "W"))
        out = fill(np.empty((4, 4), np.float32))
        want = out.copy()
        for u in range(4):
            if written is ALONG:
                want[u] = 2 * want[:, u]
            else:
                want[:, u] = 2 * want[u]
        assert run(p, [out, out, out], sizes=(4, 4)) == 0
        assert same(out, want)


def test_places_that_meet_keep_their_order():
    """Rows that overlap are stored in the order of the program."""
    p = program([A, B], tile(4, 4, put(B, plus(U, mul(V, integer(2))), load(A, plus(mul(U, integer(4)), V)))))
    a, b = fill(np.empty(16, np.float32)), np.zeros(10, np.float32)
    want = b.copy()
    for u, v in itertools.product(range(4), range(4)):
        want[u + 2 * v] = a[4 * u + v]
    assert run(p, [a, b]) == 0
    assert same(b, want)

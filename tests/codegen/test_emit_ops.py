"""Every operation on every type at its extremes, scalar and in lanes, against the NumPy evaluation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.codegen.emit_support import argument, load, loop, program, put, run, same
from tilewright.codegen.emit import emit
from tilewright.codegen.loops import VECTORIZE, Stmt, block
from tilewright.lang import ir, types
from tilewright.lang.evaluate import evaluate
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, mul
from tilewright.lang.types import INTEGERS, DType, bf16, bool_, f16, f32, f64

LANES = (0, 1, 2, 3, 4, 8, 16, 31, 32)
FEW_LANES = (0, 3, 8, 32)
COMPUTE = (*INTEGERS, f32, f64)

SHARED = ["add", "sub", "mul", "floordiv", "mod", "min", "max", "eq", "ne", "lt", "le", "gt", "ge"]
INT_BINARY = [*SHARED, "and", "or", "xor", "shl", "shr"]
INT_UNARY = ["neg", "abs", "not"]
FLOAT_BINARY = [*SHARED, "div"]
FLOAT_UNARY = ["neg", "abs", "sqrt", "floor", "ceil", "round", "trunc"]


def values(t: DType) -> np.ndarray:
    """The values at which types break."""
    if t.is_bool:
        return np.array([False, True])
    if t.is_int:
        lo, hi = t.low, t.high
        some = {lo, lo + 1, hi, hi - 1, 0, 1, 2, 3, 7, t.bits - 1, t.bits, t.bits + 1, hi // 2, hi // 3}
        if t.kind == "i":
            some |= {-1, -2, -3, -7, -t.bits, lo // 3}
        return np.array([v for v in sorted(some) if lo <= v <= hi], t.np)
    tiny = np.finfo(t.np)
    some = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.25, 1e-3, 127.5, 255.5, 2.0**31, 2.0**63, 1e10, tiny.max, tiny.tiny]
    some += [np.nextafter(t.np.type(1), t.np.type(2)), tiny.smallest_subnormal, np.inf, 65504.0, 65520.0, 0.1]
    both = [*some, *[-x for x in some], np.nan]
    return np.array(both, np.float64).astype(t.np)


def padded(a: np.ndarray, n: int) -> np.ndarray:
    """Whole vectors."""
    extra = -len(a) % max(n, 1)
    return np.concatenate([a, a[:1].repeat(extra)])


def check(roots: list[Node], inputs: list[tuple[Node, np.ndarray]], n: int) -> None:
    """Run stores of all roots over the inputs' elements, `n` lanes at a time, and compare with the evaluation."""
    i, lane = ir.var("i"), ir.var("l")
    at = i if n == 0 else add(mul(i, integer(n)), lane)
    inputs = [(leaf, padded(x, n)) for leaf, x in inputs]
    size = len(inputs[0][1])
    ins = [argument(f"in{k}", types.from_numpy(x.dtype), k) for k, (_, x) in enumerate(inputs)]
    outs = [argument(f"out{k}", r.dtype, len(ins) + k) for k, r in enumerate(roots)]
    env = {leaf: load(b, at) for b, (leaf, _) in zip(ins, inputs, strict=True)}
    stores: list[Stmt] = [put(b, at, v) for b, v in zip(outs, ir.substitute(roots, env), strict=True)]
    body = block(*stores)
    if n:
        body = loop(lane, n, body, VECTORIZE)
    p = program([*ins, *outs], loop(i, size // max(n, 1), body))
    results = [np.zeros(size, r.dtype.np) for r in roots]
    assert run(p, [*[x for _, x in inputs], *results]) == 0
    with np.errstate(all="ignore"):
        wanted = evaluate(roots, {leaf: x.astype(leaf.dtype.np) for leaf, x in inputs})
    for r, got, want in zip(roots, results, wanted, strict=True):
        if not same(got, np.broadcast_to(want, got.shape)):
            k = next(k for k in range(size) if not same(got[k : k + 1], np.asarray(want).reshape(-1)[k : k + 1]))
            operands = [x[k] for _, x in inputs]
            raise AssertionError(f"{r.op} {r.dtype} of {r.args[0].dtype} {operands}: {got[k]!r}, not {want[k]!r}")


def leaf(name: str, t: DType) -> Node:
    return ir.node("size", t.compute, (), name)


def pairs(t: DType) -> tuple[np.ndarray, np.ndarray]:
    every = list(itertools.product(values(t), repeat=2))
    return np.array([a for a, _ in every], t.np), np.array([b for _, b in every], t.np)


@pytest.mark.parametrize("t", COMPUTE, ids=repr)
def test_binary_and_unary_operations_at_extremes(t):
    x, y = leaf("x", t), leaf("y", t)
    binary, unary = (FLOAT_BINARY, FLOAT_UNARY) if t.is_float else (INT_BINARY, INT_UNARY)
    compares = ir.COMPARISONS
    roots = [ir.node(op, bool_ if op in compares else t, (x, y)) for op in binary]
    roots += [ir.node(op, t, (x,)) for op in unary]
    roots.append(ir.node("select", t, (ir.node("lt", bool_, (x, y)), x, y)))
    a, b = pairs(t)
    for n in LANES if t in (f32, types.i32) else FEW_LANES:
        check(roots, [(x, a), (y, b)], n)


@pytest.mark.parametrize("t", INTEGERS, ids=repr)
def test_constant_divisors_and_shift_counts(t):
    x = leaf("x", t)
    divisors = [d for d in (0, 1, 2, 3, 7, 8, 10, t.high, -1, -2, -3, -8, t.low) if t.low <= d <= t.high]
    counts = [c for c in (0, 1, t.bits - 1, t.bits, t.bits + 3, -1) if t.low <= c <= t.high]
    roots = [ir.node(op, t, (x, ir.const(d, t))) for op in ("floordiv", "mod") for d in divisors]
    roots += [ir.node(op, t, (x, ir.const(c, t))) for op in ("shl", "shr") for c in counts]
    for n in (0, 8):
        check(roots, [(x, values(t))], n)


@pytest.mark.parametrize("t", (f32, f64), ids=repr)
def test_extremes_with_a_constant_operand(t):
    x = leaf("x", t)
    constants = [ir.const(c, t) for c in (0.0, -0.0, 1.0, float("inf"), float("nan"))]
    roots = [ir.node(op, t, pair) for op in ("max", "min") for c in constants for pair in ((x, c), (c, x))]
    for n in (0, 8):
        check(roots, [(x, values(t))], n)


@pytest.mark.parametrize("source", (*COMPUTE, bool_), ids=repr)
def test_casts_wrap_saturate_and_round(source):
    x = leaf("x", source)
    roots = [ir.node("cast", t, (x,)) for t in (*COMPUTE, bool_) if t is not source]
    roots += [ir.node("bitcast", t, (x,)) for t in COMPUTE if t.bits == source.bits and not source.is_bool]
    if source.is_float:
        roots += [ir.node("round_to", f32, (x,), s) for s in (f16, bf16)]
    a = values(source)
    if source.is_float:  # both sides of every integer type's ends
        ends = [float(v) for t in INTEGERS for e in (t.low, t.high) for v in (e - 1, e, e + 1)]
        near = np.array(ends).astype(source.np)
        low, high = source.np.type(-np.inf), source.np.type(np.inf)
        a = np.concatenate([a, near, np.nextafter(near, low), np.nextafter(near, high)])
    for n in FEW_LANES:
        check(roots, [(x, a)], n)


@pytest.mark.parametrize("source", (f32, f64), ids=repr)
def test_casts_of_what_is_clamped(source):
    """Inside of a type, at its ends, beyond them, the wrong way round, at one end only; NaN gives 0 as always."""
    x, roots = leaf("x", source), []
    for t in INTEGERS:
        low, high = float(t.low), float(t.high)
        for lo, hi in (
            (low, high),
            (1.0, 100.0),
            (low - 1, high),
            (low, 2 * high),
            (-0.5, 7.5),
            (5.0, 2.0),
            (np.nan, 3.0),
        ):
            a, b = (ir.const(float(source.np.type(e)), source) for e in (lo, hi))
            inner = ir.node("max", source, (x, a))
            roots.append(ir.node("cast", t, (ir.node("min", source, (inner, b)),)))
            roots.append(ir.node("cast", t, (ir.node("max", source, (ir.node("min", source, (x, b)), a)),)))
            roots.append(ir.node("cast", t, (inner,)))
    ends = np.array([float(v) for t in INTEGERS for e in (t.low, t.high) for v in (e - 1, e, e + 1)]).astype(source.np)
    for n in (0, 8):
        check(roots, [(x, np.concatenate([values(source), ends]))], n)


def test_a_clamped_number_is_not_clamped_again():
    x = argument("x", f32, 0)
    inside = ir.node("min", f32, (ir.node("max", f32, (load(x, integer(0)), ir.const(0.0, f32))), ir.const(255.0, f32)))
    out = argument("out", types.u8, 1)
    text = emit(program([x, out], put(out, integer(0), ir.node("cast", types.u8, (inside,)))))
    assert text.count("fcmp") == 3


def test_bool_operations():
    x, y = leaf("x", bool_), leaf("y", bool_)
    roots = [ir.node(op, bool_, (x, y)) for op in ["and", "or", "xor", "eq", "ne"]]
    roots += [ir.node("not", bool_, (x,)), ir.node("likely", bool_, (x,)), ir.node("select", bool_, (x, y, x))]
    a, b = pairs(bool_)
    for n in LANES:
        check(roots, [(x, a), (y, b)], n)


@pytest.mark.parametrize("t", (f32, f64), ids=repr)
def test_fma_rounds_once(t):
    x, y, z = (leaf(s, t) for s in "xyz")
    rng = np.random.default_rng(5)
    a = (rng.standard_normal((3, 999)) * 10.0 ** rng.integers(-20, 20, (3, 999))).astype(t.np)
    a[2, ::2] = -(a[0] * a[1])[::2]
    edge = np.array(list(itertools.product(values(t)[::3], repeat=3)), t.np).T
    root = ir.node("fma", t, (x, y, z))
    for n in (0, 3, 8):
        for d in (a, edge):
            check([root], [(x, d[0]), (y, d[1]), (z, d[2])], n)


@pytest.mark.parametrize("storage", (f16, bf16), ids=repr)
def test_every_stored_half_widens_and_narrows(storage):
    every = np.arange(65536, dtype=np.uint16).view(storage.np)
    x = leaf("x", storage)
    i, lane = ir.var("i"), ir.var("l")
    for n in (0, 8, 3):
        size = 65536 // max(n, 1) * max(n, 1)
        at = i if n == 0 else add(mul(i, integer(n)), lane)
        a, b, c = argument("A", storage, 0), argument("B", f32, 1), argument("C", storage, 2)
        value = load(a, at)
        body = block(put(b, at, value), put(c, at, ir.node("round_to", f32, (value,), storage)))
        body = loop(lane, n, body, VECTORIZE) if n else body
        wide, back = np.zeros(size, np.float32), np.zeros(size, storage.np)
        assert run(program([a, b, c], loop(i, size // max(n, 1), body)), [every[:size].copy(), wide, back]) == 0
        assert same(wide, every[:size].astype(np.float32))
        keep = ~np.isnan(wide)
        assert same(back[keep].view(np.uint16), every[:size][keep].view(np.uint16))
        assert np.isnan(back[~keep].astype(np.float32)).all()
    assert x.dtype is f32


@pytest.mark.parametrize("source", (f32, f64), ids=repr)
def test_rounding_to_storage_on_random_bits(source):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint64)
    with np.errstate(invalid="ignore"):
        x = bits.astype(np.uint32).view(np.float32).astype(source.np)
    if source is f64:
        x = np.concatenate([x, x * (1 + 2.0**-40), x * (1 - 2.0**-40), x * 2.0**-10])
    halves = np.arange(0, 0x7BFF, 7, dtype=np.uint16).view(np.float16).astype(source.np)
    ties = (halves[:-1] + halves[1:]) / 2
    x = np.concatenate(
        [x, halves, ties, np.nextafter(ties, source.np.type(0)), np.nextafter(ties, source.np.type(9e9))]
    )
    arg = leaf("x", source)
    roots = [ir.node("round_to", f32, (arg,), s) for s in (f16, bf16)]
    for n in (0, 8):
        check(roots, [(arg, x)], n)

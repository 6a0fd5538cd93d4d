"""The NumPy evaluator against plain Python integers, fractions and single operations."""

from __future__ import annotations

import math
import operator
import struct
import warnings
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang import ir, types
from tilewright.lang.errors import ArgumentError
from tilewright.lang.evaluate import evaluate
from tilewright.lang.ir import Node
from tilewright.lang.types import INTEGERS, DType, bool_, f32, f64, i32, i64, index

FLOATS = (f32, f64)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def param(t: DType, k: int = 0) -> Node:
    return ir.node("param", t, (), k)


def run(op: str, t: DType, *values: Any, arg_types: tuple[DType, ...] = (), attr: Any = None) -> Any:
    kinds = arg_types or (t,) * len(values)
    params = tuple(param(k, i) for i, k in enumerate(kinds))
    env = dict(zip(params, values, strict=True))
    (out,) = evaluate([ir.node(op, t, params, attr)], env)
    assert out.dtype == t.np
    return out


def wrap(value: int, t: DType) -> int:
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.kind == "i" and value >> (t.bits - 1) else value


def shift_right(a: int, n: int, t: DType) -> int:
    return a >> (n if 0 <= n < t.bits else t.bits)


INTEGER_RULES = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul": lambda a, b, t: a * b,
    "floordiv": lambda a, b, t: a // b if b else 0,
    "mod": lambda a, b, t: a % b if b else 0,
    "max": lambda a, b, t: max(a, b),
    "min": lambda a, b, t: min(a, b),
    "and": lambda a, b, t: a & b,
    "or": lambda a, b, t: a | b,
    "xor": lambda a, b, t: a ^ b,
    "shl": lambda a, b, t: a << b if 0 <= b < t.bits else 0,
    "shr": shift_right,
}
UNARY_INTEGER_RULES = {"neg": operator.neg, "abs": abs, "not": operator.invert}


def extremes(t: DType) -> list[int]:
    near = {0, 1, 2, 3, 7, t.bits - 1, t.bits, t.bits + 1, t.low, t.low + 1, t.high - 1, t.high, t.high // 2}
    return sorted(near | ({-1, -2, -3, -t.bits} if t.kind == "i" else set()))


@st.composite
def integer_pairs(draw: st.DrawFn) -> tuple[DType, int, int]:
    t = draw(st.sampled_from(INTEGERS))
    value = st.one_of(st.sampled_from(extremes(t)), st.integers(t.low, t.high))
    return t, draw(value), draw(value)


@pytest.mark.parametrize("op", INTEGER_RULES)
@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_integers_at_their_ends(t: DType, op: str) -> None:
    a, b = np.meshgrid(np.array(extremes(t), t.np), np.array(extremes(t), t.np), indexing="ij")
    out = run(op, t, a, b)
    expected = [
        wrap(INTEGER_RULES[op](x, y, t), t) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    ]
    assert out.ravel().tolist() == expected


@given(integer_pairs())
def test_integers(case: tuple[DType, int, int]) -> None:
    t, a, b = case
    for op, rule in INTEGER_RULES.items():
        assert run(op, t, a, b).item() == wrap(rule(a, b, t), t), op
    for op, rule in UNARY_INTEGER_RULES.items():
        assert run(op, t, a).item() == wrap(rule(a), t), op
    for op in ir.COMPARISONS:
        assert run(op, bool_, a, b, arg_types=(t, t)).item() is getattr(operator, op)(a, b)


@given(integer_pairs(), st.sampled_from(INTEGERS))
def test_integer_conversions(case: tuple[DType, int, int], to: DType) -> None:
    t, a, _ = case
    assert run("cast", to, a, arg_types=(t,)).item() == wrap(a, to)
    assert run("cast", bool_, a, arg_types=(t,)).item() is (a != 0)
    for real in FLOATS:
        # Python's division rounds once to f64, Fraction to f32 is checked by its neighbours
        got = run("cast", real, a, arg_types=(t,)).item()
        assert got == float(a) if real is f64 else is_nearest(got, Fraction(a), f32)
    assert run("cast", index, a, arg_types=(t,)).item() == wrap(a, i64)


def is_nearest(got: float, exact: Fraction, t: DType) -> bool:
    """Whether `got` is the value of type t nearest to `exact`, ties to even."""
    real = t.np.type
    if math.isinf(got):
        top = Fraction(float(np.finfo(t.np).max))
        half = (top - Fraction(float(np.nextafter(real(top), real(0))))) / 2
        return abs(exact) >= top + half and (got > 0) == (exact > 0)
    error = abs(Fraction(got) - exact)
    even = int(np.asarray(real(got)).view(f"u{t.bytes}")) % 2 == 0
    for toward in (-np.inf, np.inf):
        with np.errstate(all="ignore"):
            other = float(np.nextafter(real(got), real(toward)))
        if math.isfinite(other):
            gap = abs(Fraction(other) - exact)
            if gap < error or (gap == error and not even):
                return False
    return True


def floats(t: DType) -> st.SearchStrategy[float]:
    bits = st.integers(0, 2**t.bits - 1)
    code = {32: ("<I", "<f"), 64: ("<Q", "<d")}[t.bits]
    return st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, math.inf, -math.inf, math.nan]),
        st.floats(width=t.bits),  # type: ignore[arg-type]
        bits.map(lambda b: struct.unpack(code[1], struct.pack(code[0], b))[0]),
    )


def same(a: float, b: float) -> bool:
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@given(st.sampled_from(FLOATS).flatmap(lambda t: st.tuples(st.just(t), floats(t), floats(t))))
def test_floats(case: tuple[DType, float, float]) -> None:
    t, a, b = case
    x, y = t.np.type(a), t.np.type(b)
    with np.errstate(all="ignore"):
        expected = {
            "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "mod": np.mod(x, y),
            "floordiv": np.floor_divide(x, y), "max": x if a > b or a != a else y, "min": x if a < b or a != a else y,
        }  # fmt: skip
    for op, value in expected.items():
        assert same(run(op, t, x, y).item(), value.item()), op
    for op in ir.COMPARISONS:
        assert run(op, bool_, x, y, arg_types=(t, t)).item() is getattr(operator, op)(a, b)
    assert same(run("neg", t, x).item(), -a)
    assert same(run("abs", t, x).item(), abs(a))
    if math.isfinite(a):
        assert run("floor", t, x).item() == math.floor(a)
        assert run("ceil", t, x).item() == math.ceil(a)
        assert run("trunc", t, x).item() == math.trunc(a)
        assert run("round", t, x).item() == round(a)


@given(st.sampled_from(FLOATS).flatmap(lambda t: st.tuples(st.just(t), floats(t))), st.sampled_from(INTEGERS))
def test_float_to_integer_saturates(case: tuple[DType, float], to: DType) -> None:
    t, a = case
    exact = 0 if a != a else (to.high if a > 0 else to.low) if math.isinf(a) else int(a)
    assert run("cast", to, a, arg_types=(t,)).item() == min(max(exact, to.low), to.high)


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_float_to_integer_at_the_ends(t: DType, to: DType) -> None:
    ends = [t.np.type(v) for v in (to.low, to.high, 2.0**63, -(2.0**63), 2.0**64, 2.0**31)]
    values = [float(np.nextafter(v, t.np.type(d))) for v in ends for d in (-np.inf, np.inf)] + list(map(float, ends))
    for v in [*values, 0.9, -0.9, math.inf, -math.inf]:
        exact = int(v) if math.isfinite(v) else (to.high if v > 0 else to.low)
        assert run("cast", to, v, arg_types=(t,)).item() == min(max(exact, to.low), to.high), v


@given(st.sampled_from(FLOATS).flatmap(lambda t: st.tuples(st.just(t), floats(t), floats(t), floats(t))))
def test_fma_rounds_once(case: tuple[DType, float, float, float]) -> None:
    t, a, b, c = case
    check_fma(t, a, b, c)


@given(
    st.sampled_from(FLOATS), st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53), st.integers(-3, 3),
    st.integers(-1080, 60), st.integers(0, 130),
)  # fmt: skip
def test_fma_near_ties_and_cancellation(t: DType, m: int, n: int, off: int, scale: int, below: int) -> None:
    """c next to -a*b, or next to half a unit of its last place, from subnormal results up."""
    real = t.np.type
    with np.errstate(all="ignore"):
        a, b = real(math.ldexp(m, scale // 2)), real(math.ldexp(n, scale - scale // 2))
        c = -(a * b)
        for _ in range(abs(off)):
            c = np.nextafter(c, real(np.inf if off > 0 else -np.inf))
        check_fma(t, float(a), float(b), float(c))
        check_fma(t, float(a), float(b), float(np.ldexp(c, below)))
        check_fma(t, float(a), float(b), float(np.ldexp(c, -below)))


def check_fma(t: DType, a: float, b: float, c: float) -> None:
    got = run("fma", t, a, b, c).item()
    if not (math.isfinite(a) and math.isfinite(b)):
        assert same(got, a * b + c)
    elif not math.isfinite(c):
        assert same(got, c)
    else:
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        assert is_nearest(got, exact, t), (a, b, c, got)
        if exact == 0:
            assert same(got, a * b + c) if a == 0 or b == 0 else same(got, 0.0)
        else:
            assert (math.copysign(1, got) > 0) == (exact > 0)


@given(st.sampled_from(FLOATS).flatmap(lambda t: st.tuples(st.just(t), floats(t))))
def test_round_to_storage_types_rounds_once(case: tuple[DType, float]) -> None:
    t, a = case
    for storage, low_bits in ((types.bf16, 7), (types.f16, 10)):
        got = run("round_to", f32, a, arg_types=(t,), attr=storage).item()
        if not math.isfinite(a):
            assert same(got, a)
            continue
        top, smallest = (2.0**128, -126) if storage is types.bf16 else (2.0**16, -14)
        exponent = max(math.frexp(a)[1] - 1, smallest)
        unit = Fraction(2) ** (exponent - low_bits)
        exact = abs(round(Fraction(a) / unit) * unit)
        expected = math.copysign(math.inf if exact >= top else float(exact), a)
        assert same(got, expected)


def test_round_to_bf16_from_f64_does_not_round_twice() -> None:
    x = 1.0 + 2.0**-8 + 2.0**-40  # above a tie of bf16, a tie again once it is f32
    assert run("round_to", f32, x, arg_types=(f64,), attr=types.bf16).item() == 1.0 + 2.0**-7
    assert float(np.float64(x).astype(ml_dtypes.bfloat16)) == 1.0


def test_bool_operations() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for op, expected in (("and", a & b), ("or", a | b), ("xor", a ^ b), ("eq", a == b), ("ne", a != b)):
        assert run(op, bool_, a, b).tolist() == expected.tolist()
    assert run("not", bool_, a).tolist() == (~a).tolist()
    assert run("likely", bool_, a).tolist() == a.tolist()
    assert run("cast", f32, a, arg_types=(bool_,)).tolist() == [0, 0, 1, 1]
    assert run("select", f32, a, 1.0, 2.0, arg_types=(bool_, f32, f32)).tolist() == [2, 2, 1, 1]


def test_bitcast_keeps_every_bit() -> None:
    bits = np.array([0, 1, 0x7FC00001, 0xFFFFFFFF, 0x80000000], np.uint32)
    real = run("bitcast", f32, bits, arg_types=(types.u32,))
    assert run("bitcast", types.u32, real, arg_types=(f32,)).tolist() == bits.tolist()
    assert run("bitcast", i32, bits[3], arg_types=(types.u32,)).item() == -1


def test_sqrt_of_negatives_is_nan_and_silent() -> None:
    out = run("sqrt", f64, np.array([-1.0, -0.0, 4.0, np.inf]))
    assert np.isnan(out[0]) and out[1:].tolist() == [0.0, 2.0, np.inf] and math.copysign(1, out[1]) < 0


def test_shared_subexpressions_are_computed_once() -> None:
    x = param(f64)
    n = x
    for _ in range(2000):
        n = ir.node("add", f64, (n, n))
    (out,) = evaluate([n], {x: np.array([1.0, 0.0])})
    assert out.tolist() == [math.inf, 0.0]


def test_given_nodes_are_not_looked_into_and_roots_may_repeat() -> None:
    x, unknown = param(f32), param(f32, 1)
    inner = ir.node("mul", f32, (unknown, unknown))
    total = ir.node("add", f32, (inner, x))
    out = evaluate([total, inner, total, x], {x: 1, inner: [2, 3]})
    assert [o.tolist() for o in out] == [[3, 4], [2, 3], [3, 4], 1]
    assert all(o.dtype == np.float32 for o in out)


def test_missing_values_are_errors() -> None:
    with pytest.raises(ArgumentError) as caught:
        evaluate([ir.node("add", index, (ir.var("i"), ir.integer(1)))], {})
    assert caught.value.code == "evaluate.value"


def test_loads_ask_the_caller() -> None:
    class Tensor:
        name = "A"

    i = ir.var("i")
    load = ir.node("load", f32, (ir.node("add", index, (i, ir.integer(1))),), (Tensor(), 0))
    data = np.arange(5, dtype=np.float16)
    (out,) = evaluate([load], {i: np.arange(3)}, load=lambda n, where: data[where[0]])
    assert out.tolist() == [1, 2, 3] and out.dtype == np.float32
    with pytest.raises(ArgumentError):
        evaluate([load], {i: 0})

"""Mathematical functions: stated bounds (mpmath) with and without fma, special values, how calls are built."""

from __future__ import annotations

import math as pymath
import warnings
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from tilewright.lang import expr, ir, types
from tilewright.lang import math as tm
from tilewright.lang.contract import contract
from tilewright.lang.errors import TypeRuleError
from tilewright.lang.evaluate import evaluate
from tilewright.lang.expr import wrap
from tilewright.lang.types import DType, f32, f64

inf, nan = np.inf, np.nan
UNARY = tuple(n for n in tm.FUNCTIONS if n not in ("pow", "atan2"))
TYPES = (f32, f64)
both_ways = pytest.mark.parametrize("fuse", [False, True], ids=["strict", "contract"])
both_types = pytest.mark.parametrize("t", TYPES, ids=str)

EXACT = {
    "exp": mp.exp, "exp2": lambda x: mp.power(2, x), "expm1": mp.expm1, "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.log(2), "log1p": mp.log1p, "sin": mp.sin, "cos": mp.cos, "tan": mp.tan,
    "tanh": mp.tanh, "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "erf": mp.erf, "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x), "pow": mp.power, "atan2": mp.atan2,
}  # fmt: skip
DOMAIN = {"log": 0.0, "log2": 0.0, "sqrt": 0.0, "rsqrt": 0.0, "log1p": -1.0}  # arguments must lie above


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@cache
def value_of(name: str, t: DType, fuse: bool) -> tuple[tuple[ir.Node, ...], ir.Node]:
    params, value = tm.definition(name, t)
    return params, contract([value])[0] if fuse else value


def run(name: str, t: DType, fuse: bool, *args: np.ndarray) -> np.ndarray:
    params, value = value_of(name, t, fuse)
    return evaluate([value], dict(zip(params, args, strict=True)))[0]


def errors(got: np.ndarray, exact: list[mp.mpf], t: DType) -> list[float]:
    """Distances in units of the last place of the exact value (at least of the smallest subnormal)."""
    info = np.finfo(t.np)
    bits, lowest, top = info.nmant, info.minexp, mp.mpf(2) ** info.maxexp
    out = []
    for g, e in zip(got.tolist(), exact, strict=True):
        exponent = max(mp.frexp(e)[1] - 1, lowest) if e else lowest
        unit = mp.mpf(2) ** (min(int(exponent), info.maxexp - 1) - bits)
        if abs(e) >= top - unit / 2 or pymath.isinf(g):
            out.append(0.0 if pymath.isinf(g) and g * e > 0 and abs(e) > top - unit else inf)
        else:
            out.append(float(abs(mp.mpf(g) - e) / unit) if g == g else inf)
    return out


def check(name: str, t: DType, fuse: bool, *args: np.ndarray) -> None:
    got = run(name, t, fuse, *args)
    with mp.workprec(220):
        columns = [[mp.mpf(v) for v in a.tolist()] for a in args]
        exact = [mp.mpf(EXACT[name](*row)) for row in zip(*columns, strict=True)]
        worst = errors(got, exact, t)
    k = int(np.argmax(worst))
    assert worst[k] <= tm.ULP[name, t.name], [float(a[k]).hex() for a in args]


# The points --------------------------------------------------------------------------------------------------------


def any_bits(t: DType, count: int, seed: int) -> np.ndarray:
    """Random patterns over the whole range: every exponent about as often."""
    return np.random.default_rng(seed).integers(0, 2**t.bits, count, np.uint64).astype(f"u{t.bytes}").view(t.np)


def around(points: list[float], t: DType) -> np.ndarray:
    """Each point (of either sign) with neighbours in type t, and what is near it on a coarser scale."""
    base = np.array(points, t.np)
    spread = [base, np.nextafter(base, t.np.type(inf)), np.nextafter(base, t.np.type(-inf))]
    for step in (2.0**-20, 2.0**-12, 2.0**-6):
        spread += [(base * (1 + step)).astype(t.np), (base * (1 - step)).astype(t.np)]
    x = np.concatenate(spread)
    return np.concatenate([x, -x])


def critical(name: str, t: DType) -> np.ndarray:
    """Where definitions change their way, and both ends of the range of results."""
    ln2 = pymath.log(2)
    info = np.finfo(t.np)
    low, high = (-103.97, 88.7228) if t is f32 else (-745.13, 709.7827)
    odd_multiples = [ln2 * (k + 0.5) for k in (0, 1, 2, 23, 24, 25, 52, 53, 60)]
    tiny = [float(info.smallest_subnormal) * 3, float(info.tiny), 1e-20, 1e-10, 1e-4]
    with np.errstate(all="ignore"):
        return around([*{
            "exp": [low, high, low + 16, *odd_multiples], "expm1": [high, 17.3, 37.4, *odd_multiples],
            "sigmoid": [low, low + 16, 1.9475, 1.951, *odd_multiples],
            "exp2": [0.5, 1.5, 2.5, 126.5, 127.9, 125.9, 148.9, 149.9, 1021.9, 1023.9, 1073.9, 1074.9],
            "log": [1, 0.5**0.5, 2**0.5, 2, 0.9, 1.1], "log2": [1, 0.5**0.5, 2**0.5, 2, 0.7134, 1.1],
            "log1p": [0.41421356, 0.29289, 0.99999, 1, 0.5, 1.8284, 2.0**24, 2.0**53, 2.0**60],
            "tanh": [0.625, 9.01, 9.1, 19.06, 19.1, 0.654], "erf": [1, 3.92, 4, 5.92, 6, 0.97],
            "rsqrt": [1, 2, 4, 1.0062], "sqrt": [1, 2, 4],
        }.get(name, [pymath.pi * k / 4 for k in (1, 2, 3, 4, 5, 8, 9, 100, 12345, 10**6 + 1)]), *tiny], t)  # fmt: skip


# The multiples of pi/2 that come nearest to a number of the type (Kahan's and Muller's searches)
NEAR_MULTIPLES = {
    "f32": [16367173.0 * 2.0**72, 12390623.0 * 2.0**39, 8249178.0 * 2.0**-13],
    "f64": [6381956970095103.0 * 2.0**797, 5.319372648326541e255, 2.0**120 * 1.5, 1e22],
}


def points(name: str, t: DType) -> np.ndarray:
    rng = np.random.default_rng(7)
    middle = [rng.normal(size=300) * s for s in (0.3, 1.0, 5.0, 30.0)]
    x = np.concatenate([any_bits(t, 500, 3), critical(name, t), *(m.astype(t.np) for m in middle)])
    if name in ("log", "log2", "log1p", "rsqrt", "sqrt"):
        x = np.concatenate([x, 1 + rng.normal(size=300).astype(t.np) * t.np.type(0.2)])
    if name in ("sin", "cos", "tan"):
        x = np.concatenate([x, np.array(NEAR_MULTIPLES[t.name], t.np)])
        x = np.concatenate([x, np.round(rng.uniform(0, 1e6, 100)).astype(t.np) * t.np.type(pymath.pi / 2)])
    x = x[np.isfinite(x) & (x > DOMAIN.get(name, -inf))]
    # results far beyond the range would only make mpmath slow
    return np.clip(x, -2000, 2000) if name in ("exp", "exp2", "expm1", "sigmoid") else x


@both_ways
@both_types
@pytest.mark.parametrize("name", UNARY)
def test_stated_bound(name: str, t: DType, fuse: bool) -> None:
    check(name, t, fuse, points(name, t))


@both_ways
@both_types
def test_pow_bound(t: DType, fuse: bool) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([
        rng.uniform(0.5, 2, 500), 2.0 ** rng.uniform(-60, 60, 500), 1 + rng.normal(size=300) * 2.0**-12,
        1 + rng.normal(size=300) * 2.0**-22,
    ]).astype(t.np)  # fmt: skip
    x = np.concatenate([x, np.abs(any_bits(t, 500, 8))])
    x = x[np.isfinite(x) & (x > 0) & (x != 1)]
    limit = (149.0, 128.0) if t is f32 else (1074.0, 1024.0)  # up to the ends, subnormal results included
    y = (rng.uniform(-limit[0], limit[1], len(x)) / np.log2(x.astype(np.float64))).clip(-1e30, 1e30).astype(t.np)
    check("pow", t, fuse, x, y)
    check("pow", t, fuse, x, np.where(rng.random(len(x)) < 0.5, 2.0, -0.5).astype(t.np))


@both_ways
@both_types
def test_atan2_bound(t: DType, fuse: bool) -> None:
    rng = np.random.default_rng(6)
    y = np.concatenate([rng.uniform(-1, 1, 800), rng.normal(size=300) * 2.0 ** rng.integers(-99, 99, 300)]).astype(t.np)
    x = np.concatenate([rng.uniform(-1, 1, 800), rng.normal(size=300) * 2.0 ** rng.integers(-99, 99, 300)]).astype(t.np)
    check("atan2", t, fuse, y, x)
    y, x = any_bits(t, 500, 1), any_bits(t, 500, 2)
    good = np.isfinite(x) & np.isfinite(y)
    check("atan2", t, fuse, y[good], x[good])
    ends = np.array([np.finfo(t.np).smallest_subnormal, np.finfo(t.np).tiny, np.finfo(t.np).max, 1.0, 0.5], t.np)
    y, x = (v.ravel() for v in np.meshgrid(np.concatenate([ends, -ends, ends * t.np.type(0.75)]), ends))
    good = (x != 0) & (y != 0)
    check("atan2", t, fuse, y[good], x[good])
    check("atan2", t, fuse, y[good], -x[good])


ORACLES_F64 = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "erf": np.vectorize(pymath.erf),
}  # fmt: skip


@both_ways
@pytest.mark.parametrize("name", UNARY)
def test_f32_over_the_whole_range(name: str, fuse: bool) -> None:
    """One argument in 2**16 (every exponent, both signs) against f64 functions, which are exact enough here."""
    x = (np.arange(2**16, dtype=np.uint32) * np.uint32(65521)).view(np.float32)
    with np.errstate(all="ignore"):  # signalling NaN among the arguments
        got = run(name, f32, fuse, x).astype(np.float64)
        exact = ORACLES_F64.get(name, getattr(np, name, None))(x.astype(np.float64))  # type: ignore[misc]
        rounded = exact.astype(np.float32)
        unit = np.ldexp(1.0, (np.maximum(np.frexp(exact)[1] - 1, -126) - 23).astype(np.int32))
        error = np.abs(got - exact) / unit
    ends = np.isnan(exact) | np.isinf(rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(exact)) | (ends & (error <= 1))
    assert same[ends].all()
    assert error[~ends].max() <= tm.ULP[name, "f32"]


# Special values ------------------------------------------------------------------------------------------------------

SPECIAL = {
    "exp": [(0.0, 1), (-0.0, 1), (inf, inf), (-inf, 0.0), (1e30, inf), (-1e30, 0.0)],
    "exp2": [
        (0.0, 1),
        (-0.0, 1),
        (inf, inf),
        (-inf, 0.0),
        (10.0, 1024.0),
        (-3.0, 0.125),
        (-149.0, 2.0**-149),
        (1e30, inf),
    ],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0), (-1e30, -1.0), (1e30, inf)],
    "log": [(1.0, 0.0), (0.0, -inf), (-0.0, -inf), (inf, inf), (-1.0, nan), (-inf, nan)],
    "log2": [(1.0, 0.0), (0.0, -inf), (-0.0, -inf), (inf, inf), (-1.0, nan), (8.0, 3.0), (2.0**-149, -149.0)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -inf), (-1.5, nan), (inf, inf), (-inf, nan)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (100.0, 1.0), (-1e30, -1.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0), (800.0, 1.0), (-800.0, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (30.0, 1.0), (-1e30, -1.0)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-1.0, nan), (4.0, 2.0)],
    "rsqrt": [(0.0, inf), (-0.0, -inf), (inf, 0.0), (-1.0, nan), (4.0, 0.5)],
}


def assert_same(got: np.ndarray, expected: np.ndarray, where: list) -> None:
    same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), [(w, float(g), float(e)) for w, g, e, s in zip(where, got, expected, same, strict=True) if not s]


@both_ways
@both_types
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, t: DType, fuse: bool) -> None:
    arguments, expected = zip(*SPECIAL[name], (nan, nan), (-nan, nan), strict=True)
    assert_same(run(name, t, fuse, np.array(arguments, t.np)), np.array(expected, t.np), list(arguments))


@both_ways
@both_types
@pytest.mark.parametrize("name, like", [("pow", np.power), ("atan2", np.arctan2)])
def test_special_values_of_two_arguments(name: str, like: np.ufunc, t: DType, fuse: bool) -> None:
    """Every pair of special numbers: as NumPy (which follows C) where that is exact, near it elsewhere."""
    info = np.finfo(t.np)
    values = [0, 1, 2, 3, 0.5, 1.5, 2.0**24 + 2, 1e5 + 1, inf, info.smallest_subnormal, info.tiny, info.max]
    signed = np.array([*values, *(-v for v in values), nan], t.np)
    a, b = (v.ravel() for v in np.meshgrid(signed, signed, indexing="ij"))
    got = run(name, t, fuse, a, b)
    with np.errstate(all="ignore"):
        expected = like(a, b)
        near = np.isfinite(got) & (expected != 0) & (np.abs(got - expected) <= 4 * np.spacing(np.abs(expected)))
    assert_same(got, np.where(near, got, expected), list(zip(a.tolist(), b.tolist(), strict=True)))


@both_ways
@both_types
def test_exact_results(t: DType, fuse: bool) -> None:
    k = np.arange(-140, 128).astype(t.np)
    assert (run("exp2", t, fuse, k) == np.ldexp(t.np.type(1), k.astype(np.int32))).all()
    assert (run("log2", t, fuse, np.ldexp(t.np.type(1), k.astype(np.int32))) == k).all()
    a, b = (v.ravel().astype(t.np) for v in np.meshgrid(np.arange(-12, 13), np.arange(1, 7)))
    assert (run("pow", t, fuse, a, b) == a**b).all()


@both_ways
@both_types
@pytest.mark.parametrize("name", ["sin", "tan", "tanh", "erf"])
def test_odd_functions_are_odd(name: str, t: DType, fuse: bool) -> None:
    x = any_bits(t, 2000, 4)
    x = x[np.isfinite(x)]
    assert (run(name, t, fuse, -x) == -run(name, t, fuse, x)).all()


# Calls and their expansion --------------------------------------------------------------------------------------------

X, Y = (wrap(ir.node("param", f32, (), k)) for k in (5, 6))


@pytest.mark.parametrize("name", UNARY)
def test_arguments_must_be_floats(name: str) -> None:
    fn = getattr(tm, name)
    assert fn(X).dtype is f32 and fn(1.5).dtype is f64 and fn(np.float32(1)).dtype is f32
    for bad in (1, True, wrap(ir.var("i")), np.int32(3)):
        with pytest.raises(TypeRuleError) as caught:
            fn(bad)
        assert caught.value.code == "type.float-needed" and "cast" in str(caught.value)


def test_two_arguments_promote() -> None:
    assert tm.pow(X, 2).node.args[1] is ir.const(2.0, f32)
    assert tm.pow(2, X).dtype is f32 and tm.atan2(X, np.float64(1)).dtype is f64
    with pytest.raises(TypeRuleError):
        tm.pow(wrap(ir.var("i")), 3)
    with pytest.raises(TypeRuleError):
        tm.atan2(np.int32(1), np.int32(1))


def test_numpy_functions_build_calls() -> None:
    assert np.exp(X).node is tm.exp(X).node
    assert np.arctan2(X, Y).node is tm.atan2(X, Y).node
    assert np.power(X, Y).node is tm.pow(X, Y).node
    assert np.sqrt(X).node.op == "sqrt"


@both_types
@pytest.mark.parametrize("name", tm.FUNCTIONS)
def test_definitions_use_basic_operations_only(name: str, t: DType) -> None:
    params, value = tm.definition(name, t)
    assert value.dtype is t and all(p.dtype is t for p in params)
    assert tm.definition(name, t)[1] is value
    arithmetic = {"add", "sub", "mul", "div", "neg", "abs", "max", "min", "sqrt", "trunc"}
    bits = {"and", "or", "xor", "not", "shl", "shr", "select", "cast", "bitcast"}
    for n in ir.postorder([value]):
        assert n.op in arithmetic | bits | ir.COMPARISONS | {"const", "param"}
        if n.op in ("lt", "le", "gt", "ge"):
            assert n.args[0].dtype.is_float  # AVX2 does not order unsigned integers
        if n.op == "cast":
            assert {n.dtype, n.args[0].dtype} in ({f32, f64}, {types.bool_, types.u64})


@both_ways
def test_expand_is_the_definition_in_place(fuse: bool) -> None:
    e = tm.exp(tm.log(X) * Y) + tm.exp(X)
    (root,) = tm.expand([e.node], fuse)
    assert not ir.leaves([root], "call")
    assert bool(ir.leaves([root], "fma")) is fuse
    assert ir.leaves([root], "param") == [X.node, Y.node] or set(ir.leaves([root], "param")) == {X.node, Y.node}
    x, y = np.float32([0.3, 2.0, 7.5]), np.float32([1.0, -2.5, 3.0])
    (got,) = evaluate([root], {X.node: x, Y.node: y})
    inner = run("log", f32, fuse, x) * y
    assert (got == run("exp", f32, fuse, inner) + run("exp", f32, fuse, x)).all()
    if not fuse:
        assert (evaluate([e.node], {X.node: x, Y.node: y})[0] == got).all()


def test_expand_does_not_fuse_across_a_call() -> None:
    (root,) = tm.expand([(tm.exp(X) + X * Y).node], True)
    assert root.op == "add"  # the caller's own sum is the caller's to decide


def test_expand_shares_and_does_not_recurse() -> None:
    e = X
    for _ in range(300):
        e = tm.tanh(e)
    (root,) = tm.expand([e.node, e.node], True)[:1]
    once = sum(1 for _ in ir.postorder(tm.expand([tm.tanh(X).node], True)))
    assert sum(1 for _ in ir.postorder([root])) < 300 * once


def test_select_takes_pairs_and_a_last_value() -> None:
    value = expr.select(X > 1, 1.0, X > 0, X, Y)
    (out,) = evaluate([value.node], {X.node: [2.0, 0.5, -1.0], Y.node: 7.0})
    assert out.tolist() == [1.0, 0.5, 7.0]
    with pytest.raises(TypeRuleError):
        expr.select(X > 1, 1.0, X > 0, X)

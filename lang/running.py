"""First-order running error analysis: how far a value that was computed in floats can lie from the exact one.

A shadow value is (v, e, ambiguous): the number in f64, a bound on the distance between any legal evaluation and the
exact result, and whether an error could flip a comparison or a cast on the way. The rules are the standard model of
floating point arithmetic (Higham, "Accuracy and Stability of Numerical Algorithms", chapters 2 to 4): one rounding
changes x by at most u |x| plus half the smallest subnormal number; a sum of n terms in any order has an error of at
most gamma(n - 1) times the sum of their magnitudes.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.lang.evaluate import apply
from tilewright.lang.func import Definition
from tilewright.lang.ir import COMPARISONS, Node
from tilewright.lang.math import ULP
from tilewright.lang.shadow import Shadow
from tilewright.lang.types import DType

# unit roundoff, half the smallest subnormal number (for f64, which has no half of it, the number itself), largest value
_FORMAT = {
    "f16": (2.0**-11, 2.0**-25, 65504.0),
    "bf16": (2.0**-8, 2.0**-134, 3.3895313892515355e38),
    "f32": (2.0**-24, 2.0**-150, 3.4028234663852886e38),
    "f64": (2.0**-53, 5e-324, 1.7976931348623157e308),
}


def _rounded(t: DType, v: Any, e: Any, ambiguous: Any, roundings: Any = 1) -> Shadow:
    """The result of an operation with exact value v, propagated error e and a rounding (or several) to type t."""
    u, eta, largest = _FORMAT[t.name]
    e = np.where(np.isfinite(v), e + roundings * (u * (np.abs(v) + e) + eta), 0.0)
    lost = np.isnan(e) | (np.isfinite(v) & (np.abs(v) + e > largest))
    return v, np.where(np.isnan(e), np.inf, e), ambiguous | lost


class Running:
    """The rules of running error analysis (see lang.shadow)."""

    def exact(self, value: Any) -> Shadow:
        return value, 0.0, False

    def begin(self, d: Definition) -> None:
        pass

    def foreign(self, value: np.ndarray) -> Shadow:
        floats = value.dtype.kind == "f"
        return value, np.inf if floats else 0.0, np.full(value.shape, not floats)

    def stepped(self, step: Sequence[Node], values: Sequence[Shadow]) -> None:
        pass

    def loaded(self, value: Shadow, where: Sequence[Shadow]) -> Shadow:
        v, e, ambiguous = value
        for w in where:
            ambiguous = ambiguous | w[2]
        return v, e, ambiguous

    def apply(self, n: Node, args: Sequence[Shadow]) -> Shadow:
        op = n.op
        ambiguous = _any(args)
        floats = [a.dtype.is_float for a in n.args]
        if op in COMPARISONS:
            v = apply(n, [a[0] for a in args])
            return (v, 0.0, ambiguous) if not any(floats) else (v, 0.0, ambiguous | _flips(*args))
        if op == "select":
            return self._select(n, *args)
        if op == "cast":
            return self._cast(n, args[0])
        if op == "bitcast":
            return self._bitcast(n, args[0])
        if n.op == "call_extern":  # nothing is known of it: no bound, and an integer may be any other
            v = apply(n, [a[0] for a in args])
            return (v, np.inf, ambiguous) if n.dtype.is_float else (v, 0.0, np.ones_like(v, bool))
        if not n.dtype.is_float:
            return apply(n, [a[0] for a in args]), 0.0, ambiguous
        rule = _FUNCTIONS[n.attr] if op == "call" else _RULES[op]
        v, e, flips = rule(n, *args)
        if op in ("neg", "abs", "min", "max", "floor", "ceil", "round", "trunc"):
            return v, e, ambiguous | flips
        if op == "round_to":
            return _rounded(n.attr, v, e, ambiguous | flips)
        ulps = 2 * ULP[n.attr, n.dtype.name] if op == "call" else 1  # an ulp of v is at most 2 u |v|
        return _rounded(n.dtype, v, e, ambiguous | flips, ulps)

    def _select(self, n: Node, c: Shadow, a: Shadow, b: Shadow) -> Shadow:
        v = np.where(c[0], a[0], b[0])
        flags = np.where(c[0], a[2], b[2])
        if not n.dtype.is_float:
            return v, 0.0, flags | (c[2] & (a[0] != b[0]))
        e = np.where(c[0], a[1], b[1])
        apart = np.abs(a[0] - b[0])
        near = apart <= a[1] + b[1]  # either arm will do, as in a maximum that is written as a select
        e = np.where(c[2] & near, apart + np.maximum(a[1], b[1]), e)
        return v, e, flags | (c[2] & ~near)

    def _cast(self, n: Node, a: Shadow) -> Shadow:
        source, t = n.args[0].dtype, n.dtype
        if t.is_float:
            v = np.asarray(a[0], np.float64)
            keeps = source.is_float and source.bits <= t.bits
            return (v, a[1], a[2]) if keeps else _rounded(t, v, a[1], a[2])
        if not source.is_float:
            return apply(n, [a[0]]), 0.0, a[2]
        low, mid, high = (_to_integer(n, x) for x in (a[0] - a[1], a[0], a[0] + a[1]))
        return mid, 0.0, a[2] | (low != mid) | (high != mid)

    def _bitcast(self, n: Node, a: Shadow) -> Shadow:
        source = n.args[0].dtype
        v = np.asarray(a[0]).astype(source.np).view(n.dtype.np)
        out = v.astype(np.float64) if n.dtype.is_float else v
        return out, 0.0, a[2] | (np.asarray(a[1]) > 0)

    def terms(self, value: Shadow) -> list[tuple[np.ndarray, str]]:
        v, e, ambiguous = value
        return [(v, "sum"), (np.abs(v), "sum"), (e, "sum"), (ambiguous.astype(np.float64), "sum")]

    def total(self, d: Definition, sign: float, state: Shadow, parts: list[np.ndarray], count: np.ndarray) -> Shadow:
        (v, size, e, flags), t = parts, d.func.dtypes[0]
        u = _FORMAT[t.compute.name][0] + (_FORMAT[t.name][0] if t.is_storage_only else 0.0)
        eta = _FORMAT[t.name][1]
        gamma = count * u / (1 - np.minimum(count * u, 0.5))  # count terms and the state: count additions
        total, e = state[0] + sign * v, state[1] + e
        most = np.abs(state[0]) + size + e  # no partial sum exceeds this
        e = e + gamma * most + count * eta
        overflows = np.isfinite(most) & (most + e > _FORMAT[t.name][2])
        return _rounded(t.compute, total, np.where(np.isfinite(total), e, 0.0), state[2] | (flags > 0) | overflows, 0)


def _any(args: Sequence[Shadow]) -> Any:
    out: Any = False
    for a in args:
        out = out | a[2]
    return out


def _flips(x: Shadow, y: Shadow) -> Any:
    """Whether errors could change the order of two floats."""
    e = x[1] + y[1]
    return (np.abs(x[0] - y[0]) <= e) & (e > 0)


def _to_integer(n: Node, v: Any) -> Any:
    with np.errstate(all="ignore"):
        return apply(n, [np.asarray(v, np.float64)])


# Operations: (value, propagated error, whether a jump lies within the error) ------------------------------------------


def _add(n: Node, x: Shadow, y: Shadow) -> Shadow:
    return (x[0] + y[0] if n.op == "add" else x[0] - y[0]), x[1] + y[1], False


def _mul(n: Node, x: Shadow, y: Shadow) -> Shadow:
    return x[0] * y[0], np.abs(x[0]) * y[1] + np.abs(y[0]) * x[1] + x[1] * y[1], False


def _fma(n: Node, x: Shadow, y: Shadow, z: Shadow) -> Shadow:
    v, e, _ = _mul(n, x, y)
    return v + z[0], e + z[1], False


def _div(n: Node, x: Shadow, y: Shadow) -> Shadow:
    v, room = x[0] / y[0], np.abs(y[0]) - y[1]
    unsure = (room <= 0) & (y[1] > 0)
    e = np.where((x[1] == 0) & (y[1] == 0), 0.0, (np.abs(v) * y[1] + x[1]) / np.where(room > 0, room, 1.0))
    return v, np.where(unsure, np.inf, e), unsure


def _quotient(n: Node, x: Shadow, y: Shadow) -> Shadow:
    """Floored division and its remainder: a jump wherever the quotient could pass an integer."""
    q, e, unsure = _div(n, x, y)
    jumps = unsure | ((e > 0) & (np.floor(q - e) != np.floor(q + e)))
    if n.op == "floordiv":
        return np.floor_divide(x[0], y[0]), np.zeros(np.shape(e)), jumps
    return np.mod(x[0], y[0]), x[1] + np.abs(np.floor(q)) * y[1], jumps


def _extreme(n: Node, x: Shadow, y: Shadow) -> Shadow:
    return apply(n, [np.asarray(x[0]), np.asarray(y[0])]), np.maximum(x[1], y[1]), False


def _same(n: Node, x: Shadow) -> Shadow:
    return {"neg": np.negative, "abs": np.abs, "round_to": np.asarray}[n.op](x[0]), x[1], False


def _whole(n: Node, x: Shadow) -> Shadow:
    fn = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc}[n.op]
    v = fn(x[0])
    return v, np.zeros(np.shape(v)), (x[1] > 0) & (fn(x[0] - x[1]) != fn(x[0] + x[1]))


def _monotone(fn: Callable[[Any], Any], low: float = -np.inf) -> Callable[..., Shadow]:
    """A monotone function: its values at both ends of the argument's range say how far it can be off."""

    def rule(n: Node, x: Shadow) -> Shadow:
        v = fn(x[0])
        ends = [fn(np.maximum(x[0] - x[1], low)), fn(x[0] + x[1])]
        e = np.maximum(np.abs(ends[0] - v), np.abs(ends[1] - v))
        return v, np.where((x[1] == 0) | np.isnan(v), 0.0, e), (x[1] > 0) & (x[0] - x[1] < low)

    return rule


def _wave(fn: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[..., Shadow]:
    """sin and cos: the slope at the argument, which changes by no more than the argument does."""

    def rule(n: Node, x: Shadow) -> Shadow:
        return fn(x[0]), x[1] * np.minimum(np.abs(slope(x[0])) + x[1], 1.0), False

    return rule


def _tan(n: Node, x: Shadow) -> Shadow:
    v = np.tan(x[0])
    room = np.abs(np.cos(x[0])) - x[1]  # |cos| can't fall below this
    return v, np.where(x[1] > 0, x[1] / np.maximum(room, 1e-300) ** 2, 0.0), (x[1] > 0) & (room <= 0)


def _pow(n: Node, x: Shadow, y: Shadow) -> Shadow:
    v = np.power(x[0], y[0])
    sure = (x[1] == 0) & (y[1] == 0)
    base = np.abs(x[0])
    slopes = np.abs(v) * (np.abs(y[0]) * x[1] / base + np.abs(np.log(base)) * y[1])
    near = (x[1] > 0.1 * base) | ((x[0] <= 0) & (y[1] > 0))  # too far for the first order
    return v, np.where(sure, 0.0, 1.2 * slopes), ~sure & near


def _atan2(n: Node, y: Shadow, x: Shadow) -> Shadow:
    sure = (x[1] == 0) & (y[1] == 0)
    e = (np.abs(x[0]) * y[1] + np.abs(y[0]) * x[1]) / (x[0] ** 2 + y[0] ** 2)
    cut = (np.abs(y[0]) <= y[1]) & (x[0] <= x[1])
    return np.arctan2(y[0], x[0]), np.where(sure, 0.0, 1.2 * e), ~sure & cut


def _sigmoid(v: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-v))


_erf = np.vectorize(pymath.erf, otypes=[np.float64])

_RULES: dict[str, Callable[..., Shadow]] = {
    "add": _add, "sub": _add, "mul": _mul, "fma": _fma, "div": _div, "floordiv": _quotient, "mod": _quotient,
    "min": _extreme, "max": _extreme, "neg": _same, "abs": _same, "round_to": _same,
    "floor": _whole, "ceil": _whole, "round": _whole, "trunc": _whole, "sqrt": _monotone(np.sqrt, 0.0),
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Shadow]] = {
    "exp": _monotone(np.exp), "exp2": _monotone(np.exp2), "expm1": _monotone(np.expm1), "log": _monotone(np.log, 0.0),
    "log2": _monotone(np.log2, 0.0), "log1p": _monotone(np.log1p, -1.0), "tanh": _monotone(np.tanh),
    "sigmoid": _monotone(_sigmoid), "erf": _monotone(_erf), "sqrt": _monotone(np.sqrt, 0.0),
    "rsqrt": _monotone(lambda v: 1.0 / np.sqrt(v), 0.0), "sin": _wave(np.sin, np.cos), "cos": _wave(np.cos, np.sin),
    "tan": _tan, "pow": _pow, "atan2": _atan2,
}  # fmt: skip

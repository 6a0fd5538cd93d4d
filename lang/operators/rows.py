"""Reductions over axes, and what is made of them: softmax and the norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lang import expr, math, reduce
from tilewright.lang.expr import Expr
from tilewright.lang.func import automatic
from tilewright.lang.operators.shapes import expand_dims, reshape, split_axis
from tilewright.lang.operators.value import (
    Operand,
    Value,
    axis_of,
    broadcast,
    elementwise,
    extent,
    stretched,
    to_f,
    value,
    variables,
)
from tilewright.lang.symbols import bad, rdom

Axes = int | Sequence[int] | None  # None: all axes


def _axes(v: Value, axis: Axes) -> tuple[int, ...]:
    chosen = range(v.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    found = tuple(sorted({axis_of(v, k) for k in chosen}))
    if not found:
        raise bad(f"a reduction of {v!r} over no axis", "axis", "name one axis or more")
    return found


def _count(v: Value, axes: Sequence[int]) -> Expr:
    n = extent(1)
    for k in axes:
        n = n * v.shape[k]
    return n


def _reduced(
    op: str, v: Value, axis: Axes, name: str, keepdims: bool = False,
    element: Callable[[tuple[Expr, ...], Expr], Expr] = lambda index, x: x,
) -> Value:  # fmt: skip
    """The reduction of `element(index, x)` over axes of `v`; reduced axes are left out, or (`keepdims`) 1."""
    axes, at = _axes(v, axis), variables(v.ndim)
    domain = rdom(**{f"r{k}": v.shape[k] for k in axes})
    index = tuple(getattr(domain, f"r{k}") if k in axes else i for k, i in enumerate(at))
    left = tuple(i for k, i in enumerate(at) if keepdims or k not in axes)
    out = reduce.accumulate(automatic(name), op, left, element(index, v[index]))
    return Value(out, [extent(1) if k in axes else n for k, n in enumerate(v.shape) if keepdims or k not in axes])


def sum_(x: Operand, axis: Axes = None, keepdims: bool = False) -> Value:
    """Sums over axes (all, without `axis`)."""
    return _reduced("sum", value(x), axis, "sum", keepdims)


def max_(x: Operand, axis: Axes = None, keepdims: bool = False) -> Value:
    """The largest over axes; NaN if there is one."""
    return _reduced("max", value(x), axis, "max", keepdims)


def min_(x: Operand, axis: Axes = None, keepdims: bool = False) -> Value:
    """The smallest over axes; NaN if there is one."""
    return _reduced("min", value(x), axis, "min", keepdims)


def mean(x: Operand, axis: Axes = None, keepdims: bool = False) -> Value:
    """Means over axes."""
    v = value(x)
    total = _reduced("sum", v, axis, "total", keepdims)
    return elementwise(lambda a: a / to_f(_count(v, _axes(v, axis)), v), total, name="mean")


def variance(x: Operand, axis: Axes = None, keepdims: bool = False) -> Value:
    """Means of squared distances from the mean (the whole population's variance), in two passes as NumPy's."""
    v, axes = value(x), _axes(value(x), axis)
    squares = _reduced("sum", v, axes, "squares", keepdims, _square_of_distance(mean(v, axes), axes))
    return elementwise(lambda a: a / to_f(_count(v, axes), v), squares, name="variance")


def _kept(at: Sequence[Expr], axes: Sequence[int]) -> tuple[Expr, ...]:
    return tuple(i for k, i in enumerate(at) if k not in axes)


def _square_of_distance(middle: Value, axes: Sequence[int]) -> Callable[[tuple[Expr, ...], Expr], Expr]:
    def square(index: tuple[Expr, ...], x: Expr) -> Expr:
        away = x - middle[_kept(index, axes)]
        return away * away

    return square


def _with_rows(f: Callable[..., Any], v: Value, rows: Sequence[Value], axes: Sequence[int], name: str) -> Value:
    """`f(x, row values...)` at each place of `v`; the `rows` have the axes of `v` but for `axes`."""
    out, at = automatic(name), variables(v.ndim)
    out[at] = f(v[at], *(row[_kept(at, axes)] for row in rows))
    return Value(out, v.shape)


def argmax(x: Operand, axis: int = -1) -> Value:
    """Where the first largest along an axis is (i64); the first NaN if there is one."""
    return _place(reduce.argmax, value(x), axis, "argmax")


def argmin(x: Operand, axis: int = -1) -> Value:
    """Where the first smallest along an axis is (i64); the first NaN if there is one."""
    return _place(reduce.argmin, value(x), axis, "argmin")


def _place(f: Callable[..., Expr], v: Value, axis: int, name: str) -> Value:
    k, at = axis_of(v, axis), variables(v.ndim)
    r = rdom(r=v.shape[k])
    out, left = automatic(f"{name}_place"), (*at[:k], *at[k + 1 :])
    out[left] = f(v[(*at[:k], r.r, *at[k + 1 :])], over=r)
    return Value(out, (*v.shape[:k], *v.shape[k + 1 :]))


# Softmax ----------------------------------------------------------------------------------------------------------


def _shifted(v: Value, axis: int, name: str) -> tuple[Value, Value, Value]:
    """The largest along an axis, the exponentials of the distances from it, and their sum."""
    largest = _reduced("max", v, axis, f"{name}_max")
    weight = _with_rows(lambda a, m: math.exp(a - m), v, [largest], [axis], f"{name}_exp")
    return largest, weight, _reduced("sum", weight, axis, f"{name}_sum")


def softmax(x: Operand, axis: int = -1) -> Value:
    """exp(x - m) / sum(exp(x - m)) along an axis, with its maximum m: without overflow."""
    v, k = value(x), axis_of(value(x), axis)
    _, weight, total = _shifted(v, k, "softmax")
    inverse = elementwise(lambda s: 1.0 / s, total, name="softmax_inverse")
    return _with_rows(lambda w, s: w * s, weight, [inverse], [k], "softmax")


def log_softmax(x: Operand, axis: int = -1) -> Value:
    """The logarithm of softmax: x - m - log(sum(exp(x - m)))."""
    v, k = value(x), axis_of(value(x), axis)
    largest, _, total = _shifted(v, k, "log_softmax")
    shift = elementwise(lambda m, s: m + math.log(s), largest, total, name="log_softmax_shift")
    return _with_rows(lambda a, c: a - c, v, [shift], [k], "log_softmax")


def log_sum_exp(x: Operand, axis: int = -1, keepdims: bool = False) -> Value:
    """log(sum(exp(x))) along an axis, without overflow."""
    v, k = value(x), axis_of(value(x), axis)
    largest, _, total = _shifted(v, k, "log_sum_exp")
    made = elementwise(lambda m, s: m + math.log(s), largest, total, name="log_sum_exp")
    return expand_dims(made, k) if keepdims else made


# Norms ------------------------------------------------------------------------------------------------------------


def _normal(
    v: Value, axes: Sequence[int], centred: bool, epsilon: Any, gamma: Operand | None, beta: Operand | None, name: str
) -> Value:
    """x (less its mean over the axes, if `centred`), divided by the root of its mean square there; * gamma + beta."""
    middle = [mean(v, axes)] if centred else []
    square = _square_of_distance(middle[0], axes) if centred else lambda index, x: x * x
    squares = _reduced("sum", v, axes, f"{name}_squares", element=square)
    count = to_f(_count(v, axes), v)
    scale = elementwise(lambda s: 1.0 / expr.sqrt(s / count + epsilon), squares, name=f"{name}_scale")
    at, out = variables(v.ndim), automatic(name)
    x = v[at] - middle[0][_kept(at, axes)] if centred else v[at]
    out[at] = _affine(x * scale[_kept(at, axes)], at, gamma, beta)
    return Value(out, v.shape)


def _affine(x: Expr, at: Sequence[Expr], gamma: Operand | None, beta: Operand | None) -> Expr:
    x = x if gamma is None else x * stretched(value(gamma), at)
    return x if beta is None else x + stretched(value(beta), at)


def _check_channels(v: Value, *parameters: Operand | None) -> None:
    for p in parameters:
        if p is not None and len(broadcast([v.shape, value(p).shape], "the parameters of a norm")) > v.ndim:
            raise bad(f"{value(p)!r} has more axes than {v!r}", "shape", "one number for each element of the last axis")


def layer_norm(x: Operand, gamma: Operand | None = None, beta: Operand | None = None, epsilon: Any = 1e-5) -> Value:
    """Rows (the last axis) less their mean, divided by sqrt(variance + epsilon); then * gamma + beta."""
    v = value(x)
    _check_channels(v, gamma, beta)
    return _normal(v, _axes(v, -1), True, epsilon, gamma, beta, "layer_norm")


def rms_norm(x: Operand, gamma: Operand | None = None, epsilon: Any = 1e-6) -> Value:
    """Rows divided by sqrt(mean(x^2) + epsilon), then * gamma."""
    v = value(x)
    _check_channels(v, gamma)
    return _normal(v, _axes(v, -1), False, epsilon, gamma, None, "rms_norm")


def group_norm(
    x: Operand, groups: Any, gamma: Operand | None = None, beta: Operand | None = None, epsilon: Any = 1e-5
) -> Value:
    """Layer normalisation of (B, ..., C) over each of `groups` runs of channels and all axes between; * gamma + beta."""
    v = value(x)
    _check_channels(v, gamma, beta)
    parted = split_axis(v, -1, groups)
    axes = (*range(1, parted.ndim - 2), parted.ndim - 1)
    g, b = (None if p is None else split_axis(p, -1, groups) for p in (gamma, beta))
    return reshape(_normal(parted, axes, True, epsilon, g, b, "group_norm"), v.shape)


def batch_norm(
    x: Operand, mean: Operand, variance: Operand, gamma: Operand | None = None, beta: Operand | None = None,
    epsilon: Any = 1e-5,
) -> Value:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta with given statistics of the last axis (inference)."""
    v = value(x)
    _check_channels(v, mean, variance, gamma, beta)
    scale = elementwise(lambda s: 1.0 / expr.sqrt(s + epsilon), variance, name="batch_norm_scale")
    at, out = variables(v.ndim), automatic("batch_norm")
    out[at] = _affine((v[at] - stretched(value(mean), at)) * stretched(scale, at), at, gamma, beta)
    return Value(out, v.shape)


__all__ = [
    "argmax", "argmin", "batch_norm", "group_norm", "layer_norm", "log_softmax", "log_sum_exp", "max_", "mean", "min_",
    "rms_norm", "softmax", "sum_", "variance",
]  # fmt: skip

"""Reductions over axes, and what is made of them: softmax and the norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lang import expr, math, reduce
from tilewright.lang.expr import Expr
from tilewright.lang.func import automatic
from tilewright.lang.operators.shapes import concat, expand_dims, reshape, split_axis
from tilewright.lang.operators.value import (
    Operand,
    Value,
    axis_of,
    broadcast,
    elementwise,
    extent,
    same,
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


def cumsum(x: Operand, axis: int = -1) -> Value:
    """Running sums along an axis: element k is the sum of x[0] to x[k]."""
    v = value(x)
    k, at = axis_of(v, axis), variables(v.ndim)
    out, r = automatic("cumsum"), rdom(r=(1, v.shape[k]))

    def here(i: Any) -> tuple[Expr, ...]:
        return (*at[:k], i, *at[k + 1 :])

    out[at] = v[at]
    out[here(r.r)] = out[here(r.r - 1)] + v[here(r.r)]
    return Value(out, v.shape)


def topk(x: Operand, k: int, axis: int = -1) -> tuple[Value, Value]:
    """The `k` largest along an axis, largest first, and where they are (i64); of equal ones the first comes first.

    Each is the largest of what stands behind the one before it in that order, so that the work is `k` passes: for small
    `k`. Of a row of fewer than `k` elements the places that are left are -1, and the values those of element 0. NaNs are
    not ordered.
    """
    v, a = value(x), axis_of(value(x), axis)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise bad(f"the {k!r} largest", "operator-option", "a number from 1 on")
    places: list[Value] = []
    rest = (*v.shape[:a], *v.shape[a + 1 :])
    for _ in range(k):
        at, r = variables(len(rest)), rdom(r=v.shape[a])
        element = v[(*at[:a], r.r, *at[a:])]
        if places:
            before = _element_at(v, a, at, places[-1])
            later = (element == before) & (expr.cast("i64", r.r) > places[-1][at])
            r = r.where((element < before) | later)
        out = automatic("topk_place")
        out[at] = reduce.argmax(element, over=r)
        places.append(Value(out, rest))
    joined = concat([expand_dims(p, a) for p in places], a)
    largest, at = automatic("topk"), variables(v.ndim)
    largest[at] = _element_at(v, a, (*at[:a], *at[a + 1 :]), joined, at)
    return Value(largest, joined.shape), joined


def _element_at(v: Value, axis: int, at: Sequence[Expr], places: Value, where: Sequence[Expr] | None = None) -> Expr:
    """The element of `v` at a place along an axis that lies in memory."""
    place = expr.clamp(places[tuple(at if where is None else where)], 0, v.shape[axis] - 1)
    return v[(*at[:axis], place, *at[axis:])]


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


def cross_entropy(x: Operand, targets: Operand) -> Value:
    """-log(softmax(x)) at the target of each row: x (..., C) of scores and integer targets (...) give (...).

    A target beyond the classes counts as the nearest one: nothing outside is touched.
    """
    v, t = value(x), value(targets)
    if v.ndim != t.ndim + 1 or not all(map(same, v.shape, t.shape)) or not t.dtype.is_int:
        raise bad(f"cross_entropy of {v!r} and {t!r}", "shape", "scores (..., C), integer targets (...)")
    total, at, out = log_sum_exp(v), variables(t.ndim), automatic("cross_entropy")
    out[at] = total[at] - v[(*at, expr.clamp(expr.cast("i64", t[at]), 0, v.shape[-1] - 1))]
    return Value(out, t.shape)


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


def instance_norm(x: Operand, gamma: Operand | None = None, beta: Operand | None = None, epsilon: Any = 1e-5) -> Value:
    """Every channel (the last axis) of every picture of (B, ..., C) less its mean, divided by sqrt(variance + epsilon);
    then * gamma + beta."""
    v = value(x)
    if v.ndim < 3:
        raise bad(f"instance_norm of {v!r}", "shape", "its axes are batch, one or more of space, channels")
    _check_channels(v, gamma, beta)
    return _normal(v, tuple(range(1, v.ndim - 1)), True, epsilon, gamma, beta, "instance_norm")


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
    "argmax", "argmin", "batch_norm", "cross_entropy", "cumsum", "group_norm", "instance_norm", "layer_norm", "log_softmax",
    "log_sum_exp", "max_", "mean", "min_", "rms_norm", "softmax", "sum_", "topk", "variance",
]  # fmt: skip

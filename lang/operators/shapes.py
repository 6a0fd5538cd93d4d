"""Operators that only say where elements come from: transpose, reshape, slice, concat, pad, gather."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.lang import boundary, expr
from tilewright.lang.expr import Expr
from tilewright.lang.func import automatic
from tilewright.lang.operators.monomials import product
from tilewright.lang.operators.value import (
    Operand,
    Value,
    axis_of,
    broadcast,
    extent,
    is_one,
    same,
    stretched,
    value,
    variables,
)
from tilewright.lang.symbols import bad


def transpose(x: Operand, axes: Sequence[int] | None = None) -> Value:
    """Axes in another order: axis k of the result is axis `axes[k]` of x; without `axes` the last two change places."""
    v = value(x)
    if axes is None and v.ndim < 2:
        raise bad(f"the last two axes of {v!r} are to change places", "axis", "it needs two axes or more")
    order = (*range(v.ndim - 2), v.ndim - 1, v.ndim - 2) if axes is None else tuple(axis_of(v, k) for k in axes)
    if sorted(order) != list(range(v.ndim)):
        raise bad(f"{v!r} is transposed by {order}", "axis", "name every axis once")
    out, at = automatic("transposed"), variables(v.ndim)
    out[at] = v[tuple(at[order.index(k)] for k in range(v.ndim))]
    return Value(out, [v.shape[k] for k in order])


# Reshape ----------------------------------------------------------------------------------------------------------


def reshape(x: Operand, shape: Sequence[Any]) -> Value:
    """The same elements in row-major order in another shape, of as many elements for all sizes.

    One extent may be -1. Only axes that are merged or split are indexed by divisions; splitting needs none.
    """
    v = value(x)
    wanted = _filled(v, tuple(shape))
    if product(v.shape) != product(wanted):
        raise bad(f"{v!r} is reshaped to ({', '.join(map(repr, wanted))})", "shape",
                  "both must have as many elements for all sizes: write an extent as the product of others")  # fmt: skip
    out, at = automatic("reshaped"), variables(len(wanted))
    index: list[Expr] = []
    for old, new in _groups(v.shape, wanted):
        index += _apart(_flat(at[new], wanted[new]), v.shape[old])
    out[at] = v[tuple(index)]
    return Value(out, wanted)


def _filled(v: Value, shape: tuple[Any, ...]) -> tuple[Expr, ...]:
    """The shape with its open extent (-1) worked out."""
    open_ = [k for k, n in enumerate(shape) if isinstance(n, int) and n == -1]
    if not open_:
        return tuple(map(extent, shape))
    missing = product(v.shape).divided(product(n for k, n in enumerate(shape) if k not in open_))
    if len(open_) > 1 or missing is None:
        raise bad(f"the open extent of a reshape of {v!r} is not known for all sizes", "shape",
                  "leave one open at most, and write extents of x as products of the others")  # fmt: skip
    return tuple(missing.expression() if k in open_ else extent(n) for k, n in enumerate(shape))


def _groups(old: Sequence[Expr], new: Sequence[Expr]) -> Iterator[tuple[slice, slice]]:
    """The shortest runs of axes of both shapes with as many elements, in order."""
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (left := product(old[a:i])) != (right := product(new[b:j])):
            more = left.divided(right) is not None and j < len(new)
            i, j = (i, j + 1) if more or i == len(old) else (i + 1, j)
        if i == len(old) or j == len(new):  # what is left has one element
            i, j = len(old), len(new)
        yield slice(a, i), slice(b, j)


def _flat(at: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    place = extent(0)
    for i, n in zip(at, shape, strict=True):
        place = place if is_one(n) else place * n + i
    return place


def _apart(flat: Expr, shape: Sequence[Expr]) -> list[Expr]:
    """The index in a shape of the element at a place in row-major order."""
    index: list[Expr] = []
    for k, n in enumerate(shape):
        stride = product(shape[k + 1 :]).expression()
        part = flat if is_one(stride) else flat // stride
        outermost = all(map(is_one, shape[:k]))
        index.append(extent(0) if is_one(n) else part if outermost else part % n)
    return index


def split_axis(x: Operand, axis: int, parts: Any) -> Value:
    """An axis of n elements as two: `parts` runs of n / parts. Its extent must be a multiple for all sizes."""
    v = value(x)
    k = axis_of(v, axis)
    rest = product([v.shape[k]]).divided(product([parts]))
    if rest is None:
        raise bad(f"axis {axis} of {v!r} is split into {parts!r} parts", "shape",
                  "write its extent as a product: x: tw.f32[T, H * D]")  # fmt: skip
    return reshape(v, (*v.shape[:k], parts, rest.expression(), *v.shape[k + 1 :]))


def flatten(x: Operand, start: int = 0, stop: int | None = None) -> Value:
    """The axes start..stop-1 (all from `start` on, without `stop`) as one."""
    v = value(x)
    a, b = axis_of(v, start), v.ndim if stop is None else stop % (v.ndim + 1)
    return reshape(v, (*v.shape[:a], product(v.shape[a:b]).expression(), *v.shape[b:]))


def expand_dims(x: Operand, axis: int) -> Value:
    """A new axis of extent 1, which stands at `axis` of the result."""
    v = value(x)
    k = axis if axis >= 0 else axis + v.ndim + 1
    return reshape(v, (*v.shape[:k], 1, *v.shape[k:]))


def squeeze(x: Operand, axis: int) -> Value:
    """Without an axis, which must have extent 1."""
    v = value(x)
    k = axis_of(v, axis)
    if not is_one(v.shape[k]):
        raise bad(
            f"axis {axis} of {v!r} is taken away", "shape", "only an axis of extent 1 can be; index it, or reduce"
        )
    return reshape(v, (*v.shape[:k], *v.shape[k + 1 :]))


def broadcast_to(x: Operand, shape: Sequence[Any]) -> Value:
    """x stretched to a shape: its axes of extent 1, and missing ones in front, are repeated."""
    v, wanted = value(x), tuple(map(extent, shape))
    found = broadcast([v.shape, wanted], "broadcast_to")
    if len(found) != len(wanted) or not all(map(same, found, wanted)):
        raise bad(f"{v!r} is stretched to ({', '.join(map(repr, wanted))})", "shape", "only extents of 1 stretch")
    out, at = automatic("stretched"), variables(len(wanted))
    out[at] = stretched(v, at)
    return Value(out, wanted)


# Parts ------------------------------------------------------------------------------------------------------------


def slice_(x: Operand, *ranges: Any) -> Value:
    """A part: an axis a range (start, stop) or (start, stop, step), or None for all of it, as missing ones are.

    Negative numbers count from the end, and a stop of None is the end.
    """
    v = value(x)
    if len(ranges) > v.ndim:
        raise bad(f"{v!r} is sliced by {len(ranges)} ranges", "shape", "one an axis: (start, stop), or None")
    out, at = automatic("part"), variables(v.ndim)
    index, shape = list(at), list(v.shape)
    for k, r in enumerate(ranges):
        if r is None:
            continue
        start, stop, step = (*r, 1) if len(r) == 2 else r
        start, stop = _from_end(start, v.shape[k]), _from_end(v.shape[k] if stop is None else stop, v.shape[k])
        if not isinstance(step, int) or step < 1:
            raise bad(f"axis {k} of {v!r} is sliced with the step {step!r}", "shape", "steps are numbers from 1 on")
        index[k] = at[k] * step + start
        shape[k] = (extent(stop) - start + (step - 1)) // step
    out[at] = v[tuple(index)]
    return Value(out, shape)


def _from_end(i: Any, n: Expr) -> Any:
    return n + i if isinstance(i, int) and i < 0 else i


def concat(parts: Sequence[Operand], axis: int = 0) -> Value:
    """Values one after the other along an axis; the other extents are the same."""
    values = [value(p) for p in parts]
    if not values:
        raise bad("a concatenation of nothing", "operand", "give one Value or more")
    k = axis_of(values[0], axis)
    for v in values[1:]:
        alike = v.ndim == values[0].ndim and all(
            same(a, b) for j, (a, b) in enumerate(zip(v.shape, values[0].shape, strict=True)) if j != k
        )
        if not alike:
            raise bad(
                f"{v!r} is put behind {values[0]!r}", "shape", f"all extents but that of axis {k} must be the same"
            )
    out, at = automatic("joined"), variables(values[0].ndim)
    start, cases, last = extent(0), [], None
    for v in values:
        last = v[(*at[:k], at[k] - start, *at[k + 1 :])]
        start = start + v.shape[k]
        cases += [at[k] < start, last]
    out[at] = last if len(values) == 1 else expr.select(*cases[:-2], last)
    return Value(out, (*values[0].shape[:k], start, *values[0].shape[k + 1 :]))


def split(x: Operand, parts: int | Sequence[Any], axis: int = -1) -> tuple[Value, ...]:
    """Cut along an axis: into a number of equal parts, or into parts of the given extents."""
    v = value(x)
    k = axis_of(v, axis)
    if isinstance(parts, int):
        one = product([v.shape[k]]).divided(product([parts]))
        if one is None:
            raise bad(f"axis {axis} of {v!r} is cut into {parts} parts", "shape", "give the extents of the parts")
        extents: Sequence[Any] = [one.expression()] * parts
    else:
        extents = parts
    out, start = [], extent(0)
    for n in extents:
        out.append(slice_(v, *[None] * k, (start, start + n)))
        start = start + n
    if not same(start, v.shape[k]):
        raise bad(f"axis {axis} of {v!r} is cut into parts of {start!r} in all", "shape", "the extents must add up")
    return tuple(out)


def pad(x: Operand, widths: Sequence[Any], fill: Any = 0) -> Value:
    """`fill` around x: an axis a pair (before, after), or None."""
    v = value(x)
    if len(widths) != v.ndim:
        raise bad(f"{v!r} is padded on {len(widths)} axes", "shape", "one pair (before, after) an axis, or None")
    pairs = [(extent(0), extent(0)) if w is None else (extent(w[0]), extent(w[1])) for w in widths]
    ranges = [None if w is None else (0, n) for w, n in zip(widths, v.shape, strict=True)]
    outside = boundary.constant_exterior(v.source, expr.cast(v.dtype, fill), *ranges, name="outside")
    out, at = automatic("padded"), variables(v.ndim)
    out[at] = outside[tuple(i - before for i, (before, _) in zip(at, pairs, strict=True))]
    return Value(out, [n + a + b for n, (a, b) in zip(v.shape, pairs, strict=True)])


def gather(x: Operand, indices: Operand, axis: int = 0) -> Value:
    """Rows by number: along `axis`, x at each of the (integer) indices, whose shape takes the place of the axis.

    An embedding is `gather(table, tokens)`. Indices beyond the ends read the nearest row: nothing outside is touched.
    """
    v, places = value(x), value(indices)
    k = axis_of(v, axis)
    out, at = automatic("gathered"), variables(v.ndim - 1 + places.ndim)
    where = expr.clamp(expr.cast("i64", places[at[k : k + places.ndim]]), 0, v.shape[k] - 1)
    out[at] = v[(*at[:k], where, *at[k + places.ndim :])]
    return Value(out, (*v.shape[:k], *places.shape, *v.shape[k + 1 :]))


__all__ = [
    "broadcast_to", "concat", "expand_dims", "flatten", "gather", "pad", "reshape", "slice_", "split", "split_axis",
    "squeeze", "transpose",
]  # fmt: skip

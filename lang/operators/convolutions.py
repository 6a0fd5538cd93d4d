"""Convolutions and pooling over pictures with channels last: (batch, height, width, channels)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.lang import boundary, expr, reduce
from tilewright.lang.expr import Expr
from tilewright.lang.func import Func, automatic
from tilewright.lang.operators.monomials import product
from tilewright.lang.operators.value import Operand, Value, elementwise, extent, same, to_f, value
from tilewright.lang.symbols import RDom, Var, bad, rdom

Pair = int | tuple[int, int]


def _pair(n: Any, what: str, least: int) -> tuple[int, int]:
    found = (n, n) if isinstance(n, int) else n
    if not (isinstance(found, tuple) and len(found) == 2 and all(isinstance(k, int) and k >= least for k in found)):
        raise bad(
            f"the {what} is {n!r}", "operator-option", f"a number from {least} on, or a pair of them (rows, columns)"
        )
    return found


class _Window:
    """How a window moves over a picture: the extents of the result, and the elements that a window reads."""

    def __init__(self, x: Operand, size: Sequence[Any], stride: Any, padding: Any, dilation: Any, fill: Any):
        v = value(x)
        if v.ndim != 4:
            raise bad(f"{v!r} is no batch of pictures", "shape", "its axes are batch, height, width, channels")
        self.value, self.size = v, tuple(map(extent, size))
        self.stride, self.padding = _pair(stride, "stride", 1), _pair(padding, "padding", 0)
        self.dilation = _pair(dilation, "dilation", 1)
        self.shape = tuple(
            (n + 2 * p - d * (s - 1) - 1) // step + 1
            for n, p, d, s, step in zip(v.shape[1:3], self.padding, self.dilation, self.size, self.stride, strict=True)
        )
        bounds = [None if not p else (0, n) for p, n in zip((0, *self.padding, 0), v.shape, strict=True)]
        padded = any(self.padding)
        self.source: Any = (
            boundary.constant_exterior(v.source, expr.cast(v.dtype, fill), *bounds, name="bordered") if padded else v
        )

    def at(self, place: Sequence[Expr], channel: Expr, r: RDom) -> Expr:
        """The element of a channel that the window at `place` (batch, y, x) of the result reads at the point (v, u)."""
        n, y, x = place
        row, column = (
            i * step + k * d - p
            for i, step, k, d, p in zip((y, x), self.stride, (r.v, r.u), self.dilation, self.padding, strict=True)
        )
        return self.source[n, row, column, channel]


def conv2d(
    x: Operand, weight: Operand, bias: Operand | None = None, *, stride: Pair = 1, padding: Pair = 0,
    dilation: Pair = 1, groups: Any = 1,
) -> Value:  # fmt: skip
    """Correlation with a filter. x: (B, H, W, C), weight: (KH, KW, C / groups, O), bias: (O,) give (B, H', W', O).

    H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1. Beyond the edges there are zeros. With `groups`, each of
    as many runs of output channels reads its own run of input channels; `depthwise_conv2d` has one for each channel.
    """
    w = value(weight)
    if w.ndim != 4:
        raise bad(
            f"{w!r} is no filter", "shape", "its axes are height, width, input channels (of a group), output channels"
        )
    window = _Window(x, w.shape[:2], stride, padding, dilation, 0)
    outputs = product([w.shape[3]]).divided(product([groups]))
    if outputs is None or product([window.value.shape[3]]) != product([groups, w.shape[2]]):
        raise bad(f"conv2d of {window.value!r} with {w!r} in {groups!r} groups", "shape",
                  "input channels = groups * weight.shape[2], output channels a multiple of groups")  # fmt: skip
    n, i, j, o = (Var(c) for c in "nyxo")
    r = rdom(v=w.shape[0], u=w.shape[1], c=w.shape[2])
    channel = r.c if same(groups, 1) else o // outputs.expression() * w.shape[2] + r.c
    out = automatic("conv")
    out[n, i, j, o] += window.at((n, i, j), channel, r) * w[r.v, r.u, r.c, o]
    return _biased(out, (window.value.shape[0], *window.shape, w.shape[3]), bias)


def depthwise_conv2d(
    x: Operand, weight: Operand, bias: Operand | None = None, *, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1
) -> Value:
    """Each channel with a filter of its own. x: (B, H, W, C), weight: (KH, KW, C), bias: (C,) give (B, H', W', C)."""
    w = value(weight)
    if w.ndim != 3:
        raise bad(f"{w!r} is no depthwise filter", "shape", "its axes are height, width, channels")
    window = _Window(x, w.shape[:2], stride, padding, dilation, 0)
    if not same(window.value.shape[3], w.shape[2]):
        raise bad(f"depthwise_conv2d of {window.value!r} with {w!r}", "shape", "both have the same channels")
    n, i, j, c = (Var(k) for k in "nyxc")
    r, out = rdom(v=w.shape[0], u=w.shape[1]), automatic("depthwise")
    out[n, i, j, c] += window.at((n, i, j), c, r) * w[r.v, r.u, c]
    return _biased(out, (window.value.shape[0], *window.shape, w.shape[2]), bias)


def conv_transpose2d(
    x: Operand, weight: Operand, bias: Operand | None = None, *, stride: Pair = 1, padding: Pair = 0,
    output_padding: Pair = 0,
) -> Value:  # fmt: skip
    """What `conv2d` does backwards: every element of x adds the filter, times it, to a larger picture.

    x: (B, H, W, C), weight: (KH, KW, C, O), bias: (O,) give (B, H', W', O) with H' = (H - 1) stride - 2 padding + KH +
    output_padding. Written out as a gather: of the filter's rows those are read that fall on an element of x.
    """
    v, w = value(x), value(weight)
    if v.ndim != 4 or w.ndim != 4 or not same(v.shape[3], w.shape[2]):
        raise bad(f"conv_transpose2d of {v!r} with {w!r}", "shape",
                  "x: (B, H, W, C), weight: (height, width, C, output channels)")  # fmt: skip
    steps, pads = _pair(stride, "stride", 1), _pair(padding, "padding", 0)
    more = _pair(output_padding, "output_padding", 0)
    if any(m >= s for m, s in zip(more, steps, strict=True)):
        raise bad(f"output_padding {output_padding!r} with the stride {stride!r}", "operator-option",
                  "less than the stride: it chooses among the pictures that conv2d makes as small")  # fmt: skip
    shape = tuple(
        (n - 1) * s - 2 * p + k + m for n, s, p, k, m in zip(v.shape[1:3], steps, pads, w.shape[:2], more, strict=True)
    )
    whole = [None, (0, v.shape[1]), (0, v.shape[2]), None]
    source = boundary.constant_exterior(v.source, expr.cast(v.dtype, 0), *whole, name="bordered")
    filters = boundary.constant_exterior(
        w.source, expr.cast(w.dtype, 0), (0, w.shape[0]), (0, w.shape[1]), None, None, name="filter"
    )
    n, i, j, o = (Var(c) for c in "nyxo")
    # row y of the result is made of the rows v of the filter with y + padding - v a multiple of the stride
    r = rdom(v=(w.shape[0] + steps[0] - 1) // steps[0], u=(w.shape[1] + steps[1] - 1) // steps[1], c=w.shape[2])
    out = automatic("conv_transpose")
    (row, at_row), (column, at_column) = (
        ((k + p) // s - part, (k + p) % s + part * s)
        for k, p, s, part in zip((i, j), pads, steps, (r.v, r.u), strict=True)
    )
    out[n, i, j, o] += source[n, row, column, r.c] * filters[at_row, at_column, r.c, o]
    return _biased(out, (v.shape[0], *shape, w.shape[3]), bias)


def _biased(f: Func, shape: tuple[Any, ...], bias: Operand | None) -> Value:
    made = Value(f, shape)
    return made if bias is None else elementwise(lambda a, b: a + b, made, bias, name="biased")


def max_pool2d(x: Operand, size: Pair, *, stride: Pair | None = None, padding: Pair = 0) -> Value:
    """The largest of each window; windows lie side by side unless `stride` says otherwise. NaN if there is one."""
    window, r, at = _pooling(x, size, stride, padding, reduce.identity("max", value(x).dtype))
    out = reduce.accumulate(automatic("pooled"), "max", at, window.at(at[:3], at[3], r))
    return Value(out, (window.value.shape[0], *window.shape, window.value.shape[3]))


def average_pool2d(x: Operand, size: Pair, *, stride: Pair | None = None, padding: Pair = 0) -> Value:
    """The mean of each window, of what lies inside the picture."""
    window, r, at = _pooling(x, size, stride, padding, 0)
    total = automatic("total")
    total[at] += window.at(at[:3], at[3], r)
    shape = (window.value.shape[0], *window.shape, window.value.shape[3])
    rows, columns = (
        expr.minimum(i * step - p + s, n) - expr.maximum(i * step - p, 0)
        for i, step, p, s, n in zip(
            at[1:3], window.stride, window.padding, window.size, window.value.shape[1:3], strict=True
        )
    )
    out = automatic("average")
    out[at] = total[at] / to_f(rows * columns, window.value)
    return Value(out, shape)


def _pooling(x: Operand, size: Any, stride: Any, padding: Any, fill: Any) -> tuple[_Window, RDom, tuple[Var, ...]]:
    height, width = _pair(size, "size", 1)
    window = _Window(x, (height, width), size if stride is None else stride, padding, 1, fill)
    if any(p >= n for p, n in zip(window.padding, (height, width), strict=True)):
        raise bad(f"windows of {height} by {width} are padded by {window.padding}", "operator-option",
                  "less than a window: each has to reach into the picture")  # fmt: skip
    return window, rdom(v=height, u=width), tuple(Var(k) for k in "nyxc")


def upsample2d(x: Operand, factor: Pair, *, method: str = "nearest") -> Value:
    """A picture with `factor` times as many rows and columns. x: (B, H, W, C) gives (B, H * factor, W * factor, C).

    `nearest` repeats elements. `bilinear` blends the four that are nearest; centres of pixels stay where they are
    (PyTorch's align_corners=False), and beyond the edges lies the nearest element.
    """
    v, factors = value(x), _pair(factor, "factor", 1)
    if v.ndim != 4:
        raise bad(f"{v!r} is no batch of pictures", "shape", "its axes are batch, height, width, channels")
    if method not in ("nearest", "bilinear"):
        raise bad(f"upsample2d by {method!r}", "operator-option", "one of: nearest, bilinear")
    shape = (v.shape[0], v.shape[1] * factors[0], v.shape[2] * factors[1], v.shape[3])
    if method == "nearest":
        n, i, j, c = (Var(k) for k in "nyxc")
        out = automatic("upsampled")
        out[n, i, j, c] = v[n, i // factors[0], j // factors[1], c]
        return Value(out, shape)
    rows = _blended(v, 1, factors[0])
    return _blended(rows, 2, factors[1])


def _blended(v: Value, axis: int, factor: int) -> Value:
    """An axis `factor` times as long, each element a blend of the two that its centre lies between."""
    out, at = automatic("upsampled"), tuple(Var(k) for k in "nyxc")
    twice = 2 * at[axis] + 1 - factor  # the place in the old axis, in parts of 1 / (2 factor)
    below, part = twice // (2 * factor), to_f(twice % (2 * factor), v) / (2 * factor)
    last = v.shape[axis] - 1
    low, high = (v[(*at[:axis], expr.clamp(k, 0, last), *at[axis + 1 :])] for k in (below, below + 1))
    out[at] = low + (high - low) * part
    return Value(out, (*v.shape[:axis], v.shape[axis] * factor, *v.shape[axis + 1 :]))


__all__ = ["average_pool2d", "conv2d", "conv_transpose2d", "depthwise_conv2d", "max_pool2d", "upsample2d"]

"""log, log2 and log1p, by log(2**e * (1 + f)) = e ln 2 + log(1 + f)."""

from __future__ import annotations

from math import inf, nan

from tilewright.lang.expr import Expr, select
from tilewright.lang.math import coefficients as table
from tilewright.lang.math.parts import (
    constant,
    exponent_field,
    fast_two_sum,
    format_of,
    leading,
    polynomial,
    small_integer,
    split,
    split_normal,
    two_sum,
)
from tilewright.lang.types import f32

# e times the first part is exact
_LN2 = {"f32": (0.693145751953125, 1.4286068203094173e-06), "f64": (0.6931471805598903, 5.497923018708371e-14)}


def _combined(e: Expr, f: Expr, extra: Expr | None = None) -> Expr:
    """e ln 2 + log(1 + f) + extra, where extra is small."""
    high, low = _LN2[f.dtype.name]
    if f.dtype is f32:
        tail = f * f * (f * polynomial(f, table.LOG_F32) - 0.5) + e * low
        tail = tail if extra is None else tail + extra
        return e * high + (f + tail)
    # with s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - f*f/2 + s (f*f/2 + z p(z))
    half_square = 0.5 * f * f
    tail = _atanh_part(f, half_square) + e * low
    tail = tail if extra is None else tail + extra
    return e * high - ((half_square - tail) - f)


def _atanh_part(f: Expr, half_square: Expr) -> Expr:
    s = f / (2.0 + f)
    z = s * s
    return s * (half_square + z * polynomial(z, table.ATANH_F64))


def _with_ends(x: Expr, value: Expr, zero: float) -> Expr:
    """`value` for x between `zero` and infinity, -inf at `zero`, NaN below; infinity and NaN stay."""
    minus_infinity, undefined = constant(-inf, x), constant(nan, x)
    ends = select(x == zero, minus_infinity, x < zero, undefined, x)
    return select((x > zero) & (x < constant(inf, x)), value, ends)


def log(x: Expr) -> Expr:
    e, f = split(x)
    return _with_ends(x, _combined(e, f), 0.0)


def log2(x: Expr) -> Expr:
    """Exact at powers of two, where f is 0."""
    e, f = split(x)
    value = _log2_f32(e, f) if x.dtype is f32 else _log2_f64(e, f)
    return _with_ends(x, value, 0.0)


def _log2_f32(e: Expr, f: Expr) -> Expr:
    less_one = 0.4426950408889634  # 1 / ln 2 - 1: f itself stands apart, so that its multiple costs little
    return e + (f + f * (less_one + f * polynomial(f, table.LOG2_F32)))


def _log2_f64(e: Expr, f: Expr) -> Expr:
    """log(1 + f) in two parts, the first of 21 bits, times 1 / ln 2 in two parts."""
    high_inverse, low_inverse = 1.4426946640014648, 3.768874985636099e-07
    half_square = 0.5 * f * f
    part = _atanh_part(f, half_square)
    high = leading(f - half_square, 32)
    low = ((f - high) - half_square) + part
    scaled_low = (low + high) * low_inverse + low * high_inverse
    top, rest = fast_two_sum(e, high * high_inverse)
    return top + (rest + scaled_low)


def log1p(x: Expr) -> Expr:
    """log(u) for u = 1 + x rounded, and what the rounding lost divided by u; near 0 the exact f is x itself."""
    fmt = format_of(x)
    u, lost = two_sum(constant(1.0, x), x)
    biased, f = split_normal(u)
    e = small_integer(biased, fmt) - fmt.bias
    near = biased == fmt.bias
    f = select(near, x, f)
    lost = lost * exponent_field(2 * fmt.bias - biased, fmt) * polynomial(f, table.RECIPROCAL)
    nothing_lost = near | (x > 4.0 * 2.0**fmt.mantissa)
    value = _combined(e, f, select(nothing_lost, constant(0.0, x), lost))
    return select(x == 0.0, x, _with_ends(x, value, -1.0))

"""pow, as 2**(y log2 x) with a logarithm that is more exact than the type; and rsqrt."""

from __future__ import annotations

from math import inf, nan

from tilewright.lang.expr import Expr, abs_, cast, maximum, minimum, select, sqrt, trunc
from tilewright.lang.math import coefficients as table
from tilewright.lang.math.parts import (
    constant,
    fast_two_sum,
    leading,
    nearest_integer,
    opaque,
    polynomial,
    scaled,
    sign_of,
    split,
    two_product,
)
from tilewright.lang.types import f32, f64

Pair = tuple[Expr, Expr]
_TWO_OVER_LN2 = (2.8853900817779268, 4.0710547481862066e-17)
_TWO_THIRDS_OVER_LN2 = (0.9617966939259756, 5.0577616648125907e-17)
_ONE_OVER_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471675634384, 1.2996506893889889e-08  # the first part has 26 bits
_OUT_OF_RANGE = 1100.0  # 2 to it overflows, 2 to its negative rounds to 0


def pow(x: Expr, y: Expr) -> Expr:
    """x**y; signs, zeros, infinities and NaN as IEEE 754-2019 (9.2.1) has them."""
    magnitude = (_pow_f32 if x.dtype is f32 else _pow_f64)(abs_(x), y)
    whole = trunc(y) == y
    half = y * 0.5
    odd = whole & (trunc(half) != half)
    negative = sign_of(x) != 0
    value = select(negative & odd, -magnitude, magnitude)
    undefined = (x < 0.0) & ~whole & (x > constant(-inf, x))
    value = select(undefined, constant(nan, x), value)
    return select((x == 1.0) | (y == 0.0), 1.0, value)


def _ends(x: Expr, y: Expr, value: Expr) -> Expr:
    """`value` but for an x of 0, 1 or infinity (x has no sign), an infinite y, and NaN."""
    infinity, zero = constant(inf, value), constant(0.0, value)
    extreme_x = (x == 0.0) | (x == constant(inf, x))
    extreme_y = abs_(y) == constant(inf, y)
    grows = (x > 1.0) == (y > 0.0)
    value = select(extreme_x | extreme_y, select(grows, infinity, zero), value)
    value = select(x == 1.0, 1.0, value)
    return select((x == x) & (y == y), value, x + y)


def _pow_f32(x: Expr, y: Expr) -> Expr:
    """In f64: the relative error of log2 x is below 2**-44, so that of the result is below 2**-33."""
    wide = cast(f64, x)
    e, f = split(wide)
    s = f / (2.0 + f)
    z = s * s
    log2 = e + (s * (2.0 + z * polynomial(z, table.ATANH_POW_F32))) * _ONE_OVER_LN2
    exponent = maximum(minimum(cast(f64, y) * log2, 1000.0), -1000.0)
    k, carrier = nearest_integer(exponent)
    r = exponent - k
    value = scaled(1.0 + r * polynomial(r, table.EXP2_POW), carrier)
    return cast(f32, _ends(wide, cast(f64, y), value))


def _pow_f64(x: Expr, y: Expr) -> Expr:
    """The relative error of log2 x is below 2**-65, so at the ends, where y log2 x is 2**10, below 2**-55."""
    high, low = _log2_pair(x)
    product, error = _product_pair((high, low), y)
    exponent = maximum(minimum(product, _OUT_OF_RANGE), -_OUT_OF_RANGE)
    error = select(abs_(product) < _OUT_OF_RANGE, error, 0.0)
    return _ends(x, y, _exp2_pair(exponent, error))


def _product_pair(a: Pair, y: Expr) -> Pair:
    p, e = two_product(a[0], y)
    return p, e + a[1] * y


def _log2_pair(x: Expr) -> Pair:
    """e + log2(1 + f), with s = f / (2 + f) and log2(1 + f) = s (c1 + s**2 (c3 + s**2 p(s**2)))."""
    e, f = split(x)
    s = _quotient(f)
    square = _multiply(s, s)
    z = square[0]
    tail = opaque(z * (polynomial(z, table.ATANH_POW_F64) * _ONE_OVER_LN2))
    cubic = fast_two_sum(constant(_TWO_THIRDS_OVER_LN2[0], x), tail)
    cubic = (cubic[0], cubic[1] + _TWO_THIRDS_OVER_LN2[1])
    series = _multiply(square, cubic)
    total = fast_two_sum(constant(_TWO_OVER_LN2[0], x), series[0])
    total = fast_two_sum(total[0], total[1] + (series[1] + _TWO_OVER_LN2[1]))
    part = _multiply(s, total)
    top, rest = fast_two_sum(e, part[0])
    return fast_two_sum(top, rest + part[1])


def _quotient(f: Expr) -> Pair:
    """f / (2 + f) in two parts."""
    denominator, lost = fast_two_sum(constant(2.0, f), f)
    s = f / denominator
    p, e = two_product(s, denominator)
    return s, (((f - p) - e) - s * lost) / denominator


def _multiply(a: Pair, b: Pair) -> Pair:
    p, e = two_product(a[0], b[0])
    return fast_two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


def _exp2_pair(high: Expr, low: Expr) -> Expr:
    """2**(high + low): the product of the reduced argument with ln 2 is exact in its leading part."""
    k, carrier = nearest_integer(high)
    r = high - k
    r_high = leading(r, 27)
    product = r_high * _LN2_HIGH
    tail = r_high * _LN2_LOW + ((r - r_high) + low) * (_LN2_HIGH + _LN2_LOW)
    t = product + tail
    value = 1.0 + (product + (t * t * polynomial(t, table.EXP_F64) + tail))
    return scaled(value, carrier)


def rsqrt(x: Expr) -> Expr:
    return 1.0 / sqrt(x)

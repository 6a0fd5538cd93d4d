"""exp, exp2, expm1 and what is made of them: tanh, sigmoid, erf."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang.expr import Expr, abs_, maximum, minimum, select
from tilewright.lang.math import coefficients as table
from tilewright.lang.math.parts import (
    exponent_field,
    flip_sign,
    format_of,
    halves,
    nearest_integer,
    polynomial,
    power_of_two,
    scaled,
    sign_of,
    two_sum,
)
from tilewright.lang.types import DType, f32, f64

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class _Exponential:
    """Constants of one type.

    `low`, `high`: beyond them e**x rounds to 0 and to infinity; `minus_one`: below it e**x - 1 rounds to -1;
    `one`: beyond it tanh(x) rounds to 1. ln 2 in two parts, the first short enough that k times it is exact.
    """

    low: float
    high: float
    minus_one: float
    one: float
    ln2_high: float
    ln2_low: float
    tail: tuple[float, ...]
    exp2_tail: tuple[float, ...]
    tanh: tuple[float, ...]
    erf: tuple[float, ...]
    log_erfc: tuple[float, ...]
    erf_one: float


_CONSTANTS: dict[DType, _Exponential] = {
    f32: _Exponential(
        -104.0, 89.0, -18.0, 9.1, 0.693145751953125, 1.4286068203094173e-06,
        table.EXP_F32, table.EXP2_F32, table.TANH_F32, table.ERF_F32, table.LOG_ERFC_F32, 4.0),
    f64: _Exponential(
        -746.0, 710.0, -38.0, 19.1, 0.6931471805598903, 5.497923018708371e-14,
        table.EXP_F64, table.EXP2_F64, table.TANH_F64, table.ERF_F64, table.LOG_ERFC_F64, 6.0),
}  # fmt: skip


def _reduced(x: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """e**x = 2**k * (1 + (high + tail)): k as a float, its carrier, high (exact) and tail (|high| < 0.35)."""
    c = _CONSTANTS[x.dtype]
    k, carrier = nearest_integer(x * LOG2_E)
    high = x - k * c.ln2_high
    low = k * c.ln2_low
    r = high - low
    return k, carrier, high, r * r * polynomial(r, c.tail) - low


def exp(x: Expr) -> Expr:
    c = _CONSTANTS[x.dtype]
    _, carrier, high, tail = _reduced(minimum(maximum(x, c.low), c.high))
    return scaled(1.0 + (high + tail), carrier)


def exp2(x: Expr) -> Expr:
    """Exact at integers: there the reduced argument is 0."""
    fmt = format_of(x)
    inner = minimum(maximum(x, -fmt.bias - fmt.mantissa - 2.0), fmt.bias + 1.0)
    k, carrier = nearest_integer(inner)
    r = inner - k
    ln2_less_one = -0.3068528194400547  # r itself stands apart, so that the rounding of r * ln 2 costs less
    tail = r * (ln2_less_one + r * polynomial(r, _CONSTANTS[x.dtype].exp2_tail))
    return scaled(1.0 + (r + tail), carrier)


def expm1(x: Expr) -> Expr:
    """2**k * ((1 - 2**-k) + high + tail), the sum kept in two parts until its end."""
    fmt, c = format_of(x), _CONSTANTS[x.dtype]
    k, carrier, high, tail = _reduced(minimum(maximum(x, c.minus_one), c.high))
    inverse = power_of_two(fmt.shifter - minimum(k, 100.0))  # beyond 2**-100 it tells nothing
    rest = 1.0 - inverse
    lost = (1.0 - rest) - inverse
    top, error = two_sum(rest, high)
    return select(x == 0.0, x, scaled(top + (error + (lost + tail)), carrier))


def tanh(x: Expr) -> Expr:
    """Odd by construction: x + x**3 p(x**2) near 0, else 1 - 2 / (1 + e**2x)."""
    c, a = _CONSTANTS[x.dtype], abs_(x)
    z = a * a
    near = a + a * (z * polynomial(z, c.tanh))
    _, carrier, high, tail = _reduced(minimum(a, c.one) * 2.0)
    scale = power_of_two(carrier)
    far = 1.0 - 2.0 / ((scale + 1.0) + scale * (high + tail))
    return flip_sign(select(a < 0.625, near, far), sign_of(x))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e**-x) as 2**-h / (2**-h + 2**-h e**-x), h half the exponent of e**-x: no end overflows.

    The larger of the two powers of two is added last, so that the sum is rounded as late as can be.
    """
    fmt, c = format_of(x), _CONSTANTS[x.dtype]
    _, carrier, high, tail = _reduced(maximum(minimum(-x, -c.low), c.low))
    half, rest = halves(carrier)
    one, power = exponent_field(2 * fmt.bias - half, fmt), exponent_field(rest, fmt)
    return one / (maximum(one, power) + (minimum(one, power) + power * (high + tail)))


def erf(x: Expr) -> Expr:
    """Odd by construction: x + x p(x**2) up to 1, else 1 - e**p(|x|)."""
    c, a = _CONSTANTS[x.dtype], abs_(x)
    z = a * a
    near = a + a * polynomial(z, c.erf)
    _, carrier, high, tail = _reduced(polynomial(minimum(a, c.erf_one), c.log_erfc))
    scale = power_of_two(carrier)
    far = (1.0 - scale) - scale * (high + tail)
    return flip_sign(select(a < 1.0, near, far), sign_of(x))

"""sin, cos, tan and atan2, right for every finite argument."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, pi

from tilewright.lang.expr import Expr, abs_, cast, maximum, minimum, select
from tilewright.lang.math import coefficients as table
from tilewright.lang.math.parts import (
    BINARY64,
    bits,
    constant,
    fast_two_sum,
    flip_sign,
    nearest_integer,
    opaque,
    polynomial,
    sign_of,
    small_integer,
    two_product,
)
from tilewright.lang.types import f32, f64, u64

HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17

# f32, computed in f64 ------------------------------------------------------------------------------------------

# 2**(26 j) * 2/pi modulo 4 for j = 0..3, in parts of 29 and 29 bits and a rest. An x of 24 bits times one of the
# first two is exact. j counts the steps of 2**26 that scale x below 2**50, where it is an integer if j > 0:
# so whole multiples of 4 quadrants may be dropped from the factor.
_TWO_OVER_PI = (
    (0.6366197690367699, 3.3308114738561656e-09, 2.276010073078396e-18),
    (1.72352696955204, 4.8093533183690695e-09, 5.1651711996897015e-18),
    (1.3227502331137657, 5.003241640433309e-09, 4.220776518111768e-18),
    (1.8357618600130081, 3.0772192294303835e-09, 1.1744408199816128e-17),
)


def _reduce_f32(x: Expr) -> tuple[Expr, Expr]:
    """|x| as r (f64; |r| < 0.807, pi/4 and what the third part adds) and its quadrants in the two lowest bits of a u64.

    The error of r is below 2**-58. No f32 comes nearer to a multiple of pi/2 than 2**-29.3 (tried for all of them).
    """
    wide = cast(f64, abs_(x))
    steps = [wide >= 2.0 ** (50 + 26 * j) for j in range(3)]

    def choose(values: Sequence[float]) -> Expr:
        out = constant(values[0], wide)
        for step, v in zip(steps, values[1:], strict=True):
            out = select(step, constant(v, wide), out)
        return out

    scaled = wide * choose([2.0 ** (-26 * j) for j in range(4)])
    first, second, third = (choose(part) for part in zip(*_TWO_OVER_PI, strict=True))
    n, carrier = nearest_integer(scaled * first)
    rest = (scaled * first - n) + scaled * second
    m, carrier_2 = nearest_integer(rest)
    quadrants = (rest - m) + scaled * third
    return quadrants * HALF_PI, bits(carrier) + bits(carrier_2)


def _sin_f32(r: Expr) -> Expr:
    z = r * r
    return r + r * (z * polynomial(z, table.SIN_F32))


def _cos_f32(r: Expr) -> Expr:
    z = r * r
    return 1.0 + z * (z * polynomial(z, table.COS_F32) - 0.5)


# f64 ----------------------------------------------------------------------------------------------------------

# The binary digits of 2/pi behind 64 zeros.
_DIGITS = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
_WORD = (1 << 32) - 1


def _window(exponent: Expr) -> list[Expr]:
    """Six 32-bit words (in u64) of 2/pi for x = m * 2**(exponent - 1075): from the digit that is worth 2 / m on."""
    position = exponent - 1013  # 64 zeros, and the first digit is worth 1/2
    words = [cast(u64, d) for d in _DIGITS]
    index = position >> 6
    for step, needed in ((16, 19), (8, 11), (4, 7), (2, 5), (1, 4)):
        taken = (index & step) != 0
        words = [select(taken, words[i + step], words[i]) if i + step < len(words) else words[i] for i in range(needed)]
    left = position & 63
    out = []
    for high, low in pairwise(words):
        word = (high << left) | ((low >> 1) >> (63 - left))
        out += [word >> 32, word & _WORD]
    return out


def _times(m: Expr, window: Sequence[Expr]) -> list[Expr]:
    """The product with a 53-bit integer, modulo the window's length; its five topmost words."""
    low, high = m & _WORD, m >> 32
    a = [low * w for w in window]
    b = [high * w for w in window]
    out: list[Expr] = []
    carry: Expr | None = None
    for i in range(4, -1, -1):
        total = (a[i] & _WORD) + (a[i + 1] >> 32) + (b[i + 1] & _WORD)
        if i < 4:
            total = total + (b[i + 2] >> 32)
        if carry is not None:
            total = total + carry
        carry = total >> 32
        out.insert(0, total & _WORD)
    return out


def _reduce_f64(x: Expr) -> tuple[Expr, Expr, Expr]:
    """|x| as r + low, r in -pi/4..pi/4, and the number of quadrants in the two lowest bits of a u64.

    After Payne and Hanek (1983), with integers: 126 binary digits of the quadrant are kept.
    """
    a = abs_(x)
    pattern = bits(a)
    m = (pattern & ((1 << 52) - 1)) | (1 << 52)
    w = _times(m, _window(pattern >> 52))
    top = (w[0] << 32) | w[1]
    quadrant = (top + (1 << 61)) >> 62
    # the top word's difference to whole quadrants, offset by 2**31 to stay unsigned
    signed = (w[0] - (quadrant << 30) + (1 << 31)) & _WORD
    parts = [(small_integer(signed, BINARY64) - 2.0**31) * 2.0**-30]
    parts += [small_integer(v, BINARY64) * 2.0 ** (-62 - 32 * k) for k, v in enumerate(w[1:4])]
    high, e1 = fast_two_sum(parts[0], parts[1])
    low, e2 = fast_two_sum(parts[2], parts[3])
    high, e3 = fast_two_sum(high, low)
    rest = e1 + e2 + e3
    r, r_low = two_product(high, constant(HALF_PI, x))
    r_low = r_low + (high * HALF_PI_LOW + rest * HALF_PI)
    # beyond the finite numbers nothing of x is left in r; below pi/4 x is its own rest
    inside = a <= pi / 4
    nothing = constant(0.0, x)
    undefined = a - a
    return (
        select(inside, a, r + undefined),
        select(inside, nothing, r_low),
        select(inside, cast(u64, 0), quadrant),
    )


def _sin_f64(r: Expr, low: Expr) -> tuple[Expr, Expr]:
    """sin(r + low) as a sum of two parts, and likewise the cosine below."""
    z = r * r
    return r, r * (z * polynomial(z, table.SIN_F64)) + low * (1.0 - 0.5 * z)


def _cos_f64(r: Expr, low: Expr) -> tuple[Expr, Expr]:
    z = r * r
    half = 0.5 * z
    top = 1.0 - half
    return top, ((1.0 - top) - half) + (z * (z * polynomial(z, table.COS_F64)) - r * low)


# Both ---------------------------------------------------------------------------------------------------------


def _sine_and_cosine(x: Expr) -> tuple[Expr, Expr, Expr]:
    """sin and cos of the rest r of |x|, in f64, and its quadrants."""
    if x.dtype is f32:
        r, quadrants = _reduce_f32(x)
        return _sin_f32(r), _cos_f32(r), quadrants
    r, low, quadrants = _reduce_f64(x)
    (s, s_low), (c, c_low) = _sin_f64(r, low), _cos_f64(r, low)
    return s + s_low, c + c_low, quadrants


def _odd(quadrants: Expr) -> Expr:
    return (quadrants & 1) != 0


def sin(x: Expr) -> Expr:
    s, c, q = _sine_and_cosine(x)
    value = flip_sign(select(_odd(q), c, s), (q & 2) << 62)
    return flip_sign(cast(x.dtype, value), sign_of(x))


def cos(x: Expr) -> Expr:
    s, c, q = _sine_and_cosine(x)
    return cast(x.dtype, flip_sign(select(_odd(q), s, c), ((q + 1) & 2) << 62))


def tan(x: Expr) -> Expr:
    """sin / cos of the rest, or -cos / sin."""
    if x.dtype is f32:
        s, c, q = _sine_and_cosine(x)
        odd = _odd(q)
        value = select(odd, c, s) / select(odd, s, c)
    else:
        r, low, q = _reduce_f64(x)
        odd = _odd(q)
        s, c = fast_two_sum(*_sin_f64(r, low)), fast_two_sum(*_cos_f64(r, low))
        value = _quotient(
            (select(odd, c[0], s[0]), select(odd, c[1], s[1])), (select(odd, s[0], c[0]), select(odd, s[1], c[1]))
        )
    return flip_sign(cast(x.dtype, flip_sign(value, (q & 1) << 63)), sign_of(x))


def _quotient(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> Expr:
    """The quotient of two sums of two parts, by one division and what it leaves over."""
    inverse = 1.0 / b[0]
    q = opaque(a[0] * inverse)
    product, error = two_product(q, b[0])
    return q + (((a[0] - product) - error) + (a[1] - q * b[1])) * inverse


# atan2 ----------------------------------------------------------------------------------------------------------


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y) in -pi..pi; signs of zeros and infinities as IEEE 754 has them."""
    angle = _atan2_f32 if x.dtype is f32 else _atan2_f64
    value = cast(x.dtype, angle(cast(f64, abs_(y)), cast(f64, abs_(x)), sign_of(x) != 0))
    return flip_sign(value, sign_of(y))


def _ratio_parts(y: Expr, x: Expr) -> tuple[Expr, Expr]:
    """Smaller and larger of two values >= 0: 1 and 1 where both are infinite, 0 and 1 where one is or both are 0."""
    large, small = maximum(y, x), minimum(y, x)
    infinity, one, zero = (constant(v, x) for v in (inf, 1.0, 0.0))
    infinite = large == infinity
    small = select(infinite, select(small == infinity, one, zero), small)
    return small, select(infinite | (large == 0.0), one, large)


def _atan2_f32(y: Expr, x: Expr, left: Expr) -> Expr:
    small, large = _ratio_parts(y, x)
    t = small / large
    z = t * t
    r = t + t * (z * polynomial(z, table.ATAN_F32))
    r = select(y > x, HALF_PI - r, r)
    return select(left, pi - r, r)


def _atan2_f64(y: Expr, x: Expr, left: Expr) -> Expr:
    """base + or - atan(t), base a multiple of pi/4: beyond a ratio of 1/2, atan(s/l) = pi/4 + atan((s-l)/(s+l))."""
    small, large = _ratio_parts(y, x)
    scale = select(large > 2.0**1000, constant(2.0**-600, x), large < 2.0**-300, constant(2.0**600, x), 1.0)
    small, large = small * scale, large * scale
    beyond = small > 0.5 * large
    denominator, lost = fast_two_sum(large, select(beyond, small, 0.0))
    numerator = select(beyond, small - large, small)
    t = numerator / denominator
    product, error = two_product(t, denominator)
    residue = ((numerator - product) - error) - t * lost
    t_low = select(small < 2.0**-900, 0.0, residue / denominator)  # tiny products would round
    z = t * t
    correction = t_low + t * (z * polynomial(z, table.ATAN_F64))

    swapped = y > x
    minus = cast(u64, swapped ^ left) << 63

    def base(none: float, one: float, two: float, three: float, four: float) -> Expr:
        diagonal = select(left, constant(three, x), constant(one, x))
        return select(beyond, diagonal, swapped, constant(two, x), left, constant(four, x), constant(none, x))

    quarters = [k * pi / 4 for k in range(5)]  # each the nearest f64, and what that lacks:
    missing = (0.0, HALF_PI_LOW / 2, HALF_PI_LOW, 9.184850993605148e-17, 2 * HALF_PI_LOW)
    top, rest = fast_two_sum(base(*quarters), flip_sign(t, minus))
    return top + (rest + (flip_sign(correction, minus) + base(*missing)))

"""What the definitions of mathematical functions are made of.

All of it is arithmetic that vector units have: no conversions between floats and integers (adding a large number
shifts an integer into the low bits), no signed shifts, no ordering of 64-bit integers, selections for branches.
Exact steps stay exact whether or not their products fuse; where a product's own rounding matters, `opaque` keeps it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lang import ir
from tilewright.lang.expr import Expr, bitcast, literal, select, wrap
from tilewright.lang.ir import Node
from tilewright.lang.types import DType, f32, f64, u32, u64


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: its type, the unsigned integer of its width, mantissa bits, exponent bias."""

    real: DType
    bits: DType
    mantissa: int
    bias: int

    @property
    def shifter(self) -> float:
        """1.5 * 2**mantissa: adding it rounds to an integer, which then stands in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def sign_bit(self) -> int:
        return 1 << (self.real.bits - 1)

    @property
    def bits_mask(self) -> int:
        return (1 << self.real.bits) - 1

    def bits_of(self, value: float) -> int:
        """The representation of a constant as an unsigned integer."""
        real, integer = ("<f", "<I") if self.real is f32 else ("<d", "<Q")
        return struct.unpack(integer, struct.pack(real, value))[0]


BINARY32 = Format(f32, u32, 23, 127)
BINARY64 = Format(f64, u64, 52, 1023)
FORMATS: dict[DType, Format] = {f32: BINARY32, f64: BINARY64}
_SCALED = "scaled"  # attribute of the last product of `scaled`


def format_of(x: Expr) -> Format:
    return FORMATS[x.dtype]


def constant(value: float, like: Expr) -> Expr:
    return wrap(literal(float(value), like.dtype))


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's scheme; coefficients from the constant term upwards."""
    out = constant(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out


# Bits -----------------------------------------------------------------------------------------------------------


def bits(x: Expr) -> Expr:
    return bitcast(format_of(x).bits, x)


def sign_of(x: Expr) -> Expr:
    """The sign bit alone, as an unsigned integer."""
    return bits(x) & format_of(x).sign_bit


def flip_sign(x: Expr, sign: Expr) -> Expr:
    """`x` negated where the bits `sign` (only the topmost may be set) say so."""
    return bitcast(x.dtype, bits(x) ^ sign)


def opaque(x: Expr) -> Expr:
    """`x` itself, but no product to the rule that decides on fma."""
    return bitcast(x.dtype, bits(x))


def leading(x: Expr, dropped: int) -> Expr:
    """`x` with its lowest `dropped` mantissa bits cleared."""
    fmt = format_of(x)
    return bitcast(x.dtype, bits(x) & (fmt.bits_mask - (1 << dropped) + 1))


# Exact sums and products ------------------------------------------------------------------------------------------


def fast_two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Rounded sum and its exact error, where |a| >= |b| or a is 0. Operands must not be products."""
    s = a + b
    return s, b - (s - a)


def two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Rounded sum and its exact error. Operands must not be products."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Rounded product of f64 values and its error up to 2**-106 of it."""
    p = opaque(a * b)
    a_high, b_high = leading(a, 27), leading(b, 27)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


# Powers of two ----------------------------------------------------------------------------------------------------


def nearest_integer(x: Expr) -> tuple[Expr, Expr]:
    """`x` (|x| < 2**(mantissa-1)) rounded to an integer, as a float, and the float that carries it in its low bits."""
    shifter = format_of(x).shifter
    carrier = x + shifter
    return carrier - shifter, carrier


def halves(carrier: Expr) -> tuple[Expr, Expr]:
    """h + bias and k - h + bias (unsigned) for the integer k of a `carrier` and h = k // 2; |k| <= 2 * bias."""
    fmt = format_of(carrier)
    biased = bits(carrier) - (fmt.bits_of(fmt.shifter) - 2 * fmt.bias)
    half = biased >> 1
    return half, biased - half


def scaled(x: Expr, carrier: Expr) -> Expr:
    """x * 2**k for the integer k of a `carrier`, rounded once: in two steps, the first exact. `scaling` finds it again.

    |k| < 2 * bias, and x is NaN wherever the carrier is.
    """
    fmt = format_of(x)
    first, second = halves(carrier)
    step = x * exponent_field(first, fmt)
    return wrap(ir.node("mul", x.dtype, (step.node, exponent_field(second, fmt).node), _SCALED))


def scaling(n: Node) -> tuple[Node, Node] | None:
    """x and k (as a float) where a node is what `scaled` makes of them, for processors that do it in one step."""
    if n.attr != _SCALED or n.op != "mul":
        return None
    step, second = n.args
    carrier = second.args[0].args[0].args[0].args[0].args[0]  # bitcast(biased - half << mantissa), biased from its bits
    return step.args[0], ir.node("sub", n.dtype, (carrier, constant(FORMATS[n.dtype].shifter, wrap(n)).node))


def power_of_two(carrier: Expr) -> Expr:
    """2**k for the integer k of a `carrier` that keeps the power normal."""
    fmt = format_of(carrier)
    return exponent_field(bits(carrier) - (fmt.bits_of(fmt.shifter) - fmt.bias), fmt)


def exponent_field(biased: Expr, fmt: Format) -> Expr:
    """2**(biased - bias)."""
    return bitcast(fmt.real, biased << fmt.mantissa)


def small_integer(value: Expr, fmt: Format) -> Expr:
    """An unsigned integer below 2**mantissa as a float."""
    offset = 2.0**fmt.mantissa
    return bitcast(fmt.real, value | fmt.bits_of(offset)) - offset


def split(x: Expr) -> tuple[Expr, Expr]:
    """e (as a float) and f of x = 2**e * (1 + f) with 1 + f in sqrt(1/2)..sqrt(2), both exact; x positive, finite."""
    fmt = format_of(x)
    lift = fmt.mantissa + 2
    subnormal = x < fmt.smallest_normal
    normal = select(subnormal, x * 2.0**lift, x)
    biased, f = split_normal(normal)
    e = small_integer(biased, fmt) - select(subnormal, constant(fmt.bias + lift, x), constant(fmt.bias, x))
    return e, f


def split_normal(x: Expr) -> tuple[Expr, Expr]:
    """The biased exponent e + bias (unsigned) and f of a positive normal x = 2**e * (1 + f), as in `split`."""
    fmt = format_of(x)
    root = fmt.bits_of(0.5**0.5)
    moved = bits(x) + (fmt.bits_of(1.0) - root)
    f = bitcast(fmt.real, (moved & ((1 << fmt.mantissa) - 1)) + root) - 1.0
    return moved >> fmt.mantissa, f

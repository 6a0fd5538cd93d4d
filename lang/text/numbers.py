"""Numbers as text: the shortest decimal that is read back as the same value."""

from __future__ import annotations

import math
import struct

from tilewright.lang.types import DType, f32

_NAN = struct.pack("<d", math.nan)


def format_float(value: float, t: DType) -> str:
    """The shortest text of a float of type `t` (f32 or f64): `0.1`, `1e-05`, `inf`, `nan`, `-0.0`."""
    if value != value:
        bits = struct.pack("<d", value)
        return "nan" if bits == _NAN else f"nan(0x{int.from_bytes(bits, 'little'):016x})"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if t is f32:
        short = _point(str(f32.np.type(value)))
        if float(f32.np.type(float(short))) == value:
            return short
    return _point(repr(value))


def _point(text: str) -> str:
    """A float must not look like an integer."""
    return text if any(c in text for c in ".en") else text + ".0"


def nan_from_bits(bits: int) -> float:
    """The NaN with this pattern of 64 bits."""
    return struct.unpack("<d", bits.to_bytes(8, "little"))[0]


def format_const(value: int | float | bool, t: DType) -> str:
    """A constant's value without its type."""
    if t.is_bool:
        return "true" if value else "false"
    return format_float(value, t) if t.is_float else str(value)

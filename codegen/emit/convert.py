"""Conversions by the numerics contract: casts, rounding to storage types, loading and storing narrow elements."""

from __future__ import annotations

from tilewright.codegen.emit.builder import (
    Function,
    float_text,
    shaped,
    splat,
    value_type,
)
from tilewright.lang.types import DType, f64

_MANTISSA = {"f32": 24, "f64": 53}


def cast(f: Function, source: DType, target: DType, n: int, x: str, inside: bool = False) -> str:
    """`x` in another type: integers wrap, float to integer truncates, saturates and gives 0 for NaN. `inside`: it is known
    to be NaN or a number of the target."""
    a, b = value_type(source), value_type(target)
    ta, tb = shaped(a, n), shaped(b, n)
    if source.is_float:
        if target.is_float:
            if a == b:
                return x
            return f.op(f"{'fpext' if target is f64 else 'fptrunc'} {ta} {x} to {tb}")
        if target.is_bool:
            return f.op(f"fcmp une {ta} {x}, {splat(a, float_text(0.0), n)}")
        return _float_to_integer(f, source, target, n, x, inside)
    signed = source.kind == "i"
    if target.is_float:
        return f.op(f"{'sitofp' if signed else 'uitofp'} {ta} {x} to {tb}")
    if target.is_bool:
        return x if source.is_bool else f.op(f"icmp ne {ta} {x}, {splat(a, '0', n)}")
    if a == b:
        return x
    if not source.is_bool and source.bits > target.bits:
        return f.op(f"trunc {ta} {x} to {tb}")
    return f.op(f"{'sext' if signed else 'zext'} {ta} {x} to {tb}")


def _float_to_integer(f: Function, source: DType, target: DType, n: int, x: str, inside: bool) -> str:
    """NaN becomes 0 first, then the ends: clamped as floats where the type has them, else put in by a selection."""
    s, ty = value_type(source), shaped(value_type(source), n)
    known = f.op(f"fcmp ord {ty} {x}, {splat(s, float_text(0.0), n)}")
    x = f.select(n, known, ty, x, splat(s, float_text(0.0), n))
    clamped = x
    if not inside:
        low = splat(s, float_text(float(target.low)), n)
        above = f.op(f"fcmp ogt {ty} {x}, {low}")
        clamped = f.select(n, above, ty, x, low)
    out = shaped(value_type(target), n)
    kind = "fptosi" if target.kind == "i" else "fptoui"
    if inside or target.bits - (target.kind == "i") <= _MANTISSA[source.name]:
        if not inside:
            high = splat(s, float_text(float(target.high)), n)
            below = f.op(f"fcmp olt {ty} {clamped}, {high}")
            clamped = f.select(n, below, ty, clamped, high)
        if target.bits < 32:  # by way of i32, which processors convert in one instruction
            wide = shaped("i32", n)
            return f.op(f"trunc {wide} {f.op(f'fptosi {ty} {clamped} to {wide}')} to {out}")
        return f.op(f"{kind} {ty} {clamped} to {out}")
    beyond = f.op(f"fcmp oge {ty} {x}, {splat(s, float_text(float(target.high + 1)), n)}")
    q = f.op(f"{kind} {ty} {clamped} to {out}")  # poison beyond the range, where it is not chosen
    return f.select(n, beyond, out, splat(value_type(target), str(target.high), n), q)


def round_to(f: Function, source: DType, storage: DType, n: int, x: str) -> str:
    """`x` rounded once, ties to even, to f16 or bf16, as f32."""
    if source is f64:
        x = _to_f32_odd(f, n, x)
    wide = shaped("float", n)
    if storage.name == "f16":
        return f.op(f"fpext {shaped('half', n)} {f.op(f'fptrunc {wide} {x} to ' + shaped('half', n))} to {wide}")
    bits_type = shaped("i32", n)

    def c(v: int) -> str:
        return splat("i32", str(v), n)

    bits = f.op(f"bitcast {wide} {x} to {bits_type}")
    odd = f.op(f"and {bits_type} {f.op(f'lshr {bits_type} {bits}, {c(16)}')}, {c(1)}")
    up = f.op(f"add {bits_type} {f.op(f'add {bits_type} {bits}, {c(0x7FFF)}')}, {odd}")
    nan = f.op(f"fcmp uno {wide} {x}, {splat('float', float_text(0.0), n)}")
    quiet = f.op(f"or {bits_type} {bits}, {c(0x400000)}")
    kept = f.op(f"and {bits_type} {f.select(n, nan, bits_type, quiet, up)}, {c(-65536)}")
    return f.op(f"bitcast {bits_type} {kept} to {wide}")


def _to_f32_odd(f: Function, n: int, x: str) -> str:
    """f64 to f32 rounded to odd, so that the next rounding is the only one (two bits more suffice)."""
    wide, near_type, bits_type, flag = shaped("double", n), shaped("float", n), shaped("i32", n), shaped("i1", n)
    near = f.op(f"fptrunc {wide} {x} to {near_type}")
    back = f.op(f"fpext {near_type} {near} to {wide}")
    inexact = f.op(f"fcmp one {wide} {back}, {x}")
    size_back, size_x = f.intrinsic("llvm.fabs", "double", n, [back]), f.intrinsic("llvm.fabs", "double", n, [x])
    larger = f.op(f"fcmp ogt {wide} {size_back}, {size_x}")
    bits = f.op(f"bitcast {near_type} {near} to {bits_type}")
    toward_zero = f.op(f"sub {bits_type} {bits}, {f.op(f'zext {flag} {larger} to {bits_type}')}")
    odd = f.op(f"or {bits_type} {toward_zero}, {f.op(f'zext {flag} {inexact} to {bits_type}')}")
    return f.op(f"bitcast {bits_type} {odd} to {near_type}")


def widen(f: Function, t: DType, n: int, x: str) -> str:
    """A loaded element of storage type `t` as a value of its compute type."""
    if t.is_bool:
        return f.op(f"icmp ne {shaped('i8', n)} {x}, {splat('i8', '0', n)}")
    if t.name == "f16":
        return f.op(f"fpext {shaped('half', n)} {x} to {shaped('float', n)}")
    if t.name == "bf16":
        wide = f.op(f"zext {shaped('i16', n)} {x} to {shaped('i32', n)}")
        bits = f.op(f"shl {shaped('i32', n)} {wide}, {splat('i32', '16', n)}")
        return f.op(f"bitcast {shaped('i32', n)} {bits} to {shaped('float', n)}")
    return x


def narrow(f: Function, t: DType, n: int, x: str) -> str:
    """A value as an element of storage type `t`; f32 values for f16 and bf16 are already rounded to it."""
    if t.is_bool:
        return f.op(f"zext {shaped('i1', n)} {x} to {shaped('i8', n)}")
    if t.name == "f16":
        return f.op(f"fptrunc {shaped('float', n)} {x} to {shaped('half', n)}")
    if t.name == "bf16":
        bits = f.op(f"bitcast {shaped('float', n)} {x} to {shaped('i32', n)}")
        high = f.op(f"lshr {shaped('i32', n)} {bits}, {splat('i32', '16', n)}")
        return f.op(f"trunc {shaped('i32', n)} {high} to {shaped('i16', n)}")
    return x

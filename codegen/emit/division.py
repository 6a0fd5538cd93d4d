"""Integer `//` and `%` by the numerics contract, and their float counterparts.

Rounds down, remainders take the sign of the divisor, division by zero gives 0 and INT_MIN // -1 wraps: nothing
reaches the processor that it traps on. By a constant LLVM multiplies. Vectors of narrow integers are divided by other
values as floats, which is exact: a quotient of integers below 2^23 (f32) or 2^52 (f64) lies further from the next
integer than the rounding error of a division.
"""

from __future__ import annotations

from tilewright.codegen.emit.builder import Function, float_text, shaped, splat, value_type
from tilewright.lang.types import DType


def integer_division(f: Function, op: str, t: DType, n: int, x: str, y: str, divisor: int | None) -> str:
    """`floordiv` or `mod` of integers; `divisor` is the value of `y` where it is constant."""
    if divisor is not None:
        return _by_constant(f, op, t, n, x, y, divisor)
    s = value_type(t)
    ty, zero, one = shaped(s, n), splat(s, "0", n), splat(s, "1", n)
    is_zero = f.op(f"icmp eq {ty} {y}, {zero}")
    trap = is_zero
    if t.kind == "i":
        is_minus = f.op(f"icmp eq {ty} {y}, {splat(s, '-1', n)}")
        trap = f.op(f"or {shaped('i1', n)} {is_zero}, {is_minus}")
    safe = f.select(n, trap, ty, one, y)
    if op == "mod":
        return _remainder(f, t, n, x, safe)  # the remainder by 1 is what both traps ask for
    q = _quotient(f, t, n, x, safe)
    if t.kind == "i":
        minus = f.op(f"sub {ty} {zero}, {x}")
        q = f.select(n, is_minus, ty, minus, q)
    return f.select(n, is_zero, ty, zero, q)


def _by_constant(f: Function, op: str, t: DType, n: int, x: str, y: str, d: int) -> str:
    s = value_type(t)
    ty, zero = shaped(s, n), splat(s, "0", n)
    if d == 0:
        return zero
    if d == 1:
        return x if op == "floordiv" else zero
    if d == -1:
        return f.op(f"sub {ty} {zero}, {x}") if op == "floordiv" else zero
    if d > 0 and d & (d - 1) == 0:  # arithmetic shift and mask round down for either sign
        shift = "ashr" if t.kind == "i" else "lshr"
        k = d.bit_length() - 1
        if op == "floordiv":
            return f.op(f"{shift} {ty} {x}, {splat(s, str(k), n)}")
        return f.op(f"and {ty} {x}, {splat(s, str(d - 1), n)}")
    return (_quotient if op == "floordiv" else _remainder)(f, t, n, x, y, constant=True)


def _quotient(f: Function, t: DType, n: int, x: str, y: str, constant: bool = False) -> str:
    """Rounded down; y is neither 0 nor -1. By a constant LLVM multiplies."""
    s = value_type(t)
    ty = shaped(s, n)
    if n and t.bits <= 32 and not constant:
        return _float_quotient(f, t, n, x, y)
    if t.kind == "u":
        return f.op(f"udiv {ty} {x}, {y}")
    q = f.op(f"sdiv {ty} {x}, {y}")
    r = f.op(f"sub {ty} {x}, {f.op(f'mul {ty} {q}, {y}')}")
    down = f.op(f"sext {shaped('i1', n)} {_wrong_sign(f, ty, n, s, r, y)} to {ty}")
    return f.op(f"add {ty} {q}, {down}")


def _remainder(f: Function, t: DType, n: int, x: str, y: str, constant: bool = False) -> str:
    s = value_type(t)
    ty = shaped(s, n)
    if n and t.bits <= 32 and not constant:
        q = _float_quotient(f, t, n, x, y)
        return f.op(f"sub {ty} {x}, {f.op(f'mul {ty} {q}, {y}')}")
    if t.kind == "u":
        return f.op(f"urem {ty} {x}, {y}")
    r = f.op(f"srem {ty} {x}, {y}")
    up = f.select(n, _wrong_sign(f, ty, n, s, r, y), ty, y, splat(s, "0", n))
    return f.op(f"add {ty} {r}, {up}")


def _wrong_sign(f: Function, ty: str, n: int, s: str, r: str, y: str) -> str:
    """Whether the truncated remainder is not zero and has the other sign than the divisor."""
    zero = splat(s, "0", n)
    some = f.op(f"icmp ne {ty} {r}, {zero}")
    apart = f.op(f"icmp slt {ty} {f.op(f'xor {ty} {r}, {y}')}, {zero}")
    return f.op(f"and {shaped('i1', n)} {some}, {apart}")


def _float_quotient(f: Function, t: DType, n: int, x: str, y: str) -> str:
    fs = "double" if t.bits == 32 else "float"
    it, ft = shaped(value_type(t), n), shaped(fs, n)
    to_float, to_int = ("sitofp", "fptosi") if t.kind == "i" else ("uitofp", "fptoui")
    a, b = f.op(f"{to_float} {it} {x} to {ft}"), f.op(f"{to_float} {it} {y} to {ft}")
    q = f.op(f"fdiv {ft} {a}, {b}")
    if t.kind == "i":
        q = f.intrinsic("llvm.floor", fs, n, [q])
    if t.bits == 32:
        return f.op(f"{to_int} {ft} {q} to {it}")
    wide = shaped("i32", n)
    return f.op(f"trunc {wide} {f.op(f'fptosi {ft} {q} to {wide}')} to {it}")


def float_division(f: Function, op: str, t: DType, n: int, a: str, b: str) -> str:
    """`floordiv` or `mod` of floats, exactly as NumPy's `floor_divide` and `remainder` (its `npy_divmod`)."""
    s = value_type(t)
    ty, mask = shaped(s, n), shaped("i1", n)
    zero, one, half = (splat(s, float_text(v), n) for v in (0.0, 1.0, 0.5))
    rem = f.op(f"frem {ty} {a}, {b}")
    by_zero = f.op(f"fcmp oeq {ty} {b}, {zero}")
    some = f.op(f"fcmp une {ty} {rem}, {zero}")
    b_minus, r_minus = f.op(f"fcmp olt {ty} {b}, {zero}"), f.op(f"fcmp olt {ty} {rem}, {zero}")
    differ = f.op(f"xor {mask} {b_minus}, {r_minus}")
    wrong = f.op(f"and {mask} {some}, {differ}")
    if op == "mod":
        moved = f.op(f"fadd {ty} {rem}, {b}")
        signed_zero = f.intrinsic("llvm.copysign", s, n, [zero, b])
        out = f.select(n, some, ty, f.select(n, wrong, ty, moved, rem), signed_zero)
        return f.select(n, by_zero, ty, rem, out)
    plain = f.op(f"fdiv {ty} {a}, {b}")
    div = f.op(f"fdiv {ty} {f.op(f'fsub {ty} {a}, {rem}')}, {b}")
    div = f.select(n, wrong, ty, f.op(f"fsub {ty} {div}, {one}"), div)
    low = f.intrinsic("llvm.floor", s, n, [div])
    far = f.op(f"fcmp ogt {ty} {f.op(f'fsub {ty} {div}, {low}')}, {half}")
    low = f.select(n, far, ty, f.op(f"fadd {ty} {low}, {one}"), low)
    signed_zero = f.intrinsic("llvm.copysign", s, n, [zero, plain])
    out = f.select(n, f.op(f"fcmp une {ty} {div}, {zero}"), ty, low, signed_zero)
    return f.select(n, by_zero, ty, plain, out)

"""Every operation of the expression nodes as LLVM instructions, exactly by the numerics contract.

Scalars and vectors share one text: `n` is 0 or the number of lanes. No fast-math flag is ever set.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.emit import convert
from tilewright.codegen.emit.builder import Function, float_text, shaped, splat, value_type
from tilewright.codegen.emit.division import float_division, integer_division
from tilewright.codegen.externs import symbol
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import Node
from tilewright.lang.types import DType, index

_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_ROUNDING = {
    "sqrt": "llvm.sqrt", "floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc", "round": "llvm.roundeven",
}  # fmt: skip
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def operation(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    """The instructions of node `m` on operands `xs` (already of shape `n`), its result's operand.

    `last` is the value of the last operand where that is a constant integer.
    """
    fn = _RULES.get(m.op)
    if fn is None:
        raise CompileError(f"an expression node {m.op!r} has no native form", code="emit.operation")
    return fn(f, m, n, xs, last)


def _arithmetic(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    t = m.dtype
    ty = shaped(value_type(t), n)
    if t.is_float:
        return f.op(f"{_FLOAT[m.op]} {ty} {xs[0]}, {xs[1]}")
    flag = " nsw" if t is index and m.op in ("add", "sub", "mul") else ""
    return f.op(f"{_INT[m.op]}{flag} {ty} {xs[0]}, {xs[1]}")


def _division(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    if m.dtype.is_float:
        return float_division(f, m.op, m.dtype, n, xs[0], xs[1])
    return integer_division(f, m.op, m.dtype, n, xs[0], xs[1], last)


def _extreme(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    """max: a if a > b or a is NaN, else b. The compare with its selection is one instruction on x86 (maxps a, b)."""
    t, (a, b) = m.dtype, xs
    s = value_type(t)
    if not t.is_float:
        return f.intrinsic(f"llvm.{'s' if t.kind == 'i' else 'u'}{m.op}", s, n, xs)
    ty = shaped(s, n)
    better = "gt" if m.op == "max" else "lt"
    c = m.args[1].attr if m.args[1].op == "const" else None
    if c is not None and c == c:  # b unless it loses: that is a where a is NaN, and one instruction where b is no zero
        wins = f.op(f"fcmp o{better if c else better[0] + 'e'} {ty} {b}, {a}")
        return f.select(n, wins, ty, b, a)
    wins = f.op(f"fcmp o{better} {ty} {a}, {b}")
    out = f.select(n, wins, ty, a, b)
    if m.args[0].op == "const" and m.args[0].attr == m.args[0].attr:
        return out
    nan = f.op(f"fcmp uno {ty} {a}, {splat(s, float_text(0.0), n)}")
    # freeze keeps LLVM from merging both selections into one with a longer condition; it costs nothing
    return f.select(n, nan, ty, a, f.op(f"freeze {ty} {out}"))


def _neg(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    ty = shaped(value_type(m.dtype), n)
    if m.dtype.is_float:
        return f.op(f"fneg {ty} {xs[0]}")
    return f.op(f"sub {ty} {splat(value_type(m.dtype), '0', n)}, {xs[0]}")


def _abs(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    s = value_type(m.dtype)
    if m.dtype.is_float:
        return f.intrinsic("llvm.fabs", s, n, xs)
    return f.intrinsic("llvm.abs", s, n, xs, "i1 false") if m.dtype.kind == "i" else xs[0]


def _not(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    s = value_type(m.dtype)
    ones = splat(s, "true" if m.dtype.is_bool else "-1", n)
    return f.op(f"xor {shaped(s, n)} {xs[0]}, {ones}")


def _shift(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    """Counts beyond the width (negative ones are huge as unsigned) shift everything out."""
    t, (x, count) = m.dtype, xs
    s = value_type(t)
    ty = shaped(s, n)
    arithmetic = m.op == "shr" and t.kind == "i"
    name = "shl" if m.op == "shl" else "ashr" if arithmetic else "lshr"
    if last is not None:
        if 0 <= last < t.bits:
            return f.op(f"{name} {ty} {x}, {count}")
        return f.op(f"ashr {ty} {x}, {splat(s, str(t.bits - 1), n)}") if arithmetic else splat(s, "0", n)
    if arithmetic:
        count = f.intrinsic("llvm.umin", s, n, [count, splat(s, str(t.bits - 1), n)])
        return f.op(f"ashr {ty} {x}, {count}")
    fits = f.op(f"icmp ult {ty} {count}, {splat(s, str(t.bits), n)}")
    return f.select(n, fits, ty, f.op(f"{name} {ty} {x}, {count}"), splat(s, "0", n))


def compare(f: Function, op: str, t: DType, n: int, a: str, b: str) -> str:
    """A comparison of two values of type `t`."""
    ty = shaped(value_type(t), n)
    if t.is_float:
        return f.op(f"fcmp {_FLOAT_COMPARE[op]} {ty} {a}, {b}")
    kind = op if op in ("eq", "ne") else ("s" if t.kind == "i" else "u") + op
    return f.op(f"icmp {kind} {ty} {a}, {b}")


def _compare(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    return compare(f, m.op, m.args[0].dtype, n, *xs)


def _select(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    return f.select(n, xs[0], shaped(value_type(m.dtype), n), xs[1], xs[2])


def _cast(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    return convert.cast(f, m.args[0].dtype, m.dtype, n, xs[0], _is_inside(m.args[0], m.dtype))


def _is_inside(x: Node, target: DType) -> bool:
    """Whether a float is clamped by constants to numbers of an integer type, as min(max(x, low), high) is. NaN stays NaN."""
    ends: dict[str, float] = {}
    while x.op in ("min", "max") and x.args[1].op == "const" and x.op not in ends:
        ends[x.op] = x.args[1].attr
        x = x.args[0]
    return target.is_int and len(ends) == 2 and target.low <= ends["max"] <= ends["min"] <= target.high


def _bitcast(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    a, b = value_type(m.args[0].dtype), value_type(m.dtype)
    return xs[0] if a == b else f.op(f"bitcast {shaped(a, n)} {xs[0]} to {shaped(b, n)}")


def _round_to(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    return convert.round_to(f, m.args[0].dtype, m.attr, n, xs[0])


def _call_intrinsic(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    return f.intrinsic(_ROUNDING[m.op], value_type(m.dtype), n, xs)


def _fma(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    return f.intrinsic("llvm.fma", value_type(m.dtype), n, xs)


def _call_extern(f: Function, m: Node, n: int, xs: list[str], last: int | None) -> str:
    """The user's function, lane by lane. It is pure by contract, so calls may be moved and merged."""
    types = [value_type(a.dtype) for a in m.args]
    result, name = value_type(m.dtype), symbol(m.attr)
    f.declare(name, result, ", ".join(types), "nounwind willreturn memory(none)")
    if not n:
        return f.op(f"call {result} @{name}({', '.join(f'{t} {x}' for t, x in zip(types, xs, strict=True))})")
    out = "poison"
    for k in range(n):
        lane = [f.op(f"extractelement {shaped(t, n)} {x}, i64 {k}") for t, x in zip(types, xs, strict=True)]
        one = f.op(f"call {result} @{name}({', '.join(f'{t} {x}' for t, x in zip(types, lane, strict=True))})")
        out = f.op(f"insertelement {shaped(result, n)} {out}, {result} {one}, i64 {k}")
    return out


_RULES: dict[str, Callable[[Function, Node, int, list[str], int | None], str]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "and", "or", "xor"), _arithmetic),
    **dict.fromkeys(("floordiv", "mod"), _division),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(_FLOAT_COMPARE, _compare),
    **dict.fromkeys(_ROUNDING, _call_intrinsic),
    "neg": _neg,
    "abs": _abs,
    "not": _not,
    "select": _select,
    "likely": lambda f, m, n, xs, last: xs[0],
    "cast": _cast,
    "bitcast": _bitcast,
    "round_to": _round_to,
    "fma": _fma,
    "call_extern": _call_extern,
}

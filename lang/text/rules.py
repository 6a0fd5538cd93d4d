"""What an operator or function of the text means: the same constructors that Python users call.

The reader applies these rules; the writer asks them whether a short form would be read back as the node at hand.
Operands are Python numbers (weak literals), `Expr` or whatever else lang.expr takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lang import expr, ir
from tilewright.lang.expr import Expr
from tilewright.lang.types import DTYPES, DType, index

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

# Python's own precedences, so that an expression can be carried over; a higher number binds tighter.
_LEVELS = [("eq", "ne", "lt", "le", "gt", "ge"), ("or",), ("xor",), ("and",), ("shl", "shr"), ("add", "sub"),
           ("mul", "div", "floordiv", "mod")]  # fmt: skip
PRECEDENCE = {op: level for level, ops in enumerate(_LEVELS, 1) for op in ops}
COMPARE, UNARY, ATOM = 1, len(_LEVELS) + 1, len(_LEVELS) + 2

TYPES: dict[str, DType] = {**DTYPES, "index": index}


def binary(op: str, a: Any, b: Any) -> Expr:
    """The operator `op` (a key of SYMBOLS) on two operands."""
    if op == "div":
        return expr.divide(a, b)
    if op in ("and", "or", "xor"):
        return expr.bitwise(op, a, b)
    if op in ("shl", "shr"):
        return expr.shift(op, a, b)
    if op in ir.COMPARISONS:
        return expr.compare(op, a, b)
    return expr.binary(op, a, b)


def likely(c: Any) -> Expr:
    """A condition that loops should be parted by."""
    from tilewright.lang import simplify

    n = expr.to_node(c)
    if not n.dtype.is_bool:
        expr.fail(f"likely of {expr.type_name(n.dtype)}", "it takes a condition: likely(x < n)", code="type.condition")
    return Expr(simplify.build("likely", n.dtype, (n,)))


def fma(a: Any, b: Any, c: Any) -> Expr:
    """a * b + c, rounded once; all of one float type."""
    like = next((expr.to_node(v).dtype for v in (a, b, c) if not expr.is_literal(v)), None)
    args = tuple(expr.to_node(v, like) for v in (a, b, c))
    t = args[0].dtype
    if not t.is_float or any(n.dtype is not t for n in args):
        expr.fail("fma of " + ", ".join(expr.type_name(n.dtype) for n in args), "it takes floats of one type")
    return Expr(ir.node("fma", t, args))


MANY = 1 << 30
# name -> (least and most number of operands, rule)
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Expr]]] = {
    "select": (3, MANY, expr.select), "minimum": (2, MANY, expr.minimum), "maximum": (2, MANY, expr.maximum),
    "likely": (1, 1, likely), "inside": (3, 3, expr.inside), "assume": (3, 3, expr.assume),
    "abs": (1, 1, expr.abs_), "fma": (3, 3, fma),
    "sqrt": (1, 1, expr.sqrt), "floor": (1, 1, expr.floor), "ceil": (1, 1, expr.ceil), "round": (1, 1, expr.round),
    "trunc": (1, 1, expr.trunc),
}  # fmt: skip
OP_NAMES = {"min": "minimum", "max": "maximum"}  # operations that the text calls otherwise


def convert(t: DType, value: Any) -> Expr:
    """`t(value)`: a typed number if value is a literal, else a cast (to f16 and bf16: a rounding)."""
    if expr.is_literal(value):
        return Expr(typed_literal(t, value))
    if t is index:
        n = expr.to_node(value)
        return Expr(n if n.dtype is index else ir.node("cast", index, (n,)))
    return expr.cast(t, value)


def typed_literal(t: DType, value: int | float | bool) -> ir.Node:
    """The constant `value` of type `t`, which must be able to hold it."""
    if t.is_float and value != value:
        return ir.const(value, t.compute)  # a NaN keeps its bits
    if t.is_bool and not isinstance(value, bool):
        expr.fail(f"{value} is no bool", "write true or false", code="type.literal")
    if isinstance(value, bool) and not t.is_bool:
        return expr.cast_node(expr.literal(value), t)
    if isinstance(value, float) and not t.is_float:
        return expr.cast_node(expr.literal(value), t)
    return expr.literal(value, t)


def math_function(name: str) -> Callable[..., Expr] | None:
    """A function of lang.math by name, or None."""
    from tilewright.lang import math

    return getattr(math, name) if name in math.FUNCTIONS else None


def function_names() -> list[str]:
    """Everything that can stand before a bracket."""
    from tilewright.lang import math

    return sorted({*FUNCTIONS, *math.FUNCTIONS, *TYPES, "bitcast"})

"""Functions of the user's own in expressions: `damp = tw.extern(fn, result=tw.f64, args=(tw.f64, tw.f64))`.

`fn` is a Python function that Numba can compile. Native code calls it element by element, the reference path runs it
as it is. Both hand it doubles (NumPy scalars in Python) or 64-bit integers, whatever narrower types are declared, and
round or wrap its result to the declared type once, so that both compute in the same types. It must be pure and end for
every value: how often and for which elements it runs (an arm of a `select` that is not taken, say) is not said.
"""

from __future__ import annotations

import hashlib
import types as python_types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.errors import ExternStageError, user_location
from tilewright.lang.expr import Expr, cast_node, fail, is_literal, literal, to_node, type_name, wrap
from tilewright.lang.ir import Node
from tilewright.lang.types import DType, as_dtype, f64, i64, index

_DEPTH = 8  # functions that call functions: how deep a digest looks


class Extern:
    """A function for expressions: call it with one expression or number an argument.

    `digest` changes with the function's bytecode, constants, defaults, closure and the functions and numbers that it
    refers to.
    """

    __slots__ = ("args", "digest", "function", "name", "result")

    def __init__(self, function: Callable[..., Any], name: str, result: DType, args: tuple[DType, ...]):
        self.function, self.name, self.result, self.args = function, name, result, args
        signature = f"{name}({', '.join(t.name for t in args)}) -> {result.name}"
        self.digest = hashlib.blake2b(f"{signature}|{_content(function, _DEPTH)}".encode(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return f"<extern {self.name}({', '.join(t.name for t in self.args)}) -> {self.result.name}>"

    def __str__(self) -> str:  # what digests of expressions see
        return f"{self.name} {self.digest}"

    def __call__(self, *values: Any) -> Expr:
        if len(values) != len(self.args):
            fail(f"{self.name} takes {len(self.args)} arguments and is given {len(values)}",
                 f"their types: {', '.join(t.name for t in self.args)}", code="type.extern")  # fmt: skip
        nodes = [_argument(self, k, v) for k, v in enumerate(values)]
        call = ir.node("call_extern", wide(self.result), tuple(nodes), self)
        return wrap(cast_node(call, self.result))


def extern(function: Callable[..., Any], result: Any, args: Sequence[Any], name: str | None = None) -> Extern:
    """A function of the user's own as a function of expressions, called element by element.

    `result` and `args` are element types: f32, f64 and integers up to i64 and u32. Functions made by `numba.njit` are
    taken by their Python function. Raises TypeRuleError for other types and for what is no plain function.
    """
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, python_types.FunctionType):
        fail(f"{function!r} is no plain function", "write it with def", code="type.extern")
    made = tuple(_declared(t) for t in args)
    label = name or plain.__name__
    if not label.isidentifier():
        fail(f"{label!r} is no name for a function", "give one: name='damp'", code="type.extern")
    return Extern(plain, label, _declared(result), made)


def wide(t: DType) -> DType:
    """The type in which values of a declared type go in and out."""
    return f64 if t.is_float else i64


def externs(roots: Iterable[Node]) -> tuple[Extern, ...]:
    """The functions that expressions call, in first-use order."""
    return tuple(dict.fromkeys(n.attr for n in ir.postorder(roots) if n.op == "call_extern"))


def evaluate(e: Extern, *values: Any) -> np.ndarray:
    """The values of the Python function, element by element. `values`: arrays of the wide types.

    Raises ExternStageError (extern.failed) where the function raises.
    """
    arrays = np.broadcast_arrays(*values) if values else [np.zeros(())]
    out = np.empty(arrays[0].shape, wide(e.result).np)
    columns = [a.reshape(-1) for a in arrays] if values else []
    flat = out.reshape(-1)
    with np.errstate(all="ignore"):
        for k in range(flat.size):
            given = tuple(c[k] for c in columns)
            try:
                flat[k] = e.function(*given)
            except Exception as problem:
                raise ExternStageError(
                    f"the function {e.name} raised {type(problem).__name__} for {', '.join(map(repr, map(_number, given)))}",
                    code="extern.failed", where=user_location(),
                    hint="it must give a number for every argument; np.log(-1.0) is nan where math.log raises",
                ) from problem  # fmt: skip
    return out


def _number(x: np.generic) -> int | float:
    return x.item()


def _declared(t: Any) -> DType:
    found = as_dtype(t)
    good = (found.is_float and not found.is_storage_only) or (found.is_int and (found.bits < 64 or found.kind == "i"))
    if found is index or not good:
        fail(f"an extern function of {type_name(found)}", "f32, f64 and integers up to i64 and u32 can be handed over",
             code="type.extern")  # fmt: skip
    return found


def _argument(e: Extern, position: int, value: Any) -> Node:
    t = e.args[position]
    n = literal(value, t) if is_literal(value) else to_node(value)
    if n.dtype is not t and not (n.dtype is index and t is i64):
        fail(f"argument {position} of {e.name} is {t.name} and is given {type_name(n.dtype)}",
             f"cast it: tw.cast(tw.{t.name}, x)", code="type.extern")  # fmt: skip
    return cast_node(cast_node(n, t), wide(t))


def _content(function: Any, depth: int) -> str:
    """What a function does, as a text: its code and all plain values and functions that it refers to."""
    if depth == 0:
        return "..."
    parts = [_code(function.__code__), repr(function.__defaults__)]
    parts += [_value(c.cell_contents, depth) for c in function.__closure__ or ()]
    for name in _names(function.__code__):
        if name in function.__globals__:
            parts.append(f"{name}={_value(function.__globals__[name], depth)}")
    return "(" + ";".join(parts) + ")"


def _value(v: Any, depth: int) -> str:
    v = getattr(v, "py_func", v)
    if isinstance(v, python_types.FunctionType):
        return _content(v, depth - 1)
    if isinstance(v, python_types.ModuleType):
        return v.__name__
    if isinstance(v, np.ndarray):
        return f"{v.dtype}{v.shape}{hashlib.blake2b(np.ascontiguousarray(v).tobytes()).hexdigest()}"
    return repr(v)


def _code(c: python_types.CodeType) -> str:
    constants = [_code(k) if isinstance(k, python_types.CodeType) else repr(k) for k in c.co_consts]
    return f"{c.co_code.hex()}|{constants}|{c.co_names}|{c.co_varnames}|{c.co_argcount}"


def _names(c: python_types.CodeType) -> list[str]:
    inner = [n for k in c.co_consts if isinstance(k, python_types.CodeType) for n in _names(k)]
    return [*c.co_names, *inner]


__all__ = ["Extern", "evaluate", "extern", "externs", "wide"]

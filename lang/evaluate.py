"""Expressions evaluated by NumPy, element-wise and exactly by the numerics contract (docs/numerics.md).

This is the arithmetic of the reference path, and what the native back end must agree with bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.lang import rounding
from tilewright.lang.errors import ArgumentError
from tilewright.lang.ir import Node
from tilewright.lang.types import DType

Load = Callable[[Node, list[np.ndarray]], Any]


def evaluate(roots: Sequence[Node], env: Mapping[Node, Any], load: Load | None = None) -> list[np.ndarray]:
    """The values of `roots`, arrays of the broadcast shape of what they use (rank 0 for constants).

    `env` gives arrays or scalars for nodes, leaves as a rule (what stands below such a node is not looked
    at); they are converted to the node's type. `load(node, indices)` answers load nodes. Calls of mathematical
    functions are evaluated by their definitions without fma. Every node is computed once and dropped after
    its last use.
    """
    order = _needed(roots, env)
    uses = Counter(a for n in order if n not in env for a in n.args)
    uses.update(roots)
    values: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for n in order:
            if n in env:
                values[n] = np.asarray(env[n], dtype=n.dtype.np)
                continue
            args = [values[a] for a in n.args]
            if n.op == "load":
                if load is None:
                    raise ArgumentError(f"the value of {n.attr[0].name} is not given", code="evaluate.load")
                values[n] = np.asarray(load(n, args), dtype=n.dtype.np)
            else:
                values[n] = apply(n, args)
            del args
            for a in n.args:
                uses[a] -= 1
                if not uses[a]:
                    del values[a]
    return [np.asarray(values[r]) for r in roots]


def _needed(roots: Sequence[Node], env: Mapping[Node, Any]) -> list[Node]:
    """Postorder that does not go below nodes whose value is given."""
    out: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        n, ready = stack.pop()
        if ready:
            out.append(n)
        elif n not in seen:
            seen.add(n)
            stack.append((n, True))
            if n not in env:
                stack.extend((a, False) for a in reversed(n.args) if a not in seen)
    return out


def apply(n: Node, args: Sequence[Any]) -> Any:
    """One node's operation on values of its arguments' types; call it under `np.errstate(all="ignore")`."""
    if n.op == "const":
        return n.dtype.np.type(n.attr)
    fn = _RULES.get(n.op)
    if fn is None:
        raise ArgumentError(f"the value of {n.op} {n.attr!r} is not given", code="evaluate.value")
    return fn(n, *args)


# Arithmetic ------------------------------------------------------------------------------------------------


def _floordiv(n: Node, a: Any, b: Any) -> Any:
    if n.dtype.is_float:
        return np.floor_divide(a, b)
    out = np.floor_divide(a, _safe_divisor(n.dtype, b))
    if n.dtype.kind == "i":
        out = np.where(b == -1, np.negative(a), out)  # wraps for the smallest integer
    return np.where(b == 0, n.dtype.np.type(0), out)


def _mod(n: Node, a: Any, b: Any) -> Any:
    if n.dtype.is_float:
        return np.mod(a, b)
    return np.mod(a, _safe_divisor(n.dtype, b))  # anything % 1 is 0, which is the rule for both traps


def _safe_divisor(t: DType, b: Any) -> Any:
    """`b` with the values that processors trap on replaced by 1."""
    trap = (b == 0) | (b == -1) if t.kind == "i" else b == 0
    return np.where(trap, t.np.type(1), b)


def _max(n: Node, a: Any, b: Any) -> Any:
    if n.dtype.is_float:
        return np.where((a > b) | (a != a), a, b)
    return np.maximum(a, b)


def _min(n: Node, a: Any, b: Any) -> Any:
    if n.dtype.is_float:
        return np.where((a < b) | (a != a), a, b)
    return np.minimum(a, b)


# Bits ------------------------------------------------------------------------------------------------------


def _shl(n: Node, a: Any, count: Any) -> Any:
    t = n.dtype.np.type
    fits = (count >= 0) & (count < n.dtype.bits)
    return np.where(fits, np.left_shift(a, np.where(fits, count, t(0))), t(0))


def _shr(n: Node, a: Any, count: Any) -> Any:
    t = n.dtype.np.type
    fits = (count >= 0) & (count < n.dtype.bits)
    if n.dtype.kind == "i":
        return np.right_shift(a, np.where(fits, count, t(n.dtype.bits - 1)))
    return np.where(fits, np.right_shift(a, np.where(fits, count, t(0))), t(0))


# Conversion ------------------------------------------------------------------------------------------------


def _cast(n: Node, a: Any) -> Any:
    t, a = n.dtype, np.asarray(a)
    if a.dtype.kind == "f" and t.is_int:
        return _saturate(a, t)
    return a.astype(t.np)


def _saturate(a: np.ndarray, t: DType) -> np.ndarray:
    """Float to integer: truncates, saturates, NaN gives 0."""
    whole = np.trunc(a.astype(np.float64))
    above, below = whole >= float(t.high + 1), whole < float(t.low)
    out = np.where(above | below | np.isnan(whole), 0.0, whole).astype(t.np)
    return np.where(above, t.np.type(t.high), np.where(below, t.np.type(t.low), out))


def _assume(n: Node, x: Any, low: Any, high: Any, reached: Any = None) -> Any:
    if reached is not None:
        from tilewright.lang.assumptions import check  # which is about whole definitions

        check(n, x, low, high, reached)
    return x


def _call(n: Node, *args: Any) -> Any:
    from tilewright.lang import math  # definitions are built with the expressions that this module evaluates

    params, body = math.definition(n.attr, n.dtype)
    return evaluate([body], dict(zip(params, args, strict=True)))[0]


def _call_extern(n: Node, *args: Any) -> Any:
    from tilewright.lang.extern import evaluate as run  # which is about expressions

    return run(n.attr, *args)


def _plain(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    return lambda n, *args: ufunc(*args)


_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_not,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "select": np.where,
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
    "fma": rounding.fma,
}  # fmt: skip

_RULES: dict[str, Callable[..., Any]] = {
    **{op: _plain(fn) for op, fn in _UFUNCS.items()},
    "floordiv": _floordiv,
    "mod": _mod,
    "max": _max,
    "min": _min,
    "shl": _shl,
    "shr": _shr,
    "likely": lambda n, a: a,
    "assume": _assume,
    "cast": _cast,
    "bitcast": lambda n, a: np.asarray(a).view(n.dtype.np),
    "round_to": lambda n, a: rounding.round_to(a, n.attr.np),
    "call": _call,
    "call_extern": _call_extern,
}

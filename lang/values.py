"""Index expressions at actual sizes: exact Python integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.lang.evaluate import apply
from tilewright.lang.ir import Node
from tilewright.lang.types import index

Env = Mapping[Any, Any]  # sizes and scalars by name, any node by itself

_INDEX = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "neg": lambda a: -a,
    "abs": abs,
    "select": lambda c, a, b: a if c else b,
    "cast": int,
}
_BOOL = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def index_values(nodes: Sequence[Node], env: Env, memo: dict[Node, Any] | None = None) -> list[Any]:
    """The values of `nodes` (index expressions as ints, conditions as bools): `//` and `%` by 0 give 0."""
    memo = {} if memo is None else memo
    for n in ir.postorder([n for n in nodes if n not in memo]):
        if n not in memo:
            memo[n] = _value(n, [memo[a] for a in n.args], env)
    return [memo[n] for n in nodes]


def index_value(n: Node, env: Env) -> int:
    """The value of one index expression. `env` has sizes and scalars by name, or nodes."""
    return index_values([n], env)[0]


def _value(n: Node, args: list[Any], env: Env) -> Any:
    if n in env:
        return env[n]
    if n.op in ("size", "scalar", "var"):
        found = env.get(n.attr)
        if found is None:
            raise ArgumentError(
                f"the value of {n.attr} is not known", code="argument.size-unknown", where=user_location(),
                hint=f"give it: {n.attr}=...",
            )  # fmt: skip
        return int(found) if n.dtype is index else n.dtype.np.type(found)
    if n.op == "const" and n.dtype is index:
        return n.attr
    if n.dtype is index:
        return _INDEX[n.op](*args)
    if n.op in _BOOL and n.args[0].dtype is index:
        return _BOOL[n.op](*args)
    with np.errstate(all="ignore"):
        return apply(n, [a if m.dtype is not index else np.int64(a) for m, a in zip(n.args, args, strict=True)])

"""A skeleton's tree counted step by step in plain Python: the oracle of what its counters say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codegen.skeleton import tree as T
from tilewright.lang.ir import Node
from tilewright.lang.values import index_value


def counted(tree: T.Step, counters: int, env: Mapping[Any, int]) -> list[int]:
    """The value of every counter after the tree ran with these values of sizes and scalars."""
    out = [0] * counters
    _walk(tree, dict(env), out)
    return out


def _holds(c: Node | None, env: Mapping[Any, int]) -> bool:
    return c is None or bool(index_value(c, env))


def _walk(s: T.Step, env: dict[Any, int], out: list[int]) -> None:
    match s:
        case T.Charge(counter, amount, condition, None):
            out[counter] += index_value(amount, env) * _holds(condition, env)
        case T.Charge(counter, amount, condition, lane, lanes):
            for k in range(lanes):
                here = {**env, lane: k}
                out[counter] += index_value(amount, here) * _holds(condition, here)
        case T.Product(counter, factors, condition):
            n = 1
            for f in factors:
                n *= max(0, index_value(f, env))
            out[counter] += n * _holds(condition, env)
        case T.Branch(condition, then, otherwise):
            if _holds(condition, env):
                _walk(then, env, out)
            elif otherwise is not None:
                _walk(otherwise, env, out)
        case T.Loop():
            first, stop = index_value(s.start, env), index_value(s.stop, env)
            for c, n in ((s.visits, 1), (s.trips, max(0, stop - first))):
                if c is not None:
                    out[c] += n
            for k in range(first, stop):
                _walk(s.body, {**env, s.var: k}, out)
        case _:
            for t in T.children(s):
                _walk(t, env, out)

"""What `tw.assume` promised: where it stands in a kernel, and the conditions under which a promise is broken.

An assumption counts only where its value is needed: in the arm of a select that is taken, at points whose predicates
hold. The reference path attaches that condition to the node itself (`guarded`); native code in debug mode computes the
number of the first broken promise before every statement (`broken`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.lang import ir, simplify
from tilewright.lang.errors import AssumptionError, Location
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.types import bool_, i64, index

NONE = ir.const(0, i64)


def assumptions(p: Pipeline) -> dict[Location | None, Node]:
    """The promises of a pipeline in order: the place where each was written, and its node (any, of several there)."""
    found: dict[Location | None, Node] = {}
    for d in p.definitions():
        for n in ir.leaves(d.roots, "assume"):
            found.setdefault(n.attr, n)
    return found


def failure(n: Node, value: Any = None) -> AssumptionError:
    """The error of a broken promise; `value` is the one that broke it, where that is known."""
    x, low, high = n.args[:3]
    shown = "" if value is None else f": there is {value}"
    return AssumptionError(
        f"it is assumed that {low!r} <= {x!r} < {high!r}, which does not hold{shown}", where=n.attr,
        hint="correct the data or the bounds, or limit the value: tw.clamp(x, low, high - 1)"
        + ("; kernel.reference(...) tells a value" if value is None else ""),
    )  # fmt: skip


def check(n: Node, x: Any, low: Any, high: Any, reached: Any) -> None:
    """Raise the error of an assumption that fails for any of the values that are reached."""
    x, low, high, reached = np.broadcast_arrays(x, low, high, reached)
    wrong = reached & ~((x >= low) & (x < high))
    if wrong.any():
        raise failure(n, x[wrong].reshape(-1)[0])


# For the reference: every assumption knows when it counts -----------------------------------------------------------


def guarded(d: Definition) -> tuple[Definition, tuple[Node, ...]]:
    """`d` and its predicates with the condition under which it counts as a fourth operand of every assumption."""
    if not any(n.op == "assume" for n in ir.postorder(d.roots)):
        return d, d.predicates
    executed = ir.TRUE
    for c in d.predicates:
        executed = simplify.conjunction(executed, c)
    reached = _reached([(r, executed) for r in (*d.lhs, *d.values)] + [(r, ir.TRUE) for r in d.predicates])

    def one(n: Node, args: tuple[Node, ...]) -> Node:
        return ir.node(n.op, n.dtype, (*args, reached[n]), n.attr) if n.op == "assume" else ir.rebuild(n, args)

    roots = ir.transform(d.roots, one)
    rank, count = len(d.lhs), len(d.values)
    return replace(d, lhs=roots[:rank], values=roots[rank : rank + count]), roots[rank + count :]


def _reached(roots: Sequence[tuple[Node, Node]]) -> dict[Node, Node]:
    """For every node, the condition under which its value is needed, from the selects above it."""
    out: dict[Node, Node] = {}
    for r, c in roots:
        _need(out, r, c)
    for n in reversed(list(ir.postorder([r for r, _ in roots]))):
        if n.op == "select":
            c, a, b = n.args
            _need(out, c, out[n])
            _need(out, a, simplify.conjunction(out[n], c))
            _need(out, b, simplify.conjunction(out[n], ir.node("not", bool_, (c,))))
        else:
            for a in n.args:
                _need(out, a, out[n])
    return out


def _need(out: dict[Node, Node], n: Node, condition: Node) -> None:
    old = out.get(n)
    if old is None or condition is ir.TRUE:
        out[n] = condition
    elif old is not condition and old is not ir.TRUE:
        out[n] = ir.node("or", bool_, (old, condition))


# For native code: which promise a statement breaks -------------------------------------------------------------------


def broken(roots: Sequence[Node], numbers: Mapping[Location | None, int]) -> Node | None:
    """An i64 expression: the number of the first promise below `roots` that is broken, 0 if all are kept; None where
    there are none. It reads memory only where the promises that it rests on are kept."""
    found: dict[Node, Node] = {}
    for n in ir.postorder(roots):
        if n.op == "select":
            c, a, b = n.args
            found[n] = _first(found[c], simplify.build("select", i64, (c, found[a], found[b])))
        else:
            out = NONE
            for a in n.args:
                out = _first(out, found[a])
            found[n] = _first(out, _one(n, numbers[n.attr])) if n.op == "assume" else out
    total = NONE
    for r in roots:
        total = _first(total, found[r])
    return None if total is NONE else total


def _one(n: Node, number: int) -> Node:
    x, low, high = n.args
    at = x if x.dtype is index else ir.node("cast", index, (x,))
    kept = simplify.conjunction(simplify.compare("ge", at, low), simplify.compare("lt", at, high))
    return simplify.build("select", i64, (kept, NONE, ir.const(number, i64)))


def _first(a: Node, b: Node) -> Node:
    if a is NONE or a is b:
        return b
    if b is NONE:
        return a
    return ir.node("select", i64, (ir.node("ne", bool_, (a, NONE)), a, b))

"""Which updates are reductions over an associative and commutative operator: a small table, matched structurally.

sum, product, minimum, maximum, and, or, xor over any type, and the (value, index) pairs of argmin and argmax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.lang import expr, ir, simplify, types
from tilewright.lang.expr import Expr, cast_node, wrap
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.lang.reduce import identity
from tilewright.lang.types import DType

Values = tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Reduction:
    """An update of the form C = C op term. `identity` leaves a value unchanged bit for bit, `combine` merges two
    partial results, `exact` says that the order of the steps can't change the bits."""

    operator: str
    identity: Values
    combine: Callable[[Values, Values], Values]
    exact: bool


def self_load(d: Definition, component: int = 0) -> Node:
    """The element that an update writes, as it reads it."""
    return ir.node("load", d.func.dtypes[component].compute, d.lhs, (d.func, component))


def reads_self(d: Definition, n: Node) -> bool:
    return any(x.attr[0] is d.func for x in ir.leaves((n,), "load"))


def match(d: Definition) -> Reduction | None:
    """The reduction that an update is, or None."""
    if d.number < 0 or any(reads_self(d, i) for i in d.lhs):
        return None
    if len(d.values) == 1:
        return _match_single(d)
    if len(d.values) == 2:
        return _match_index_pair(d)
    return None


def _match_single(d: Definition) -> Reduction | None:
    t = d.func.dtypes[0]
    value = d.values[0]
    if t.is_storage_only and value.op == "round_to":
        value = value.args[0]
    if value.op not in ("add", "sub", "mul", "min", "max", "and", "or", "xor"):
        return None
    me = self_load(d)
    a, b = value.args
    if (a is me and not reads_self(d, b)) or (b is me and not reads_self(d, a) and value.op != "sub"):
        pass
    else:
        return None
    op = "add" if value.op == "sub" else value.op
    if op in ("min", "max") and t.is_float and a is not me:
        return None  # maximum(a, b) takes a's NaN first: only the order (partial, term) is in the table
    return Reduction(op, (_identity(op, t),), _combine(op, t), not t.is_float)


def _identity(op: str, t: DType) -> Node:
    c = t.compute
    if op == "add":
        return ir.const(-0.0 if t.is_float else 0, c)
    if op == "mul":
        return ir.const(1, c)
    if op in ("min", "max"):
        return ir.const(identity(op, t), c)
    if t.is_bool:
        return ir.const(op == "and", c)
    return ir.const((-1 if t.kind == "i" else t.high) if op == "and" else 0, c)


def _combine(op: str, t: DType) -> Callable[[Values, Values], Values]:
    def combine(a: Values, b: Values) -> Values:
        return (cast_node(ir.node(op, t.compute, (a[0], b[0])), t),)

    return combine


def _match_index_pair(d: Definition) -> Reduction | None:
    """The update that `tw.argmax` and `tw.argmin` make, recognised by building it again."""
    best, at = (wrap(self_load(d, k)) for k in (0, 1))
    first, second = d.values
    if first.op != "select" or second.op != "select" or first.args[0] is not second.args[0]:
        return None
    v, k = wrap(first.args[1]), wrap(second.args[1])
    if any(reads_self(d, n.node) for n in (v, k)) or d.func.dtypes[1] is not types.i64 or not _grows(d, k.node):
        return None
    for op, better in (("max", lambda x, y: x > y), ("min", lambda x, y: x < y)):
        wins = (at < 0) | better(v, best)
        if v.node.dtype.is_float:
            wins = wins | ((v != v) & (best == best))
        if first is expr.select(wins, v, best).node and second is expr.select(wins, k, at).node:
            t = d.func.dtypes[0]
            start = (ir.const(identity(op, t), t.compute), ir.const(-1, types.i64))
            if d.number != 0 or d.func.init is None or d.func.init.values != start:
                return None  # what was there before has no index to compare with
            return Reduction(f"arg{op}", start, _combine_pairs(better), True)
    return None


def _grows(d: Definition, k: Node) -> bool:
    """Whether an index grows from each point of the domain to the next: then the smallest one is that of the first."""
    while k.op == "cast":
        k = k.args[0]
    if k.dtype is not types.index or d.rdom is None:
        return False
    coefs = dict(simplify.linear(k)[0])
    reach: int | None = 0  # how far the variables further in can take it
    for name, (start, stop) in reversed(d.rdom.ranges.items()):
        step = coefs.pop(d.rdom.rvar(name), 0)
        if reach is None or step <= reach:
            return False
        extent = simplify.sub(stop, start)
        reach = reach + step * max(0, extent.attr - 1) if extent.op == "const" else None
    return not ir.leaves(tuple(coefs), "rvar")


def _combine_pairs(better: Callable[[Expr, Expr], Expr]) -> Callable[[Values, Values], Values]:
    """The better value wins; of equal ones (two NaN too) the smaller index; -1 stands for nothing seen."""

    def combine(a: Values, b: Values) -> Values:
        (x, i), (y, j) = (tuple(map(wrap, p)) for p in (a, b))
        wins = better(y, x)
        tie = x == y
        if x.node.dtype.is_float:
            wins = wins | ((y != y) & (x == x))
            tie = tie | ((x != x) & (y != y))
        takes = (j >= 0) & ((i < 0) | wins | (tie & (j < i)))
        return expr.select(takes, y, x).node, expr.select(takes, j, i).node

    return combine

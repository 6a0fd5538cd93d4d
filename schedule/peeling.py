"""Loops whose first and last iterations are copies of their own, and nests where conditions are known to hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import index
from tilewright.schedule.nest import (
    Allocation,
    Assign,
    Box,
    Call,
    Guard,
    LoopNode,
    NestNode,
    PrefetchNode,
    Produce,
    Sequence,
    Storage,
    sequence,
)
from tilewright.schedule.prove import Facts
from tilewright.schedule.ranges import ONE, Range, as_ge0, spread


def loop_node(address: str, x: Range, body: NestNode, around: tuple[Range, ...]) -> NestNode:
    """The loop over `x` inside of the loops `around`, in parts if it is peeled."""
    loop = LoopNode(address, x.name, x.var, x.start, x.stop, x.mode, x.reduction, body, x.part, x.axis)
    return peeled(loop, *x.peel, Facts(tuple((y.var, y.interval) for y in around))) if any(x.peel) else loop


def peeled(loop: LoopNode, first: int, last: int, facts: Facts) -> NestNode:
    """The first iterations, all others, the last ones. Where there are too few, the first ones come first.

    The middle one keeps the address and the mode, the others are serial.
    """
    start, stop = loop.start, loop.stop
    begin, end = simplify.add(start, integer(first)), simplify.sub(stop, integer(last))
    items: list[NestNode] = []
    if first:
        items.append(_edge(loop, "first", start, begin, stop, facts))
    items.append(_part(loop, begin, end, facts))
    if last:
        items.append(_edge(loop, "last", simplify.maximum(end, begin) if last > 1 else end, stop, begin, facts))
    return sequence(*items)


def _edge(loop: LoopNode, which: str, start: Node, stop: Node, other: Node, facts: Facts) -> NestNode:
    """The iterations at one end; a single one has no loop that may or may not run."""
    edge = replace(loop, address=f"{loop.address}{{{which}}}", mode="serial")
    single = simplify.sub(stop, start) is ONE
    if which == "first":
        exists = simplify.compare("lt", start, other)
        stop = stop if single else simplify.minimum(stop, other)
    else:
        exists = simplify.compare("ge", start, other)
    made = _part(edge, start, stop, facts)
    return made if not single or exists is ir.TRUE else Guard(exists, made)


def _part(loop: LoopNode, start: Node, stop: Node, facts: Facts) -> LoopNode:
    inner = facts.entering(loop.var, Interval(start, simplify.sub(stop, ONE)))
    return replace(loop, start=start, stop=stop, body=Simplifier(inner).nest(loop.body))


# Where conditions hold --------------------------------------------------------------------------------------------


class Simplifier:
    """A nest rewritten at one place: what the facts there decide is decided. `true` are conditions that hold."""

    def __init__(self, facts: Facts, true: Iterable[Node] = ()):
        self.facts, self.true = facts, tuple(true)
        self.memo: dict[Node, Node] = dict.fromkeys(self.true, ir.TRUE)
        self.proved: dict[Node, bool] = {}

    def nest(self, n: NestNode) -> NestNode:
        """`n` with conditions, bounds and indices simplified; what stands in loops and guards by what these add."""
        match n:
            case Sequence(items):
                return sequence(*map(self.nest, items))
            case LoopNode():
                start, stop = self.values((n.start, n.stop))
                inner = Simplifier(self.facts.entering(n.var, Interval(start, simplify.sub(stop, ONE))), self.true)
                return replace(n, start=start, stop=stop, body=inner.nest(n.body))
            case Guard(condition, then, otherwise):
                (c,) = self.values((condition,))
                if c is ir.TRUE:
                    return self.nest(then)
                no = None if otherwise is None else self.nest(otherwise)
                if c is ir.FALSE:
                    return no or Sequence(())
                return replace(n, condition=c, then=Simplifier(self.facts.where(c), self.true).nest(then), otherwise=no)
            case Allocation(storages, body):
                return Allocation(tuple(map(self.storage, storages)), self.nest(body))
            case Produce():
                return replace(n, region=self.box(n.region), body=self.nest(n.body))
            case Assign():
                roots = self.values((*n.indices, *n.values))
                rank = len(n.indices)
                return replace(n, indices=roots[:rank], values=roots[rank:])  # point and spare stay true
            case Call():
                given = tuple(
                    self.values((a,))[0] if isinstance(a, Node) else (a[0], tuple(map(self.box, a[1])))
                    for a in n.arguments
                )
                return replace(n, region=self.box(n.region), arguments=given)
            case PrefetchNode():
                return replace(n, region=self.box(n.region))
        raise TypeError(n)

    def storage(self, s: Storage) -> Storage:
        turn = None if s.turn is None else self.values((s.turn,))[0]
        return replace(s, origin=self.values(s.origin), extents=self.values(s.extents), turn=turn)

    def box(self, box: Box) -> Box:
        return tuple(Interval(*(None if e is None else self.values((e,))[0] for e in (r.lo, r.hi))) for r in box)

    def values(self, roots: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(ir.transform(roots, self._one, self.memo))

    def _one(self, n: Node, args: tuple[Node, ...]) -> Node:
        made = ir.rebuild(n, args)
        if made.op in ("lt", "le", "gt", "ge"):
            g = as_ge0(made)
            if g is not None and self._holds(g):
                return ir.TRUE
            if g is not None and self._holds(simplify.sub(integer(-1), g)):
                return ir.FALSE
        if made.op in ("min", "max") and made.dtype is index:
            return self._extreme(made)
        return _folded(made)

    def _extreme(self, n: Node) -> Node:
        """A minimum or maximum without the terms that are certainly not the one."""
        kept: list[Node] = []
        terms = spread(n, n.op)
        sign = 1 if n.op == "min" else -1
        for k, t in enumerate(terms):
            others = (*kept, *terms[k + 1 :])
            if not any(self._holds(simplify.mul(simplify.sub(t, o), integer(sign))) for o in others):
                kept.append(t)
        if len(kept) in (0, len(terms)):
            return n
        out = kept[0]
        for t in kept[1:]:
            out = simplify.minimum(out, t) if n.op == "min" else simplify.maximum(out, t)
        return out

    def _holds(self, n: Node) -> bool:
        """n >= 0."""
        if n.op == "const":
            return n.attr >= 0
        if n not in self.proved:
            self.proved[n] = not ir.leaves((n,), "load") and self.facts.nonnegative(n)
        return self.proved[n]


def _folded(n: Node) -> Node:
    """Logic and selections whose conditions are decided."""
    if n.op in ("select", "likely") and n.args[0].op == "const":
        return simplify.build(n.op, n.dtype, n.args)
    if not n.dtype.is_bool:
        return n
    if n.op == "not" and n.args[0].op == "const":
        return ir.FALSE if n.args[0].attr else ir.TRUE
    if n.op == "and":
        return simplify.conjunction(*n.args)
    if n.op == "or":
        a, b = n.args
        return ir.TRUE if ir.TRUE in (a, b) else b if a is ir.FALSE else a if b is ir.FALSE else n
    return n

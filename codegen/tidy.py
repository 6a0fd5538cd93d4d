"""Index expressions in fewer words: minima, maxima and comparisons that the ranges of the loops around decide.

LLVM does as much for machine code; this is for programs that people and other compilers read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import COMPARISONS, Node, integer
from tilewright.lang.types import index
from tilewright.schedule.prove import Facts
from tilewright.schedule.ranges import as_ge0

ONE = integer(1)
LONG = 30  # nodes: what is longer is not asked about
MOST = 8000  # how much is asked of one program: questions times the loops and conditions that they are put to


def tidy(s: L.Stmt) -> L.Stmt:
    """The statements with what is decided by the loops and conditions around put in; what never runs, or does nothing,
    is gone."""
    made = _tidy(s, _Scope(Facts(), [MOST]))
    made = _without_idle(made, None)  # first, since a copy that never runs uses nothing
    return _without_idle(made, _used(made))


def _from_zero(s: L.For, start: Node, stop: Node) -> L.For | None:
    """The loop counted from 0, if that takes fewer words."""
    if start.op == "const" or any(_names_again(t, s.var) for t in L.walk(s.body)):
        return None
    before: set[Node] = set()
    after: set[Node] = set()

    def moved(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        made = ir.substitute(roots, {s.var: simplify.add(s.var, start)}, memo)
        before.update(ir.postorder(roots))
        after.update(ir.postorder(made))
        return made

    memo: dict[Node, Node] = {}
    end = simplify.sub(stop, start)
    body = L.map_values(s.body, moved)
    if _words(after) + _size(end) >= _words(before) + _size(start) + _size(stop):
        return None
    return replace(s, start=integer(0), stop=end, body=body)


def _names_again(s: L.Stmt, var: Node) -> bool:
    """Whether a variable means another loop below, or is in the size of a buffer, which is no value of a statement."""
    if isinstance(s, L.Allocate):
        return s.buffer.size is not None and var in ir.variables(s.buffer.size)
    return isinstance(s, L.For) and s.var is var


def _words(nodes: set[Node]) -> int:
    return sum(1 for n in nodes if n.dtype is index)


NOTHING = L.Block(())


def _used(s: L.Stmt) -> set[L.Buffer]:
    """The buffers that anything in a statement is about, but for their allocation."""
    found: set[L.Buffer] = set()

    def loaded(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        found.update(n.attr[0] for n in ir.postorder(roots) if n.op in ("load", "load_if"))
        return roots

    L.map_values(s, loaded)
    for t in L.walk(s):
        match t:
            case L.Store(targets):
                found.update(b for b, _ in targets)
            case L.Prefetch(b):
                found.add(b)
            case L.Section(transfers=transfers):
                found.update(v.buffer for x in transfers for v in (x.source, x.target))
            case L.Call():
                found.update(v.buffer for v in t.views)
    return found


def _without_idle(s: L.Stmt, used: set[L.Buffer] | None) -> L.Stmt:
    """The statements without those that have nothing in them, and without buffers that are not `used` (None: any may be)."""
    match s:
        case L.Block(statements):
            return L.block(*(_without_idle(t, used) for t in statements))
        case L.If(then=then, otherwise=otherwise):
            yes = _without_idle(then, used)
            no = None if otherwise is None else _without_idle(otherwise, used)
            if _idle(yes) and (no is None or _idle(no)):
                return NOTHING
            return replace(s, then=yes, otherwise=None if no is None or _idle(no) else no)
        case L.For(body=body) | L.Section(body=body) | L.Turn(body=body) | L.Allocate(body=body):
            inner = _without_idle(body, used)
            if isinstance(s, L.Allocate) and used is not None and s.buffer not in used:
                return inner
            return NOTHING if _idle(inner) else replace(s, body=inner)
    return s


def _idle(s: L.Stmt) -> bool:
    return isinstance(s, L.Block) and not s.statements


@dataclass(frozen=True, eq=False)
class _Scope:
    """What is known at a place, and what was made of expressions there."""

    facts: Facts
    left: list[int]  # of MOST, for all places together
    made: dict[Node, Node] = field(default_factory=dict)
    found: dict[Node, bool] = field(default_factory=dict)

    def entering(self, var: Node, start: Node, stop: Node) -> _Scope:
        """In a loop. What was read for its ends may have changed."""
        low = None if _reads(start) or _size(start) > LONG else start
        high = None if _reads(stop) or _size(stop) > LONG else simplify.sub(stop, ONE)
        return _Scope(self.facts.entering(var, Interval(low, high)), self.left)

    def where(self, condition: Node) -> _Scope:
        """Where a condition holds. What was read for it may have changed."""
        facts = self.facts
        for c in ir.spread(condition, "and"):
            if not _reads(c) and _size(c) <= LONG:
                facts = facts.where(c)
        return self if facts is self.facts else _Scope(facts, self.left)

    def nonnegative(self, n: Node) -> bool:
        """Whether an expression that is not long is certainly 0 or more."""
        if n not in self.found:
            self.found[n] = simplify.nonnegative(n) or self._asked(n)
        return self.found[n]

    def _asked(self, n: Node) -> bool:
        if n.op == "const" or self.left[0] <= 0 or _size(n) > LONG:
            return False
        self.left[0] -= (1 + len(self.facts.loops)) * (1 + len(self.facts.known))
        return self.facts.nonnegative(n)


def _reads(n: Node) -> bool:
    return any(m.op in ("load", "load_if") for m in ir.postorder((n,)))


def _tidy(s: L.Stmt, at: _Scope) -> L.Stmt:
    match s:
        case L.Block(statements):
            return L.block(*(_tidy(t, at) for t in statements))
        case L.For(start=start, stop=stop, body=body):
            start, stop = _values((start, stop), at)
            if at.nonnegative(simplify.sub(start, stop)):
                return NOTHING
            if (counted := _from_zero(s, start, stop)) is not None:
                return _tidy(counted, at)
            return replace(s, start=start, stop=stop, body=_tidy(body, at.entering(s.var, start, stop)))
        case L.If(condition, then, otherwise):
            (c,) = _values((condition,), at)
            if c.op == "const":
                return _tidy(then, at) if c.attr else NOTHING if otherwise is None else _tidy(otherwise, at)
            no = None if otherwise is None else _tidy(otherwise, at)
            return replace(s, condition=c, then=_tidy(then, at.where(c)), otherwise=no)
        case L.Section(body=body):
            return s.replaced(_tidy(body, at), _values(s.nodes, at))
        case L.Turn(slot=slot, body=body):
            (slot,) = _values((slot,), at)
            return replace(s, slot=slot, body=_tidy(body, at))
        case L.Allocate(body=body):
            return replace(s, body=_tidy(body, at))
    return L.map_values(s, lambda roots: _values(roots, at)) if isinstance(s, (L.Store, L.Prefetch)) else s


def _values(roots: tuple[Node, ...], at: _Scope) -> tuple[Node, ...]:
    def one(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op in ("min", "max") and n.dtype is index:
            a, b = args
            difference = simplify.sub(a, b) if n.op == "max" else simplify.sub(b, a)
            if at.nonnegative(difference):
                return a
            if at.nonnegative(simplify.neg(difference)):
                return b
        made = ir.rebuild(n, args)
        if made.op == "add" and made.dtype is index:
            return _drawn_in(made)
        if made.op in COMPARISONS and made.args[0].dtype is index:
            return _decided(made, at)
        return simplify.logic(made)

    return ir.transform(roots, one, at.made)


def _drawn_in(n: Node) -> Node:
    """`min(a, b) + c` as `min(a + c, b + c)` where that is shorter."""
    terms, _ = simplify.linear(n)
    extremes = [t for t, k in terms.items() if k == 1 and t.op in ("min", "max")]
    if len(extremes) != 1:
        return n
    rest = simplify.sub(n, extremes[0])
    a, b = (simplify.add(x, rest) for x in extremes[0].args)
    made = (simplify.minimum if extremes[0].op == "min" else simplify.maximum)(a, b)
    return made if _size(made) < _size(n) else n


def _size(n: Node) -> int:
    return sum(1 for _ in ir.postorder((n,)))


def _decided(c: Node, at: _Scope) -> Node:
    positive = as_ge0(c)
    if positive is None:
        return c
    if at.nonnegative(positive):
        return ir.TRUE
    return ir.FALSE if at.nonnegative(simplify.neg(simplify.add(positive, ONE))) else c


__all__ = ["tidy"]

"""When the value of a load matters: what the selects above it say.

A need is TRUE, a condition under a need (the arm of a select), or one of two needs. The condition of a select is
evaluated where the select's own value is needed, and what it loads is needed there only: so the condition of a load may
itself hold that load, in another place, without end of the story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node
from tilewright.lang.types import bool_


@dataclass(frozen=True, eq=False, slots=True)
class Need:
    """`condition` (of `outer`, or None alone) or, with `either`, one of two needs. ALWAYS has none of these."""

    outer: Need | None = None
    condition: Node | None = None
    either: tuple[Need, Need] | None = None


ALWAYS = Need()


class Needs:
    """The needs of one group of expressions. Equal needs are one object."""

    def __init__(self) -> None:
        self._made: dict[tuple, Need] = {}

    def under(self, outer: Need, condition: Node) -> Need:
        """Where `outer` and the condition hold."""
        held = set(_conditions(outer))
        for c in _parts(condition):
            if c not in held:
                held.add(c)
                outer = self._made.setdefault((outer, c), Need(outer, c))
        return outer

    def either(self, a: Need, b: Need) -> Need:
        """Where one of the two holds."""
        if _implies(a, b):
            return b
        if _implies(b, a):
            return a
        return self._made.setdefault((None, a, b), Need(either=(a, b)))

    def of_loads(self, roots: tuple[Node, ...], base: Need = ALWAYS) -> dict[Node, Need]:
        """For every load below `roots`, which are needed where `base` holds: when its value matters."""
        order = list(ir.postorder(roots))
        if base is ALWAYS and not any(n.op == "select" for n in order):
            return {n: ALWAYS for n in order if n.op == "load"}
        needed: dict[Node, Need] = dict.fromkeys(roots, base)
        out: dict[Node, Need] = {}

        def need(n: Node, c: Need) -> None:
            old = needed.get(n)
            needed[n] = c if old is None else self.either(old, c)

        for n in reversed(order):
            c = needed[n]
            if n.op == "load":
                out[n] = c
            if n.op == "select":
                k, a, b = n.args
                need(k, c)
                need(a, self.under(c, k))
                need(b, self.under(c, negated(k)))
            else:
                for x in n.args:
                    need(x, c)
        return out

    def mask(self, need: Need, flat: Callable[[Node, Need], Node]) -> Node:
        """A need as one condition; `flat(c, outer)` is what becomes of a condition that is evaluated under `outer`."""
        memo: dict[Need, Node] = {ALWAYS: ir.TRUE}
        stack = [need]
        while stack:
            n = stack[-1]
            below = [n.outer] if n.outer is not None else list(n.either or ())
            missing = [m for m in below if m not in memo]
            if n in memo or missing:
                stack.pop() if n in memo else stack.extend(missing)
                continue
            stack.pop()
            if n.either is not None:
                a, b = (memo[m] for m in n.either)
                memo[n] = a if a is b else ir.TRUE if ir.TRUE in (a, b) else ir.node("or", bool_, (a, b))
            else:
                assert n.outer is not None and n.condition is not None
                memo[n] = simplify.conjunction(memo[n.outer], flat(n.condition, n.outer))
        return memo[need]


def _parts(c: Node) -> list[Node]:
    """The parts of a conjunction; what loads stays whole, for all its loads happen where the first one does."""
    if c.op != "and" or ir.leaves((c,), "load"):
        return [c]
    out: list[Node] = []
    stack = [c]
    while stack:
        n = stack.pop()
        if n.op == "and" and n.dtype.is_bool:
            stack.extend(reversed(n.args))
        else:
            out.append(n)
    return out


def _conditions(n: Need) -> Iterator[Node]:
    """The conditions of a need, up to where it is one of two."""
    while n.outer is not None:
        assert n.condition is not None
        yield n.condition
        n = n.outer


def _implies(a: Need, b: Need) -> bool:
    """Whether `b` certainly holds where `a` does: it is on the way to it."""
    n: Need | None = a
    while n is not None:
        if n is b or (b.either is not None and n in b.either):
            return True
        n = n.outer
    return False


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def negated(c: Node) -> Node:
    """The opposite of a condition."""
    if c.op == "likely":
        return negated(c.args[0])
    if c.op in _OPPOSITE and c.args[0].dtype.is_int:
        return simplify.build(_OPPOSITE[c.op], bool_, c.args)
    return ir.node("not", bool_, (c,))

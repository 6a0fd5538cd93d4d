"""What is known of index expressions at a place in the nest: ranges of the loop variables, conditions that hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node
from tilewright.schedule.ranges import apart, as_ge0

_MOST_TERMS = 8  # of a maximum that are looked at one by one
_MOST_STEPS = 12  # in taking an expression apart before the ranges of loops are put in


@dataclass(frozen=True)
class Facts:
    """Loops around a place, outermost first, and expressions known to be >= 0 there."""

    loops: tuple[tuple[Node, Interval], ...] = ()
    known: tuple[Node, ...] = ()

    def entering(self, var: Node, r: Interval) -> Facts:
        return Facts((*self.loops, (var, r)), self.known)

    def where(self, condition: Node) -> Facts:
        """The facts where a condition holds as well."""
        found = [g for c in ir.spread(condition, "and") if (g := as_ge0(c)) is not None]
        return Facts(self.loops, (*self.known, *found)) if found else self

    def nonnegative(self, n: Node) -> bool:
        """Whether `n` >= 0 certainly holds."""
        return simplify.holds(n, self._certain, _MOST_STEPS)

    def _certain(self, n: Node) -> bool:
        return _never_negative(n, self.loops) or any(
            _never_negative(simplify.sub(n, g), self.loops) for g in self.known
        )


@lru_cache(1 << 12)
def _never_negative(n: Node, loops: tuple[tuple[Node, Interval], ...]) -> bool:
    """Whether one of the terms that `n` is the largest of is never negative, with the ranges of loops put in. (Proofs take
    expressions apart in many ways that come to the same.)"""
    terms = [n]
    for var, r in reversed(loops):
        if any(var in ir.variables(t) for t in terms):
            parts = [p for t in terms for p in apart(t, "max", var)]
            ends = (bounds(p, {var: r}).lo for p in (parts if len(parts) <= _MOST_TERMS else terms))
            terms = [e for e in ends if e is not None]
    lows = (bounds(t, {}).lo for t in terms)
    return any(low is not None and simplify.nonnegative(low) for low in lows)


def facts_of(conditions: Iterable[Node]) -> Facts:
    """What conditions say."""
    out = Facts()
    for c in conditions:
        out = out.where(c)
    return out

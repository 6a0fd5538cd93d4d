"""What is known of index expressions at a place in the nest: ranges of the loop variables, conditions that hold."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang import simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node
from tilewright.schedule.ranges import as_ge0, spread


@dataclass(frozen=True)
class Facts:
    """Loops around a place, outermost first, and expressions known to be >= 0 there."""

    loops: tuple[tuple[Node, Interval], ...] = ()
    known: tuple[Node, ...] = ()

    def entering(self, var: Node, r: Interval) -> Facts:
        return Facts((*self.loops, (var, r)), self.known)

    def where(self, condition: Node) -> Facts:
        """The facts where a condition holds as well."""
        found = [g for c in conjuncts(condition) if (g := as_ge0(c)) is not None]
        return Facts(self.loops, (*self.known, *found)) if found else self

    def nonnegative(self, n: Node) -> bool:
        """Whether `n` >= 0 certainly holds."""
        if self._low(n):
            return True
        return any(self._low(simplify.sub(n, g)) for g in self.known)

    def _low(self, n: Node) -> bool:
        low: Node | None = n
        for var, r in reversed(self.loops):
            if low is None:
                return False
            low = bounds(low, {var: r}).lo
        if low is None:
            return False
        low = bounds(low, {}).lo
        return low is not None and (any(_certain(t) for t in spread(low, "max")) or _certain(low))


def _certain(n: Node) -> bool:
    """>= 0 because it is made of sizes and non-negative numbers."""
    coefs, c = simplify.linear(n)
    return c >= 0 and all(k > 0 and _size(t) for t, k in coefs.items())


def _size(n: Node) -> bool:
    if n.op == "size":
        return True
    if n.op in ("min", "max", "mul", "floordiv", "mod", "add"):
        return all(_size(a) or (a.op == "const" and a.attr >= 0) for a in n.args)
    return False


def conjuncts(c: Node) -> list[Node]:
    """The parts of a conjunction, `likely` marks removed."""
    if c.op == "likely":
        return conjuncts(c.args[0])
    if c.op == "and":
        return [*conjuncts(c.args[0]), *conjuncts(c.args[1])]
    return [c]

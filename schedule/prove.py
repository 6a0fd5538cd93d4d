"""What is known of index expressions at a place in the nest: ranges of the loop variables, conditions that hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
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
        found = [g for c in ir.spread(condition, "and") if (g := as_ge0(c)) is not None]
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
            if var in ir.leaves((low,), "var"):
                low = bounds(low, {var: r}).lo
        if low is None:
            return False
        low = bounds(low, {}).lo
        return low is not None and (any(_certain(t) for t in spread(low, "max")) or _certain(low))


def _certain(n: Node) -> bool:
    """>= 0 because it is made of sizes and non-negative numbers."""
    coefs, c = simplify.linear(n)
    if c >= 0 and all(k > 0 and _size(t) for t, k in coefs.items()):
        return True
    undivided = _undivided(coefs, c)
    return undivided is not None and _certain(undivided)


def _undivided(coefs: dict[Node, int], c: int) -> Node | None:
    """A lower bound without a quotient that has a negative multiple: -k*(e // d) >= -(k / d)*e where d divides k."""
    for t, k in coefs.items():
        if k < 0 and t.op == "floordiv" and t.args[1].op == "const" and t.args[1].attr > 0 and k % t.args[1].attr == 0:
            rest = simplify.from_linear({u: v for u, v in coefs.items() if u is not t}, c)
            return simplify.add(rest, simplify.mul(t.args[0], integer(k // t.args[1].attr)))
    return None


def _size(n: Node) -> bool:
    if n.op == "size":
        return True
    if n.op in ("min", "max", "mul", "floordiv", "mod", "add"):
        return all(_size(a) or (a.op == "const" and a.attr >= 0) for a in n.args)
    return False


def facts_of(conditions: Iterable[Node]) -> Facts:
    """What conditions say."""
    out = Facts()
    for c in conditions:
        out = out.where(c)
    return out

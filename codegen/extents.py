"""Constants between which index expressions are, given those of the loops around."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from tilewright.lang import simplify
from tilewright.lang.ir import Node
from tilewright.schedule.ranges import spread


class Loop(Protocol):
    """A loop of a nest, or of a program."""

    @property
    def var(self) -> Node: ...
    @property
    def start(self) -> Node: ...
    @property
    def stop(self) -> Node: ...


def ranges_of(loops: Iterable[Loop]) -> dict[Node, tuple[int, int]]:
    """The least and the largest values of the variables of loops, as far as they are constants."""
    known: dict[Node, tuple[int, int]] = {}
    for s in loops:
        first, stop = span(s.start, known), span(s.stop, known)
        if first and stop:
            known[s.var] = first[0], max(first[0], stop[1] - 1)
    return known


def span(n: Node, known: Mapping[Node, tuple[int, int]]) -> tuple[int, int] | None:
    """Constants between which an expression is: the least and the largest one."""
    for op, pick in (("max", max), ("min", min)):
        terms = spread(n, op)
        if len(terms) > 1:
            found = [span(t, known) for t in terms]
            if any(x is None for x in found):
                return None
            return pick(x[0] for x in found if x), pick(x[1] for x in found if x)
    coefs, rest = simplify.linear(n)
    if any(atom not in known for atom in coefs):
        return None
    ends = [sorted(c * x for x in known[atom]) for atom, c in coefs.items()]
    return rest + sum(lo for lo, _ in ends), rest + sum(hi for _, hi in ends)


__all__ = ["ranges_of", "span"]

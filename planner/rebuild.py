"""Definitions rebuilt over other tensors: what cutting out a part and widening its types have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tilewright.lang import ir
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.symbols import Domain


class Rebuilder(ABC):
    """Rebuilds definitions node by node, as `_rebuilt` says; `rvars` are the new reduction variables by the old ones."""

    def __init__(self) -> None:
        self.memo: dict[Node, Node] = {}
        self.rvars: dict[Node, Node] = {}
        self.domains: dict[Domain, Domain] = {}

    def _define(self, f: Func, made: Func) -> None:
        """Give `made` the definitions of `f`."""
        if f.init is not None:
            made.init = self._definition(f.init, made)
        made.updates.extend(self._definition(d, made) for d in f.updates)

    def _definition(self, d: Definition, f: Func) -> Definition:
        rdom = None if d.rdom is None else self._domain(d.rdom)
        return Definition(f, d.number, self._moved(d.lhs), self._moved(d.values), rdom, d.location)

    def _domain(self, old: Domain) -> Domain:
        """A reduction domain rebuilt; several definitions may share one."""
        if old not in self.domains:
            ranges = {n: self._moved((a, b)) for n, (a, b) in old.ranges.items()}
            made = self.domains[old] = Domain(ranges, old.location)  # type: ignore[arg-type]
            self.rvars.update({old.rvar(n): made.rvar(n) for n in ranges})
            made.predicates, made.frozen = self._moved(old.predicates), True
        return self.domains[old]

    def _moved(self, roots: tuple[Node, ...]) -> tuple[Node, ...]:
        return ir.transform(roots, self._rebuilt, self.memo)

    @abstractmethod
    def _rebuilt(self, n: Node, args: tuple[Node, ...]) -> Node:
        """A node over rebuilt arguments."""


__all__ = ["Rebuilder"]

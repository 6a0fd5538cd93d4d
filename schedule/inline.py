"""Effective definitions: what a stage computes once inlined Funcs are substituted and fma is decided (`contract`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.lang import ir
from tilewright.lang.contract import contract
from tilewright.lang.errors import Location
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.symbols import Domain
from tilewright.schedule.state import Key, State


@dataclass(frozen=True, eq=False)
class Body:
    """A definition as it will run. The same fields as `lang.func.Definition`, with predicates of its own."""

    func: Func
    number: int
    lhs: tuple[Node, ...]
    values: tuple[Node, ...]
    rdom: Domain | None
    predicates: tuple[Node, ...]
    location: Location | None

    @property
    def roots(self) -> tuple[Node, ...]:
        return (*self.lhs, *self.values, *self.predicates)

    @cached_property
    def tensors(self) -> frozenset[object]:
        """What it reads."""
        return frozenset(n.attr[0] for n in ir.leaves(self.roots, "load"))

    def known(self, sizes: Mapping[Node, Node]) -> Body:
        """The same with sizes by what is known of them."""
        if not sizes:
            return self
        roots = ir.substitute(self.roots, sizes)
        a, b = len(self.lhs), len(self.lhs) + len(self.values)
        predicates = tuple(c for c in roots[b:] if c is not ir.TRUE)
        return replace(self, lhs=tuple(roots[:a]), values=tuple(roots[a:b]), predicates=predicates)

    def reads(self, tensor: object) -> bool:
        return tensor in self.tensors


def effective(state: State, mode: str) -> Mapping[Key, Body]:
    """Every stage that is not inlined, by key, with the inlined Funcs substituted (producers first).

    fma is decided inside each definition before anything is substituted, so an inlined stage has the same bits.
    """
    inlined: dict[Func, Body] = {}
    out: dict[Key, Body] = {}
    for name in state.order:
        fs = state.funcs[name]
        for stage in state.variants_of(name):
            d = stage.definition
            body = written_out(d, inlined, mode)
            if fs.compute.kind == "inline":
                inlined[d.func] = body
            else:
                out[stage.key] = body
    return out


def written_out(d: Definition, inlined: Mapping[Func, Body], mode: str = "contract") -> Body:
    """A definition with the Funcs of `inlined` substituted by their bodies."""
    roots = _substitute(d.roots if mode == "strict" else contract(d.roots), inlined)
    a, b = len(d.lhs), len(d.lhs) + len(d.values)
    return Body(d.func, d.number, tuple(roots[:a]), tuple(roots[a:b]), d.rdom, tuple(roots[b:]), d.location)


def _substitute(roots: tuple[Node, ...], inlined: Mapping[Func, Body]) -> tuple[Node, ...]:
    if not inlined:
        return roots
    expanded: dict[tuple, Node] = {}

    def replace(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op != "load" or n.attr[0] not in inlined:
            return ir.rebuild(n, args)
        body = inlined[n.attr[0]]
        key = (n.attr, args)
        if key not in expanded:
            (expanded[key],) = ir.substitute((body.values[n.attr[1]],), dict(zip(body.lhs, args, strict=True)))
        return expanded[key]

    return ir.transform(roots, replace)

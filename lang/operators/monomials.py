"""Products of extents, a number and factors each (sizes, or sums of them as they stand): equality and quotients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.lang import ir, simplify
from tilewright.lang.expr import Expr, to_node, wrap
from tilewright.lang.ir import Node
from tilewright.lang.operators.value import extent


@dataclass(frozen=True)
class Monomial:
    """`number` times the factors, each as often as it is counted."""

    number: int
    factors: frozenset[tuple[Node, int]]

    def __mul__(self, o: Monomial) -> Monomial:
        return Monomial(
            self.number * o.number, frozenset((Counter(dict(self.factors)) + Counter(dict(o.factors))).items())
        )

    def divided(self, o: Monomial) -> Monomial | None:
        """The quotient, where it is whole for all sizes."""
        left, right = Counter(dict(self.factors)), Counter(dict(o.factors))
        if not o.number or self.number % o.number or right - left:
            return None
        return Monomial(self.number // o.number, frozenset((left - right).items()))

    def expression(self) -> Expr:
        node = ir.integer(self.number)
        for factor, times in sorted(self.factors, key=lambda f: repr(f[0])):
            for _ in range(times):
                node = simplify.mul(node, factor)
        return wrap(node)


def monomial(n: Any) -> Monomial:
    """An extent as a product."""
    node = to_node(extent(n))
    terms, constant = simplify.linear(node)
    if not terms:
        return Monomial(constant, frozenset())
    if constant or len(terms) > 1:
        return Monomial(1, frozenset({(node, 1)}))
    ((term, number),) = terms.items()
    found: Counter[Node] = Counter()
    stack = [term]
    while stack:
        t = stack.pop()
        if t.op == "mul":
            stack.extend(t.args)
        else:
            found[t] += 1
    return Monomial(number, frozenset(found.items()))


def product(shape: Iterable[Any]) -> Monomial:
    out = Monomial(1, frozenset())
    for n in shape:
        out = out * monomial(n)
    return out

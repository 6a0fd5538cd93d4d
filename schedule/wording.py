"""Expressions of a nest in few characters: `8*yo + y`, `(N + 7)//8`, `min(8*yo + 8, H)`, `i < N`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.text.expression import Rope, Writer, comma, join, plain_name, shared
from tilewright.lang.text.rules import ATOM, COMPARE, PRECEDENCE
from tilewright.lang.types import index
from tilewright.schedule.ranges import spread

_SUM, _PRODUCT = PRECEDENCE["add"], PRECEDENCE["mul"]
_INDEX = frozenset(["add", "mul", "floordiv", "mod", "min", "max"])
_FLIPPED = {"lt": ">", "le": ">=", "gt": "<", "ge": "<=", "eq": "==", "ne": "!="}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class NestWriter(Writer):
    """Writes index arithmetic and comparisons of it in short; everything else as the text form does.

    `order` gives the depth of loop variables: terms with outer ones come first, those without any last.
    """

    def __init__(
        self,
        name: Callable[[Node], str] = plain_name,
        lets: Mapping[Node, str] | None = None,
        order: Mapping[str, int] | None = None,
    ):
        super().__init__(name, lets=lets)
        self.order: Mapping[str, int] = order or {}

    def _sorted(self, coefs: Mapping[Node, int]) -> list[tuple[Node, int]]:
        def key(term: tuple[Node, int]) -> tuple[bool, int]:
            depths = [self.order.get(v.attr, len(self.order)) for v in ir.leaves((term[0],), "var")]
            return term[1] < 0, min(depths, default=len(self.order) + 1)

        return sorted(coefs.items(), key=key)

    def _one(self, n: Node) -> tuple[Rope, int]:
        if n.dtype is index and n.op in _INDEX:
            return self._index(n)
        if n.op == "stride":
            return f"stride({n.attr[0]}, {n.attr[1]})", ATOM
        if n.op in _SIGNS and n.args[0].dtype is index:
            return self._condition(n), COMPARE
        if n.op == "not" and n.args[0].op in _NEGATED and n.args[0].args[0].dtype is index:
            c = n.args[0]
            return self._condition(ir.node(_NEGATED[c.op], c.dtype, c.args)), COMPARE
        return super()._one(n)

    def _index(self, n: Node) -> tuple[Rope, int]:
        if n.op in ("min", "max"):
            if _many(n, n.op):
                return (f"{n.op}(", comma(self.write(a) for a in ir.spread(n, n.op)), ")"), ATOM
            n = _shifted(n, integer(0))
            if n.op not in ("min", "max"):
                return self.part(n)
            return (f"{n.op}(", comma(self.write(a) for a in spread(n, n.op)), ")"), ATOM
        if n.op in ("floordiv", "mod"):
            a, b = n.args
            sign = "//" if n.op == "floordiv" else "%"
            return (self._within(a, _PRODUCT), sign, self._within(b, _PRODUCT + 1)), _PRODUCT
        coefs, c = simplify.linear(n)
        if len(coefs) == 1:
            ((t, k),) = coefs.items()
            if t is n:  # a product of symbols
                return (self._within(n.args[0], _PRODUCT), "*", self._within(n.args[1], _PRODUCT + 1)), _PRODUCT
            if k == 1 and t.op in ("min", "max") and not _many(t, t.op):  # min(a, b) + 1 is min(a + 1, b + 1)
                m = _shifted(t, integer(c))
                return self._index(m) if m.op in _INDEX else self.part(m)
            if k > 0 and not c:
                return self._multiple(t, k), _PRODUCT
        return self._sum(coefs, c), _SUM

    def _sum(self, coefs: Mapping[Node, int], c: int) -> Rope:
        first = c > 0 and coefs and all(k < 0 for k in coefs.values())  # 33 - 2*x
        out: list[Rope] = [str(c)] if first else []
        c = 0 if first else c
        for t, k in self._sorted(coefs):
            if out:
                out.append(" + " if k > 0 else " - ")
            elif k < 0:
                out.append("-")
            out.append(self._multiple(t, abs(k)))
        if c or not out:
            out.append(str(c) if not out else f" {'+' if c > 0 else '-'} {abs(c)}")
        return tuple(out)

    def _multiple(self, t: Node, k: int) -> Rope:
        return self._within(t, _PRODUCT) if k == 1 else (f"{k}*", self._within(t, _PRODUCT + 1))

    def _within(self, n: Node, least: int) -> Rope:
        text, level = self.part(n)
        return ("(", text, ")") if level < least else text

    def _condition(self, n: Node) -> Rope:
        """A comparison with what is subtracted moved to the other side: `M - i - 1 >= 0` is `i < M`."""
        coefs, c = simplify.linear(simplify.sub(*n.args))
        plus = {t: k for t, k in coefs.items() if k > 0}
        minus = {t: -k for t, k in coefs.items() if k < 0}
        sign = _SIGNS[n.op]
        varies = [any(ir.leaves((t,), "var") for t in side) for side in (plus, minus)]
        if minus and varies != [True, False]:  # minus on the left
            plus, minus, c, sign = minus, plus, -c, _FLIPPED[n.op]
        if sign == "<=" and c == 1:
            sign, c = "<", 0
        elif sign == ">=" and c == -1 and minus:
            sign, c = ">", 0
        return (self._sum(plus, 0), f" {sign} ", self._sum(minus, -c))


_MOST_TERMS = 8  # of an extreme that is written flat


def _many(n: Node, op: str) -> bool:
    """Whether an extreme has too many terms, those of sums and of extremes inside each other multiplied out."""
    counts: dict[tuple[Node, str], int] = {}

    def count(n: Node, op: str) -> int:
        found = counts.get((n, op))
        if found is None:
            if n.op == op:
                found = sum(count(a, op) for a in n.args)
            else:
                found = 1
                for t, k in simplify.linear(n)[0].items():
                    if t is not n and t.op == (op if k > 0 else _OTHER[op]):
                        found *= count(t, t.op)
            counts[n, op] = found
        return found

    return count(n, op) > _MOST_TERMS


_OTHER = {"min": "max", "max": "min"}


def _shifted(n: Node, shift: Node) -> Node:
    """min(a, x + min(b, c)) + shift as one flat min; max likewise."""
    build = simplify.minimum if n.op == "min" else simplify.maximum
    first, *rest = (simplify.add(t, shift) for t in _flat(n, n.op))
    for t in rest:
        first = build(first, t)
    return first


def _flat(n: Node, op: str) -> list[Node]:
    out: list[Node] = []
    for t in spread(n, op):
        coefs, c = simplify.linear(t)
        inner = [a for a, k in coefs.items() if a.op == op and k == 1]
        if len(inner) != 1:
            out.append(t)
            continue
        rest = simplify.from_linear({a: k for a, k in coefs.items() if a is not inner[0]}, c)
        out.extend(simplify.add(rest, x) for x in _flat(inner[0], op))
    return out


def write(
    n: Node, leaf: Callable[[Node], str] = plain_name, like: Any = None, order: Mapping[str, int] | None = None
) -> str:
    """One expression on one line, shared parts first. A bare number takes the type `like`; `order`: see NestWriter."""
    lets: dict[Node, str] = {}
    w = NestWriter(leaf, lets, order)
    out: list[Rope] = []
    taken = {leaf(m) for m in ir.postorder([n]) if m.op in ir.LEAVES and m.op != "const"}
    k = 0
    for m in shared([n], cut=False):
        if m is n or m.dtype is index:
            continue
        k += 1
        while f"t{k}" in taken:
            k += 1
        out.append((f"let t{k} = ", w.write(m), "; "))
        lets[m] = f"t{k}"
    return join((*out, w.write(n, like)))

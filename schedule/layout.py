"""Layouts: index maps from logical to physical axes, such as `k j -> j//16 k j%16` (packed panels of 16 columns)."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from tilewright.lang import intervals, ir, simplify
from tilewright.lang.errors import ScheduleError
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.schedule.causes import refuse

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(//|[-+*%()]))")


def _bad(text: str, why: str) -> ScheduleError:
    looks = "an index map looks like `k j -> j//16 k j%16`: axis names, then one expression a physical axis"
    return refuse(f"layout {text!r}: {why}", "layout", looks)


@dataclass(frozen=True)
class IndexMap:
    """`names` of the logical axes and one index expression (over Vars of these names) a physical axis.

    Indices count from the first point of what is stored. Every physical axis depends on one logical axis, and the map
    is one-to-one (checked).
    """

    names: tuple[str, ...]
    axes: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(self.names) + " -> " + " ".join(_format(a) for a in self.axes)

    def apply(self, indices: Sequence[Node]) -> tuple[Node, ...]:
        """Physical indices of an element at `indices` (relative to the stored region)."""
        env = {ir.var(n): i for n, i in zip(self.names, indices, strict=True)}
        return ir.substitute(self.axes, env)

    def places(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """The same for numbers, or arrays of them."""
        env = dict(zip(self.names, indices, strict=True))
        return tuple(_number(a, env) for a in self.axes)

    @property
    def order(self) -> tuple[int, ...]:
        """The logical axes from the outermost to the innermost: each stands where its last part does."""
        last = {v.attr: k for k, a in enumerate(self.axes) for v in ir.leaves((a,), "var")}
        return tuple(sorted(range(len(self.names)), key=lambda k: last[self.names[k]]))

    def extents(self, logical: Sequence[Node]) -> tuple[Node, ...]:
        """Physical extents for a region of the given logical extents, padding of partial blocks included.

        They depend on the extents alone, not on what is known of them: blocks are whole even where one is all there is.
        """
        sizes = [ir.size(n) for n in self.names]
        return ir.substitute(_symbolic_extents(self), dict(zip(sizes, logical, strict=True)))


@functools.lru_cache(maxsize=256)
def _symbolic_extents(m: IndexMap) -> tuple[Node, ...]:
    """The physical extents in terms of sizes that are called like the axes."""
    zero, one = integer(0), integer(1)
    env = {ir.var(n): Interval(zero, simplify.sub(ir.size(n), one)) for n in m.names}
    out = []
    for a in m.axes:
        hi = intervals.bounds(a, env).hi
        assert hi is not None
        out.append(simplify.add(hi, one))
    return tuple(out)


def identity_map(rank: int) -> IndexMap:
    """Row-major, the last axis contiguous."""
    names = tuple(f"x{k}" for k in range(rank))
    return IndexMap(names, tuple(ir.var(n) for n in names))


def _format(n: Node) -> str:
    """An axis expression without spaces."""
    if n.op == "const":
        return str(n.attr)
    if n.op == "var":
        return n.attr
    sign = {"add": "+", "mul": "*", "floordiv": "//", "mod": "%"}[n.op]
    left, right = (_format(a) for a in n.args)
    if n.args[0].op == "add" and n.op != "add":
        left = f"({left})"
    if n.args[1].op not in ("const", "var"):
        right = f"({right})"
    return f"{left}{sign}{right}"


@functools.lru_cache(maxsize=256)
def parse_index_map(text: str) -> IndexMap:
    """Read an index map; errors say what is wrong with it."""
    left, arrow, right = text.partition("->")
    names = tuple(left.replace(",", " ").split())
    if not arrow or not right.strip():
        raise _bad(text, "there is no `->` with physical axes after it")
    if len(set(names)) != len(names):
        raise _bad(text, "an axis is named twice")
    reader = _Reader(text, right, names)
    axes = []
    while reader.peek() is not None:
        axes.append(reader.sum())
    made = IndexMap(names, tuple(axes))
    _check_one_to_one(text, made)
    return made


class _Reader:
    """A reader of `expr expr ...` with + - * // % and parentheses; an axis ends where no operator follows."""

    def __init__(self, text: str, source: str, names: tuple[str, ...]):
        self.text, self.names = text, names
        self.tokens: list[str] = []
        at = 0
        source = source.strip().replace(",", " ")
        while at < len(source):
            m = _TOKEN.match(source, at)
            if not m:
                raise _bad(text, f"{source[at:].strip()[:10]!r} can't be read")
            self.tokens.append(m.group().strip())
            at = m.end()
        self.at = 0

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> str:
        t = self.peek()
        if t is None:
            raise _bad(self.text, "it ends too early")
        self.at += 1
        return t

    def sum(self) -> Node:
        out = self.product()
        while self.peek() in ("+", "-"):
            op = self.take()
            out = (simplify.add if op == "+" else simplify.sub)(out, self.product())
        return out

    def product(self) -> Node:
        out = self.atom()
        while self.peek() in ("*", "//", "%"):
            op, right = self.take(), self.atom()
            if op != "*" and not (right.op == "const" and right.attr > 0):
                raise _bad(self.text, f"{op} needs a positive number on its right")
            out = {"*": simplify.mul, "//": simplify.floordiv, "%": simplify.mod}[op](out, right)
        return out

    def atom(self) -> Node:
        t = self.take()
        if t.isdigit():
            return integer(int(t))
        if t == "(":
            out = self.sum()
            if self.take() != ")":
                raise _bad(self.text, "a parenthesis is not closed")
            return out
        if t in self.names:
            return ir.var(t)
        raise _bad(self.text, f"{t!r} is no axis (they are {', '.join(self.names)})")


def _number(n: Node, env: Mapping[str, Any]) -> Any:
    """The value of an axis expression."""
    if n.op == "const":
        return n.attr
    if n.op == "var":
        return env[n.attr]
    a, b = (_number(x, env) for x in n.args)
    return _OPERATORS[n.op](a, b)


_OPERATORS = {"add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod}


def _check_one_to_one(text: str, m: IndexMap) -> None:
    by_axis: dict[str, list[Node]] = {n: [] for n in m.names}
    for a in m.axes:
        used = ir.leaves([a], "var")
        if len(used) > 1:
            raise _bad(text, f"{_format(a)} mixes axes")
        if used:
            by_axis[used[0].attr].append(a)
    for name, axes in by_axis.items():
        if not axes:
            raise _bad(text, f"{name} is lost")
        period = lcm(*(n.args[1].attr for n in ir.postorder(axes) if n.op in ("floordiv", "mod")), 1)
        count = min(4 * period, 8192)
        seen = {tuple(_number(a, {name: v}) for a in axes) for v in range(count)}
        if len(seen) != count:
            raise _bad(text, f"two values of {name} fall on one place")
        if any(min(p) < 0 for p in seen):
            raise _bad(text, "a physical index is negative")

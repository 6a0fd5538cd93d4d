"""How much of each tensor a tile of a part needs: boxes that move with the tile, and grow with it.

Indices are followed from the root of a part to what it is made of. An index that is a sum of multiples of variables moves
with these at constant rates; floor division and clamping to bounds keep the rates; what else there is (values of data,
remainders) may be anywhere in its tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.lang import ir, simplify
from tilewright.lang.errors import ArgumentError
from tilewright.lang.extents import spans
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Array, Table, Tensor
from tilewright.lang.values import Env, index_value, index_values

# What a tile is cut along: an axis of the root, a reduction variable of an update (Func, number, name), or the blocks
# that dependent reductions go through together.
Axis = int | tuple[str, int, str] | str
BLOCKS = "blocks"


@dataclass(frozen=True)
class Range:
    """Indices from `low` to `high`, both included, beside the place of the tile times `rates` by axis; a tile that is
    wider along an axis adds its rate times its width less one."""

    rates: tuple[tuple[Axis, Fraction], ...]
    low: Fraction
    high: Fraction

    def scaled(self, by: Fraction) -> Range:
        a, b = sorted((self.low * by, self.high * by))
        return Range(tuple((x, r * by) for x, r in self.rates) if by else (), a, b)

    def plus(self, o: Range) -> Range:
        rates = dict(self.rates)
        for x, r in o.rates:
            rates[x] = rates.get(x, Fraction(0)) + r
        return Range(tuple((x, r) for x, r in rates.items() if r), self.low + o.low, self.high + o.high)

    @cached_property
    def _whole(self) -> tuple[int, int, tuple[tuple[Axis, int], ...]]:
        """Denominator, extent and rates as whole numbers of it."""
        n = math.lcm(self.low.denominator, self.high.denominator, *(r.denominator for _, r in self.rates))
        return n, int((self.high - self.low) * n), tuple((x, int(abs(r) * n)) for x, r in self.rates)

    def count(self, widths: Mapping[Axis, Any]) -> Any:
        """The most indices that a tile of these widths needs (which may be arrays)."""
        n, total, rates = self._whole
        for x, r in rates:
            total = total + r * (widths[x] - 1)
        return total // n + 1


Box = tuple[Range | None, ...]  # None: anywhere


def _hull(a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None or dict(a.rates) != dict(b.rates):
        return None
    return Range(a.rates, min(a.low, b.low), max(a.high, b.high))


@dataclass(frozen=True)
class Read:
    """A tensor that a definition reads: by which Func, in which of its stages, and where."""

    tensor: Tensor
    reader: Func
    number: int
    box: Box


@dataclass(frozen=True)
class Reach:
    """What the tiles of the `root` of a part need.

    `boxes` are of its Funcs; `reads` of each definition and tensor, itself aside. `along` are the axes that tiles can be
    cut along, with their extents; `extents` those of the whole tensors. Which elements are read of those that are
    `scattered`, data say.
    """

    root: Func
    boxes: Mapping[Func, Box]
    reads: tuple[Read, ...]
    along: Mapping[Axis, int]
    extents: Mapping[Tensor, tuple[int, ...]]
    scattered: frozenset[Tensor]

    def shape(self, t: Tensor, box: Box, widths: Mapping[Axis, Any]) -> tuple[Any, ...]:
        """The extents of a box of a tensor for a tile of these widths (numbers of NumPy, or arrays)."""
        return tuple(
            np.int64(n) if r is None else np.minimum(n, r.count(widths))
            for r, n in zip(box, self.extents[t], strict=True)
        )

    @cached_property
    def moving(self) -> dict[Func, frozenset[Axis]]:
        return {f: axes_of(box) for f, box in self.boxes.items()}


def axes_of(box: Box) -> frozenset[Axis]:
    """The axes that a box moves along."""
    return frozenset(x for r in box if r is not None for x, _ in r.rates)


def hull(boxes: Iterable[Box]) -> Box:
    """The box of several boxes of one tensor."""
    first, *others = boxes
    for o in others:
        first = tuple(map(_hull, first, o))
    return first


def reach(p: Pipeline, sizes: Env, group: Sequence[str] = (), over: str = "") -> Reach:
    """What the tiles of the last Func of a part need. Dependent reductions `group` go over `over` in blocks together."""
    return _Reach(p, sizes, frozenset(group), over).found()


class _Reach:
    def __init__(self, p: Pipeline, sizes: Env, group: frozenset[str], over: str):
        self.p, self.sizes, self.group, self.over = p, sizes, group, over
        self.spans = spans(p, sizes)
        self.root = p.funcs[-1]
        self.along: dict[Axis, int] = {}
        self.extents: dict[Tensor, tuple[int, ...]] = {}
        self.scattered: set[Tensor] = set()

    def found(self) -> Reach:
        own = self.extent(self.root)
        self.along.update(enumerate(own))
        boxes: dict[Func, Box] = {self.root: tuple(_moving(a) for a in range(len(own)))}
        reads: list[Read] = []
        for f in reversed(self.p.funcs):
            if f not in boxes:
                continue  # nothing that runs needs it
            self.extent(f)
            for d in f.definitions:
                for t, box in self.read(d, boxes[f]).items():
                    if isinstance(t, Func) and not isinstance(t, InoutFunc) and t not in self.spans:
                        continue  # nothing of it is needed at these sizes
                    self.extent(t)
                    reads.append(Read(t, f, d.number, box))
                    if isinstance(t, Func) and t in self.spans:
                        boxes[t] = hull([box, boxes[t]]) if t in boxes else box
        return Reach(self.root, boxes, tuple(reads), self.along, self.extents, frozenset(self.scattered))

    def extent(self, t: Tensor) -> tuple[int, ...]:
        if t not in self.extents:
            if isinstance(t, Func) and t in self.spans:
                self.extents[t] = tuple(b - a for a, b in self.spans[t])
            elif isinstance(t, Table):
                self.extents[t] = t.values.shape
            elif isinstance(t, Func) and not isinstance(t, InoutFunc):
                self.extents[t] = (0,) * t.rank  # nothing of it is needed at these sizes
            else:
                array = t.inout if isinstance(t, InoutFunc) else t
                assert isinstance(array, Array)
                self.extents[t] = tuple(max(0, n) for n in index_values(array.extents, self.sizes))
        return self.extents[t]

    def read(self, d: Definition, box: Box) -> dict[Tensor, Box]:
        """What a definition reads of each tensor when it is computed over a box of its Func."""
        env: dict[Node, Range | None] = {v: r for v, r in zip(d.lhs, box, strict=True) if v.op == "var"}
        if d.rdom is not None:
            env.update({d.rdom.rvar(n): self.reduced(d, n, *ends) for n, ends in d.rdom.ranges.items()})
        seen: dict[Node, Range | None] = {}
        found: dict[Tensor, list[Box]] = {}
        for n in ir.leaves(d.roots, "load"):
            if n.attr[0] is not d.func:
                if ir.leaves(n.args, "load"):
                    self.scattered.add(n.attr[0])
                found.setdefault(n.attr[0], []).append(tuple(self.index(i, env, seen) for i in n.args))
        return {t: hull(boxes) for t, boxes in found.items()}

    def reduced(self, d: Definition, name: str, start: Node, stop: Node) -> Range | None:
        """A reduction variable: it moves with its own blocks, or those of the group."""
        try:
            n = index_value(stop, self.sizes) - index_value(start, self.sizes)
        except ArgumentError:
            return None
        axis: Axis = BLOCKS if d.func.name in self.group and name == self.over else (d.func.name, d.number, name)
        self.along.setdefault(axis, max(1, n))
        return _moving(axis)

    def index(self, n: Node, env: Mapping[Node, Range | None], seen: dict[Node, Range | None]) -> Range | None:
        if n not in seen:
            seen[n] = self.of(n, env, seen)
        return seen[n]

    def of(self, n: Node, env: Mapping[Node, Range | None], seen: dict[Node, Range | None]) -> Range | None:
        if n in env:
            return env[n]
        if n.op in ("add", "mul", "const"):
            coefs, constant = simplify.linear(n)
            if n not in coefs:
                total: Range | None = _point(constant)
                for atom, c in coefs.items():
                    r = self.index(atom, env, seen)
                    total = None if r is None or total is None else total.plus(r.scaled(Fraction(c)))
                return total
        if not any(m in env or m.op in ("load", "rvar", "var") for m in ir.postorder((n,))):
            try:
                return _point(index_value(n, self.sizes))
            except (ArgumentError, KeyError, TypeError):
                return None
        parts = [self.index(a, env, seen) for a in n.args]
        if n.op == "floordiv" and parts[0] is not None and n.args[1].op == "const" and n.args[1].attr > 0:
            c = n.args[1].attr
            return parts[0].scaled(Fraction(1, c)).plus(Range((), Fraction(1 - c, c), Fraction(0)))
        if n.op in ("min", "max"):
            rated = [r for r in parts if r is not None and r.rates]
            if len(rated) == 1 and None not in parts:
                return rated[0]  # clamped: it goes no further than what is clamped
            return _hull(*parts) if len(parts) == 2 else None
        if n.op == "select":
            return _hull(parts[1], parts[2])
        return parts[0] if n.op == "cast" and n.args[0].dtype is n.dtype else None


def _moving(axis: Axis) -> Range:
    return Range(((axis, Fraction(1)),), Fraction(0), Fraction(0))


def _point(n: int) -> Range:
    return Range((), Fraction(n), Fraction(n))


__all__ = ["BLOCKS", "Axis", "Box", "Range", "Reach", "Read", "axes_of", "hull", "reach"]

"""The nest as text, for people:

    produce blur_y over y 0..H, x 0..W
      for yo in 0..(H + 7)//8 parallel
        buffer blur_x: f32[10, W] in main
        produce blur_x over y 8*yo..min(8*yo + 10, H + 2), x 0..W
          for y in ...

Ranges are half-open, `start..stop`. A loop variable has its short name, with a prime where a loop around it has that
name already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Tensor
from tilewright.lang.text.expression import plain_name
from tilewright.lang.types import DType
from tilewright.schedule.nest import (
    Allocation,
    Assign,
    Box,
    Call,
    Guard,
    LoopNode,
    Nest,
    NestNode,
    PrefetchNode,
    Produce,
    Sequence,
    Storage,
)
from tilewright.schedule.tiles import OutputArray, Tile
from tilewright.schedule.wording import write

WIDTH = 110  # columns: a longer right side is cut
_SHOWN = {"": "", "serial": "", "parallel": " parallel", "vectorize": " vectorize", "unroll": " unroll"}
_INCREMENTS = {"add": "+=", "sub": "-=", "mul": "*=", "div": "/=", "and": "&=", "or": "|=", "xor": "^="}
_CALLS = {"min": "minimum", "max": "maximum"}


def print_nest(nest: Nest) -> str:
    """The whole nest, one line a node."""
    given = [f"{s.role} {s.name} given as {s.layout}" for s in nest.arguments if s.layout is not None]
    return "\n".join([*given, *_Printer().lines(nest.body, 0)])


def print_extents(extents: tuple[Node, ...]) -> str:
    """`[6, N + 2]`, loop variables by their short names."""

    def leaf(n: Node) -> str:
        return str(n.attr).rpartition(".")[2] if n.op == "var" else plain_name(n)

    return "[" + ", ".join(write(e, leaf) for e in extents) + "]"


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """A line of a nest: the node (or the buffer) that it shows."""

    node: NestNode | Storage
    depth: int
    text: str


def nest_rows(nest: Nest) -> tuple[Row, ...]:
    """The lines of a nest with what they are about."""
    return tuple(_Printer().rows(nest.body, 0))


class _Printer:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # loop variable -> what it is shown as
        self.taken: list[str] = []
        self.tensor: Tensor | None = None

    def expression(self, n: Node, like: DType | None = None) -> str:
        return write(n, self._leaf, like, {v: k for k, v in enumerate(self.names)})

    def _leaf(self, n: Node) -> str:
        name = plain_name(n)
        return self.names.get(name, name) if n.op == "var" else name

    def span(self, start: Node, stop: Node) -> str:
        return f"{self.expression(start)}..{self.expression(stop)}"

    def box(self, box: Box, tensor: Tensor) -> str:
        """` over i 0..M, j 0..N`, or nothing for rank 0."""
        parts = []
        for name, r in zip(axis_names(tensor, len(box)), box, strict=True):
            lo = "" if r.lo is None else self.expression(r.lo)
            hi = "" if r.hi is None else self.expression(simplify.add(r.hi, integer(1)))
            parts.append(f"{name} {lo}..{hi}")
        return " over " + ", ".join(parts) if parts else ""

    def spans(self, box: Box) -> str:
        return ", ".join(
            f"{'' if r.lo is None else self.expression(r.lo)}:"
            f"{'' if r.hi is None else self.expression(simplify.add(r.hi, integer(1)))}"
            for r in box
        )

    # Lines ------------------------------------------------------------------------------------------------------

    def lines(self, n: NestNode, depth: int) -> Iterator[str]:
        return ("  " * row.depth + row.text for row in self.rows(n, depth))

    def rows(self, n: NestNode, depth: int) -> Iterator[Row]:
        match n:
            case Sequence(items):
                for i in items:
                    yield from self.rows(i, depth)
            case LoopNode():
                yield from self.loop(n, depth)
            case Guard(condition, then, otherwise):
                yield Row(n, depth, f"if {self.expression(condition)}")
                yield from self.rows(then, depth + 1)
                if otherwise is not None:
                    yield Row(n, depth, "else")
                    yield from self.rows(otherwise, depth + 1)
            case Allocation(storages, body):
                for s in storages:
                    yield Row(s, depth, self.buffer(s))
                yield from self.rows(body, depth)
            case Produce(label, name, tensor, region, body, asynchronous):
                outer, self.tensor = self.tensor, tensor
                ahead = " asynchronously" if asynchronous else ""
                yield Row(n, depth, f"{label} {name}{self.box(region, tensor)}{ahead}")
                yield from self.rows(body, depth + 1)
                self.tensor = outer
            case Assign():
                yield Row(n, depth, self.assignment(n, 2 * depth))
            case Call():
                given = ", ".join(
                    self.expression(a) if isinstance(a, Node) else f"{a[0].name}[{self.spans(a[1][0])}]"
                    for a in n.arguments
                )
                yield Row(
                    n, depth, self._cut(f"{n.tensor.name}[{self.spans(n.region)}] = {n.called}({given})", 2 * depth)
                )
            case PrefetchNode(tensor, region):
                yield Row(n, depth, f"prefetch {tensor.name}{self.box(region, tensor)}")

    def loop(self, n: LoopNode, depth: int) -> Iterator[Row]:
        short = self._short(n)
        name = short
        while name in self.taken:
            name += "'"
        span = self.span(n.start, n.stop)
        mode = f" spatial on {n.axis}" if n.mode == "spatial" else _SHOWN.get(n.mode, " " + n.mode)
        by = f" by {n.call.unit}" if n.call is not None else ""
        yield Row(n, depth, f"for {name} in {span}{mode}{by}")
        self.names[n.var.attr] = name
        self.taken.append(name)
        yield from self.rows(n.body, depth + 1)
        self.taken.pop()
        del self.names[n.var.attr]

    def _short(self, n: LoopNode) -> str:
        """Loops of ours over a tile are numbered by axis: they get the axis's name."""
        if not n.name[:1].isdigit() or self.tensor is None:
            return n.name
        axis = n.name.rstrip("ov")
        names = axis_names(self.tensor, int(axis) + 1)
        return names[int(axis)] + n.name[len(axis) :]

    def buffer(self, s: Storage) -> str:
        extents = ", ".join(map(self.expression, s.extents))
        tail = f", layout {s.layout}" if s.layout is not None else ""
        tail += "".join(f", axis {k} folded" for k, _ in s.folds)
        ring = f"{s.slots} x " if s.slots > 1 else ""
        return f"buffer {s.name}: {ring}{s.dtype.name}[{extents}] in {s.memory}{tail}"

    def assignment(self, n: Assign, indent: int) -> str:
        at = ", ".join(map(self.expression, n.indices))
        left = f"{'output ' if isinstance(n.tensor, OutputArray) else ''}{n.tensor.name}[{at}]"
        types = [v.dtype for v in n.values]
        if len(n.values) != 1:
            values = ", ".join(map(self.expression, n.values, types))
            return self._cut(f"{left} = ({values})", indent)
        value = n.values[0]
        if value.op == "round_to":
            value = value.args[0]
        if value.op in _INCREMENTS or value.op in _CALLS:
            a, b = value.args
            mine = [x.op == "load" and x.attr[0] is n.tensor and x.args == n.indices for x in (a, b)]
            if mine[1] and not mine[0] and value.op not in ("sub", "div"):
                a, b, mine = b, a, [True, False]
            if mine[0]:
                op = _INCREMENTS.get(value.op) or f"{_CALLS[value.op]}="
                return self._cut(f"{left} {op} {self.expression(b, types[0])}", indent)
        return self._cut(f"{left} = {self.expression(n.values[0], types[0])}", indent)

    def _cut(self, text: str, indent: int) -> str:
        room = max(WIDTH - indent, 40)
        return text if len(text) <= room else text[: room - 4].rstrip() + " ..."


def axis_names(tensor: Tensor, rank: int) -> tuple[str, ...]:
    """Names for the axes of a tensor: a Func's own Vars, else numbers."""
    if isinstance(tensor, OutputArray):
        tensor = tensor.output.func
    if isinstance(tensor, Tile):
        tensor = tensor.func
    if isinstance(tensor, Func) and not isinstance(tensor, InoutFunc):
        return tuple(plain_name(v) if v.op in ir.LEAVES else f"axis{k}" for k, v in enumerate(tensor.args))
    return tuple(f"axis{k}" for k in range(rank))

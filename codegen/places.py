"""Where tensors are: a storage of the Nest as a buffer of the loop IR, with strides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.codegen import loops as L
from tilewright.codegen.interface import CONTIGUOUS, UNIT
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Tensor
from tilewright.lang.types import index
from tilewright.schedule.externs import steps
from tilewright.schedule.nest import Storage

ONE = integer(1)

Key = tuple[Tensor, int]


@dataclass(frozen=True, eq=False)
class Place:
    """A storage as a buffer with strides (in elements, one a physical axis)."""

    storage: Storage
    buffer: L.Buffer
    strides: tuple[Node, ...]

    def offset(self, indices: tuple[Node, ...]) -> Node:
        s = self.storage
        physical = physical_index(s, indices)
        total = integer(0) if s.turn is None else simplify.mul(s.turn, one_slot(s))
        for i, stride in zip(physical, self.strides, strict=True):
            total = simplify.add(total, simplify.mul(i, stride))
        return total

    def where(self, condition: Node) -> Place:
        """The same with the strides that a condition says."""
        known = {}
        for c in ir.spread(condition, "and"):
            if c.op == "eq" and c.args[0].op == "stride":
                known[c.args[0]] = c.args[1]
        return replace(self, strides=ir.substitute(self.strides, known)) if known else self


def physical_index(s: Storage, indices: tuple[Node, ...]) -> tuple[Node, ...]:
    """The place of an element in its buffer: relative to the first one, folded axes wrapped, through the layout."""
    relative = [simplify.sub(i, o) for i, o in zip(indices, s.origin, strict=True)]
    for axis, extent in s.folds:
        relative[axis] = simplify.mod(indices[axis], integer(extent))
    return s.layout.apply(relative) if s.layout else tuple(relative)


def one_slot(s: Storage) -> Node:
    """Elements of one slot of a buffer."""
    extents = s.layout.extents(s.extents) if s.layout else s.extents
    size = ONE
    for e in extents:
        size = simplify.mul(size, e)
    return size


def row_major(extents: tuple[Node, ...]) -> tuple[Node, ...]:
    """Strides of a contiguous array, the last axis fastest."""
    out: list[Node] = []
    step = ONE
    for e in reversed(extents):
        out.append(step)
        step = simplify.mul(step, e)
    return tuple(reversed(out))


def argument_strides(s: Storage, position: int, stride_class: str) -> tuple[Node, ...]:
    extents = s.layout.extents(s.extents) if s.layout else s.extents
    if stride_class == CONTIGUOUS:
        return row_major(extents)
    known = [ir.node("stride", index, (), (position, k)) for k in range(len(extents))]
    if stride_class == UNIT and known:
        known[-1] = ONE
    return tuple(known)


def strides_of(place: Place, rank: int) -> tuple[Node, ...] | None:
    """How far apart neighbours along each logical axis are, in elements; None where a layout cuts an axis."""
    layout = place.storage.layout
    if layout is None:
        return place.strides
    found = steps(layout)
    if found is None:
        return None
    out = []
    for pairs in found:
        total = integer(0)
        for axis, c in pairs:
            total = simplify.add(total, simplify.mul(place.strides[axis], integer(c)))
        out.append(total)
    return tuple(out)

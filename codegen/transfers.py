"""Which stages are plain copies of boxes from one memory to another: what a DMA engine could do of a Nest.

A copy is judged by what it computes: one element of one tensor for each point of a box, without conditions. How its
loops are scheduled does not matter, for an engine has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.codegen import loops as L
from tilewright.codegen.places import ONE, Place, strides_of
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Tensor
from tilewright.lang.types import DType
from tilewright.schedule import nest as N

ZERO = L.ZERO
PASSED = ("pass", "relay")  # partial sums that go from one element of an array to the next, and through no memory
STAGING = ("load", "store", "copy")  # what `cache_write` and buffers of outputs add: copies by what they do

Find = Callable[[Tensor, int], Place | None]
Box = list[tuple[Node, Node]]  # (first, extent) an axis


@dataclass(frozen=True)
class Copied:
    """What a Produce copies, and if it is no plain copy the reason why; `name` is the stage's."""

    name: str
    transfers: tuple[L.Transfer, ...] = ()
    reason: str = ""


class _NotPlainError(Exception):
    pass


def copied(n: N.Produce, find: Find) -> Copied | None:
    """What an engine would do here; None where nothing is copied from one memory to another."""
    assigns = [m for m in N.walk(n.body) if isinstance(m, N.Assign)]
    name = assigns[0].stage if assigns else n.name
    if n.label in PASSED:
        return None
    try:
        pairs = [pair for m in assigns for pair in _pairs(m, find)]
        if all(a.storage.memory == b.storage.memory for a, b in pairs):
            return None
        return Copied(name, tuple(_transfers(n, assigns, find)))
    except _NotPlainError as e:
        staged = n.asynchronous or n.label in STAGING
        return Copied(name, reason=str(e)) if staged and _crosses(assigns, find) else None


def _crosses(assigns: list[N.Assign], find: Find) -> bool:
    """Whether something is read in one memory for another one: else it is a computation like any other."""
    for m in assigns:
        target = find(m.tensor, 0)
        for load in ir.leaves(m.values, "load"):
            source = find(*load.attr)
            if source and target and source.storage.memory != target.storage.memory:
                return True
    return False


def _pairs(m: N.Assign, find: Find) -> Iterator[tuple[Place, Place]]:
    """Source and target of every component. Raises _NotPlainError."""
    for k, v in enumerate(m.values):
        load = _moved(v)
        if load is None or load.args != m.indices:
            raise _NotPlainError("its values are computed, not copied")
        source, target = find(*load.attr), find(m.tensor, k)
        if source is None or target is None:
            raise _NotPlainError("what it copies has no place of its own")
        if not _converts(v, source.buffer.dtype, target.buffer.dtype):
            raise _NotPlainError("its values are converted on the way")
        yield source, target


def _moved(v: Node) -> Node | None:
    """The load of which a value is a copy, in another type perhaps."""
    while v.op in ("cast", "round_to"):
        v = v.args[0]
    return v if v.op == "load" else None


def _converts(v: Node, source: DType, target: DType) -> bool:
    """Whether a value is what is read, in the type of the target and through no other."""
    if v.op == "load":
        return True
    if v.args[0].op != "load":
        return False
    return v.attr is target if v.op == "round_to" else source is not target and v.dtype is target.compute


def _transfers(n: N.Produce, assigns: list[N.Assign], find: Find) -> Iterator[L.Transfer]:
    """A transfer for every component of every point set. Raises _NotPlainError."""
    if any(isinstance(m, (N.Produce, N.Allocation, N.Call)) for m in N.walk(n.body)):
        raise _NotPlainError("something else is computed inside of it")
    for p in n.points:
        mine = [m for m in assigns if m.stage == p.stage]
        if not mine:
            continue
        if p.condition is not ir.TRUE or p.predicates:
            raise _NotPlainError("it has conditions")
        if any(len(m.point) != len(m.indices) or m.point != m.indices for m in mine):
            raise _NotPlainError("its points are not those of the tensor")
        pairs = [list(_pairs(m, find)) for m in mine]
        if any([(a.buffer, b.buffer) for a, b in x] != [(a.buffer, b.buffer) for a, b in pairs[0]] for x in pairs):
            raise _NotPlainError("its forms copy different tensors")
        box: Box = []
        for r in p.box:
            assert r.lo is not None and r.hi is not None
            box.append((r.lo, simplify.maximum(simplify.add(simplify.sub(r.hi, r.lo), ONE), ZERO)))
        whole = (*(o for o, _ in box), *(e for _, e in box))
        for source, target in pairs[0]:
            for k, piece in enumerate(_unwrapped(box, (source, target))):
                yield L.Transfer(
                    _view(source, piece), _view(target, piece), n.asynchronous,
                    source.storage.turn or ZERO, target.storage.turn or ZERO, () if k else whole,
                )  # fmt: skip


def _unwrapped(box: Box, places: tuple[Place, Place]) -> list[Box]:
    """The box in pieces that do not wrap around on a folded axis; some may be empty."""
    pieces = [box]
    for place in places:
        for axis, n in place.storage.folds:
            pieces = [part for piece in pieces for part in _cut(piece, axis, n)]
    return pieces


def _cut(box: Box, axis: int, n: int) -> Iterator[Box]:
    first, extent = box[axis]
    if extent is ONE:
        yield box
        return
    room = simplify.sub(integer(n), simplify.mod(first, integer(n)))
    head = simplify.minimum(extent, room)
    for at, many in ((first, head), (simplify.add(first, head), simplify.sub(extent, head))):
        yield [*box[:axis], (at, many), *box[axis + 1 :]]


def _view(place: Place, box: Box) -> L.View:
    origin = tuple(a for a, _ in box)
    found = strides_of(place, len(box))
    if found is None:
        raise _NotPlainError(f"the layout of {place.storage.name} cuts an axis in blocks")
    return L.View(place.buffer, place.offset(origin), origin, tuple(e for _, e in box), found)


__all__ = ["Copied", "copied"]

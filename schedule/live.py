"""Which buffers of a nest are alive together, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.hw import LiveBuffer
from tilewright.lang import intervals, ir, simplify
from tilewright.lang.errors import ArgumentError
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.values import index_value
from tilewright.schedule.nest import Allocation, LoopNode, Nest, NestNode, Storage, children

Loops = tuple[tuple[Node, Interval], ...]


def live_points(nest: Nest, sizes: Mapping[str, int] | None = None) -> Iterator[tuple[str, list[LiveBuffer]]]:
    """Every place at which a buffer begins to live, by the loop around it, with the buffers that are alive there.

    Without `sizes` those whose size is not constant are left out. One that differs from iteration to iteration counts
    with its largest size.
    """
    stack: list[tuple[NestNode, str, Loops, tuple[LiveBuffer, ...]]] = [(nest.body, "", (), ())]
    while stack:
        n, where, loops, live = stack.pop()
        if isinstance(n, LoopNode):
            where = n.address
            loops = (*loops, (n.var, Interval(n.start, simplify.sub(n.stop, integer(1)))))
        if isinstance(n, Allocation):
            found = [(s, _bytes(s, loops, sizes)) for s in n.storages]
            live = (*live, *(LiveBuffer(s.name, s.memory, size, s.slots) for s, size in found if size is not None))
            yield where, list(live)
        stack.extend((c, where, loops, live) for c in reversed(children(n)))


def _bytes(s: Storage, loops: Loops, sizes: Mapping[str, int] | None) -> int | None:
    """The bytes of one slot, None where they are not known."""
    extents = s.extents if s.layout is None else s.layout.extents(s.extents)
    total = s.dtype.bytes
    for e in extents:
        n = e.attr if e.op == "const" else None if sizes is None else largest(e, loops, sizes)
        if n is None:
            return None
        total *= max(0, n)
    return total


def largest(extent: Node, loops: Loops, sizes: Mapping[str, int]) -> int | None:
    """The largest value of an extent over the loops around it; None where it has no bound or data say it."""
    top: Node | None = extent
    for var, r in reversed(loops):
        top = intervals.bounds(top, {var: r}).hi if top is not None else None
    if top is None or ir.leaves([top], "load"):
        return None
    try:
        return index_value(top, sizes)
    except ArgumentError:
        return None

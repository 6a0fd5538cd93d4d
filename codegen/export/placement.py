"""Where temporaries lie in their memories.

Buffers nest: one that is made inside of the life of another is gone before it. So every memory is a stack, and a buffer's
offset is where those end that live when it is made. A buffer that is made at several places has one offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.codegen import loops as L
from tilewright.lang import intervals, ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer

ALIGNMENT = 64  # bytes, where the machine says nothing


@dataclass(frozen=True)
class Placement:
    """Bytes of buffers whose size is known, and the offsets of those that are placed in their memory."""

    bytes: Mapping[L.Buffer, int]
    offsets: Mapping[L.Buffer, int]

    def arena(self, memory: str) -> int:
        """Bytes of a memory that are used."""
        return max((o + self.bytes[b] for b, o in self.offsets.items() if b.memory == memory), default=0)

    @property
    def memories(self) -> tuple[str, ...]:
        """The memories in which something is placed."""
        return tuple(dict.fromkeys(b.memory for b in self.offsets))


def place(s: L.Stmt, alignments: Mapping[str, int]) -> Placement:
    """Offsets of the buffers in `s` whose size has a bound that is a number.

    Those in registers get none. `alignments` are bytes by memory; others have `ALIGNMENT`.
    """
    sizes = {b: n for b, n in _largest(s) if n is not None}
    placed = {b for b in sizes if b.memory != "reg"}
    offsets = dict.fromkeys((b for b, _ in _largest(s) if b in placed), 0)
    while True:  # a buffer of several places moves up until it fits at all of them, and others with it
        before = dict(offsets)
        _raise(s, offsets, sizes, alignments)
        if offsets == before:
            return Placement(sizes, offsets)


def _raise(
    s: L.Stmt, offsets: dict[L.Buffer, int], sizes: Mapping[L.Buffer, int], alignments: Mapping[str, int]
) -> None:
    todo: list[tuple[L.Stmt, dict[str, int]]] = [(s, {})]
    while todo:
        t, ends = todo.pop()
        if isinstance(t, L.Allocate) and t.buffer in offsets:
            b = t.buffer
            unit = alignments.get(b.memory, ALIGNMENT)
            offsets[b] = max(offsets[b], -(-ends.get(b.memory, 0) // unit) * unit)
            ends = {**ends, b.memory: offsets[b] + sizes[b]}
        todo.extend((u, ends) for u in reversed(L.children(t)))


def _largest(s: L.Stmt) -> Iterator[tuple[L.Buffer, int | None]]:
    """Every temporary and the most bytes that it can have, in text order; None where that is no number."""
    found: dict[L.Buffer, int | None] = {}
    todo: list[tuple[L.Stmt, tuple[tuple[Node, Interval], ...]]] = [(s, ())]
    while todo:
        t, loops = todo.pop()
        if isinstance(t, L.Allocate):
            n = _bytes(t.buffer, loops)
            known = found.get(t.buffer, 0)
            found[t.buffer] = None if n is None or known is None else max(n, known)
        if isinstance(t, L.For):
            loops = (*loops, (t.var, Interval(t.start, simplify.sub(t.stop, integer(1)))))
        todo.extend((u, loops) for u in reversed(L.children(t)))
    yield from found.items()


def _bytes(b: L.Buffer, loops: tuple[tuple[Node, Interval], ...]) -> int | None:
    top: Node | None = b.size
    for var, r in reversed(loops):
        if top is None or top.op == "const":
            break
        top = intervals.bounds(top, {var: r}).hi
    return max(0, top.attr) * b.dtype.bytes if top is not None and ir.is_const(top) else None


__all__ = ["ALIGNMENT", "Placement", "place"]

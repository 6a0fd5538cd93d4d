"""The first intervals of a run as the account has them: work, waits, copies, and the lives of staged buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.codegen import loops as L
from tilewright.codegen.accounts.footprint import live_points
from tilewright.codegen.skeleton.engine import Span
from tilewright.codegen.skeleton.tree import Table
from tilewright.hw import Interval, Machine
from tilewright.hw.timing import TICKS


def intervals(
    spans: Sequence[Span], program: L.Program, table: Table, machine: Machine, env: Mapping[str, Any]
) -> tuple[Interval, ...]:
    """Spans with names, in cycles, and beside them when each buffer lived, by when they begin."""
    if not spans:
        return ()
    found = [_interval(s, table, machine) for s in spans]
    for _, live in live_points(program, machine, env):
        b = live[-1]
        memory = machine.memory(b.memory)
        taken = memory.aligned(b.size) * b.slots * b.copies
        inside = _sections(program.body, b.name)
        for start, end in _lives(spans, inside, b.name, table):
            found.append(Interval(f"memory.{memory.name}", b.name, start / TICKS, end / TICKS, bytes=taken))
    return tuple(sorted(dict.fromkeys(found), key=lambda i: i.start))


def _interval(s: Span, table: Table, machine: Machine) -> Interval:
    track = s.track if isinstance(s.track, str) else f"{machine.dmas[s.track[0]].name}.{s.track[1]}"
    name = "" if s.section is None else table.sections[s.section]
    if s.buffer is not None:
        name = table.buffers[s.buffer].name.removeprefix("out.")
    return Interval(track, name, s.start / TICKS, s.end / TICKS, s.cause, s.bytes)


def _sections(body: L.Stmt, buffer: str) -> frozenset[int]:
    """The sections in which a buffer is there: those inside of its life, or the one that it lives in."""

    def visit(s: L.Stmt, lives: bool, section: int | None) -> Iterator[int]:
        if isinstance(s, L.Section) and s.kind != L.HAND:
            section = s.number
        lives = lives or (isinstance(s, L.Allocate) and s.buffer.name == buffer)
        if lives and section is not None:
            yield section
        for t in L.children(s):
            yield from visit(t, lives, section)

    return frozenset(visit(body, False, None))


def _lives(spans: Iterable[Span], inside: frozenset[int], buffer: str, table: Table) -> Iterator[tuple[int, int]]:
    """From the end of what the core did before to the end of the last thing that it does while the buffer is there.

    What a buffer's loads and stores run ahead or behind is inside of that. Lives that follow each other at once are one.
    """
    before, start, end = 0, None, 0
    for s in spans:
        if not isinstance(s.track, str):
            continue
        drained = s.section is None and s.buffer is not None and table.buffers[s.buffer].name == buffer
        if s.section in inside or (drained and start is not None):
            start, end = before if start is None else start, s.end
        elif s.section is not None:
            if start is not None:
                yield start, end
            before, start = s.end, None
    if start is not None:
        yield start, end


__all__ = ["intervals"]

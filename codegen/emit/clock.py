"""The clock of profiled kernels: cycles that pass inside of timed sections, and how often each is entered.

One i64 holds the last reading. Where a section begins or ends, what passed since then goes to the section that was running,
so that times are exclusive and add up to that of the whole. The clock is the processor's counter of cycles, which runs at
one rate whatever the processor's own is; reading it orders nothing, so a section's first and last instructions may be
counted next door.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.codegen.emit.region import Region
from tilewright.codegen.loops import TIMED, Program, Section, Stmt, children

CLOCK = "clock"
READING, CYCLES, ENTRIES = "reading", "cycles", "entries"

Key = tuple[str, ...]  # (READING,), (CYCLES, section), (ENTRIES, section, the section around)


def clock_layout(program: Program) -> dict[Key, int]:
    """The position of every i64: the last reading first, then the sections as they begin in the text.

    All are zeroed by the caller; an outermost section is entered from "".
    """
    keys: dict[Key, None] = {(READING,): None}
    stack: list[tuple[Stmt, str]] = [(program.body, "")]
    while stack:
        s, around = stack.pop()
        if isinstance(s, Section) and s.kind == TIMED:
            keys |= {(CYCLES, s.name): None, (ENTRIES, s.name, around): None}
            around = s.name
        stack.extend((t, around) for t in reversed(children(s)))
    return {k: i for i, k in enumerate(keys)}


@dataclass(eq=False, slots=True)
class Clock:
    """Where counters are, and the names of the sections around what is being emitted."""

    layout: dict[Key, int]
    around: list[str] = field(default_factory=list)


@contextmanager
def timed(r: Region, name: str) -> Iterator[None]:
    """Around the statements of a section."""
    clock: Clock = r.shared.clock or Clock(clock_layout(r.shared.program))
    r.shared.clock = clock
    around = clock.around[-1] if clock.around else ""
    _switch(r, clock)
    _add(r, clock, (ENTRIES, name, around), "1")
    clock.around.append(name)
    yield
    _switch(r, clock)
    clock.around.pop()


def _switch(r: Region, clock: Clock) -> None:
    """What passed since the last reading goes to the section that is running."""
    r.f.declare("llvm.readcyclecounter", "i64", "")
    now = r.f.op("call i64 @llvm.readcyclecounter()")
    reading = _place(r, clock, (READING,))
    if clock.around:
        passed = r.f.op(f"sub i64 {now}, {r.f.op(f'load i64, ptr {reading}')}")
        _add(r, clock, (CYCLES, clock.around[-1]), passed)
    r.f.do(f"store i64 {now}, ptr {reading}")


def _add(r: Region, clock: Clock, key: Key, amount: str) -> None:
    p = _place(r, clock, key)
    before = r.f.op(f"load i64, ptr {p}")
    r.f.do(f"store i64 {r.f.op(f'add i64 {before}, {amount}')}, ptr {p}")


def _place(r: Region, clock: Clock, key: Key) -> str:
    return r.f.op(f"getelementptr i64, ptr {r.captured(CLOCK)}, i64 {clock.layout[key]}")

"""The time of a simulated run: who was busy, who waited for what, and what every line of the nest had of it.

All figures are cycles of the machine's clock. The engine counts in whole ticks (`TICKS` a cycle), so what must add up does
so exactly: cycles = busy + the sum of all stalls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TICKS = 1 << 20  # a cycle
# What a wait is for: data under way, room for results (a store that drains), the issue of descriptors, a bank that serves
# one access at a time, the pipeline's latency, the others at a barrier, and what is still under way at the end of a ring.
CAUSES = ("load", "store", "issue", "bank", "latency", "barrier", "drain")


@dataclass(frozen=True, slots=True)
class Stall:
    """The core waited `cycles` in front of (or inside) a section; `buffer` is what arrived last ("" where there is none)."""

    cause: str
    section: str
    buffer: str
    cycles: float


@dataclass(frozen=True, slots=True)
class Use:
    """Of one resource: how long it was busy. It is `compute` or `array`, a unit, a memory's port (`tcdm.read`; `tcdm` where
    there is one), its banks (`tcdm.banks`), its latency (`dram.latency`: what accesses of the cores take with as many under
    way at a time as a core may have), or an engine's channel (`dma.0`)."""

    resource: str
    busy: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the annotated nest, in text order.

    `kind`: loop, parallel, spatial, copy, compute, buffer, if, or store (a part of a computation, without figures of its
    own); `depth` its indentation; `visits` how often it began,
    `trips` the iterations of a loop over all visits; `bytes` moved by a copy (or by all copies inside of a loop), `busy`
    and `waits` (by cause) the core's cycles in it, `transfer` the engine's cycles of a copy; `live` bytes by memory at
    that place; `where` the program point as footprints name it.
    """

    kind: str
    depth: int
    name: str
    text: str
    visits: int
    trips: int = 0
    bytes: int = 0
    busy: float = 0.0
    waits: Mapping[str, float] = field(default_factory=dict)
    transfer: float = 0.0
    live: Mapping[str, int] = field(default_factory=dict)
    where: str = ""

    @property
    def waiting(self) -> float:
        return sum(self.waits.values())


@dataclass(frozen=True, slots=True)
class Interval:
    """Something that took from `start` to `end` (cycles).

    `track` says where: `compute`, an engine's channel (`dma.0`), `wait` (`name` is what the core waited for and `cause`
    one of CAUSES), or `memory.NAME` for the life of a buffer there. `bytes` is what a copy moves, or what all slots and
    copies of a buffer take of the memory.
    """

    track: str
    name: str
    start: float
    end: float
    cause: str = ""
    bytes: int = 0

    @property
    def memory(self) -> str:
        """The memory whose buffer lives here, or nothing."""
        return self.track.removeprefix("memory.") if self.track.startswith("memory.") else ""


@dataclass(frozen=True, slots=True)
class Time:
    """How long a run took. `bound` is what no schedule of the same work on this machine undercuts (the roofline's), `sync`
    how copies and cores meet: decoupled or barrier. `intervals` are the first ones, and only where they were asked for.
    """

    cycles: float
    busy: float
    sync: str
    bound: float
    stalls: tuple[Stall, ...] = ()
    uses: tuple[Use, ...] = ()
    lines: tuple[Line, ...] = ()
    intervals: tuple[Interval, ...] = ()

    def waiting(self, cause: str | None = None) -> float:
        """Cycles that the core waited, for one cause or for all."""
        return sum(s.cycles for s in self.stalls if cause in (None, s.cause))

    def utilisation(self, resource: str) -> float:
        """The part of the time that a resource was busy, 0 to 1."""
        busy = sum(u.busy for u in self.uses if u.resource == resource)
        return busy / self.cycles if self.cycles else 0.0

"""Running a table: the counts, the time and where it went, for any sizes.

result = run(table, {"M": 1024, "N": 1024, "K": 1024})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton import tree as T
from tilewright.codegen.skeleton.encoding import Encoded, encode
from tilewright.codegen.skeleton.native import function
from tilewright.codegen.skeleton.walk import walk
from tilewright.hw.errors import SimulationError
from tilewright.hw.timing import CAUSES, TICKS


@dataclass(frozen=True, slots=True)
class Wait:
    """The core waited `ticks` for `cause` (see `hw.timing.CAUSES`), at a section and for a buffer (None: no special one)."""

    cause: str
    section: int | None
    buffer: int | None
    ticks: int


@dataclass(frozen=True, slots=True)
class Copies:
    """What the copies of a section add up to. `transfer` is the ticks that they occupied their channel."""

    copies: int = 0
    descriptors: int = 0
    bytes: int = 0
    runs: int = 0
    burst_bytes: int = 0
    split: int = 0
    transfer: int = 0

    def __add__(self, other: Copies) -> Copies:
        return Copies(*(getattr(self, n) + getattr(other, n) for n in self.__slots__))


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of ticks: `track` is compute, wait, or (engine, channel). A wait has a cause and, where there is one, the
    buffer that it was for; `section` None is the end of that buffer's life, or a barrier. `bytes` is what a copy moves."""

    track: str | tuple[int, int]
    section: int | None
    start: int
    end: int
    cause: str = ""
    buffer: int | None = None
    bytes: int = 0


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave. Ticks are those of the slowest core: total = busy + the sum of all waits.

    `counters` are those of the table; `sections` the busy ticks of each section that computes; `visits` how often it ran;
    `copies` by section; `used` the busy ticks of each resource in turn; `intervals` the first ones, if they were asked for.
    """

    total: int
    counters: tuple[int, ...]
    sections: Mapping[int, int]
    visits: Mapping[int, int]
    copies: Mapping[int, Copies]
    waits: tuple[Wait, ...]
    used: tuple[int, ...]
    channels: Mapping[tuple[int, int], int]
    intervals: tuple[Span, ...] = ()

    @cached_property
    def busy(self) -> int:
        """Ticks that sections computed."""
        return sum(self.sections.values())

    def waited(self, cause: str | None = None) -> int:
        """Ticks waited, for one cause or for all."""
        return sum(w.ticks for w in self.waits if cause in (None, w.cause))


def run(
    table: T.Table | Encoded,
    values: Mapping[str, int],
    *,
    intervals: int = 0,
    forward: bool = True,
    native: bool = True,
) -> Result:
    """Walk through a table for given values of its sizes and scalars.

    `intervals` is how many of the first intervals of time are kept. `forward` multiplies what repeats instead of walking
    through it, with the same result. `native` False runs the engine's source in Python, whose integers have no end; so does
    a run whose numbers are not safe in 64 bits. Raises SimulationError `skeleton.data`, KeyError where a value is missing.
    """
    encoded = table if isinstance(table, Encoded) else encode(table)
    m = start_state(encoded, values, intervals, forward)
    if native:
        function()(m.ctypes.data, None, L.STEP_WALK, 0, 0)
        if not m[L.BEYOND]:
            return read_result(encoded, m.tolist())
        m = start_state(encoded, values, intervals, forward)
    words = m.tolist()
    walk(words)
    return read_result(encoded, words)


def start_state(encoded: Encoded, values: Mapping[str, int], intervals: int = 0, forward: bool = True) -> np.ndarray:
    """The engine's memory for a run: int64 words."""
    m = np.concatenate((encoded.words, np.zeros(L.INTERVAL_SIZE * intervals, np.int64)))
    m[L.FAST], m[L.LIMIT] = int(forward), intervals
    for name, place in encoded.leaves.items():
        m[place] = int(values[name])
    return m


def read_driven(encoded: Encoded, m: np.ndarray) -> Result:
    """What the engine's memory says after another program has driven it (see drive.py).

    Raises SimulationError `simulation.beyond` where its numbers were not safe in 64 bits.
    """
    if m[L.BEYOND]:
        raise SimulationError(
            f"the run takes longer than a clock of 64 bits counts (about {L.LARGEST // TICKS:,} cycles)",
            code="simulation.beyond",
            hint="kernel.account, which runs nothing, computes it with any number of digits; or is a figure of the machine"
            " too slow?",
        )
    return read_result(encoded, m.tolist())


def read_result(encoded: Encoded, m: Sequence[int]) -> Result:
    """What the engine's memory says after a run."""
    t = encoded.table
    sections: dict[int, int] = {}
    visits: dict[int, int] = {}
    copies: dict[int, Copies] = {}
    waits: dict[tuple[str, int | None, int | None], int] = {}
    for i, item in enumerate(encoded.path):
        ticks = m[m[L.PATH] + i]
        if item.what == "busy" and item.section is not None:
            sections[item.section] = sections.get(item.section, 0) + ticks
        elif ticks:
            key = (item.what, item.section, item.buffer)
            waits[key] = waits.get(key, 0) + ticks
    if m[L.TOTAL_DRAIN]:
        key = ("drain", None, m[L.LAST_BUFFER])
        waits[key] = waits.get(key, 0) + m[L.TOTAL_DRAIN]
    for section, place in encoded.section_sums:
        visits[section] = visits.get(section, 0) + m[m[L.SUMS] + place]
    channels = dict.fromkeys(encoded.channels, 0)
    engines = {c.section: c.engine for c in T.walk(t.tree) if isinstance(c, T.Copy)}
    for section, place in encoded.copy_sums:
        at = m[L.SUMS] + place
        found = Copies(*m[at : at + len(fields(Copies))])
        copies[section] = copies.get(section, Copies()) + found
        channels[(engines[section], encoded.copy_channels[section])] += found.transfer
    return Result(
        m[L.CLOCK],
        tuple(m[m[L.COUNTERS] : m[L.COUNTERS] + len(t.counters)]),
        sections,
        visits,
        copies,
        tuple(Wait(*key, ticks) for key, ticks in waits.items()),
        tuple(m[m[L.USED] : m[L.USED] + len(t.resources)]),
        channels,
        tuple(_span(encoded, m, i) for i in range(m[L.RECORDED])),
    )


def _span(encoded: Encoded, m: Sequence[int], i: int) -> Span:
    at = m[L.INTERVALS] + L.INTERVAL_SIZE * i
    track, name, start, end, cause, buffer, size = m[at : at + L.INTERVAL_SIZE]
    if track >= L.TRACK_CHANNEL:
        return Span(encoded.channels[track - L.TRACK_CHANNEL], name, start, end, bytes=max(0, size))
    if track == L.TRACK_COMPUTE:
        return Span("compute", name, start, end)
    section, staged = (x if x >= 0 else None for x in (name, buffer))
    return Span("wait", section, start, end, CAUSES[cause], staged)

"""The roofline: what of a machine a run must have used for so long at least, for the whole and for every section.

There is a roof for the arithmetic, for every memory (its ports), every cache level and every DMA engine. The bytes through
one, over its bandwidth, are cycles that no order of the same operations and copies undercuts; so are the operations
over their rate. A memory whose latency cores wait for has one more: accesses take so long, with as many under way at a time
as a core may have (`outstanding`), and shared among all cores. The largest is the *bound*. (Cores and engines do not
disturb each other at a memory in our simulation, so there the one that takes longer counts.) Operations over bytes is the
*intensity* at a roof; the peak rate over the roof's bandwidth is its *ridge*: with less intensity than that the roof limits
more than the arithmetic does.

*Compulsory* traffic reads what is needed of every argument once from main memory and writes every result once; its
intensity is what a better schedule can reach at most, as long as it does the same operations.
The model: Williams, Waterman, Patterson, CACM 52(4), 2009; a point per memory level as in Ilic, Pratas, Sousa, 2014.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .account import Account, CopyStream, Region
from .cache_counts import Level
from .errors import AccountError
from .fields import ELEMENT_TYPES
from .machine import Machine
from .parts import Dma, Memory

FORMAT, VERSION = "tilewright-roofline", 1  # of the JSON


@dataclass(frozen=True, slots=True)
class Roof:
    """A memory, its latency, a cache level or an engine (`kind`): the bytes that went through, and the cycles that this
    takes at least."""

    name: str
    kind: str
    bytes: int
    cycles: float

    @property
    def bandwidth(self) -> float:
        """Bytes a cycle for this mix of reads and writes."""
        return self.bytes / self.cycles if self.cycles else math.inf


@dataclass(frozen=True, slots=True)
class Bound:
    """One section, or the whole run: its operations, the cycles that they take at least, and the roofs over its bytes.

    `kind` is whole, compute or copy; `took` is the simulated time, None where time was not simulated, or caches were, which
    time does not know.
    """

    name: str
    kind: str
    operations: int
    compute: float
    roofs: tuple[Roof, ...]
    took: float | None = None

    @property
    def peak(self) -> float | None:
        """Operations a cycle at most, for this mix of types and units; None without operations."""
        return self.operations / self.compute if self.compute else None

    @property
    def roof(self) -> Roof | None:
        """The roof that takes longest; the outermost of several."""
        return max(self.roofs, key=lambda r: r.cycles, default=None)

    @property
    def cycles(self) -> float:
        """The least cycles that any order of this work takes."""
        return max(self.compute, self.roof.cycles if self.roof else 0.0)

    @property
    def limit(self) -> str:
        """What the bound comes from: `compute`, the name of a roof, or nothing where nothing is done."""
        if self.roof is not None and self.roof.cycles > self.compute:
            return self.roof.name
        return "compute" if self.compute else ""

    @property
    def factor(self) -> float:
        """How many times longer the limit takes than the arithmetic, or the arithmetic than the highest roof."""
        roof = self.roof.cycles if self.roof else 0.0
        low, high = sorted((roof, self.compute))
        return high / low if low else math.inf

    @property
    def verdict(self) -> str:
        """In words: `memory bound (tcdm) by 2.3x`, `compute bound by 1.4x`."""
        if not self.limit:
            return "nothing to do"
        by = f" by {self.factor:.1f}x" if self.factor >= 1.05 else ", and balanced"
        if math.isinf(self.factor):
            by = ""
        if self.limit == "compute":
            return f"compute bound{by}"
        return f"memory bound ({self.limit}){by}" if self.operations else f"moves data only ({self.limit})"

    def intensity(self, roof: Roof) -> float:
        """Operations a byte."""
        return self.operations / roof.bytes if roof.bytes else math.inf

    def ridge(self, roof: Roof) -> float | None:
        """The intensity from which on the arithmetic limits more than the roof."""
        return None if self.peak is None else self.peak / roof.bandwidth


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of a run. `compulsory` is the whole with the least possible traffic of main memory."""

    kernel: str
    machine: str
    sizes: Mapping[str, int]
    clock_ghz: float
    whole: Bound
    compulsory: Bound
    regions: tuple[Bound, ...] = field(default=())

    def __str__(self) -> str:
        from .render.roofline_text import roofline_text

        return roofline_text(self)

    def _repr_html_(self) -> str:
        from .render.html import roofline_html

        return roofline_html(self)

    def as_data(self) -> dict[str, Any]:
        """Plain data, with what follows from the figures."""
        return {
            "format": FORMAT, "version": VERSION, "kernel": self.kernel, "machine": self.machine, "sizes": dict(self.sizes),
            "clock_ghz": self.clock_ghz, "whole": _bound_data(self.whole), "compulsory": _bound_data(self.compulsory),
            "regions": [_bound_data(b) for b in self.regions],
        }  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(self.as_data(), indent=2)

    def save(self, path: str | Path) -> None:
        """Draw it: a PNG or SVG by the name's end. Needs the extra `plot`; raises AccountError `account.plot`."""
        from .render.roofline_picture import draw_roofline

        draw_roofline(self, path)


def _bound_data(b: Bound) -> dict[str, Any]:
    roofs = [
        {"name": r.name, "kind": r.kind, "bytes": r.bytes, "cycles": r.cycles,
         "intensity": _finite(b.intensity(r)), "ridge": b.ridge(r)}
        for r in b.roofs
    ]  # fmt: skip
    return {
        "name": b.name, "kind": b.kind, "operations": b.operations, "peak": b.peak, "compute": b.compute, "roofs": roofs,
        "cycles": b.cycles, "limit": b.limit, "factor": _finite(b.factor), "verdict": b.verdict, "took": b.took,
    }  # fmt: skip


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None  # JSON has no infinity


# Making one -------------------------------------------------------------------------------------------------------


def roofline(account: Account, machine: Machine) -> Roofline:
    """The roofline of an account on the machine that it was made with.

    Where caches were simulated, main memory has the traffic that gets through; of a section it is only known what comes to
    the first level. Raises AccountError `account.rate` where the machine has no rate for some of the operations.
    """
    if unrated := missing_rates(account.operations, machine):
        raise AccountError(
            f"there is no roofline: {no_rate(unrated, machine)}", code="account.rate",
            hint=f"a machine whose [compute] ops has {unrated[0]}",
        )  # fmt: skip
    units: dict[str, float] = {}
    for region in account.regions:
        for unit, cycles in region.units.items():
            units[unit] = units.get(unit, 0.0) + cycles
    took = None if account.time is None or account.caches else account.time.cycles
    operations, compute = sum(account.operations.values()), _compute(account.operations, units, machine)
    read, written = ({m: getattr(account.of(m), f) for m in _names(machine)} for f in ("bytes_read", "bytes_written"))
    memories = [_shared(r, account, machine) for r in _memory_roofs(read, written, machine, account.caches)]
    waits = _latency_roofs(account.regions, account, machine)
    roofs = (*memories, *waits, *_engine_roofs(account.copies, machine, _copiers(account, machine)))
    whole = Bound("all", "whole", operations, compute, roofs, took)
    main = machine.main
    least = _memory_roof(main, *_least(account, main.name), machine)
    most = next((r.cycles for r in memories if r.name == main.name), 0.0)
    least = replace(least, cycles=min(least.cycles, most))
    compulsory = Bound("compulsory", "whole", operations, compute, (least,) if least.bytes else ())
    regions = tuple(_region(r, account, machine) for r in account.regions)
    return Roofline(account.kernel, account.machine, account.sizes, machine.clock_ghz, whole, compulsory, regions)


def _names(machine: Machine) -> list[str]:
    return [m.name for m in machine.memories]


def _least(account: Account, main: str) -> tuple[int, int]:
    """Bytes that must be read from and written to main memory; never more than were."""
    read = sum(min(t.reads, account.of(main, t.name).bytes_read) for t in account.tensors)
    written = sum(min(t.writes, account.of(main, t.name).bytes_written) for t in account.tensors)
    return read, written


def _compute(operations: Mapping[str, int], units: Mapping[str, float], machine: Machine) -> float:
    """Cycles of the arithmetic: operations of all types share the lanes, units work beside them."""
    lanes = sum(n / rate for name, n in operations.items() if (rate := machine.compute.rate(name)))
    return max([lanes, *units.values()])


def missing_rates(operations: Mapping[str, int], machine: Machine) -> list[str]:
    """The types of operations for which a machine has no rate (what units do is named after them)."""
    return [name for name in operations if name in ELEMENT_TYPES and machine.compute.rate(name) is None]


def no_rate(unrated: Iterable[str], machine: Machine) -> str:
    return f"{machine.name} has no rate of operations on {', '.join(unrated)}"


def _memory_roofs(
    read: Mapping[str, int], written: Mapping[str, int], machine: Machine, levels: Sequence[Level] = ()
) -> Iterator[Roof]:
    """The memories in the machine's order; main memory behind its caches where those were simulated."""
    for memory in machine.memories:
        r, w = read.get(memory.name, 0), written.get(memory.name, 0)
        if levels and memory.kind == "main":
            yield from _cache_roofs(levels, machine, r + w)
        elif r or w:
            yield _memory_roof(memory, r, w, machine)


def _memory_roof(memory: Memory, read: int, written: int, machine: Machine) -> Roof:
    instances = _instances(memory, machine)
    ports = read / memory.read_bandwidth, written / memory.write_bandwidth
    cycles = (sum(ports) if memory.ports == "shared" else max(ports)) / instances
    return Roof(memory.name, "memory", read + written, cycles)


def _latency_roofs(regions: Iterable[Region], account: Account, machine: Machine) -> Iterator[Roof]:
    """What accesses took of cores that wait for them, if all cores share them; not of those that caches served."""
    for memory in machine.memories:
        if account.caches and memory.kind == "main":
            continue
        found = [r for r in regions if r.accesses.get(memory.name)]
        if found:
            moved = sum(r.read.get(memory.name, 0) + r.written.get(memory.name, 0) for r in found)
            cycles = sum(r.accesses[memory.name] for r in found) * memory.wait / machine.compute.cores
            yield Roof(f"{memory.name}.latency", "latency", moved, cycles)


def _shared(roof: Roof, account: Account, machine: Machine) -> Roof:
    """The roof where cores and engines come to a memory at the same time: each of them has its bandwidth, as in the
    simulation, so that the one that takes longer counts, and of engines every channel."""
    copies = [r for r in account.regions if r.kind == "copy"]
    if roof.kind != "memory" or not copies:
        return roof
    memory = machine.memory(roof.name)
    done, moved = ((sum(getattr(r, f).get(roof.name, 0) for r in copies)) for f in ("read", "written"))
    total = account.of(roof.name)
    cores = _memory_roof(memory, total.bytes_read - done, total.bytes_written - moved, machine).cycles
    channels = sum(d.channels for d in machine.dmas if any(roof.name in pair for pair in d.joins))
    engines = _memory_roof(memory, done, moved, machine).cycles / max(1, channels)
    return replace(roof, cycles=max(cores, engines))


def _instances(memory: Memory, machine: Machine) -> int:
    """How many of a memory there are; a figure of it is that of one."""
    if memory.per == "core":
        return machine.compute.cores
    array = machine.compute.axes or {}
    return math.prod(array[x] for x in memory.axes(array))


def _cache_roofs(levels: Sequence[Level], machine: Machine, accessed: int) -> Iterator[Roof]:
    """Main memory first, then the levels inwards. What misses in a level, and what it writes back, passes the next one."""
    totals = {level.name: level.total for level in levels}
    passed, roofs = (accessed, 0), []
    for cache in machine.caches:
        if cache.name not in totals:
            continue
        roofs.append(Roof(cache.name, "cache", sum(passed), sum(passed) / cache.bandwidth))
        counts = totals[cache.name]
        passed = counts.misses * cache.line, counts.write_backs * cache.line
    if sum(passed):
        roofs.append(_memory_roof(machine.main, *passed, machine))
    yield from reversed(roofs)


def _copiers(account: Account, machine: Machine) -> int:
    """How many cores may copy on their own, with channels of their own and a part of the bandwidth each."""
    lines = account.time.lines if account.time is not None else ()
    return machine.compute.cores if not lines or any(x.kind == "parallel" for x in lines) else 1


def _engine_roofs(copies: Iterable[CopyStream], machine: Machine, cores: int) -> Iterator[Roof]:
    """What each engine was taken for: issuing descriptors, and whole bursts at its rate."""
    streams: dict[str, list[CopyStream]] = {}
    for stream in copies:
        if stream.engine:
            streams.setdefault(stream.engine, []).append(stream)
    for dma in machine.dmas:
        found = streams.get(dma.name, [])
        moved = sum(s.burst_bytes for s in found)
        if moved:
            yield Roof(dma.name, "engine", moved, _engine_cycles(dma, found, machine, cores))


def _engine_cycles(dma: Dma, streams: list[CopyStream], machine: Machine, cores: int) -> float:
    data = 0.0
    for s in streams:
        source, target = machine.memory(s.source), machine.memory(s.target)
        data += s.burst_bytes / min(dma.bandwidth, source.read_bandwidth, target.write_bandwidth)
    issue = sum(s.descriptors for s in streams) * dma.issue / cores
    if dma.contention == "partitioned":
        return issue / dma.channels + data
    both = (issue + data) / dma.channels
    return both if dma.contention == "independent" else max(both, data)


def _region(region: Region, account: Account, machine: Machine) -> Bound:
    lines = account.time.lines if account.time is not None else ()
    lines = [x for x in lines if x.name == region.name and x.kind == region.kind]
    streams = [s for s in account.copies if s.name == region.name] if region.kind == "copy" else []
    roofs = list(_memory_roofs(region.read, region.written, machine))
    if account.caches:  # which levels serve this section is not known, but that all comes to the first
        main = next((r for r in roofs if r.name == machine.main.name), None)
        first = [] if main is None else [*_cache_roofs(account.caches, machine, main.bytes)][-1:]
        roofs = [*first, *(r for r in roofs if r is not main)]
    engines = _engine_roofs(streams, machine, _copiers(account, machine))
    took = sum(x.transfer or x.busy + x.waiting for x in lines) if lines and not account.caches else None
    return Bound(
        region.name, region.kind, sum(region.operations.values()), _compute(region.operations, region.units, machine),
        (*roofs, *_latency_roofs((region,), account, machine), *engines), took,
    )  # fmt: skip

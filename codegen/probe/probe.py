"""All measurements of a computer, and the machine that they make."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.codegen.data_caches import CacheSize, data_caches, processor_name
from tilewright.hw import Cache, Compute, Machine, MachineError, Memory, Provenance
from tilewright.hw.fields import show_bytes
from tilewright.hw.machine import machine_text, parse_machine
from tilewright.hw.render.tables import Table
from tilewright.lang.errors import user_location
from tilewright.schedule.registers import Registers, host_registers

from . import kernels, measure

_MAIN_BYTES = 64 << 20  # at least so many bytes are walked to measure the main memory; four times the last cache
_STREAMS = ("read", "copy", "triad")


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """A cache (`size`, `line`, `ways`) or the main memory (None): bytes a second that each kernel loads and stores, and
    seconds of a load that waits for the one before. `walked` is how many bytes the kernels go through."""

    name: str
    cache: CacheSize | None
    walked: int
    read: float
    copy: float
    triad: float
    latency: float


@dataclass(frozen=True, slots=True)
class Probe:
    """What was measured on one core: `clock` in cycles a second, `rates` in operations a second by type."""

    processor: str
    date: str
    clock: float
    levels: tuple[LevelFigures, ...]
    rates: dict[str, float]
    registers: Registers

    @property
    def heading(self) -> str:
        """For the top of the machine's file."""
        return (
            f"One core of this computer ({self.processor}), measured on {self.date}.\n"
            "Every rate is the best of many repetitions. Sizes and ways of caches are those that the system gives; how\n"
            "they replace lines is assumed."
        )

    @property
    def machine(self) -> Machine:
        """The machine with these figures."""
        return _machine(self)

    def as_json(self) -> dict[str, Any]:
        """All figures as plain data: seconds, and bytes and operations a second."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        cycle = 1 / self.clock
        levels = Table(
            "bandwidth of loads and stores together (GB/s), and latency",
            ("level", "size", "read", "copy", "triad", "read B/cy", "latency ns", "cycles"),
            tuple(
                (
                    level.name, show_bytes(level.cache.size) if level.cache else "", f"{level.read / 1e9:.1f}",
                    f"{level.copy / 1e9:.1f}", f"{level.triad / 1e9:.1f}", f"{level.read * cycle:.1f}",
                    f"{level.latency * 1e9:.1f}", f"{level.latency / cycle:.1f}",
                )
                for level in self.levels
            ),
        )  # fmt: skip
        rates = Table(
            "operations of independent multiply-adds, counted as two", ("type", "G/s", "a cycle"),
            tuple((t, f"{rate / 1e9:.1f}", f"{rate * cycle:.1f}") for t, rate in self.rates.items()),
        )  # fmt: skip
        return f"{self.processor}, one core at {self.clock / 1e9:.2f} GHz, {self.date}\n\n{levels}\n\n{rates}"


def probe(seconds: float = 10.0) -> Probe:
    """Measure one core of this computer in about so many seconds (and those of compiling and of filling memory).

    Every figure has its share of the time, in which the best of many samples is taken: what else runs on the computer makes
    figures worse, never better. Raises MachineError `machine.probe` on a processor that the kernels are not made for, and
    where `seconds` is no number above 0.
    """
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise MachineError(
            f"a computer can't be measured in {seconds!r} seconds", code="machine.probe", where=user_location(),
            hint="legal: a number of seconds above 0",
        )  # fmt: skip
    if not measure.supported():
        raise MachineError("this processor can't be measured: 64-bit little-endian only", code="machine.probe")
    registers = host_registers()
    caches = data_caches(_processor())
    share = seconds / (1 + 4 * (len(caches) + 1) + len(kernels.TYPES))
    clock = measure.clock(share)
    return Probe(
        processor_name(),
        datetime.date.today().isoformat(),
        clock,
        tuple(_levels(caches, registers.width, share)),
        {t: rate for t in kernels.TYPES if (rate := measure.peak(t, registers.width, share)) is not None},
        registers,
    )


def _processor() -> int:
    """One that this process may run on."""
    return min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def _levels(caches: list[CacheSize], width: int, share: float) -> Iterator[LevelFigures]:
    main = max(_MAIN_BYTES, 4 * caches[-1].size if caches else 0)
    with contextlib.suppress(AttributeError, ValueError, OSError):
        main = min(main, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
    memory = measure.aligned(main + 16 * kernels.UNROLL * width)
    line = caches[0].line if caches else 64
    for i, cache in enumerate([*caches, None]):
        walked = _walked(cache, caches[i - 1].size if i else 0) if cache else main
        # The chase leaves pointers behind, which are numbers like any other to the streams.
        latency = measure.latency(memory, walked, line, share)
        rates = {kind: measure.stream(kind, memory, walked, width, share) for kind in _STREAMS}
        yield LevelFigures(f"L{cache.level}" if cache else "dram", cache, walked, **rates, latency=latency)


def _walked(cache: CacheSize, inner: int) -> int:
    """Bytes that are beyond the cache before and well inside of this one, of which we may have a part only (a shared last
    level). All are walked in the same order again and again, so that a smaller cache that replaces what was used longest
    ago never has what comes next."""
    return max(min(4 * inner, cache.size // 2), min(2 * inner, cache.size)) if inner else cache.size // 2


# The machine ----------------------------------------------------------------------------------------------------


def _machine(found: Probe) -> Machine:
    cycle = 1 / found.clock
    said = f"{found.processor}, {found.date}"
    provenance: dict[str, Provenance] = {}

    def measured(path: str, what: str) -> None:
        provenance[path] = Provenance(f"{what}; {said}", "measured")

    provenance["compute.vector_bytes"] = Provenance("the processor's instructions", "published")
    main = found.levels[-1]
    rates = ", ".join(f"{kind} {getattr(main, kind) / 1e9:.1f}" for kind in _STREAMS)
    measured("memory.dram.read_bandwidth", f"one core, GB/s: {rates}")
    measured("memory.dram.write_bandwidth", "what a copy stores (lines are loaded first)")
    measured("memory.dram.latency", "chase of pointers")
    line = next((level.cache.line for level in found.levels if level.cache), 64)
    dram = Memory(
        name="dram", kind="main", capacity=None, read_bandwidth=_short(main.read * cycle),
        write_bandwidth=_short(main.copy / 2 * cycle), alignment=line, burst=line, latency=_short(main.latency / cycle),
    )  # fmt: skip
    caches = []
    for level in found.levels:
        if level.cache is None:
            continue
        rates = ", ".join(f"{kind} {getattr(level, kind) / 1e9:.1f}" for kind in _STREAMS)
        measured(f"cache.{level.name}.bandwidth", f"one core, GB/s: {rates}")
        measured(f"cache.{level.name}.latency", "chase of pointers")
        for key in ("size", "line", "ways"):
            provenance[f"cache.{level.name}.{key}"] = Provenance("/sys/devices/system/cpu", "published")
        bandwidth, latency = _short(level.read * cycle), _short(level.latency / cycle)
        caches.append(Cache(level.name, level.cache.size, level.cache.line, level.cache.ways, bandwidth, latency))
    machine = Machine(
        name="this-computer",
        about=f"One core of {found.processor}, as measured",
        clock_ghz=float(f"{found.clock / 1e9:.3g}"),
        memories=(dram, _registers(found, provenance)),
        compute=Compute(
            ops={t: _short(rate * cycle) for t, rate in found.rates.items()}, vector_bytes=found.registers.width
        ),
        dmas=(),
        caches=tuple(caches),
        units=(),
        provenance=provenance,
        default_provenance=Provenance(f"tilewright machine probe; {said}", "assumed"),
    )
    measured("clock_ghz", "a chain of integer operations of a cycle each")
    measured("compute.ops", "independent multiply-adds in vectors, counted as two; f16 and bf16 by way of f32")
    return parse_machine(machine_text(machine), "the measured machine")


def _registers(found: Probe, provenance: dict[str, Provenance]) -> Memory:
    """The vector registers: three are read and one is written by every multiply-add."""
    width, count = found.registers.width, found.registers.count
    turns = max(1.0, found.rates.get("f32", found.rates["f64"]) / found.clock / (2 * width / 4))
    provenance["memory.reg.capacity"] = Provenance(f"{count} registers of {width} bytes", "published")
    for key, what in (("read_bandwidth", "three operands"), ("write_bandwidth", "one result")):
        provenance[f"memory.reg.{key}"] = Provenance(f"{what} of every multiply-add", "derived")
    return Memory(
        name="reg", kind="registers", capacity=width * count, read_bandwidth=_short(3 * width * turns),
        write_bandwidth=_short(width * turns), alignment=width,
    )  # fmt: skip


def _short(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")

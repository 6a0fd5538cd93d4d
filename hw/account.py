"""The account of a simulated run as plain data: counts and footprint, as a person reads it and as JSON.

Three results are kept apart: *counts* say how often and how many bytes of each tensor were read and written
in each memory, *footprint* says how much of each memory was taken at the worst moment and by which buffers.
(Time is the third, and is not part of this.) Nothing here knows of schedules or code: names are texts,
sizes are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .fields import show_bytes
from .machine import Machine
from .parts import align_up


@dataclass(frozen=True, slots=True)
class Traffic:
    """What happened to one tensor in one memory: element accesses and the bytes that they moved."""

    memory: str
    tensor: str
    reads: int = 0
    writes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        """Both together, under this one's names."""
        return Traffic(
            self.memory,
            self.tensor,
            self.reads + other.reads,
            self.writes + other.writes,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that is alive: `size` bytes in each of `slots` slots (two with double buffering)."""

    name: str
    memory: str
    size: int
    slots: int = 1


@dataclass(frozen=True, slots=True)
class Footprint:
    """The most that is taken of one memory: `peak` bytes with alignment, at the point `where`."""

    memory: str
    peak: int
    capacity: int | None
    alignment: int
    where: str
    buffers: tuple[LiveBuffer, ...]

    def taken(self, buffer: LiveBuffer) -> int:
        """The bytes that a buffer takes of the memory, all slots together."""
        return align_up(buffer.size, self.alignment) * buffer.slots


def footprints(machine: Machine, points: Iterable[tuple[str, Iterable[LiveBuffer]]]) -> tuple[Footprint, ...]:
    """The peak of every memory over the points of a program, each given with the buffers alive there.

    Memories are in the machine's order; those that nothing lives in are left out. Of several points with
    the same peak the first counts. Raises MachineError `machine.unknown-memory`.
    """
    peaks: dict[str, Footprint] = {}
    for where, live in points:
        by_memory: dict[str, list[LiveBuffer]] = {}
        for buffer in live:
            by_memory.setdefault(machine.memory(buffer.memory).name, []).append(buffer)
        for name, buffers in by_memory.items():
            memory = machine.memory(name)
            taken = sum(memory.aligned(buffer.size) * buffer.slots for buffer in buffers)
            if name not in peaks or taken > peaks[name].peak:
                peaks[name] = Footprint(name, taken, memory.capacity, memory.alignment, where, tuple(buffers))
    return tuple(peaks[memory.name] for memory in machine.memories if memory.name in peaks)


@dataclass(frozen=True, slots=True)
class Account:
    """What a run did on a machine. `sizes` are the values of the kernel's size symbols."""

    kernel: str
    machine: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    traffic: tuple[Traffic, ...] = ()
    footprint: tuple[Footprint, ...] = ()

    def of(self, memory: str, tensor: str | None = None) -> Traffic:
        """The traffic of one tensor, or of all together, in a memory (by its name in the account)."""
        total = Traffic(memory, tensor or "all")
        for row in self.traffic:
            if row.memory == memory and tensor in (None, row.tensor):
                total = total + row
        return total

    def to_json(self) -> str:
        """The account as JSON; `Account.from_json` gives it back."""
        return json.dumps(asdict(self), indent=2)

    @staticmethod
    def from_json(text: str) -> Account:
        """The account that `to_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        return Account(
            kernel=data["kernel"],
            machine=data["machine"],
            sizes=data["sizes"],
            traffic=tuple(Traffic(**row) for row in data["traffic"]),
            footprint=tuple(
                Footprint(**(row | {"buffers": tuple(LiveBuffer(**buffer) for buffer in row["buffers"])}))
                for row in data["footprint"]
            ),
        )

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        parts = [f"{self.kernel} on {self.machine}{f' ({sizes})' if sizes else ''}"]
        if self.traffic:
            parts.append(self._traffic_text())
        parts += [footprint_text(footprint) for footprint in self.footprint]
        return "\n\n".join(parts)

    def _traffic_text(self) -> str:
        rows: list[tuple[str, ...]] = [("memory", "tensor", "reads", "writes", "bytes read", "bytes written")]
        for memory in dict.fromkeys(row.memory for row in self.traffic):
            listed = [row for row in self.traffic if row.memory == memory]
            # A total only where there is something to add up.
            for row in [*listed, self.of(memory)] if len(listed) > 1 else listed:
                counts = (row.reads, row.writes, row.bytes_read, row.bytes_written)
                rows.append((memory, row.tensor, *(f"{count:,}" for count in counts)))
        return columns(rows, left=2)


def footprint_text(footprint: Footprint) -> str:
    """The live buffers of a memory at its peak as a table, with what they take of it."""
    capacity = footprint.capacity
    of = "unbounded" if capacity is None else f"{show_bytes(capacity)}, {footprint.peak / capacity:.1%} taken"
    rows: list[tuple[str, ...]] = [("buffer", "slots", "bytes a slot", "aligned", "taken")]
    for buffer in footprint.buffers:
        aligned = align_up(buffer.size, footprint.alignment)
        counts = (buffer.slots, buffer.size, aligned, footprint.taken(buffer))
        rows.append((buffer.name, *(f"{count:,}" for count in counts)))
    rows.append(("all", "", "", "", f"{footprint.peak:,}"))
    where = f", at {footprint.where}" if footprint.where else ""
    return f"{footprint.memory} ({of}){where}\n{columns(rows, left=1)}"


def columns(rows: list[tuple[str, ...]], left: int) -> str:
    """Rows as aligned columns, the first `left` of them flush left and the others flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )

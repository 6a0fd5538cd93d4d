"""The account of a simulated run as plain data: counts and footprint, as a person reads it and as JSON.

Three results are kept apart: *counts* say how often and how many bytes of each tensor were read and written
in each memory, *footprint* says how much of each memory was taken at the worst moment and by which buffers, *time*
(see `timing`) who was busy and who waited. Nothing here knows of schedules or code: names are texts, sizes are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cache_counts import Level
from .data import decode, schema
from .errors import AccountError
from .machine import Machine, load_machine, machine_names
from .parts import align_up
from .timing import Time

if TYPE_CHECKING:
    from .annotated import AnnotatedNest
    from .roofline import Roofline

FORMAT, VERSION = "tilewright-account", 1  # of the JSON
NO_TIME = "there is no time"  # how a note begins that says why


@dataclass(frozen=True, slots=True)
class Traffic:
    """What happened to one tensor in one memory: element accesses and the bytes that they moved.

    Of the `writes`, `fills` are by copies from a memory further out, and of the `reads`, `drains` by copies to one. `first`
    writes give a reduction its start value (its identity); as many reads find nothing else there. `requests` is what
    all elements of an array asked for: reads where several that want the same at once are not served together.
    `of` is the tensor that a buffer holds a part of.
    """

    memory: str
    tensor: str
    reads: int = 0
    writes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    fills: int = 0
    drains: int = 0
    first: int = 0
    requests: int = 0
    of: str = ""

    @property
    def updates(self) -> int:
        """Writes from further in: results and partial sums, without start values."""
        return self.writes - self.fills - self.first

    @property
    def served(self) -> int:
        """Reads from further in: operands and partial sums, without reads of start values."""
        return self.reads - self.drains - self.first

    def __add__(self, other: Traffic) -> Traffic:
        """Both together, under this one's names."""
        names = ("memory", "tensor", "of")
        counts = [f.name for f in fields(self) if f.name not in names]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in counts})


@dataclass(frozen=True, slots=True)
class CopyStream:
    """All copies that one place of the program made from `source` to `target` (memories).

    `copies` were asked for, in `descriptors`; they moved `bytes` that somebody needs, in `runs` contiguous runs, of which
    `split` were not aligned as the engine wants; `burst_bytes` crossed the bus, `padded` are those beyond what is needed.
    `engine` is empty where cores copied by hand, and `reason` says why.
    """

    name: str
    tensor: str
    source: str
    target: str
    engine: str = ""
    copies: int = 0
    descriptors: int = 0
    bytes: int = 0
    runs: int = 0
    burst_bytes: int = 0
    split: int = 0
    padded: int = 0
    reason: str = ""

    @property
    def run_bytes(self) -> float:
        """The average contiguous run."""
        return self.bytes / self.runs if self.runs else 0.0

    @property
    def efficiency(self) -> float:
        """The part of what crossed the bus that is needed."""
        return self.bytes / self.burst_bytes if self.burst_bytes else 1.0


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument of the kernel, and the bytes of it that any schedule must read (`reads`) and write (`writes`)."""

    name: str
    reads: int = 0
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """What one section of the program did: the counts that its place under the roofline follows from.

    `kind` is compute or copy. `operations` are by element type as rated by the machine (weighted as its classes say; a
    fused multiply-add is two), or by the name of the unit that did them; `units` are the cycles for which units were
    taken. `read` and `written` are bytes by memory; `accesses` are the instructions of cores that did it, in memories whose
    latency they wait for.
    """

    name: str
    kind: str
    operations: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, float] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    accesses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that is alive: `size` bytes in each of `slots` slots (two with double buffering), `copies` times (once a
    core). `offset` is its place in the memory's arena, None where nobody has placed it."""

    name: str
    memory: str
    size: int
    slots: int = 1
    copies: int = 1
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Footprint:
    """The most that is taken of one memory: `peak` bytes with alignment, at the point `where`.

    `arena` is what the buffers of the whole program need with the offsets they are given; what it exceeds `peak` by is
    fragmentation (None: not placed).
    """

    memory: str
    peak: int
    capacity: int | None
    alignment: int
    where: str
    buffers: tuple[LiveBuffer, ...]
    arena: int | None = None

    def taken(self, buffer: LiveBuffer) -> int:
        """The bytes that a buffer takes of the memory, all slots together."""
        return align_up(buffer.size, self.alignment) * buffer.slots * buffer.copies


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
            taken = sum(memory.aligned(buffer.size) * buffer.slots * buffer.copies for buffer in buffers)
            if name not in peaks or taken > peaks[name].peak:
                peaks[name] = Footprint(name, taken, memory.capacity, memory.alignment, where, tuple(buffers))
    return tuple(peaks[memory.name] for memory in machine.memories if memory.name in peaks)


@dataclass(frozen=True, slots=True)
class Account:
    """What a run did on a machine. `sizes` are the values of the kernel's size symbols.

    `source` says what the counts come from: `execution` (the program ran) or `skeleton` (its loops did). `operations` are
    those of all `regions` together; `tensors` are the kernel's arguments. `energy` is in picojoules by memory and
    `compute`, to be compared and not believed. `notes` are what a reader must know, such as copies that no engine can do.
    """

    kernel: str
    machine: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    traffic: tuple[Traffic, ...] = ()
    footprint: tuple[Footprint, ...] = ()
    copies: tuple[CopyStream, ...] = ()
    operations: Mapping[str, int] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    caches: tuple[Level, ...] = ()
    time: Time | None = None
    energy: Mapping[str, float] = field(default_factory=dict)
    source: str = "execution"
    notes: tuple[str, ...] = ()

    def of(self, memory: str, tensor: str | None = None) -> Traffic:
        """The traffic of one tensor, or of all together, in a memory (by its name in the account)."""
        total = Traffic(memory, tensor or "all")
        for row in self.traffic:
            if row.memory == memory and tensor in (None, row.tensor):
                total = total + row
        return total

    @property
    def untimed(self) -> str:
        """Why a run for which time was asked for has none; nothing where there is one, or nobody asked."""
        return next((note for note in self.notes if note.startswith(NO_TIME)), "")

    @property
    def nest(self) -> AnnotatedNest:
        """The nest with what each of its lines cost: print it. Raises SimulationError where there is no time."""
        from .annotated import AnnotatedNest

        return AnnotatedNest(self)

    def roofline(self, machine: Machine | None = None) -> Roofline:
        """Where the run stands under the roofs of its machine: see `hw.roofline`.

        `machine` is what the account was made with; None means the preset of that name. Raises AccountError
        `account.machine` where there is none.
        """
        from .roofline import roofline

        return roofline(self, self._machine(machine))

    def trace(self, machine: Machine | None = None) -> dict[str, Any]:
        """The timeline as Chrome trace events (`hw.render.trace`); `machine` as for `roofline`.

        Raises AccountError `account.timeline` where the account has no intervals: ask for `timeline=` when making it.
        """
        from .render.trace import trace_events

        return trace_events(self, self._machine(machine))

    def save_trace(self, path: str | Path, machine: Machine | None = None) -> None:
        """Write `trace()` as JSON for Perfetto, compressed where the name ends in `.gz`."""
        from .render.trace import save_trace

        save_trace(self, self._machine(machine), path)

    def save_timeline(self, path: str | Path, machine: Machine | None = None) -> None:
        """Draw what worked, waited and copied when: a PNG, SVG or PDF by the end of the name. As for `trace`.

        Raises AccountError `account.plot` where matplotlib (the extra `plot`) is missing.
        """
        from .render.timeline_picture import draw_timeline

        draw_timeline(self, self._machine(machine), path)

    def save_occupancy(self, path: str | Path, machine: Machine | None = None) -> None:
        """Draw how full each memory was over time, by buffer. As for `save_timeline`."""
        from .render.occupancy_picture import draw_occupancy

        draw_occupancy(self, self._machine(machine), path)

    def _machine(self, given: Machine | None) -> Machine:
        if given is None and self.machine not in machine_names():
            raise AccountError(
                f"there is no preset {self.machine!r}", code="account.machine",
                hint="give the machine that the account was made with",
            )  # fmt: skip
        return load_machine(self.machine) if given is None else given

    def to_json(self) -> str:
        """The account as JSON, which `hw/account.schema.json` describes; `Account.from_json` gives it back."""
        return json.dumps({"format": FORMAT, "version": VERSION} | asdict(self), indent=2)

    @staticmethod
    def from_json(text: str) -> Account:
        """The account that `to_json` wrote. Raises AccountError with the place where it is none."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as e:  # a number of 5,000 digits is a plain ValueError
            raise AccountError(f"no JSON: {e}", code="account.syntax") from None
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise AccountError("this is no account", code="account.version", hint=f'it would have "format": "{FORMAT}"')
        if (version := data.pop("version", None)) != VERSION:
            raise AccountError(f"version {version!r} of accounts is not known", code="account.version",
                               hint=f"this version of the library reads {VERSION}")  # fmt: skip
        return decode(Account, data)

    def __str__(self) -> str:
        from .render.account_text import account_text

        return account_text(self)

    def _repr_html_(self) -> str:
        from .render.html import account_html

        return account_html(self)


def account_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `Account.to_json` writes. `account.schema.json` beside this file has it."""
    definitions: dict[str, Any] = {}
    top = schema(Account, definitions)
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{FORMAT}, version {VERSION}",
        **top,
        "properties": head | top["properties"],
        "required": [*head, *top["required"]],
        "$defs": definitions,
    }

"""The lines of the annotated nest with what each of them cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.codegen.accounts.assemble import Counted
from tilewright.codegen.accounts.outline import Entry
from tilewright.codegen.emit.ledger import HANDS, MOVED, TRIPS, VISITS
from tilewright.codegen.skeleton.engine import Result
from tilewright.codegen.skeleton.tree import Table
from tilewright.hw import Line, LiveBuffer
from tilewright.hw.timing import TICKS


@dataclass
class Costs:
    """What a run cost by place: of loops visits and trips, of sections and buffers what the core did."""

    counted: Counted
    table: Table
    result: Result
    loops: dict[int, list[int]] = field(default_factory=dict)
    hands: dict[str, list[int]] = field(default_factory=dict)
    waits: dict[int | str, dict[str, int]] = field(default_factory=dict)  # ticks by cause, of a section or a buffer

    def __post_init__(self) -> None:
        for key, n in self.counted.of(VISITS, TRIPS):
            self.loops.setdefault(key.loop, [0, 0])[key.kind == TRIPS] += n
        for key, n in self.counted.of(HANDS, MOVED):
            self.hands.setdefault(key.name, [0, 0])[key.kind == MOVED] += n
        for w in self.result.waits:
            place = (
                w.section if w.section is not None else "" if w.buffer is None else self.table.buffers[w.buffer].name
            )
            causes = self.waits.setdefault(place, {})
            causes[w.cause] = causes.get(w.cause, 0) + w.ticks

    def waited(self, places: Iterable[int | str]) -> dict[str, float]:
        """Cycles waited by cause, at sections and at the ends of buffers."""
        out: dict[str, int] = {}
        for place in places:
            for cause, n in self.waits.get(place, {}).items():
                out[cause] = out.get(cause, 0) + n
        return {cause: n / TICKS for cause, n in out.items()}


def lines(entries: Sequence[Entry], costs: Costs, points: Sequence[Sequence[LiveBuffer]]) -> tuple[Line, ...]:
    """The lines; `points` are the buffers that live from where each one begins, in text order."""
    return tuple(_lines(entries, costs, [{}, *(_taken(costs, live) for live in points)]))


def _taken(costs: Costs, live: Sequence[LiveBuffer]) -> dict[str, int]:
    """The bytes of each memory that buffers take."""
    out: dict[str, int] = {}
    for b in live:
        memory = costs.counted.machine.memory(b.memory)
        out[memory.name] = out.get(memory.name, 0) + memory.aligned(b.size) * b.slots * b.copies
    return out


def _lines(entries: Sequence[Entry], costs: Costs, live: Sequence[dict[str, int]]) -> Iterator[Line]:
    result = costs.result
    for e in entries:
        visits, trips = costs.loops.get(e.loop, (0, 0)) if e.loop >= 0 else (0, 0)
        moved, transfer = sum(result.copies[k].bytes for k in e.sections if k in result.copies), 0.0
        if e.kind == "copy":
            (number,) = e.sections
            if number in result.copies:
                visits, transfer = result.copies[number].copies, result.copies[number].transfer / TICKS
        elif e.hand:
            visits, elements = costs.hands.get(e.hand, (0, 0))
            moved = elements * e.moved
        elif e.kind == "compute" and (e.inner < 0 or costs.loops.get(e.inner, (0, 0))[1]):
            visits = result.visits.get(e.alone, 0)
        busy = sum(result.sections.get(k, 0) for k in e.sections) / TICKS
        yield Line(
            e.kind, e.depth, e.name, e.text, visits, trips, moved, busy, costs.waited((*e.sections, *e.buffers)), transfer,
            live[e.living], e.where,
        )  # fmt: skip


__all__ = ["Costs", "lines"]

"""`explain`: what every directive of a schedule changed on a machine: bytes, intensity, footprint, time and waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.hw import Account, CapacityError, Footprint, Machine, SimulationError, humane
from tilewright.hw.annotated import causes, what_ran
from tilewright.hw.render.tables import Table, columns, cut
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.check import check
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives import step
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State, initial_state
from tilewright.schedule.text import format_directive
from tilewright.views.accounts import account_of_state, as_machine, as_schedule
from tilewright.views.figures import intensity

if TYPE_CHECKING:
    from tilewright.kernels import Kernel

WIDTH = 60  # columns of a directive's text


@dataclass(frozen=True, slots=True)
class Measured:
    """What a schedule costs: bytes through each memory, the most that is taken of each, operations for each byte of main
    memory, cycles of the whole and of waits by cause. None where the account does not say it."""

    bytes: Mapping[str, int] = field(default_factory=dict)
    peak: Mapping[str, int] = field(default_factory=dict)
    intensity: float | None = None
    cycles: float | None = None
    busy: float | None = None
    waits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """Directives that took effect together, and what the schedule costs up to them. `added` are those of the default
    schedule. `problem` says why there is nothing to measure (it does not fit, ...): then figures may be missing."""

    directives: tuple[str, ...]
    figures: Measured
    added: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found: the nest without any directive first, then a step for each of them. `notes` are what a reader
    of the last one must know.
    """

    kernel: str
    machine: str
    sizes: Mapping[str, int]
    main: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the whole schedule can run on the machine."""
        return not self.steps[-1].problem

    def before(self, number: int) -> Measured | None:
        """The figures that a step is compared with: those of the last step before it that could be measured."""
        return next((s.figures for s in reversed(self.steps[:number]) if not s.problem), None)

    def as_json(self) -> dict[str, Any]:
        """Plain data, every step with the figures before and after it."""
        steps = []
        for n, s in enumerate(self.steps):
            before = self.before(n)
            steps.append({
                "directives": list(s.directives), "added": s.added, "problem": s.problem or None,
                "before": None if before is None else asdict(before), "after": asdict(s.figures),
            })  # fmt: skip
        return {"kernel": self.kernel, "machine": self.machine, "sizes": dict(self.sizes), "steps": steps,
                "notes": list(self.notes)}  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(self.as_json(), indent=2)

    def title(self) -> str:
        return what_ran(self.kernel, self.machine, self.sizes)

    def table(self) -> Table:
        """A row for each step, with the figures that it changed and their ratios to those before."""
        head, *rows = self._rows()
        return Table("", head, tuple(rows), left=2)

    def __str__(self) -> str:
        t = self.table()
        last = max(len(row[-1]) for row in (t.head, *t.rows))
        rows = [(*row[:-1], row[-1].ljust(last)) for row in (t.head, *t.rows)]
        notes = [f"note: {note}" for note in self.notes]
        return "\n\n".join([self.title(), columns(rows, t.left), *(["\n".join(notes)] if notes else [])])

    def _repr_html_(self) -> str:
        from tilewright.hw.render.html import page

        return page(self.title(), [self.table()], [f"note: {note}" for note in self.notes])

    # The table ----------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[str, ...]]:
        measured = [s.figures for s in self.steps]
        moved = tuple(dict.fromkeys(m for f in measured for m in f.bytes if m != "reg"))
        taken = tuple(
            dict.fromkeys(m for f in measured for m, n in f.peak.items() if n and m not in (self.main, "reg"))
        )
        rows = [("", "", *(f"{m} bytes" for m in moved), *(f"peak in {m}" for m in taken),
                 "ops/byte", "cycles", "busy", "waits for")]  # fmt: skip
        for n, s in enumerate(self.steps):
            *first, last = s.directives or ("(nothing scheduled)",)
            rows += [("", cut(text, WIDTH)) + ("",) * (len(rows[0]) - 2) for text in first]
            number = "+" if s.added else str(n) if n else ""
            rows.append((number, cut(last, WIDTH), *_cells(s, self.before(n), moved, taken)))
        rows.append(("", "all together", *_whole(self.steps, moved, taken)))
        used = [k for k in range(len(rows[0])) if k < 2 or any(row[k] for row in rows[1:])]
        return (tuple(row[k] for k in used) for row in rows)


def _cells(s: Step, before: Measured | None, moved: tuple[str, ...], taken: tuple[str, ...]) -> Iterator[str]:
    """The figures of a step that differ from those before, each with the ratio."""
    f = s.figures
    old = before or Measured()
    if s.problem:
        yield from (_cell(f.bytes.get(m), old.bytes.get(m), humane.size) for m in moved)
        yield from (_cell(f.peak.get(m), old.peak.get(m), humane.size) for m in taken)
        yield from ("", "", "", s.problem)
        return
    yield from (_cell(f.bytes.get(m, 0), old.bytes.get(m, 0), humane.size) for m in moved)
    yield from (_cell(f.peak.get(m, 0), old.peak.get(m, 0), humane.size) for m in taken)
    yield _cell(f.intensity, old.intensity, humane.count)
    yield _cell(f.cycles, old.cycles, humane.count)
    yield _changed(busy_of(f), busy_of(old))
    yield _changed(waits_of(f), waits_of(old))


def _whole(steps: tuple[Step, ...], moved: tuple[str, ...], taken: tuple[str, ...]) -> Iterator[str]:
    """Ratios of the whole schedule to none."""
    first, last = steps[0].figures, steps[-1].figures
    if steps[0].problem or steps[-1].problem:
        yield from [""] * (len(moved) + len(taken) + 4)
        return
    yield from (humane.ratio(last.bytes.get(m, 0), first.bytes.get(m, 0)) for m in moved)
    yield from [""] * len(taken)
    for new, old in ((last.intensity, first.intensity), (last.cycles, first.cycles)):
        yield "" if new is None or old is None else humane.ratio(new, old)
    yield from ("", "")


def _cell(new: float | None, old: float | None, show: Callable[[float], str]) -> str:
    """A value and how it compares with the one before; nothing where it has not changed."""
    if new is None or new == old:
        return ""
    changed = humane.ratio(new, old) if old and new else ""
    return f"{show(new)} {changed:<6}"


def _changed(new: str, old: str) -> str:
    return "" if new == old else new


def busy_of(f: Measured) -> str:
    return humane.share(f.busy / f.cycles) if f.busy is not None and f.cycles else ""


def waits_of(f: Measured) -> str:
    """The two causes that took most of the time."""
    return ", ".join(list(causes(f.waits, f.cycles))[:2]) if f.cycles else ""


# Measuring ------------------------------------------------------------------------------------------------------


def explain(
    schedule: Schedule | Kernel,
    *,
    machine: Machine | str | None = None,
    sizes: Mapping[str, int],
    mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
) -> Explanation:
    """What every directive of a schedule changed on a machine (by default the one that the schedule is bound to).

    The directives are carried out one after the other on the nest as the algorithm has it; one after which the schedule
    is not legal by itself counts with the next. What the default schedule does with the rest comes last, as one step.
    A step at which the buffers do not fit says so, and the comparison goes on with the one before it. `inputs` are scalars
    by name where made-up ones make no sense.

    Raises MachineError, SimulationError `simulation.machine` (no machine is said), ScheduleError for a schedule that is
    not legal as a whole, ArgumentError for wrong sizes.
    """
    from tilewright.codegen.accounts.prepared import registers_of
    from tilewright.schedule.default import complete

    own = as_schedule(schedule)
    on = as_machine(machine, own)
    check_all_sizes(own.pipeline, sizes)
    full = complete(own, mode, registers_of(on))
    full.check(capacity=False)
    measure = _Measure(full, on, sizes, mode, inputs)
    figures, problem = measure(initial_state(own.pipeline))
    steps = [Step((), figures, problem=problem)]
    waiting: list[str] = []
    for n, (d, state, legal) in enumerate(_states(full), 1):
        waiting.append(text_of(d))
        if not legal or len(own) < n < len(full):
            continue
        figures, problem = measure(state)
        steps.append(Step(tuple(waiting), figures, n > len(own), problem))
        waiting = []
    return Explanation(own.pipeline.name, on.name, dict(sizes), on.main.name, tuple(steps), measure.notes)


def _states(full: Schedule) -> Iterator[tuple[Directive, State, bool]]:
    """Every directive with the state after it, and whether that is legal by itself."""
    state = initial_state(full.pipeline)
    for n, d in enumerate(full.directives, 1):
        before = state
        _, state = step(state, d, full.knobs)
        if state is before and n < len(full):  # a knob: nothing happens yet
            yield d, state, False
            continue
        try:
            check(state)
        except ScheduleError:
            yield d, state, False
        else:
            yield d, state, True


class _Measure:
    """Figures and problem of a state."""

    def __init__(
        self, full: Schedule, machine: Machine, sizes: Mapping[str, int], mode: str, inputs: Mapping[str, Any] | None
    ):
        self.full, self.machine, self.sizes, self.mode, self.inputs = full, machine, sizes, mode, inputs
        self.notes: tuple[str, ...] = ()  # of the last account

    def __call__(self, state: State) -> tuple[Measured, str]:
        try:
            account = account_of_state(self.full, state, self.machine, self.sizes, self.mode, self.inputs)
        except CapacityError as e:
            return Measured(peak={e.footprint.memory: e.footprint.peak}), too_large(e.footprint)
        except SimulationError as e:
            return Measured(), e.message
        self.notes = account.notes
        return measured(account, self.machine), ""


def measured(account: Account, machine: Machine) -> Measured:
    """The figures of an account that a step is told by; memories from the outermost inwards."""
    there = {t.memory for t in account.traffic}
    moved = {m.name: account.of(m.name) for m in machine.memories if m.name in there}
    time = account.time
    return Measured(
        bytes={name: t.bytes_read + t.bytes_written for name, t in moved.items()},
        peak={f.memory: f.peak for f in account.footprint},
        intensity=intensity(account, machine.main.name),
        cycles=None if time is None else time.cycles,
        busy=None if time is None else time.busy,
        waits={} if time is None else {s.cause: time.waiting(s.cause) for s in time.stalls},
    )


def text_of(d: Directive) -> str:
    """A directive as one line, with the stage that it is about."""
    return (f"{d.stage}: " if d.stage else "") + format_directive(d)


def too_large(footprint: Footprint) -> str:
    assert footprint.capacity is not None
    return f"does not fit: {humane.size(footprint.peak)} of {humane.size(footprint.capacity)} in {footprint.memory}"


__all__ = ["Explanation", "Measured", "Step", "explain", "measured"]

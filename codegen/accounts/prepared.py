"""A schedule on a machine, lowered and emitted once: what accounts at any sizes start from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tilewright.codegen import externs, stages
from tilewright.codegen import loops as L
from tilewright.codegen.accounts.assemble import staged
from tilewright.codegen.accounts.footprint import footprints_at, live_points, program_footprints
from tilewright.codegen.accounts.outline import Entry, outline
from tilewright.codegen.accounts.table import table_of
from tilewright.codegen.emit import emit
from tilewright.codegen.emit.ledger import Ledger
from tilewright.codegen.lower import Lowered, as_written, lower
from tilewright.codegen.skeleton.encoding import Encoded, encode
from tilewright.codegen.skeleton.engine import Result, run
from tilewright.codegen.skeleton.tree import Table
from tilewright.hw import Footprint, LiveBuffer, Machine, Proposal, SimulationError, check_capacity
from tilewright.lang.errors import Location, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.machines import as_machine, check_arrays, check_state
from tilewright.schedule.registers import Registers
from tilewright.schedule.state import State

SYNC = ("decoupled", "barrier")
_MOST = 64  # prepared schedules that are kept
_kept: OrderedDict[Any, Prepared] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Prepared:
    """A completed schedule on a machine, lowered. `placed` says which directive put a footprint's largest buffer into
    its memory, `propose` what to change where a memory does not suffice."""

    pipeline: Pipeline
    state: State
    machine: Machine
    mode: str
    placed: Callable[[Footprint], Location | None] = lambda footprint: None
    propose: Callable[[str, Mapping[str, Any]], tuple[Proposal, ...]] = lambda memory, env: ()
    _encoded: dict[str | None, Encoded] = field(default_factory=dict)
    _points: dict[frozenset[tuple[str, Any]], list[tuple[str, list[LiveBuffer]]]] = field(default_factory=dict)

    @cached_property
    def lowered(self) -> Lowered:
        return lower(as_written(self.state, self.mode, "instrumented", self.machine))

    @property
    def program(self) -> L.Program:
        return self.lowered.program

    @property
    def whole(self) -> L.Program:
        """The program before its loops are parted: every buffer is made at one place, with its largest size."""
        return self.lowered.results["sections"]

    @cached_property
    def ledger(self) -> Ledger:
        """What the program does."""
        ledger = Ledger(self.program, self.machine)
        emit(self.program, instrument=True, ledger=ledger)
        return ledger

    @cached_property
    def outline(self) -> tuple[Entry, ...]:
        """The lines of its nest."""
        return outline(self.lowered.results["nest"], self.whole)

    @cached_property
    def staged(self) -> dict[str, str]:
        """The tensor of which each buffer holds a part."""
        return staged(self.program, self.machine)

    def points(self, env: Mapping[str, Any]) -> list[tuple[str, list[LiveBuffer]]]:
        """Where buffers begin to live, with those that live then; an account asks several times."""
        key = frozenset(env.items())
        if key not in self._points:
            self._points.clear()
            self._points[key] = list(live_points(self.whole, self.machine, env))
        return self._points[key]

    @cached_property
    def table(self) -> Table:
        return table_of(self.ledger)

    def result(self, env: Mapping[str, Any], timeline: int = 0, sync: str | None = None) -> Result:
        """What the engine says of the program at these sizes. Raises SimulationError `skeleton.data`, and what `encoded`
        does."""
        if self.ledger.problem is not None:
            raise SimulationError(
                f"there is no account without data: {self.ledger.problem}", code="skeleton.data", where=user_location(),
                hint="kernel.simulate(...) runs it with data",
            )  # fmt: skip
        return run(self.encoded(sync), env, intervals=timeline)

    def encoded(self, sync: str | None = None) -> Encoded:
        """The engine's tables for this way of meeting (None: the machine's). Raises SimulationError `simulation.sync`."""
        if sync is not None and sync not in SYNC:
            raise SimulationError(f"sync={sync!r}", code="simulation.sync", where=user_location(),
                                  hint=f"it is one of: {', '.join(SYNC)}")  # fmt: skip
        if sync not in self._encoded:
            self._encoded[sync] = encode(self.table if sync is None else replace(self.table, sync=sync))
        return self._encoded[sync]

    def fits(self, env: Mapping[str, Any]) -> tuple[Footprint, ...]:
        """The footprints at these sizes and scalars. Raises CapacityError, and ScheduleError for spatial loops that are
        longer than the axes of the machine's array."""
        check_arrays(self.state, self.machine, env)
        found = footprints_at(self.points(env), self.machine)
        check_capacity(self.machine, found, self.placed, lambda memory: self.propose(memory, env))
        return found


def prepare(p: Pipeline, schedule: Any, machine: Machine | str | None, mode: str) -> Prepared:
    """`p` under `schedule` (None: the default; stages that it does not name get it) on a machine (None: the one that the
    schedule is bound to); kept for the next call with the same."""
    from tilewright.codegen.accounts.fitting import what_would_fit
    from tilewright.schedule.check import placed_by
    from tilewright.schedule.default import complete
    from tilewright.schedule.schedule import Schedule

    own = Schedule(p) if schedule is None else schedule
    on = as_machine(machine, own)
    # what functions of the user's do is not in the digest: such a pipeline is nobody's but its own (and lives as long)
    key = (id(p) if stages.symbols(p) or externs.symbols(p) else p.digest, own.directives, on, mode)
    if (found := _kept.get(key)) is not None:
        _kept.move_to_end(key)
        return found
    full = complete(own, mode, registers_of(on))
    full.check(capacity=False)  # of all buffers at the sizes of a call, see `fits`
    check_state(full.state, on)
    frozen = own.copy()

    def propose(memory: str, env: Mapping[str, Any]) -> tuple[Proposal, ...]:
        def taken(program: L.Program) -> tuple[Footprint, ...]:
            return program_footprints(program, on, env)

        return what_would_fit(frozen, memory, on, env, mode, registers_of(on), taken)

    made = _kept[key] = Prepared(p, full.state, on, mode, placed_by(full.directives), propose)
    if len(_kept) > _MOST:
        _kept.popitem(last=False)
    return made


def registers_of(machine: Machine) -> Registers | None:
    """What register tiles of the default schedule are made for: the machine's registers (None: it says nothing)."""
    memory = next((m for m in machine.memories if m.kind == "registers" and m.capacity), None)
    if memory is None or memory.capacity is None:
        return None
    width = max(32, machine.compute.vector_bytes)  # the default schedule's vectors have four f64 at least
    return Registers(width, memory.capacity // width)


__all__ = ["Prepared", "prepare", "registers_of"]

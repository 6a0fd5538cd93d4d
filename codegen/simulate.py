"""A run on a simulated machine: the same lowered nest, instrumented. Values are those of the native run, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.codegen import instrumented
from tilewright.codegen import loops as L
from tilewright.codegen.cpu_caches import DrivenCaches
from tilewright.codegen.emit.ledger import LOADS, STORES, Ledger, order
from tilewright.hw import (
    Account,
    Footprint,
    LiveBuffer,
    Machine,
    Proposal,
    Traffic,
    check_capacity,
    footprints,
    load_machine,
)
from tilewright.lang import intervals, ir, simplify
from tilewright.lang.binding import Bound, check_sizes, index_value
from tilewright.lang.errors import Location
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.registers import Registers
from tilewright.schedule.state import State


@dataclass(frozen=True)
class Simulation:
    """What a simulated run gave: the `account` and the `result` (as the kernel returns it)."""

    account: Account
    result: Any = field(repr=False)

    def __str__(self) -> str:
        return str(self.account)

    def to_json(self) -> str:
        return self.account.to_json()


def simulate(
    p: Pipeline,
    schedule: Any,
    machine: Machine | str,
    sizes: Mapping[str, int],
    mode: str = "contract",
    inputs: Any = None,
    caches: bool = False,
) -> Simulation:
    """Run `p` under `schedule` (None: the default) on a machine at the given sizes.

    `inputs` are arrays and scalars by name; what is missing is made up (repeatable random values). Raises
    CapacityError before anything runs if the staged buffers do not fit. With `caches` every access to main memory goes
    through the machine's caches (SimulationError `caches.none` where it has none).
    """
    from tilewright.schedule.check import placed_by
    from tilewright.schedule.default import complete
    from tilewright.schedule.schedule import Schedule

    on = machine if isinstance(machine, Machine) else load_machine(machine)
    check_sizes(p, sizes)
    own = Schedule(p) if schedule is None else schedule
    full = complete(own, mode, registers_of(on))
    full.check(capacity=False)  # of all buffers at these sizes, in `run`

    def propose(memory: str, bound: Bound) -> tuple[Proposal, ...]:
        from tilewright.codegen.fitting import what_would_fit

        def taken(program: L.Program) -> tuple[Footprint, ...]:
            return footprints(on, live_points(program, bound))

        return what_would_fit(own, memory, on, bound.env, mode, registers_of(on), taken)

    return run(p, full.state, on, sizes, mode, dict(inputs or {}), placed_by(full.directives), caches, propose)


def run(
    p: Pipeline, state: State, machine: Machine, sizes: Mapping[str, int], mode: str, inputs: dict[str, Any],
    placed: Callable[[Footprint], Location | None] = lambda footprint: None, caches: bool = False,
    propose: Callable[[str, Bound], tuple[Proposal, ...]] = lambda memory, bound: (),
) -> Simulation:  # fmt: skip
    """Run a state. `placed` says which directive put a footprint's largest buffer into its memory, `propose` what to
    change in the schedule where a memory does not suffice."""
    found: list[Footprint] = []

    def fits(program: L.Program, bound: Bound) -> None:
        found.extend(footprints(machine, live_points(program, bound)))
        check_capacity(machine, found, placed, lambda memory: propose(memory, bound))

    driven: list[DrivenCaches] = []

    def drive(program: L.Program) -> DrivenCaches:
        driven.append(DrivenCaches(program, machine))
        return driven[0]

    kept: list[Ledger] = []

    def keep(program: L.Program) -> Ledger:
        kept.append(Ledger(program, machine))
        return kept[0]

    done = instrumented.run(
        p, state, sizes, mode, inputs, fits, drive=drive if caches else None, machine=machine, keep=keep
    )
    account = Account(
        p.name, machine.name, dict(done.bound.sizes), tuple(_traffic(kept[0], done.counts, machine)), tuple(found),
        caches=driven[0].hierarchy.levels if driven else (),
    )  # fmt: skip
    return Simulation(account, done.result)


def registers_of(machine: Machine) -> Registers | None:
    """What register tiles of the default schedule are made for: the machine's registers (None: it says nothing)."""
    memory = next((m for m in machine.memories if m.kind == "registers" and m.capacity), None)
    if memory is None or memory.capacity is None:
        return None
    width = max(32, machine.compute.vector_bytes)  # the default schedule's vectors have four f64 at least
    return Registers(width, memory.capacity // width)


def _traffic(ledger: Ledger, counts: tuple[int, ...], machine: Machine) -> Iterator[Traffic]:
    rows: dict[tuple[str, str], Traffic] = {}
    for key, n in zip(order(ledger), counts, strict=True):
        b = key.buffer
        if b is None or key.kind not in (LOADS, STORES) or not n:
            continue
        memory, name = machine.memory(b.memory).name, b.name.removeprefix("out.")
        size = n * b.dtype.bytes
        row = Traffic(memory, name, n, 0, size, 0) if key.kind == LOADS else Traffic(memory, name, 0, n, 0, size)
        rows[memory, name] = rows[memory, name] + row if (memory, name) in rows else row
    yield from rows.values()


def live_points(program: L.Program, bound: Bound) -> Iterator[tuple[str, list[LiveBuffer]]]:
    """Every place at which a buffer begins to live, with all that live there, at the sizes of a call.

    A size that differs from one iteration to the next counts with its largest value.
    """
    live: list[LiveBuffer] = []

    def visit(
        s: L.Stmt, loops: tuple[tuple[Node, Interval], ...], where: str
    ) -> Iterator[tuple[str, list[LiveBuffer]]]:
        if isinstance(s, L.For):
            r = Interval(s.start, simplify.sub(s.stop, integer(1)))
            yield from visit(s.body, (*loops, (s.var, r)), s.var.attr)
        elif isinstance(s, L.Allocate):
            assert s.buffer.size is not None
            n = _largest(s.buffer.size, loops, bound) * s.buffer.dtype.bytes // s.buffer.slots
            live.append(LiveBuffer(s.buffer.name, s.buffer.memory, n, s.buffer.slots))
            yield where, list(live)
            yield from visit(s.body, loops, where)
            live.pop()
        else:
            for t in L.children(s):
                yield from visit(t, loops, where)

    yield from visit(program.body, (), "the start")


def _largest(size: Node, loops: tuple[tuple[Node, Interval], ...], bound: Bound) -> int:
    top: Node | None = size
    for var, r in reversed(loops):
        top = intervals.bounds(top, {var: r}).hi if top is not None else None
    if top is None or ir.leaves([top], "load"):
        raise ValueError(f"the size {size!r} has no bound")
    return max(0, index_value(top, bound.env))

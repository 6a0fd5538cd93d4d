"""A run on a simulated machine: the same lowered nest, instrumented. Values are those of the native run, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen import instrumented
from tilewright.codegen import loops as L
from tilewright.codegen.accounts.account import assembled, timed
from tilewright.codegen.accounts.assemble import Counted
from tilewright.codegen.accounts.footprint import arenas
from tilewright.codegen.accounts.prepared import Prepared, prepare
from tilewright.codegen.cpu_caches import DrivenCaches
from tilewright.codegen.emit.ledger import Ledger, order
from tilewright.codegen.instrumented import OnMachine
from tilewright.codegen.skeleton import layout, native
from tilewright.codegen.skeleton.engine import Result, read_driven, start_state
from tilewright.hw import Account, Footprint, Machine, SimulationError
from tilewright.lang.binding import Bound, check_sizes
from tilewright.lang.pipeline import Pipeline


@dataclass(frozen=True)
class Simulation:
    """What a simulated run gave: the `account` and the `result` (as the kernel returns it)."""

    account: Account
    result: Any = field(repr=False)

    def __str__(self) -> str:
        return str(self.account)

    def _repr_html_(self) -> str:
        return self.account._repr_html_()

    def to_json(self) -> str:
        return self.account.to_json()


def simulate(
    p: Pipeline,
    schedule: Any,
    machine: Machine | str | None,
    sizes: Mapping[str, int],
    mode: str = "contract",
    inputs: Any = None,
    caches: bool = False,
    timeline: int = 0,
    sync: str | None = None,
) -> Simulation:
    """Run `p` under `schedule` (None: the default) on a machine at the given sizes.

    `inputs` are arrays and scalars by name; what is missing is made up (repeatable random values). Raises
    CapacityError before anything runs if the staged buffers do not fit. With `caches` every access to main memory goes
    through the machine's caches (SimulationError `caches.none` where it has none). `timeline` and `sync` are as in
    `account.account`.
    """
    check_sizes(p, sizes)
    return execute(prepare(p, schedule, machine, mode), sizes, dict(inputs or {}), caches, timeline, sync)


def execute(
    prepared: Prepared, sizes: Mapping[str, int], inputs: dict[str, Any], caches: bool = False, timeline: int = 0,
    sync: str | None = None,
) -> Simulation:  # fmt: skip
    """Run what has been prepared, see `simulate`."""
    encoded = prepared.encoded(sync)
    machine, found = prepared.machine, list[Footprint]()

    def fits(program: L.Program, bound: Bound) -> None:
        found.extend(prepared.fits(bound.env))

    driven: list[DrivenCaches] = []

    def drive(program: L.Program) -> DrivenCaches:
        driven.append(DrivenCaches(program, machine))
        return driven[0]

    kept: list[OnMachine] = []

    def on(bound: Bound) -> OnMachine:
        places, size = arenas(prepared.whole, machine, bound.env)
        ledger = Ledger(prepared.program, machine, places, sync)
        engine = start_state(encoded, bound.env, timeline)
        native.function()(engine.ctypes.data, None, layout.STEP_START, 0, 0)
        kept.append(OnMachine(ledger, size, engine, {native.SYMBOL: native.library().address(native.SYMBOL)}))
        return kept[0]

    done = instrumented.run(
        prepared.pipeline, prepared.state, sizes, prepared.mode, inputs, fits, drive=drive if caches else None,
        program=prepared.program, on=on,
    )  # fmt: skip
    levels = driven[0].hierarchy.levels if driven else ()
    counted, env, engine = Counted(kept[0].ledger, done.counts), done.bound.env, kept[0].engine
    counters = np.array(done.counts, np.int64)
    native.function()(engine.ctypes.data, counters.ctypes.data, layout.STEP_FINISH, 0, 0)
    result = read_driven(encoded, engine)
    if counted.ledger.problem is None:
        _check(counted, result, prepared.result(env, sync=sync))
    made = assembled(prepared, counted, env, tuple(found), "execution", levels, result)
    return Simulation(timed(made, prepared, result, env, sync), done.result)


def _check(counted: Counted, ran: Result, skeleton: Result) -> None:
    """Raise SimulationError `simulation.disagree` where a run and its skeleton do not say the same: a mistake of ours."""
    pairs = zip(order(counted.ledger), counted.counts, skeleton.counters, strict=True)
    differs = [f"{a:,} {k.kind} of {k.buffer or k.name or k.loop}, not {b:,}" for k, a, b in pairs if a != b]
    if ran.total != skeleton.total:
        differs.append(f"{ran.total:,} ticks, not {skeleton.total:,}")
    if differs:
        raise SimulationError(
            f"the run and its skeleton differ: {differs[0]}", code="simulation.disagree",
            hint="this is a mistake of tilewright's, please report it with the kernel and its schedule",
        )  # fmt: skip


__all__ = ["Simulation", "execute", "simulate"]

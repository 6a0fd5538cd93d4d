"""The account of a program on a machine: from a run, or from its skeleton alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewright.codegen.accounts import assemble
from tilewright.codegen.accounts.assemble import Counted
from tilewright.codegen.accounts.intervals import intervals
from tilewright.codegen.accounts.lines import Costs, lines
from tilewright.codegen.accounts.prepared import Prepared, prepare
from tilewright.codegen.skeleton.engine import Result
from tilewright.hw import Account, CopyStream, Footprint, Machine, Region, Stall, Time, Use
from tilewright.hw.account import NO_TIME
from tilewright.hw.cache_counts import Level
from tilewright.hw.roofline import missing_rates, no_rate
from tilewright.hw.timing import TICKS
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.pipeline import Pipeline


def account(
    p: Pipeline, schedule: Any, machine: Machine | str | None, sizes: Mapping[str, int], mode: str = "contract",
    time: bool = True, timeline: int = 0, sync: str | None = None,
) -> Account:  # fmt: skip
    """What `p` under `schedule` (None: the default) does on a machine at the given sizes, without its data.

    With `time` the account says how long it takes and has the annotated nest; `timeline` is how many of its first
    intervals it keeps; `sync` (decoupled or barrier) is how cores and copies meet, where not as the machine says.
    Raises CapacityError if the staged buffers do not fit, SimulationError `skeleton.data` where loop bounds or
    conditions depend on data.
    """
    check_all_sizes(p, sizes)
    return of_skeleton(prepare(p, schedule, machine, mode), sizes, time, timeline, sync)


def of_skeleton(
    prepared: Prepared, sizes: Mapping[str, int], time: bool = True, timeline: int = 0, sync: str | None = None
) -> Account:
    """The account of what has been prepared, see `account`."""
    found = prepared.fits(sizes)
    result = prepared.result(sizes, timeline, sync)
    made = assembled(prepared, Counted(prepared.ledger, result.counters), sizes, found, "skeleton", result=result)
    if not time:
        return made
    return timed(made, prepared, result, sizes, sync)


def assembled(
    prepared: Prepared, counted: Counted, env: Mapping[str, Any], found: tuple[Footprint, ...], source: str,
    caches: tuple[Level, ...] = (), result: Result | None = None,
) -> Account:  # fmt: skip
    """The account that counters say; `env` has sizes and scalars by name. Engines' copies are in the `result`."""
    p, machine = prepared.pipeline, prepared.machine
    of = prepared.staged
    rows = assemble.traffic(counted, of)
    hands = tuple(assemble.by_hand(counted, of))
    streams = () if result is None else tuple(_streams(counted, result, of))
    regions = assemble.regions(counted)
    done = assemble.operations(regions)
    return Account(
        p.name, machine.name, {n: env[n] for n in p.sizes}, rows, found, (*streams, *hands), done, regions,
        assemble.tensors(p, env), caches, None, assemble.energy(rows, done, machine), source,
        assemble.notes(hands),
    )  # fmt: skip


def _streams(c: Counted, result: Result, of: Mapping[str, str]) -> Iterator[CopyStream]:
    """The copies of engines, a row for each section."""
    for number, done in sorted(result.copies.items()):
        s = c.ledger.sections.get(number)
        if s is None or s.transfer is None or not done.copies:
            continue
        source, target = s.transfer.source.buffer, s.transfer.target.buffer
        tensor = of.get(target.name) or of.get(source.name) or assemble.tensor_name(source)
        yield CopyStream(
            s.name, tensor, c.machine.memory(source.memory).name, c.machine.memory(target.memory).name, s.engine,
            done.copies, done.descriptors, done.bytes, done.runs, done.burst_bytes, done.split,
            done.burst_bytes - done.bytes,
        )  # fmt: skip


def timed(a: Account, prepared: Prepared, result: Result, env: Mapping[str, Any], sync: str | None) -> Account:
    """An account with the time that a result says, and notes on what that does not know.

    There is none where it would leave operations out because the machine has no rate for their type.
    """
    table, machine = prepared.table, prepared.machine
    if unrated := missing_rates(a.operations, machine):
        return replace(a, notes=(*a.notes, f"{NO_TIME}: {no_rate(unrated, machine)}"))
    notes = a.notes
    if machine.caches and any(r.kind == "compute" and _moved(r, machine.main.name) for r in a.regions):
        notes += (f"time knows no caches: every access to {machine.main.name} takes its bandwidth",)
    names = table.sections
    stalls = tuple(
        Stall(w.cause, "" if w.section is None else names[w.section],
              "" if w.buffer is None else table.buffers[w.buffer].name.removeprefix("out."), w.ticks / TICKS)
        for w in result.waits
    )  # fmt: skip
    uses = [Use(r.name, used / TICKS) for r, used in zip(table.resources, result.used, strict=True)]
    uses += [Use(f"{machine.dmas[e].name}.{c}", busy / TICKS) for (e, c), busy in result.channels.items()]
    costs = Costs(Counted(prepared.ledger, result.counters), table, result)
    made = Time(
        result.total / TICKS, result.busy / TICKS, sync or machine.compute.sync, 0.0, stalls, tuple(uses),
        lines(prepared.outline, costs, [live for _, live in prepared.points(env)]),
        intervals(result.intervals, prepared.program, table, machine, env),
    )  # fmt: skip
    a = replace(a, time=made, notes=notes)
    bound = replace(a, caches=()).roofline(machine).whole.cycles
    return replace(a, time=replace(made, bound=bound))


def _moved(r: Region, memory: str) -> int:
    return r.read.get(memory, 0) + r.written.get(memory, 0)


__all__ = ["account", "assembled", "of_skeleton", "timed"]

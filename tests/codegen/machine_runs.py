"""Schedules put on a machine at random, run there, and held to the plain run and to their skeleton."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.codegen.counting_trees import counted
from tilewright.codegen import instrumented
from tilewright.codegen.accounts import simulate
from tilewright.codegen.accounts.prepared import Prepared
from tilewright.codegen.accounts.simulate import execute
from tilewright.hw import Account, CapacityError, Machine, SimulationError, load_machine
from tilewright.hw.fields import ELEMENT_TYPES
from tilewright.lang.errors import ScheduleError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.state import State

Choose = Callable[[int], int]
# What a schedule that was not made for a machine need not keep.
REFUSED = (
    "dma.by-hand",
    "dma.none",
    "simulation.size",
    "schedule.array",
    "schedule.unit",
    "capacity",
    "spatial",
    "sharing",
)


def roomy(cores: int = 4) -> Machine:
    """The toy machine with more room and cores, a larger array, and a rate for every type."""
    toy = load_machine("toy")
    memories = tuple(m if m.kind == "main" else replace(m, capacity=1 << 20) for m in toy.memories)
    ops = dict.fromkeys(ELEMENT_TYPES, 16.0) | dict(toy.compute.ops)
    return replace(toy, memories=memories, compute=replace(toy.compute, cores=cores, axes={"x": 64, "y": 64}, ops=ops))


def a_machine(choose: Choose) -> Machine:
    """Engines, channels, ways to meet and accesses under way at random."""
    m = roomy(1 + choose(4))
    if choose(2):
        m = replace(m, compute=replace(m.compute, sync="barrier", barrier=7.0))
    kinds = ("independent", "fifo", "partitioned")
    m = replace(
        m,
        dmas=tuple(
            replace(d, channels=1 + choose(2), queue=1 + choose(3), dims=1 + choose(3), contention=kinds[choose(3)])
            for d in m.dmas
        ),
    )
    few = [(7.0 * choose(3), 1 + choose(4) if choose(2) else None) for _ in m.memories]
    limited = zip(m.memories, few, strict=True)
    return replace(m, memories=tuple(replace(x, latency=wait, outstanding=n) for x, (wait, n) in limited))


def staged(state: State, choose: Choose) -> State:
    """The same with some buffers in the scratchpad."""
    for fs in list(state.funcs.values()):
        if fs.memory == "main" and fs.compute.kind != "inline" and choose(2):
            state = state.with_func(replace(fs, memory="spm"))
    for s in list(state.stages.values()):
        if s.write_caches and choose(2):
            tiles = tuple(replace(c, memory="spm") if c.memory == "main" else c for c in s.write_caches)
            state = state.with_stage(replace(s, write_caches=tiles))
    return state


def flat(result: Any) -> list[np.ndarray]:
    """The arrays of a result in order."""
    if isinstance(result, Mapping):
        return flat(tuple(result.values()))
    if isinstance(result, tuple):
        return [a for r in result for a in flat(r)]
    return [np.asarray(result)]


def agree(
    p: Pipeline, state: State, moved: State, machine: Machine, sizes: Mapping[str, int], mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
) -> Account | None:  # fmt: skip
    """Run `moved` on a machine: values are those of the plain run, counts and ticks those of the skeleton.

    None where the machine can't do it.
    """
    plain = instrumented.run(p, state, sizes, mode, {k: np.copy(v) for k, v in (inputs or {}).items()})
    prepared, seen = Prepared(p, moved, machine, mode), []
    check, simulate._check = simulate._check, lambda *results: seen.append(results)
    try:
        done = execute(prepared, sizes, {k: np.copy(v) for k, v in (inputs or {}).items()})
    except (SimulationError, ScheduleError, CapacityError) as e:
        assert e.code.startswith(REFUSED), e
        return None
    finally:
        simulate._check = check
    for a, b in zip(flat(plain.result), flat(done.result), strict=True):
        assert a.tobytes() == b.tobytes(), "values"
    for counts, ran, skeleton in seen:
        assert list(counts.counts) == counted(prepared.table.tree, len(counts.counts), plain.bound.env)
        assert ran.counters == skeleton.counters == tuple(counts.counts)
        for name in ("total", "sections", "visits", "copies", "used", "channels"):
            assert getattr(ran, name) == getattr(skeleton, name), name
        assert sorted(map(repr, ran.waits)) == sorted(map(repr, skeleton.waits))
    time = done.account.time
    assert time is not None
    assert time.cycles == time.busy + sum(s.cycles for s in time.stalls)
    assert time.busy == sum(line.busy for line in time.lines if line.kind == "compute")
    assert time.cycles >= time.bound * (1 - 1e-9)
    return done.account

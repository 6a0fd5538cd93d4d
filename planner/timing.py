"""What the program of a plan takes on this computer: a call, each of its steps, and calls at other sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.codegen.compile import compile_schedule
from tilewright.planner.apart import own_sizes
from tilewright.planner.plan import Plan
from tilewright.planner.program import Program
from tilewright.planner.samples import likely_inputs

_ROUNDS = 5
_SECONDS = 0.2  # for each set of sizes


@dataclass(frozen=True)
class Measured:
    """Seconds: of a call at `sizes` (the fastest of several), of each step in it, of calls at other sizes, and of
    compiling (None where kernels were compiled before)."""

    sizes: Mapping[str, int]
    seconds: float
    steps: Mapping[str, float] = field(default_factory=dict)
    shapes: Sequence[tuple[Mapping[str, int], float]] = ()
    compiling: float | None = None


def time_plan(
    plan: Plan, sizes: Mapping[str, int] | None = None, shapes: Sequence[Mapping[str, int]] = (),
    scalars: Mapping[str, Any] | None = None, seed: int = 0, threads: int | None = None,
) -> Measured:  # fmt: skip
    """Compile a plan and run it, by default at the sizes that it was made for, on made-up data."""
    at = {n: plan.sizes[n] for n in plan.pipeline.sizes} if sizes is None else dict(sizes)
    start = time.perf_counter()
    program = plan.compile()
    compiling = time.perf_counter() - start
    given = {q.name: plan.sizes[q.name] for q in plan.pipeline.scalars if q.name in plan.sizes} | dict(scalars or {})

    def call_at(sizes: Mapping[str, int]) -> Callable[[], Any]:
        data = likely_inputs(plan.pipeline, sizes, seed, given)
        known = {e.attr for a in plan.pipeline.arrays for e in a.extents if e.op == "size"}
        said = {n: sizes[n] for n in plan.pipeline.sizes if n not in known} or None  # calls that say more are slower
        return lambda: program(**data, sizes=said, threads=threads)

    steps = _steps(program, call_at(at), at)
    others = [(dict(s), _fastest(call_at(s))) for s in shapes]
    return Measured(at, _fastest(call_at(at)), steps, others, compiling)


def _fastest(call: Callable[[], Any], seconds: float = _SECONDS) -> float:
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    rounds = 0
    while rounds < _ROUNDS or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        rounds += 1
    return best


def _steps(program: Program, call: Callable[[], Any], sizes: Mapping[str, int]) -> dict[str, float]:
    """Each kernel by itself, on what it is called with. None where tensors lie in layouts of the plan's."""
    plan, found = program.plan, dict[str, float]()
    if plan.weights or plan.layouts.homes:
        return found
    kernels = [(s, compile_schedule(s.part.pipeline, s.schedule, plan.mode)) for s in plan.steps]

    def watch(moment: str, k: int, array: Callable[[Any], Any]) -> None:
        step, kernel = kernels[k]
        if moment == "before":
            out = tuple(array(b) for b in step.part.outputs)
            given: dict[str, Any] = {"out": out[0] if len(out) == 1 else out} if out else {}
            bound = kernel.bind(*(array(s) for s in step.part.inputs), **given, sizes=own_sizes(step, sizes))
            found[step.name] = _fastest(bound, 0.02)

    program.watch = watch
    try:
        call()
    finally:
        program.watch = None
    return found


__all__ = ["Measured", "time_plan"]

"""Trust in a plan: its values after every pass are compared with the reference, part by part and as a whole.

* Cutting: each part, by its own reference, has from the values of the whole's reference the values of that (all bits).
* Every pass: each distinct part runs by what its schedule is after each pass, on exact data (all bits) and on the data
  that reach it in the whole (within derived bounds).
* The whole: the program's buffers, right after each step and when they are read last, are those of its kernels called one
  by one in memory of their own; and its results are those of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.codegen.judge import Judge, Verdict
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import ScheduleError, TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.planner.apart import Found, own_sizes, parts_by_reference, run_watched
from tilewright.planner.double import in_double
from tilewright.planner.plan import Plan, Step
from tilewright.planner.samples import likely_inputs, sizes_to_try
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.text import format_directive


@dataclass(frozen=True, slots=True)
class Fault:
    """Values that differ. `stage` is where it shows ("cut", a pass of planning, or "run"), `step` the step by name, and,
    of a pass, `number` the first directive of the step's schedule with which it shows and `directive` its text.

    `problem` names the first wrong element, at `sizes`.
    """

    step: str
    stage: str
    problem: str
    sizes: Mapping[str, int]
    number: int = 0
    directive: str = ""

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        what = f", directive {self.number}, {self.directive}" if self.number else ""
        return f"step {self.step}, {self.stage}{what}: {self.problem}" + (f" (at {at})" if at else "")


@dataclass(frozen=True, slots=True)
class Validation:
    """What was compared. `judged` counts schedules that were compared, `limits` says what could not be, and why."""

    faults: tuple[Fault, ...]
    sizes: tuple[Mapping[str, int], ...]
    steps: int
    parts: int
    judged: int
    limits: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs, and something was compared."""
        return not self.faults and self.judged > 0

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        at = "; ".join(", ".join(f"{k}={v}" for k, v in s.items()) for s in self.sizes)
        lines = [f"{self.steps} steps, {self.parts} distinct parts" + (f", at {at}" if at else "")]
        lines += [f"  not compared: {x}" for x in self.limits] + [f"  DIFFERS {f}" for f in self.faults]
        if not self.faults:
            lines.append(f"all {self.judged} schedules that were compared agree with the reference" if self.judged
                         else "nothing could be compared")  # fmt: skip
        return "\n".join(lines)


def validate(
    plan: Plan,
    sizes: Mapping[str, int] | None = None,
    *,
    scalars: Mapping[str, Any] | None = None,
    seed: int = 0,
    mode: str = "contract",
    every: bool = True,
) -> Validation:
    """Compare a plan with the reference, after every pass (without `every` after the last one alone); see above.

    Without `sizes` small odd ones are taken, and others that are just past its tiles. `scalars` gives scalar parameters
    where made-up ones make no sense.
    """
    if sizes is not None:
        check_all_sizes(plan.pipeline, sizes)
    given = dict(scalars or {})
    chosen = (dict(sizes),) if sizes is not None else sizes_to_try(plan, given)
    limits: list[str] = []
    judged = 0
    fault: Fault | None = None
    for at in chosen:
        found = Found()
        data = [likely_inputs(plan.pipeline, at, seed + k, given) for k in range(2)]
        calls = _distinct(parts_by_reference(plan, at, data[0], found))
        for step, args in calls if found.first is None else ():
            passes = judge_passes(step, own_sizes(step, at), args, given, mode, seed, every)
            limits += passes.limits
            judged += passes.judged
            fault = fault or passes.fault
        if fault is None and found.first is None:
            run_watched(plan, at, data, given, mode, seed, found)
        if found.first is not None:
            fault = Fault(*found.first, at)
        limits += found.limits
        if fault is not None:
            break
    parts = {s.part.pipeline.digest for s in plan.steps}
    faults = () if fault is None else (fault,)
    return Validation(faults, chosen, len(plan.steps), len(parts), judged, tuple(dict.fromkeys(limits)))


def fault_at(plan: Plan, sizes: Mapping[str, int], given: Mapping[str, Any], seed: int, mode: str) -> Fault | None:
    """What is wrong in cutting and in the program as a whole, passes aside; None also where it does not run at these
    sizes."""
    found = Found()
    try:
        data = [likely_inputs(plan.pipeline, sizes, seed + k, given) for k in range(2)]
        for _ in parts_by_reference(plan, sizes, data[0], found):
            pass
        if found.first is None:
            run_watched(plan, sizes, data, given, mode, seed, found)
    except TilewrightError:
        return None
    return None if found.first is None else Fault(*found.first, sizes)


def _distinct(calls: Iterator[tuple[Step, dict[str, Any]]]) -> list[tuple[Step, dict[str, Any]]]:
    """Of equal parts with equal schedules the first."""
    found: dict[tuple[str, str], tuple[Step, dict[str, Any]]] = {}
    for step, args in calls:
        found.setdefault((step.part.pipeline.digest, str(step.schedule)), (step, args))
    return list(found.values())


# Passes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """What the passes of a step's schedule lead to: the first fault, how many were compared, what could not be."""

    fault: Fault | None
    judged: int
    limits: tuple[str, ...]


def judge_passes(
    step: Step, sizes: Mapping[str, int], args: Mapping[str, Any], given: Mapping[str, Any], mode: str, seed: int,
    every: bool = True,
) -> Judged:  # fmt: skip
    """Run a step by its schedule as it is after each pass. `args` are random data as they reach it; of exact data
    integers (positions, lengths) are those."""
    p = step.part.pipeline
    whole = {own: given[s.name] for own, s in zip((q.name for q in p.params), step.part.inputs, strict=True)
             if s.name in given}  # fmt: skip
    fixed = {q.name: args[q.name] for q in p.params if q.dtype.is_int and not q.dtype.is_bool} | whole
    judge = _Judges(p, sizes, fixed, mode, seed, args)
    judged, start, limits = 0, 0, []
    for name, end in passes_of(step) if every else passes_of(step)[-1:]:
        v = judge.verdict(step.schedule, end)
        if not v.ran and end == len(step.schedule):
            v = Verdict(problem=v.unjudged)
        if v.problem is not None:
            return Judged(_first_of(step, judge, name, start, end, v), judged, tuple(limits))
        if v.unjudged is not None:
            limits.append(f"{step.name} after {name}: {v.unjudged}")
        else:
            judged += 1
        start = end
    return Judged(None, judged, tuple(limits))


def passes_of(step: Step) -> list[tuple[str, int]]:
    """The passes that wrote something, with the number of directives after each; the last one leads to the whole schedule.
    Before them all stands the algorithm by itself."""
    found, done = [], 0
    for name, end in step.passes:
        if end > done:
            found.append((name, end))
            done = end
    if done < len(step.schedule):
        found.append(("schedule", len(step.schedule)))
    return found or [("schedule", 0)]


class _Judges:
    """The judge of a part; and, where that has nothing to go by once an order is changed, the judge of its twin in f64."""

    def __init__(
        self, p: Pipeline, sizes: Mapping[str, int], given: Mapping[str, Any], mode: str, seed: int,
        random: Mapping[str, Any],
    ):  # fmt: skip
        self.sizes, self.own, self.twin = sizes, Judge(p, sizes, given, mode, seed, random), None
        wide = in_double(p) if self.own.exact is None and self.own.bounds is None and not self.own.empty else None
        if wide is not None:
            moved = {q.name: np.asarray(random[q.name]).astype(q.dtype.np)[()] for q in wide.params}
            self.twin = Judge(wide, sizes, {n: moved[n] for n in given}, mode, seed, moved)

    def verdict(self, s: Schedule, n: int) -> Verdict:
        """On the first directives of a schedule."""
        found = self.own.verdict(prefix(s, n))
        if found.unjudged is None or self.twin is None:
            return found
        try:
            again = prefix(s, n, self.twin.p)
        except ScheduleError:
            return found
        return self.twin.verdict(again)


def prefix(s: Schedule, n: int, pipeline: Pipeline | None = None) -> Schedule:
    """The first directives of a schedule (on another pipeline), without its machine: capacities are for the whole."""
    made = Schedule(pipeline or s.pipeline)
    for d in s.directives[:n]:
        made.apply(d)
    return made


def _first_of(step: Step, judge: _Judges, name: str, start: int, end: int, v: Verdict) -> Fault:
    """The first directive of a pass after which values differ."""
    number, problem = end, v.problem
    for n in range(start + 1, end):
        earlier = judge.verdict(step.schedule, n).problem
        if earlier is not None:
            number, problem = n, earlier
            break
    assert problem is not None
    text = ""
    if number:
        d = step.schedule.directives[number - 1]
        text = (f"{d.stage}: " if d.stage else "") + format_directive(d)
    return Fault(step.name, name, problem, dict(judge.sizes), number, text)


__all__ = ["Fault", "Judged", "Validation", "fault_at", "judge_passes", "passes_of", "prefix", "validate"]

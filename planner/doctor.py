"""What ails a plan: problems that its figures, validation or measured times show, each with its cause and what helps.

starved       little of the machine is used although no kernel is slow: calls and starts take the time
spills        a region keeps more near the core than there is room for
transposes    much of what is moved is moved to lie otherwise
peak          more lives at once than memory holds
values        values differ from the reference's, after a pass or in the program
compile       compiling takes long: many different kernels, or kernels of many statements
shapes        fast at some sizes and slow at others
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from tilewright.lang.func import InoutFunc
from tilewright.lang.tensors import Array
from tilewright.planner.cost import LAUNCH
from tilewright.planner.goal import Goal
from tilewright.planner.graph import make_graph
from tilewright.planner.measure import measure
from tilewright.planner.model import Model
from tilewright.planner.plan import Plan, Step, make_plan
from tilewright.planner.region import fits
from tilewright.planner.timing import Measured
from tilewright.planner.validate import Fault, Validation
from tilewright.schedule.build import build_nest
from tilewright.schedule.default import complete
from tilewright.schedule.nest import walk
from tilewright.schedule.schedule import Schedule

Severity = Literal["error", "warning", "note"]

# From where on something is a finding: shares of a whole, and factors.
_STARTS = 0.3  # of the time, for calls and starts
_MOVES = 0.2  # of the time, for what only moves
_FULL = 0.9  # of the memory
_SLOWER = 1.3  # than the best plan at some sizes, by the model
_SLOWER_MEASURED = 3.0  # an operation, than at the best sizes
_KERNELS = 64  # different ones
_STATEMENTS = 2000  # of one kernel
_SECONDS = 30.0  # for compiling


@dataclass(frozen=True)
class Finding:
    """A problem: what shows it (`evidence`: figures by name), what causes it and what helps. `remedy`, where there is
    one, makes a plan without it."""

    code: str
    severity: Severity
    cause: str
    evidence: Mapping[str, Any]
    fix: str
    remedy: Callable[[Plan], Plan] | None = None

    def apply(self, plan: Plan) -> Plan:
        """The plan with the remedy; the plan itself where there is none."""
        return plan if self.remedy is None else self.remedy(plan)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "code": self.code, "severity": self.severity, "cause": self.cause, "evidence": dict(self.evidence),
            "fix": self.fix, "applies": self.remedy is not None,
        }  # fmt: skip

    def __str__(self) -> str:
        shown = ", ".join(f"{k} {_figure(v)}" for k, v in self.evidence.items())
        help_ = "  --apply does this" if self.remedy is not None else ""
        return f"{self.severity} {self.code}: {self.cause}\n  seen: {shown}\n  fix: {self.fix}{help_}"


def _figure(v: Any) -> str:
    return f"{v:.3g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v)


def diagnose(plan: Plan, measured: Measured | None = None, validation: Validation | None = None) -> tuple[Finding, ...]:
    """What ails a plan, the worst first. `measured` times and a `validation` show what figures of the plan alone do not."""
    found = [
        *_starved(plan, measured), *_spills(plan), *_transposes(plan), *_peak(plan), *_compile(plan, measured),
        *_shapes(plan, measured), *_values(validation),
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda f: ("error", "warning", "note").index(f.severity)))


def healed(plan: Plan, findings: tuple[Finding, ...]) -> Plan:
    """The plan after all remedies, one after the other."""
    for f in findings:
        plan = f.apply(plan)
    return plan


def planned_again(plan: Plan, **changes: Any) -> Plan:
    """The pipeline of a plan planned anew, with other `sizes`, `goal` or `weights`."""
    sizes = {**plan.sizes, **changes.get("sizes", {})}
    goal, weights = changes.get("goal", plan.goal), changes.get("weights", plan.weights)
    made = make_plan(plan.pipeline, plan.machine, sizes, goal, weights)
    return replace(made, tokens=plan.tokens, mode=plan.mode, keyword_only=plan.keyword_only)


# What takes the time -----------------------------------------------------------------------------------------------


def _starved(plan: Plan, measured: Measured | None) -> Iterator[Finding]:
    m = plan.metrics.plan
    if not plan.steps or not m.cycles:
        return
    starts = LAUNCH * len(plan.steps) / m.cycles
    evidence: dict[str, Any] = {
        "utilisation": m.utilisation, "steps": len(plan.steps), "share of starts": starts,
        "cycles a step": m.cycles / len(plan.steps),
    }  # fmt: skip
    seen = starts > _STARTS
    if measured is not None and measured.steps:
        inside = sum(measured.steps.values())
        evidence |= {"seconds of a call": measured.seconds, "seconds of its kernels": inside}
        seen = seen or inside < (1 - _STARTS) * measured.seconds
    if seen and m.utilisation < 0.5:
        decode = replace(plan.goal, objective="latency", phase="decode")
        one_by_one = all(n == 1 for n in plan.order.groups) and plan.machine.compute.cores > 1
        yield Finding(
            "starved", "warning", "kernels are fast, but most of the time goes into calling and starting them", evidence,
            "give a call more work (larger sizes, several at once), or let steps that don't need each other run at once "
            "(phase decode)", (lambda p: planned_again(p, goal=decode)) if one_by_one else None,
        )  # fmt: skip


# Memory ------------------------------------------------------------------------------------------------------------


def _spills(plan: Plan) -> Iterator[Finding]:
    model = Model(plan.machine, plan.goal)
    if model.staged:
        return  # a plan whose tiles don't fit a scratchpad is not made
    points = [plan.sizes, *({**plan.sizes, **x.sizes} for x in plan.valid_for.points if x.tight)]
    kept = {f for s in plan.steps for f in s.region.members}
    inlined = tuple(f for f in plan.pipeline.funcs if f not in kept)
    for at in points:
        g = make_graph(plan.pipeline, at, model, inlined)
        tight = [s.name for s in plan.steps if len(s.region.members) > 1 and not fits(g, model, s.region)]
        if tight:
            sizes = {n: at[n] for n in plan.pipeline.sizes}
            shown = ", ".join(f"{k}={v}" for k, v in sizes.items())
            yield Finding(
                "spills", "warning", f"what regions keep between their members does not stay in {model.near.name}",
                {"regions": ", ".join(tight), "room": int(model.near.capacity), "at": shown},
                "plan for these sizes: their tiles are smaller there", partial(planned_again, sizes=sizes),
            )  # fmt: skip
            return


def _transposes(plan: Plan) -> Iterator[Finding]:
    works = {f.name: w for f, w in measure(plan.pipeline, plan.sizes).items()}
    moved = {}
    for s in plan.steps:
        own = [works[s.part.names[f.name]] for f in s.part.pipeline.funcs if not isinstance(f, InoutFunc)]
        if own and len(own) == len(s.part.pipeline.funcs) and not any(sum(w.operations.values()) for w in own):
            moved[s.name] = 2 * works[s.name].bytes
    fixed = {a.name for a in plan.pipeline.params if isinstance(a, Array) and all(e.op == "const" for e in a.extents)}
    # what is packed part by part in the loops that read it is no move of its own, but of weights it is for nothing
    changed = [c for c in plan.layouts.chosen.conversions if not c.packed or c.tensor in fixed]
    converted = sum(c.bytes for c in changed)
    model, m = Model(plan.machine, plan.goal), plan.metrics.plan
    share = (
        sum(model.moving(n, n) for n in (*moved.values(), *(c.bytes for c in changed))) / m.cycles if m.cycles else 0.0
    )
    for_nothing = any(c.tensor in fixed and c.tensor not in plan.weights for c in changed)
    if share > _MOVES or for_nothing:
        weights = tuple(dict.fromkeys((*plan.weights, *(c.tensor for c in changed if c.tensor in fixed))))
        yield Finding(
            "transposes", "warning" if share > _MOVES else "note",
            "much of what is moved is only brought into another order" if share > _MOVES
            else "inputs whose shape is fixed, as that of weights is, are brought into another order in every call",
            {"bytes moved": sum(moved.values()), "bytes converted": converted, "of bytes": m.bytes,
             "share of the time": share, "steps that only move": ", ".join(moved) or "none"},
            "read in the order in which it lies (matmul has transpose_a and transpose_b), and name inputs that don't change "
            "as weights: they are packed once",
            None if weights == plan.weights else lambda p: planned_again(p, weights=weights),
        )  # fmt: skip


def _peak(plan: Plan) -> Iterator[Finding]:
    memory, capacity = plan.metrics.plan.memory, _capacity(plan)
    if memory.peak > _FULL * capacity:
        yield Finding(
            "peak", "error" if memory.peak > capacity else "warning", "what lives at once fills the memory",
            {"peak": memory.peak, "capacity": int(capacity), "buffers": memory.buffers, "weights": memory.weights,
             "inputs": memory.inputs, "caches": memory.caches, "outputs": memory.outputs},
            "plan for memory: the order with the least peak, and what is cheap computed again",
            None if plan.goal.objective == "memory" else lambda p: _smaller(p, replace(p.goal, objective="memory")),
        )  # fmt: skip


def _smaller(plan: Plan, goal: Goal) -> Plan:
    made = planned_again(plan, goal=goal)
    return made if made.metrics.plan.memory.peak < plan.metrics.plan.memory.peak else plan


def _capacity(plan: Plan) -> float:
    """The bytes of main memory."""
    return math.inf if plan.machine.main.capacity is None else plan.machine.main.capacity


# Values ------------------------------------------------------------------------------------------------------------


def _values(validation: Validation | None) -> Iterator[Finding]:
    for f in () if validation is None else validation.faults:
        evidence = {"step": f.step, "pass": f.stage, "problem": f.problem}
        if f.number:
            evidence["directive"] = f"{f.number}: {f.directive}"
        yield Finding(
            "values", "error", "values differ from the reference's", evidence,
            "`tilewright verify --plan --bisect` gives the smallest case for a report; until then do without that pass",
            _without(f),
        )  # fmt: skip


def _without(fault: Fault) -> Callable[[Plan], Plan] | None:
    """A plan that does without what went wrong, where it can."""
    if fault.stage == "in place":
        return lambda p: replace(p, order=replace(p.order, in_place={}))
    if fault.number:
        return lambda p: replace(p, steps=tuple(_apart(s) if s.name == fault.step else s for s in p.steps))
    return None


def _apart(step: Step) -> Step:
    """A step with every member stored whole, one after the other."""
    names = {whole: own for own, whole in step.part.names.items()}
    s = Schedule(step.part.pipeline)
    members = [names[f.name] for f in step.region.members]
    for f in step.part.pipeline.funcs:
        if f.name not in members:
            s[f.name].compute_inline()
    inline = len(s)
    for f in members[:-1]:
        s[f].compute_root()
    full = complete(s)
    return replace(step, schedule=full, passes=(("inline", inline), ("fuse", len(s)), ("default", len(full))))


# Compiling and shapes ----------------------------------------------------------------------------------------------


def _compile(plan: Plan, measured: Measured | None) -> Iterator[Finding]:
    distinct: dict[tuple[str, str], Step] = {}
    for s in plan.steps:
        distinct.setdefault((s.part.pipeline.digest, str(s.schedule)), s)
    statements = {s.name: sum(1 for _ in walk(build_nest(s.schedule.state).body)) for s in distinct.values()}
    most = max(statements, key=statements.__getitem__, default="")
    seconds = measured.compiling if measured is not None else plan.seconds.get("compile")
    if len(distinct) > _KERNELS or statements.get(most, 0) > _STATEMENTS or (seconds or 0.0) > _SECONDS:
        evidence: dict[str, Any] = {
            "kernels": len(distinct), "steps": len(plan.steps), "statements of the largest": statements[most],
            "which is": most,
        }  # fmt: skip
        if seconds is not None:
            evidence["seconds"] = seconds
        few = len(distinct) > _KERNELS
        yield Finding(
            "compile", "warning", "many different kernels are compiled" if few else f"{most} is a kernel of many statements",
            evidence, "layers that are alike but for numbers written into them are different kernels: pass those numbers as "
            "arguments or arrays" if few else "return the values of some Funcs of it, so that it is parted there, or unroll "
            "and tile less",
        )  # fmt: skip


def _shapes(plan: Plan, measured: Measured | None) -> Iterator[Finding]:
    worst = max(plan.valid_for.points, key=lambda x: x.ratio, default=None)
    if worst is not None and worst.ratio > _SLOWER:
        at = {n: v for n, v in worst.sizes.items() if n in plan.pipeline.sizes}
        yield Finding(
            "shapes", "warning", "one plan for all of these sizes is slow at some",
            {"at": ", ".join(f"{k}={v}" for k, v in at.items()), "times the best plan there": worst.ratio},
            "plan these sizes by themselves, and choose by size when calling", lambda p: planned_again(p, sizes=at),
        )  # fmt: skip
    if measured is None or len(measured.shapes) < 2:
        return
    rates = [(s / max(1.0, _flops(plan, at)), at, s) for at, s in measured.shapes]
    fast, slow = min(rates, key=lambda r: r[0]), max(rates, key=lambda r: r[0])
    if slow[0] > _SLOWER_MEASURED * fast[0]:
        at = dict(slow[1])
        yield Finding(
            "shapes", "warning", "an operation takes much longer at some sizes than at others",
            {"slow at": ", ".join(f"{k}={v}" for k, v in at.items()), "seconds there": slow[2],
             "fast at": ", ".join(f"{k}={v}" for k, v in fast[1].items()), "seconds at those": fast[2],
             "times as long an operation": slow[0] / fast[0]},
            "plan the slow sizes by themselves, and choose by size when calling", lambda p: planned_again(p, sizes=at),
        )  # fmt: skip


def _flops(plan: Plan, sizes: Mapping[str, int]) -> float:
    works = measure(plan.pipeline, {**plan.sizes, **sizes})
    return sum(n for w in works.values() for n in w.operations.values())


__all__ = ["Finding", "diagnose", "healed", "planned_again"]

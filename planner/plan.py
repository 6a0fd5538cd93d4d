"""A plan: the parts of a pipeline in the order in which they run, a schedule for each, and where buffers lie."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.lang.extents import spans as spans_of
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.lang.regions import region
from tilewright.lang.simplify import add, sub
from tilewright.lang.values import Env, index_values
from tilewright.planner.budget import Budget
from tilewright.planner.cut import Buffer, Part
from tilewright.planner.given import PLAIN, ROWS, Given, Layouts
from tilewright.planner.goal import Goal, ValidFor
from tilewright.planner.lives import spans
from tilewright.planner.order import Order
from tilewright.planner.places import Lifetime, Places, assign
from tilewright.schedule.layout import parse_index_map
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:  # what a plan is made with takes far longer to import than a plan from disk to run
    from tilewright.hw import Machine
    from tilewright.planner.accounts import PlanAccount
    from tilewright.planner.bisect import Bisection
    from tilewright.planner.doctor import Finding
    from tilewright.planner.graph import Graph
    from tilewright.planner.metrics import Metrics
    from tilewright.planner.model import Model
    from tilewright.planner.nest import Passes
    from tilewright.planner.program import Program
    from tilewright.planner.region import Region
    from tilewright.planner.staging import Staged
    from tilewright.planner.timing import Measured
    from tilewright.planner.validate import Validation


@dataclass(frozen=True, eq=False)
class Step:
    """One region of a plan: the part of the pipeline that it is, and its schedule; `passes` says up to which of its
    directives each pass of planning wrote them, `given` which of its arguments do not lie row-major."""

    region: Region
    part: Part
    schedule: Schedule
    passes: Passes = ()
    given: Given = PLAIN
    staged: Staged | None = None  # on a machine with a scratchpad: how it is cut, and its account

    @property
    def name(self) -> str:
        return self.region.root.name


@dataclass(frozen=True, eq=False)
class Plan:
    """What was decided for a pipeline on a machine. It was made at `sizes` (and at scalars that indices go by), which are
    of those that it is `valid_for`, and its values are right at all others as well.

    `steps` stand in the order in which they run. `stopped` says, for each pass that ended early, what bound it met;
    `seconds` what planning (`plan`) and compiling (`compile`) took. `tokens` is the size that counts tokens, for figures
    by token; `mode` and `keyword_only` are the kernel's. `weights` are inputs that are packed once, and `layouts` says how.
    """

    pipeline: Pipeline
    machine: Machine
    sizes: Mapping[str, int]
    steps: tuple[Step, ...]
    order: Order
    goal: Goal = field(default_factory=Goal)
    stopped: Mapping[str, str] = field(default_factory=dict)
    late: bool = False  # whether the clock ended a pass
    valid_for: ValidFor = field(default_factory=ValidFor)
    tokens: str | None = None
    mode: str = "contract"
    keyword_only: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    layouts: Layouts = field(default_factory=Layouts)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def regions(self) -> tuple[Region, ...]:
        """What is computed together, in the order in which it runs."""
        return tuple(s.region for s in self.steps)

    @cached_property
    def schedule(self) -> Schedule:
        """The plan as one schedule of the whole pipeline."""
        from tilewright.planner.whole import whole_schedule

        return whole_schedule(self)

    @cached_property
    def metrics(self) -> Metrics:
        """What the plan comes to, and beside it what the pipeline takes op by op."""
        from tilewright.planner.metrics import metrics_of

        return metrics_of(self)

    def compile(self) -> Program:
        """Compile all kernels: a Program is called like the kernel that the plan is of."""
        from tilewright.planner.program import Program

        start = time.perf_counter()
        made = Program(self, self.mode, self.keyword_only)
        self.seconds["compile"] = time.perf_counter() - start
        return made

    def validate(self, sizes: Mapping[str, int] | None = None, **how: Any) -> Validation:
        """Compare the values with the reference after every pass, and those of the program step by step; see
        `planner.validate`. Without `sizes` at small ones and at some just past the tiles."""
        from tilewright.planner.validate import validate

        return validate(self, sizes, **{"mode": self.mode, **how})

    def bisect(self, sizes: Mapping[str, int] | None = None, **how: Any) -> Bisection | None:
        """The first pass, and directive, that breaks the values, with the smallest case that shows it; None if all is
        right."""
        from tilewright.planner.bisect import bisect_plan

        return bisect_plan(self, sizes, **{"mode": self.mode, **how})

    def diagnose(self, measured: Measured | None = None, validation: Validation | None = None) -> tuple[Finding, ...]:
        """What ails the plan, with cause and fix; `finding.apply(plan)` is a plan without it, where that can be had."""
        from tilewright.planner.doctor import diagnose

        return diagnose(self, measured, validation)

    def __str__(self) -> str:
        from tilewright.planner.reports.text import plan_text

        return plan_text(self)

    def as_json(self) -> dict[str, Any]:
        """Plain data in the form that docs/planner.md describes."""
        from tilewright.planner.reports.data import plan_data

        return plan_data(self)

    def to_json(self) -> str:
        return json.dumps(self.as_json(), indent=2)

    def html(self, path: str | Path) -> None:
        """Write the report: one file that a browser opens from disk, without a network."""
        from tilewright.planner.reports.page import page

        Path(path).write_text(page(self), encoding="utf-8")

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """What passes from step to step, in the order in which it is made; outputs that are made in place are none."""
        direct = {Buffer(o.func, o.component) for o in self.pipeline.outputs if is_whole(self.pipeline, o)}
        return tuple(dict.fromkeys(b for s in self.steps for b in s.part.outputs if b not in direct))

    def lifetimes(self, sizes: Env) -> tuple[Lifetime, ...]:
        """The bytes of the buffers at these sizes, and from which step to which each is in use."""
        made = [[b.name for b in s.part.outputs] for s in self.steps]
        used = [[b.name for b in s.part.inputs if isinstance(b, Buffer)] for s in self.steps]
        results = {o.func for o in self.pipeline.outputs}
        kept = [b.name for b in self.buffers if b.func in results]  # copied from when all has run
        found = spans(made, used, self.order.groups, kept)
        bytes_ = [self._bytes(b, sizes) for b in self.buffers]
        return tuple(
            Lifetime(b.name, n, *found[b.name][0], found[b.name][1:]) for b, n in zip(self.buffers, bytes_, strict=True)
        )

    def shape(self, b: Buffer) -> tuple[Node, ...]:
        """The extents of a buffer as it lies in memory."""
        extents, layout = buffer_shape(self.pipeline, b), self.layouts.homes.get(b.name, ROWS)
        return extents if layout == ROWS else parse_index_map(layout).extents(extents)

    def _bytes(self, b: Buffer, sizes: Env) -> int:
        return math.prod(max(0, n) for n in index_values(self.shape(b), sizes)) * b.func.dtypes[b.component].bytes

    def account(self, sizes: Mapping[str, int] | None = None) -> PlanAccount:
        """What the steps take together on a machine with a scratchpad, one after the other; see `accounts`."""
        from tilewright.planner.accounts import account_of

        return account_of(self, self.sizes if sizes is None else sizes)

    def needs(self, step: Step, sizes: Env) -> bool:
        """Whether anything reads what a step makes at these sizes: of empty tensors an edge may not even exist."""
        made = {b.func for b in step.part.outputs}
        return not made or not made.isdisjoint(spans_of(self.pipeline, sizes))

    def places(self, sizes: Env) -> Places:
        """Where the buffers lie in one block of memory at these sizes."""
        return assign(self.lifetimes(sizes), self.order.in_place)


def starts_of(p: Pipeline, f: Func) -> tuple[Node, ...]:
    """The first index on each axis of what is stored of a Func."""
    return tuple(r.lo for r in region(p, f))  # type: ignore[misc]


def buffer_shape(p: Pipeline, b: Buffer) -> tuple[Node, ...]:
    """The extents of what is stored of a Func: of the region that is needed."""
    return tuple(add(sub(r.hi, r.lo), integer(1)) for r in region(p, b.func))  # type: ignore[arg-type]


def is_whole(p: Pipeline, o: Output) -> bool:
    """Whether an output is all that is stored of its Func, so that it is made where the caller wants it."""
    box = region(p, o.func)
    alone = sum(x.func is o.func and x.component == o.component for x in p.outputs) == 1
    return (
        alone
        and not isinstance(o.func, InoutFunc)
        and all(
            r.lo is a and r.hi is not None and add(r.hi, integer(1)) is b
            for r, a, b in zip(box, o.starts, o.stops, strict=True)
        )
    )


def make_plan(
    p: Pipeline, machine: Machine, sizes: Mapping[str, int], goal: Goal | None = None, weights: Iterable[str] = ()
) -> Plan:
    """Measure, fuse, choose layouts, order, and write the schedules of a pipeline. `weights` are the names of inputs that
    are packed before anything runs."""
    from tilewright.planner.model import Model

    goal = goal or Goal()
    made = _made(p, machine, sizes, goal, weights)
    if goal.objective == "traffic" and Model(machine, goal).staged:
        # regions are chosen before their tiles are: those of the quickest plan may have tiles that move less
        quick = _made(p, machine, sizes, replace(goal, objective="latency"), weights)
        made = replace(quick, goal=goal) if _moved(quick) < _moved(made) else made
    return made


def _moved(plan: Plan) -> int:
    """The bytes that a plan reads and writes of main memory, by its account."""
    account, main = plan.account(), plan.machine.main.name
    return account.read.get(main, 0) + account.written.get(main, 0)


def _made(p: Pipeline, machine: Machine, sizes: Mapping[str, int], goal: Goal, weights: Iterable[str]) -> Plan:
    from tilewright.planner.fuse import fuse
    from tilewright.planner.layouts import assign_layouts
    from tilewright.planner.model import Model
    from tilewright.planner.policy import put_in_order
    from tilewright.planner.weights import check_weights

    model = Model(machine, goal)
    budget = Budget(goal)
    g, regions = fuse(p, sizes, model, budget)
    schedules: dict[tuple, tuple[Schedule, Passes]] = {}
    steps = {r.root.name: _step(g, r, schedules, model, budget) for r in regions}
    packed = check_weights(p, weights)
    layouts = Layouts() if model.staged else assign_layouts(g, steps, model, packed, budget)
    order = put_in_order(g, tuple(steps.values()), model, budget)
    return Plan(
        p, machine, dict(sizes), tuple(steps[t.name] for t in order.tasks), order, goal, budget.stopped, budget.late,
        weights=packed, layouts=layouts,
    )  # fmt: skip


def _step(
    g: Graph, region: Region, schedules: dict[tuple, tuple[Schedule, Passes]], model: Model, budget: Budget
) -> Step:  # fmt: skip
    """A region as a step; equal parts in equal tiles have one schedule."""
    from tilewright.planner.nest import part_of, schedule_region

    part = part_of(g, region)
    if model.staged:
        from tilewright.planner.staging import stage_region

        found = stage_region(g, part, region.members, region.group, model, budget)
        return Step(region, part, found.schedule, found.passes, staged=found)
    key = part.pipeline.digest, region.tile
    if key not in schedules:
        schedules[key] = schedule_region(g, region, part)
    return Step(region, part, *schedules[key])


__all__ = ["Plan", "Step", "buffer_shape", "is_whole", "make_plan", "starts_of"]

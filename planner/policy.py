"""By which policy steps are put in order: least memory, or most overlap, by what the plan is for and by what fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.codegen.runtime.processors import default_threads
from tilewright.lang.errors import user_location
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Array
from tilewright.planner.again import recomputed
from tilewright.planner.budget import Budget
from tilewright.planner.cut import Buffer
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.host import HOST
from tilewright.planner.in_place import InPlace
from tilewright.planner.lives import lives
from tilewright.planner.makespan import Cost, makespan, most_overlap
from tilewright.planner.order import Dependences, Order, Task, least_memory
from tilewright.planner.together import WINDOWS, Share, grouped, in_groups

if TYPE_CHECKING:
    from tilewright.hw import Machine
    from tilewright.planner.graph import Graph
    from tilewright.planner.model import Model
    from tilewright.planner.plan import Step


@dataclass(frozen=True)
class Policy:
    """What an order has least of. `fast`: it may take more memory for less time, where that is less than this share of the
    time in the order with the least memory. `price`: the share of all cycles that may be computed again."""

    name: str
    about: str
    fast: float
    price: float


MEMORY = Policy("memory", "least peak memory, and what is cheap computed again", 0.0, 0.1)
PREFILL = Policy("prefill", "least peak memory: what passes between steps is large", 0.0, 0.0)
DECODE = Policy("decode", "most overlap: steps are small and wait for weights", 1.0, 0.0)
FAST = Policy("latency", "most overlap where it saves two percent or more, otherwise least peak memory", 0.98, 0.0)
FITTING = Policy("capacity", "least peak memory, and as much computed again as it takes to fit", 0.0, math.inf)


def policy_of(goal: Goal) -> Policy:
    """The policy for a goal; `FITTING` takes over where what it would take does not fit."""
    if goal.objective == "memory":
        return MEMORY
    return {"prefill": PREFILL, "decode": DECODE, None: FAST}[goal.phase]


@dataclass(frozen=True)
class _Problem:
    """Tasks with what they take."""

    tasks: tuple[Task, ...]
    keep: frozenset[str]
    costs: Mapping[str, Cost]
    shares: Mapping[str, Share]
    cores: int
    overlaps: bool  # whether an engine loads beside the cores
    capacity: float  # bytes of main memory for what steps make
    pad: float  # bytes of the largest scratchpad
    budget: Budget


def put_in_order(g: Graph, steps: Sequence[Step], model: Model, budget: Budget) -> Order:
    """The order of the steps of a plan. Raises PlanError `plan.capacity` where they don't fit in main memory."""
    problem = _problem(g, steps, model, budget)
    policy = policy_of(model.goal)
    given = Dependences(problem.tasks, problem.keep)
    naive = lives([problem.tasks[k] for k in given.topological()], keep=problem.keep)
    order = _chosen(problem, policy)
    if order.peak > problem.capacity:
        policy = FITTING
        order = _chosen(problem, policy)
    if order.peak > problem.capacity:
        raise _too_large(g, problem, order, model)
    return replace(order, policy=policy.name, naive=naive.peak, fits=_fits(order.peak, model))


def _chosen(x: _Problem, policy: Policy) -> Order:
    slow = _least(x, policy)
    if not policy.fast:
        return slow
    quick = _quick(x, slow)
    fits = quick.peak <= x.capacity and not slow.peak <= x.pad < quick.peak
    return quick if fits and quick.cycles < policy.fast * slow.cycles else slow


def _least(x: _Problem, policy: Policy) -> Order:
    """Least memory, one by one."""
    found = least_memory(x.tasks, x.keep, x.budget)
    tasks, again = list(found.tasks), list[str]()
    if policy.price:
        total = sum(c.serial for c in x.costs.values())
        cycles = {n: c.serial for n, c in x.costs.items()}
        once = {t.name for t in x.tasks if not t.makes}
        enough = x.capacity if math.isinf(policy.price) else 0.0
        tasks, again = recomputed(tasks, x.keep, cycles, once, enough, policy.price * total, x.budget)
    return _order(x, tasks, [1] * len(tasks), found.least and not again, again)


def _quick(x: _Problem, slow: Order) -> Order:
    """Most overlap: of loading with computing, or of steps on several cores."""
    g = Dependences(x.tasks, x.keep)
    number = {t.name: k for k, t in enumerate(x.tasks)}
    order: Sequence[int] = [number[t.name] for t in slow.tasks]
    if x.overlaps:
        order, _, _ = most_overlap(g, x.costs, x.budget)
        return _order(x, [x.tasks[k] for k in order], [1] * len(order), False, [])
    if x.cores < 2:
        return slow
    for window in WINDOWS:
        found, groups = grouped(g, order, x.shares, x.cores, x.capacity, x.keep, window)
        quick = _order(x, [x.tasks[k] for k in found], groups, False, [])
        if quick.peak <= x.capacity:
            return quick
    return slow


def _order(x: _Problem, tasks: Sequence[Task], groups: Sequence[int], least: bool, again: Sequence[str]) -> Order:
    at = lives(tasks, groups, x.keep)
    cycles = serial = sum(x.costs[t.name].serial for t in tasks)
    if x.overlaps:
        g = Dependences(x.tasks, x.keep)
        number = {t.name: k for k, t in enumerate(x.tasks)}
        cycles = makespan(g, x.costs, [number[t.name] for t in tasks])
    elif x.cores > 1:
        names = [t.name for t in tasks]
        serial = in_groups(names, [1] * len(names), x.shares, x.cores)
        cycles = in_groups(names, groups, x.shares, x.cores)
    return Order(tuple(tasks), at.peak, least, "", 0, tuple(groups), cycles, serial, dict(at.over), tuple(again))


# What steps take --------------------------------------------------------------------------------------------------


def _problem(g: Graph, steps: Sequence[Step], model: Model, budget: Budget) -> _Problem:
    p, machine = g.pipeline, model.machine
    judge, cores = InPlace(), cores_of(machine)
    results = {o.func for o in p.outputs}
    writer: dict[Func, str] = {f: s.name for s in steps for f in s.region.members if isinstance(f, InoutFunc)}
    tasks = tuple(_task(g, s, judge, writer) for s in steps)
    keep = frozenset(b.name for s in steps for b in s.part.outputs if b.func in results)
    pads = [m.capacity or math.inf for m in machine.memories if m.kind == "scratchpad"]
    engine = next(
        (d.bandwidth * d.channels for d in machine.dmas if any(machine.main.name in j for j in d.joins)), None
    )
    costs = {s.name: _cost(g, s, engine) for s in steps}
    shares = {s.name: _share(g, s, machine, cores) for s in steps}
    capacity = math.inf if machine.main.capacity is None else machine.main.capacity - _given(g)
    return _Problem(tasks, keep, costs, shares, cores, engine is not None, capacity, max(pads, default=0.0), budget)


def _task(g: Graph, step: Step, judge: InPlace, writer: Mapping[Func, str]) -> Task:
    made = {b.name: _bytes(g, b) for b in step.part.outputs}
    read = frozenset(s.name for s in step.part.inputs if isinstance(s, Buffer))
    after = frozenset(writer[s] for s in step.part.inputs if isinstance(s, InoutFunc) and s in writer) - {step.name}
    results = {o.func for o in g.pipeline.outputs}
    over = judge.over(step.part, step.schedule)
    over = {b.name: over[b.name] for b in step.part.outputs if b.name in over and b.func not in results}
    return Task(step.name, read, made, 0, after, over)


def _bytes(g: Graph, b: Buffer) -> int:
    return g.works[b.func].elements * b.func.dtypes[b.component].bytes


def _given(g: Graph) -> int:
    """The bytes of all inputs, as far as they are read."""
    return sum(g.read(a) for a in _inputs(g))


def _inputs(g: Graph) -> list[Array | InoutFunc]:
    seen = {t for w in g.works.values() for t in w.reads if isinstance(t, (Array, InoutFunc))}
    named = {t.name: t for t in seen}
    return [named[n] for n in sorted(named)]


def _cost(g: Graph, step: Step, engine: float | None) -> Cost:
    """What a step takes. Of one with an account the cores' waiting is loading: the rest of it overlaps within the step."""
    if engine is None:
        return Cost(work=step.region.cycles)
    free = sum(g.read(s) for s in step.part.inputs if isinstance(s, (Array, InoutFunc))) / engine
    bound = sum(_bytes(g, s) for s in step.part.inputs if isinstance(s, Buffer)) / engine
    time = None if step.staged is None or step.staged.account is None else step.staged.account.time
    if time is None:
        computing = sum(g.computing[f] for f in step.region.members)
        return Cost(free, bound, max(computing, step.region.cycles - free - bound))
    waiting = (time.cycles - time.busy) / ((free + bound) or 1.0)
    return Cost(waiting * free, waiting * bound, time.cycles if free + bound == 0 else time.busy)


def cores_of(machine: Machine) -> int:
    """On how many cores steps run: of this computer, which is described as one core, the threads that calls have."""
    return default_threads() if machine.name == HOST else machine.compute.cores


def _share(g: Graph, step: Step, machine: Machine, cores: int) -> Share:
    cost = step.region.cost
    alone = cost.cycles + cost.computing * (machine.compute.cores - 1)  # rates are of all cores that are described
    moved = min(cost.bytes / machine.main.read_bandwidth, cost.cycles)
    return Share.of(alone, moved, cores, g.works[step.region.root].elements)


# Capacity ---------------------------------------------------------------------------------------------------------


def _fits(peak: int, model: Model) -> str:
    """The innermost memory that holds so many bytes."""
    named = [m for m in reversed(model.machine.memories) if m.kind != "registers"]
    return next((m.name for m in named if m.capacity is None or peak <= m.capacity), "")


def _too_large(g: Graph, x: _Problem, order: Order, model: Model) -> PlanError:
    at = lives(order.tasks, order.groups, x.keep)
    inputs, main = _given(g), model.machine.main
    largest = sorted(at.at(at.when).items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{n} ({size:,} B)" for n, size in largest[:6])
    more = f" and {len(largest) - 6} more" if len(largest) > 6 else ""
    return PlanError(
        f"{main.name} of {model.machine.name} holds {main.capacity:,} B: {g.pipeline.name} takes {inputs + order.peak:,} B,"
        f" {inputs:,} B of inputs and, while {order.tasks[at.when].name} runs, {listed}{more}",
        code="plan.capacity", where=user_location(),
        hint="no order takes less and nothing is left to compute again: smaller sizes, or a machine with more memory",
    )  # fmt: skip


__all__ = ["Policy", "policy_of", "put_in_order"]

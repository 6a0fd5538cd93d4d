"""Plans for sizes that vary: points that stand for a range, and the plan that is best over all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from tilewright.hw import CapacityError, Machine, SimulationError
from tilewright.lang.binding import bind_scalars, check_all_sizes, check_regions, index_scalars
from tilewright.lang.errors import ArgumentError, TilewrightError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import Env, index_values
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal, Point, Range, ValidFor
from tilewright.planner.graph import Graph, make_graph
from tilewright.planner.model import Model
from tilewright.planner.plan import Plan, make_plan
from tilewright.planner.region import fits, recosted

# Reading sizes ----------------------------------------------------------------------------------------------------


def read_sizes(p: Pipeline, sizes: Mapping[str, int | Range], scalars: Mapping[str, object]) -> dict[str, Range]:
    """Sizes as ranges, checked at both ends against the pipeline: all are there, none is negative, no extent is, and no
    input is too small for what is read of it.

    Raises ArgumentError as a call with such sizes does, PlanError `plan.sizes` for what is no range.
    """
    if not isinstance(sizes, Mapping):
        check_all_sizes(p, sizes)  # says what sizes are
    ranges = {name: _range(p, name, given) for name, given in sizes.items()}
    missing = [n for n in index_scalars(p) if n not in scalars]
    if missing:
        raise ArgumentError(
            f"{p.name}: indices go by the scalar{'s' * (len(missing) > 1)} {', '.join(missing)}, of which no value is given",
            code="argument.missing", where=user_location(), hint=f"scalars=dict({missing[0]}=...): the value to plan for",
        )  # fmt: skip
    known = bind_scalars(p, scalars)
    for end in (0, 1):
        _check_at(p, {n: r[end] for n, r in ranges.items()}, known)
    return {n: ranges[n] for n in p.sizes}


def _range(p: Pipeline, name: str, given: object) -> Range:
    if not isinstance(given, (tuple, list)):
        return given, given  # type: ignore[return-value]  # checked with all others
    if len(given) != 2:
        raise _no_range(p, name, f"is {given!r:.60}", "a number, or a range of two numbers: (low, high)")
    low, high = given
    if all(isinstance(x, int) for x in given) and low > high:
        raise _no_range(p, name, f"runs from {low} to {high}", f"the lower end first: {name}=({high}, {low})")
    return low, high


def _no_range(p: Pipeline, name: str, problem: str, legal: str) -> TilewrightError:
    return PlanError(f"{p.name}: size {name} {problem}", code="plan.sizes", where=user_location(), hint=legal)


def _check_at(p: Pipeline, sizes: Mapping[str, int], scalars: Mapping[str, object]) -> None:
    check_all_sizes(p, sizes)
    env = {**sizes, **scalars}
    for a in p.arrays:
        for axis, n in enumerate(index_values(a.extents, env)):
            if n < 0:
                raise PlanError(
                    f"{p.name}: axis {axis} of {a.name} is {n} at {_at(sizes)}", code="plan.sizes",
                    where=(user_location(), p.location), hint=f"sizes at which {a.extents[axis]!r} is not negative",
                )  # fmt: skip
    check_regions(p, env)


def _at(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in sizes.items())


# Planning ---------------------------------------------------------------------------------------------------------


def points_of(ranges: Mapping[str, Range]) -> tuple[dict[str, int], ...]:
    """Where a plan is looked at: all sizes at their lowest, in their geometric middle, and at their highest."""
    ends = [
        {n: r[0] for n, r in ranges.items()},
        {n: min(hi, max(lo, round(math.sqrt(max(1, lo) * hi)))) for n, (lo, hi) in ranges.items()},
        {n: r[1] for n, r in ranges.items()},
    ]
    return tuple(p for k, p in enumerate(ends) if p not in ends[:k])


def plan_ranges(
    p: Pipeline, machine: Machine, ranges: Mapping[str, Range], scalars: Env, goal: Goal, weights: Iterable[str] = ()
) -> Plan:
    """A plan is made for each point of the ranges, and of these the one is taken that is best over all points: whose
    tiles fit at the most of them, then the one with the least time relative to the best at each."""
    points = [{**at, **scalars} for at in points_of(ranges)]
    if len(points) == 1:
        return replace(make_plan(p, machine, points[0], goal, weights), valid_for=ValidFor(dict(ranges)))
    candidates = list(_candidates(p, machine, points, goal, weights))
    compare = _Comparison(Model(machine, goal))
    costs = [[compare.cost(plan, at) for at in points] for plan in candidates]
    best = [min(c[k][0] for c in costs) for k in range(len(points))]

    def rank(k: int) -> tuple[int, float, int]:
        tight = sum(bool(names) for _, names in costs[k])
        return tight, sum(_ratio(c, b) for (c, _), b in zip(costs[k], best, strict=True)), k

    chosen = min(range(len(points)), key=rank)
    seen = tuple(
        Point(at, c, _ratio(c, b), tight) for at, (c, tight), b in zip(points, costs[chosen], best, strict=True)
    )
    late = any(c.late for c in candidates)
    return replace(candidates[chosen], goal=goal, valid_for=ValidFor(dict(ranges), seen), late=late)


def _candidates(
    p: Pipeline, machine: Machine, points: list[dict[str, int]], goal: Goal, weights: Iterable[str]
) -> Iterator[Plan]:
    """A plan for each point; what one leaves of the time for all is for those that come after it."""
    end = time.monotonic() + goal.budget_s
    for k, at in enumerate(points):
        left = (end - time.monotonic()) / (len(points) - k)
        share = max(left, goal.budget_s / (10 * len(points)))  # none goes without
        yield make_plan(p, machine, at, replace(goal, budget_s=share), weights)


def _ratio(cost: float, best: float) -> float:
    return 1.0 if cost == best else cost / max(1.0, best)


class _Comparison:
    """What plans take at sizes that they were not made for; graphs of the same sizes are made once."""

    def __init__(self, model: Model):
        self.model = model
        self.graphs: dict[tuple, Graph] = {}

    def cost(self, plan: Plan, sizes: Env) -> tuple[float, tuple[str, ...]]:
        """What the steps of a plan take, and those of which tiles do not fit: where tiles are staged in a scratchpad by
        their accounts (more than any time, where they do not fit), otherwise by the model of regions."""
        if self.model.staged:
            with suppress(SimulationError):  # where loops go by data there are no accounts
                return self._accounted(plan, sizes)
        g = self._graph(plan, sizes)
        regions = [recosted(g, self.model, s.region) for s in plan.steps]
        tight = () if self.model.staged else tuple(r.root.name for r in regions if not fits(g, self.model, r))
        return sum(r.cycles for r in regions), tight

    def _accounted(self, plan: Plan, sizes: Env) -> tuple[float, tuple[str, ...]]:
        try:
            found = plan.account(sizes)
        except CapacityError:
            return math.inf, tuple(s.name for s in plan.steps if s.staged is not None)
        return (math.inf if found.cycles is None else found.cycles), ()

    def _graph(self, plan: Plan, sizes: Env) -> Graph:
        kept = {f for s in plan.steps for f in s.region.members}
        inlined = tuple(f for f in plan.pipeline.funcs if f not in kept)
        key = tuple(sizes.items()), inlined
        if key not in self.graphs:
            self.graphs[key] = make_graph(plan.pipeline, sizes, self.model, inlined)
        return self.graphs[key]


__all__ = ["plan_ranges", "points_of", "read_sizes"]

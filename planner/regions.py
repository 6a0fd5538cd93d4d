"""Fusion: which Funcs are computed together.

A region has a root, which is stored whole, and members that are computed in tiles of the root. A Func joins the region of
its readers (or each of their regions, which then compute it again) if they then take less time than all apart: traffic is
held against what is read or computed once for every tile. What was decided early is looked at once more (`regroup`).
"""

from __future__ import annotations

from tilewright.lang.func import Func, InoutFunc
from tilewright.planner.budget import Budget
from tilewright.planner.graph import Graph
from tilewright.planner.model import Model
from tilewright.planner.region import Region, best_region
from tilewright.planner.regroup import GAIN, SLACK, given, join_groups, regroup

_CLEAR = 0.95  # what is computed again, or is one more result of a region, needs a clear gain
_COPIES = 4  # regions that may compute a Func each


def form_regions(g: Graph, model: Model, budget: Budget | None = None) -> tuple[Region, ...]:
    """The regions of a graph, producers first: every kept Func is in one, or in several that compute it each.

    A state of the `budget` (by default one of the model's goal) is a tile that is looked at; once it is spent, Funcs stay
    alone.
    """
    budget = budget or Budget(model.goal)
    where: dict[Func, tuple[Func, ...]] = {}  # the roots of the regions that a Func is in
    regions: dict[Func, Region] = {}
    least: dict[Func, float] = {}  # what a region's Funcs cost in the cheapest regions that were seen
    for f in reversed(g.kept):
        alone = best_region(g, model, (f,), budget)
        into = tuple(dict.fromkeys(root for r in g.readers(f) for root in where[r]))
        if 0 < len(into) <= _COPIES and f not in g.results:
            together = [
                best_region(g, model, (f, *regions[root].members), budget, regions[root].siblings) for root in into
            ]
            costs, parted = [r.cost.of(model) for r in together], alone.cost.of(model)
            before = [regions[r].cost.of(model) for r in into]
            simple = len(into) == 1 and not (f.updates and any(x.updates for x in regions[into[0]].members))
            if _joins(model, simple, sum(costs), before, [least[r] for r in into], parted):
                regions.update(zip(into, together, strict=True))
                least.update({r: min(c, parted + least[r]) for r, c in zip(into, costs, strict=True)})
                where[f] = into
                continue
        root = None if model.staged else _as_result(g, model, f, into, regions, alone, budget)
        if root is not None:
            where[f], least[root] = (root,), regions[root].cost.of(model)
            continue
        regions[f], where[f], least[f] = alone, (f,), alone.cost.of(model)
    if model.staged:
        join_groups(g, model, regions, least, budget)
    else:
        regroup(g, model, regions, budget)
    return tuple(regions[f] for f in g.kept if f in regions)


def _joins(model: Model, simple: bool, together: float, regions: list[float], least: list[float], alone: float) -> bool:
    """Whether a Func joins regions for what they then take together; `simple`: no two reductions share loops."""
    if model.staged:
        return len(regions) == 1 and together < given(model) * (alone + least[0])
    most = _CLEAR if len(regions) > 1 else SLACK if simple else GAIN
    return together < most * (alone + sum(regions))


def _as_result(
    g: Graph, model: Model, f: Func, into: tuple[Func, ...], regions: dict[Func, Region], alone: Region, budget: Budget
) -> Func | None:
    """Whether a reduction that others need as well joins the one pass of those that follow from it, as one more result of
    their region: the root of that."""
    for root in into if f.updates and not isinstance(f, InoutFunc) else ():
        r = regions[root]
        together = best_region(g, model, (f, *r.members), budget, (f, *r.siblings))
        if together.cost.of(model) < _CLEAR * (alone.cost.of(model) + r.cost.of(model)):
            regions[root] = together
            return root
    return None


__all__ = ["form_regions"]

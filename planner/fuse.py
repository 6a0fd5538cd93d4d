"""The first half of planning: what is inlined, which regions there are, and a second look at what they left in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import Env
from tilewright.planner.budget import Budget
from tilewright.planner.graph import Graph, make_graph
from tilewright.planner.inlining import choose_inlined
from tilewright.planner.model import Model
from tilewright.planner.region import Region
from tilewright.planner.regions import form_regions
from tilewright.planner.siblings import join_siblings


def fuse(p: Pipeline, sizes: Env, model: Model, budget: Budget) -> tuple[Graph, tuple[Region, ...]]:
    """A pipeline at given sizes as a graph, and its regions.

    What is inlined is chosen as if all else could stay near. Pure Funcs that ended up in memory all the same are weighed
    once more by what that costs, and the regions that follow are taken if they cost less.
    """
    g = make_graph(p, sizes, model)
    regions = _regions(g, model, budget)
    if model.staged:
        return g, regions
    far = frozenset(
        r.root for r in regions if not r.root.updates and r.root not in g.results and r.root.init is not None
    )
    inlined = choose_inlined(p, g.works, model, far)
    if inlined == g.inlined:
        return g, regions
    again = make_graph(p, sizes, model, inlined)
    others = _regions(again, model, budget)
    return (again, others) if _cost(others, model) < _cost(regions, model) else (g, regions)


def _regions(g: Graph, model: Model, budget: Budget) -> tuple[Region, ...]:
    regions = form_regions(g, model, budget)
    return regions if model.staged else join_siblings(g, model, regions)


def _cost(regions: Sequence[Region], model: Model) -> float:
    return sum(r.cost.of(model) for r in regions)


__all__ = ["fuse"]

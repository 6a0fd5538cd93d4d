"""Fusion: which Funcs are computed together, tile by tile, so that what passes between them stays near.

A region has a root, which is stored whole, and members that are computed in tiles of the root. A Func joins the region of
its readers (or each of their regions, which then compute it again) if they then take less time than all apart: traffic is
held against what is read or computed once for every tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Tensor
from tilewright.planner.budget import Budget
from tilewright.planner.cost import BLOCKS, Cost, Runs, Shapes, Tile, cost, depths, staged_cost, sum_of
from tilewright.planner.graph import Graph
from tilewright.planner.meeting import Met, joined
from tilewright.planner.model import Model
from tilewright.planner.online import Group, find_group

# What a region may take of what its parts take. The model does not tell apart what differs by little: then fewer regions
# are better, as long as loops stay simple; reductions join others for a gain, what is computed again for a clear one.
_SLACK, _GAIN, _CLEAR = 1.02, 1.0, 0.95
_FAR = 8  # regions that are looked at together for dependent reductions
_STAGED = 1.15  # where engines copy, which takes no cycles: how many times as many may be taken to store less
_WIDTHS = (448, 224, 112, 56, 28, 16, 8, 4, 2, 1)
_SMALL = 64  # elements of a root that need not be cut: what it is made of is computed one after the other
_COPIES = 4  # regions that may compute a Func each
_BLOCKS = (512, 256, 128, 64, 32, 16)


@dataclass(frozen=True)
class Region:
    """Funcs that are computed together. `members` are in order, the root last; `runs` says for each of them, and for each
    tensor from outside, how it runs with the root's axes, and `depths` in how many of the loops around a tile each member
    is computed. `cost` is what it is thought to take. `siblings` are members that are results as the root is."""

    members: tuple[Func, ...]
    runs: Mapping[Tensor, Runs]
    tile: Tile
    depths: Mapping[Func, int]
    cost: Cost
    group: Group | None = None
    siblings: tuple[Func, ...] = ()

    @property
    def results(self) -> tuple[Func, ...]:
        """What the region stores whole."""
        return (*self.siblings, self.root)

    @property
    def root(self) -> Func:
        return self.members[-1]

    @property
    def cycles(self) -> float:
        return self.cost.cycles


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
        alone = _best(g, model, (f,), budget)
        into = tuple(dict.fromkeys(root for r in g.readers(f) for root in where[r]))
        if 0 < len(into) <= _COPIES and f not in g.results:
            together = [_best(g, model, (f, *regions[root].members), budget, regions[root].siblings) for root in into]
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
        _join_groups(g, model, regions, least, budget)
        return tuple(regions[f] for f in g.kept if f in regions)
    for root in list(regions):
        _part(g, model, regions, root, budget)
    return tuple(regions[f] for f in g.kept if f in regions)


def _join_groups(
    g: Graph, model: Model, regions: dict[Func, Region], least: dict[Func, float], budget: Budget
) -> None:  # fmt: skip
    """Join regions over which dependent reductions are spread: in one pass all may fit where some of them don't."""
    for root in [f for f in reversed(g.kept) if f in regions]:
        if root not in regions:
            continue
        members, apart, taken = regions[root].members, least[root], [root]
        for f in reversed(g.kept):
            if f not in regions or f in taken or f in g.results or len(taken) == _FAR:
                continue
            if not g.readers(f) or not set(g.readers(f)) <= set(members):
                continue
            inside = {*regions[f].members, *members}
            members, apart = tuple(x for x in g.kept if x in inside), apart + least[f]
            taken.append(f)
            if find_group(g, members) is None:
                continue
            joined = _best(g, model, members, budget)
            if joined.cost.of(model) < _given(model) * apart:
                for x in taken:
                    del regions[x]
                regions[root], taken = joined, [root]
                least[root] = apart = min(joined.cost.of(model), apart)


def _given(model: Model) -> float:
    """How many times the cost of regions apart one may have on a machine with a scratchpad."""
    return _STAGED if model.goal.objective == "latency" else _SLACK


def _joins(model: Model, simple: bool, together: float, regions: list[float], least: list[float], alone: float) -> bool:
    """Whether a Func joins regions for what they then take together; `simple`: no two reductions share loops."""
    if model.staged:
        return len(regions) == 1 and together < _given(model) * (alone + least[0])
    most = _CLEAR if len(regions) > 1 else _SLACK if simple else _GAIN
    return together < most * (alone + sum(regions))


def _as_result(
    g: Graph, model: Model, f: Func, into: tuple[Func, ...], regions: dict[Func, Region], alone: Region, budget: Budget
) -> Func | None:
    """Whether a reduction that others need as well joins the one pass of those that follow from it, as one more result of
    their region: the root of that."""
    for root in into if f.updates and not isinstance(f, InoutFunc) else ():
        r = regions[root]
        together = _best(g, model, (f, *r.members), budget, (f, *r.siblings))
        if together.cost.of(model) < _CLEAR * (alone.cost.of(model) + r.cost.of(model)):
            regions[root] = together
            return root
    return None


def _part(g: Graph, model: Model, regions: dict[Func, Region], root: Func, budget: Budget) -> None:
    """Part a region in two, and these again, where that costs less: what joined early may have kept others from a region
    of their own."""
    region = regions[root]
    if region.siblings:
        return
    best, least = None, region.cost.of(model) / _SLACK
    for f in region.members[:-1]:
        above = _only_through(g, region.members, f)
        if len(above) > 1 and not any(f in r.members for x, r in regions.items() if x is not root):
            first = _best(g, model, above, budget)
            second = _best(g, model, tuple(x for x in region.members if x not in above), budget)
            if first.cost.of(model) + second.cost.of(model) < least:
                best, least = (first, second), first.cost.of(model) + second.cost.of(model)
    if best is not None:
        for r in best:
            regions[r.root] = r
            _part(g, model, regions, r.root, budget)


def _only_through(g: Graph, members: tuple[Func, ...], f: Func) -> tuple[Func, ...]:
    """The members that the last one reads through `f` alone, and `f`, in order."""
    found = {f}
    for x in reversed(members[: members.index(f)]):
        if all(r in found for r in g.readers(x) if r in members):
            found.add(x)
    return tuple(x for x in members if x in found)


def recosted(g: Graph, model: Model, region: Region) -> Region:
    """A region in the graph of other sizes than those that it was made for: its tile as it is, and what it takes there.

    Where the tile does not fit, it is thought to take what its members take one by one.
    """
    shapes = _shapes(g, region.members)[0]
    found = cost(shapes, model, region.tile)
    if not found.possible:
        budget = Budget(model.goal)
        found = sum_of(_best(g, model, (f,), budget).cost for f in region.members)
    return replace(region, cost=found)


def fits(g: Graph, model: Model, region: Region) -> bool:
    """Whether what passes between the members of a region, a tile at a time, stays near at the sizes of this graph."""
    return cost(_shapes(g, region.members)[0], model, region.tile).possible


def _shapes(g: Graph, members: tuple[Func, ...]) -> tuple[Shapes, dict[Tensor, Runs], Group | None]:
    group = find_group(g, members)
    runs = _runs(g, members, group)
    return Shapes.of(g, members, runs, None if group is None else group.domain), runs, group


def _best(g: Graph, model: Model, members: tuple[Func, ...], budget: Budget, siblings: tuple[Func, ...] = ()) -> Region:
    """The region of these Funcs with the tile that costs least, the largest of several. Equal layers are looked at once."""
    shapes, runs, group = _shapes(g, members)
    if model.staged:
        from tilewright.planner.staging import region_estimate

        e = region_estimate(g, members, group, model, budget)
        found = Cost.never() if e is None else staged_cost(shapes, e.cycles, e.traffic, float(e.peak))
        return Region(members, runs, Tile(), {}, found, group)
    key = shapes, None if group is None else len(group.members), tuple(members.index(f) for f in siblings)
    if key not in g.tried:
        best, least = Tile(), Cost.never()
        for k, tile in enumerate(_tiles(g, members, group, siblings)):
            if not budget.spend("regions") and (k or len(members) > 1):  # the first tile of a Func alone is the whole
                break
            found = cost(shapes, model, tile)
            if found.of(model) < least.of(model):
                best, least = tile, found
        g.tried[key] = best, least
    tile, least = g.tried[key]
    at = dict(zip(reversed(members), depths(shapes, tile), strict=False))
    return Region(members, runs, tile, at, least, group if tile.block else None, siblings)


def _tiles(g: Graph, members: tuple[Func, ...], group: Group | None, siblings: tuple[Func, ...]) -> Iterator[Tile]:
    """The ways to cut the root: not at all (where it is small, or its reductions go in blocks), or leading axes an index
    at a time and one more in strips. What several results need is in blocks of a loop at the root."""
    root = members[-1]
    extents = g.works[root].extents
    blocks = () if group is None else tuple(b for b in _BLOCKS if b < group.domain)
    if not siblings and (len(members) == 1 or math.prod(extents) <= _SMALL):
        yield Tile()
    if isinstance(root, InoutFunc) or any(group is None or f not in group.members for f in siblings):
        return
    yield from (Tile((), b) for b in blocks)
    for axis in g.free(root) if not siblings else ():
        leading = [a for a in g.free(root) if a < axis]
        for alone in range(len(leading) + 1):
            before = tuple((a, 1) for a in leading[:alone])
            for width in (w for w in _WIDTHS if w < extents[axis] or w == 1):
                yield from (Tile((*before, (axis, width)), b) for b in (0, *blocks))


def _runs(g: Graph, members: tuple[Func, ...], group: Group | None) -> dict[Tensor, Runs]:
    """How members and what they read run with the root's axes, wherever they are read."""
    root = members[-1]
    found: dict[Tensor, Runs] = {root: {a: Met(a) for a in g.free(root)}}
    for f in reversed(members):
        free = g.free(f)
        own = {a: m for a, m in found[f].items() if m.axis in free}
        found[f] = own
        axes: dict[int | str, list[tuple[int, Met | None]]] = {}
        for a, m in own.items():
            axes.setdefault(m.axis, []).append((a, m))
        if group is not None and f in group.members:
            axes[group.over] = [(BLOCKS, None)]
        for t, met in g.sources(f).items():
            through = {a: m if o is None else m.through(o) for x, m in met.items() for a, o in axes.get(x, ())}
            found[t] = joined(found[t], through) if t in found else through
    return found


__all__ = ["Region", "fits", "form_regions", "recosted"]

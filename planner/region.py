"""A region: Funcs that are computed together, tile by tile, so that what passes between them stays near; and the tile that
makes that cheapest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.lang import ir
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Tensor
from tilewright.planner.budget import Budget
from tilewright.planner.cost import BLOCKS, Cost, Runs, Shapes, Tile, cost, depths, staged_cost, sum_of
from tilewright.planner.graph import Graph
from tilewright.planner.meeting import Met, joined
from tilewright.planner.model import Model
from tilewright.planner.online import Group, find_group

_POWERS = (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)  # widths of parts of the last axis, which lies in vectors
_WIDTHS = (448, 224, 112, 56, 28, 16, 8, 4, 2, 1)
_SMALL = 64  # elements of a root that need not be cut: what it is made of is computed one after the other
_MOST = 24  # members of a region
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


def recosted(g: Graph, model: Model, region: Region) -> Region:
    """A region in the graph of other sizes than those that it was made for: its tile as it is, and what it takes there.

    Where the tile does not fit, it is thought to take what its members take one by one.
    """
    found = _cost(g, model, region)
    if not found.possible:
        budget = Budget(model.goal)
        found = sum_of(best_region(g, model, (f,), budget).cost for f in region.members)
    return replace(region, cost=found)


def fits(g: Graph, model: Model, region: Region) -> bool:
    """Whether what passes between the members of a region, a tile at a time, stays near at the sizes of this graph."""
    return _cost(g, model, region).possible


def _cost(g: Graph, model: Model, region: Region) -> Cost:
    """What a region costs in a graph, in its tile."""
    members = region.members
    if all(any(r in members for r in g.readers(f)) for f in members[:-1]):
        return cost(_shapes(g, members)[0], model, region.tile)
    # results that do not need each other; their module imports this one
    from tilewright.planner.siblings import cost_together

    return cost_together(g, model, region)


def _shapes(g: Graph, members: tuple[Func, ...]) -> tuple[Shapes, dict[Tensor, Runs], Group | None]:
    group = find_group(g, members)
    runs = _runs(g, members, group)
    return Shapes.of(g, members, runs, None if group is None else group.domain), runs, group


def best_region(
    g: Graph, model: Model, members: tuple[Func, ...], budget: Budget, siblings: tuple[Func, ...] = ()
) -> Region:
    """The region of these Funcs with the tile that costs least, the largest of several. Equal layers are looked at once."""
    shapes, runs, group = _shapes(g, members)
    if model.staged:
        from tilewright.planner.staging import region_estimate

        e = region_estimate(g, members, group, model, budget)
        least = Cost.never() if e is None else staged_cost(shapes, e.cycles, e.traffic, float(e.peak))
        return Region(members, runs, Tile(), {}, least, group)
    if not _can_be_cut(g, members):
        return Region(members, runs, Tile(), {}, Cost.never(), group, siblings)
    key = shapes, None if group is None else len(group.members), tuple(members.index(f) for f in siblings)
    if key not in g.tried:
        best, least = Tile(), Cost.never()
        for k, tile in enumerate(_tiles(g, members, runs, group, siblings)):
            if not budget.spend("regions") and (k or len(members) > 1):  # the first tile of a Func alone is the whole
                break
            if tile.block and group is not None and not _in_one_pass(g, shapes, tile, members, runs, group):
                continue
            found = cost(shapes, model, tile)
            if found.of(model) < least.of(model):
                best, least = tile, found
        g.tried[key] = best, least
    tile, least = g.tried[key]
    at = dict(zip(reversed(members), depths(shapes, tile), strict=False))
    return Region(members, runs, tile, at, least, group if tile.block else None, siblings)


def _can_be_cut(g: Graph, members: tuple[Func, ...]) -> bool:
    """Whether members may be computed in loops of the root: of its last update, so that no other stage of it reads them.
    A region of more members takes longer to schedule and to compile than its traffic is worth."""
    inside, root = set(members[:-1]), members[-1]
    read = {n.attr[0] for body in g.bodies[root][:-1] for n in ir.leaves(body.roots, "load")}
    return len(members) <= _MOST and inside.isdisjoint(read)


def _in_one_pass(
    g: Graph, s: Shapes, tile: Tile, members: tuple[Func, ...], runs: Mapping[Tensor, Runs], group: Group
) -> bool:
    """Whether dependent reductions are computed in the same loop, and what stands between them in their blocks."""
    at = dict(zip(reversed(members), depths(s, tile), strict=False)) | {members[-1]: 0}  # the root is around its tiles
    follows: set[Func] = set()  # of what depends on the group
    leads: set[Func] = set()  # to it
    for f in members:
        if any(t in follows or t in group.members for t in g.sources(f)):
            follows.add(f)
    for f in reversed(members):
        if any(r in leads or r in group.members for r in g.readers(f)):
            leads.add(f)
    between = (follows & leads).difference(group.members)
    blocked = {f for f in between for r in g.readers(f) if r in group.members and group.over in g.sources(r)[f]}
    return len({at[f] for f in group.members}) == 1 and all(BLOCKS in runs[f] for f in blocked)


def _tiles(
    g: Graph, members: tuple[Func, ...], runs: Mapping[Tensor, Runs], group: Group | None, siblings: tuple[Func, ...]
) -> Iterator[Tile]:
    """The ways to cut the root: not at all (where it is small, or its reductions go in blocks), or leading axes an index
    at a time and one more in strips. What several results need is in blocks of a loop at the root. A last axis that is
    several of others in one (heads side by side) is cut around the strips of the one before."""
    root = members[-1]
    extents = g.works[root].extents
    blocks = () if group is None else tuple(b for b in _BLOCKS if b < group.domain)
    if not siblings and (len(members) == 1 or math.prod(extents) <= _SMALL):
        yield Tile()
    if isinstance(root, InoutFunc) or any(group is None or f not in group.members for f in siblings):
        return
    yield from (Tile((), b) for b in blocks)
    free = g.free(root) if not siblings else ()
    for axis in free:
        leading = [a for a in free if a < axis]
        for alone in range(len(leading) + 1):
            before = tuple((a, 1) for a in leading[:alone])
            yield from (Tile((*before, (axis, w)), b) for w in _widths(extents, axis) for b in (0, *blocks))
    last = len(extents) - 1
    if group is not None and last in free and any(last in r and r[last].slope != 1 for r in runs.values()):
        for axis in (a for a in free if a == last - 1):
            strips = [((last, w), (axis, v)) for w in _widths(extents, last) for v in _widths(extents, axis)]
            yield from (Tile(cuts, b) for cuts in strips for b in (0, *blocks))


def _widths(extents: tuple[int, ...], axis: int) -> list[int]:
    widths = _POWERS if axis and axis == len(extents) - 1 else _WIDTHS
    return [w for w in widths if w < extents[axis] or w == 1]


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


__all__ = ["Region", "best_region", "fits", "recosted"]

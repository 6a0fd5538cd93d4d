"""Fusion: which Funcs are computed together, tile by tile, so that what passes between them stays near.

A region has a root, which is stored whole, and members that are computed in tiles of the root. A Func joins the region of
its readers if the region then takes less time than both apart: traffic is held against what is read or computed once for
every tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Tensor
from tilewright.planner.budget import Budget
from tilewright.planner.graph import Graph
from tilewright.planner.model import Level, Model
from tilewright.planner.online import Group, find_group

_LAUNCH = 2000.0  # cycles that a region takes besides its work: a call, threads that start, caches that warm up
_SLACK = 1.02  # what the model does not tell apart: then fewer regions are better
_STAGED = 1.15  # where engines copy, which takes no cycles meanwhile: what may be given in all to store less in main memory
_START = 50.0  # cycles that a member takes for each tile besides its work: loops that begin and end
_WIDTHS = (448, 224, 112, 56, 28, 16, 8, 4, 2, 1)
_BLOCKS = (512, 256, 128, 64, 32, 16)

BLOCKS = -1  # stands among the root's axes for the domain of a group of dependent reductions

Runs = Mapping[int, int]  # axes of the root, and BLOCKS -> those of a tensor that run with them


@dataclass(frozen=True)
class Tile:
    """How the root is cut: its first `alone` axes an index at a time, and one more, `axis`, in strips of `width`.

    With `block`, dependent reductions go over their domain in blocks of so many points, in one pass (`online`).
    """

    alone: int = 0
    axis: int | None = None
    width: int = 0
    block: int = 0

    @property
    def whole(self) -> bool:
        return not self.alone and self.axis is None


@dataclass(frozen=True)
class Region:
    """Funcs that are computed together. `members` are in order, the root last; `runs` says for each of them, and for each
    tensor from outside, which of its axes run with which of the root's. `cycles` is what it is thought to take."""

    members: tuple[Func, ...]
    runs: Mapping[Tensor, Runs]
    tile: Tile
    cycles: float
    group: Group | None = None

    @property
    def root(self) -> Func:
        return self.members[-1]


def form_regions(g: Graph, model: Model, budget: Budget | None = None) -> tuple[Region, ...]:
    """The regions of a graph, producers first: every kept Func is in one. A state of the `budget` (by default one of
    the model's goal) is a tile that is looked at; once it is spent, Funcs stay alone."""
    budget = budget or Budget(model.goal)
    where: dict[Func, Func] = {}  # the root of the region that a Func is in
    regions: dict[Func, Region] = {}
    least: dict[Func, float] = {}  # what a region's Funcs take in the fastest regions that were seen
    for f in reversed(g.kept):
        alone = _best(g, model, (f,), budget)
        into = {where[r] for r in g.readers(f)}
        if len(into) == 1 and f not in g.results:
            (root,) = into
            joined = _best(g, model, (f, *regions[root].members), budget)
            apart = alone.cycles + least[root]
            limit = _STAGED * apart if model.staged else _SLACK * (alone.cycles + regions[root].cycles)
            if joined.cycles < limit:
                regions[root], where[f], least[root] = joined, root, min(joined.cycles, apart)
                continue
        regions[f], where[f], least[f] = alone, f, alone.cycles
    return tuple(regions[f] for f in g.kept if f in regions)


def recosted(g: Graph, model: Model, region: Region) -> Region:
    """A region in the graph of other sizes than those that it was made for: its tile as it is, and what it takes there.

    Where the tile does not fit, it is thought to take what its members take one by one.
    """
    group = None if region.group is None else find_group(g, region.members)
    found = Region(region.members, _runs(g, region.members, group), region.tile, math.inf, group)
    cycles = _cycles(g, model, found, region.tile)
    if math.isinf(cycles):
        budget = Budget(model.goal)
        cycles = sum(_best(g, model, (f,), budget).cycles for f in region.members)
    return replace(found, cycles=cycles)


def fits(g: Graph, model: Model, region: Region) -> bool:
    """Whether what passes between the members of a region, a tile at a time, stays near at the sizes of this graph."""
    return math.isfinite(_cycles(g, model, region, region.tile))


def _best(g: Graph, model: Model, members: tuple[Func, ...], budget: Budget) -> Region:
    """The region of these Funcs with the tile that makes it fastest, the largest of several. Equal layers are looked at
    once."""
    group = find_group(g, members)
    runs = _runs(g, members, group)
    found = Region(members, runs, Tile(), math.inf, group)
    if model.staged:
        from tilewright.planner.staging import region_cycles

        return replace(found, cycles=region_cycles(g, members, group, model, budget) + _LAUNCH)
    key = _outline(g, found)
    if key not in g.tried:
        for k, tile in enumerate(_tiles(g, members, group)):
            if not budget.spend("regions") and (k or len(members) > 1):  # the first tile of a Func alone is the whole
                break
            cycles = _cycles(g, model, found, tile)
            if cycles < found.cycles:
                found = replace(found, tile=tile, cycles=cycles)
        g.tried[key] = found.tile, found.cycles
    tile, cycles = g.tried[key]
    return replace(found, tile=tile, cycles=cycles, group=group if tile.block else None)


def _outline(g: Graph, region: Region) -> tuple:
    """All that the time of a region goes by."""
    inside = {f: g.works[f] for f in region.members}
    tensors = [
        (t in inside, tuple(runs.items()), inside[t].bytes if t in inside else g.read(t))  # type: ignore[index]
        for t, runs in region.runs.items()
    ]
    works = [(w.extents, g.computing[f]) for f, w in inside.items()]
    return tuple(works), tuple(tensors), None if region.group is None else region.group.domain


def _tiles(g: Graph, members: tuple[Func, ...], group: Group | None) -> Iterator[Tile]:
    """The ways to cut the root."""
    extents = g.works[members[-1]].extents
    if len(members) == 1:
        yield Tile()
    if isinstance(members[-1], InoutFunc):
        return
    blocks = (0, *((b for b in _BLOCKS if b < group.domain) if group is not None else ()))
    for alone in range(len(extents)):
        for axis in range(alone, len(extents)):
            for width in (w for w in _WIDTHS if w < extents[axis] or w == 1):
                yield from (Tile(alone, axis, width, b) for b in blocks)


def _runs(g: Graph, members: tuple[Func, ...], group: Group | None) -> dict[Tensor, Runs]:
    """Which axes of members and of what they read run with the root's, wherever they are read."""
    root = members[-1]
    found: dict[Tensor, Runs] = {root: {a: a for a in range(len(g.works[root].extents))}}
    for f in reversed(members):
        own: dict[int | str, int] = {axis: a for a, axis in found[f].items()}
        if group is not None and f in group.members:
            own[group.over] = BLOCKS
        for t, met in g.sources(f).items():
            through = {own[with_]: k for k, with_ in met.items() if with_ in own}
            found[t] = through if t not in found else {a: k for a, k in found[t].items() if through.get(a) == k}
    return found


def _cycles(g: Graph, model: Model, region: Region, tile: Tile) -> float:
    """What a region takes: its arithmetic and its traffic. They overlap in part; regions are ranked by their sum."""
    inside = set(region.members)
    extents = g.works[region.root].extents
    parts = {a: max(1, extents[a]) for a in range(tile.alone)}
    if tile.axis is not None:
        parts[tile.axis] = max(1, -(-extents[tile.axis] // tile.width))
    if tile.block and region.group is not None:
        parts[BLOCKS] = max(1, -(-region.group.domain // tile.block))
    sizes = {t: g.works[t].bytes if t in inside else g.read(t) for t in region.runs}  # type: ignore[index]

    def repeats(t: Tensor) -> int:
        """How often a tensor is computed or read, in whole."""
        return math.prod(n for a, n in parts.items() if a not in region.runs[t] and a != BLOCKS)

    def visits(t: Tensor) -> int:
        """How often it is gone through: what is kept up from block to block is so in each."""
        return repeats(t) if BLOCKS in region.runs[t] else repeats(t) * parts.get(BLOCKS, 1)

    def part(t: Tensor) -> float:
        return sizes[t] / math.prod(n for a, n in parts.items() if a in region.runs[t])

    if any(not parts.keys() & region.runs[f].keys() for f in region.members[:-1]):
        return math.inf  # it would be computed whole for every tile
    near = model.near
    kept = sum(part(t) for t in region.members)  # what passes between them, and the part of the root that is made
    if kept > near.capacity:
        return math.inf
    stays = kept + sum(part(t) for t in region.runs if t not in inside) <= near.capacity

    def again(t: Tensor) -> Level:
        """Where a tensor comes from when it is gone through once more."""
        if stays and BLOCKS not in region.runs[t]:
            return near
        return model.holding(sizes[t] / math.prod(n for a, n in parts.items() if a in region.runs[t] and a != BLOCKS))

    computing = sum(g.computing[f] * repeats(f) for f in region.members)
    moving = 0.0
    for t, size in sizes.items():
        home = model.holding(size)
        if t is region.root or t not in inside:
            moving += size / home.bandwidth + size * (visits(t) - 1) / again(t).bandwidth
        else:
            moving += 2 * size * visits(t) / (home if tile.whole else near).bandwidth
    tiles = math.prod(parts.values())
    return computing + moving + _START * tiles * len(region.members) + _LAUNCH


__all__ = ["BLOCKS", "Region", "Tile", "fits", "form_regions", "recosted"]

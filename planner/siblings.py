"""Sibling fusion: results that do not need each other and read the same large tensor are computed strip by strip together,
so that it comes from memory once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Tensor
from tilewright.planner.cost import LAUNCH, Cost, Shapes, Tile, cost, sum_of
from tilewright.planner.graph import Graph
from tilewright.planner.meeting import Met
from tilewright.planner.model import Model
from tilewright.planner.region import Region

_WIDTHS = (256, 128, 64, 32, 16, 8, 4)
_GAIN = 0.75  # of what they take apart: stores of several results at once cost a part of what is saved


def join_siblings(g: Graph, model: Model, regions: tuple[Region, ...]) -> tuple[Region, ...]:
    """Regions of a single Func that read one tensor, joined in pairs (and pairs of pairs) where that costs less."""
    found = {r.root: r for r in regions}
    for t, readers in _large(g, model, regions).items():
        while len(readers) > 1:
            first, *others = readers
            for second in others:
                pair = _pair(g, model, found[first], found[second], t)
                if pair is not None and _independent(g, found, (first, second)):
                    del found[first]
                    found[second] = pair
                    break
            readers = [r for r in others if r in found]
    return tuple(found[f] for f in g.kept if f in found)


def _large(g: Graph, model: Model, regions: tuple[Region, ...]) -> dict[Tensor, list[Func]]:
    """Tensors that do not stay near until they are read again, and the Funcs that stand alone and read them."""
    found: dict[Tensor, list[Func]] = {}
    for r in regions:
        if len(r.members) == 1 and not isinstance(r.root, InoutFunc):
            for t in g.sources(r.root):
                if g.read(t) > model.near.capacity:
                    found.setdefault(t, []).append(r.root)
    return found


@dataclass(frozen=True)
class _Strip:
    """A region cut along one axis, along which it reads the shared tensor once."""

    region: Region
    axis: int
    met: Met
    cost: Cost


def _strips(g: Graph, model: Model, r: Region, t: Tensor, width: int) -> Iterator[_Strip]:
    """The ways to cut a region in strips; one that has siblings already keeps its axis."""
    for axis, met in r.runs.get(t, {}).items():
        fixed = r.tile.cuts[0][0] if r.siblings else axis
        if axis == fixed and met.same and width < g.works[r.root].extents[axis]:
            costs = []
            for f in (*r.siblings, r.root):
                shapes = Shapes.of(g, (f,), {f: {a: Met(a) for a in g.free(f)}, **g.sources(f)}, None)  # type: ignore[arg-type]
                own = r.runs[f][axis].axis
                costs.append(cost(shapes, model, Tile(((own, width),))))
            yield _Strip(r, axis, met, _shared(g, model, t, costs))


def _shared(g: Graph, model: Model, t: Tensor, costs: list[Cost]) -> Cost:
    """What results cost that read a tensor strip by strip together: after the first they find it near."""
    total, others, size = sum_of(costs), len(costs) - 1, g.read(t)
    saved = size * (1 / model.holding(size).bandwidth - 1 / model.near.bandwidth) + LAUNCH
    return replace(total, cycles=total.cycles - others * saved, bytes=total.bytes - others * size)


def _pair(g: Graph, model: Model, a: Region, b: Region, t: Tensor) -> Region | None:
    """Two regions in one, in the strips that cost least; None if that is no gain."""
    best, least = None, _GAIN * (a.cost.of(model) + b.cost.of(model))
    for width in _WIDTHS:
        for x in _strips(g, model, a, t, width):
            for y in _strips(g, model, b, t, width):
                extents = [g.works[s.region.root].extents[s.axis] for s in (x, y)]
                if x.met != y.met or extents[0] != extents[1] or not (x.cost.possible and y.cost.possible):
                    continue
                strip = g.read(t) * width / max(1, extents[0])
                both = _shared(g, model, t, [x.cost, y.cost])
                both = replace(both, near=x.cost.near + y.cost.near + strip)
                if both.near <= model.near.capacity and both.of(model) < least:
                    best, least = _joined(a, b, x.axis, y.axis, width, both), both.of(model)
    return best


def cost_together(g: Graph, model: Model, region: Region) -> Cost:
    """What such a region costs in a graph of whatever sizes; never, if its strips do not stay near."""
    ((axis, width),) = region.tile.cuts
    results = region.members
    costs = [
        cost(Shapes.of(g, (f,), {f: {a: Met(a) for a in g.free(f)}, **g.sources(f)}, None), model,  # type: ignore[arg-type]
             Tile(((region.runs[f][axis].axis, width),)))
        for f in results
    ]  # fmt: skip
    shared = set(g.sources(results[0])).intersection(*map(g.sources, results[1:]))
    t = max(shared, key=lambda t: (g.read(t), t.name), default=None)
    if t is None:
        return sum_of(costs)
    total = _shared(g, model, t, costs)
    near = total.near + g.read(t) * min(1.0, width / max(1, g.extents(region.root)[axis]))
    return replace(total, near=near) if near <= model.near.capacity else Cost.never()


def _joined(a: Region, b: Region, axis_a: int, axis_b: int, width: int, both: Cost) -> Region:
    """`a` within the strips of `b`: what runs with the axis of the one runs with that of the other."""
    runs = {t: {axis_b: m[axis_a]} if axis_a in m else {} for t, m in a.runs.items()} | dict(b.runs)
    return Region(
        (*a.members, *b.members),
        runs,
        Tile(((axis_b, width),)),
        dict.fromkeys((*a.members, *b.members), 1),
        both,
        siblings=(*a.siblings, a.root, *b.siblings),
    )


def _independent(g: Graph, regions: dict[Func, Region], pair: tuple[Func, Func]) -> bool:
    """Whether neither of two regions needs the other, through whatever regions."""
    where: dict[Func, list[Func]] = {}
    for root, r in regions.items():
        for f in r.members:
            where.setdefault(f, []).append(root)
    for start, end in (pair, pair[::-1]):
        seen, todo = {start}, [start]
        while todo:
            members = regions[todo.pop()].members
            for reader in {x for f in members for x in g.readers(f)}:
                for root in where.get(reader, ()):
                    if root == end:
                        return False
                    if root not in seen:
                        seen.add(root)
                        todo.append(root)
    return True


__all__ = ["cost_together", "join_siblings"]

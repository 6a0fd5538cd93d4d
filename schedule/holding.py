"""Tiles of a stage's own Func (cache_write) in the nest: what they hold at first, and when they are stored back.

tile = earlier values (computed, or loaded from what is around it)
what is inside of the tile's loop, on the tile
what is around it = own points of the tile
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.intervals import intersect
from tilewright.lang.ir import Node
from tilewright.lang.regions import hull, reads, writes
from tilewright.lang.tensors import Tensor
from tilewright.schedule import fusing, storage, tiles
from tilewright.schedule.nest import Allocation, Box, Guard, NestNode, Produce, Storage, sequence
from tilewright.schedule.points import box_points
from tilewright.schedule.ranges import ONE, Range, StageRanges, extent
from tilewright.schedule.state import Stage, WriteCache

if TYPE_CHECKING:
    from tilewright.schedule.build import Builder, Enter


def held(b: Builder, s: Stage, ranges: StageRanges, depth: int, tensor: Tensor, enter: Enter) -> NestNode:
    """What is inside of a stage's loop number `depth` (-1: the whole stage), in the tiles that are held there."""
    here = [c for c in s.tiles if s.depth(c.loop) == depth]

    def hold(k: int, outer: Tensor) -> NestNode:
        if k == len(here):
            return enter(depth + 1, outer)
        cache = here[k]
        own, whole = _boxes(b, s, ranges, depth)
        buffers = _buffers(b, s, ranges, depth, cache)
        tile = buffers[0].tensor
        extents = tuple(e.attr if e.op == "const" else None for e in buffers[0].extents)
        shape = tiles.Shape(extents, cache.memory == "reg", _lanes(b, s, ranges, depth))
        before = _start(b, s, ranges, depth, cache, outer, tile, whole, shape)
        inside = hold(k + 1, tile)
        after = tiles.copy(tile, outer, own, f"{cache.name}.store", shape)
        points = (box_points(f"{cache.name}.store", b.bodies[s.key].func, own),)
        drain = Produce("store", cache.name, tile, own, after, asynchronous=cache.slots > 1, points=points)
        body = sequence(*before, inside, drain)
        return body if cache.slots > 1 else Allocation(buffers, body)

    return hold(0, tensor)


def rings(b: Builder, s: Stage, ranges: StageRanges, depth: int) -> list[Storage]:
    """The buffers of several slots among the tiles of a loop, which live around it."""
    here = [c for c in s.tiles if s.depth(c.loop) == depth and c.slots > 1]
    return [st for c in here for st in _buffers(b, s, ranges, depth, c)]


def _buffers(b: Builder, s: Stage, ranges: StageRanges, depth: int, cache: WriteCache) -> tuple[Storage, ...]:
    """The buffers of a tile, the same whenever they are asked for."""
    loops = ranges.loops[: depth + 1]
    key = s.key, loops[-1].var if loops else ir.TRUE, cache.name
    found = b.tiles.get(key)
    if found is None:
        f = b.bodies[s.key].func
        tile = tiles.Tile(cache.name, f)
        site = b.funcs[s.key[0]].around(s.key) + loops
        made = storage.make(f, _boxes(b, s, ranges, depth)[1], site, cache.memory, cache.layout, cache.name)
        found = tuple(replace(st, tensor=tile) for st in made)
        if cache.slots > 1:
            found = storage.ring(storage.hoisted(cache.name, loops[-1:], found), loops[-1], cache.slots)
        b.tiles[key] = found
    return found


def _boxes(b: Builder, s: Stage, ranges: StageRanges, depth: int) -> tuple[Box, Box]:
    """What one iteration writes, and what it reads or writes, of the stage's own Func."""
    body = b.bodies[s.key]
    env = ranges.env(depth + 1)
    own = writes(body, env)  # type: ignore[arg-type]
    boxes = [own] + [r.box for r in reads(body, env, body.func)]  # type: ignore[arg-type]
    region = b.funcs[s.key[0]].region  # holds all that updates touch, but here less may be known of an index

    def inside(box: Box) -> Box:
        axes = zip(body.lhs, box, region, strict=True)
        return tuple(r if i.op == "var" else intersect(r, whole) for i, r, whole in axes)

    return inside(own), inside(hull(boxes))


def _start(
    b: Builder, s: Stage, ranges: StageRanges, depth: int, cache: WriteCache, outer: Tensor, tile: Tensor, whole: Box,
    shape: tiles.Shape,
) -> list[NestNode]:  # fmt: skip
    """What a tile holds before the loops further in run. Where first values are computed into tiles, they are into
    the innermost one; those around it have them from there, or from here if no step of the reduction runs."""
    f = b.bodies[s.key].func
    if s.key[1] < 0:
        return []  # the pure definition writes every point

    def loaded(how: str) -> NestNode:
        copied = tiles.copy(outer, tile, whole, f"{cache.name}.{how}", shape)
        return Produce(how, cache.name, tile, whole, copied, points=(box_points(f"{cache.name}.{how}", f, whole),))

    load = loaded("load")
    if s.key[1] > 0 or not initial_in_tiles(b, s.key[0]):
        return [load]
    init = b.bodies[(s.key[0], -1)]
    defined = tiles.define(init, tile, whole, f"{cache.name}.init", shape)
    fresh: NestNode = Produce("init", cache.name, tile, whole, defined,
                              points=(box_points(f"{f.name}.init", f, whole),))  # fmt: skip
    begun = [x for x in ranges.loops[: depth + 1] if x.reduction]
    innermost = cache is s.tiles[-1]
    if any(x.mode == "spatial" for x in begun):
        starting = _starting(x for x in begun if x.mode != "spatial")
        on = loaded("pass" if innermost else "relay")
        load = on if starting is ir.TRUE else Guard(starting, on, load)
    first = _starting(begun)
    if not innermost:
        again = no_step(b, s.key[0], begun)
        if again is None:
            return [] if first is ir.TRUE else [Guard(_negated(first), load)]
        fresh = Guard(again, fresh)
    return [fresh if first is ir.TRUE else Guard(first, fresh, load)]


def initial_in_tiles(b: Builder, name: str) -> bool:
    """Whether the pure definition of a Func is computed into the tiles of the first update instead."""
    init, update = b.state.stages.get((name, -1)), b.state.stages.get((name, 0))
    if init is None or update is None or of_definition(init.definition) is not None:
        return False
    if b.state.block_of(update.key) is not None or _holds_others(b, init):
        return False
    if any(not s.write_caches for s in _updates(b, name)):
        return False
    body = b.bodies[update.key]
    return all(i.op == "var" for i in body.lhs) and not body.predicates


def no_step(b: Builder, name: str, inside: Sequence[Range] = ()) -> Node | None:
    """When a pure definition that is computed into tiles runs by itself all the same (None: never): whether the
    reduction loops around the innermost tile run at all is known at the call only. The condition that they don't, as
    seen from inside of some of them."""
    some: Node = ir.TRUE
    for update in _updates(b, name):
        ranges = b.funcs[name].stages[update.key]
        for x in ranges.loops[: update.depth(update.tiles[-1].loop) + 1]:
            if x.reduction:
                root = next(r for r in update.roots if x.var in ir.leaves([ranges.values[r]], "var"))
                if not any(y.var in ir.leaves([ranges.values[root]], "var") for y in inside):
                    some = simplify.conjunction(some, simplify.compare("ge", extent(ranges.domain[root]), ONE))
    return None if some is ir.TRUE else _negated(some)


def _holds_others(b: Builder, s: Stage) -> bool:
    """Whether something is computed or lives in the loops of a stage, or another one shares them: they must stay."""
    if s.fused_with is not None or fusing.followers(b.state, s.key):
        return True
    places = (p for fs in b.state.funcs.values() for p in (fs.compute, fs.stored, fs.hoisted) if p is not None)
    return any(p.kind == "at" and p.stage == s.key for p in places)


def _updates(b: Builder, name: str) -> list[Stage]:
    """The first update in all its forms."""
    return [s for s in b.state.variants_of(name) if s.key[1] == 0]


def _lanes(b: Builder, s: Stage, ranges: StageRanges, depth: int) -> int | None:
    """The width of the vector loop on the tile's last axis, so that tile and loops use the same vectors."""
    body = b.bodies[s.key]
    if not body.lhs:
        return None
    last = ranges.values.get(body.lhs[-1])
    for x in ranges.loops[depth + 1 :]:
        if x.mode == "vectorize" and last is not None and simplify.linear(last)[0].get(x.var) == 1:
            return x.stop.attr if x.stop.op == "const" else None
    return None


def _starting(loops: Iterable[Range]) -> Node:
    """Whether all these loops are in their first iterations."""
    first: Node = ir.TRUE
    for x in loops:
        first = simplify.conjunction(first, simplify.compare("le", x.var, x.start))
    return first


def _negated(c: Node) -> Node:
    return ir.node("not", c.dtype, (c,))

"""Prefetches: hints for what a loop reads some iterations later, or for what is written when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.lang.regions import Box, Read, hull, reads
from tilewright.schedule.nest import PrefetchNode
from tilewright.schedule.ranges import StageRanges, constant_extent, project
from tilewright.schedule.state import PrefetchMark, Stage, refuse

if TYPE_CHECKING:
    from tilewright.schedule.build import Builder, Site


def prefetched(b: Builder, s: Stage, ranges: StageRanges, depth: int, mark: PrefetchMark) -> PrefetchNode:
    """The hint for what an iteration of a loop reads of a tensor some iterations later; past the loop's end that is
    what would be read if it went on: neighbours in memory, which the next iterations of an outer loop may want."""
    body = b.bodies[s.key]
    x = ranges.loops[depth]
    site = b.funcs[s.key[0]].around(s.key) + ranges.loops[: depth + 1]
    found = [r for r in _read_inside(b, s, ranges, depth, site) if r.tensor.name == mark.tensor]
    here = b.state.loop_address(s.key, mark.loop)
    box = hull([r.box for r in found]) if found else _stored_around(b, s, ranges, depth, mark.tensor)
    if box is None:
        raise refuse(f"{mark.tensor} is prefetched at {here} but not read there any more", "prefetch-lost",
                     "prefetch before it is inlined or staged, or prefetch what is read now",
                     about=("prefetch", mark.tensor))  # fmt: skip
    tensor = found[0].tensor if found else b.funcs[mark.tensor].state.func
    stored = b.site_of(b.state.funcs[tensor.name].stored) if tensor.name in b.funcs else ()
    if tuple(r.var for r in stored) != tuple(r.var for r in site[: len(stored)]):
        raise refuse(f"{mark.tensor} does not exist yet at {here}", "prefetch-lost",
                     "it is stored further in; prefetch what is copied into it instead")  # fmt: skip
    ahead = {x.var: simplify.add(x.var, integer(mark.distance))}
    return PrefetchNode(tensor, tuple(_moved(r, ahead) for r in _whole(box)), not found or tensor is body.func)


_MOST = 256  # elements of a row that are touched without asking where it ends


def _whole(box: Box) -> Box:
    """The last dimension as long as it is but at the ends of rows, if that is a short constant."""
    most = constant_extent(box[-1]) if box else None
    if most is None or most > _MOST:
        return box
    lo = box[-1].lo
    assert lo is not None
    return (*box[:-1], Interval(lo, simplify.add(lo, integer(most - 1))))


def _moved(r: Interval, ahead: dict[Node, Node]) -> Interval:
    """A range as long as it is, from where it will start."""
    assert r.lo is not None and r.hi is not None
    (lo,) = ir.substitute((r.lo,), ahead)
    return Interval(lo, simplify.add(lo, simplify.sub(r.hi, r.lo)))


def _stored_around(b: Builder, s: Stage, ranges: StageRanges, depth: int, name: str) -> Box | None:
    """What the iteration around stores of a Func in whose loops this stage stands: in its last dimension the elements
    that lie there as those of this iteration lie among all that the loop runs over."""
    around = tuple(x.var for x in b.funcs[s.key[0]].around(s.key))
    own = [v for v, value in ranges.values.items() if ranges.loops[depth].var in ir.variables(value)]
    if name not in b.funcs or len(own) != 1:
        return None
    built = b.funcs[name]
    for key, outer in built.stages.items():
        here = tuple(x.var for x in (*built.around(key), *outer.loops))
        shared = sum(1 for u, v in zip(here, around, strict=False) if u is v) - len(built.around(key))
        box = tuple(bounds(n, outer.env(shared)) for n in b.bodies[key].lhs) if shared > 0 else ()
        if not box or any(r.lo is None or r.hi is None for r in box):
            continue
        now, whole, start = ranges.env(depth + 1)[own[0]], ranges.domain[own[0]].lo, box[-1].lo
        assert now.lo is not None and now.hi is not None and whole is not None and start is not None
        moved = simplify.sub(start, whole)
        return (*box[:-1], Interval(simplify.add(now.lo, moved), simplify.add(now.hi, moved)))
    return None


def _read_inside(b: Builder, s: Stage, ranges: StageRanges, depth: int, site: Site) -> list[Read]:
    """What one iteration of a loop reads, by the stage itself and by what is computed inside the loop."""
    found = reads(b.bodies[s.key], ranges.env(depth + 1))  # type: ignore[arg-type]
    around = tuple(x.var for x in site)
    for built in b.funcs.values():
        for key, inner in built.stages.items():
            here = built.around(key)
            if tuple(x.var for x in here[: len(site)]) != around:
                continue
            between = here[len(site) :]
            for r in reads(b.bodies[key], inner.env(0)):  # type: ignore[arg-type]
                if all(i.bounded for i in r.box):
                    found.append(r._replace(box=tuple(project(i, between) for i in r.box)))
    return found

"""Prefetches: hints for what a loop reads some iterations later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import integer
from tilewright.lang.regions import Read, hull, reads
from tilewright.schedule.nest import PrefetchNode
from tilewright.schedule.ranges import StageRanges, project
from tilewright.schedule.state import PrefetchMark, Stage, refuse

if TYPE_CHECKING:
    from tilewright.schedule.build import Builder, Site


def prefetched(b: Builder, s: Stage, ranges: StageRanges, depth: int, mark: PrefetchMark) -> PrefetchNode:
    """The hint for what an iteration of a loop reads of a tensor some iterations later."""
    body = b.bodies[s.key]
    x = ranges.loops[depth]
    ahead = {x.var: simplify.add(x.var, integer(mark.distance))}
    site = b.funcs[s.key[0]].around(s.key) + ranges.loops[: depth + 1]
    found = [r for r in _read_inside(b, s, ranges, depth, site) if r.tensor.name == mark.tensor]
    here = b.state.loop_address(s.key, mark.loop)
    if not found:
        raise refuse(f"{mark.tensor} is prefetched at {here} but not read there any more", "prefetch-lost",
                     "prefetch before it is inlined or staged, or prefetch what is read now",
                     about=("prefetch", mark.tensor))  # fmt: skip
    tensor = found[0].tensor
    stored = b.site_of(b.state.funcs[tensor.name].stored) if tensor.name in b.funcs else ()
    if tuple(r.var for r in stored) != tuple(r.var for r in site[: len(stored)]):
        raise refuse(f"{mark.tensor} does not exist yet at {here}", "prefetch-lost",
                     "it is stored further in; prefetch what is copied into it instead")  # fmt: skip
    box = tuple(
        Interval(*ir.substitute((r.lo, r.hi), ahead))  # type: ignore[arg-type]
        for r in hull([r.box for r in found])
    )
    return PrefetchNode(tensor, box, tensor is body.func)


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

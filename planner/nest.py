"""From a region to a schedule: directives that place its members in tiles of its root, and the default schedule inside."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.lang.errors import ScheduleError
from tilewright.planner.cost import BLOCKS, Tile
from tilewright.planner.cut import Part, cut
from tilewright.planner.given import PLAIN, Given
from tilewright.planner.graph import Graph
from tilewright.planner.region import Region
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Key


def part_of(g: Graph, region: Region) -> Part:
    """A region as a pipeline of its own, with what is inlined into its members."""
    return cut(g.pipeline, g.with_inlined(region.members), region.results)


# (name, n): the pass `name` wrote the directives from where the one before it ended up to the n-th.
Passes = tuple[tuple[str, int], ...]


def schedule_region(g: Graph, region: Region, part: Part, given: Given = PLAIN) -> tuple[Schedule, Passes]:
    """The whole schedule of a region, on its part, with arguments in the layouts of `given`, and which pass wrote which of
    its directives."""
    names = {whole: own for own, whole in part.names.items()}
    single = _single(g, region, part)
    s = Schedule(part.pipeline)
    passes: list[tuple[str, int]] = []
    members = [names[f.name] for f in region.members]
    for f in part.pipeline.funcs:
        if f.name not in members:
            s[f.name].compute_inline()
    passes.append(("inline", len(s)))
    if region.siblings and not region.tile.block:
        return _side_by_side(s, [names[f.name] for f in region.results], region, given, single, passes)
    if len(members) == 1 or (region.tile.whole and not region.tile.block):
        for f in members[:-1]:
            s[f].compute_root()
        passes.append(("fuse", len(s)))
        return _completed(s, single, given, passes)
    keys, loops = _cut_root(s, members[-1], region.tile)
    passes.append(("tile", len(s)))
    sites = {names[f.name]: loops[region.depths[f] - 1] if loops else None for f in region.members[:-1]}
    if region.group is not None:
        group = [names[f.name] for f in region.group.members]
        after = members[members.index(group[-1]) : -1]
        for f in (*reversed(after), *reversed(group[:-1])):
            _place(s, f, sites.pop(f))
        passes.append(("fuse", len(s)))
        online = s.online(group, over=region.group.over, block=region.tile.block)
        passes.append(("online", len(s)))
        blocks = f"{online.stage}.{region.group.over}_b"
        sites.update(
            {names[f.name]: blocks for f in region.members if names[f.name] in sites and BLOCKS in region.runs[f]}
        )
    for f in reversed(sites):  # consumers first
        _place(s, f, sites[f])
    passes.append(("fuse", len(s)))
    return _completed(s, single, given, passes, *keys)


def _place(s: Schedule, f: str, site: str | None) -> None:
    if site is None:
        s[f].compute_root()
    else:
        s[f].compute_at(site)


def _side_by_side(
    s: Schedule, results: list[str], region: Region, given: Given, single: Mapping[str, set[str]],
    passes: list[tuple[str, int]],
) -> tuple[Schedule, Passes]:  # fmt: skip
    """Results of a region in strips of one loop."""
    ((axis, width),) = region.tile.cuts
    keys = []
    for name, f in zip(results, region.results, strict=True):
        stage = s.state.stages_of(name)[-1]
        own = stage.definition.lhs[region.runs[f][axis].axis].attr
        address = s.state.address(stage.key)
        s[address].split(own, "strip", own, width)
        loops = [x.name for x in s.state.stages[stage.key].loops]
        if loops[0] != "strip":
            s[address].reorder("strip", *(n for n in loops if n != "strip"))
        s[address].parallel("strip")
        keys.append(stage.key)
    passes.append(("tile", len(s)))
    full, passes_ = _completed(s, single, given, passes, *keys)
    last = full.state.address(keys[-1])
    for key in keys[:-1]:
        try:
            full[full.state.address(key)].compute_with(f"{last}.strip")
        except ScheduleError:  # their loops turned out different: then they are one after the other
            continue
    return full, (*passes_, ("siblings", len(full)))


def _single(g: Graph, region: Region, part: Part) -> dict[str, set[str]]:
    """The variables of each Func that have a single index at the graph's sizes."""
    extents = {f.name: g.works[f].extents for f in g.with_inlined(region.members)}
    found: dict[str, set[str]] = {}
    for f in part.pipeline.funcs:
        for d in f.definitions:
            axes = zip(d.lhs, extents[part.names[f.name]], strict=True)
            found.setdefault(f.name, set()).update(v.attr for v, n in axes if v.op == "var" and n == 1)
    return found


def _completed(
    s: Schedule, single: Mapping[str, set[str]], given: Given, passes: list[tuple[str, int]], *also: Key
) -> tuple[Schedule, Passes]:  # fmt: skip
    """A schedule with layouts, and with the default one for the loops that it leaves alone, those of `also` besides."""
    for name, layout in given.given:
        s.layout(name, layout, given=True)
    for name, layout in given.converted:
        s.layout(name, layout)
    if given:
        passes.append(("layout", len(s)))
    full = complete(s, also=also, single=single)
    return full, (*passes, ("default", len(full)))


def _cut_root(s: Schedule, root: str, tile: Tile) -> tuple[tuple[Key, ...], list[str]]:
    """Cut the root's loops into tiles; its last stage if there are any, and the loops around a tile."""
    if tile.whole:
        return (), []
    stage = s.state.stages_of(root)[-1]
    address = s.state.address(stage.key)
    outer = []
    for axis, width in tile.cuts:
        own = name = stage.definition.lhs[axis].attr
        if width > 1:
            name = f"{own}_s"
            s[address].split(own, name, own, width)
        outer.append(name)
    loops = [x.name for x in s.state.stages[stage.key].loops]
    if loops[: len(outer)] != outer:
        s[address].reorder(*outer, *(n for n in loops if n not in outer))
    return (stage.key,), [f"{address}.{n}" for n in outer]


__all__ = ["Passes", "part_of", "schedule_region"]

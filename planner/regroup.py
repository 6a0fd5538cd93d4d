"""A second look at regions: what joined early may have kept others from a region of their own, or from a better one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.lang.func import Func
from tilewright.lang.tensors import Tensor
from tilewright.planner.budget import Budget
from tilewright.planner.graph import Graph
from tilewright.planner.model import Model
from tilewright.planner.online import find_group
from tilewright.planner.region import Region, best_region

# What a region may take of what its parts take. The model does not tell apart what differs by little: then fewer regions
# are better, as long as loops stay simple; reductions join others for a gain.
SLACK, GAIN = 1.02, 1.0
_STAGED = 1.15  # where engines copy, which takes no cycles: how many times as many may be taken to store less
_FAR = 8  # regions that are looked at together for dependent reductions
_PATHS = 12  # Funcs between a stored one and where what is made of it comes together


def regroup(g: Graph, model: Model, regions: dict[Func, Region], budget: Budget) -> None:
    """Part regions, and gather others around what they store, where that costs less."""
    for root in list(regions):
        _part(g, model, regions, root, budget)
    large = [f for f in regions if f not in g.results and g.works[f].bytes > model.near.capacity]
    number = {f: k for k, f in enumerate(g.kept)}
    for f in sorted(large, key=lambda f: (-g.works[f].bytes, number[f])):
        if f in regions:
            _gather(g, model, regions, f, budget)


def _part(g: Graph, model: Model, regions: dict[Func, Region], root: Func, budget: Budget) -> None:
    """Part a region in two, and these again, where that costs less: what joined early may have kept others from a region
    of their own."""
    region = regions[root]
    if region.siblings:
        return
    best, least = None, region.cost.of(model) / SLACK
    for f in region.members[:-1]:
        above = _only_through(g, region.members, f)
        if _reads(g, above) & (set(region.members) - set(above)):
            continue  # what they need is not stored in the other part, which needs them
        if len(above) > 1 and not any(f in r.members for x, r in regions.items() if x is not root):
            first = best_region(g, model, above, budget)
            second = best_region(g, model, tuple(x for x in region.members if x not in above), budget)
            if first.cost.of(model) + second.cost.of(model) < least:
                best, least = (first, second), first.cost.of(model) + second.cost.of(model)
    if best is not None:
        for r in best:
            regions[r.root] = r
            _part(g, model, regions, r.root, budget)


def _reads(g: Graph, funcs: Iterable[Func]) -> set[Tensor]:
    return {t for f in funcs for t in g.sources(f)}


def _gather(g: Graph, model: Model, regions: dict[Func, Region], stored: Func, budget: Budget) -> None:
    """Compute what a region stores, and all that leads from it to where it comes together, in one region: with what is
    needed for that alone, and with the regions that are read by it alone, one after the other."""
    paths = _paths(g, stored)
    touched = {root for root, r in regions.items() if not paths.isdisjoint(r.members)}
    if not paths or any(regions[root].siblings for root in touched):
        return
    inside, left = set(paths), dict[Func, tuple[Func, ...]]()
    for root in touched:
        rest = tuple(f for f in regions[root].members if f not in paths)
        if root in paths:
            inside |= set(rest)
            continue
        gone: set[Func] = set()  # what only they need: of what other regions compute as well, the copy that is here
        while more := {f for f in rest if f not in gone | g.results and _needing(g, regions[root], f) <= inside | gone}:
            gone |= more
        inside |= gone
        if root not in gone:
            left[root] = tuple(f for f in rest if f not in gone)
    others = {root: r.members for root, r in regions.items() if root not in touched} | left
    moved = {f for root in touched for f in regions[root].members}
    if not _sound(g, regions, [*others.values(), _in_order(g, inside)], moved):
        return
    found = {root: best_region(g, model, members, budget) for root, members in left.items()}
    whole = best_region(g, model, _in_order(g, inside), budget)
    if not whole.cost.possible:
        return
    for f in reversed(g.kept):
        free = f in regions and f not in touched and f not in g.results and not regions[f].siblings
        if free and g.readers(f) and set(g.readers(f)) <= set(whole.members):
            rest = {root: members for root, members in others.items() if root != f}
            both = {*regions[f].members, *whole.members}
            if not _sound(g, regions, [*rest.values(), _in_order(g, both)], both):
                continue  # another region computes the readers as well
            larger = best_region(g, model, _in_order(g, both), budget)
            apart = whole.cost.of(model) + regions[f].cost.of(model)
            if larger.cost.of(model) < GAIN * apart:
                whole, others = larger, rest
                touched.add(f)
    now = whole.cost.of(model) + sum(r.cost.of(model) for r in found.values())
    if now < sum(regions[root].cost.of(model) for root in touched):
        for root in touched:
            del regions[root]
        regions.update(found)
        regions[whole.root] = whole


def _needing(g: Graph, region: Region, f: Func) -> set[Func]:
    """What reads a member in its region; of the root, which is stored, all that reads it."""
    return set(g.readers(f)) if f is region.root else set(g.readers(f)) & set(region.members)


def _sound(g: Graph, regions: Mapping[Func, Region], groups: Sequence[tuple[Func, ...]], moved: Iterable[Func]) -> bool:
    """Whether Funcs can be in regions like this: each reads what is in its own or what another one stores, and all that is
    not stored is read where it is. Looked at are those with Funcs that `moved`, or that read them."""
    siblings = {f for r in regions.values() for f in r.siblings}
    stored = siblings | {members[-1] for members in groups}
    changed = {x for f in moved for x in (f, *g.readers(f))}
    return all(
        all(t in members or t in stored for t in _reads(g, members) if t in g.bodies)
        and all(f in siblings or any(r in members for r in g.readers(f)) for f in members[:-1])
        for members in groups
        if not changed.isdisjoint(members)
    )


def _paths(g: Graph, f: Func) -> set[Func]:
    """A Func and all that leads from it to the first one that all of this leads to, that one too; empty if there is none
    near, or results are made on the way."""
    found, ahead = {f}, set(g.readers(f))
    number = {x: k for k, x in enumerate(g.kept)}
    while len(ahead) > 1:
        first = min(ahead, key=number.__getitem__)
        if first in g.results or len(found) > _PATHS:
            return set()
        found.add(first)
        ahead = (ahead - {first}) | set(g.readers(first))
    return found | ahead if ahead else set()


def _in_order(g: Graph, funcs: Iterable[Func]) -> tuple[Func, ...]:
    wanted = set(funcs)
    return tuple(f for f in g.kept if f in wanted)


def given(model: Model) -> float:
    """How many times the cost of regions apart one may have on a machine with a scratchpad."""
    return _STAGED if model.goal.objective == "latency" else SLACK


def _only_through(g: Graph, members: tuple[Func, ...], f: Func) -> tuple[Func, ...]:
    """The members that the last one reads through `f` alone, and `f`, in order."""
    found = {f}
    for x in reversed(members[: members.index(f)]):
        if all(r in found for r in g.readers(x) if r in members):
            found.add(x)
    return tuple(x for x in members if x in found)


def join_groups(
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
            joined = best_region(g, model, members, budget)
            if joined.cost.of(model) < given(model) * apart:
                for x in taken:
                    del regions[x]
                regions[root], taken = joined, [root]
                least[root] = apart = min(joined.cost.of(model), apart)


__all__ = ["GAIN", "SLACK", "given", "join_groups", "regroup"]

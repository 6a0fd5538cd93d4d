"""Dependent reductions over one domain that can run in a single pass: what the directive `online` is chosen for."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Func
from tilewright.lang.values import index_value
from tilewright.planner.cut import cut
from tilewright.planner.graph import Graph
from tilewright.schedule.schedule import Schedule


@dataclass(frozen=True)
class Group:
    """Reductions over the variable `over`, each of which follows from those before it; the domain has so many points."""

    members: tuple[Func, ...]
    over: str
    domain: int


def find_group(g: Graph, members: tuple[Func, ...]) -> Group | None:
    """The reductions among `members` that the directive takes as one pass over their largest common domain."""
    groups = []
    for over, found in _over_one_domain(members).items():
        if len(found) > 1 and _follow(g, members, found):
            start, stop = over[1:]
            groups.append(Group(found, over[0], index_value(stop, g.sizes) - index_value(start, g.sizes)))
    largest_first = sorted(groups, key=lambda x: -x.domain)
    return next((x for x in largest_first if _allowed(g, members, x.members, x.over)), None)


def _over_one_domain(members: tuple[Func, ...]) -> dict[tuple, tuple[Func, ...]]:
    """Reductions of a pure definition and one update by name and range of a reduction variable."""
    found: dict[tuple, tuple[Func, ...]] = {}
    for f in members:
        if f.init is not None and len(f.updates) == 1 and f.updates[0].rdom is not None:
            for name, ends in f.updates[0].rdom.ranges.items():
                found[(name, *ends)] = (*found.get((name, *ends), ()), f)
    return found


def _follow(g: Graph, members: tuple[Func, ...], group: tuple[Func, ...]) -> bool:
    """Whether each of the group but the first needs another of it, through other members or directly."""
    needs: dict[Func, set[Func]] = {}
    for f in members:
        read = [t for t in g.sources(f) if isinstance(t, Func) and t in needs]
        needs[f] = {t for t in read if t in group}.union(*(needs[t] for t in read))
    return all(needs[f] & set(group) for f in group[1:])


def _allowed(g: Graph, members: tuple[Func, ...], group: tuple[Func, ...], over: str) -> bool:
    """Whether the directive accepts the group: it is tried on the members alone, once for equal layers."""
    part = cut(g.pipeline, g.with_inlined(members), [members[-1]])
    own = {whole: name for name, whole in part.names.items()}
    key = part.pipeline.digest, tuple(own[f.name] for f in group), over
    if key not in g.tried:
        try:
            Schedule(part.pipeline).online(key[1], over=over, block=16)
            g.tried[key] = True
        except ScheduleError:
            g.tried[key] = False
    return g.tried[key]


__all__ = ["Group", "find_group"]

"""Steps that run at once, each on a core: where one of them has too little work for all cores."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.planner.order import Dependences, Memory

WAKE = 15_000.0  # cycles until other cores have begun: 5 us, see SHORT in codegen/runtime
WINDOWS = (32, 8, 3)  # steps ahead among which companions are looked for; fewer where what lives grows too much
_GAIN = 0.95  # what steps at once may take of what they take in turn


@dataclass(frozen=True)
class Share:
    """Cycles of a step: on one core, on all of them with nothing beside it, and of main memory, which cores share."""

    alone: float
    whole: float
    moved: float = 0.0

    @staticmethod
    def of(alone: float, moved: float, cores: int, pieces: int) -> Share:
        """Of a step that takes `alone` cycles on one core and can be cut into so many pieces. Waking cores for it has to
        pay."""
        spread = max(alone / max(1, min(cores, pieces)), moved) + WAKE
        return Share(alone, min(alone, spread), moved)


def at_once(shares: Sequence[Share], cores: int) -> float:
    """Cycles of steps that run at once: the longest first, each on the core that is free first."""
    if len(shares) == 1:
        return shares[0].whole
    ends = [0.0] * cores
    for s in sorted((s.alone for s in shares), reverse=True):
        heapq.heapreplace(ends, ends[0] + s)
    return WAKE + max(*ends, sum(s.moved for s in shares))


def grouped(
    g: Dependences, order: Sequence[int], shares: Mapping[str, Share], cores: int, capacity: float, keep: Collection[str],
    window: int = WINDOWS[0],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """The order with steps brought forward that run beside another where that pays and what lives
    meanwhile stays within `capacity`, and how many run at once, in turn. What was made early may be too much later."""
    waits = [len(b) for b in g.before]
    memory = Memory(Dependences(g.tasks, keep))
    rest, found, groups = list(order), [], []
    while rest:
        head = rest[0]
        group, times = [head], [shares[g.tasks[head].name]]
        cost, live = times[0].whole, memory.live + _taken(g, head)
        for k in rest[1:window] if times[0].alone > WAKE else ():
            s = shares[g.tasks[k].name]
            if waits[k] or len(group) >= 4 * cores or live + _taken(g, k) > capacity:
                continue
            with_it = at_once([*times, s], cores)
            if with_it < cost + s.whole:
                group.append(k)
                times.append(s)
                cost, live = with_it, live + _taken(g, k)
        if cost > _GAIN * sum(s.whole for s in times):
            group = [head]
        for k in group:
            memory.run(k)
            rest.remove(k)
            for j in g.then[k]:
                waits[j] -= 1
        found += group
        groups.append(len(group))
    return found, groups


def _taken(g: Dependences, k: int) -> int:
    return sum(g.tasks[k].makes.values()) + g.tasks[k].scratch


def in_groups(names: Sequence[str], groups: Sequence[int], shares: Mapping[str, Share], cores: int) -> float:
    """Cycles of all steps."""
    total, at = 0.0, 0
    for n in groups:
        total += at_once([shares[x] for x in names[at : at + n]], cores)
        at += n
    return total


__all__ = ["WAKE", "WINDOWS", "Share", "at_once", "grouped", "in_groups"]

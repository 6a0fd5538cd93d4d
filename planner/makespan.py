"""How long steps take on a machine whose engine loads what the next step needs while its cores compute the current one.

The model: one engine, one set of cores, and room for what two steps load. The engine loads for a step once the step
before the last has been computed (its room is free then): first what no step makes, then what steps make, as soon as these
have been computed. The cores compute a step once all of it is loaded, in the order in which steps are loaded.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.planner.budget import Budget
from tilewright.planner.goal import Goal
from tilewright.planner.order import Dependences

_WINDOW = 8  # ready steps that the list scheduler compares


@dataclass(frozen=True)
class Cost:
    """Cycles of a step: loading what no step makes, loading what steps make, and computing."""

    free: float = 0.0
    bound: float = 0.0
    work: float = 0.0

    @property
    def loads(self) -> float:
        return self.free + self.bound

    @property
    def serial(self) -> float:
        return self.loads + self.work


@dataclass(frozen=True)
class _Time:
    """When the engine is free, when the last step has been computed, and the one before it."""

    engine: float = 0.0
    last: float = 0.0
    before: float = 0.0

    def after(self, cost: Cost, next_to: bool) -> _Time:
        """Once a step has run; `next_to`: it needs the last one."""
        at = max(self.engine, self.before) + cost.free
        if next_to:
            at = max(at, self.last)
        at += cost.bound
        return _Time(at, max(at, self.last) + cost.work, self.last)

    @property
    def key(self) -> tuple[float, float, float]:
        return self.last, self.engine, self.before

    def no_later(self, o: _Time) -> bool:
        return self.engine <= o.engine and self.last <= o.last and self.before <= o.before


def makespan(g: Dependences, costs: Mapping[str, Cost], numbers: Sequence[int]) -> float:
    """Cycles of all tasks in this order."""
    now, previous = _Time(), -1
    for k in numbers:
        now = now.after(costs[g.tasks[k].name], previous in g.before[k])
        previous = k
    return now.last


def most_overlap(
    g: Dependences, costs: Mapping[str, Cost], budget: Budget | None = None
) -> tuple[tuple[int, ...], float, bool]:
    """The order with the least makespan that is found, its makespan, and whether no order has less.

    Every prefix of an order is a state; of those with the same tasks and the same last one only those count that are
    not later in all than another. Where these are more than the states of the `budget`, list scheduling decides: the next
    step is the one for which the cores wait least, looking one further step ahead.
    """
    listed = [_listed(g, costs, steep) for steep in (False, True)]
    best = min([*listed, g.topological()], key=lambda ks: makespan(g, costs, ks))
    length = makespan(g, costs, best)
    if length <= _least(g, costs) * (1 + 1e-12):
        return best, length, True
    found, complete = _search(g, costs, length, budget or Budget(Goal()))
    if found is not None:
        return found, makespan(g, costs, found), complete
    return best, length, complete


def _least(g: Dependences, costs: Mapping[str, Cost]) -> float:
    """What no order is shorter than: all computing after the shortest first load, all loading before the last computing."""
    cs = [costs[t.name] for t in g.tasks]
    first = [c.loads for c, b in zip(cs, g.before, strict=True) if not b]
    last = [c.work for c, t in zip(cs, g.then, strict=True) if not t]
    total = max(sum(c.work for c in cs) + min(first, default=0.0), sum(c.loads for c in cs) + min(last, default=0.0))
    return max(total, *_criticality(g, costs), 0.0)


def _criticality(g: Dependences, costs: Mapping[str, Cost]) -> list[float]:
    """Of each task, what it and the longest chain behind it take at least."""
    found = [0.0] * len(g.tasks)
    for k in reversed(g.topological()):
        c = costs[g.tasks[k].name]
        found[k] = c.bound + c.work + max((found[j] for j in g.then[k]), default=0.0)
    return found


def _listed(g: Dependences, costs: Mapping[str, Cost], steep: bool) -> tuple[int, ...]:
    """List scheduling; of equals those with the longest chain behind them (`steep`: that compute most for what they
    load) first."""
    chain = _criticality(g, costs)
    waits = [len(b) for b in g.before]
    cs = [costs[t.name] for t in g.tasks]

    def rank(k: int) -> tuple[float, float, int]:
        gain = cs[k].work - cs[k].loads
        return (-gain, -chain[k], k) if steep else (-chain[k], -gain, k)

    ready = sorted((rank(k), k) for k, n in enumerate(waits) if not n)
    order: list[int] = []
    now, previous = _Time(), -1
    while ready:
        window = [k for _, k in ready[:_WINDOW]]
        best: tuple[float, int] | None = None
        for place, k in enumerate(window):
            after = now.after(cs[k], previous in g.before[k])
            then = [(j, False) for j in window if j != k]
            then += [(j, True) for j in g.then[k][:_WINDOW] if waits[j] == 1]
            rest = min((after.after(cs[j], d).last - cs[j].work - after.last for j, d in then), default=0.0)
            waiting = after.last - cs[k].work - now.last + rest  # of the cores, for this step and the next
            if best is None or waiting < best[0]:
                best = waiting, place
        assert best is not None
        _, k = ready.pop(best[1])
        now, previous = now.after(cs[k], previous in g.before[k]), k
        order.append(k)
        for j in g.then[k]:
            waits[j] -= 1
            if not waits[j]:
                bisect.insort(ready, (rank(j), j))
    return tuple(order)


def _search(
    g: Dependences, costs: Mapping[str, Cost], length: float, budget: Budget
) -> tuple[tuple[int, ...] | None, bool]:
    """An order that takes less than `length`, and whether there is no better one than the best known."""
    cs = [costs[t.name] for t in g.tasks]
    before = [sum(1 << b for b in bs) for bs in g.before]
    work, loads = sum(c.work for c in cs), sum(c.loads for c in cs)
    whole = (1 << len(cs)) - 1
    known: dict[tuple[int, int], list[_Time]] = {}
    # the least that it can come to, tasks left, state
    heap: list[tuple[float, int, tuple[float, float, float], int, float, float, tuple[int, ...]]] = [
        (0.0, 0, (0.0, 0.0, 0.0), 0, work, loads, ())
    ]
    while heap:
        bound, _, (last, engine, early), done, work, loads, order = heapq.heappop(heap)
        if bound >= length * (1 - 1e-12):
            return None, True
        if done == whole:
            return order, True
        now, previous = _Time(engine, last, early), order[-1] if order else -1
        ready = [k for k in range(len(cs)) if not done >> k & 1 and before[k] & ~done == 0]
        if not budget.spend("overlap", len(cs)):
            return None, False
        for k in ready:
            t = now.after(cs[k], previous in g.before[k])
            state = done | 1 << k, k
            others = known.setdefault(state, [])
            if any(o.no_later(t) for o in others):
                continue
            others[:] = [o for o in others if not t.no_later(o)]
            others.append(t)
            w, n = work - cs[k].work, loads - cs[k].loads
            least = max(t.last + w, t.engine + n)
            if least < length:
                entry = (max(bound, least), -state[0].bit_count(), t.key, state[0], w, n, (*order, k))
                heapq.heappush(heap, entry)
    return None, True


__all__ = ["Cost", "makespan", "most_overlap"]

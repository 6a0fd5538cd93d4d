"""In which order the parts of a plan run: one that needs the least memory at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.planner.budget import Budget
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal


@dataclass(frozen=True)
class Task:
    """Something that runs: the buffers that it needs, those that it makes with their bytes, what it takes for itself
    while it runs, and tasks that must have run before for other reasons."""

    name: str
    needs: frozenset[str]
    makes: Mapping[str, int]
    scratch: int = 0
    after: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Order:
    """Tasks in the order in which they run, the most bytes that live at once, and whether no order has less."""

    tasks: tuple[Task, ...]
    peak: int
    least: bool


class _Graph:
    """Tasks by number, with what becomes ready and what dies."""

    def __init__(self, tasks: Sequence[Task], keep: Iterable[str]):
        self.tasks = tasks
        maker = {b: k for k, t in enumerate(tasks) for b in t.makes}
        number = {t.name: k for k, t in enumerate(tasks)}
        self.before = [{maker[b] for b in t.needs if b in maker} | {number[n] for n in t.after} for t in tasks]
        self.size = {b: n for t in tasks for b, n in t.makes.items()}
        self.readers = {b: frozenset(k for k, t in enumerate(tasks) if b in t.needs) for b in self.size}
        self.keep = frozenset(keep)

    def run(self, k: int, done: int, live: int) -> tuple[int, int]:
        """What lives while task `k` runs after those of `done` (a set of bits), and after it."""
        task = self.tasks[k]
        during = live + sum(task.makes.values()) + task.scratch
        after, now = during - task.scratch, done | 1 << k
        for b in {*task.needs, *task.makes}:
            if b in self.size and b not in self.keep and all(now >> r & 1 for r in self.readers[b]):
                after -= self.size[b]
        return during, after

    def ready(self, done: int) -> Iterable[int]:
        for k, before in enumerate(self.before):
            if not done >> k & 1 and all(done >> b & 1 for b in before):
                yield k


def peak(tasks: Sequence[Task], keep: Iterable[str] = ()) -> int:
    """The most bytes that live at once when `tasks` run in this order. What is in `keep` outlives the last of them."""
    g, done, live, most = _Graph(tasks, keep), 0, 0, 0
    for k in range(len(tasks)):
        during, live = g.run(k, done, live)
        most, done = max(most, during), done | 1 << k
    return most


def least_memory(tasks: Sequence[Task], keep: Iterable[str] = (), budget: Budget | None = None) -> Order:
    """The order with the smallest peak: found by looking at sets of finished tasks, those with the smallest peak first.

    Where these are more than the states of the `budget`, the better of the given order and a greedy one. Raises
    PlanError `plan.cycle` where tasks wait for each other.
    """
    g = _Graph(tasks, keep)
    greedy = _greedy(g)
    found, complete = _search(g, budget or Budget(Goal()))
    if found is not None:
        return _as_order(g, found, True)
    given = tuple(range(len(tasks)))
    candidates = [greedy, given] if _legal(g, given) else [greedy]
    best = min(candidates, key=lambda ks: peak([tasks[k] for k in ks], g.keep))
    return _as_order(g, best, complete)


def _as_order(g: _Graph, numbers: Sequence[int], least: bool) -> Order:
    tasks = tuple(g.tasks[k] for k in numbers)
    return Order(tasks, peak(tasks, g.keep), least)


def _legal(g: _Graph, numbers: Sequence[int]) -> bool:
    place = {k: n for n, k in enumerate(numbers)}
    return all(place[b] < place[k] for k in numbers for b in g.before[k])


def _greedy(g: _Graph) -> tuple[int, ...]:
    """Whatever leaves least alive, next; of equals what peaks least, then the first."""
    done, live, order = 0, 0, []
    for _ in g.tasks:
        choices = [(*reversed(g.run(k, done, live)), k) for k in g.ready(done)]
        if not choices:
            waiting = [t.name for k, t in enumerate(g.tasks) if not done >> k & 1]
            raise PlanError(f"{', '.join(waiting)} wait for each other", code="plan.cycle",
                            hint="a graph of parts has no cycles: part what they compute otherwise")  # fmt: skip
        live, _, k = min(choices)
        order.append(k)
        done |= 1 << k
    return tuple(order)


def _search(g: _Graph, budget: Budget) -> tuple[tuple[int, ...] | None, bool]:
    """The best order, or None where there are too many sets to look at."""
    whole = (1 << len(g.tasks)) - 1
    heap: list[tuple[int, int, int, int]] = [
        (0, 0, 0, 0)
    ]  # peak so far, tasks left (so that deep ones come first), live
    came: dict[int, tuple[int, int, int]] = {0: (0, -1, -1)}  # set -> peak, the last task, the set before it
    closed: set[int] = set()
    while heap:
        most, _, live, done = heapq.heappop(heap)
        if done == whole:
            return _back(came, done), True
        if done in closed:
            continue
        closed.add(done)
        if not budget.spend("order"):
            return None, False
        for k in g.ready(done):
            during, after = g.run(k, done, live)
            now, worst = done | 1 << k, max(most, during)
            if now not in came or worst < came[now][0]:
                came[now] = worst, k, done
                heapq.heappush(heap, (worst, -now.bit_count(), after, now))
    return None, False


def _back(came: Mapping[int, tuple[int, int, int]], done: int) -> tuple[int, ...]:
    order = []
    while done:
        _, k, done = came[done]
        order.append(k)
    return tuple(reversed(order))


__all__ = ["Order", "Task", "least_memory", "peak"]

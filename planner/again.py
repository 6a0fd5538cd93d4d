"""Computing again instead of storing: a step runs once more, right before its result is needed again, so that this does not
live meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tilewright.planner.budget import Budget
from tilewright.planner.lives import Lives, lives
from tilewright.planner.order import Task

_TRIES = 8  # of the buffers that live at the peak, the cheapest


def recomputed(
    tasks: Sequence[Task], keep: Collection[str], cycles: Mapping[str, float], once: Collection[str], capacity: float,
    price: float, budget: Budget,
) -> tuple[list[Task], list[str]]:  # fmt: skip
    """Tasks with some of them twice, and the names of these, such that less lives at once.

    It goes on until all fits in `capacity`, and as long as what is computed again takes no more than `price` cycles. Those
    of `once` run once. What a task reads has to live anyway where it runs again.
    """
    found, again = list(tasks), []
    at = lives(found, keep=keep)
    while at.peak > capacity:
        better = None
        for place, task in _candidates(at, keep, cycles, once):
            if cycles[task.name] > price or not budget.spend("again", 1 + len(found) // 64):
                break
            tried = [*found[:place], task, *found[place:]]
            then = lives(tried, keep=keep)
            if _rank(then) < _rank(at):
                better = tried, then, task
                break
        if better is None:
            break
        found, at, task = better
        again.append(task.name)
        price -= cycles[task.name]
    return found, again


def _rank(at: Lives) -> tuple[int, int]:
    return at.peak, at.live.count(at.peak)


def _candidates(
    at: Lives, keep: Collection[str], cycles: Mapping[str, float], once: Collection[str]
) -> Iterator[tuple[int, Task]]:
    """Tasks whose result lives through the peak without being used there, and before which step each would run again;
    those that free most for what they take first."""
    step, running = at.when, at.tasks[at.when]
    makers = {b: t for t in at.tasks for b in t.makes}
    found = []
    for b, size in at.at(step).items():
        task = makers[b]
        if b in keep or b in running.needs or b in running.makes or task.name in once or len(task.makes) > 1:
            continue
        place = next((k for k in range(step + 1, len(at.tasks)) if b in at.tasks[k].needs), None)
        if place is None or not size:
            continue
        if all(any(a < place <= e for a, e in at.spans[i]) for i in task.needs if i in at.spans):
            found.append((cycles[task.name] / size, b, place, task))
    for _, _, place, task in sorted(found, key=lambda x: x[:2])[:_TRIES]:
        yield place, task


__all__ = ["recomputed"]

"""Computing again instead of storing: a step runs once more, right before its result is needed again, so that this does not
live meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tilewright.planner.budget import Budget
from tilewright.planner.lives import Lives, lives
from tilewright.planner.order import Task

_TRIES = 8  # of the buffers that live at the peak, the cheapest
_LONGEST = 8  # tasks that run again for one buffer


def recomputed(
    tasks: Sequence[Task], keep: Collection[str], cycles: Mapping[str, float], once: Collection[str], capacity: float,
    price: float, budget: Budget,
) -> tuple[list[Task], list[str]]:  # fmt: skip
    """Tasks with some of them twice, and the names of these, such that less lives at once.

    It goes on until all fits in `capacity`, and as long as what is computed again takes no more than `price` cycles. Those
    of `once` run once. Of what a task reads, that which does not live where it runs again is computed again before it.
    """
    found, again = list(tasks), []
    at = lives(found, keep=keep)
    while at.peak > capacity:
        better = None
        for place, chain in _candidates(at, keep, cycles, once):
            taken = sum(cycles[t.name] for t in chain)
            if taken > price:
                continue
            if not budget.spend("again", 1 + len(found) // 64):
                break
            tried = [*found[:place], *chain, *found[place:]]
            then = lives(tried, keep=keep)
            if _rank(then) < _rank(at):
                better = tried, then, chain, taken
                break
        if better is None:
            break
        found, at, chain, taken = better
        again += [t.name for t in chain]
        price -= taken
    return found, again


def _rank(at: Lives) -> tuple[int, int]:
    return at.peak, at.live.count(at.peak)


def _candidates(
    at: Lives, keep: Collection[str], cycles: Mapping[str, float], once: Collection[str]
) -> Iterator[tuple[int, list[Task]]]:
    """Where tasks would run again for a result that lives through the peak without being used there; those that free most
    for what they take first."""
    step, running = at.when, at.tasks[at.when]
    makers = {b: t for t in at.tasks for b in t.makes}
    found = []
    for b, size in at.at(step).items():
        if b in keep or b in running.needs or b in running.makes or not size:
            continue
        place = next((k for k in range(step + 1, len(at.tasks)) if b in at.tasks[k].needs), None)
        chain = None if place is None else _chain(at, makers, b, place, once)
        if chain is not None:
            found.append((sum(cycles[t.name] for t in chain) / size, b, place, chain))
    for _, _, place, chain in sorted(found, key=lambda x: x[:2])[:_TRIES]:
        yield place, chain


def _chain(at: Lives, makers: Mapping[str, Task], wanted: str, place: int, once: Collection[str]) -> list[Task] | None:
    """The tasks that make a buffer of what lives at a step, in order; None where they are many, or may not run twice."""
    chain: list[Task] = []
    todo = [wanted]
    while todo:
        task = makers[todo.pop()]
        if task in chain:
            chain.remove(task)  # needed earlier than thought
        chain.insert(0, task)
        if len(chain) > _LONGEST or task.name in once or len(task.makes) > 1:
            return None
        for i in sorted(task.needs):
            if i in at.spans and not any(a < place <= e for a, e in at.spans[i]):
                todo.append(i)
    return chain


__all__ = ["recomputed"]

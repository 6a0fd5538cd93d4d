"""In which order the parts of a plan run: one that needs the least memory at once."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.planner.budget import Budget
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal


@dataclass(frozen=True)
class Task:
    """Something that runs: the buffers that it needs, those that it makes with their bytes, what it takes for itself
    while it runs, and tasks that must have run before for other reasons.

    `over` has, for what it makes, the buffers of the same size on which that may lie where they are needed no more.
    """

    name: str
    needs: frozenset[str]
    makes: Mapping[str, int]
    scratch: int = 0
    after: frozenset[str] = frozenset()
    over: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """Tasks in the order in which they run, the most bytes that live at once, and whether no order has less.

    `policy` is the one by which it was chosen, `naive` the peak of tasks that run one by one as they were given. `groups`
    are the numbers of tasks that run at once, in turn. `cycles` is what all take as modelled, with what overlaps, and
    `serial` one after the other. `in_place` has buffers that are made on another one, which dies then; `again` names
    tasks that run once more instead of having their result kept. `fits` is the innermost memory that holds what lives.
    """

    tasks: tuple[Task, ...]
    peak: int
    least: bool
    policy: str = "memory"
    naive: int = 0
    groups: tuple[int, ...] = ()
    cycles: float = 0.0
    serial: float = 0.0
    in_place: Mapping[str, str] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    fits: str = ""


class Dependences:
    """Tasks by number: what each waits for, and who reads what."""

    def __init__(self, tasks: Sequence[Task], keep: Iterable[str] = ()):
        self.tasks = tasks
        maker = {b: k for k, t in enumerate(tasks) for b in t.makes}
        number = {t.name: k for k, t in enumerate(tasks)}
        self.before = [{maker[b] for b in t.needs if b in maker} | {number[n] for n in t.after} for t in tasks]
        self.then: list[list[int]] = [[] for _ in tasks]
        for k, before in enumerate(self.before):
            for b in sorted(before):
                self.then[b].append(k)
        self.size = {b: n for t in tasks for b, n in t.makes.items()}
        self.readers: dict[str, list[int]] = {b: [] for b in self.size}
        for k, t in enumerate(tasks):
            for b in t.needs:
                if b in self.readers:
                    self.readers[b].append(k)
        self.keep = frozenset(keep)
        self.made = [tuple(b for b in sorted(t.needs) if b in self.size and b not in self.keep) for t in tasks]

    def topological(self) -> tuple[int, ...]:
        """An order in which every task comes after those that it waits for, otherwise as they were given. Raises PlanError
        `plan.cycle`."""
        waits = [len(b) for b in self.before]
        ready = [k for k, n in enumerate(waits) if not n]
        found = []
        while ready:
            k = heapq.heappop(ready)
            found.append(k)
            for j in self.then[k]:
                waits[j] -= 1
                if not waits[j]:
                    heapq.heappush(ready, j)
        if len(found) < len(self.tasks):
            names = [self.tasks[k].name for k, n in enumerate(waits) if n]
            raise PlanError(f"{', '.join(names)} wait for each other", code="plan.cycle",
                            hint="a graph of parts has no cycles: part what they compute otherwise")  # fmt: skip
        return tuple(found)

    def legal(self, numbers: Sequence[int]) -> bool:
        place = {k: n for n, k in enumerate(numbers)}
        return all(place[b] < place[k] for k in numbers for b in self.before[k])


class Memory:
    """What lives as tasks run one after the other."""

    def __init__(self, g: Dependences):
        self.g, self.live = g, 0
        self.left = {b: len(r) for b, r in g.readers.items()}

    def look(self, k: int) -> tuple[int, int]:
        """What lives while task `k` runs next, and how much more there is after it than before."""
        g, task = self.g, self.g.tasks[k]
        dead = [b for b in g.made[k] if self.left[b] == 1]
        made = sum(task.makes.values())
        during = self.live + made + task.scratch - shared(task, dead, g.size)
        unread = sum(n for b, n in task.makes.items() if not self.left[b] and b not in g.keep)
        return during, made - unread - sum(g.size[b] for b in dead)

    def run(self, k: int) -> int:
        """Run it; what lived meanwhile."""
        during, more = self.look(k)
        self.live += more
        for b in self.g.tasks[k].needs:
            if b in self.left:
                self.left[b] -= 1
        return during


def laid_over(task: Task, dead: Iterable[str]) -> dict[str, str]:
    """What a task makes on buffers that die with it: each of these is taken once."""
    free, found = set(dead), {}
    for b, candidates in task.over.items():
        a = next((c for c in candidates if c in free), None)
        if a is not None:
            free.remove(a)
            found[b] = a
    return found


def shared(task: Task, dead: Iterable[str], size: Mapping[str, int]) -> int:
    """The bytes that what it makes needs no place for."""
    return sum(size[a] for a in laid_over(task, dead).values()) if task.over else 0


def peak(tasks: Sequence[Task], keep: Iterable[str] = ()) -> int:
    """The most bytes that live at once when `tasks` run in this order. What is in `keep` outlives the last of them."""
    memory = Memory(Dependences(tasks, keep))
    return max((memory.run(k) for k in range(len(tasks))), default=0)


def least_memory(tasks: Sequence[Task], keep: Iterable[str] = (), budget: Budget | None = None) -> Order:
    """The order with the smallest peak.

    The graph is cut where everything meets (tasks that all others come before or after), and each piece is searched by
    itself: sets of finished tasks, those with the smallest peak first. Where these are more than the states of the
    `budget`, the best of a greedy order, the given one, and one that finishes what it has begun. Raises PlanError
    `plan.cycle` where tasks wait for each other.
    """
    g = Dependences(tasks, keep)
    given = g.topological()
    budget = budget or Budget(Goal())
    found: list[int] = []
    memory, least = Memory(g), True
    for piece in pieces(g, given):
        part, best = _piece(g, memory, piece, budget)
        least &= best
        for k in part:
            memory.run(k)
        found += part
    if not least:
        found = min(found, list(given), list(_deep(g)), key=lambda ks: peak([tasks[k] for k in ks], g.keep))
    chosen = tuple(tasks[k] for k in found)
    return Order(chosen, peak(chosen, g.keep), least)


def pieces(g: Dependences, given: Sequence[int]) -> list[list[int]]:
    """The tasks, cut after each that all others come before or after: those of a piece all come before those of the next."""
    place = {k: n for n, k in enumerate(given)}
    ends_before = _alone(given, g.before)  # everything before is needed by it, at last
    ends_after = _alone(given[::-1], g.then)
    found: list[list[int]] = [[]]
    for k in sorted(place, key=place.__getitem__):
        found[-1].append(k)
        if k in ends_before and k in ends_after:
            found.append([])
    return [p for p in found if p]


def _alone(order: Sequence[int], before: Sequence[Iterable[int]]) -> set[int]:
    """The tasks that, as they come, are the only one that nothing so far waits for."""
    ends: set[int] = set()
    found = set()
    for k in order:
        ends.difference_update(before[k])
        ends.add(k)
        if len(ends) == 1:
            found.add(k)
    return found


def _piece(g: Dependences, memory: Memory, piece: list[int], budget: Budget) -> tuple[list[int], bool]:
    """The best order of a piece, and whether none is better."""
    if len(piece) == 1:
        return piece, True
    found = _search(g, memory, piece, budget)
    return (found, True) if found is not None else (_greedy(g, memory, piece), False)


def _greedy(g: Dependences, start: Memory, piece: list[int]) -> list[int]:
    """Whatever leaves least alive, next; of equals what takes least meanwhile, then the first."""
    memory = Memory(g)
    memory.live, memory.left = 0, dict(start.left)
    inside = set(piece)
    waits = {k: len(g.before[k] & inside) for k in piece}
    current: dict[int, tuple[int, int, int]] = {}
    heap: list[tuple[int, int, int]] = []

    def push(k: int) -> None:
        during, more = memory.look(k)
        current[k] = (more, during - memory.live, k)
        heapq.heappush(heap, current[k])

    for k in piece:
        if not waits[k]:
            push(k)
    order: list[int] = []
    while heap:
        entry = heapq.heappop(heap)
        k = entry[2]
        if current.get(k) != entry:
            continue
        del current[k]
        memory.run(k)
        order.append(k)
        for b in g.made[k]:
            if memory.left[b] == 1:  # dies with its last reader
                for j in g.readers[b]:
                    if j in current:
                        push(j)
        for j in g.then[k]:
            if j in inside:
                waits[j] -= 1
                if not waits[j]:
                    push(j)
    return order


def _deep(g: Dependences) -> tuple[int, ...]:
    """Depth first from the last: of what a task waits for, that which takes most goes first."""
    weight: dict[int, int] = {}
    for k in g.topological():
        weight[k] = max([sum(g.tasks[k].makes.values()), *(weight[b] for b in g.before[k])])
    done: set[int] = set()
    order: list[int] = []
    for last in range(len(g.tasks)):
        if g.then[last]:
            continue
        stack = [(last, iter(sorted(g.before[last], key=lambda b: (-weight[b], b))))]
        done.add(last)
        while stack:
            k, rest = stack[-1]
            b = next((b for b in rest if b not in done), None)
            if b is None:
                order.append(k)
                stack.pop()
            else:
                done.add(b)
                stack.append((b, iter(sorted(g.before[b], key=lambda c: (-weight[c], c)))))
    return tuple(order)


class _Bits:
    """A piece as sets of bits."""

    def __init__(self, g: Dependences, start: Memory, piece: list[int]):
        self.g = g
        self.tasks = [g.tasks[k] for k in piece]
        local = {k: n for n, k in enumerate(piece)}
        self.before = [sum(1 << local[b] for b in g.before[k] if b in local) for k in piece]
        self.then = [[local[j] for j in g.then[k] if j in local] for k in piece]
        self.made = [sum(t.makes.values()) for t in self.tasks]
        # what may die with a task, and the readers of it that are in the piece; others come later
        self.dies: list[list[tuple[str, int]]] = []
        self.unread: list[int] = []
        for k, t in zip(piece, self.tasks, strict=True):
            inside = [(b, sum(1 << local[r] for r in g.readers[b] if r in local)) for b in g.made[k]]
            counts = [start.left[b] for b in g.made[k]]
            self.dies.append([(b, bits) for (b, bits), n in zip(inside, counts, strict=True) if bits.bit_count() == n])
            self.unread.append(sum(n for b, n in t.makes.items() if not g.readers[b] and b not in g.keep))

    def run(self, k: int, done: int, live: int) -> tuple[int, int]:
        task, now = self.tasks[k], done | 1 << k
        dead = [b for b, readers in self.dies[k] if readers & ~now == 0]
        during = live + self.made[k] + task.scratch - shared(task, dead, self.g.size)
        after = live + self.made[k] - self.unread[k] - sum(self.g.size[b] for b in dead)
        return during, after

    def ready(self, before: Sequence[int], last: int, done: int) -> tuple[int, ...]:
        """What may run once the `last` of `done` has, where those of `before` could before it."""
        more = (j for j in self.then[last] if self.before[j] & ~done == 0)
        return (*(j for j in before if j != last), *more)


def _search(g: Dependences, start: Memory, piece: list[int], budget: Budget) -> list[int] | None:
    """The best order of a piece, or None where there are too many sets to look at."""
    bits = _Bits(g, start, piece)
    whole = (1 << len(piece)) - 1
    first = tuple(k for k, b in enumerate(bits.before) if not b)
    # peak so far, tasks left (so that deep ones come first), live, set, the last task, what was ready before it
    heap: list[tuple[int, int, int, int, int, tuple[int, ...]]] = [(start.live, 0, start.live, 0, -1, first)]
    came: dict[int, tuple[float, int, int]] = {0: (start.live, -1, -1)}  # set -> peak, the last task, the set before it
    closed: set[int] = set()
    while heap:
        most, _, live, done, last, before = heapq.heappop(heap)
        if done == whole:
            return [piece[k] for k in _back(came, done)]
        if done in closed:
            continue
        closed.add(done)
        ready = before if last < 0 else bits.ready(before, last, done)
        if not budget.spend("order", len(ready) + len(piece) // 64):
            return None
        runs = [(*bits.run(k, done, live), k) for k in ready]
        # what takes no more than was taken, and leaves no more alive, is never better run later
        safe = next((r for r in runs if r[0] <= most and r[1] <= live), None)
        for during, after, k in runs if safe is None else (safe,):
            now, worst = done | 1 << k, max(most, during)
            if worst < came.get(now, (math.inf,))[0]:
                came[now] = worst, k, done
                heapq.heappush(heap, (worst, -now.bit_count(), after, now, k, ready))
    return None


def _back(came: Mapping[int, tuple[float, int, int]], done: int) -> list[int]:
    order = []
    while done:
        _, k, done = came[done]
        order.append(k)
    return order[::-1]


__all__ = ["Dependences", "Memory", "Order", "Task", "laid_over", "least_memory", "peak", "pieces"]

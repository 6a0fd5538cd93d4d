"""What strategies have in common: what was asked for and told, the tree of choices, the pool of what was predicted."""

from __future__ import annotations

import bisect
import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from tilewright.autotune.space import Point, Space, Value, draw, usual

Predict = Callable[[Sequence[Point]], Sequence[float | None]]
Pick = Callable[[Sequence[int]], int]

TRIES = 1000  # of drawing a schedule that is new, before a search gives up for now
ROUNDS = 16  # of points none of which can run, as predicted
FACTOR = 4  # of points that are predicted for one that is asked for


class _Node:
    """What there was to choose at a place, as numbers of choices: those still open, and the places behind them."""

    __slots__ = ("next", "open")

    def __init__(self) -> None:
        self.open: list[int] | None = None  # None: nobody has been here
        self.next: dict[int, _Node] = {}


class Tree:
    """The choices of a space, without those behind which everything has been drawn: drawing never does the same twice, and
    so it ends."""

    def __init__(self, space: Space):
        self.space = space
        self.closed = False  # everything has been drawn
        self._root = _Node()

    def draw(self, pick: Pick) -> Point | None:
        """Another point: `pick` says which of the open choices to take. None where the choices led to no schedule."""
        path: list[tuple[_Node, int]] = []
        at = self._root

        def choose(name: str, choices: Sequence[Value]) -> Value:
            nonlocal at
            k = pick(_open(at, len(choices)))
            path.append((at, k))
            at = at.next.setdefault(k, _Node())
            return choices[k]

        p = draw(self.space, choose)
        self._close(path)
        return p

    def _close(self, path: Sequence[tuple[_Node, int]]) -> None:
        for node, k in reversed(path):
            assert node.open is not None
            node.next.pop(k, None)
            node.open.remove(k)
            if node.open:
                return
        self.closed = True


def _open(node: _Node, number: int) -> list[int]:
    if node.open is None:
        node.open = list(range(number))
    return node.open


class Search:
    """A strategy: `ask` for schedules, `tell` what each took.

    `ask(n)` gives up to n points that have not been asked for and [] when there are no more; `ended` then says why. The
    `seeds` come first, then the space's usual point. Any number of points may be outstanding, and costs may be told in any
    order, or never; None is for a schedule that failed. What was measured elsewhere may be told too: it is not asked for
    then. `predict` gives the costs to be expected of some points (None: it can't tell; infinite: the point can't run, and is
    never asked for); what is asked for is then the best of several. Equal seeds, equal predictions and equal tells at the
    same moments give equal points.
    """

    name: ClassVar[str]

    def __init__(self, space: Space, seed: int = 0, predict: Predict | None = None, seeds: Iterable[Point] = ()):
        self.space, self.predict = space, predict
        self.rng = random.Random(seed)
        self.tree = Tree(space)
        self.ended = ""
        self.told: dict[str, tuple[Point, float | None]] = {}
        self._seen: set[str] = set()  # asked for, told, in the pool, or not feasible
        self._drawn: set[str] = set()  # from the tree
        self._pool: list[tuple[float, int, Point]] = []  # by prediction
        self._number = 0
        default = draw(space, usual)
        self._first = [*seeds, *([default] if default is not None else [])][::-1]

    # For who asks ---------------------------------------------------------------------------------------------

    def ask(self, n: int = 1) -> list[Point]:
        found: list[Point] = []
        self.ended = ""
        while self._first and len(found) < n:
            p = self._first.pop()
            if self.take(p):
                found.append(p)
        if len(found) < n:
            found += self.propose(n - len(found))
        return found

    def tell(self, point: Point, cost: float | None) -> None:
        """What a point took, the less the better; None: it failed."""
        if cost is not None and not math.isfinite(cost):
            cost = None
        self.take(point)
        self.told[point.hash] = point, cost
        self.learn(point, cost)

    # For strategies -------------------------------------------------------------------------------------------

    def propose(self, n: int) -> list[Point]:
        """Up to n points that are new; fewer only where there are no more."""
        raise NotImplementedError

    def learn(self, point: Point, cost: float | None) -> None:
        """Something was told."""

    def take(self, p: Point) -> bool:
        """Whether a point is new; from now on it is not."""
        if p.hash in self._seen:
            return False
        self._seen.add(p.hash)
        return True

    def is_new(self, p: Point | None) -> bool:
        return p is not None and p.hash not in self._seen

    def fresh(self, pick: Pick | None = None, tries: float = TRIES) -> Point | None:
        """A new point, at random or as `pick` chooses; None where there is none, or none was found."""
        while tries > 0 and not self.tree.closed:
            p = self.tree.draw(pick or self.rng.choice)
            if p is not None and self.take(p):
                self._drawn.add(p.hash)
                return p
            if p is not None and p.hash not in self._drawn:  # asked for or told without the tree: that happens once
                self._drawn.add(p.hash)
            else:
                tries -= 1
        self.ended = "every schedule of the space was asked for" if self.tree.closed else (
            f"no other schedule was found in {TRIES:,} tries"
        )  # fmt: skip
        return None

    def anywhere(self) -> Point | None:
        """A new point at random that can run, however good it is thought to be."""
        for _ in range(ROUNDS * FACTOR):
            p = self.fresh()
            if p is None or self.can_run(p):
                return p
        return None

    def can_run(self, p: Point) -> bool:
        """Whether a point is not predicted to be impossible."""
        return self.predict is None or self.predict([p])[0] != math.inf

    def best_of(self, makes: Callable[[], Point | None], n: int) -> list[Point]:
        """The best n of several times as many that `makes` makes (already taken), and of those left over; the first n
        of them without predictions. What is not asked for now stays in the pool: it counts for nothing among the several,
        as it is what was not good enough before."""
        wanted = n if self.predict is None else FACTOR * n
        for _ in range(ROUNDS):
            made: list[Point] = []
            while len(made) < wanted and (p := makes()) is not None:
                made.append(p)
            if self.predict is None:
                return made
            self._predicted(made)
            if len(self._pool) >= n or len(made) < wanted:
                break
        else:
            self.ended = f"none of the last {ROUNDS * FACTOR * n:,} schedules can run"
        found = [p for _, _, p in self._pool[:n]]
        del self._pool[:n]
        return found

    def _predicted(self, made: Sequence[Point]) -> None:
        """Put points into the pool, without those that can't run."""
        assert self.predict is not None
        figures = list(self.predict(made)) if made else []
        known = [f for f in figures if f is not None and math.isfinite(f)]
        unknown = statistics.median(known) if known else 0.0
        for p, f in zip(made, figures, strict=True):
            if f is None or math.isfinite(f):
                self._number += 1
                bisect.insort(self._pool, (unknown if f is None else f, self._number, p))

    @property
    def ranked(self) -> list[tuple[float, Point]]:
        """What was told, best first."""
        found = [(c, p) for p, c in self.told.values() if c is not None]
        return sorted(found, key=lambda x: (x[0], x[1].hash))


__all__ = ["FACTOR", "TRIES", "Pick", "Predict", "Search", "Tree"]

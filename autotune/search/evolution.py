"""Evolution over traces: what was measured to be good is varied and combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from tilewright.autotune.search.base import FACTOR, ROUNDS, Predict, Search
from tilewright.autotune.space import Point, Space, cross, mutate

POPULATION = 8  # of the best that have offspring: with a few hundred evaluations at most, few are better
FIRST = 4  # costs that are known before anything has offspring
TOURNAMENT = 3
CROSSED = 0.5  # of offspring: two parents
AT_RANDOM = 0.1  # of what is asked for: from anywhere in the space
TRIES = 20  # of a child that is new


class Evolution(Search):
    """Points at random first; then offspring of the best, and a share at random so that no part of the space is given up.

    Half of the offspring is what the model ranks best, half is as it comes. A parent wins a tournament among the best. A
    child has some of its choices changed, or has its choices from two parents.
    """

    name: ClassVar[str] = "evolution"

    def __init__(self, space: Space, seed: int = 0, predict: Predict | None = None, seeds: Iterable[Point] = ()):
        super().__init__(space, seed, predict, seeds)
        self._parents: list[Point] | None = None  # None: something was told since

    def learn(self, point: Point, cost: float | None) -> None:
        self._parents = None

    def propose(self, n: int) -> list[Point]:
        if self._parents is None:
            self._parents = [p for _, p in self.ranked[:POPULATION]]
        young = len(self.told) < FIRST or not self._parents
        make = self.fresh if young else self._child_or_any
        anywhere = 0 if young else sum(self.rng.random() < AT_RANDOM for _ in range(n))
        found = self._unranked(make, n - anywhere)
        if (ranked := n - anywhere - len(found)) > 0:
            found += self.best_of(make, ranked)
        while len(found) < n and (p := self.anywhere()) is not None:
            found.append(p)
        return found if len(found) == n else found + self.best_of(lambda: None, n - len(found))

    def _unranked(self, make: Callable[[], Point | None], n: int) -> list[Point]:
        """Half of n points as they come, but for what can't run: where the model can't tell schedules apart, ranking them
        by it misleads. None where there is no model."""
        found: list[Point] = []
        half = 0 if self.predict is None else (n + self.rng.randrange(2)) // 2
        for _ in range(ROUNDS * FACTOR):
            if len(found) == half or (p := make()) is None:
                break
            if self.can_run(p):
                found.append(p)
        return found

    def _child_or_any(self) -> Point | None:
        return self._child() or self.fresh()

    def _child(self) -> Point | None:
        """A new point that descends from the best."""
        assert self._parents
        for _ in range(TRIES):
            parent = self._winner(self._parents)
            child: Point | None = parent
            if self.rng.random() < CROSSED:
                child = cross(self.space, parent, self._winner(self._parents), self.rng)
            if child is None or not self.is_new(child):
                child = mutate(self.space, child or parent, self.rng)
            if child is not None and self.take(child):
                return child
        return None

    def _winner(self, parents: list[Point]) -> Point:
        """The best of a few: parents are in their order."""
        return parents[min(self.rng.randrange(len(parents)) for _ in range(TOURNAMENT))]


__all__ = ["Evolution"]

"""Evolution over traces: what was measured to be good is varied and combined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tilewright.autotune.search.base import Predict, Search
from tilewright.autotune.space import Point, Space, cross, mutate

POPULATION = 8  # of the best that have offspring: with a few hundred evaluations at most, few are better
FIRST = 4  # costs that are known before anything has offspring
TOURNAMENT = 3
CROSSED = 0.5  # of offspring: two parents
AT_RANDOM = 0.1  # of what is asked for: from anywhere in the space
TRIES = 20  # of a child that is new


class Evolution(Search):
    """Points at random first; then offspring of the best, and a share at random so that no part of the space is given up.

    A parent wins a tournament among the best. A child has some of its choices changed, or has its choices from two parents.
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
        if len(self.told) < FIRST or not self._parents:
            return self.best_of(self.fresh, n)
        anywhere = sum(self.rng.random() < AT_RANDOM for _ in range(n))
        found = self.best_of(self._child_or_any, n - anywhere) if n > anywhere else []
        while len(found) < n and (p := self.anywhere()) is not None:
            found.append(p)
        return found if len(found) == n else found + self.best_of(lambda: None, n - len(found))

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

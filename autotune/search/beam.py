"""Beam search: the choices of a space one after the other, keeping the few beginnings that lead to the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tilewright.autotune.search.base import Predict, Search
from tilewright.autotune.space import Decision, Point, Space, Value, by_name, draw

WIDTH = 4  # beginnings that are kept
COARSE = 3  # values of a choice that the first pass looks at
MEASURED = 2  # of a level, for each beginning that is kept, where predictions rank them

Beginning = tuple[tuple[str, Value], ...]


class Beam(Search):
    """A beginning is the first few choices of a point. At each level the next choice is tried in all beginnings that were
    kept, with what comes after as in the best point so far (at first as usual); those of the best points go on. A beginning
    is as good as the best point known that begins so.

    The first pass looks at few values of each choice, the next ones at all. When a pass finds nothing new, points at
    random follow, and another pass as soon as one of them is the best. With predictions, only the best of each level as
    predicted are asked for. While a level waits for its costs, points at random are asked for, one at a time.
    """

    name: ClassVar[str] = "beam"

    def __init__(self, space: Space, seed: int = 0, predict: Predict | None = None, seeds: Iterable[Point] = ()):
        super().__init__(space, seed, predict, seeds)
        self._passes = 0
        self._rest: dict[str, Value] = {}  # of the point that this pass began with
        self._level = 0
        self._kept: list[Beginning] = [()]
        self._tried: list[tuple[Beginning, Point]] = []  # of this level
        self._waiting: list[Point] = []  # to be asked for
        self._asked: list[str] = []  # of this level, by hash
        self._found_new = False
        self._best = math.inf  # when the last pass began
        self._over = False

    def learn(self, point: Point, cost: float | None) -> None:
        if cost is not None and self._over and cost < self._best:
            self._begin()

    def propose(self, n: int) -> list[Point]:
        while not self._waiting and not self._over:
            if any(h not in self.told for h in self._asked):
                break  # a cost that has not been told
            self._next_level()
        found, self._waiting = self._waiting[:n], self._waiting[n:]
        if found:
            return found
        p = self.anywhere()
        return [p] if p is not None else []

    def _begin(self) -> None:
        """Begin a pass from the best point."""
        ranked = self.ranked
        self._rest = dict(ranked[0][1].values) if ranked else {}
        self._best = ranked[0][0] if ranked else math.inf
        self._passes += 1
        self._level, self._kept, self._tried, self._asked = 0, [()], [], []
        self._found_new = self._over = False

    def _next_level(self) -> None:
        """Choose among the beginnings of a level, and lay out the next one."""
        if not self._passes:
            self._begin()
        if self._tried:
            scores = {b: self._score(b) for b, _ in self._tried}
            self._kept = sorted(scores, key=lambda b: (scores[b], list(scores).index(b)))[:WIDTH]
            self._level += 1
        self._tried = self._laid_out()
        if not self._tried:
            if self._found_new or self._passes == 1:
                self._begin()
            else:
                self._over = True
            return
        self._waiting = self._worth(list({p.hash: p for _, p in self._tried if self.is_new(p)}.values()))
        self._found_new = self._found_new or bool(self._waiting)
        self._asked = [p.hash for p in self._waiting if self.take(p)]

    def _worth(self, points: list[Point]) -> list[Point]:
        if self.predict is None or not points:
            return points
        figures = [math.nan if f is None else f for f in self.predict(points)]
        able = [k for k, f in enumerate(figures) if f != math.inf]
        for k, f in enumerate(figures):
            if f == math.inf:
                self.take(points[k])
        able.sort(key=lambda k: (math.isnan(figures[k]), figures[k], k))
        return [points[k] for k in able[: MEASURED * WIDTH]]

    def _laid_out(self) -> list[tuple[Beginning, Point]]:
        found: dict[tuple[Beginning, str], Point] = {}
        for begin in self._kept:
            p = self._completed(begin)
            open_ = _open(p)
            if len(open_) <= self._level:
                continue
            d = open_[self._level]
            for value in self._values(d):
                b = (*begin, (d.name, value))
                made = self._completed(b)
                if made is not None:
                    found[b, made.hash] = made
        return [(b, p) for (b, _), p in found.items()]

    def _values(self, d: Decision) -> Sequence[Value]:
        """The values of a choice that this pass looks at."""
        if self._passes > 1 or len(d.choices) <= COARSE:
            return d.choices
        last = len(d.choices) - 1
        spread = {round(k * last / (COARSE - 1)) for k in range(COARSE)}
        return [v for k, v in enumerate(d.choices) if k in spread or v == d.value]

    def _completed(self, begin: Beginning) -> Point | None:
        values: Mapping[str, Value] = {**self._rest, **dict(begin)}
        return draw(self.space, by_name(values))

    def _score(self, begin: Beginning) -> float:
        """The best cost known of a point that begins so."""
        return min((c for c, p in self.ranked if _begins(p, begin)), default=math.inf)


def _open(p: Point | None) -> list[Decision]:
    return [] if p is None else [d for d in p.trace if len(d.choices) > 1]


def _begins(p: Point, begin: Beginning) -> bool:
    own = _open(p)
    return len(own) >= len(begin) and all((d.name, d.value) == b for d, b in zip(own, begin, strict=False))


__all__ = ["Beam"]

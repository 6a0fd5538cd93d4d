"""Sets of cache lines as sorted disjoint intervals of line numbers: unions, intersections, how they fall onto sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_RUNS = 1 << 13  # more intervals than this are told apart no further


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines low..high (inclusive) of every interval."""

    low: np.ndarray
    high: np.ndarray

    @cached_property
    def count(self) -> int:
        return int((self.high - self.low + 1).sum())

    def on_sets(self, sets: int) -> np.ndarray:
        """How many of the lines fall onto each set (line number modulo their number)."""
        if sets == 1:
            return np.array([self.count])
        length = self.high - self.low + 1
        first = self.low % sets
        steps = np.bincount(first, minlength=2 * sets + 1) - np.bincount(first + length % sets, minlength=2 * sets + 1)
        around = np.cumsum(steps)
        return around[:sets] + around[sets : 2 * sets] + int((length // sets).sum())

    def where(self, good: np.ndarray) -> int:
        """How many of the lines fall onto sets that are `good` (one bool a set)."""
        sets = len(good)
        if good.all():
            return self.count
        length = self.high - self.low + 1
        first = self.low % sets
        before = np.concatenate([[0], np.cumsum(np.concatenate([good, good]))])
        rest = before[first + length % sets] - before[first]
        return int(rest.sum() + (length // sets).sum() * good.sum())

    def __and__(self, other: Lines) -> Lines:
        places = np.concatenate([self.low, other.low, self.high + 1, other.high + 1])
        n = len(self.low) + len(other.low)
        order = np.argsort(places, kind="stable")
        depth = np.cumsum(np.where(order < n, 1, -1))
        places = places[order]
        both = np.flatnonzero((depth[:-1] == 2) & (places[:-1] < places[1:]))
        return Lines(places[both], places[both + 1] - 1)


NONE = Lines(np.zeros(0, np.int64), np.zeros(0, np.int64))


def union(parts: Iterable[Lines]) -> Lines:
    some = list(parts)
    if len(some) < 2:
        return some[0] if some else NONE
    return merged(np.concatenate([x.low for x in some]), np.concatenate([x.high for x in some]))


def merged(low: np.ndarray, high: np.ndarray) -> Lines:
    """Intervals that may overlap, as lines."""
    if len(low) < 2:
        return Lines(low, high)
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    new = low[1:] > high[:-1] + 1
    return Lines(low[np.concatenate([[True], new])], high[np.concatenate([new, [True]])])


def lattice(starts: np.ndarray, axes: Iterable[tuple[int, int]], size: int, line: int) -> Lines:
    """The lines of `size` bytes at every start + the sums of k * step, k < n, of all `axes` (step, n), in bytes.

    What lies less than a line apart is one run. Of very many runs the closest ones are put together, which keeps
    their number of lines and not their places.
    """
    run, far = size, []
    for step, n in sorted((abs(step), n) for step, n in axes if step and n > 1):
        if step < max(line, run + 1):
            run += step * (n - 1)
        else:
            far.append((step, n))
    low_end = sum(step * (n - 1) for step, n in axes if step < 0)
    while far and len(starts) * np.prod([float(n) for _, n in far]) > _RUNS:
        step, n = far.pop(0)
        run = n * max(line, -(-run // line) * line)
    at = starts + low_end
    for step, n in far:
        at = (at[:, None] + step * np.arange(n)).ravel()
    return merged(at // line, (at + run - 1) // line)

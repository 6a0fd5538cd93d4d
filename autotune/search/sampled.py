"""Strategies that learn nothing from costs: all points in order, and points at random."""

from __future__ import annotations

import math
from typing import ClassVar

from tilewright.autotune.search.base import Search
from tilewright.autotune.space import Point


class Exhaustive(Search):
    """Every schedule of the space, in the order of its choices, the usual ones first. With predictions, the best of each few
    of them first."""

    name: ClassVar[str] = "exhaustive"

    def propose(self, n: int) -> list[Point]:
        return self.best_of(lambda: self.fresh(lambda open_: open_[0], math.inf), n)


class Random(Search):
    """Each choice at random among those behind which there still is something, until there is no other schedule. With
    predictions, the best of four times as many."""

    name: ClassVar[str] = "random"

    def propose(self, n: int) -> list[Point]:
        return self.best_of(self.fresh, n)


__all__ = ["Exhaustive", "Random"]

"""How much a search may look at: a number of states for each pass, and seconds for all of them together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tilewright.planner.goal import Goal


class Budget:
    """The bounds of one search for a plan. It begins when it is made.

    States are the bound that is met: a pass that ends after so many of them ends at the same one in every run, on every
    machine. The clock is for machines that are slow, and for graphs whose states take long to look at; what it ends
    may differ from run to run.
    """

    def __init__(self, goal: Goal, clock: Callable[[], float] = time.monotonic):
        self.goal, self._clock, self._end = goal, clock, clock() + goal.budget_s
        self._looked: dict[str, int] = {}
        self._stopped: dict[str, str] = {}
        self._late = False

    def spend(self, name: str, states: int = 1) -> bool:
        """Whether the pass `name` may look at so many states more. Once it may not it never may again: it takes the best
        that it has found, and is among those that `stopped`."""
        if name in self._stopped:
            return False
        looked = self._looked.get(name, 0) + states
        if looked > self.goal.states:
            self._stopped[name] = f"{self.goal.states:,} states looked at"
            return False
        if self._clock() > self._end:
            self._stopped[name] = f"{self.goal.budget_s:g} s are over"
            self._late = True
            return False
        self._looked[name] = looked
        return True

    @property
    def looked(self) -> Mapping[str, int]:
        """The states that each pass has looked at."""
        return dict(self._looked)

    @property
    def stopped(self) -> Mapping[str, str]:
        """Each pass that ended early, and which bound it met."""
        return dict(self._stopped)

    @property
    def late(self) -> bool:
        """Whether the clock ended a pass: then another run may find another plan."""
        return self._late


__all__ = ["Budget"]

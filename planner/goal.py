"""What a plan is made for: what it should be best at, for which sizes, and how long may be searched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilewright.lang.errors import TilewrightError, user_location
from tilewright.planner.errors import PlanError

Objective = Literal["latency", "traffic", "memory"]
Phase = Literal["prefill", "decode"]

OBJECTIVES: dict[str, str] = {
    "latency": "cycles of the whole",
    "traffic": "bytes that are read from and written to main memory",
    "memory": "the most bytes that live at once",
}
PHASES: dict[str, str] = {
    "prefill": "many rows at once: large results between steps",
    "decode": "a row or a few: small kernels, for which weights are read",
}

Range = tuple[int, int]  # the lowest and the highest value of a size, both included


@dataclass(frozen=True)
class Goal:
    """What a plan should have least of (`objective`), and bounds of the search for it.

    `phase` is a word of the user's about the model ("prefill", "decode") for what sizes alone don't say; None: sizes
    decide. `states` bounds the search in what it looks at, so that a plan is the same in every run, and `budget_s` in
    seconds, in case a machine is slow. Equal goals with one `seed` give equal plans. Raises PlanError `plan.objective`,
    `plan.phase`, `plan.budget` or `plan.seed` for others.
    """

    objective: Objective = "latency"
    phase: Phase | None = None
    budget_s: float = 10.0
    states: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.objective not in tuple(OBJECTIVES):
            raise _refused("objective", f"{self.objective!r} is no objective", _listed(OBJECTIVES))
        if self.phase is not None and self.phase not in tuple(PHASES):
            raise _refused("phase", f"{self.phase!r} is no phase", f"{_listed(PHASES)}, or none")
        if not _is_number(self.budget_s) or not self.budget_s > 0:
            raise _refused("budget", f"a budget of {self.budget_s!r} seconds", "a number above 0, such as 10")
        if not _is_whole(self.states) or self.states < 1:
            raise _refused("budget", f"a bound of {self.states!r} states", "a whole number from 1, such as 100_000")
        if not _is_whole(self.seed) or self.seed < 0:
            raise _refused("seed", f"{self.seed!r} is no seed", "a whole number from 0")


def _is_whole(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and not math.isnan(x)


def _listed(words: dict[str, str]) -> str:
    return ", ".join(f"{word} ({what})" for word, what in words.items())


def _refused(kind: str, problem: str, legal: str) -> TilewrightError:
    return PlanError(problem, code=f"plan.{kind}", where=user_location(), hint=f"give {legal}")


@dataclass(frozen=True)
class Point:
    """Sizes at which the candidates for a plan were compared: what the plan takes there, and how many times that is of the
    best candidate; `tight` are regions of which a tile is too large there for the memory that it should stay in."""

    sizes: Mapping[str, int]
    cycles: float
    ratio: float
    tight: tuple[str, ...]


@dataclass(frozen=True)
class ValidFor:
    """For which sizes a plan was made: the `ranges` that were asked for, and the points in them that it was held against.

    Values are right at all other sizes as well; what may not hold there is that tiles fit, and that no other plan is better.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    def __str__(self) -> str:
        said = ", ".join(f"{n}={_range_text(r)}" for n, r in self.ranges.items())
        return f"made for {said or 'all calls'}; values are right at all sizes"

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether the plan was made for these sizes."""
        return all(lo <= sizes[n] <= hi for n, (lo, hi) in self.ranges.items())


def _range_text(r: Range) -> str:
    return str(r[0]) if r[0] == r[1] else f"{r[0]}..{r[1]}"


__all__ = ["OBJECTIVES", "PHASES", "Goal", "Objective", "Phase", "Point", "Range", "ValidFor"]

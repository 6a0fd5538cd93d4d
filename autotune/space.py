"""Spaces of schedules: a space builds a schedule by making choices, and what was chosen is the schedule's trace.

A choice is made among a short list of values, of which the first one is the usual one. Which choices there are may depend
on those before. Two traces may lead to the same schedule, so points are told apart by the hash of their schedules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.lang.errors import ScheduleError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule

Value = bool | int | str | tuple[int | str, ...]
Choose = Callable[[str, Sequence[Value]], Value]
TRIES = 200  # of drawing a point: that many without a schedule end a search


class Dead(Exception):
    """Raised while a space builds: the choices so far lead to no schedule."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: its name, what there was to choose from, and what was chosen."""

    name: str
    choices: tuple[Value, ...]
    value: Value


Trace = tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A schedule of a space, and the choices that led to it."""

    trace: Trace
    schedule: Schedule

    @property
    def values(self) -> dict[str, Value]:
        """What was chosen, by name."""
        return {d.name: d.value for d in self.trace}

    @property
    def hash(self) -> str:
        return self.schedule.hash


class Space(Protocol):
    """What is searched: `build` makes a schedule of the pipeline, asking `choose` for each choice. Names of choices differ.

    It may raise ScheduleError or Dead where choices lead to nothing.
    """

    @property
    def name(self) -> str: ...

    @property
    def pipeline(self) -> Pipeline: ...

    def build(self, choose: Choose) -> Schedule: ...


def draw(space: Space, choose: Choose) -> Point | None:
    """The point that these choices lead to; None where they lead to no schedule."""
    trace: list[Decision] = []

    def recorded(name: str, choices: Sequence[Value]) -> Value:
        among = tuple(choices)
        if not among:
            raise Dead
        value = among[0] if len(among) == 1 else choose(name, among)
        trace.append(Decision(name, among, value))
        return value

    try:
        schedule = space.build(recorded)
    except (ScheduleError, Dead):
        return None
    return Point(tuple(trace), schedule)


def usual(name: str, choices: Sequence[Value]) -> Value:
    """The first choice."""
    return choices[0]


def starts(space: Space) -> list[Point]:
    """The points to begin with: those that the space names (by a method `starts`), else the all-usual one."""
    named = getattr(space, "starts", None)
    made = draw(space, usual) if named is None else None
    return list(named()) if named is not None else [] if made is None else [made]


def at_random(rng: random.Random) -> Choose:
    return lambda name, choices: rng.choice(choices)


def by_name(values: Mapping[str, Value], otherwise: Choose = usual) -> Choose:
    """The named values, where they are among the choices (of numbers the nearest one, by ratio), and else `otherwise`."""

    def choose(name: str, choices: Sequence[Value]) -> Value:
        if name not in values:
            return otherwise(name, choices)
        wanted = values[name]
        if wanted in choices:
            return wanted
        numbers = [c for c in choices if type(c) is int and c > 0]
        if type(wanted) is int and wanted > 0 and numbers:
            return min(numbers, key=lambda c: (max(c, wanted) / min(c, wanted), c))
        return otherwise(name, choices)

    return choose


def sample(space: Space, rng: random.Random, tries: int = TRIES) -> Point | None:
    """A point at random; None where none was found."""
    for _ in range(tries):
        if (p := draw(space, at_random(rng))) is not None:
            return p
    return None


def mutate(space: Space, p: Point, rng: random.Random, tries: int = TRIES) -> Point | None:
    """A point that differs from `p` in a decision or a few: half of the time a step to a value beside it, else to any.

    Later choices stay what they are where they still can be made, and are random where not.
    """
    open_ = [d for d in p.trace if len(d.choices) > 1]
    if not open_:
        return None
    for _ in range(tries):
        values = p.values
        for d in rng.sample(open_, min(len(open_), 1 + (rng.random() < 0.3) + (rng.random() < 0.1))):
            values[d.name] = _other(d, rng)
        made = draw(space, by_name(values, at_random(rng)))
        if made is not None and made.hash != p.hash:
            return made
    return None


def _other(d: Decision, rng: random.Random) -> Value:
    """Another value: of numbers, which may stand in any order (the usual one first), beside is what is next in size."""
    numbers = all(type(c) is int for c in d.choices)
    ranked = sorted(d.choices) if numbers else d.choices  # type: ignore[type-var]
    at = ranked.index(d.value)
    if rng.random() < 0.5:
        beside = [k for k in (at - 1, at + 1) if 0 <= k < len(ranked)]
        return ranked[rng.choice(beside)]
    return ranked[rng.choice([k for k in range(len(ranked)) if k != at])]


def cross(space: Space, a: Point, b: Point, rng: random.Random) -> Point | None:
    """A point that has each of its choices from one of two."""
    other = b.values
    values = {n: other[n] if n in other and rng.random() < 0.5 else v for n, v in a.values.items()}
    return draw(space, by_name(values, at_random(rng)))


def neighbours(space: Space, p: Point) -> Iterator[Point]:
    """The points that differ from `p` in one decision (and what hangs on it), each schedule once."""
    seen = {p.hash}
    for d in p.trace:
        for value in d.choices:
            made = draw(space, by_name({**p.values, d.name: value})) if value != d.value else None
            if made is not None and made.hash not in seen:
                seen.add(made.hash)
                yield made


def points(space: Space) -> Iterator[Point]:
    """All points, each schedule once, in the order of their choices: those with the usual values first."""
    seen: set[str] = set()
    prefix: list[int] | None = []
    while prefix is not None:
        taken: list[tuple[int, int]] = []  # of each choice so far: its number, and how many there are
        start = prefix

        def choose(name: str, choices: Sequence[Value], taken=taken, start=start) -> Value:
            at = start[len(taken)] if len(taken) < len(start) else 0
            taken.append((at, len(choices)))
            return choices[at]

        p = draw(space, choose)
        if p is not None and p.hash not in seen:
            seen.add(p.hash)
            yield p
        prefix = _next(taken)


def _next(taken: Sequence[tuple[int, int]]) -> list[int] | None:
    """The choices after these, in order; None after the last ones."""
    for k in range(len(taken) - 1, -1, -1):
        at, of = taken[k]
        if at + 1 < of:
            return [*(a for a, _ in taken[:k]), at + 1]
    return None


__all__ = [
    "Choose", "Dead", "Decision", "Point", "Space", "Trace", "Value", "at_random", "by_name", "cross", "draw", "mutate",
    "neighbours", "points", "sample", "starts", "usual",
]  # fmt: skip

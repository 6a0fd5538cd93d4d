"""Search: strategies that say which schedules of a space to try next, and are told what these took.

    search = strategy("evolution", space, seed=0)
    while points := search.ask(4):
        for p in points:
            search.tell(p, cost_of(p.schedule))  # None where it failed
    cost, best = search.ranked[0]

Whoever measures has the loop: strategies start nothing, and know no clock. So a sampler from outside needs no more than
`ask` and `tell` to take their place. It may draw points of a space by itself: `draw(space, choose)` calls `choose(name,
choices)` for each choice, as a study of Optuna's is defined by running it (see `search/optuna.py`, which is a strategy too).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tilewright.autotune.errors import TuneError
from tilewright.autotune.search.base import Predict, Search
from tilewright.autotune.search.beam import Beam
from tilewright.autotune.search.evolution import Evolution
from tilewright.autotune.search.optuna import Optuna
from tilewright.autotune.search.sampled import Exhaustive, Random
from tilewright.autotune.space import Point, Space
from tilewright.lang.errors import user_location

STRATEGIES: dict[str, Callable[..., Search]] = {s.name: s for s in (Evolution, Beam, Random, Exhaustive, Optuna)}


class Strategy(Protocol):
    """What a tuner needs of a strategy, see `Search`."""

    def ask(self, n: int = 1) -> list[Point]: ...

    def tell(self, point: Point, cost: float | None) -> None: ...


def strategy(
    name: str, space: Space, seed: int = 0, predict: Predict | None = None, seeds: Iterable[Point] = ()
) -> Search:  # fmt: skip
    """The strategy of this name: evolution, beam, random, exhaustive or optuna. Raises TuneError `tune.strategy` for others,
    `tune.extra` where it needs what is not installed."""
    if name not in STRATEGIES:
        raise TuneError(f"there is no strategy {name!r}", code="tune.strategy", where=user_location(),
                        hint="there are " + ", ".join(STRATEGIES))  # fmt: skip
    return STRATEGIES[name](space, seed, predict, seeds)


__all__ = ["STRATEGIES", "Predict", "Search", "Strategy", "strategy"]

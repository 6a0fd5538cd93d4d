"""Optuna as a strategy (extra `optuna`): any of its samplers, told through the same ask and tell."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tilewright.autotune.errors import TuneError
from tilewright.autotune.search.base import Predict, Search
from tilewright.autotune.space import Point, Space, Trace, Value, draw
from tilewright.lang.errors import user_location

REPEATS = 20  # suggestions that are no new schedule, before one is drawn at random


class Optuna(Search):
    """A study whose trials are points, its parameters defined by running the space: each choice is a parameter, of which the
    value is the number of the choice. What can be chosen may differ from trial to trial; a choice among others is another
    parameter.

    Everything told becomes a trial, so seeds and what was measured elsewhere serve the sampler too. What failed, and choices
    that lead to no schedule, cost infinitely much. `sampler` is one of Optuna's (default: TPE, with outstanding points taken
    for bad ones). Predictions only leave out what can't run. Raises TuneError `tune.extra` without Optuna.
    """

    name: ClassVar[str] = "optuna"

    def __init__(
        self, space: Space, seed: int = 0, predict: Predict | None = None, seeds: Iterable[Point] = (), sampler: Any = None
    ):  # fmt: skip
        super().__init__(space, seed, predict, seeds)
        try:
            import optuna
        except ImportError:
            raise TuneError(
                "the strategy optuna needs Optuna", code="tune.extra", where=user_location(),
                hint="pip install 'tilewright[optuna]', or take another strategy: evolution",
            ) from None  # fmt: skip
        self._optuna = optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", optuna.exceptions.ExperimentalWarning
            )  # of options that are there for years
            own = sampler or optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)
        self.study = optuna.create_study(sampler=own)
        self._trials: dict[str, Any] = {}  # outstanding, by hash

    def propose(self, n: int) -> list[Point]:
        found: list[Point] = []
        for _ in range(n):
            p = self._suggested() or self.anywhere()
            if p is None:
                break
            found.append(p)
        return found

    def learn(self, point: Point, cost: float | None) -> None:
        value = math.inf if cost is None else cost
        trial = self._trials.pop(point.hash, None)
        if trial is not None:
            self.study.tell(trial, value)
        else:
            self._add(point.trace, value)

    def _suggested(self) -> Point | None:
        """A new point as the sampler would have it."""
        if self.tree.closed:
            return None
        for _ in range(REPEATS):
            trial = self.study.ask()
            p = draw(self.space, lambda name, choices, t=trial: self._choice(t, name, choices))
            if p is None:
                self.study.tell(trial, math.inf)
            elif self.take(p):
                if self.can_run(p):
                    self._trials[p.hash] = trial
                    return p
                self.study.tell(trial, math.inf)
            else:  # known: the sampler learns it once more, so that it goes elsewhere
                cost = self.told.get(p.hash, (p, None))[1]
                self.study.tell(trial, math.inf if cost is None else cost)
        return None

    def _choice(self, trial: Any, name: str, choices: Sequence[Value]) -> Value:
        if _ordered(choices):
            ranked = sorted(choices)  # type: ignore[type-var]
            return ranked[trial.suggest_int(_parameter(name, choices), 0, len(choices) - 1)]
        return choices[trial.suggest_categorical(_parameter(name, choices), list(range(len(choices))))]

    def _add(self, trace: Trace, value: float) -> None:
        params: dict[str, Any] = {}
        kinds: dict[str, Any] = {}
        of = self._optuna.distributions
        for d in trace:
            if len(d.choices) > 1:
                name, last = _parameter(d.name, d.choices), len(d.choices) - 1
                own = _ordered(d.choices)
                kinds[name] = of.IntDistribution(0, last) if own else of.CategoricalDistribution(range(last + 1))
                params[name] = (sorted(d.choices) if own else d.choices).index(d.value)  # type: ignore[type-var]
        self.study.add_trial(self._optuna.trial.create_trial(params=params, distributions=kinds, value=value))


def _ordered(choices: Sequence[Value]) -> bool:
    return all(type(c) is int for c in choices)


def _parameter(name: str, choices: Sequence[Value]) -> str:
    return f"{name} of {', '.join(map(str, choices))}"


__all__ = ["Optuna"]

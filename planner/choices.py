"""Choices that cost something each and in pairs, and the choices with the least sum: exactly, by SciPy's MILP.

What is connected by pairs is solved for itself, and equal problems (the layers of a model) once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.planner.budget import Budget
from tilewright.planner.errors import PlanError

_FEW = 512  # assignments that are tried one by one rather than by a solver

Table = tuple[tuple[float, ...], ...]  # costs by the options of the first and of the second of a pair


@dataclass(frozen=True)
class Choices:
    """`costs` has, for each choice, what each of its options costs; `pairs` (first, second, table) what two options
    cost together. Costs are finite."""

    costs: tuple[tuple[float, ...], ...]
    pairs: tuple[tuple[int, int, Table], ...] = ()

    def total(self, taken: Sequence[int]) -> float:
        """What an assignment (the option of each choice) costs."""
        own = sum(c[o] for c, o in zip(self.costs, taken, strict=True))
        return own + sum(t[taken[a]][taken[b]] for a, b, t in self.pairs)

    @cached_property
    def assignments(self) -> int:
        return math.prod(map(len, self.costs))

    def parts(self) -> Iterator[tuple[tuple[int, ...], Choices]]:
        """What no pair connects with the rest, as problems of their own with the choices' numbers."""
        leader = list(range(len(self.costs)))

        def find(k: int) -> int:
            while leader[k] != k:
                leader[k] = leader[leader[k]]
                k = leader[k]
            return k

        for a, b, _ in self.pairs:
            leader[max(find(a), find(b))] = min(find(a), find(b))
        members: dict[int, list[int]] = {}
        for k in range(len(self.costs)):
            members.setdefault(find(k), []).append(k)
        pairs: dict[int, list[tuple[int, int, Table]]] = {m: [] for m in members}
        for pair in self.pairs:
            pairs[find(pair[0])].append(pair)
        for m, inside in members.items():
            own = {k: n for n, k in enumerate(inside)}
            moved = tuple((own[a], own[b], t) for a, b, t in pairs[m])
            yield tuple(inside), Choices(tuple(self.costs[k] for k in inside), moved)


def cheapest(choices: Choices, budget: Budget | None = None) -> tuple[int, ...]:
    """The assignment with the least total; of equal ones the same in every run.

    A state of the `budget` is an assignment that is tried, or a choice that a solver is given; what it no longer covers is
    chosen greedily. Raises PlanError `plan.solver` where SciPy is needed and not installed.
    """
    taken = [0] * len(choices.costs)
    solved: dict[Choices, tuple[int, ...]] = {}
    for numbers, part in choices.parts():
        if part not in solved:
            few = part.assignments <= _FEW
            if budget is not None and not budget.spend("layout", part.assignments if few else len(part.costs)):
                solved[part] = greedy(part)
            else:
                solved[part] = by_trial(part) if few else by_milp(part)
        for k, option in zip(numbers, solved[part], strict=True):
            taken[k] = option
    return tuple(taken)


def by_trial(choices: Choices) -> tuple[int, ...]:
    """The best of all assignments, the first of equal ones."""
    return min(itertools.product(*(range(len(c)) for c in choices.costs)), key=choices.total)


def greedy(choices: Choices, groups: Iterable[Iterable[int]] | None = None) -> tuple[int, ...]:
    """Each of the `groups` of choices (by default each choice alone) takes what costs itself least, as if there were
    no others."""
    taken = [0] * len(choices.costs)
    for group in groups if groups is not None else ([k] for k in range(len(taken))):
        inside = list(group)
        own = {k: n for n, k in enumerate(inside)}
        pairs = tuple((own[a], own[b], t) for a, b, t in choices.pairs if a in own and b in own)
        for numbers, part in Choices(tuple(choices.costs[k] for k in inside), pairs).parts():
            for n, option in zip(numbers, by_trial(part), strict=True):
                taken[inside[n]] = option
    return tuple(taken)


def by_milp(choices: Choices) -> tuple[int, ...]:
    """The best assignment by mixed-integer linear programming (HiGHS).

    One binary an option, one share a pair of options: shares sum up to the binaries of either side, so that they are those
    of the pairs that are taken.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array
    except ImportError:
        raise PlanError(
            f"{choices.assignments:,} assignments of layouts are too many to try, and SciPy is not installed",
            code="plan.solver", hint="pip install 'tilewright[plan]'",
        ) from None  # fmt: skip
    first = np.cumsum([0, *(len(c) for c in choices.costs)])
    costs = [x for c in choices.costs for x in c]
    rows: list[dict[int, float]] = [dict.fromkeys(range(a, b), 1.0) for a, b in itertools.pairwise(first)]
    sums = [1.0] * len(rows)
    for a, b, table in choices.pairs:
        at = len(costs)
        width = len(table[0])
        costs += [x for row in table for x in row]
        for o in range(len(table)):
            rows.append({first[a] + o: -1.0, **{at + o * width + k: 1.0 for k in range(width)}})
        for k in range(width):
            rows.append({first[b] + k: -1.0, **{at + o * width + k: 1.0 for o in range(len(table))}})
        sums += [0.0] * (len(table) + width)
    entries = [(k, column, x) for k, row in enumerate(rows) for column, x in row.items()]
    at_row, at_column, values = zip(*entries, strict=True)
    matrix = coo_array((values, (at_row, at_column)), shape=(len(rows), len(costs)))
    whole = np.zeros(len(costs))
    whole[: first[-1]] = 1
    exactly: Any = np.array(sums)
    scale = max(map(abs, costs)) or 1.0  # tolerances of the solver are absolute
    found = milp(
        np.array(costs) / scale, integrality=whole, bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix.tocsr(), exactly, exactly), options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    if found.x is None:
        raise PlanError(f"no assignment of layouts was found: {found.message}", code="plan.solver")
    return tuple(int(np.argmax(found.x[a:b])) for a, b in itertools.pairwise(first))


__all__ = ["Choices", "Table", "by_milp", "by_trial", "cheapest", "greedy"]

"""What a plan takes on a simulated machine: the accounts of its steps, and their sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.hw import Account
from tilewright.lang.binding import check_all_sizes
from tilewright.planner.worst import most

if TYPE_CHECKING:
    from tilewright.planner.plan import Plan


@dataclass(frozen=True)
class PlanAccount:
    """Steps that run one after the other on a machine.

    `cycles` is None where a step has no time (the machine has no rate for its types). `read` and `written` are bytes by
    memory, `peaks` the most that one step takes of each memory besides main, whose tensors are the plan's buffers.
    """

    machine: str
    steps: tuple[tuple[str, Account], ...]

    @property
    def cycles(self) -> float | None:
        times = [a.time for _, a in self.steps]
        return None if None in times else sum(t.cycles for t in times if t is not None)

    @property
    def read(self) -> dict[str, int]:
        return self._summed("bytes_read")

    @property
    def written(self) -> dict[str, int]:
        return self._summed("bytes_written")

    @property
    def peaks(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for _, a in self.steps:
            for f in a.footprint:
                found[f.memory] = max(found.get(f.memory, 0), f.peak)
        return found

    def _summed(self, what: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for _, a in self.steps:
            for row in a.traffic:
                found[row.memory] = found.get(row.memory, 0) + getattr(row, what)
        return found


def account_of(plan: Plan, sizes: Mapping[str, int]) -> PlanAccount:
    """The accounts of a plan's steps at these sizes, equal steps once.

    Raises CapacityError where a tile does not fit at these sizes, SimulationError `skeleton.data` where loops go by data.
    """
    scalars = {s.name for s in plan.pipeline.scalars}
    named = isinstance(sizes, Mapping)
    check_all_sizes(plan.pipeline, {n: v for n, v in sizes.items() if n not in scalars} if named else sizes)
    made: dict[tuple[str, str], Account] = {}
    for s in plan.steps:
        key = s.part.pipeline.digest, s.schedule.hash
        if key not in made:
            own = {**sizes, **{n: sizes[whole] for n, whole in s.part.names.items() if whole in sizes}}
            kept = s.staged is not None and dict(sizes) == dict(plan.sizes)
            found = s.staged.account if kept and s.staged is not None else None
            made[key] = found if found is not None else most(s.schedule, plan.machine, own)
    steps = tuple((s.name, made[s.part.pipeline.digest, s.schedule.hash]) for s in plan.steps)
    return PlanAccount(plan.machine.name, steps)


__all__ = ["PlanAccount", "account_of"]

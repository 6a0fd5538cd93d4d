"""`verify --plan` and `verify --bisect`: whether a plan computes what the reference does, and what breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.plan import plan as make_plan
from tilewright.commands.targets import check_scalars, check_sizes, find_target
from tilewright.kernels import Kernel, check_mode

if TYPE_CHECKING:
    from tilewright.planner.bisect import Bisection
    from tilewright.planner.plan import Plan
    from tilewright.planner.validate import Validation
    from tilewright.schedule.schedule import Schedule

__all__ = ["Culprit", "bisect", "verify_plan"]


@dataclass(frozen=True, slots=True)
class Culprit:
    """What `bisect` found; `found` is None where values agree."""

    kernel: str
    schedule: str
    found: Bisection | None

    @property
    def ok(self) -> bool:
        return self.found is None

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        found = None if self.found is None else self.found.as_json()
        return {"kernel": self.kernel, "schedule": self.schedule, "ok": self.ok, "found": found}

    def __str__(self) -> str:
        head = f"{self.kernel} with {self.schedule}"
        return f"{head}: the values agree with the reference" if self.found is None else f"{head}\n{self.found}"


def verify_plan(
    target: str | Path | Kernel, *, sizes: Mapping[str, Any], scalars: Mapping[str, Any] | None = None, seed: int = 0,
    **how: Any,
) -> Validation:  # fmt: skip
    """Plan a kernel for `sizes`, and compare the plan with the reference after every pass, at sizes that are small or just
    past its tiles. `how` are the options of `plan`."""
    from tilewright.planner.validate import validate

    made = _planned(target, sizes, scalars, how)
    return validate(made, scalars=scalars, seed=seed, mode=made.mode)


def bisect(
    target: str | Path | Kernel, *, planned: bool = False, schedule: str | Path | Schedule | None = None,
    sizes: Mapping[str, Any] | None = None, scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None, dtypes: Mapping[str, Any] | None = None, mode: str | None = None,
    seed: int = 0, **how: Any,
) -> Culprit:  # fmt: skip
    """The first directive of a schedule, or pass of a plan (`planned`, with `plan`'s options), that breaks the values, and
    the smallest case that shows it."""
    from tilewright.planner.bisect import bisect_plan, bisect_schedule

    if planned:
        made = _planned(target, sizes or {}, scalars, {**how, "statics": statics, "dtypes": dtypes, "mode": mode})
        found = bisect_plan(made, scalars=scalars, seed=seed, mode=made.mode)
        return Culprit(made.pipeline.name, f"its plan for {made.machine.name}", found)
    t = find_target(target, schedule, statics, dtypes, sizes)
    chosen, given = check_mode(mode or t.kernel.mode), check_scalars(t.pipeline, scalars or {})
    at = check_sizes(t.pipeline, dict(sizes)) if sizes else None
    found = bisect_schedule(t.complete(chosen), at, scalars=given, seed=seed, mode=chosen)
    return Culprit(t.pipeline.name, t.schedule_name, found)


def _planned(target: str | Path | Kernel, sizes: Any, scalars: Any, how: Mapping[str, Any]) -> Plan:
    return make_plan(target, sizes=sizes, scalars=scalars, **how)

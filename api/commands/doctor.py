"""`doctor`: what ails the plan of a kernel, and where possible a plan without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.plan import plan as make_plan
from tilewright.kernels import Kernel

if TYPE_CHECKING:
    from tilewright.planner.doctor import Finding
    from tilewright.planner.plan import Plan

__all__ = ["Diagnosis", "doctor"]


@dataclass(frozen=True)
class Diagnosis:
    """What was found in a plan; `left` are the findings in `healed`, the plan after all remedies (None: not asked for)."""

    plan: Plan
    findings: tuple[Finding, ...]
    ran: bool
    healed: Plan | None = None
    left: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no error among what is left."""
        return not any(f.severity == "error" for f in (self.findings if self.healed is None else self.left))

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        after = None if self.healed is None else [f.as_json() for f in self.left]
        return {
            "kernel": self.plan.pipeline.name, "machine": self.plan.machine.name, "sizes": dict(self.plan.sizes),
            "ran": self.ran, "ok": self.ok, "findings": [f.as_json() for f in self.findings], "after": after,
        }  # fmt: skip

    def __str__(self) -> str:
        p = self.plan
        at = ", ".join(f"{k}={v}" for k, v in p.sizes.items())
        lines = [f"{p.pipeline.name} on {p.machine.name}" + (f", at {at}" if at else "")]
        lines += list(map(str, self.findings)) or ["nothing found"]
        if not self.ran:
            lines.append("by the plan's figures alone; --run validates its values and measures it on this computer")
        if self.healed is not None:
            lines += ["after what --apply does:", *(list(map(str, self.left)) or ["nothing found"])]
        return "\n".join(lines)


def doctor(
    target: str | Path | Kernel, *, sizes: Mapping[str, Any], run: bool = False, apply: bool = False,
    scalars: Mapping[str, Any] | None = None, **how: Any,
) -> Diagnosis:  # fmt: skip
    """Plan a kernel for `sizes` (numbers or ranges) and look for problems: by the plan's figures, and with `run` also by
    its values (`validate`) and its times on this computer, at both ends of ranges. With `apply` the plan is changed by
    every remedy that there is, and looked at again. `how` are the options of `plan`."""
    from tilewright.planner.doctor import healed

    made = make_plan(target, sizes=sizes, scalars=scalars, **how)
    findings = _looked_at(made, run, scalars)
    if not apply:
        return Diagnosis(made, findings, run)
    better = healed(made, findings)
    left = findings if better is made else _looked_at(better, run, scalars)
    return Diagnosis(made, findings, run, better, left)


def _looked_at(plan: Plan, run: bool, scalars: Mapping[str, Any] | None) -> tuple[Finding, ...]:
    from tilewright.planner.doctor import diagnose

    if not run:
        return diagnose(plan)
    from tilewright.planner.timing import time_plan
    from tilewright.planner.validate import validate

    found = validate(plan, scalars=scalars, mode=plan.mode)
    if found.faults:
        return diagnose(plan, None, found)
    ends = [{n: r[k] for n, r in plan.valid_for.ranges.items()} for k in (0, 1)]
    shapes = ends if len(ends[0]) == len(plan.pipeline.sizes) and ends[0] != ends[1] else []
    return diagnose(plan, time_plan(plan, shapes=shapes, scalars=scalars), found)

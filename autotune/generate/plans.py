"""The planner's schedule of a pipeline of several stages, as one way among others."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.autotune.generate.draft import Draft, Form
from tilewright.autotune.space import Dead
from tilewright.lang.errors import TilewrightError
from tilewright.schedule.default_places import in_memory_by_default
from tilewright.schedule.directive import Directive

_FEW = 3  # Funcs in memory: of fewer the rules of groups have all that a plan could say
_HERE = "latency"
_SECONDS = 2.0  # for a plan


def planned(d: Draft, name: str) -> Sequence[Form]:
    """Rule: what is computed together, where and in which tiles as the planner has it."""
    if name or not d.at.reorders or len(in_memory_by_default(d.s)[0]) < _FEW:
        return ()
    return (Form("plan", _write),)


def _write(d: Draft) -> None:
    if _HERE not in d.at.plans:
        d.at.plans[_HERE] = _directives(d)
    if not d.at.plans[_HERE]:
        raise Dead
    with d.s.together():
        for x in d.at.plans[_HERE]:
            d.s.apply(x)
    d.written(*(k for k, stage in d.s.state.stages.items() if stage.scheduled))


def _directives(d: Draft) -> tuple[Directive, ...]:
    """A plan's directives; none where no plan can be made."""
    from tilewright.planner.goal import Goal
    from tilewright.planner.host import host_machine
    from tilewright.planner.plan import make_plan

    try:
        made = make_plan(d.s.pipeline, host_machine(), dict(d.at.sizes), Goal("latency", None, _SECONDS))
        return made.schedule.directives
    except TilewrightError:
        return ()


__all__ = ["planned"]

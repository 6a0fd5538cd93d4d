"""What a schedule takes at most: its account where conditions on data hold everywhere.

Which rows a single pass repairs, or how many keys a sequence has, is not known when a plan is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.codegen.accounts.account import of_skeleton
from tilewright.codegen.accounts.prepared import Prepared
from tilewright.codegen.lower import Lowered, as_written, lower
from tilewright.hw import Account, Machine, SimulationError
from tilewright.lang import ir
from tilewright.lang.func import Definition
from tilewright.lang.symbols import Domain
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State

NOTE = "conditions on data are taken to hold"


@dataclass(frozen=True, eq=False)
class _AtSizes(Prepared):
    """What is lowered for some sizes alone, which takes less time: what they decide is decided."""

    sizes: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def lowered(self) -> Lowered:
        return lower(as_written(self.state, self.mode, "instrumented", self.machine, self.sizes))


def most(schedule: Schedule, machine: Machine, sizes: Mapping[str, int]) -> Account:
    """The account of a complete schedule at these sizes (and scalars). Raises CapacityError where its buffers do not fit,
    and SimulationError `skeleton.data` where data say how long a loop is."""
    p = schedule.pipeline
    fixed = {n: sizes[n] for n in p.sizes}
    own = {**fixed, **{s.name: sizes[s.name] for s in p.scalars if s.name in sizes}}
    state = unconditional(schedule.state)
    found = of_skeleton(_AtSizes(p, state, machine, "contract", sizes=fixed), own)
    return found if state is schedule.state else replace(found, notes=(*found.notes, NOTE))


def at_most(prepared: Prepared, env: Mapping[str, int], time: bool = True) -> Account:
    """The account of what is prepared; where data decide what runs, of the most that may. Raises as `most`."""
    try:
        return of_skeleton(prepared, env, time=time)
    except SimulationError:
        state = unconditional(prepared.state)
        if state is prepared.state:
            raise
    found = of_skeleton(replace(prepared, state=state, _encoded={}, _points={}), env, time=time)
    return replace(found, notes=(*found.notes, NOTE))


def unconditional(state: State) -> State:
    """The same without conditions that read data."""
    for stage in state.stages.values():
        d = stage.definition
        if d.rdom is not None and any(ir.leaves((c,), "load") for c in d.rdom.predicates):
            state = state.with_stage(replace(stage, definition=_without(d)))
    return state


def _without(d: Definition) -> Definition:
    assert d.rdom is not None
    made = Domain(dict(d.rdom.ranges), d.rdom.location)
    moved: dict[ir.Node, ir.Node] = {d.rdom.rvar(n): made.rvar(n) for n in d.rdom.ranges}
    kept = tuple(c for c in d.rdom.predicates if not ir.leaves((c,), "load"))
    roots = ir.substitute((*d.lhs, *d.values, *kept), moved)
    a, b = len(d.lhs), len(d.lhs) + len(d.values)
    made.predicates, made.frozen = tuple(roots[b:]), True
    return Definition(d.func, d.number, tuple(roots[:a]), tuple(roots[a:b]), made, d.location)


__all__ = ["NOTE", "at_most", "most", "unconditional"]

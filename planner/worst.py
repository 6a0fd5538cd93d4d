"""What a schedule takes at most: its account where conditions on data hold everywhere.

Which rows a single pass repairs, or how many keys a sequence has, is not known when a plan is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.codegen.accounts.account import of_skeleton
from tilewright.codegen.accounts.prepared import Prepared, prepare
from tilewright.hw import Account, Machine
from tilewright.lang import ir
from tilewright.lang.func import Definition
from tilewright.lang.symbols import Domain
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State

NOTE = "conditions on data are taken to hold"


def most(schedule: Schedule, machine: Machine, sizes: Mapping[str, int]) -> Account:
    """The account of a complete schedule at these sizes. Raises CapacityError where its buffers do not fit, and
    SimulationError `skeleton.data` where data say how long a loop is."""
    p = schedule.pipeline
    own = {n: sizes[n] for n in (*p.sizes, *(s.name for s in p.scalars)) if n in sizes}
    state = unconditional(schedule.state)
    if state is schedule.state:
        return of_skeleton(prepare(p, schedule, machine, "contract"), own)
    found = of_skeleton(Prepared(p, state, machine, "contract"), own)
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


__all__ = ["NOTE", "most", "unconditional"]

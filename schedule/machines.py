"""What a schedule says of a machine, held against the machine: memories, and axes of its array.

A schedule may be bound to a machine, and then each directive is checked when it is written; one that is not meets its
machine when it is simulated. What fits into memories is for `check`: a schedule in the making may take more for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.lang import simplify
from tilewright.lang.errors import user_location
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import integer
from tilewright.schedule.build import build_nest
from tilewright.schedule.directive import Directive
from tilewright.schedule.extents import known_extents
from tilewright.schedule.live import Loops, largest
from tilewright.schedule.nest import LoopNode, NestNode, children
from tilewright.schedule.sites import Sites
from tilewright.schedule.state import State, refuse
from tilewright.schedule.units import check_unit

if TYPE_CHECKING:
    from tilewright.hw import Machine
    from tilewright.schedule.schedule import Schedule

_OWN_MEMORIES = ("main", "reg")


def as_machine(given: Machine | str | None, schedule: Schedule) -> Machine:
    """The machine that is named, or else the one that the schedule is bound to.

    Raises SimulationError `simulation.machine` where there is neither, MachineError for a name that is none.
    """
    from tilewright.hw import Machine, SimulationError, load_machine

    if given is not None:
        return given if isinstance(given, Machine) else load_machine(given)
    if schedule.machine is None:
        raise SimulationError(
            f"no machine is said for {schedule.pipeline.name}", code="simulation.machine", where=user_location(),
            hint='machine="toy", or bind the schedule: kernel.schedule(machine="toy")',
        )  # fmt: skip
    return schedule.machine


def check_memory(d: Directive, machine: Machine | None) -> None:
    """Raise ScheduleError where a directive names a memory that the machine does not have.

    Without a machine, that no machine of ours has: a slip of the pen must not become main memory.
    """
    from tilewright.hw import MachineError, load_machine, machine_names

    given = d.option("in")
    if given is None or given in _OWN_MEMORIES:
        return
    name = str(given)
    if machine is None:
        known = {m.name for n in machine_names() for m in load_machine(n).memories}
        if name not in known:
            names = ", ".join(("main", "reg", *sorted(known - set(_OWN_MEMORIES))))
            raise refuse(f"no machine has a memory {name!r}", "memory", f"{names}; others with schedule(machine=...)")
        return
    try:
        machine.memory(name)
    except MachineError as e:
        raise refuse(e.message, "memory", e.hint or "name a memory of the machine") from None


def check_state(state: State, machine: Machine) -> None:
    """Raise ScheduleError where spatial loops do not lie along axes of the machine, as far as extents are known, or where
    its units can't do what they are to do."""
    _check_units(state, machine)
    if not any(x.mode == "spatial" for s in state.stages.values() for x in s.loops):
        return
    sites = Sites(state)
    extents = {s.key: known_extents(state, s) for s in state.stages.values()}
    for s in state.stages.values():
        if state.funcs[s.key[0]].compute.kind == "inline":
            continue
        loops = [(k, state.stages[k].loop(n)) for k, n in sites.around(s.key[0])] + [(s.key, x) for x in s.loops]
        found = [
            (state.loop_address(k, x.name), x.axis, extents[k].get(x.name, 1)) for k, x in loops if x.mode == "spatial"
        ]
        _check_axes(machine, found)


def check_arrays(state: State, machine: Machine, sizes: Mapping[str, Any]) -> None:
    """Raise ScheduleError where spatial loops do not fit the axes of a machine at the given sizes, or where its units can't
    do what they are to do."""
    _check_units(state, machine)
    if not any(x.mode == "spatial" for s in state.stages.values() for x in s.loops):
        return
    stack: list[tuple[NestNode, Loops, tuple[tuple[str, str, int], ...]]] = [(build_nest(state).body, (), ())]
    while stack:
        n, loops, found = stack.pop()
        if isinstance(n, LoopNode):
            if n.mode == "spatial":
                extent = largest(simplify.sub(n.stop, n.start), loops, sizes)
                found = (*found, (n.address, n.axis, 1 if extent is None else max(1, extent)))
                _check_axes(machine, found)
            loops = (*loops, (n.var, Interval(n.start, simplify.sub(n.stop, integer(1)))))
        stack.extend((c, loops, found) for c in reversed(children(n)))


def _check_units(state: State, machine: Machine) -> None:
    for s in state.stages.values():
        for x in s.loops:
            if x.unit:
                check_unit(state, s, x.name, machine)


def _check_axes(machine: Machine, loops: Iterable[tuple[str, str, int]]) -> None:
    """Loops inside each other, with their axes and extents."""
    axes = dict(machine.compute.axes or {})
    taken: dict[str, int] = {}
    for address, axis, extent in loops:
        if axis not in axes:
            has = f"its array has: {', '.join(axes)}" if axes else "it has no array"
            raise refuse(f"{machine.name} has no axis {axis!r}, along which {address} would lie", "array-axis", has,
                         about=("spatial", address))  # fmt: skip
        taken[axis] = taken.get(axis, 1) * extent
        if taken[axis] > axes[axis]:
            together = f" ({taken[axis]} with the loops around it)" if taken[axis] != extent else ""
            raise refuse(
                f"{address} lays {extent} iterations{together} along the axis {axis} of {machine.name}, which is "
                f"{axes[axis]} long", "array-extent", f"split it: a part of at most {axes[axis]} lies along {axis}",
                about=("spatial", address),
            )  # fmt: skip

"""Directives about what a machine's array and units do: spatial, tensorize."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedule import algebra
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.directives.loops import in_any_order, require_serial
from tilewright.schedule.sites import Sites
from tilewright.schedule.state import State, find_stage, refuse


@directive("spatial", "loop", options=(Option("on", "name", required=True),))
def spatial(state: State, d: Directive) -> State:
    """The iterations of a loop lie side by side along an axis of the machine's array: `spatial ji on x`.

        for ji in 0..16     =>     for ji in 0..16 spatial on x

    All elements of the array run the loops inside in lock step. What lives inside the loop, each of them has for itself;
    what they read at once from a buffer that lives outside is read once for all that want the same (multicast), and
    what they add at once to one element goes through the array's network (spatial reduction). That is for the account
    of a machine: natively, and in a simulated run, it is an ordinary serial loop, and the order of a reduction stays.
    Several loops may lie along one axis, as far as it is long enough: where a machine is bound, the axis and constant
    extents are checked at once, else when the schedule meets one. `serial` takes it back. Numerics: none.
    Errors: schedule.loop-mode, schedule.not-associative (a reduction whose steps need each other), schedule.store-race
    where something is stored outside and computed inside, schedule.vector-inside, schedule.spatial-inside (a parallel
    loop inside), schedule.array-axis, schedule.array-extent.
    """
    s = find_stage(state, d.stage)
    x = s.loop(d.operands[0])
    address = state.address(s.key)
    require_serial(address, x, "spatial", allowed=("spatial",))
    if x.reduction and algebra.match(s.definition) is None and not in_any_order(s, x.name, here=True):
        raise refuse(
            f"the steps of {address}.{x.name} can't lie side by side: the update is not known to be associative"
            f"{algebra.conflict(s.definition)}", "not-associative", "keep the loop serial, or lay pure loops out",
            s.definition.location,
        )  # fmt: skip
    if any(y.mode == "vectorize" for y in s.loops[: s.depth(x.name)]):
        raise refuse(f"{address}.{x.name} stands inside a vector loop", "vector-inside",
                     "reorder: spatial loops stand outside vector loops")  # fmt: skip
    return state.with_stage(replace(s.with_loop(x.name, mode="spatial", axis=str(d.option("on"))), scheduled=True))


@directive("tensorize", "loop", options=(Option("by", "word", required=True),))
def tensorize(state: State, d: Directive) -> State:
    """A loop and all loops inside it are one call of a unit of the machine: `tensorize ii by mma`.

        for ii in 0..4                           for ii in 0..4 by mma
          for ji in 0..4                   =>      for ji in 0..4
            for ki in 0..4                           for ki in 0..4
              C[..] += A[..] * B[..]                   C[..] += A[..] * B[..]

    A unit does a block of c[m, n] += a[m, k] b[k, n]; which loops are m, n and k follows from where they are in the
    operands. The machine file says how much of each a call covers, the types and memories of a, b and c, and how often a
    call starts (`interval`, a number or a formula over the extents, so that tails may take less). An operand is read once
    for a call, c is read and written. That is for the account of a machine: natively, and in a simulated run, they are
    ordinary loops. Where a machine is bound all this is checked at once, else when the schedule meets one. `serial` takes
    it back. Numerics: none.
    Errors: schedule.unit (the machine has no such unit), schedule.unit-form (no product of two operands, or no matrices),
    schedule.unit-shape (more than the unit covers), schedule.unit-operands (types or memories), schedule.unit-inside
    (something else stands inside), schedule.loop-mode.
    """
    s = find_stage(state, d.stage)
    x = s.loop(d.operands[0])
    require_serial(state.address(s.key), x, "tensorized")
    return state.with_stage(replace(s.with_loop(x.name, unit=str(d.option("by"))), scheduled=True))


def check_spatial(state: State) -> None:
    """Raise ScheduleError where a parallel loop stands inside a spatial one: an element of an array has no threads."""
    if not any(x.mode == "spatial" for s in state.stages.values() for x in s.loops):
        return
    sites = Sites(state)
    for s in state.stages.values():
        if state.funcs[s.key[0]].compute.kind == "inline":
            continue
        around = [(key, state.stages[key].loop(name)) for key, name in sites.around(s.key[0])]
        array: str | None = None
        for key, x in (*around, *((s.key, x) for x in s.loops)):
            if x.mode == "spatial":
                array = array or state.loop_address(key, x.name)
            if x.mode == "parallel" and array is not None:
                raise refuse(
                    f"the parallel loop {state.loop_address(key, x.name)} would stand inside the spatial loop {array}",
                    "spatial-inside", "run a loop outside of the array in parallel",
                )  # fmt: skip

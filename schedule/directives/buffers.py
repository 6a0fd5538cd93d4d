"""Directives about the extent and the life of buffers: folded, hoisted, in several slots."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.sites import Sites
from tilewright.schedule.state import FuncState, Place, State, find_func, find_loop, refuse

_AT = Option("at", "loop", required=True)


def _stored(state: State, name: str) -> FuncState:
    fs = find_func(state, name)
    if fs.compute.kind == "inline":
        raise refuse(f"{name} is inlined and has no buffer", "inlined", "compute it somewhere first")
    if name in state.outputs:
        raise refuse(f"{name} is an output: its elements live in the caller's array", "output-place",
                     f"cache_write holds a part of it in a buffer: s.cache_write({name!r}, at=...)")  # fmt: skip
    return fs


@directive(
    "fold_storage", "func", options=(Option("over", "name", required=True), Option("by", "factor", required=True))
)
def fold_storage(state: State, d: Directive) -> State:
    """An axis of a buffer wraps around: `fold_storage blur_x by 3 over y` keeps three rows, row y at y % 3.

        buffer blur_x[H + 2, W]          buffer blur_x[3, W]
        for y                       =>   for y
          blur_x[y + 1, ..] = ..           blur_x[(y + 1) % 3, ..] = ..

    For what is stored outside the loop in which it is computed (a sliding window). What one iteration needs of the
    axis must fit at once, else it is an error when the nest is built. Errors: schedule.fold, schedule.axis,
    schedule.inlined, schedule.output-place. Numerics: none.
    """
    fs = _stored(state, d.operands[0])
    names = [v.attr for v in fs.func.args]
    axis = str(d.option("over"))
    if axis not in names:
        raise refuse(f"{fs.func.name} has no axis {axis!r}", "axis", f"its axes: {', '.join(names)}")
    k, n = names.index(axis), d.option("by")
    assert isinstance(n, int)
    if any(a == k for a, _ in fs.folds):
        raise refuse(f"axis {axis} of {fs.func.name} is folded already", "fold-twice", "fold it once")
    if fs.slots > 1:
        raise refuse(f"{fs.func.name} has several slots", "fold", "fold or double_buffer, not both")
    return state.with_func(replace(fs, folds=(*fs.folds, (k, n)), placed=True))


@directive("hoist_storage", "func", options=(Option("at", "loop"),))
def hoist_storage(state: State, d: Directive) -> State:
    """Allocate a buffer further out than where it is stored: `hoist_storage P at C.yo`, or at the root without `at`.

        for yo                       for yo
          for xo                =>     buffer P[..]
            buffer P[..]               for xo
            produce P                    produce P

    The buffer is as large as any iteration needs; nothing slides, what is computed stays the same. Errors:
    schedule.store-race (a parallel loop in between), schedule.store-inside, schedule.inlined. Numerics: none.
    """
    fs = _stored(state, d.operands[0])
    at = d.option("at")
    place = Place("root")
    if at is not None:
        s, loop = find_loop(state, str(at))
        place = Place("at", s.key, loop)
    if fs.slots > 1:
        raise refuse(f"{fs.func.name} has several slots and is allocated around its loop", "hoist", "leave one out")
    return state.with_func(replace(fs, hoisted=place, placed=True))


@directive("double_buffer", "func", options=(Option("by", "factor", default=2),))
def double_buffer(state: State, d: Directive) -> State:
    """A ring of slots for a staged copy, or for a Func's tile: `double_buffer B_C`, `double_buffer C by 3`.

        for ko                              buffer B_C: 2 x [..]
          buffer B_C[..]                    for ko
          produce B_C            =>           produce B_C asynchronously (slot ko % 2)
          compute with B_C                    compute with B_C (slot ko % 2)

    For a Func: it must be a copy, computed and stored at one loop, of something that this loop does not write. For a
    Func with tiles at loops (cache_write): the outermost one that is no ring yet and not in registers is stored back
    asynchronously. Copies may run ahead by as many iterations as there are free slots; each slot is reused only after
    its last use. Natively they are plain copies.
    Errors: schedule.ring (no copy, or nothing to hold it), schedule.ring-dependence (the loop writes what is copied),
    schedule.ring-twice, schedule.ring-guards. Numerics: none.
    """
    name = d.operands[0]
    slots = d.option("by", 2)
    assert isinstance(slots, int)
    if slots < 2:
        raise refuse(f"{slots} slot is no ring", "ring", "two slots let a copy run one iteration ahead")
    fs = find_func(state, name)
    tiled = next((s for s in state.stages_of(name) if any(c.loop for c in s.write_caches)), None)
    if fs.compute.kind != "at":
        if tiled is None:
            raise refuse(f"{name} is neither a copy at a loop nor has it a tile at one", "ring",
                         "cache_read or cache_write first")  # fmt: skip
        held = [c for c in tiled.tiles if c.loop is not None]
        tile = next((c for c in held if c.memory != "reg" and c.slots == 1), held[0])
        if tile.slots > 1:
            raise refuse(f"the tile of {name} has {tile.slots} slots already", "ring-twice",
                         "say the number of slots once")  # fmt: skip
        if tile.memory == "reg":
            raise refuse(f"the tile of {name} is in registers, which have no slots", "ring", "put it into a memory")
        caches = tuple(replace(c, slots=slots) if c is tile else c for c in tiled.write_caches)
        return state.with_stage(replace(tiled, write_caches=caches))
    if fs.slots > 1:
        raise refuse(f"{name} has {fs.slots} slots already", "ring-twice", "say the number of slots once")
    if fs.stored != fs.compute or fs.folds or fs.hoisted is not None:
        raise refuse(f"{name} is stored elsewhere than it is computed, folded or hoisted", "ring", "leave that out")
    stages = state.stages_of(name)
    value = stages[0].definition.values[0] if len(stages) == 1 else None
    if value is None or value.op != "load":
        raise refuse(f"{name} is computed, not copied", "ring", "double_buffer what cache_read makes")
    return state.with_func(replace(fs, slots=slots, placed=True))


def check_rings(state: State) -> None:
    """Raise ScheduleError if a copy that runs ahead would read what its loop writes (it may be in one around).

    What counts are the Funcs in memory that it is made from, by way of inlined ones, and all that runs in the loop.
    """
    rings = [fs for fs in state.funcs.values() if fs.slots > 1]
    sites = Sites(state) if rings else None
    for fs in rings:
        assert sites is not None and fs.compute.stage is not None and fs.compute.loop is not None
        here = (fs.compute.stage, fs.compute.loop)
        inside = {s.key[0] for s in state.stages.values() if here in sites.chain(s)} - {fs.func.name}
        written = [t for t in _read(state, fs.func.name) if t in inside]
        if written:
            raise refuse(
                f"{fs.func.name} copies {written[0]}, which is written in the loop {here[1]} itself: a copy that runs "
                "ahead would read what is not there yet", "ring-dependence",
                f"stage {written[0]} without double_buffer, or compute it outside of {state.loop_address(*here)}",
            )  # fmt: skip


def _read(state: State, name: str) -> list[str]:
    """Names of the Funcs in memory that the stages of a Func read."""
    found: dict[str, None] = {}
    todo, seen = [name], {name}
    while todo:
        for t in state.producers(todo.pop()):
            if state.funcs[t].compute.kind != "inline":
                found[t] = None
            elif t not in seen:
                seen.add(t)
                todo.append(t)
    return list(found)

"""The loops inside a tile on a machine: vectors, a tile of registers for reductions, and its cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tilewright.hw import Machine
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import REPAIR, Key

# What is open about a tile: a name, and what may be taken, the best by estimate first. A search may take others.
Pick = Callable[[str, Sequence[Any]], Any]


def first(name: str, choices: Sequence[Any]) -> Any:
    """What is best by estimate."""
    return choices[0]


@dataclass(frozen=True)
class _Shape:
    """A register tile: rows along one variable, vectors of so many lanes along another."""

    rows: int
    vectors: int
    lanes: int


def inner_loops(s: Schedule, key: Key, extents: Sequence[int], machine: Machine, pick: Pick = first) -> None:
    """Write the loops of a stage inside a tile, in which its Func has these extents.

    `pick` chooses whether points are lanes of vectors or elements of an array (where the machine has one), which loop the
    cores share, the register tile, and whether sums have a buffer of their own in registers.
    """
    stage = s.state.stages[key]
    d, address = stage.definition, s.state.address(key)
    sizes = {v.attr: n for v, n in zip(d.lhs, extents, strict=True) if v.op == "var"}
    pure = [v.attr for v in d.lhs if v.op == "var" and sizes[v.attr] > 1]
    width = max(t.bytes for t in d.func.dtypes)
    lanes = max(2, machine.compute.vector_bytes // width)
    if not pure:
        if d.rdom is not None and stage.loops and not _fitting(1, 1, lanes, width, machine):
            s[address].serial(stage.loops[0].name)  # as it is: the default schedule would want registers
        return
    if machine.compute.axes and key[1] != REPAIR and pick(f"{address}.side by side", ("lanes", "array")) == "array":
        _on_array(s, key, pure, sizes, machine.compute.axes)
    elif key[1] == REPAIR:
        with suppress(ScheduleError):
            _repair(s, address, [n.name for n in stage.loops], pure, sizes, lanes, machine.compute.cores)
    elif d.rdom is None:
        with suppress(ScheduleError):
            _pure(s, address, pure, sizes, lanes, machine, pick)
    elif all(i.op == "var" for i in d.lhs):
        before = s.directives, s.state
        try:
            _reduction(s, key, address, pure, sizes, lanes, width, machine, pick)
        except ScheduleError:
            s.directives, s.state = before


def _on_array(s: Schedule, key: Key, pure: list[str], sizes: dict[str, int], array: Mapping[str, int]) -> None:
    """Points of a tile lie along the axes of an array of elements, the last axis of the tile along the last of these; each
    element runs reductions by itself."""
    address = s.state.address(key)
    pairs = [(v, axis, n) for v, (axis, n) in zip(reversed(pure), reversed([*array.items()]), strict=False) if n > 1]
    for v, _, n in pairs:
        s[address].split(v, f"{v}_o", f"{v}_e", min(n, sizes[v]))
    loops = s.state.stages[key].loops
    elements = [f"{v}_e" for v, _, _ in pairs]
    reduced = [x.name for x in loops if x.reduction and not x.name.endswith("_b")]
    around = [x.name for x in loops if x.name not in (*reduced, *elements)]
    s[address].reorder(*around, *reversed(elements), *reduced)
    for v, axis, _ in pairs:
        s[address].spatial(f"{v}_e", axis)


def _pure(
    s: Schedule, address: str, pure: list[str], sizes: dict[str, int], lanes: int, machine: Machine, pick: Pick
) -> None:  # fmt: skip
    last = pure[-1]
    cores = machine.compute.cores
    if cores > 1:
        if len(pure) > 1:
            s[address].parallel(pick(f"{address}.shared", _shared(pure[:-1], sizes, cores)))
        else:
            share = -(-sizes[last] // (cores * lanes)) * lanes
            s[address].parallel(last, share)
            last = f"{last}_p"
    s[address].vectorize(last, lanes)


def _repair(
    s: Schedule, address: str, loops: list[str], pure: list[str], sizes: dict[str, int], lanes: int, cores: int
) -> None:  # fmt: skip
    """Whether a row is repaired depends on its values: rows are lanes, so that no branch does."""
    v, others = pure[0], pure[1:]
    s[address].reorder(*(x for x in loops if x != v), v)
    if cores > 1 and others:
        s[address].parallel(_shared(others, sizes, cores)[0])
    s[address].vectorize(v, lanes)


def _shared(loops: list[str], trips: dict[str, int], cores: int) -> list[str]:
    """The loops that may be shared out: the first that has enough for all cores, else the one that has most; then others."""
    best = next((x for x in loops if trips[x] >= cores), max(loops, key=lambda x: trips[x]))
    return [best, *(x for x in loops if x != best and trips[x] > 1)]


def _reduction(
    s: Schedule, key: Key, address: str, pure: list[str], sizes: dict[str, int], lanes: int, width: int, machine: Machine,
    pick: Pick,
) -> None:  # fmt: skip
    """A register tile: several rows and vectors, so that what is loaded serves many sums."""
    stage = s.state.stages[key]
    names = [x.name for x in stage.loops]
    reduced = [x.name for x in stage.loops if x.reduction]
    inside = [n for n in names if n in sizes and n in pure]  # loops over tiles have names of their own
    blocks = [n for n in reduced if n.endswith("_b")]
    outside = [n for n in names if n not in inside and n not in reduced]
    v = inside[-1]
    others = [x for x in inside if x != v]
    rows = max(others, key=lambda x: (sizes[x] >= 4, others.index(x))) if others else None
    fitting = _fitting(sizes[v], sizes[rows] if rows is not None else 1, lanes, width, machine)
    height, vectors = pick(f"{address}.registers", [(x.rows, x.vectors) for x in fitting]) if fitting else (1, 1)
    t = _Shape(height, vectors, lanes)
    cores = machine.compute.cores
    if rows is None:  # rather something for every core than much for one
        t = _Shape(1, max(1, min(t.vectors, sizes[v] // (lanes * cores))), lanes)
    s[address].split(v, f"{v}_o", f"{v}_t", t.vectors * t.lanes).split(f"{v}_t", f"{v}_m", f"{v}_v", t.lanes)
    trips = {x: sizes[x] for x in others} | {f"{v}_o": -(-sizes[v] // (t.vectors * t.lanes))}
    if rows is not None:
        s[address].split(rows, f"{rows}_o", f"{rows}_t", t.rows)
        others.remove(rows)
        around = [*others, f"{rows}_o", f"{v}_o"]
        trips[f"{rows}_o"] = -(-sizes[rows] // t.rows)
        inner = [f"{rows}_t", f"{v}_m", f"{v}_v"]
    else:
        around, inner = [*others, f"{v}_o"], [f"{v}_m", f"{v}_v"]
    s[address].reorder(*outside, *blocks, *around, *(n for n in reduced if n not in blocks), *inner)
    if cores > 1:
        s[address].parallel(pick(f"{address}.shared", _shared(around, trips, cores)))
    for x in inner[:-1]:
        s[address].unroll(x)
    s[address].vectorize(inner[-1])
    if fitting and pick(f"{address}.sums", ("in registers", "where they are")) == "in registers":
        s.cache_write(key[0], at=f"{address}.{around[-1]}", memory="reg")


def _fitting(columns: int, rows: int, lanes: int, width: int, machine: Machine) -> list[_Shape]:
    """The register tiles in half of the registers, that for which least is loaded first."""
    memory = next((m for m in machine.memories if m.kind == "registers" and m.capacity), None)
    if memory is None or memory.capacity is None or memory.per not in ("machine", "core"):
        return []
    room = memory.capacity // 2 // (machine.compute.cores if memory.per == "machine" else 1)
    found = [
        _Shape(r, v, lanes)
        for r in (1, 2, 4, 8)
        for v in (1, 2, 4)
        if r <= max(1, rows) and v * lanes <= max(lanes, columns) and r * v * lanes * width <= room
    ]
    return sorted(found, key=lambda x: 1 / x.rows + 1 / (x.vectors * lanes))


__all__ = ["Pick", "first", "inner_loops"]

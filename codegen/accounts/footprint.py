"""Which buffers of a lowered program live together on a machine, how large they are and where they are placed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from tilewright.codegen import loops as L
from tilewright.hw import Footprint, LiveBuffer, Machine, SimulationError, footprints
from tilewright.hw.parts import Memory, align_up
from tilewright.lang import intervals, ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.values import index_value

PAGE = 4096  # bytes; arenas of different memories share none
Env = Mapping[str, Any]
Loops = tuple[tuple[L.For, Interval], ...]


def live_points(
    program: L.Program, machine: Machine, env: Env, whole: bool = False, bounded: bool = False
) -> Iterator[tuple[str, list[LiveBuffer]]]:
    """Every place at which a buffer begins to live, with all that live there, at these sizes and scalars.

    A size that differs from one iteration to the next counts with its largest value. A buffer is placed at the first
    offset of its memory that is free while it lives and suits its elements. One that is made in a parallel or spatial
    loop exists once for each core or element at work, where these have no memory of their own; of one that is spread over
    elements counts what one of them has, unless the `whole` is wanted. Raises SimulationError `simulation.size` for a
    buffer that `env` does not bound; if only `bounded` ones are wanted it is left out.
    """
    live: list[LiveBuffer] = []

    def visit(s: L.Stmt, loops: Loops, where: str) -> Iterator[tuple[str, list[LiveBuffer]]]:
        if isinstance(s, L.For):
            r = Interval(s.start, simplify.sub(s.stop, integer(1)))
            yield from visit(s.body, (*loops, (s, r)), s.var.attr)
        elif isinstance(s, L.Allocate) and (not bounded or _bounded(s.buffer, loops, env)):
            live.append(_placed(s.buffer, loops, machine, env, live, whole))
            yield where, list(live)
            yield from visit(s.body, loops, where)
            live.pop()
        else:
            for t in L.children(s):
                yield from visit(t, loops, where)

    yield from visit(program.body, (), "the start")


def program_footprints(program: L.Program, machine: Machine, env: Env, whole: bool = False) -> tuple[Footprint, ...]:
    """What a program takes of each memory at most, with the buffers that live then and their offsets."""
    return footprints_at(list(live_points(program, machine, env, whole)), machine)


def footprints_at(points: Sequence[tuple[str, list[LiveBuffer]]], machine: Machine) -> tuple[Footprint, ...]:
    """The same, of the places at which buffers begin to live."""
    ends: dict[str, int] = {}
    for _, live in points:
        for b in live:
            memory = machine.memory(b.memory)
            ends[memory.name] = max(ends.get(memory.name, 0), _end(b, memory))
    return tuple(replace(f, arena=ends[f.memory]) for f in footprints(machine, points))


def arenas(program: L.Program, machine: Machine, env: Env) -> tuple[dict[str, int], int]:
    """Where the buffers in scratchpads lie if one memory holds the arenas of all, by their names; how large that is."""
    starts: dict[str, int] = {}
    size = 0
    for f in program_footprints(program, machine, env, whole=True):
        if machine.memory(f.memory).kind == "scratchpad":
            starts[f.memory], size = size, size + align_up(f.arena or 0, PAGE)
    places: dict[str, int] = {}
    for _, live in live_points(program, machine, env, whole=True):
        memory = machine.memory(live[-1].memory).name
        if memory in starts:
            places[live[-1].name] = starts[memory] + (live[-1].offset or 0)
    return places, size


def _placed(b: L.Buffer, loops: Loops, machine: Machine, env: Env, live: list[LiveBuffer], whole: bool) -> LiveBuffer:
    assert b.size is not None
    memory = machine.memory(b.memory)
    size = b.size if whole else _own(b, memory, machine)
    size = largest(size, loops, env, b.name) * b.dtype.bytes // b.slots
    made = LiveBuffer(b.name, b.memory, size, b.slots, _instances(memory, loops, machine, env))
    taken, start = memory.aligned(size) * b.slots * made.copies, 0
    for other in sorted((o for o in live if machine.memory(o.memory) is memory), key=lambda o: o.offset or 0):
        if start + taken <= (other.offset or 0):
            break
        start = max(start, align_up(_end(other, memory), b.dtype.bytes))
    return replace(made, offset=start)


def _own(b: L.Buffer, memory: Memory, machine: Machine) -> Node:
    """The elements that one memory has of a buffer, which may be spread over several."""
    assert b.size is not None
    own = memory.axes(machine.compute.axes or {})
    mine = [x for x in b.spread if x.axis in own]
    if not mine:
        return b.size
    size = integer(b.slots)
    for axis, e in enumerate(b.box):
        size = simplify.mul(size, simplify.sub(e, integer(sum(abs(x.steps[axis]) * (x.count - 1) for x in mine))))
    return size


def _end(b: LiveBuffer, memory: Memory) -> int:
    return (b.offset or 0) + align_up(b.size, memory.alignment) * b.slots * b.copies


def _instances(memory: Memory, loops: Loops, machine: Machine, env: Env) -> int:
    """How many of a buffer are alive together: one for each core, or element, that has one."""
    cores = elements = 1
    own = memory.axes(machine.compute.axes or {})
    for k, (s, _) in enumerate(loops):
        if s.axis and s.axis not in own:
            elements *= max(1, largest(_trips(s), loops[:k], env, s.var.attr))
        elif s.mode == L.PARALLEL and not s.axis:
            top = _top(_trips(s), loops[:k])
            cores *= max(1, index_value(top, env)) if _known(top, env) else machine.compute.cores
    cores = min(cores, machine.compute.cores)
    return elements * (cores if memory.per == "machine" else 1)


def _trips(s: L.For) -> Node:
    return simplify.sub(s.stop, s.start)


def _bounded(b: L.Buffer, loops: Loops, env: Env) -> bool:
    """Whether `env` says how large a buffer is at most, and how often it is there."""
    axes = [(_trips(s), loops[:k]) for k, (s, _) in enumerate(loops) if s.axis]
    return b.size is not None and all(_known(_top(n, around), env) for n, around in [(b.size, loops), *axes])


def _top(n: Node, loops: Loops) -> Node | None:
    """The largest value of an expression over the loops around it as one of sizes and scalars, if it has one."""
    top: Node | None = n
    for s, r in reversed(loops):
        top = intervals.bounds(top, {s.var: r}).hi if top is not None else None
    return top


def _known(n: Node | None, env: Env) -> TypeGuard[Node]:
    """Whether `env` says the value of an expression."""
    if n is None or _reads(n):
        return False
    return all(m.op == "const" or m.attr in env for m in ir.postorder([n]) if not m.args)


def _reads(n: Node) -> bool:
    return any(m.op in ("load", "load_if") for m in ir.postorder([n]))


def largest(n: Node, loops: Loops, env: Env, name: str) -> int:
    """The largest value of an expression over the loops around it, at least 0."""
    top = _top(n, loops)
    if top is None or _reads(top):
        raise SimulationError(
            f"how large {name} is depends on data", code="simulation.size",
            hint="a machine's memories hold what has a size that the kernel's sizes bound",
        )  # fmt: skip
    return max(0, index_value(top, env))


__all__ = ["arenas", "footprints_at", "live_points", "program_footprints"]

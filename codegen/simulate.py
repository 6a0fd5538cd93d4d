"""A run on a simulated machine: the same lowered nest, instrumented. Values are those of the native run, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen import abi, externs, runtime, target
from tilewright.codegen import loops as L
from tilewright.codegen.compile import raise_kernel_code
from tilewright.codegen.emit import counter_count, decode_counters, emit
from tilewright.codegen.entry import invoke, scalar_slot
from tilewright.codegen.interface import CONTIGUOUS, argument_roles
from tilewright.codegen.jit import load
from tilewright.codegen.lower import Request, lower
from tilewright.codegen.physical import pack, physical_shape, unpack
from tilewright.hw import Account, LiveBuffer, Machine, Traffic, check_capacity, footprints, load_machine
from tilewright.lang import intervals, ir, simplify
from tilewright.lang.binding import Bound, bind, check_sizes, index_value
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import structured
from tilewright.schedule.registers import Registers
from tilewright.schedule.state import State


@dataclass(frozen=True)
class Simulation:
    """What a simulated run gave: the `account` and the `result` (as the kernel returns it)."""

    account: Account
    result: Any = field(repr=False)

    def __str__(self) -> str:
        return str(self.account)

    def to_json(self) -> str:
        return self.account.to_json()


def simulate(
    p: Pipeline,
    schedule: Any,
    machine: Machine | str,
    sizes: Mapping[str, int],
    mode: str = "contract",
    inputs: Any = None,
) -> Simulation:
    """Run `p` under `schedule` (None: the default) on a machine at the given sizes.

    `inputs` are arrays and scalars by name; what is missing is made up (repeatable random values). Raises
    CapacityError before anything runs if the staged buffers do not fit.
    """
    from tilewright.schedule.default import complete
    from tilewright.schedule.schedule import Schedule

    on = machine if isinstance(machine, Machine) else load_machine(machine)
    check_sizes(p, sizes)
    full = complete(Schedule(p) if schedule is None else schedule, mode, _registers(on))
    full.check()
    return run(p, full.state, on, sizes, mode, dict(inputs or {}))


def run(
    p: Pipeline, state: State, machine: Machine, sizes: Mapping[str, int], mode: str, inputs: dict[str, Any]
) -> Simulation:
    from tilewright.lang.samples import random_inputs

    values = {**random_inputs(p, sizes, seed=0), **inputs}
    bound = bind(p, (), values, dict(sizes))
    classes = (CONTIGUOUS,) * len(argument_roles(p))
    symbol = abi.symbol(p.name, "simulated")
    program = lower(Request(state, mode, symbol, classes, native=False)).program
    footprint = footprints(machine, live_points(program, bound))
    check_capacity(machine, footprint)
    text = emit(program, instrument=True)
    image = target.optimize_and_emit(text, extra_symbols=externs.symbols(p))
    library = load(image, (symbol,), externs.addresses(p))
    shapes = [tuple(index_value(e, bound.env) for e in o.extents) for o in p.outputs]
    given = [state.given.get(o.func.name) for o in p.outputs]
    outputs = [
        np.empty(n if m is None else physical_shape(m, n), o.dtype.np)
        for o, n, m in zip(p.outputs, shapes, given, strict=True)
    ]
    counters = np.zeros(counter_count(program), np.int64)
    arrays = [np.ascontiguousarray(bound.arrays[a.name]) for a in p.arrays]
    arrays = [
        pack(v, state.given[a.name]) if a.name in state.given else v for a, v in zip(p.arrays, arrays, strict=True)
    ]
    data = [*arrays, *(np.ascontiguousarray(t.values) for t in p.tables), *outputs]
    context = runtime.context(1)
    code = invoke(
        library.address(symbol), ctypes.addressof(context), [*data, counters], [bound.sizes[n] for n in p.sizes],
        [scalar_slot(s.dtype.np.name, bound.scalars[s.name]) for s in p.scalars],
    )  # fmt: skip
    if code:
        raise_kernel_code(code, p, state, mode)
    account = Account(p.name, machine.name, dict(bound.sizes), tuple(_traffic(program, counters, machine)), footprint)
    logical = [v if m is None else unpack(v, m, n) for v, n, m in zip(outputs, shapes, given, strict=True)]
    return Simulation(account, structured(p.structure, logical))


def _registers(machine: Machine) -> Registers | None:
    """What register tiles of the default schedule are made for: the machine's registers (None: it says nothing)."""
    memory = next((m for m in machine.memories if m.kind == "registers" and m.capacity), None)
    if memory is None or memory.capacity is None:
        return None
    width = max(32, machine.compute.vector_bytes)  # the default schedule's vectors have four f64 at least
    return Registers(width, memory.capacity // width)


def _traffic(program: L.Program, counters: np.ndarray, machine: Machine) -> Iterator[Traffic]:
    counts = decode_counters(program, counters.tolist())
    buffers = {b.name: b for b in program.arguments}
    buffers |= {s.buffer.name: s.buffer for s in L.walk(program.body) if isinstance(s, L.Allocate)}
    for name, b in buffers.items():
        reads, writes = counts.loads[name], counts.stores[name]
        if reads or writes:
            n = b.dtype.bytes
            memory = machine.memory(b.memory).name
            yield Traffic(memory, name.removeprefix("out."), reads, writes, reads * n, writes * n)


def live_points(program: L.Program, bound: Bound) -> Iterator[tuple[str, list[LiveBuffer]]]:
    """Every place at which a buffer begins to live, with all that live there, at the sizes of a call.

    A size that differs from one iteration to the next counts with its largest value.
    """
    live: list[LiveBuffer] = []

    def visit(
        s: L.Stmt, loops: tuple[tuple[Node, Interval], ...], where: str
    ) -> Iterator[tuple[str, list[LiveBuffer]]]:
        if isinstance(s, L.For):
            r = Interval(s.start, simplify.sub(s.stop, integer(1)))
            yield from visit(s.body, (*loops, (s.var, r)), s.var.attr)
        elif isinstance(s, L.Allocate):
            assert s.buffer.size is not None
            n = _largest(s.buffer.size, loops, bound) * s.buffer.dtype.bytes // s.buffer.slots
            live.append(LiveBuffer(s.buffer.name, s.buffer.memory, n, s.buffer.slots))
            yield where, list(live)
            yield from visit(s.body, loops, where)
            live.pop()
        else:
            for t in L.children(s):
                yield from visit(t, loops, where)

    yield from visit(program.body, (), "the start")


def _largest(size: Node, loops: tuple[tuple[Node, Interval], ...], bound: Bound) -> int:
    top: Node | None = size
    for var, r in reversed(loops):
        top = intervals.bounds(top, {var: r}).hi if top is not None else None
    if top is None or ir.leaves([top], "load"):
        raise ValueError(f"the size {size!r} has no bound")
    return max(0, index_value(top, bound.env))

"""An instrumented run: the same lowered nest with counters in it. Values are those of the native run, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.codegen import externs, runtime, stages, target
from tilewright.codegen import loops as L
from tilewright.codegen.accounts.footprint import PAGE
from tilewright.codegen.compile import raise_kernel_code
from tilewright.codegen.cpu_caches import Drive, bases
from tilewright.codegen.emit import RECORD_HEAD, Tally, counter_count, decode_counters, emit, record_layout
from tilewright.codegen.emit.ledger import Ledger
from tilewright.codegen.entry import invoke, scalar_slot
from tilewright.codegen.jit import load
from tilewright.codegen.lower import as_written, lower
from tilewright.codegen.physical import pack, physical_shape, unpack
from tilewright.lang.binding import Bound, bind, index_value
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import structured
from tilewright.schedule.state import State


@dataclass(frozen=True)
class Run:
    """What ran, the sizes and values that it was bound to, what it did, and the result as the kernel returns it."""

    program: L.Program
    bound: Bound
    tally: Tally
    result: Any
    record: np.ndarray | None = None  # what `recorded` stages stored, see emit.recorder
    counts: tuple[int, ...] = ()  # of a run on a machine, in the order of the ledger


@dataclass(frozen=True)
class OnMachine:
    """What a program for a machine runs on: its ledger, the bytes of its arenas together, the memory of the engine that
    it drives, and addresses of the functions that it calls."""

    ledger: Ledger
    room: int
    engine: np.ndarray
    addresses: Mapping[str, int]


def _aligned(size: int) -> np.ndarray:
    """Bytes that start at a page; what nobody has written is no number by accident."""
    whole = np.full(size + PAGE, 0xA5, np.uint8)
    start = -whole.ctypes.data % PAGE
    return whole[start : start + size + 1]


def run(
    p: Pipeline, state: State, sizes: Mapping[str, int], mode: str, inputs: Mapping[str, Any],
    before: Callable[[L.Program, Bound], None] = lambda program, bound: None,
    recorded: tuple[str, ...] = (), room: int = 0, drive: Drive | None = None,
    program: L.Program | None = None, on: Callable[[Bound], OnMachine] | None = None,
) -> Run:  # fmt: skip
    """Run `p` on contiguous arrays; inputs that are missing are made up (repeatable random values).

    `before` sees the program before anything runs. What the stages `recorded` store is recorded, in order, up to `room`
    stores. What `drive` makes of the program is driven by its accesses (see `emit.driven`). `program` is what
    was lowered for a machine, and `on` what it runs on there: its counters are those of a ledger.
    """
    from tilewright.lang.nested import flat_named
    from tilewright.lang.samples import random_inputs

    values = {**random_inputs(p, sizes, seed=0), **flat_named(p, inputs)}
    bound = bind(p, (), values, dict(sizes))
    if program is None:
        program = lower(as_written(state, mode, "instrumented")).program
    before(program, bound)
    there = None if on is None else on(bound)
    kept = None if there is None else there.ledger
    driven = None if drive is None else drive(program)
    text = emit(
        program, instrument=True, recorded=recorded, driver=None if driven is None else driven.driver, ledger=kept
    )
    record = np.zeros(RECORD_HEAD + (room + 1) * record_layout(program, recorded).words, np.int64)
    record[1] = room
    given_symbols = {} if there is None else there.addresses
    image = target.optimize_and_emit(text, extra_symbols=(*externs.symbols(p), *stages.symbols(p), *given_symbols))
    callbacks = stages.Callbacks(p)
    library = load(image, (program.symbol,), {**externs.addresses(p), **callbacks.addresses, **given_symbols})
    shapes = [tuple(index_value(e, bound.env) for e in o.extents) for o in p.outputs]
    given = [state.given.get(o.func.name) for o in p.outputs]
    outputs = [
        np.empty(n if m is None else physical_shape(m, n), o.dtype.np)
        for o, n, m in zip(p.outputs, shapes, given, strict=True)
    ]
    counters = np.zeros(max(1, counter_count(program) if kept is None else len(kept.keys)), np.int64)
    arrays = [np.ascontiguousarray(bound.arrays[a.name]) for a in p.arrays]
    arrays = [
        pack(v, state.given[a.name]) if a.name in state.given else v for a, v in zip(p.arrays, arrays, strict=True)
    ]
    data = [*arrays, *(np.ascontiguousarray(t.values) for t in p.tables), *outputs]
    last = [] if driven is None else [driven.state, bases(d.nbytes for d in data)]
    last += [] if there is None else [_aligned(there.room), there.engine]
    with stages.running(runtime.context(1)) as context:
        code = invoke(
            library.address(program.symbol), ctypes.addressof(context), [*data, counters, record, *last],
            [bound.sizes[n] for n in p.sizes],
            [scalar_slot(s.dtype.np.name, bound.scalars[s.name]) for s in p.scalars],
        )  # fmt: skip
    if code:
        raise_kernel_code(code, p, state, mode)
    if driven is not None:
        driven.finish()
    logical = [v if m is None else unpack(v, m, n) for v, n, m in zip(outputs, shapes, given, strict=True)]
    result = structured(p.structure, logical)
    if kept is not None:
        return Run(program, bound, Tally(), result, record, tuple(counters.tolist()[: len(kept.keys)]))
    return Run(program, bound, decode_counters(program, counters.tolist()), result, record)

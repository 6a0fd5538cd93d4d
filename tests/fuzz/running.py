"""The ways in which a trial's kernel runs: natively between guard pages, instrumented, as loop IR, by the public calls.

Machine code comes about by the same passes and the same emission everywhere; what differs is how much LLVM does with
the text. `quick` is LLVM's -O0: most of the time of a trial would otherwise be LLVM's.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.codegen.loops_oracle import run_program
from tests.fuzz.guarded import run_guarded
from tilewright.codegen import abi, externs, jit, runtime, stages, target
from tilewright.codegen.compile import compile_schedule
from tilewright.codegen.emit import RECORD_HEAD, counter_count, decode_counters, emit, parallel, statements
from tilewright.codegen.entry import invoke, scalar_slot
from tilewright.codegen.interface import ANY, CONTIGUOUS, UNIT
from tilewright.codegen.lower import Request, lower
from tilewright.codegen.one_lane import one_lane_stores_replaced
from tilewright.codegen.physical import pack, physical_shape, unpack
from tilewright.lang import reference
from tilewright.lang.binding import bind
from tilewright.lang.errors import ArgumentError, BoundsError
from tilewright.lang.extern_stage import signatures
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import structured
from tilewright.lang.values import index_value
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State
from tilewright.testing import assert_bitwise

Choose = Callable[[int], int]
SYMBOL = "tw_fuzzed"
LARGE = 80_000  # characters of LLVM IR that are left to `quick`
Arrays = dict[str, Any]  # arguments by name


@dataclass(frozen=True)
class Plan:
    """How a kernel is compiled: the stride class of every argument, bytes of temporaries on the stack, LLVM's level."""

    classes: tuple[str, ...]
    stack: int
    level: str


def random_plan(p: Pipeline, choose: Choose) -> Plan:
    n = len(p.arrays) + len(p.tables) + len(p.outputs)
    classes = [CONTIGUOUS] * n
    if choose(2):
        classes = [(CONTIGUOUS, UNIT, ANY)[choose(3)] for _ in range(n)]
    for k in range(len(p.tables)):
        classes[len(p.arrays) + k] = CONTIGUOUS
    kind = choose(50)
    level = "quick" if kind < 44 else "fast" if kind < 49 else "full"
    return Plan(tuple(classes), choose(2) * 64 * 1024 - 1, level)


def copied(arrays: Arrays) -> Arrays:
    return {k: v.copy() for k, v in arrays.items()}


def by_reference(p: Pipeline, arrays: Arrays) -> Any:
    """The reference's result and inouts; None where the call itself is an error."""
    copies = copied(arrays)
    try:
        result = reference.run(p, bind(p, (), copies))
    except BoundsError:
        return None
    return [result, [copies[f.name] for f in p.inouts]]


# Machine code -------------------------------------------------------------------------------------------------------


@functools.cache
def _quick_machine() -> llvm.TargetMachine:
    target.machine()  # LLVM is initialised there
    host = target.host()
    return llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=0, reloc="pic", codemodel="small"
    )


def image(text: str, level: str, own: tuple[str, ...] = ()) -> bytes:
    """Object code of a module, which may call functions of the user's `own`."""
    if level != "quick":
        return target.optimize_and_emit(text, level, extra_symbols=own)  # type: ignore[arg-type]
    tm = _quick_machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = tm.triple, str(tm.target_data)
    module.verify()
    return tm.emit_object(one_lane_stores_replaced(module))


def kernel(state: State, mode: str, plan: Plan) -> Any:
    """The native kernel. Raises ScheduleError or CompileError where that is refused."""
    before = statements.STACK_BYTES, parallel.ENOUGH
    statements.STACK_BYTES, parallel.ENOUGH = plan.stack, 0  # parallel loops are handed out however short they are
    try:
        text = emit(lower(Request(state, mode, SYMBOL, plan.classes)).program)
    finally:
        statements.STACK_BYTES, parallel.ENOUGH = before
    library, callbacks = loaded(state.pipeline, text, plan.level if len(text) < LARGE else "quick")
    fn = abi.KERNEL(library.address(SYMBOL))
    fn.library, fn.callbacks = library, callbacks  # type: ignore[attr-defined]
    return fn


def loaded(p: Pipeline, text: str, level: str) -> tuple[jit.Library, stages.Callbacks]:
    """A module in this process, and the C functions of the user's stages, which must live as long as it."""
    callbacks = stages.Callbacks(p)
    own = (*externs.symbols(p), *stages.symbols(p))
    return jit.load(image(text, level, own), (SYMBOL,), {**externs.addresses(p), **callbacks.addresses}), callbacks


def natively(
    p: Pipeline, state: State, mode: str, arrays: Arrays, choose: Choose, plan: Plan | None = None
) -> Any:  # fmt: skip
    """The result and the inouts of one guarded run; None where the schedule asks more of the sizes than they give."""
    plan = plan or random_plan(p, choose)
    return run_guarded(p, state, kernel(state, mode, plan), plan.classes, copied(arrays), choose)


# Instrumented -------------------------------------------------------------------------------------------------------


class Instrumented:
    """The kernel as `simulate` runs it: the same nest, with counters."""

    def __init__(self, p: Pipeline, state: State, mode: str):
        self.pipeline, self.state = p, state
        n = len(p.arrays) + len(p.tables) + len(p.outputs)
        self.program = lower(Request(state, mode, SYMBOL, (CONTIGUOUS,) * n, native=False)).program
        self.library, self.callbacks = loaded(p, emit(self.program, instrument=True), "quick")

    def run(self, arrays: Arrays) -> tuple[Any, Mapping[str, int]]:
        """The result with the inouts, and how many points of each stage were computed; None where more is asked of the
        sizes."""
        p, given = self.pipeline, self.state.given
        bound = bind(p, (), copied(arrays))
        shapes = [tuple(index_value(e, bound.env) for e in o.extents) for o in p.outputs]
        maps = [given.get(o.func.name) for o in p.outputs]
        outputs = [
            np.empty(n if m is None else physical_shape(m, n), o.dtype.np)
            for o, n, m in zip(p.outputs, shapes, maps, strict=True)
        ]
        inputs = {a.name: np.ascontiguousarray(bound.arrays[a.name]) for a in p.arrays}
        data = [pack(v, given[n]) if n in given else v for n, v in inputs.items()]
        counters, record = np.zeros(max(1, counter_count(self.program)), np.int64), np.zeros(RECORD_HEAD, np.int64)
        data += [*(np.ascontiguousarray(t.values) for t in p.tables), *outputs, counters, record]
        with stages.running(runtime.context(1)) as context:
            code = invoke(
                self.library.address(SYMBOL), ctypes.addressof(context), data, [bound.sizes[n] for n in p.sizes],
                [scalar_slot(s.dtype.np.name, bound.scalars[s.name]) for s in p.scalars],
            )  # fmt: skip
        if code >= abi.FIRST_REQUIREMENT:
            return None, {}
        assert code == 0, code
        logical = [v if m is None else unpack(v, m, n) for v, n, m in zip(outputs, shapes, maps, strict=True)]
        result = [structured(p.structure, logical), [inputs[f.name] for f in p.inouts]]
        return result, decode_counters(self.program, counters.tolist()).evaluations


# Other ways ---------------------------------------------------------------------------------------------------------


def by_loops(p: Pipeline, state: State, mode: str, arrays: Arrays, shifted: bool) -> Any:
    """The result of interpreting the loop IR; None where more is asked of the sizes."""
    arrays = copied(arrays)
    bound = bind(p, (), arrays)
    shapes = [tuple(index_value(e, bound.env) for e in o.extents) for o in p.outputs]
    maps = [state.given.get(o.func.name) for o in p.outputs]
    if any(m is not None for m in maps) or signatures(p):
        # the interpreter wants every element of an output written, and knows no stages of the user's
        return None
    outputs = [np.empty(n, o.dtype.np) for o, n in zip(p.outputs, shapes, strict=True)]
    inputs = [
        pack(bound.arrays[a.name], state.given[a.name]) if a.name in state.given else bound.arrays[a.name]
        for a in p.arrays
    ]
    every = [*inputs, *(x.values for x in p.tables), *outputs]
    program = lower(Request(state, mode, SYMBOL, ("any",) * len(every))).program
    scalars = {s.node: bound.scalars[s.name] for s in p.scalars}
    failed, _ = run_program(program, every, [bound.sizes[n] for n in p.sizes], scalars, shifted)
    if failed is not None:
        return None
    return [structured(p.structure, outputs), [arrays[f.name] for f in p.inouts]]


def check_coverage(state: State, mode: str, plan: Plan) -> None:
    """Raise CoverageError where the loops do not compute every point once."""
    lower(Request(state, mode, SYMBOL, plan.classes, covered=True))


def by_calls(p: Pipeline, s: Schedule, mode: str, arrays: Arrays, choose: Choose, ways: set[str]) -> Any:
    """The result by the public calls: inputs with layouts packed once, `given` ones as physical arrays.

    What of this was done is added to `ways`.
    """
    fast = compile_schedule(p, s, mode)
    copies = copied(arrays)
    passed: Mapping[str, Any] = dict(copies)
    for name, layout in fast.layouts.items():
        if name in copies and choose(2):
            passed[name] = fast.prepack(name, copies[name])  # type: ignore[index]
            ways.add("prepacked")
        elif name in fast.given and name in copies:
            passed[name] = pack(copies[name], layout)  # type: ignore[index]
    bound = bind(p, (), arrays)
    result = fast(**passed, sizes=dict(bound.sizes), threads=1 + choose(3))
    if fast.given:
        result = _logical(p, fast.given, result, bound)
    else:
        ways |= _on_an_input(p, fast, copied(arrays), result)
    return [result, [copies[f.name] for f in p.inouts]]


def _on_an_input(p: Pipeline, fast: Any, arrays: Arrays, expected: Any) -> set[str]:
    """An output that lies on an input: refused, or nobody can tell."""
    if len(p.outputs) != 1 or p.inouts:
        return set()
    for a in arrays.values():
        if isinstance(a, np.ndarray) and (a.shape, a.dtype) == (expected.shape, expected.dtype) and a.size:
            try:
                fast(**arrays, out=a)
            except ArgumentError as e:
                assert e.code == "argument.alias", e
                return set()
            assert_bitwise(a, expected)
            return {"output on an input"}
    return set()


def _logical(p: Pipeline, given: Mapping[str, Any], result: Any, bound: Any) -> Any:
    """Outputs as the algorithm has them."""
    out = []
    for o, v in zip(p.outputs, _flat([result]), strict=True):
        shape = tuple(index_value(e, bound.env) for e in o.extents)
        out.append(unpack(v, given[o.func.name], shape) if o.func.name in given else v)
    return structured(p.structure, out)


def _flat(items: list[Any]) -> list[np.ndarray]:
    return [y for x in items for y in (_flat(list(x)) if isinstance(x, tuple) else [x])]

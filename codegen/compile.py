"""From a schedule to something callable: variants by stride class, the persistent cache, the call."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilewright.codegen import abi, cache, externs, runtime, stages, target
from tilewright.codegen.bound_call import BoundCall, Ready
from tilewright.codegen.bound_call import native as bound_builtin
from tilewright.codegen.entry import raise_code, scalar_slot
from tilewright.codegen.interface import ANY, CONTIGUOUS, UNIT, argument_roles
from tilewright.codegen.jit import load
from tilewright.codegen.native_calls import MISSED, NativeCalls, builtin, native
from tilewright.codegen.physical import Given, explained, interface
from tilewright.codegen.prepack import Accepted, Packed, call, prepack, resolved
from tilewright.codegen.runtime.executors import context_for
from tilewright.lang import ir
from tilewright.lang.assumptions import assumptions, failure
from tilewright.lang.binding import Bound, bind, folds, index_value
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError, user_location
from tilewright.lang.nested import flat_arguments
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import structured
from tilewright.schedule.causes import refuse
from tilewright.schedule.state import State

if TYPE_CHECKING:
    from tilewright.codegen.explain import Explanation
    from tilewright.codegen.jit import Library
    from tilewright.codegen.lower import Lowered
    from tilewright.codegen.profile import Clocked, Profile
    from tilewright.schedule.registers import Registers
    from tilewright.schedule.report import Report
    from tilewright.schedule.schedule import Schedule

Classes = tuple[str, ...]


@dataclass(eq=False)
class Variant:
    """One compiled form: for given stride classes and aliases."""

    address: int
    keep: Any
    meta: dict[str, Any]
    classes: Classes
    aliased: bool


@dataclass(eq=False)
class Build:
    """Everything that making a variant produced, for people who look inside."""

    lowered: Lowered
    llvm: str
    image: bytes
    symbol: str
    timings: dict[str, float] = field(default_factory=dict)


class Compiled:
    """A kernel with its schedule, compiled. Call it like the kernel; `out=` writes into arrays of yours.

    Calls on contiguous arrays never enter Python. All others come to `_slow`, which knows builtins for more kinds of
    calls (`native_calls`), and where none takes the call checks it, makes the outputs, compiles a variant for other
    strides where needed, and raises the errors.
    """

    def __init__(
        self, pipeline: Pipeline, identity: str, state: Callable[[], State], mode: str,
        keyword_only: tuple[str, ...] = (), debug: bool = False, layouts: Given = MappingProxyType({}),
        given: frozenset[str] = frozenset(), giving: Callable[[frozenset[str]], Compiled] | None = None,
        located: Callable[[ScheduleError], ScheduleError] = lambda e: e,
    ):  # fmt: skip
        """`layouts`: those that the schedule has for inputs and for what is `given` in them. `giving` makes the form
        of the kernel that is given more of these inputs in their layouts. `located` gives an error the place of the
        directive that it is about."""
        self.pipeline, self.mode = pipeline, mode
        self._identity, self._make_state, self.keyword_only = identity, state, keyword_only
        self._debug, self._located = debug, located
        self._schedule_seconds = 0.0
        self._took: dict[str, float] = {}  # by the compilation of the variant for contiguous arrays
        self.promises = tuple(assumptions(pipeline)) if debug else ()  # what is checked while the kernel runs
        self._variants: dict[tuple, Variant] = {}
        self._clocked: dict[tuple, Clocked] = {}  # variants that are profiled
        self._lock = threading.Lock()
        self.layouts, self.given = layouts, {n: m for n, m in layouts.items() if n in given}
        self._giving: Callable[[frozenset[str]], Compiled] | None = giving
        self._forms: dict[frozenset[str], Compiled] = {}
        self._seen: dict[frozenset[str], Pipeline] = {}
        self.handled: dict[tuple[Any, ...], Callable[..., Any]] = {}  # builtins by threads and inputs that are packed
        self.accepted: dict[int, Accepted] = {}  # handles that were checked
        self.interface = interface(pipeline, self.given)  # what the caller sees
        self._inputs = interface(pipeline, self.given, outputs=False)
        self._roles = argument_roles(self.interface)
        self._written = frozenset(r[0] for r in self._roles if r[1] in ("out", "inout"))
        self._tables = [t.values for t in pipeline.tables]
        self.default_classes = (CONTIGUOUS,) * len(self._roles)
        self._entries: dict[int | None, Callable[..., Any]] = {}
        self.calls = NativeCalls(self)
        entry = self._entry(None)
        # a builtin as a class attribute does not bind: calling the object goes straight to it
        self.__class__ = type(type(self).__name__, (type(self),), {"__call__": staticmethod(entry)})  # type: ignore[assignment]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # replaced per object, see __init__
        return self._slow(*args, **kwargs)

    def _entry(self, threads: int | None) -> Callable[..., Any]:
        """The native call for a number of threads (None: as many as the process may use)."""
        found = self._entries.get(threads)
        if found is None:
            slow = self._slow if threads is None else functools.partial(self._second, threads)
            variant = self.variant(self.default_classes)
            found = self._entries[threads] = builtin(self, variant, self.default_classes, threads, slow)
        return found

    # Looking inside -----------------------------------------------------------------------------------------

    @functools.cached_property
    def _built(self) -> Build:
        return self.build()

    @property
    def source(self) -> str:
        """The loop IR of the variant for contiguous arrays."""
        from tilewright.codegen.dump import dump

        return dump(self._built.lowered.program)

    def report(self) -> Report:
        """What was done of the schedule (with what the default adds), and what lowering made of loops and vectors."""
        from tilewright.codegen.report import emitted
        from tilewright.schedule.report import Report, report

        return Report((*report(self._state()).notes, *emitted(self._built.lowered.results)))

    @property
    def llvm(self) -> str:
        """The LLVM IR as it was emitted, before optimisation."""
        return self._built.llvm

    @property
    def asm(self) -> str:
        """The machine code as text."""
        return target.assembly(self._built.llvm)

    def explain(self, *args: Any, out: Any = None, sizes: Any = None, **kwargs: Any) -> Explanation:
        """What the processor's inner loops do: vector width, multiply-adds, spilled registers, gathers, scalar
        arithmetic, each with a hint (x86-64; CompileError `compile.explain` elsewhere).

        With arguments the kernel runs on them, one thread, and the time is set beside what the arithmetic and the
        memory of this processor allow, as measured just after. Arrays that it writes are left as by one call.
        """
        from tilewright.codegen.explain import explain

        if not (args or kwargs):
            return explain(self, None)
        return explain(*self.prepared(args, out, sizes, kwargs))

    def profile(
        self, *args: Any, out: Any = None, sizes: Any = None, seconds: float = 0.5, **kwargs: Any
    ) -> Profile:  # fmt: skip
        """Where the time goes: seconds of every stage of a call, its own alone, and how often it is entered.

        The kernel, in a form that reads the processor's clock, and the kernel itself run in turns on these arguments, on
        one thread, for some `seconds`; the fastest runs count. Arrays hold afterwards what one call leaves. Raises what
        the call itself would raise, and CompileError `compile.profile` on processors that are no x86-64.
        """
        from tilewright.codegen.profile import profile

        kernel, ready = self.prepared(args, out, sizes, kwargs)
        return profile(kernel, ready, seconds)

    @property
    def timings(self) -> dict[str, float]:
        """Seconds that each step of compiling takes, in their order; together they are nearly all of it.

        `schedule` completes and checks the schedule (and builds the nest, which the first pass then finds), the passes of
        lowering follow, `emit` writes LLVM's text, `optimise` and `machine code` are LLVM's. They are those of the
        compilation itself; where the kernel came from the cache it is compiled again for them.
        """
        return dict(self._took or self._built.timings)

    def dump(self, name: str) -> str:
        """The program after a pass (their names: `fast.timings`)."""
        from tilewright.codegen.dump import dump

        results = self._built.lowered.results
        if name not in results:
            raise CompileError(
                f"there is no pass {name!r}", code="compile.pass", where=user_location(),
                hint="passes: " + ", ".join(results),
            )  # fmt: skip
        return dump(results[name])

    # Building -----------------------------------------------------------------------------------------------

    def variant(self, classes: Classes, aliases: frozenset[frozenset[str]] = frozenset()) -> Variant:
        """The form for these stride classes, and arguments that share memory."""
        found = self._variants.get((classes, aliases))
        if found is None:
            with self._lock:
                found = self._variants.get((classes, aliases))
                if found is None:
                    found = self._variants[(classes, aliases)] = self._load(classes, aliases)
        return found

    def _load(self, classes: Classes, aliases: frozenset[frozenset[str]]) -> Variant:
        name = cache.key(
            {
                "algorithm": self.pipeline.digest,
                "schedule": self._identity,
                "mode": self.mode,
                "classes": ",".join(classes),
                "aliases": json.dumps(sorted(sorted(a) for a in aliases)),
                "promises": ", ".join(map(str, self.promises)),
                "debug": str(self._debug),  # what a cache holds has been checked as it was made, aliases too
                "given": json.dumps({n: str(m) for n, m in sorted(self.given.items())}),
            }
        )
        entry = cache.get(name)
        if entry is None:
            for pair in sorted(map(sorted, aliases)):
                self._check_alias(*sorted(pair, key=self._written.__contains__))
            made = self.build(classes, aliases)
            if classes == self.default_classes and not aliases:
                self._took = made.timings
            entry = cache.Entry(made.image, {"symbol": made.symbol, "kernel": self.pipeline.name, "mode": self.mode})
            cache.put(name, entry)
        library, keep = self._linked(entry.image, entry.meta["symbol"])
        return Variant(library.address(entry.meta["symbol"]), keep, entry.meta, classes, bool(aliases))

    def _linked(self, image: bytes, symbol: str) -> tuple[Library, Any]:
        """An object of this kernel, loaded with the user's functions that it calls, and what keeps it all alive."""
        callbacks = stages.Callbacks(self.pipeline)
        library = load(image, (symbol,), {**externs.addresses(self.pipeline), **callbacks.addresses})
        return library, (library, callbacks)

    def build(self, classes: Classes | None = None, aliases: frozenset[frozenset[str]] = frozenset()) -> Build:
        """Lower, emit and optimise (without the cache)."""
        from tilewright.codegen.emit import emit  # a warm process does not need it

        lowered = self._lowered(classes or self.default_classes)
        start = time.perf_counter()
        text = emit(lowered.program, aliases=aliases)
        timings = {"schedule": self._schedule_seconds, **lowered.timings, "emit": time.perf_counter() - start}
        image = self._machine_code(text, timings)
        return Build(lowered, text, image, lowered.program.symbol, timings)

    def _machine_code(self, text: str, timings: dict[str, float] | None = None) -> bytes:
        known = (*externs.symbols(self.pipeline), *stages.symbols(self.pipeline))
        return target.optimize_and_emit(text, extra_symbols=known, timings=timings)

    def _state(self) -> State:
        """What the whole schedule makes of the pipeline; it is completed and checked once."""
        start = time.perf_counter()
        state = self._make_state()
        self._schedule_seconds = max(self._schedule_seconds, time.perf_counter() - start)  # later calls find it
        return state

    def _lowered(self, classes: Classes) -> Lowered:
        from tilewright.codegen.lower import Request, lower

        symbol = abi.symbol(self.pipeline.name, "|".join((self.pipeline.digest, self._identity, self.mode, *classes)))
        state = self._state()
        if dict(state.given) != dict(self.given):
            raise CompileError(
                f"the schedule of {self.pipeline.name} takes arrays in layouts of its own", code="compile.given",
                where=user_location(), hint="compile it by kernel.compile(schedule)",
            )  # fmt: skip
        try:
            return lower(Request(state, self.mode, symbol, classes, bool(self.promises), covered=self._debug))
        except ScheduleError as e:
            raise self._located(e) from None

    # Calling ------------------------------------------------------------------------------------------------

    def _slow(self, *args: Any, threads: int | None = None, executor: Any = None, **kwargs: Any) -> Any:
        if self.pipeline.signature:
            flat, named = flat_arguments(self.pipeline, args, kwargs)
            if flat is not args:
                how = {k: v for k, v in (("threads", threads), ("executor", executor)) if v is not None}
                return self(*flat, **named, **how)
        for v in (*args, *kwargs.values()) if kwargs else args:
            if type(v) is Packed:
                return call(self, args, kwargs, threads, executor)
        if executor is not None:
            return self._checked(context_for(executor, threads), *args, **kwargs)
        if threads is not None:
            return self._entry(_positive(threads))(*args, **kwargs)
        return self._second(None, *args, **kwargs)

    def _second(self, threads: int | None, *args: Any, sizes: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """A call that the first builtin does not take."""
        given = kwargs if out is None else {**kwargs, "out": out}
        found = (
            self.calls.strided(threads, args, given) if sizes is None else self.calls.sized(threads, sizes, args, given)
        )
        if found is not MISSED:
            return found
        ready = self._ready(args, out, sizes, kwargs)
        self.calls.learn(threads, ready.keep)
        if sizes:
            self.calls.accept(sizes)
        return self.run(ready, runtime.context(threads))

    def _checked(self, context: Any, *args: Any, out: Any = None, sizes: Any = None, **kwargs: Any) -> Any:
        """A call with everything checked in Python."""
        return self.run(self._ready(args, out, sizes, kwargs), context)

    def _ready(self, args: Sequence[Any], out: Any, sizes: Any, kwargs: Mapping[str, Any]) -> Ready:
        """The variant for these arguments and what it is called with."""
        p = self.interface
        try:
            bound = bind(self._inputs, args, kwargs, said_by_outputs(p, out, sizes), len(self.keyword_only))
            outputs = given_outputs(p, bound, out)
        except ArgumentError as e:
            if not self.given:
                raise
            raise explained(e, self.pipeline, self.given) from None
        arrays = [bound.arrays[a.name] for a in p.arrays] + self._tables + outputs
        aliases = self._aliases(arrays)
        variant = self.variant(tuple(map(stride_class, arrays)), aliases)
        if self.promises:
            arrays.append(np.zeros((), np.int64))  # the number of one that is broken
        return Ready(
            variant.address, arrays, [bound.sizes[n] for n in p.sizes],
            [scalar_slot(s.dtype.np.name, bound.scalars[s.name]) for s in p.scalars],
            out if out is not None else structured(p.structure, outputs), self._fail, bound.env, variant,
        )  # fmt: skip

    def run(self, ready: Ready, context: Any) -> Any:
        """Run a call that was prepared; its result."""
        broken = ready.arrays[-1] if self.promises else None
        if broken is not None:
            broken[...] = 0
        with stages.running(context) as own:
            code = ready.run(own)
        if code:
            self._fail(code)
        if broken:
            raise failure(assumptions(self.interface)[self.promises[int(broken) - 1]])
        return ready.result

    def _fail(self, code: int) -> NoReturn:
        raise_kernel_code(code, self.pipeline, self._state(), self.mode)

    def bind(
        self, *args: Any, out: Any = None, sizes: Any = None, threads: int | None = None, executor: Any = None,
        **kwargs: Any,
    ) -> BoundCall:  # fmt: skip
        """The kernel with these arguments: a call without any, which checks nothing and costs some 50 ns besides the kernel.

        It reads what the arrays hold at the time of the call, and writes the same outputs every time: those of `out=`,
        or its own `result`. Scalars stay as they are. Raises what the call itself would raise; only requirements on
        values that lie in arrays are checked again.
        """
        kernel, ready = self.prepared(args, out, sizes, kwargs)
        context = context_for(executor, threads) if executor is not None else runtime.context(_positive(threads))
        return BoundCall(self.pipeline.name, ready.result, kernel._caller(ready, context))

    def _caller(self, ready: Ready, context: Any) -> Callable[[], Any]:
        """A call without arguments: the builtin, where nothing is left for Python to do."""
        found = bound_builtin(ready, context) if native(self) else None
        return found or functools.partial(self.run, ready, context)

    def prepared(
        self, args: Sequence[Any], out: Any = None, sizes: Any = None, kwargs: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[Compiled, Ready]:  # fmt: skip
        """The form of the kernel for these arguments, some of them packed, and what it is called with: `run` takes it."""
        args, kwargs = flat_arguments(self.pipeline, args, kwargs)
        if not any(type(v) is Packed for v in (*args, *kwargs.values())):
            return self, self._ready(args, out, sizes, kwargs)
        kernel, given, named = resolved(self, tuple(args), {**kwargs, "sizes": sizes})
        sizes = named.pop("sizes", sizes)
        return kernel, kernel._ready(given, out, sizes, named)

    # Packed inputs ------------------------------------------------------------------------------------------

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters."""
        return tuple(q.name for q in self.pipeline.params)

    @property
    def identity(self) -> str:
        """The hash of the schedule ("" for the default one)."""
        return self._identity

    def prepack(self, parameter: str, array: Any) -> Packed:
        """An input in the layout that the schedule has for it (`s.layout("B", "k j -> j//16 k j%16")`).

        The kernel takes the result in place of the array and has nothing to convert. It may be saved, mapped into
        memory and shared; what was packed for another layout, type, parameter or kernel is refused.
        """
        return prepack(self, parameter, array)

    def taking(self, names: frozenset[str]) -> Compiled:
        """The form of the kernel that takes these inputs in their layouts."""
        more = names.difference(self.given)
        if not more or self._giving is None:
            return self
        if more not in self._forms:
            self._forms[more] = self._giving(more)
        return self._forms[more]

    def seen_with(self, handles: frozenset[str]) -> Pipeline:
        """The parameters as a caller sees them who passes handles for some: these count as the logical arrays."""
        found = self._seen.get(handles)
        if found is None:
            rest = {n: m for n, m in self.given.items() if n not in handles}
            found = self._seen[handles] = interface(self.pipeline, rest, outputs=False)
        return found

    def checked_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call that is checked in Python, whatever its arguments are."""
        return self._slow(*args, **kwargs)

    def _aliases(self, arrays: Sequence[np.ndarray]) -> frozenset[frozenset[str]]:
        """Pairs of arguments that share memory, one of them written; refused where it is more than one or where they are
        not one array. Whether it can change a result is looked at when the form for them is made."""
        found = set()
        written = [k for k, r in enumerate(self._roles) if r[0] in self._written]
        for k in written:
            for j in range(len(arrays)):
                if j != k and (j not in written or j < k) and np.may_share_memory(arrays[j], arrays[k]):
                    if not np.shares_memory(arrays[j], arrays[k]):
                        continue
                    a, b, names = arrays[j], arrays[k], (self._roles[j][0], self._roles[k][0])
                    if j in written:
                        raise _alias(*names, "both are written")
                    if a.ctypes.data != b.ctypes.data or a.strides != b.strides or a.shape != b.shape:
                        raise _alias(*names, "they overlap without being one array")
                    found.add(frozenset(names))
        return frozenset(found)

    def _check_alias(self, read: str, written: str) -> None:
        from tilewright.codegen.aliasing import obstacle

        why = obstacle(self._state(), read, written)
        if why is not None:
            raise _alias(read, written, why)


def _alias(read: str, written: str, why: str) -> ArgumentError:
    there, here = (n.removeprefix("out.") for n in (read, written))
    return ArgumentError(
        f"{here} shares memory with {there}: {why}", code="argument.alias", where=user_location(),
        hint="an output may lie on an input only where each element is read for itself alone; give another array",
    )  # fmt: skip


def _positive(threads: int | None) -> int | None:
    """How many threads a call asks for. Raises ArgumentError `argument.threads`."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ArgumentError(
            f"threads= is {threads!r}", code="argument.threads", where=user_location(),
            hint="it is a positive integer: how many threads the call may use",
        )  # fmt: skip
    return threads


def raise_kernel_code(code: int, p: Pipeline, state: State, mode: str) -> NoReturn:
    """The error of a kernel's return code. What binding checks was checked before: what is left is memory, and what
    the schedule itself asks of the sizes."""
    from tilewright.codegen.requirements import requirements
    from tilewright.schedule.build import build_nest

    if code < 100:
        raise_code(code)
    asked = [text for _, text in build_nest(state, mode).requirements]
    which = code - 100 - len(requirements(p))
    raise BoundsError(
        asked[which] if 0 <= which < len(asked) else f"{p.name}: requirement {code - 100} does not hold",
        code="bounds.schedule", where=user_location(),
        hint="the schedule asks for it: call with sizes for which it holds, or change that directive",
    )  # fmt: skip


def given_outputs(p: Pipeline, bound: Bound, out: Any) -> list[np.ndarray]:
    """The arrays that outputs are written to: new ones, or those of `out=` once they are found to fit."""
    shapes = [tuple(index_value(e, bound.env) for e in o.extents) for o in p.outputs]
    if out is None:
        return [np.empty(s, o.dtype.np) for s, o in zip(shapes, p.outputs, strict=True)]
    given = in_order(p, out)
    for o, shape, a in zip(p.outputs, shapes, given, strict=True):
        _check_output(o.name, o.dtype.np, shape, a)
    return given


def said_by_outputs(p: Pipeline, out: Any, sizes: Any) -> Any:
    """`sizes` with those that only the arrays of `out=` can say: sizes that are in no input's extents."""
    if out is None or not (sizes is None or isinstance(sizes, dict)):
        return sizes
    found = dict(sizes or {})
    in_inputs = {n.attr for a in p.arrays for n in ir.leaves(a.extents, "size")}
    for o, a in zip(p.outputs, in_order(p, out), strict=True):
        for e, n in zip(o.extents, getattr(a, "shape", ()), strict=False):
            if e.op == "size" and e.attr not in in_inputs:
                found.setdefault(e.attr, n)
    return found


def in_order(p: Pipeline, out: Any) -> list[Any]:
    """The arrays of a result, or of `out=`, in the order of the outputs."""
    given: list[Any] = []
    _pick(p.structure, out, given, p)
    return given


def _pick(structure: Any, out: Any, given: list[Any], p: Pipeline) -> None:
    """The arrays of `out=` in output order; its structure must be that of the result."""
    if isinstance(structure, dict) and isinstance(out, dict) and structure.keys() == out.keys():
        for key in structure:
            _pick(structure[key], out[key], given, p)
    elif isinstance(structure, (tuple, list)) and isinstance(out, (tuple, list)) and len(structure) == len(out):
        for s, o in zip(structure, out, strict=True):
            _pick(s, o, given, p)
    elif isinstance(structure, int) and not isinstance(out, (tuple, list, dict)):
        given.append(out)
    elif structure is not None or out is not None:
        raise ArgumentError(
            f"out= has another structure than what {p.name} returns", code="argument.out", where=user_location(),
            hint="give the same tuple, list or dict of arrays",
        )  # fmt: skip


def _check_output(name: str, dtype: np.dtype, shape: tuple[int, ...], a: Any) -> None:
    problem = None
    if not isinstance(a, np.ndarray):
        problem = f"is a {type(a).__name__}, not an ndarray"
    elif a.dtype != dtype or not a.dtype.isnative:
        problem = f"has type {a.dtype.str}, {np.dtype(dtype)} is needed"
    elif a.shape != shape:
        problem = f"has shape {a.shape}, {shape} is needed"
    elif not a.flags.writeable:
        problem = "is read-only"
    elif not a.flags.aligned or any(s % a.itemsize for s in a.strides):
        problem = "is misaligned"
    elif folds(a):
        problem = "is a broadcast or sliding view: several elements share one place"
    if problem:
        raise ArgumentError(
            f"out= for {name} {problem}", code="argument.out", where=user_location(),
            hint=f"give a writable array: np.empty({shape}, np.{np.dtype(dtype).name})",
        )  # fmt: skip


def stride_class(a: np.ndarray) -> str:
    if a.flags.c_contiguous:
        return CONTIGUOUS
    if a.ndim and a.strides[-1] == a.itemsize:
        return UNIT
    return ANY


def completed(p: Pipeline, schedule: Any, mode: str, registers: Registers | None = None) -> Schedule:
    """The whole schedule (None: all default; its tiles are for these `registers`), checked. Raises ScheduleError for what
    is not legal in this mode."""
    from tilewright.schedule.check import reassociated_at
    from tilewright.schedule.default import complete
    from tilewright.schedule.schedule import Schedule

    full = complete(Schedule(p) if schedule is None else schedule, mode, registers)
    full.check()
    if mode == "strict" and full.state.reassociations:
        raise refuse(
            f"mode strict refuses to change the order of the float reduction {full.state.reassociations[0]}",
            "strict", "keep that loop serial, or compile with mode='contract'",
            (reassociated_at(full), user_location()),
        )  # fmt: skip
    return full


def compile_schedule(p: Pipeline, schedule: Any, mode: str, keyword_only: tuple[str, ...] = ()) -> Compiled:
    """A pipeline with a schedule (None: all default), compiled. Stages that no directive names get the default.

    TILEWRIGHT_DEBUG=1 makes code that checks what `tw.assume` promised, and checks that its loops compute every point
    once (see `coverage`).
    """
    text = "" if schedule is None else schedule.hash

    @functools.cache
    def state() -> State:

        return completed(p, schedule, mode).state

    debug = os.environ.get("TILEWRIGHT_DEBUG") == "1"
    if schedule is None:
        return Compiled(p, text, state, mode, keyword_only, debug)
    from tilewright.schedule.packing import input_layouts, with_given

    def giving(names: frozenset[str]) -> Compiled:
        return compile_schedule(p, with_given(schedule, names), mode, keyword_only)

    layouts, given = input_layouts(p, schedule.directives)
    return Compiled(p, text, state, mode, keyword_only, debug, layouts, given, giving, schedule.located)


__all__ = ["Build", "Compiled", "Variant", "compile_schedule", "completed", "given_outputs", "in_order", "stride_class"]

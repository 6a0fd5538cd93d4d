"""`@tw.kernel`: a Python function that describes a computation, to call, schedule, compile and question."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.lang import reference as reference_path
from tilewright.lang.binding import bind, check_sizes, exported
from tilewright.lang.errors import ArgumentError, DefinitionError, user_location
from tilewright.lang.extents import required_inputs
from tilewright.lang.nested import flat_name, is_nested, leaves
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.trace import Interface, read_interface, trace
from tilewright.lang.types import ArraySpec, DType, DTypeVar, from_numpy
from tilewright.schedule.causes import refuse

if TYPE_CHECKING:
    from tilewright.codegen.count import Counts
    from tilewright.codegen.export import Export
    from tilewright.codegen.trace import Trace
    from tilewright.hw import Account
    from tilewright.hw.cache_counts import Levels

_PLAIN = frozenset((int, float, bool, str, type(None)))  # types of static values of which equal ones are the same
MODES = ("strict", "contract", "fast")


def check_mode(mode: str) -> str:
    if mode not in MODES:
        raise DefinitionError(
            f"mode {mode!r} is unknown",
            code="definition.mode",
            where=user_location(),
            hint="modes: " + ", ".join(MODES),
        )
    return mode


class Kernel:
    """A kernel: calling it computes with a default schedule; see `schedule`, `compile`, `reference`, `simulate`,
    `count`, `trace`.

    `statics` (keyword-only parameters without a tilewright type) and type parameters select a specialised pipeline.
    """

    def __init__(self, fn: Callable[..., Any] | None, mode: str = "contract", pipeline: Pipeline | None = None):
        self.mode = check_mode(mode)
        if fn is not None and not isinstance(fn, FunctionType):
            raise DefinitionError(
                f"a kernel is made of {fn!r}", code="definition.kernel", where=user_location(),
                hint='of a function: @tw.kernel, or @tw.kernel(mode="strict"), before its def',
            )  # fmt: skip
        self._fn = fn
        self._pipelines: dict[Any, Pipeline] = {}
        self._compiled: dict[Any, Any] = {}
        if fn is not None:
            self.__name__, self.__doc__, self.__module__ = fn.__name__, fn.__doc__, fn.__module__
            self.interface = read_interface(fn)
        else:
            assert pipeline is not None
            self.__name__, self.interface = pipeline.name, Interface(())
            self._pipelines[((), ())] = pipeline
        self._selected: dict[tuple | None, Any] = {}
        self._static_names = tuple(q.name for q in self.interface.statics)
        self._deciding = _deciding(self.interface)
        if (
            fn is not None
            and not self.interface.type_vars
            and all(p.default is not p.default_missing for p in self.interface.statics)
        ):
            self.pipeline()  # mistakes in the definition show where it stands

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}>"

    def __str__(self) -> str:
        """The text form, which `tw.parse_kernel` reads; without one while static values or types are open."""
        from tilewright.lang.text import print_kernel

        try:
            return print_kernel(self.pipeline()).rstrip("\n")
        except (ArgumentError, DefinitionError):
            return repr(self)

    # The pipeline -------------------------------------------------------------------------------------------

    def pipeline(self, *, dtypes: Mapping[str, Any] | None = None, **statics: Any) -> Pipeline:
        """The pipeline for given static values and types; traced once for each."""
        if self._fn is None:
            return next(iter(self._pipelines.values()))
        values = {}
        for p in self.interface.statics:
            if p.name in statics:
                values[p.name] = statics.pop(p.name)
            elif p.default is not p.default_missing:
                values[p.name] = p.default
            else:
                raise ArgumentError(
                    f"{self.__name__} needs the static value {p.name}", code="argument.static", where=user_location(),
                    hint=f"give it by name: {p.name}=...",
                )  # fmt: skip
        if statics:
            raise ArgumentError(
                f"{self.__name__} has no static parameter {next(iter(statics))}",
                code="argument.unknown", where=user_location(),
                hint="it has: " + (", ".join(p.name for p in self.interface.statics) or "none"),
            )  # fmt: skip
        unknown = [name for name in dtypes or {} if name not in {t.name for t in self.interface.type_vars}]
        if unknown:
            raise ArgumentError(
                f"{self.__name__} has no type variable {unknown[0]}", code="argument.unknown", where=user_location(),
                hint="it has: " + (", ".join(t.name for t in self.interface.type_vars) or "none"),
            )  # fmt: skip
        types = {
            t.name: _type(t, (dtypes or {}).get(t.name))
            for t in self.interface.type_vars
            if dtypes and t.name in dtypes
        }
        try:
            key = (tuple(values.items()), tuple(types.items()))
            found = self._pipelines.get(key)
        except TypeError as e:
            raise ArgumentError(
                f"a static value of {self.__name__} can't be a key: {e}", code="argument.static", where=user_location(),
                hint="give something hashable: a number, a text, a tuple",
            ) from None  # fmt: skip
        if found is None:
            found = self._pipelines[key] = trace(self._fn, self.interface, values, types)
        return found

    @property
    def _keyword_only(self) -> tuple[str, ...]:
        return self.interface.keyword_only

    def _for_call(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Pipeline, dict[str, Any]]:
        """The pipeline that a call selects by its static values and array types, and the other arguments."""
        names = {p.name for p in self.interface.statics}
        statics = {k: v for k, v in kwargs.items() if k in names}
        rest = {k: v for k, v in kwargs.items() if k not in names}
        return self.pipeline(dtypes=self._types_of(args, rest) if self.interface.type_vars else {}, **statics), rest

    def _types_of(self, args: tuple, rest: Mapping[str, Any]) -> dict[str, DType]:
        """The types that the arrays of a call give to type parameters."""
        dtypes: dict[str, DType] = {}
        positional = [p.name for p in self.interface.params if not p.keyword_only]
        given = dict(zip(positional, args, strict=False)) | dict(rest)
        for p in self.interface.params:
            parts = dict(rest)  # what is nested may be given by its flat names
            if p.name in given:
                found = leaves(given[p.name], (p.name,)) if is_nested(p.spec) else [((p.name,), given[p.name])]
                parts.update({flat_name(path): v for path, v in found})
            for name, spec in p.flat.items():
                t = spec.dtype if isinstance(spec, ArraySpec) else spec
                if isinstance(t, DTypeVar) and t.name not in dtypes:
                    if name not in parts:
                        raise ArgumentError(
                            f"{self.__name__}: {name} is missing", code="argument.missing", where=user_location(),
                            hint="it takes " + ", ".join(q.name for q in self.interface.params),
                        )  # fmt: skip
                    dtypes[t.name] = _type(t, _type_of(name, parts[name]))
        return dtypes

    # Running ------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute with the default schedule. `out=` writes into given arrays, `threads=` limits threads.

        The first native call of a kernel (for given static values and types) decides about TILEWRIGHT_REFERENCE; later
        ones go straight to the native code.
        """
        selection = self._selection(args, kwargs)
        if selection in self._selected:
            return self._selected[selection](*args, **{n: v for n, v in kwargs.items() if n not in self._static_names})
        if os.environ.get("TILEWRIGHT_REFERENCE") == "1":
            return self._through_reference(args, kwargs)
        if not self.interface.statics and not self.interface.type_vars:
            compiled = self._compiled.get(None)
            if compiled is None:
                compiled = self._compiled[None] = self.compile()
                # as `Compiled` does: its builtin as a class attribute does not bind, and no Python runs before it
                self.__class__ = type(  # type: ignore[assignment]
                    type(self).__name__, (type(self),), {"__call__": type(compiled).__dict__["__call__"]}
                )
            return compiled(*args, **kwargs)
        p, rest = self._for_call(args, kwargs)
        compiled = self._compiled.get(p)
        if compiled is None:
            compiled = self._compiled[p] = self._compile(p, None, self.mode)
        if selection is not None:
            self._selected[selection] = compiled
        return compiled(*args, **rest)

    def _selection(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple | None:
        """What of a call selects its pipeline, where that is quickly said: types of arrays, and static values with theirs
        (1 and True are one key)."""
        found: list[Any] = []
        for place in self._deciding:
            if place >= len(args) or type(args[place]) is not np.ndarray:
                return None
            found.append(args[place].dtype)
        for name in self._static_names:
            if name in kwargs:
                value = kwargs[name]
                if type(value) not in _PLAIN:
                    return None
                found += name, type(value), value
        return tuple(found)

    def reference(self, *args: Any, keep: Any = (), sizes: Any = None, **kwargs: Any) -> Any:
        """The reference path: NumPy only, nothing fused. With `keep=["lap"]` returns (result, {"lap": array})."""
        p, rest = self._for_call(args, kwargs)
        return reference_path.run(p, bind(p, args, rest, sizes, len(self._keyword_only)), keep)

    def _through_reference(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        from tilewright.codegen.compile import given_outputs, in_order, said_by_outputs

        kwargs.pop("threads", None)
        out = kwargs.pop("out", None)
        if out is None:
            return self.reference(*args, **kwargs)
        sizes = kwargs.pop("sizes", None)
        p, rest = self._for_call(args, kwargs)
        sizes = said_by_outputs(p, out, sizes)
        targets = given_outputs(p, bind(p, args, rest, sizes, len(self._keyword_only)), out)
        result = self.reference(*args, sizes=sizes, **kwargs)
        for target, value in zip(targets, in_order(p, result), strict=True):
            target[...] = value
        return out

    def why(self, *args: Any, out: tuple[int, ...] = (), output: int = 0, sizes: Any = None, **kwargs: Any) -> str:
        """One element's expression with the values that went into it: `kernel.why(a, b, out=(3, 5))`."""
        p, rest = self._for_call(args, kwargs)
        return reference_path.why(p, bind(p, args, rest, sizes, len(self._keyword_only)), out, output)

    def required_inputs(
        self, *, dtypes: Any = None, statics: Mapping[str, Any] | None = None, **sizes: int
    ) -> dict[str, Any]:
        """The range (start, stop) of every axis of every input that is read at the given sizes."""
        p = self.pipeline(dtypes=dtypes, **(statics or {}))
        check_sizes(p, sizes)
        return required_inputs(p, sizes)

    def explain_bounds(self, name: str, *, dtypes: Any = None, **statics: Any) -> str:
        """Which part of a Func or input is needed, and what needs it."""
        from tilewright.lang.explain import explain_bounds

        return explain_bounds(self.pipeline(dtypes=dtypes, **statics), name)

    # Scheduling ---------------------------------------------------------------------------------------------

    def schedule(self, *, machine: Any = None, dtypes: Any = None, **statics: Any) -> Any:
        """A new, empty schedule. `machine` binds memory names and capacities early."""
        from tilewright.schedule.schedule import Schedule

        return Schedule(self.pipeline(dtypes=dtypes, **statics), machine=machine)

    def compile(self, schedule: Any = None, *, mode: str | None = None, dtypes: Any = None, **statics: Any) -> Any:
        """A native kernel with the given schedule; stages that it does not name get the default schedule."""
        p = self.pipeline(dtypes=dtypes, **statics) if schedule is None else self._scheduled(schedule)
        return self._compile(p, schedule, check_mode(mode or self.mode))

    def _scheduled(self, schedule: Any) -> Pipeline:
        """The pipeline of a schedule, which must be one of this kernel."""
        p = getattr(schedule, "pipeline", None)
        if not isinstance(p, Pipeline):
            raise refuse(
                f"{schedule!r} is no schedule", "kind",
                f"make one with kernel.schedule(), or read one: tw.parse_schedule(text, {self.__name__})",
            )  # fmt: skip
        if not any(p.digest == q.digest for q in self._pipelines.values()):
            raise refuse(
                f"this schedule is for another algorithm: {p.name}, not {self.__name__}", "algorithm",
                "a schedule belongs to one algorithm: make one with kernel.schedule()", (user_location(), p.location),
            )  # fmt: skip
        return p

    def _compile(self, p: Pipeline, schedule: Any, mode: str) -> Any:
        from tilewright.codegen.compile import compile_schedule

        return compile_schedule(p, schedule, mode, self._keyword_only)

    def simulate(
        self,
        schedule: Any = None,
        *,
        machine: Any = None,
        sizes: Mapping[str, int],
        mode: str | None = None,
        inputs: Any = None,
        caches: bool = False,
        timeline: int = 0,
        sync: str | None = None,
    ) -> Any:
        """Run on a simulated machine (by default that of the schedule): the account of bytes and footprint, and the
        values.

        With `caches` every access that the code makes to main memory goes through the machine's caches, one after the
        other as one core makes them (`account.caches`: accesses, hits and misses by level and tensor). That takes some
        5 ns an access, which is why it is asked for. SimulationError `caches.none` where the machine has no caches.
        `timeline` and `sync` are as in `account`.
        """
        from tilewright.codegen.accounts.simulate import simulate

        p = self.pipeline() if schedule is None else self._scheduled(schedule)
        return simulate(p, schedule, machine, sizes, check_mode(mode or self.mode), inputs, caches, timeline, sync)

    def account(
        self, schedule: Any = None, *, machine: Any = None, sizes: Mapping[str, int], mode: str | None = None,
        time: bool = True, timeline: int = 0, sync: str | None = None,
    ) -> Account:  # fmt: skip
        """What the schedule does on a simulated machine (by default its own) at these sizes, without data: counts by
        tensor and memory, copies, footprint, energy, and (with `time`) cycles, waits and the annotated nest.

        It is exactly the account of `simulate`, in milliseconds at any size: loops whose iterations do the same are
        multiplied. `timeline` keeps that many of the first intervals of time; `sync` (decoupled or barrier) says how
        cores and copies meet, where not as the machine does. Raises SimulationError `skeleton.data` where loop bounds or
        conditions depend on data, CapacityError where buffers do not fit.
        """
        from tilewright.codegen.accounts.account import account

        p = self.pipeline() if schedule is None else self._scheduled(schedule)
        return account(p, schedule, machine, sizes, check_mode(mode or self.mode), time, timeline, sync)

    def export(
        self, schedule: Any = None, *, to: str = "json", sizes: Mapping[str, int] | None = None, machine: Any = None,
        mode: str | None = None,
    ) -> Export:  # fmt: skip
        """The lowered nest as versioned JSON (`to="json"`, see docs/export.md), or as C with hooks for DMA and units
        (`to="c"`).

        With `sizes` it is made for these alone: buffers have places in their memories. A `machine` says which copies its
        engines do, how buffers are aligned, and what fits. `str()` of the result is its text, `write(path)` makes files.
        """
        from tilewright.codegen.export import export

        p = self.pipeline() if schedule is None else self._scheduled(schedule)
        return export(p, schedule, to, sizes, machine, check_mode(mode or self.mode))

    def cache_estimate(
        self, schedule: Any = None, *, machine: Any = None, sizes: Mapping[str, int], mode: str | None = None,
        inputs: Any = None,
    ) -> Levels:  # fmt: skip
        """About what `simulate(..., caches=True)` counts, without running: accesses, hits and misses by level and tensor.

        It takes milliseconds at any size, once a schedule is lowered. Working sets of loops are held against the caches
        with their ways; what it is good for is to rank schedules. Of the `inputs` it looks at scalars alone, where
        loops end or indices go by them. Raises SimulationError `caches.none` where the machine has no caches,
        `estimate.data` where loop bounds depend on data.
        """
        from tilewright.codegen.cache_estimate import cache_estimate

        p = self.pipeline() if schedule is None else self._scheduled(schedule)
        return cache_estimate(p, schedule, machine, sizes, check_mode(mode or self.mode), inputs)

    def count(
        self, schedule: Any = None, *, sizes: Mapping[str, int], mode: str | None = None, inputs: Any = None
    ) -> Counts:
        """What the schedule does at these sizes, in exact numbers: points of each definition that are computed,
        elements loaded and stored, buffers made and their bytes.

        `inputs` are arrays and scalars by name; what is missing is made up (repeatable random values).
        """
        from tilewright.codegen.count import count

        p = self.pipeline() if schedule is None else self._scheduled(schedule)
        return count(p, schedule, sizes, check_mode(mode or self.mode), inputs)

    def trace(
        self, schedule: Any = None, *, sizes: Mapping[str, int], stages: str | Sequence[str] | None = None,
        mode: str | None = None, inputs: Any = None, room: int = 100_000,
    ) -> Trace:  # fmt: skip
        """What stages store under a schedule, value by value, in the order in which it happens on one thread.

        `stages` are addresses of stages or names of Funcs (None: all); what is inlined stores nothing. Lanes of a
        vector follow each other. At most `room` stores are recorded. `inputs` are arrays and scalars by name; what is
        missing is made up (repeatable random values).
        """
        from tilewright.codegen.trace import trace

        p = self.pipeline() if schedule is None else self._scheduled(schedule)
        return trace(p, schedule, sizes, stages, check_mode(mode or self.mode), inputs, room)


def _deciding(interface: Interface) -> tuple[int, ...]:
    """The places of the parameters whose types select the pipeline: the first one with each type variable."""
    found: dict[str, int] = {}
    for place, q in enumerate(q for q in interface.params if not q.static):
        for spec in q.flat.values():
            t = spec.dtype if isinstance(spec, ArraySpec) else spec
            if isinstance(t, DTypeVar):
                found.setdefault(t.name, place)
    return tuple(found.values())


def _type_of(name: str, value: Any) -> DType:
    """The element type of an argument whose type selects the pipeline."""
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value)
    array = exported(value)
    found = None if isinstance(array, str) else from_numpy(array.dtype)
    if found is None:
        raise ArgumentError(
            f"{name} has no element type: it is a {type(value).__name__}", code="argument.dtype", where=user_location(),
            hint="pass an array: np.asarray(x, np.float32)",
        )  # fmt: skip
    return found


def _type(t: DTypeVar, given: Any) -> DType:
    from tilewright.lang.types import as_dtype

    found = as_dtype(given)
    if found not in t.choices:
        raise ArgumentError(
            f"{t.name} can't be {found}", code="argument.dtype", where=user_location(),
            hint="choices: " + ", ".join(map(repr, t.choices)),
        )  # fmt: skip
    return found


def kernel(fn: Any = None, *, mode: str = "contract") -> Any:
    """Make a kernel of a function: `@tw.kernel`, or `@tw.kernel(mode="strict")`."""
    if fn is None:
        return lambda f: Kernel(f, mode)
    return Kernel(fn, mode)


def from_pipeline(pipeline: Pipeline, mode: str = "contract") -> Kernel:
    """A kernel of an explicit pipeline (`tw.pipeline(...)`, or one read from text)."""
    return Kernel(None, mode, pipeline)


__all__ = ["Kernel", "check_mode", "from_pipeline", "kernel"]

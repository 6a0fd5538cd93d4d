"""A plan that runs: a native kernel for every distinct part, called in order on buffers in one block of memory."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.codegen.compile import Compiled, given_outputs, stride_class
from tilewright.codegen.native_calls import MISSED, missed
from tilewright.codegen.physical import interface, unpack
from tilewright.lang import ir
from tilewright.lang.binding import Bound, bind, bind_arrays
from tilewright.lang.errors import ArgumentError, BoundsError, user_location
from tilewright.lang.func import InoutFunc
from tilewright.lang.nested import flat_arguments, flat_named
from tilewright.lang.pipeline import Output, Pipeline, ScalarParam
from tilewright.lang.tensors import Array
from tilewright.lang.values import Env, index_values
from tilewright.planner.compiling import compile_all
from tilewright.planner.cut import Buffer, Source
from tilewright.planner.given import ROWS
from tilewright.planner.native import Caller, Linked
from tilewright.planner.places import ALIGNMENT
from tilewright.planner.plan import Plan, Step, buffer_shape, is_whole, starts_of
from tilewright.planner.weights import Weight, packed, without
from tilewright.schedule.layout import parse_index_map

_MORE = 4  # times the elements that steps were planned to make at once
_KEPT = 8  # sets of sizes whose buffers are kept


@dataclass(frozen=True, eq=False)
class _Call:
    """A kernel with what it reads and writes; `sizes` are those that its arguments do not say."""

    kernel: Compiled
    inputs: tuple[Source | Weight, ...]
    outputs: tuple[Buffer, ...]
    sizes: tuple[str, ...]

    def arguments(self, array: Callable[[Source | Weight], Any], env: Env) -> tuple[list[Any], dict[str, Any]]:
        """By position, and by name."""
        made = tuple(array(b) for b in self.outputs)
        named: dict[str, Any] = {"out": made[0] if len(made) == 1 else made} if made else {}
        if self.sizes:
            named["sizes"] = {n: env[n] for n in self.sizes}
        return [array(s) for s in self.inputs], named


class Program:
    """A compiled plan, called like the kernel that it was made of: `out=` gives the results' arrays, `threads=` limits
    threads, `sizes=` says what no argument says.

    Weights of the plan are packed in every call; of `with_weights` a program is had that has done so once.

    Buffers between the parts are kept from call to call, for the sizes that were asked for last; so one call runs at a
    time, and others wait for it.

    `watch(moment, number, array)`, where it is set, is called "before" and "after" each step of the plan, by its number;
    `array(source)` is what lies there for a buffer, an input or a scalar.
    """

    watch: Callable[[str, int, Callable[[Source], Any]], None] | None = None

    def __init__(self, plan: Plan, mode: str = "contract", keyword_only: tuple[str, ...] = ()):
        self.plan, self._keyword_only = plan, keyword_only
        self.pipeline = plan.pipeline  # as callers see it
        self._weights: dict[Weight, np.ndarray] = {}  # that were packed
        self._said: dict[str, int] = {}  # sizes by their shapes
        kernels = compile_all({s.schedule.hash: (s.part.pipeline, s.schedule) for s in plan.steps}, mode)
        calls = []
        for step in plan.steps:
            p = step.part.pipeline
            seen = interface(p, step.given.maps, outputs=False)
            said = {e.attr for a in seen.arrays for e in a.extents if e.op == "size"}
            calls.append(
                _Call(
                    kernels[step.schedule.hash],
                    _inputs(plan, step),
                    step.part.outputs,
                    tuple(n for n in p.sizes if n not in said),
                )
            )
            _ready_in_place(plan, calls[-1])
        self._calls, self.kernels = tuple(calls), tuple(kernels.values())
        self._spaces: dict[tuple, dict[Buffer, np.ndarray]] = {}
        shapes = [n for b in plan.buffers for n in plan.shape(b)]
        self._fixed = tuple(dict.fromkeys(n.attr for kind in ("size", "scalar") for n in ir.leaves(shapes, kind)))
        self._native: dict[
            int | None, list[tuple[tuple, Callable[..., Any]]]
        ] = {}  # the last that were made, by threads
        self._running = threading.Lock()

    def with_weights(self, weights: Mapping[str, Any] | None = None, **named: Any) -> Program:
        """The program with the weights of its plan, by name, which calls then leave out.

        They are copied now, into the layouts in which steps read them: what changes in the arrays later is not seen (call
        `with_weights` again). Kernels are shared with this program, memory for buffers is not. Raises ArgumentError for
        arrays that don't fit, and for names that are no weights or that are missing.
        """
        p, names = self.plan.pipeline, self.plan.weights
        if weights is not None and not isinstance(weights, Mapping):
            raise ArgumentError(
                f"{p.name}: weights are given by name, not as a {type(weights).__name__}", code="argument.weights",
                where=user_location(), hint="with_weights({name: array}) or with_weights(name=array)",
            )  # fmt: skip
        given = flat_named(p, {**(weights or {}), **named})
        for what, found in (("missing", [n for n in names if n not in given]),
                            ("unknown", [n for n in given if n not in names])):  # fmt: skip
            if found:
                raise ArgumentError(
                    f"{p.name}: {', '.join(found)} {'is' if len(found) == 1 else 'are'} "
                    f"{'missing' if what == 'missing' else 'no weights of the plan'}", code=f"argument.{what}",
                    where=user_location(),
                    hint=f"its weights: {', '.join(names)}" if names else "name them when planning: weights=[...]",
                )  # fmt: skip
        arrays, said = bind_arrays(p, given)
        made = copy.copy(self)
        made.pipeline, made._said = without(p, arrays), said
        made._keyword_only = tuple(n for n in self._keyword_only if n not in arrays)
        wanted = dict.fromkeys(s for c in self._calls for s in c.inputs if isinstance(s, Weight))
        made._weights = {w: packed(arrays[w.name], w.layout) for w in wanted}
        made._spaces, made._native, made._running = {}, {}, threading.Lock()
        return made

    def __call__(
        self, *args: Any, out: Any = None, sizes: Any = None, threads: int | None = None, **kwargs: Any
    ) -> Any:
        flat, named = flat_arguments(self.pipeline, args, kwargs)
        given = named if out is None else {**named, "out": out}
        with self._running:
            if sizes is None and self.watch is None and (threads is None or type(threads) is int):
                for _, call in self._native.get(threads, ()):
                    found = call(*flat, **given)
                    if found is not MISSED:
                        return found
            return self._slow(flat, out, sizes, threads, named)

    def _slow(self, args: Sequence[Any], out: Any, sizes: Any, threads: int | None, kwargs: Mapping[str, Any]) -> Any:
        """A call that no builtin takes: checked here."""
        p = self.pipeline
        if self._said and (sizes is None or isinstance(sizes, Mapping)):
            sizes = {**self._said, **(sizes or {})}
        bound = bind(p, args, kwargs, sizes, len(self._keyword_only))
        results = given_outputs(p, bound, out)
        if out is not None:
            _check_apart(p, bound, results)
        self._run(bound, results, threads)
        return _structured(p.structure, results) if out is None else out

    def _run(self, bound: Bound, results: list[np.ndarray], threads: int | None) -> None:
        p = self.plan.pipeline
        at: dict[Any, Any] = dict(self._space(bound))
        copied = []  # results that are made elsewhere first
        for o, a in zip(p.outputs, results, strict=True):
            if not is_whole(p, o):
                copied.append((o, a))
                continue
            place = Buffer(o.func, o.component)
            # over an input: parts that run later may read what was there
            if any(np.may_share_memory(a, x) for x in bound.arrays.values()):
                at[place] = np.empty(a.shape, a.dtype)
                copied.append((o, a))
            else:
                at[place] = a
        values = {**bound.arrays, **bound.scalars}

        now = dict(self._weights)

        def array(s: Source | Weight) -> Any:
            if isinstance(s, Weight):
                if s not in now:
                    now[s] = values[s.name] if s.layout == ROWS else packed(values[s.name], s.layout)
                return now[s]
            return at[s] if isinstance(s, Buffer) else _plain(s, values)

        def logical(s: Source) -> Any:
            home = self.plan.layouts.homes.get(s.name, ROWS) if isinstance(s, Buffer) else ROWS
            if home == ROWS:
                return array(s)
            shape = index_values(buffer_shape(p, s), bound.env)  # type: ignore[arg-type]
            return unpack(array(s), parse_index_map(home), tuple(max(0, n) for n in shape))

        learn = True
        for k, c in enumerate(self._calls):
            if self.watch is not None:
                self.watch("before", k, logical)
            given, named = c.arguments(array, bound.env)
            try:
                c.kernel(*given, threads=threads, **named)
            except BoundsError:
                if self.plan.needs(self.plan.steps[k], bound.env):
                    raise
                learn = False  # a kernel for itself does not know that nobody reads its result
            if self.watch is not None:
                self.watch("after", k, logical)
        for o, a in copied:
            a[...] = self._slice(o, at, bound)
        if learn and not copied and all(s in self._weights for s in now if s.layout != ROWS):
            self._learn(bound, results, threads, array)

    def _learn(
        self, bound: Bound, results: Sequence[np.ndarray], threads: int | None, array: Callable[[Source], Any]
    ) -> None:  # fmt: skip
        """Make a builtin for calls like this one."""
        p, known = self.pipeline, self._native.setdefault(threads, [])
        arrays = [*(bound.arrays[a.name] for a in p.arrays), *results]
        fixed = {n: int(bound.env[n]) for n in self._fixed}
        key = (*fixed.values(), *map(stride_class, arrays))
        if any(k == key for k, _ in known):
            return  # it does not take the call for another reason
        steps = []
        for c in self._calls:
            given, named = c.arguments(array, bound.env)
            kernel, ready = c.kernel.prepared(given, **named)
            steps.append(Linked(kernel, ready, c.inputs, c.outputs))
        direct = {Buffer(o.func, o.component): k for k, o in enumerate(p.outputs)}
        caller = Caller(p, direct, fixed, self._space(bound), self._keyword_only)
        known.insert(0, (key, caller.entry(steps, self._groups(bound.env), arrays, threads) or missed))
        del known[_KEPT:]

    def _groups(self, env: Env) -> list[int]:
        """The numbers of steps that run at once, in turn. At sizes at which those of a group make far more than when they
        were planned, each has work for all threads: then they run one by one."""
        plan, found = self.plan, list[int]()
        at = 0
        for n in plan.order.groups:
            large = n > 1 and _made(plan, at, n, env) > _MORE * _made(plan, at, n, plan.sizes)
            found += [1] * n if large else [n]
            at += n
        return found

    def _space(self, bound: Bound) -> dict[Buffer, np.ndarray]:
        """The buffers of a set of sizes, as views of one block."""
        key = tuple(bound.env[n] for n in self._fixed)
        if key not in self._spaces:
            if len(self._spaces) == _KEPT:
                self._spaces.pop(next(iter(self._spaces)))  # the one that was made first
            places = self.plan.places(bound.env)
            block = np.empty(places.size + ALIGNMENT, np.uint8)
            start = -block.ctypes.data % ALIGNMENT
            made = {}
            for b in self.plan.buffers:
                shape = tuple(max(0, n) for n in index_values(self.plan.shape(b), bound.env))
                t = b.func.dtypes[b.component].np
                made[b] = np.ndarray(shape, t, block, start + places.offsets[b.name])
            self._spaces[key] = made
        return self._spaces[key]

    def _slice(self, o: Output, at: Mapping[Any, Any], bound: Bound) -> np.ndarray:
        """An output that is a part of what is stored of its Func."""
        if isinstance(o.func, InoutFunc):
            whole = bound.arrays[o.func.name]
        else:
            whole = at[Buffer(o.func, o.component)]
        lows = starts_of(self.plan.pipeline, o.func)
        ends = index_values([n for pair in zip(lows, o.starts, o.stops, strict=True) for n in pair], bound.env)
        return whole[tuple(slice(a - lo, b - lo) for lo, a, b in zip(ends[::3], ends[1::3], ends[2::3], strict=True))]


def _inputs(plan: Plan, step: Step) -> tuple[Source | Weight, ...]:
    """What a step reads, its weights in their layouts."""
    if not plan.weights:
        return step.part.inputs
    given, own = dict(step.given.given), [q.name for q in step.part.pipeline.params]
    return tuple(
        Weight(s.name, given.get(n, ROWS)) if isinstance(s, Array) and s.name in plan.weights else s
        for n, s in zip(own, step.part.inputs, strict=True)
    )


def _made(plan: Plan, first: int, n: int, env: Env) -> int:
    """The elements that `n` steps make."""
    made = [b for s in plan.steps[first : first + n] for b in s.part.outputs]
    return sum(math.prod(index_values(buffer_shape(plan.pipeline, b), env)) for b in made)


def _ready_in_place(plan: Plan, call: _Call) -> None:
    """Compile the form of a kernel that writes over one of its inputs, where the plan has it so."""
    p = call.kernel.pipeline
    own = {s.name: q.name for q, s in zip(p.params, call.inputs, strict=True) if isinstance(s, Buffer)}
    over = [(plan.order.in_place.get(b.name), o.name) for b, o in zip(call.outputs, p.outputs, strict=True)]
    aliases = frozenset(frozenset((own[a], f"out.{o}")) for a, o in over if a in own)
    if aliases:
        call.kernel.variant(call.kernel.default_classes, aliases)


def _check_apart(p: Pipeline, bound: Bound, results: list[np.ndarray]) -> None:
    """Raise ArgumentError where two arrays that are written share memory."""
    written = {f.name: bound.arrays[f.name] for f in p.inouts if f.updates}
    for o, a in zip(p.outputs, results, strict=True):
        for name, other in written.items():
            if np.may_share_memory(a, other):
                raise ArgumentError(
                    f"{o.name} shares memory with {name}: both are written", code="argument.alias",
                    where=user_location(), hint="give another array",
                )  # fmt: skip
        written[o.name] = a


def _plain(s: Source, values: Mapping[str, Any]) -> Any:
    v = values[s.name]
    return v.item() if isinstance(s, ScalarParam) and isinstance(v, np.generic) else v


def _structured(structure: Any, results: list[np.ndarray]) -> Any:
    if isinstance(structure, dict):
        return {k: _structured(v, results) for k, v in structure.items()}
    if isinstance(structure, (tuple, list)):
        return type(structure)(_structured(v, results) for v in structure)
    return None if structure is None else results[structure]


__all__ = ["Program"]

"""A plan's steps one by one in memory of their own: what a program, whose buffers share memory, is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen.compile import Compiled, compile_schedule
from tilewright.codegen.physical import pack, unpack
from tilewright.lang import exactness, judging
from tilewright.lang.binding import bind
from tilewright.lang.errors import ArgumentError, TilewrightError
from tilewright.lang.extents import spans
from tilewright.lang.func import InoutFunc
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import run as run_reference
from tilewright.lang.values import index_values
from tilewright.planner.cut import Buffer, Source
from tilewright.planner.plan import Plan, Step, buffer_shape, starts_of
from tilewright.planner.program import Program

Store = dict[Source, Any]  # what every step has made, and what the whole was given
Runner = Callable[[Step, dict[str, Any], dict[str, int]], Any]


@dataclass
class Found:
    """What differs: (step, stage, problem) of the first of all; and what could not be compared, in words."""

    first: tuple[str, str, str] | None = None
    limits: list[str] = field(default_factory=list)

    def put(self, step: str, stage: str, problem: str | None) -> None:
        if problem is not None and self.first is None:
            self.first = step, stage, problem


def difference(name: str, mine: Any, other: Any, zeros: bool = False) -> str | None:
    """How two arrays differ in their bits, with the first element that does."""
    try:
        judging.require_bitwise(mine, other, zeros)
    except judging.MismatchError as e:
        return e.message.replace("result", name)
    return None


def store_of(p: Pipeline, data: Mapping[str, Any]) -> Store:
    """What a pipeline is given, each array by itself."""
    return {q: v.copy() if isinstance(v := data[q.name], np.ndarray) else v for q in p.params}


def arguments(step: Step, store: Store) -> dict[str, Any]:
    """What a step is called with, by its part's names; arrays are copies."""
    pairs = zip(step.part.pipeline.params, step.part.inputs, strict=True)
    return {q.name: v.copy() if isinstance(v := store[s], np.ndarray) else v for q, s in pairs}


def own_sizes(step: Step, sizes: Mapping[str, int]) -> dict[str, int]:
    return {n: sizes[n] for n in step.part.pipeline.sizes}


def run_apart(step: Step, sizes: Mapping[str, int], store: Store, run: Runner) -> None:
    """Run a step, and put into the store what it makes and writes."""
    args = arguments(step, store)
    made = [a for _, a in judging.leaves(run(step, args, own_sizes(step, sizes)))]
    store.update(zip(step.part.outputs, made, strict=True))
    for q, s in zip(step.part.pipeline.params, step.part.inputs, strict=True):
        if isinstance(q, InoutFunc):
            store[s] = args[q.name]


def by_reference(step: Step, args: dict[str, Any], sizes: dict[str, int]) -> Any:
    return run_reference(step.part.pipeline, bind(step.part.pipeline, (), args, sizes))


def by_kernel(mode: str) -> Runner:
    """Runs steps natively; equal ones have one kernel."""
    kernels: dict[tuple[str, str], Compiled] = {}

    def run(step: Step, args: dict[str, Any], sizes: dict[str, int]) -> Any:
        key = step.part.pipeline.digest, str(step.schedule)
        if key not in kernels:
            kernels[key] = compile_schedule(step.part.pipeline, step.schedule, mode)
        maps = step.given.maps
        found = kernels[key](**{n: pack(v, maps[n]) if n in maps else v for n, v in args.items()}, sizes=sizes)
        (out,) = step.part.pipeline.outputs if len(step.part.pipeline.outputs) == 1 else (None,)
        if out is None or out.func.name not in maps:
            return found
        return unpack(found, maps[out.func.name], tuple(index_values(out.extents, {**sizes, **args})))

    return run


# Cutting: the parts against the whole ------------------------------------------------------------------------------


def parts_by_reference(
    plan: Plan, sizes: Mapping[str, int], data: Mapping[str, Any], found: Found
) -> Iterator[tuple[Step, dict[str, Any]]]:
    """Each step with what it is called with, after its part's own reference was compared with the whole's."""
    p, store = plan.pipeline, store_of(plan.pipeline, data)
    whole = store_of(p, data)
    bound = bind(p, (), {q.name: v for q, v in whole.items()}, sizes)
    wanted = [f.name for f in dict.fromkeys(b.func for s in plan.steps for b in s.part.outputs)]
    kept = run_reference(p, bound, wanted)[1] if wanted else (run_reference(p, bound), {})[1]
    for step in plan.steps:
        args = arguments(step, store)
        try:
            run_apart(step, sizes, store, by_reference)
        except TilewrightError as e:
            if not plan.needs(step, bound.env):
                store.update(_nothing(plan, step, bound.env))
                continue
            found.put(step.name, "cut", f"the part does not run: {e.message}")
            return
        yield step, args
        for b in step.part.outputs:
            if b.func.name in kept:  # else the whole needs nothing of it at these sizes
                values = kept[b.func.name]
                other = values[b.component] if isinstance(values, tuple) else values
                found.put(step.name, "cut", _on_common_points(p, b, store[b], other, bound.env))
        for s in step.part.inputs:
            if isinstance(s, InoutFunc) and s.name == step.name:
                found.put(step.name, "cut", difference(s.name, store[s], whole[s]))
        if found.first is not None:
            return


def _nothing(plan: Plan, step: Step, env: Mapping[str, Any]) -> Store:
    """What stands for the results of a step that nobody reads."""
    shapes = {b: index_values(buffer_shape(plan.pipeline, b), env) for b in step.part.outputs}
    return {b: np.zeros([max(0, n) for n in s], b.func.dtypes[b.component].np) for b, s in shapes.items()}


def _on_common_points(p: Pipeline, b: Buffer, mine: np.ndarray, other: Any, env: Mapping[str, Any]) -> str | None:
    """The part stores what is needed at all sizes, the whole's reference what is needed at these."""
    lows = index_values(starts_of(p, b.func), env)
    first = [max(a, c) for a, c in zip(lows, other.origin, strict=True)]
    last = [
        min(a + n, c + m) for a, n, c, m in zip(lows, mine.shape, other.origin, other.shape, strict=True)
    ]  # fmt: skip
    if any(b <= a for a, b in zip(first, last, strict=True)):
        return None
    here, there = (
        tuple(slice(a - o, b - o) for a, b, o in zip(first, last, origin, strict=True))
        for origin in (lows, other.origin)
    )
    return difference(b.name, mine[(*here, ...)], np.asarray(other)[(*there, ...)])


# The whole: a program against its kernels in memory of their own ----------------------------------------------------


def run_watched(
    plan: Plan, sizes: Mapping[str, int], samples: list[dict[str, Any]], given: Mapping[str, Any], mode: str, seed: int,
    found: Found,
) -> None:  # fmt: skip
    """Run the program of a plan on several data, one after the other, and compare every buffer, right after it is made
    and as long as it is needed, with what the kernels make in memory of their own; and the results with the reference."""
    p = plan.pipeline
    try:
        program, apart = Program(plan, mode), by_kernel(mode)
    except ArgumentError as e:  # kernels refuse to write over what they still read
        over = [s.name for s in plan.steps if any(b.name in plan.order.in_place for b in s.part.outputs)]
        found.put(", ".join(over), "in place", f"the program does not run: {e.message}")
        return
    packed = program
    for data in samples:
        _run_watched(program, sizes, data, apart, found)
        if plan.weights:  # packed anew from program to program
            packed = packed.with_weights({n: data[n] for n in plan.weights})
            _run_watched(packed, sizes, data, apart, found)
        if found.first is not None:
            return
        _results(packed, sizes, data, mode, found)
    try:
        exact = exactness.exact_inputs(p, sizes, seed, given, fused=mode != "strict")
    except exactness.NotExactError as e:
        found.limits.append(f"results of the whole on exact data ({e.message})")
        return
    mine, other = _called(program, sizes, exact), _referred(p, sizes, exact)
    found.put(plan.steps[-1].name, "run", difference("result", mine, other, zeros=True))


def _run_watched(program: Program, sizes: Mapping[str, int], data: dict[str, Any], apart: Runner, found: Found) -> None:
    plan = program.plan
    store = store_of(plan.pipeline, data)
    needed = _needed(plan)
    maker = {b: step.name for step in plan.steps for b in step.part.outputs}
    over = plan.order.in_place
    scalars = {q.name: data[q.name] for q in plan.pipeline.scalars}
    env, at = {**sizes, **scalars}, 0
    # what nobody reads at these sizes may hold anything
    alive = spans(plan.pipeline, env)
    unread = {b for step in plan.steps for b in step.part.outputs if b.func not in alive}

    def watch(moment: str, k: int, array: Callable[[Source], Any]) -> None:
        nonlocal at
        step, at = plan.steps[k], k
        if moment == "before":
            for s in step.part.inputs:
                if isinstance(store[s], np.ndarray) and s.name not in plan.weights and s not in unread:
                    stage = "layout" if s.name in plan.layouts.homes else "run"
                    found.put(step.name, stage, _read(s, store[s], array(s)))
            return
        try:
            run_apart(step, sizes, store, apart)
        except TilewrightError:
            if plan.needs(step, env):
                raise
            store.update(_nothing(plan, step, env))
        lies_on = {over[b.name] for b in step.part.outputs if b.name in over}
        written = {*step.part.outputs, *(s for s in step.part.inputs if isinstance(s, InoutFunc))}
        for s in written - unread:
            read = [array(i) for i in step.part.inputs if isinstance(i, Buffer)]
            shared = any(np.may_share_memory(array(s), a) for a in read)
            stage = "in place" if s.name in over else "places" if shared else _lies(plan, step, s)
            found.put(step.name, stage, difference(s.name, array(s), store[s]))
        for s in needed[k]:
            if s not in written and s not in unread and (how := difference(s.name, array(s), store[s])):
                stage = "in place" if s.name in lies_on else "places"
                found.put(step.name, stage, f"it writes over {s.name}, made by {maker[s]} and still needed; {how}")

    program.watch = watch
    try:
        _called(program, sizes, data)
    except TilewrightError as e:
        step = plan.steps[at]
        # kernels refuse results on arrays that they still read
        alias = "in place" if any(b.name in over for b in step.part.outputs) else "places"
        stage = alias if e.code == "argument.alias" else _lies(plan, step, *step.part.outputs)
        found.put(step.name, stage, f"the step does not run: {e.message}")
    finally:
        program.watch = None


def _lies(plan: Plan, step: Step, *results: Source) -> str:
    """What is to blame where a step, apart from the others, makes other values: how its arguments lie, if not as usual."""
    if {s.name for s in step.part.inputs} & set(plan.weights):
        return "packing"
    return "layout" if step.given or any(s.name in plan.layouts.homes for s in results) else "run"


def _needed(plan: Plan) -> list[tuple[Buffer, ...]]:
    """After each step: what has been made and is read before it is made again, or is a result."""
    alive = _returned(plan)
    after: list[tuple[Buffer, ...]] = []
    for step in reversed(plan.steps):
        after.append(tuple(sorted(alive, key=lambda b: b.name)))
        alive = (alive - set(step.part.outputs)) | {s for s in step.part.inputs if isinstance(s, Buffer)}
    made: set[Buffer] = set()
    out = []
    for step, later in zip(plan.steps, reversed(after), strict=True):
        made |= set(step.part.outputs)
        out.append(tuple(b for b in later if b in made))
    return out


def _read(s: Source, made: np.ndarray, now: Any) -> str | None:
    how = difference(s.name, now, made)
    return None if how is None else f"it does not read what was made; {how}"


def _returned(plan: Plan) -> set[Buffer]:
    return {Buffer(o.func, o.component) for o in plan.pipeline.outputs}


def _results(program: Program, sizes: Mapping[str, int], data: dict[str, Any], mode: str, found: Found) -> None:
    """The results of a call within the error bounds of the whole, where these say anything."""
    p = program.plan.pipeline
    if mode != "contract" or not p.outputs:
        return
    bound = bind(p, (), {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in data.items()}, sizes)
    try:
        judging.require_within_bound(p, bound, _called(program, sizes, data)[0])
    except judging.ProvesNothingError as e:
        found.limits.append(f"results of the whole on random data ({e.message})")
    except judging.MismatchError as e:
        found.put(program.plan.steps[-1].name, "run", e.message)


def _called(program: Program, sizes: Mapping[str, int], data: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    wanted = {q.name for q in program.pipeline.params}
    args: dict[str, Any] = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in data.items() if k in wanted}
    result = program(**args, sizes=dict(sizes))
    return result, {f.name: args[f.name] for f in program.plan.pipeline.inouts}


def _referred(p: Pipeline, sizes: Mapping[str, int], data: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    args = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in data.items()}
    return run_reference(p, bind(p, (), args, sizes)), {f.name: args[f.name] for f in p.inouts}


__all__ = ["Found", "arguments", "own_sizes", "parts_by_reference", "run_watched"]

"""A schedule that is not finished, made runnable: promises that it can't keep yet are left out, and named."""

from __future__ import annotations

from dataclasses import replace

from tilewright.lang.errors import ScheduleError
from tilewright.schedule.build import build_nest
from tilewright.schedule.nest import Allocation, LoopNode, walk
from tilewright.schedule.report import streams
from tilewright.schedule.state import ROOT, State, find_loop


def relaxed(state: State) -> tuple[State, tuple[str, ...]]:
    """The state without the promises that `Schedule.check` would refuse, and what was left out, in words.

    A vector or unrolled loop whose extent is not constant is an ordinary loop, a buffer whose size is not constant is
    in main memory instead of registers, and what is inlined although its loops are scheduled is computed as a whole.
    What no vectors are stored of is stored as usual. Arguments lie as the algorithm has them.
    """
    state, ignored = _placed(state)
    if state.given:
        ignored += tuple(f"{name} is given as {m}" for name, m in state.given.items())
        state = replace(state, given={})
    while True:
        state, found = _kept(state)
        if not found:
            break
        ignored += found
    nest = build_nest(state)
    for name, fs in state.funcs.items():
        if fs.stream and not streams(nest, fs.func):
            state = state.with_func(replace(fs, stream=False))
            ignored += (f"stream_stores {name}",)
    return state, ignored


def _placed(state: State) -> tuple[State, tuple[str, ...]]:
    ignored: tuple[str, ...] = ()
    for name, fs in state.funcs.items():
        if fs.compute.kind == "inline" and (fs.store is not None or state.stages_of(name)[0].scheduled):
            state = state.with_func(replace(fs, compute=ROOT))
            ignored += (f"{name} is inlined",)
    return state, ignored


def _kept(state: State) -> tuple[State, tuple[str, ...]]:
    """One round: everything that the nest of `state` shows to be no constant."""
    before, ignored = state, ()
    for n in walk(build_nest(state).body):
        if isinstance(n, LoopNode) and n.mode in ("vectorize", "unroll") and n.stop.op != "const":
            state, found = _serial(state, n)
            ignored += found
        elif isinstance(n, Allocation):
            for s in n.storages:
                if s.memory == "reg" and not s.constant:
                    state, found = _in_main(state, s.name)
                    ignored += found
    return state, tuple(dict.fromkeys(ignored)) if state is not before else ()


def _serial(state: State, n: LoopNode) -> tuple[State, tuple[str, ...]]:
    try:
        stage, loop = find_loop(state, n.address)
    except ScheduleError:  # a loop of ours, which goes with its tile
        return state, ()
    if stage.loop(loop).mode == "serial":
        return state, ()
    return state.with_stage(stage.with_loop(loop, mode="serial")), (f"{n.mode} {n.address}",)


def _in_main(state: State, name: str) -> tuple[State, tuple[str, ...]]:
    for s in state.stages.values():
        if any(c.name == name and c.memory == "reg" for c in s.write_caches):
            caches = tuple(replace(c, memory="main") if c.name == name else c for c in s.write_caches)
            return state.with_stage(replace(s, write_caches=caches)), (f"{name} in reg",)
    fs = state.funcs.get(name)
    if fs is None or fs.memory != "reg":
        return state, ()
    return state.with_func(replace(fs, memory="main")), (f"{name} in reg",)

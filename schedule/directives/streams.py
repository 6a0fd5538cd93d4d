"""stream_stores: results that nobody reads soon go past the caches."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import directive
from tilewright.schedule.state import FuncState, State, find_func, refuse

_HINT = "cache_write holds a tile of it, which is stored once"


@directive("stream_stores", "func")
def stream_stores(state: State, d: Directive) -> State:
    """A Func's vectors are stored past the caches, for results that nobody reads soon: `stream_stores C`.

        for j vectorize: C[j] = ..   =>   the same, with stores that leave the caches alone

    Whole vectors at aligned places (looked at when it runs) are stored that way, all others as usual; a fence follows
    before other threads read. Every element must be stored once: the Func has no updates, or all of them have tiles
    (cache_write). Natively only; the simulator counts the same stores. Numerics: none. Errors: schedule.inlined,
    schedule.stream (twice, not in main memory, updates without tiles; by check() and compile: no loop stores vectors).
    """
    fs = find_func(state, d.operands[0])
    if fs.stream:
        raise refuse(f"{fs.func.name} is stored past the caches already", "stream", "say it once")
    return state.with_func(replace(fs, stream=True, placed=True))


def check_streams(state: State) -> None:
    """Raise ScheduleError where a Func can't be stored past the caches."""
    for fs in state.funcs.values():
        if fs.stream:
            _check(state, fs)


def _check(state: State, fs: FuncState) -> None:
    name = fs.func.name
    if fs.compute.kind == "inline":
        raise refuse(f"{name} is inlined and not stored", "inlined", "compute it somewhere first")
    if fs.memory != "main":
        raise refuse(f"{name} lives in {fs.memory} and not in main memory", "stream", "leave stream_stores out")
    for s in state.variants_of(name):
        if s.key[1] >= 0 and not s.write_caches:
            raise refuse(f"{state.address(s.key)} updates {name} in place, and would read from main memory again what "
                         "has left the caches", "stream", _HINT)  # fmt: skip

"""Directives that say where a Func is computed and where its elements live."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.online import moved
from tilewright.schedule.sites import legal_sites
from tilewright.schedule.state import INLINE, ROOT, FuncState, Place, State, find_func, find_loop, refuse

_AT = Option("at", "loop", required=True)


@directive("compute_inline", "func")
def compute_inline(state: State, d: Directive) -> State:
    """The Func's expression stands wherever it is used: no loops, no buffer. The default of pure Funcs.

        produce E over ...         C[i] = A[i] * 2 + 1
          E[i] = A[i] * 2    =>
        C[i] = E[i] + 1

    Errors: schedule.inline-update, schedule.output-place, schedule.inlined (its loops or storage are scheduled).
    """
    fs = _free(state, d)
    name = fs.func.name
    if len(state.stages_of(name)) != 1 or name in state.outputs:
        what = "an output" if name in state.outputs else "defined by updates"
        code = "output-place" if name in state.outputs else "inline-update"
        raise refuse(f"{name} can't be inlined: it is {what}", code,
                     f"legal places: {', '.join(['root', *legal_sites(state, fs.func)])}")  # fmt: skip
    if state.stages_of(name)[0].scheduled or fs.has_region:
        raise refuse(f"{name} can't be inlined: its loops or its storage are scheduled", "inlined",
                     "leave out those directives: what is inlined has neither")  # fmt: skip
    return state.with_func(replace(fs, compute=INLINE, placed=True))


@directive("compute_root", "func")
def compute_root(state: State, d: Directive) -> State:
    """The whole region that is needed, before everything that uses it.

    for i                       produce P over ...
      C[i] = A[i] * 2 + 1  =>     for i: P[i] = A[i] * 2
                                for i: C[i] = P[i] + 1
    """
    fs = _free(state, d)
    return moved(state, fs, ROOT)


@directive("compute_at", "func", options=(_AT,))
def compute_at(state: State, d: Directive) -> State:
    """In each iteration of a loop, the part that this iteration needs: `compute_at P at C.io`.

        produce P                      for io
        for io                =>         produce P over io*8..io*8 + 10
          for ii: C[..] = P..            for ii: C[..] = P..

    Every use must stand inside that loop. Errors: schedule.illegal-place (with the legal places and the uses),
    schedule.output-place, schedule.store-inside, schedule.store-race.
    """
    fs = _free(state, d)
    return _used(moved(state, fs, _place(state, d)), d)


@directive("store_at", "func", options=(_AT,))
def store_at(state: State, d: Directive) -> State:
    """The buffer lives for one iteration of a loop around the place where the Func is computed: `store_at P at C.io`.

    Errors: schedule.store-inside (not around the place), schedule.store-race (a parallel loop in between).
    """
    fs = _stored(state, d)
    return _used(state.with_func(replace(fs, store=_place(state, d), placed=True)), d)


@directive("store_root", "func")
def store_root(state: State, d: Directive) -> State:
    """The buffer lives for the whole run. Errors: schedule.store-race (a parallel loop in between)."""
    return state.with_func(replace(_stored(state, d), store=ROOT, placed=True))


def _free(state: State, d: Directive) -> FuncState:
    """A Func whose place is not settled by a ring of slots."""
    fs = find_func(state, d.operands[0])
    if fs.slots > 1:
        raise refuse(f"{fs.func.name} has several slots, which lie around the loop of its copies", "ring",
                     "place it first, then double_buffer it")  # fmt: skip
    return fs


def _stored(state: State, d: Directive) -> FuncState:
    fs = _free(state, d)
    if fs.func.name in state.outputs:
        name = fs.func.name
        raise refuse(f"{name} is an output and lives in the caller's array", "output-place",
                     f"cache_write holds a part of it in a buffer: s.cache_write({name!r}, at=...)")  # fmt: skip
    return fs


def _place(state: State, d: Directive) -> Place:
    stage, loop = find_loop(state, str(d.option("at")))
    return Place("at", stage.key, loop)


def _used(state: State, d: Directive) -> State:
    """The stage whose loop is named counts as scheduled: the default schedule must not take that loop apart."""
    stage, _ = find_loop(state, str(d.option("at")))
    return state.with_stage(replace(stage, scheduled=True))

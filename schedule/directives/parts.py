"""Directives about parts of one loop: peeled iterations, loop partitioning."""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.sites import Sites
from tilewright.schedule.state import Loop, Stage, State, find_stage, refuse


@directive("peel", "loop", options=(Option("by", "counts", default=(1, 1)),))
def peel(state: State, d: Directive) -> State:
    """The first and the last iterations of a loop run as copies of their own: `peel y`, `peel y by 1 2`.

        for y in 0..H               y = 0: ...
          ...                  =>   for y in 1..H - 1
                                      ...
                                    y = H - 1: ...

    By default one at each end. In the middle, what is decided by the range of the variable is decided once: tails of
    the last iterations, boundary conditions, the first iterations of sliding windows and tiles. Where the loop has
    fewer iterations than that, the first ones come first. A peeled loop of threads has serial ends. Peel last: a
    peeled loop is not split, fused, vectorized or unrolled any more. Numerics: none. Errors: schedule.loop-mode (a
    vector, unrolled or spatial loop), schedule.peeled (twice), schedule.peel-copies (too many), schedule.factor.
    """
    s, x = _loop(state, d)
    first, last = _counts(d)
    if x.peel != (0, 0):
        raise refuse(f"{state.loop_address(s.key, x.name)} is peeled already", "peeled", "peel both ends at once")
    if not first and not last:
        raise refuse(f"no iteration of {x.name} is peeled", "factor", "say how many at the start and at the end")
    return _with(state, s, x, peel=(first, last))


@directive("partition", "loop", options=(Option("=", "part", required=True),))
def partition(state: State, d: Directive) -> State:
    """Whether code generation parts a loop where conditions inside always hold: `partition x = always`.

        for x in 0..W                     for x in 0..1: A[max(x - 1, 0)]
          .. A[max(x - 1, 0)] ..    =>    for x in 1..W: A[x - 1]

    `auto` (the default) parts innermost serial loops where it pays, `never` leaves the loop whole (less code), `always`
    parts it, or makes two versions of its body where its conditions are not linear in it. Where no condition inside
    depends on the loop's variable alone, `always` is an error at compile. Numerics: none. Errors: schedule.loop-mode (a
    vector, unrolled or spatial loop), schedule.partition.
    """
    s, x = _loop(state, d)
    return _with(state, s, x, part=str(d.option("=")))


def _loop(state: State, d: Directive) -> tuple[Stage, Loop]:
    s = find_stage(state, d.stage)
    x = s.loop(d.operands[0])
    if x.mode in ("vectorize", "unroll", "spatial"):
        word = {"vectorize": "vectorized", "unroll": "unrolled"}.get(x.mode, x.mode)
        raise refuse(f"{state.loop_address(s.key, x.name)} is {word} and has no parts", "loop-mode",
                     f"make it serial first: serial({x.name!r})")  # fmt: skip
    return s, x


def _counts(d: Directive) -> tuple[int, int]:
    counts = d.option("by", (1, 1))
    if not isinstance(counts, tuple) or len(counts) != 2:
        raise refuse("peel takes two numbers of iterations: at the start and at the end", "arity", "such as by 1 0")
    first, last = counts
    assert isinstance(first, int) and isinstance(last, int)
    return first, last


_MOST_COPIES = 32  # of one statement by peeled loops around it: code grows with each


def check_copies(state: State) -> None:
    """Raise ScheduleError where peeled loops inside each other would copy a body too often."""
    if not any(any(x.peel) for s in state.stages.values() for x in s.loops):
        return
    sites = Sites(state)
    for s in state.stages.values():
        if state.funcs[s.key[0]].compute.kind == "inline":
            continue
        around = [state.stages[key].loop(name) for key, name in sites.around(s.key[0])]
        found = [x for x in (*around, *s.loops) if any(x.peel)]
        copies = math.prod(1 + (x.peel[0] > 0) + (x.peel[1] > 0) for x in found)
        if copies > _MOST_COPIES:
            raise refuse(
                f"there would be {copies} copies of {state.address(s.key)}, by the peeled loops "
                f"{', '.join(x.name for x in found)}", "peel-copies", f"peel fewer of them: at most {_MOST_COPIES} copies",
            )  # fmt: skip


def _with(state: State, s: Stage, x: Loop, **changes: object) -> State:
    return state.with_stage(replace(s.with_loop(x.name, **changes), scheduled=True))

"""The directive that runs independent stages in one loop nest."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.fusing import followers, shared_loops
from tilewright.schedule.state import Place, Stage, State, find_loop, find_stage, refuse


@directive("compute_with", "loop", operands=0, options=(Option("at", "loop", required=True),))
def compute_with(state: State, d: Directive) -> State:
    """A stage shares the loops of an independent one, from the outermost to the one that is named:
    `compute_with at U.y` under the heading of V.

        for y                         for y
          for x: U[y, x] = ..           for x: U[y, x] = ..
        for y                    =>     for x: V[y, x] = ..
          for x: V[y, x] = ..

    Both stand at one place; the shared loops have the same names, modes and kinds. Where their ranges differ, the loop
    runs over the union and each stage only over its own points; every element is still stored once. What is to be
    computed in a shared loop is placed at the loop of the stage that is named here, and may serve both. Loops are
    shaped first: a shared loop can't be split any more. Numerics: none.
    Errors: schedule.compute-with-self, schedule.compute-with-twice, schedule.compute-with-place,
    schedule.compute-with-loops (names, modes, kinds), schedule.compute-with-dependence, schedule.compute-with-tile,
    schedule.compute-with-tail, schedule.compute-with-unused (nothing needs the other stage),
    schedule.compute-with-forms (a specialized stage).
    """
    s = find_stage(state, d.stage)
    base, loop = find_loop(state, str(d.option("at")))
    _check_chain(state, s, base)
    made = replace(s, fused_with=(base.key, loop), scheduled=True)
    state = state.with_stage(made).with_stage(replace(base, scheduled=True))
    if all(x.name != loop for x in made.loops):
        return state  # refused by the check that follows
    names = {x.name for x in shared_loops(made)}

    def moved(p: Place | None) -> Place | None:
        return Place("at", base.key, p.loop) if p is not None and p.stage == s.key and p.loop in names else p

    for fs in list(state.funcs.values()):
        compute = moved(fs.compute)
        assert compute is not None
        state = state.with_func(replace(fs, compute=compute, store=moved(fs.store), hoisted=moved(fs.hoisted)))
    return state


def _check_chain(state: State, s: Stage, base: Stage) -> None:
    me, other = state.address(s.key), state.address(base.key)
    if base.key[0] == s.key[0]:
        raise refuse(f"{me} and {other} are stages of one Func, each complete before the next starts",
                     "compute-with-self", "share loops with a stage of another Func")  # fmt: skip
    if s.fused_with is not None:
        raise refuse(f"{me} shares loops with {state.address(s.fused_with[0])} already", "compute-with-twice",
                     f"others can share them as well: compute_with a loop of {state.address(s.fused_with[0])}")  # fmt: skip
    if base.fused_with is not None:
        name = state.address(base.fused_with[0])
        raise refuse(f"{other} shares the loops of {name}", "compute-with-twice", f"name a loop of {name}")
    behind = followers(state, s.key)
    if behind:
        raise refuse(f"{state.address(behind[0].key)} shares the loops of {me}", "compute-with-twice",
                     f"s[{other!r}].compute_with(...) names a loop of {me}")  # fmt: skip

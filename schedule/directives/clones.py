"""Directives that compute a Func twice, so that its consumers can have it each in a way of their own."""

from __future__ import annotations

from dataclasses import replace

from tilewright.lang.func import Func, InoutFunc
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.directives.staging import new_name, reading, tensors_of
from tilewright.schedule.externs import in_memory
from tilewright.schedule.state import INLINE, ROOT, FuncState, State, find_func, find_stage, make_stage, refuse


@directive("clone", "func", options=(Option("for", "stages", required=True), Option("name", "name")))
def clone(state: State, d: Directive) -> State:
    """The same definitions once more, under another name, for the stages that are named: `clone P for D name Q`.

        P[i] = f(A[i])                 P[i] = f(A[i])
        C[i] = P[i] + P[i + 1]   =>    Q[i] = f(A[i])
        D[i] = P[2*i]                  C[i] = P[i] + P[i + 1]
                                       D[i] = Q[2*i]

    The clone (by default `{Func}_{consumer}`) starts unscheduled, as the algorithm has it: inlined where it is pure, at
    the root otherwise. What it reads is shared with the original; a where() goes on reading the original. Numerics:
    none; the work is done twice. Errors: schedule.not-read (a stage that does not read the Func), schedule.clone-inout,
    schedule.illegal-place (it reads what is computed in the Func's own loops,
    such as partial results), schedule.name-twice.
    """
    fs = find_func(state, d.operands[0])
    f = fs.func
    if isinstance(f, InoutFunc):
        raise refuse(f"{f.name} lives in the caller's array, of which there is one", "clone-inout",
                     f"stage a copy of it: s.cache_read({f.name!r}, ...)")  # fmt: skip
    definitions = [s.definition for s in state.stages_of(f.name)]
    named = d.option("for")
    consumers = [find_stage(state, str(a)) for a in (named if isinstance(named, tuple) else (named,))]
    for s in consumers:
        if s.definition.func is f or f.name not in tensors_of((*s.definition.lhs, *s.definition.values)):
            why = "is that Func itself" if s.definition.func is f else f"does not read {f.name}"
            found = ", ".join(state.address(x.key) for x in state.consumers(f)) or "nothing"
            raise refuse(f"{state.address(s.key)} {why}", "not-read", f"{f.name} is read by {found}")
    copy = Func(new_name(state, d, f"{f.name}_{consumers[0].key[0]}"), f.dtypes)
    for s in consumers:
        state = state.with_stage(replace(s, definition=reading(s.definition, f, copy)))
    for x in definitions:
        made = replace(reading(x, f, copy), func=copy)
        if x.number < 0:
            copy.init = made
        else:
            copy.updates.append(made)
        state = state.with_stage(make_stage(made))
    copy.frozen_by = "clone"
    where = ROOT if copy.updates or copy.name in in_memory(state) else INLINE
    return state.with_func(FuncState(copy, where, origin="clone", clone_of=f.name))

"""specialize: a stage in several forms, each for where a condition holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.lang import ir
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.schedule.conditions import parse_condition
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import check_name, directive
from tilewright.schedule.directives.staging import new_name
from tilewright.schedule.state import (
    ROUND_UP,
    Branch,
    FuncState,
    Key,
    Place,
    Split,
    Stage,
    State,
    find_stage,
    loaded,
    refuse,
)


@directive("specialize", "condition", results=1)
def specialize(state: State, d: Directive) -> State:
    """Another form of a stage for where a condition holds: `specialize "N % 16 == 0" -> even`.

        for i                       if N % 16 == 0
          C[i] += ...        =>       for i: C[i] += ...      (its loops: C.update{even}.i)
                                    else
                                      for i: C[i] += ...      (its loops: C.update.i)

    The form starts as a copy of the stage's loops so far, with its tile and what is computed in these loops (`P` as
    `P_even`). Later directives on the plain stage touch the fallback only. Of several forms the first one whose
    condition holds runs; a form may have forms itself. Conditions are over sizes, scalars and strides, such as
    `(N % 16 == 0) & (stride(A, 1) == 1)` (axis 1, in elements) or `contiguous(A)`, and what they say is used inside:
    N % 16 == 0 makes splits by 16 exact. Buffers outside are large enough for all forms. What is
    computed in a loop of one form is for this form alone: a Func that several forms read is placed in their loops
    before they part, or stands outside of all of them. Numerics: none.
    Errors: schedule.condition, schedule.name-twice, schedule.inlined, schedule.specialize-shared (loops shared with
    another stage), schedule.specialize-where, schedule.tail (round_up).
    """
    s, (name,) = find_stage(state, d.stage), d.results
    condition = parse_condition(state.pipeline, d.operands[0])
    check_name(name)
    _check(state, s, name, condition)
    key: Key = (*s.key, name)
    made, names = _copies(state, d, s, key)
    funcs = {f.name: state.funcs[f.name].func for f in state.pipeline.funcs if f.name in names}
    funcs.update({n: state.funcs[n].func for n in names})
    copied = _stage(state, d, s, key, {funcs[n]: made[n] for n in names})
    branches = (*s.branches, Branch(name, condition))
    state = state.with_stage(replace(s, branches=branches, scheduled=True)).with_stage(copied)
    for n in names:
        state = _with_copy(state, d, n, made, s.key, key)
    return state


def _check(state: State, s: Stage, name: str, condition: Node) -> None:
    address = state.address(s.key)
    same = next((b.name for b in s.branches if b.condition is condition), None)
    if same is not None:
        raise refuse(f"{address} has the form {same} for this condition already", "condition",
                     "the first form whose condition holds runs: a second one never would")  # fmt: skip
    if any(b.name == name for b in s.branches):
        raise refuse(f"{address} has a form {name} already", "name-twice", "give another name")
    if state.funcs[s.key[0]].compute.kind == "inline":
        raise refuse(f"{s.key[0]} is inlined and has no loops", "inlined", "compute it somewhere first")
    if state.group_of(s.key[0]) is not None:
        raise refuse(f"{address} belongs to an online group", "specialize-shared", "specialize a stage outside of it")
    inside = _placed_inside(state, s.key)
    for x in (s, *(y for n in inside for y in state.variants_of(n))):
        if x.fused_with is not None or any(y.fused_with and y.fused_with[0] == x.key for y in state.stages.values()):
            raise refuse(f"{state.address(x.key)} shares loops with another stage", "specialize-shared",
                         "leave compute_with out")  # fmt: skip
    if any(isinstance(t, Split) and t.tail == ROUND_UP for t in s.transforms):
        raise refuse(f"{address} has a tail round_up, which is for one form only", "tail", "use guard or shift")


def _placed_inside(state: State, key: Key) -> list[str]:
    """Names of the Funcs that are computed in the loops of a stage, or of such Funcs; producers first."""
    found: set[str] = set()
    keys = {key}
    while True:
        new = {
            n for n, fs in state.funcs.items()
            if n not in found and fs.compute.kind == "at" and fs.compute.stage in keys
        }  # fmt: skip
        if not new:
            return [n for n in state.order if n in found]
        found |= new
        keys |= {s.key for n in new for s in state.variants_of(n)}


def _copies(state: State, d: Directive, s: Stage, key: Key) -> tuple[dict[str, Func], list[str]]:
    """The Funcs that the form has copies of (producers first): what is computed in its loops, and what is inlined
    there and reads such Funcs."""
    inside = set(_placed_inside(state, s.key))
    if inside:
        for n in state.order:
            if state.funcs[n].compute.kind == "inline" and inside & set(state.producers(n)):
                inside.add(n)
    names = [n for n in state.order if n in inside]
    made = {}
    for n in names:
        f = state.funcs[n].func
        made[n] = Func(new_name(state, d, f"{n}_{key[-1]}"), f.dtypes)
        made[n].frozen_by = "specialize"
    return made, names


def _stage(state: State, d: Directive, s: Stage, key: Key, copies: Mapping[Func, Func]) -> Stage:
    """A stage under another key, reading copies."""
    suffix = key[-1] if len(key) > 2 else d.results[0]
    caches = tuple(replace(c, name=new_name(state, d, f"{c.name}_{suffix}")) for c in s.write_caches)
    named = {f.name: c.name for f, c in copies.items()}
    marks = tuple(replace(m, tensor=named.get(m.tensor, m.tensor)) for m in s.prefetches)
    definition = _reading(state, s, copies)
    branches = s.branches if key[:-1] != s.key else ()
    return replace(
        s, key=key, definition=definition, write_caches=caches, prefetches=marks, branches=branches, scheduled=True
    )


def _reading(state: State, s: Stage, copies: Mapping[Func, Func]) -> Definition:
    d = s.definition
    if any(n.attr[0] in copies for n in ir.leaves(d.predicates, "load")):
        raise refuse(f"{state.address(s.key)} reads in its where() what is computed in its loops", "specialize-where",
                     "compute that further out")  # fmt: skip
    if not any(t in copies for t in loaded(d)) and d.func not in copies:
        return d

    def fn(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op == "load" and n.attr[0] in copies:
            return ir.node("load", n.dtype, args, (copies[n.attr[0]], n.attr[1]))
        return ir.rebuild(n, args)

    roots = ir.transform((*d.lhs, *d.values), fn)
    return replace(d, func=copies.get(d.func, d.func), lhs=roots[: len(d.lhs)], values=roots[len(d.lhs) :])


def _with_copy(state: State, d: Directive, name: str, made: Mapping[str, Func], old: Key, new: Key) -> State:
    """The state with the copy of a Func, its stages and its place."""
    fs, f = state.funcs[name], made[name]
    copies = {state.funcs[n].func: c for n, c in made.items()}

    def place(p: Place | None) -> Place | None:
        if p is None or p.stage is None:
            return p
        if p.stage == old:
            return replace(p, stage=new)
        return replace(p, stage=(made[p.stage[0]].name, *p.stage[1:])) if p.stage[0] in made else p

    for s in state.variants_of(name):
        copy = _stage(state, d, s, (f.name, *s.key[1:]), copies)
        state = state.with_stage(replace(copy, scheduled=s.scheduled))
        if len(copy.key) == 2:
            if copy.key[1] < 0:
                f.init = copy.definition
            else:
                f.updates.append(copy.definition)
    compute = place(fs.compute)
    assert compute is not None
    made_state: FuncState = replace(fs, func=f, compute=compute, store=place(fs.store), hoisted=place(fs.hoisted))
    return state.with_func(made_state)

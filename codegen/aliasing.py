"""When an output may lie on an input: only where every element is read for itself alone."""

from __future__ import annotations

from tilewright.lang import ir
from tilewright.lang.extern_stage import of_definition
from tilewright.schedule.inline import effective
from tilewright.schedule.state import SHIFT, Split, State


def reads_own_element_only(state: State, source: str, target: str) -> bool:
    """Whether the pipeline reads the array `source` only to compute the same element of the output `target`.

    One stage, a pure definition without shifted tails (they compute some points twice), reads it, right into the
    output, at the index that it writes.
    """
    outputs = [o for o in state.pipeline.outputs if f"out.{o.name}" == target]
    if len(outputs) != 1 or any(s.op != "const" or s.attr for s in outputs[0].starts):
        return False
    f = outputs[0].func
    if state.given.get(source) != state.given.get(f.name):
        return False
    if state.funcs[f.name].memory != "main" or state.funcs[f.name].layout is not None:
        return False
    for key, body in effective(state, "strict").items():
        loads = [n for n in ir.leaves(body.roots, "load") if n.attr[0].name == source]
        if not loads:
            continue
        stage = state.stages[key]
        shifted = any(isinstance(t, Split) and t.tail == SHIFT for t in stage.transforms)
        if body.func is not f or not stage.definition.is_pure or f.updates or shifted:
            return False
        if of_definition(body) is not None or any(n.args != body.lhs for n in loads):
            return False
    return True

"""When an output may lie on an input: only where every element is read for itself alone."""

from __future__ import annotations

from tilewright.lang import ir, simplify
from tilewright.lang.extern_stage import of_definition
from tilewright.schedule.inline import effective
from tilewright.schedule.state import SHIFT, Split, State
from tilewright.schedule.wording import write


def obstacle(state: State, source: str, target: str) -> str | None:
    """Why the output `target` may not lie on the array `source`, which is read for more than the same element of it.

    None where it may: one stage, a pure definition without shifted tails (they compute some points twice), reads it,
    right into the output, at the place that it writes.
    """
    outputs = [o for o in state.pipeline.outputs if f"out.{o.name}" == target]
    if len(outputs) != 1:
        return "several results lie there"
    f = outputs[0].func
    if state.given.get(source) != state.given.get(f.name):
        return "the two are in different layouts"
    if state.funcs[f.name].memory != "main" or state.funcs[f.name].layout is not None:
        return f"{f.name} is computed in a buffer of its own and copied at the end"
    for key, body in effective(state, "strict").items():
        loads = [n for n in ir.leaves(body.roots, "load") if n.attr[0].name == source]
        if not loads:
            continue
        stage, address = state.stages[key], state.address(key)
        if body.func is not f:
            return f"{address} reads {source} as well"
        if not stage.definition.is_pure or f.updates:
            return f"{f.name} has updates, each of which goes over all elements"
        if any(isinstance(t, Split) and t.tail == SHIFT for t in stage.transforms):
            return f"a tail of {address} shifts and computes elements again (tail guard does not)"
        if of_definition(body) is not None:
            return f"{address} is computed by a function of the user's"
        place = tuple(simplify.sub(i, s) for i, s in zip(body.lhs, outputs[0].starts, strict=True))
        other = next((n for n in loads if n.args != place), None)
        if other is not None:
            read, written = (", ".join(map(write, i)) for i in (other.args, body.lhs))
            first = ", ".join(map(write, outputs[0].starts))
            moved = "" if place == body.lhs else f", and the output starts at {f.name}[{first}]"
            return f"{address} reads {source}[{read}] for {f.name}[{written}]{moved}"
    return None

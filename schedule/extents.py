"""What is known of a loop's extent before the nest is built."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.lang import simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.schedule.extension import known_box, output_range, promised_outputs, solved
from tilewright.schedule.ranges import constant_extent
from tilewright.schedule.state import Split, Stage, State, versioned


def surely_symbolic(state: State, s: Stage, loop: str) -> bool:
    """Whether the extent of a loop depends on sizes whatever is scheduled later.

    So it is for loops over a whole reduction range or a whole axis of an output, and what is fused from them. The
    region of other Funcs depends on where they will be computed.
    """
    unique, shown = versioned(s)
    name = next(x.name for x in unique.loops if shown[x.name] == loop)
    return _extents(state, s, unique).get(name, 0) is None


def known_extents(state: State, s: Stage) -> dict[str, int]:
    """How long a stage's loops are where they run longest, of those where that is known whatever is scheduled later."""
    unique, shown = versioned(s)
    known = _extents(state, s, unique)
    return {shown[x.name]: n for x in unique.loops if (n := known.get(x.name)) is not None}


def _extents(state: State, s: Stage, unique: Stage) -> dict[str, int | None]:
    """Extents by the loops' unique names where they are settled; None: symbolic."""
    known: dict[str, int | None] = {}
    sizes = solved([*(c for c, _ in promised_outputs(state)), *state.conditions(s.key)])
    known.update(_axes(state, s, sizes))
    if s.definition.rdom is not None:
        for name, (start, stop) in s.definition.rdom.ranges.items():
            (r,) = known_box((Interval(start, simplify.sub(stop, integer(1))),), sizes)
            known[name] = constant_extent(r)
    for t in unique.transforms:
        if isinstance(t, Split):
            whole = known.get(t.parent)
            if t.parent in known:
                known[t.outer] = None if whole is None else -(-whole // t.factor)
            known[t.inner] = t.factor if whole is None else min(t.factor, whole)
        elif t.outer in known and t.inner in known:
            a, b = known[t.outer], known[t.inner]
            known[t.fused] = None if a is None or b is None else a * b
    return known


def _axes(state: State, s: Stage, sizes: Mapping[Node, Node]) -> dict[str, int | None]:
    """The extents of a stage's pure variables, where they are those of an output. None: symbolic."""
    f = s.definition.func
    outputs = [o for o in state.pipeline.outputs if o.func is f]
    out: dict[str, int | None] = {}
    for axis, v in enumerate(s.definition.lhs):
        if v.op == "var" and outputs:
            spans = known_box(tuple(output_range(o, axis) for o in outputs), sizes)
            found = [constant_extent(r) for r in spans]
            out[v.attr] = None if None in found else max(n for n in found if n is not None)
    return out

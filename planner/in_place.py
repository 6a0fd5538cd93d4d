"""Reuse in place: which steps may write their result over a buffer that they read for the last time.

That is legal where every element is read for itself alone: by one stage, right into the result, at the index that it
writes (no halo, no other reader), and where both have the same extents and elements of the same width. The judge is the
one that calls have whose `out=` is an input (codegen/aliasing.py); here it is asked before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.codegen.aliasing import obstacle
from tilewright.lang.func import InoutFunc
from tilewright.planner.cut import Buffer, Part
from tilewright.schedule.schedule import Schedule


@dataclass
class InPlace:
    """What may lie on what in a plan; equal parts with one schedule are looked at once."""

    known: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    def over(self, part: Part, schedule: Schedule) -> Mapping[str, tuple[str, ...]]:
        """The result of a step, and the buffers that it reads on which that may be made."""
        if len(part.outputs) != 1 or isinstance(part.outputs[0].func, InoutFunc):
            return {}
        key = part.pipeline.digest, schedule.hash
        if key not in self.known:
            self.known[key] = _candidates(part, schedule)
        found = tuple(part.inputs[k].name for k in self.known[key] if _single(part.inputs[k]))
        return {part.outputs[0].name: found} if found else {}


def _single(s: object) -> bool:
    return isinstance(s, Buffer) and len(s.func.dtypes) == 1


def _candidates(part: Part, schedule: Schedule) -> tuple[int, ...]:
    """The numbers of the inputs on which the result may lie."""
    p, (result,) = part.pipeline, part.outputs
    if len(result.func.dtypes) != 1 or len(p.outputs) != 1:
        return ()
    out = p.outputs[0]
    arrays = {a.name: a for a in p.arrays}
    found = []
    for k, parameter in enumerate(p.params):
        a = arrays.get(parameter.name)
        if a is None or parameter in p.inouts:
            continue
        alike = len(a.extents) == len(out.extents) and all(x is y for x, y in zip(a.extents, out.extents, strict=True))
        layouts = [str(schedule.state.given.get(n)) for n in (a.name, out.func.name)]
        alike = alike and layouts[0] == layouts[1]
        if alike and a.dtype.bytes == out.dtype.bytes and obstacle(schedule.state, a.name, f"out.{out.name}") is None:
            found.append(k)
    return tuple(found)


__all__ = ["InPlace"]

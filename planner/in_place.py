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
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.planner.cut import Buffer, Part
from tilewright.schedule.schedule import Schedule


@dataclass
class InPlace:
    """What may lie on what in a plan; equal parts with one schedule are looked at once."""

    known: dict[tuple[str, str], tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    def over(self, part: Part, schedule: Schedule) -> Mapping[str, tuple[str, ...]]:
        """The results of a step, and the buffers that it reads on which each may be made."""
        if len(part.outputs) != len(part.pipeline.outputs):
            return {}
        key = part.pipeline.digest, schedule.hash
        if key not in self.known:
            self.known[key] = tuple(_candidates(part.pipeline, schedule, o) for o in part.pipeline.outputs)
        found = {}
        for b, numbers in zip(part.outputs, self.known[key], strict=True):
            places = tuple(part.inputs[k].name for k in numbers if _single(part.inputs[k]))
            if places and _single(b):
                found[b.name] = places
        return found


def _single(s: object) -> bool:
    return isinstance(s, Buffer) and len(s.func.dtypes) == 1


def _candidates(p: Pipeline, schedule: Schedule, out: Output) -> tuple[int, ...]:
    """The numbers of the inputs on which a result may lie."""
    arrays = {a.name: a for a in p.arrays}
    found = []
    for k, parameter in enumerate(p.params):
        a = arrays.get(parameter.name)
        if a is None or parameter in p.inouts or isinstance(out.func, InoutFunc):
            continue
        alike = len(a.extents) == len(out.extents) and all(x is y for x, y in zip(a.extents, out.extents, strict=True))
        layouts = [str(schedule.state.given.get(n)) for n in (a.name, out.func.name)]
        alike = alike and layouts[0] == layouts[1]
        if alike and a.dtype.bytes == out.dtype.bytes and obstacle(schedule.state, a.name, f"out.{out.name}") is None:
            found.append(k)
    return tuple(found)


__all__ = ["InPlace"]

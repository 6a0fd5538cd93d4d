"""Why an element has its value: the definitions that made it, with the values that went in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.lang.binding import Bound
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.lang.extern_stage import arguments, of_definition
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import compute, constants
from tilewright.lang.stepping import Axis, Machine, domain_ranges, make_plan, sequential_points
from tilewright.lang.text import format_node
from tilewright.lang.values import index_values

POINTS = 4  # points of a reduction that are shown
LOADS = 12  # values that are shown of one definition
SEARCH = 1 << 20  # points of a reduction that are searched for those that write the element


def why(p: Pipeline, bound: Bound, out: Sequence[int] | int = (), output: int = 0, depth: int = 3) -> str:
    """The expression of element `out` of an output with the values in it, as nested lines.

    Funcs that it reads are explained in turn, `depth` levels deep. Of a reduction the first points and the last are
    shown; what a Func's own elements were in between is not. Raises ArgumentError where there is no such element.
    """
    if not 0 <= output < len(p.outputs):
        raise _no_such(p, f"output {output}", f"there are {len(p.outputs)} outputs")
    o = p.outputs[output]
    at: tuple[int, ...] = (out,) if isinstance(out, int) else tuple(out)
    starts, stops = index_values(o.starts, bound.env), index_values(o.stops, bound.env)
    shape = tuple(b - a for a, b in zip(starts, stops, strict=True))
    if len(at) != len(shape) or not all(-n <= i < n for i, n in zip(at, shape, strict=True)):
        raise _no_such(p, f"element {at} of {o.name}", f"its shape is {shape}")
    coordinates = tuple(a + (i + n if i < 0 else i) for a, i, n in zip(starts, at, shape, strict=True))
    teller = _Teller(Machine(compute(p, bound), constants(p, bound)), depth)
    teller.element(o.func, o.component, coordinates, 0)
    return "\n".join(teller.lines)


def _no_such(p: Pipeline, what: str, hint: str) -> ArgumentError:
    return ArgumentError(f"{p.name} has no {what}", code="argument.element", where=user_location(), hint=hint)


class _Teller:
    def __init__(self, machine: Machine, depth: int):
        self.machine, self.depth = machine, depth
        self.lines: list[str] = []
        self.told: set[tuple] = set()

    def say(self, level: int, text: str) -> None:
        self.lines.append("  " * level + text)

    def element(self, tensor: Any, component: int, at: tuple[int, ...], level: int) -> None:
        """One element's value and, for a Func, how it came about."""
        buffer = self.machine.buffers[tensor]
        place = tuple(i - o for i, o in zip(at, buffer.origin, strict=True))
        shown = f"{tensor.name}[{', '.join(map(str, at))}]" + (f"[{component}]" if len(buffer.data) > 1 else "")
        data = buffer.data[component]
        if not all(0 <= i < n for i, n in zip(place, data.shape, strict=True)):
            return  # a load that was not needed
        self.say(level, f"{shown} = {_number(data[place])}")
        key = (tensor, component, at)
        if not isinstance(tensor, Func) or key in self.told or level >= 2 * self.depth:
            return
        self.told.add(key)
        for d in tensor.definitions:
            self.definition(d, component, at, level + 1)

    def definition(self, d: Definition, component: int, at: tuple[int, ...], level: int) -> None:
        """What one definition did to an element: nothing at all, or its value at every point that wrote it."""
        known = {i: np.int64(c) for i, c in zip(d.lhs, at, strict=True) if i.op == "var"}
        stage = of_definition(d)
        if stage is not None:
            where = f"  ({d.location})" if d.location else ""
            reads = [f"reads {format_node(a[0])}" for a in arguments(d) if isinstance(a, tuple)]
            self.say(level, f"= what the stage {stage.name} computes{_at(known)}: it {' and '.join(reads)}{where}")
            return
        text = f"{format_node(d.values[component])}"
        where = f"  ({d.location})" if d.location else ""
        if d.rdom is None:
            self.say(level, f"= {text}{_at(known)}{where}")
            self.loads(d, component, known, level + 1)
            return
        plan = make_plan(d, tuple((i, i + 1) for i in at), self.machine.constants)
        points = self._points(d, plan, known, at)
        if not points:
            return
        self.say(level, f"= {text}{_at(known)}, at {len(points)} point{'s' * (len(points) > 1)}{where}")
        for k, point in enumerate(points):
            if k < POINTS - 1 or k == len(points) - 1:
                self.say(level + 1, ", ".join(f"{r.attr[1]} = {int(v)}" for r, v in point.items()))
                self.loads(d, component, {**known, **point}, level + 2)
            elif k == POINTS - 1:
                self.say(level + 1, "...")

    def _points(self, d: Definition, plan: Any, known: dict[Node, Any], at: tuple[int, ...]) -> list[dict[Node, Any]]:
        """The points of the reduction domain that write the element, in order."""
        axes = tuple(Axis(r, *ab) for r, ab in domain_ranges(d, self.machine.constants).items())
        plan = replace(plan, sequential=axes)
        total = int(np.prod([max(0, a.stop - a.start) for a in axes], dtype=object))
        if total == 0:
            return []
        points = sequential_points(plan, 0, min(total, SEARCH), 1)
        hit: Any = np.ones(min(total, SEARCH), bool)
        got = self.machine.values((*d.lhs, *d.predicates), {**known, **points})
        for i, c in zip(got, at, strict=False):
            hit = hit & (i == c)
        for c in got[len(d.lhs) :]:
            hit = hit & c
        return [{r: v[k] for r, v in points.items()} for k in np.flatnonzero(hit)]

    def loads(self, d: Definition, component: int, env: dict[Node, Any], level: int) -> None:
        """The elements that a value reads at one point, of a select those of the arm that is taken."""
        found: dict[tuple, None] = {}
        stack = [d.values[component]]
        seen: set[Node] = set()
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if n.op == "select":
                (c,) = self.machine.values([n.args[0]], env)
                stack += [n.args[1] if c else n.args[2], n.args[0]]
                continue
            if n.op == "load" and n.attr[0] is not d.func:
                where = self.machine.values(n.args, env)
                found[n.attr[0], n.attr[1], tuple(int(i) for i in where)] = None
            stack.extend(reversed(n.args))
        for k, (tensor, which, at) in enumerate(found):
            if k == LOADS:
                self.say(level, f"... and {len(found) - LOADS} more")
                break
            self.element(tensor, which, at, level)


def _at(known: dict[Node, Any]) -> str:
    return "".join(f"{', ' if k else '  with '}{v.attr} = {int(c)}" for k, (v, c) in enumerate(known.items()))


def _number(v: Any) -> str:
    return repr(float(v)) if np.asarray(v).dtype.kind not in "biu" else str(v)

"""What a stage computes, point by point: what is promised where it is computed, and what each assignment is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func
from tilewright.lang.ir import Node
from tilewright.lang.tensors import Tensor
from tilewright.schedule.nest import Assign, Box, Points
from tilewright.schedule.ranges import StageRanges
from tilewright.schedule.state import Stage

if TYPE_CHECKING:
    from tilewright.schedule.build import Builder, Built, Site


def stage_points(b: Builder, stages: Iterable[Stage], alone: bool = True) -> tuple[Points, ...]:
    """The points of stages where their Func is computed. If not `alone`, their nest has conditions of its own."""
    return tuple(p for s in stages for p in _of_stage(b, s, alone))


def _of_stage(b: Builder, s: Stage, alone: bool) -> Iterator[Points]:
    name, condition = s.key[0], ir.TRUE
    if s.key[1] < 0 and b.initial_in_tiles(name):  # there it is promised again
        again = b.no_step(name)
        if again is None:
            return
        condition = again
    if not alone and name in b.exposed:
        condition = simplify.conjunction(condition, b.funcs[name].guard)
    yield from _of_forms(b, s, condition)


def _of_forms(b: Builder, s: Stage, condition: Node) -> Iterator[Points]:
    """The first form whose condition holds computes its points; they may be of a definition of its own (partials)."""
    for branch in s.branches:
        key = (*s.key, branch.name)
        own = b.forms[key].condition
        yield from _of_forms(b, b.state.stages[key], simplify.conjunction(condition, own))
        condition = simplify.conjunction(condition, _opposite(own))
    body, domain = b.bodies[s.key], b.funcs[s.key[0]].stages[s.key].domain
    box = tuple(domain.values())
    yield Points(b.state.address(s.key), tuple(domain), box, body.predicates, condition, body.location)


def box_points(stage: str, f: Func, box: Box) -> Points:
    """Every element of a box: a copy, or a definition over its arguments."""
    return Points(stage, tuple(ir.var(f"axis {k}") for k in range(f.rank)), box)


def window(built: Built, stored: Site) -> dict[str, Any]:
    """Of a Func whose window slides: the whole window, and the loops around its storage."""
    if built.needed == built.region:
        return {}
    return {"needed": built.needed, "kept": tuple(x.var for x in stored)}


def assignment(
    b: Builder, s: Stage, ranges: StageRanges, tensor: Tensor, indices: tuple[Node, ...], values: tuple[Node, ...]
) -> Assign:
    """The assignment of a stage in its innermost loop, to its Func or a tile of it."""
    point = tuple(ranges.values[v] for v in ranges.domain)
    return Assign(b.state.address(s.key), tensor, indices, values, point, _spare(b, s, ranges, tensor))


def _spare(b: Builder, s: Stage, ranges: StageRanges, tensor: Tensor) -> Node:
    """When a point was computed before, or is not needed."""
    built, body = b.funcs[s.key[0]], b.bodies[s.key]
    found = list(ranges.again)
    if tensor is not body.func:  # in a private tile guards may go
        found += (_opposite(g) for g in ranges.spare)
    if s.key[1] < 0 and built.asked:
        for v, asked, whole in zip(body.lhs, built.asked, built.needed, strict=True):
            if v in ranges.values and asked is not whole and asked != whole:
                assert asked.lo is not None and asked.hi is not None
                i = ranges.values[v]
                found += (simplify.compare("lt", i, asked.lo), simplify.compare("gt", i, asked.hi))
    out: Node = ir.FALSE
    for c in dict.fromkeys(found):
        out = c if out is ir.FALSE else out if c is ir.FALSE else ir.node("or", c.dtype, (out, c))
    return out


def _opposite(c: Node) -> Node:
    return ir.node("not", c.dtype, (c,))

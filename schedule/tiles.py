"""Loops that we add ourselves: filling, initialising and storing back a tile, copying an output to its array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Output
from tilewright.lang.tensors import Tensor
from tilewright.schedule.inline import Body
from tilewright.schedule.nest import Assign, Box, Guard, LoopNode, NestNode
from tilewright.schedule.ranges import ONE, ZERO, as_ge0, constant_extent, extent, nonnegative


class Tile(Tensor):
    """The private tile of a Func (cache_write)."""

    def __init__(self, name: str, func: Func):
        self.name, self.func, self.dtypes = name, func, func.dtypes


class OutputArray(Tensor):
    """The array of one output, as the target of a copy."""

    def __init__(self, output: Output, slot: int):
        self.name, self.slot, self.output, self.dtypes = output.name, slot, output, (output.dtype,)


@dataclass(frozen=True)
class Shape:
    """How loops over a tile are made: its constant extents (None where unknown), whether all indices must be
    constants (registers), and the vector width of its last axis where there is one."""

    extents: tuple[int | None, ...]
    registers: bool = False
    lanes: int | None = None


def copy(
    source: Tensor, target: Tensor, box: Box, prefix: str, shape: Shape | None = None, components: Sequence[int] = ()
) -> NestNode:
    """target[i] = source[i] over `box`."""
    which = tuple(components) or tuple(range(len(source.dtypes)))  # type: ignore[attr-defined]

    def leaf(at: tuple[Node, ...]) -> NestNode:
        values = tuple(
            ir.node("load", source.dtypes[k].compute, at, (source, k))  # type: ignore[attr-defined]
            for k in which
        )
        return Assign(prefix, target, at, values, at, beyond(at))

    beyond = _beyond(box, isinstance(target, Tile))
    return _loops(box, prefix, shape, leaf, isinstance(target, Tile))


def define(body: Body, target: Tensor, box: Box, prefix: str, shape: Shape | None) -> NestNode:
    """The first definition of a Func, which has updates, computed into `target` over `box`."""

    def leaf(at: tuple[Node, ...]) -> NestNode:
        env = dict(zip(body.lhs, at, strict=True))
        values = tuple(ir.substitute(body.values, env))
        return Assign(f"{body.func.name}.init", target, at, values, at, beyond(at))

    beyond = _beyond(box, isinstance(target, Tile))
    return _loops(box, prefix, shape, leaf, isinstance(target, Tile))


def _beyond(box: Box, private: bool) -> Callable[[tuple[Node, ...]], Node]:
    """When a point is outside of `box`: there is room for it in a private tile, so that guards may go."""

    def outside(at: tuple[Node, ...]) -> Node:
        out: Node = ir.FALSE
        for i, r in zip(at, box, strict=True):
            assert r.hi is not None
            c = simplify.compare("gt", i, r.hi)
            out = c if out is ir.FALSE else out if c is ir.FALSE else ir.node("or", c.dtype, (out, c))
        return out

    return outside if private else lambda at: ir.FALSE


_MOST_UNROLLED = 64  # iterations of the outer axes of a register tile
_VECTOR_BYTES = 64


def _loops(
    box: Box, prefix: str, shape: Shape | None, leaf: Callable[[tuple[Node, ...]], NestNode], private: bool
) -> NestNode:
    """A loop an axis over `box`; the last one in vectors. Loops with constant trip counts are guarded where needed."""
    rank = len(box)
    shape = shape or Shape((None,) * rank)
    at: list[Node] = []
    wraps: list[Callable[[NestNode], NestNode]] = []
    for k, r in enumerate(box):
        assert r.lo is not None and r.hi is not None
        cap = shape.extents[k] if k < len(shape.extents) else None
        cap = constant_extent(r) if cap is None else cap
        cap = None if cap is None else max(cap, 1)  # of nothing: one iteration whose condition never holds
        name = f"{prefix}.{k}"
        if k == rank - 1:
            index, made = _vector_axis(r, cap, name, shape, private)
            wraps += made
        elif cap is not None and shape.registers:
            index = simplify.add(r.lo, ir.var(name))
            wraps += _constant_loop(name, cap, "unroll", _inside(index, r, {name: cap}), private)
        else:
            index = ir.var(name)
            wraps.append(_loop(name, r.lo, simplify.add(r.hi, ONE), "serial"))
        at.append(index)
    out = leaf(tuple(at))
    for w in reversed(wraps):
        out = w(out)
    return out


def _vector_axis(r: Interval, cap: int | None, name: str, shape: Shape, private: bool) -> tuple[Node, list]:
    lo = r.lo
    assert lo is not None
    if cap is not None and (shape.registers or cap <= 2 * _VECTOR_BYTES):
        lanes = shape.lanes if shape.lanes and cap % shape.lanes == 0 else cap if cap <= _VECTOR_BYTES else 1
        count = cap // lanes
        if count == 1:
            index = simplify.add(lo, ir.var(f"{name}v"))
            return index, _constant_loop(
                f"{name}v", lanes, "vectorize", _inside(index, r, {f"{name}v": lanes}), private
            )
        outer, inner = ir.var(f"{name}o"), ir.var(f"{name}v")
        index = simplify.add(lo, simplify.add(simplify.mul(outer, integer(lanes)), inner))
        if lanes == 1:
            index = simplify.add(lo, outer)
            return index, _constant_loop(f"{name}o", count, "unroll", _inside(index, r, {f"{name}o": count}), private)
        return index, [
            *_constant_loop(f"{name}o", count, "unroll", ir.TRUE, private),
            *_constant_loop(
                f"{name}v", lanes, "vectorize", _inside(index, r, {f"{name}o": count, f"{name}v": lanes}), private
            ),
        ]
    lanes = shape.lanes or 16
    outer, inner = ir.var(f"{name}o"), ir.var(f"{name}v")
    index = simplify.add(lo, simplify.add(simplify.mul(outer, integer(lanes)), inner))
    count = simplify.floordiv(simplify.add(extent(r), integer(lanes - 1)), integer(lanes))
    return index, [
        _loop(f"{name}o", ZERO, count, "serial"),
        *_constant_loop(f"{name}v", lanes, "vectorize", _inside(index, r, {f"{name}v": lanes}), private),
    ]


def _inside(index: Node, r: Interval, counts: dict[str, int]) -> Node:
    """index <= hi where the loops over `counts` don't prove it (the start is inside by construction)."""
    assert r.hi is not None
    env = {ir.var(n): Interval(ZERO, integer(c - 1)) for n, c in counts.items()}
    out: Node = ir.TRUE
    for c in nonnegative(simplify.sub(r.hi, index)):
        g = as_ge0(c)
        low = bounds(g, env).lo if g is not None else None
        if low is None or low.op != "const" or low.attr < 0:
            out = simplify.conjunction(out, c)
    return out


def _loop(name: str, start: Node, stop: Node, mode: str) -> Callable[[NestNode], NestNode]:
    short = name.rsplit(".", 1)[-1]
    return lambda body: LoopNode(name, short, ir.var(name), start, stop, mode, False, body)


def _constant_loop(
    name: str, count: int, mode: str, condition: Node, private: bool
) -> list[Callable[[NestNode], NestNode]]:
    """A loop of constant trip count whose points beyond the box are not executed."""
    out: list[Callable[[NestNode], NestNode]] = []
    if count != 1 or mode != "vectorize":
        out.append(_loop(name, ZERO, integer(count), mode))
    else:
        out.append(_loop(name, ZERO, ONE, "unroll"))
    if condition is not ir.TRUE:
        out.append(lambda body: Guard(condition, body, optional=private))
    return out

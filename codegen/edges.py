"""Less code for edges: what runs seldom is not unrolled.

Edges are what loop partitioning leaves with its conditions. Unrolled they would be most of a kernel's text, and most
of the time to compile it.

* An unrolled loop becomes a serial one where no register needs its variable's values as constants (inside lanes, where
  it is a dot product's, it stays).
* The slow version of what fills or stores a register tile works on a copy of the tile in memory, in serial loops;
  only the copying is unrolled. Tiles of its own stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer

_SMALL = 8  # stores after unrolling, up to which an edge stays as it is
_REGISTERS = 8192  # bytes; smaller temporaries may live in registers whatever they are called


def weight(s: L.Stmt) -> int:
    """Stores after unrolling."""
    match s:
        case L.For(_, start, stop, L.UNROLL, body) if start.op == stop.op == "const":
            return max(0, stop.attr - start.attr) * weight(body)
        case L.Store():
            return 1
    return sum(map(weight, L.children(s)))


def rolled(s: L.Stmt) -> L.Stmt:
    """`s` with serial loops for unrolled ones where that keeps everything in registers that may be there."""
    return s if weight(s) <= _SMALL else _rolled(s)


def _rolled(s: L.Stmt) -> L.Stmt:
    match s:
        case L.Block(statements):
            return L.block(*map(_rolled, statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _rolled(body))
        case L.If(c, then, otherwise, versions):
            return L.If(c, _rolled(then), None if otherwise is None else _rolled(otherwise), versions)
        case L.For(var=var, mode=mode, body=body):
            if mode == L.VECTORIZE:
                return s
            free = mode == L.UNROLL and not _picks_register(var, body)
            return replace(s, mode=L.SERIAL if free else mode, body=_rolled(body))
    return s


def _picks_register(var: Node, s: L.Stmt) -> bool:
    """Whether an index into a buffer that may be in registers, or the size of a buffer, depends on `var`."""
    places: list[Node] = []
    for t in L.walk(s):
        if isinstance(t, L.Store):
            places += [i for b, i in t.targets if _may_be_register(b)]
            roots = (*t.values, *(i for _, i in t.targets))
            places += [n.args[-1] for n in ir.postorder(roots) if _loads(n) and _may_be_register(n.attr[0])]
        elif isinstance(t, L.Allocate) and t.buffer.size is not None:
            places.append(t.buffer.size)
    return var in ir.leaves(places, "var")


def _loads(n: Node) -> bool:
    return n.op in ("load", "load_if")


def _may_be_register(b: L.Buffer) -> bool:
    if b.argument is not None or b.size is None:
        return False
    return b.memory == "reg" or (b.size.op == "const" and b.size.attr * b.dtype.bytes <= _REGISTERS)


# Tiles by way of memory -----------------------------------------------------------------------------------------


def compact(s: L.Stmt) -> L.Stmt:
    """`s` with the slow versions of its statements made small."""
    match s:
        case L.Block(statements):
            return L.block(*map(compact, statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, compact(body))
        case L.If(c, then, otherwise, True) if otherwise is not None:
            slow = compact(otherwise) if _loops(otherwise) else _by_way_of_memory(otherwise)
            return L.If(c, compact(then), slow, True)
        case L.If(c, then, otherwise, versions):
            return L.If(c, compact(then), None if otherwise is None else compact(otherwise), versions)
        case L.For(body=body):
            return replace(s, body=compact(body))
    return s


def _loops(s: L.Stmt) -> bool:
    """Whether a loop that stays one has the work of `s`, of which an iteration is an edge already."""
    return any(isinstance(t, L.For) and t.mode in (L.SERIAL, L.PARALLEL) and t.stop.op != "const" for t in L.walk(s))


def _by_way_of_memory(s: L.Stmt) -> L.Stmt:
    if weight(s) <= _SMALL:
        return s
    own = {t.buffer for t in L.walk(s) if isinstance(t, L.Allocate)}
    if any(b.memory == "reg" for b in own):
        return rolled(s)  # a part of a parallel loop, whose own tiles stay in registers
    written, read = _touched(s)
    tiles = [b for b in dict.fromkeys((*written, *read)) if b.memory == "reg" and b not in own]
    lanes = {b: math.gcd(b.size.attr, _width(s)) for b in tiles}  # type: ignore[union-attr]
    if any(n < 2 for n in lanes.values()):
        return rolled(s)
    copies = {b: L.Buffer(f"{b.name}.edge", b.dtype, b.size, "main") for b in tiles}
    parts = [_copy(b, copies[b], lanes[b]) for b in tiles]
    parts.append(_serial(_elsewhere(s, copies)))
    parts += [_copy(copies[b], b, lanes[b]) for b in tiles if b in written]
    out = L.block(*parts)
    for b in copies.values():
        out = L.Allocate(b, out)
    return out


def _touched(s: L.Stmt) -> tuple[dict[L.Buffer, None], dict[L.Buffer, None]]:
    """The buffers written and read."""
    written: dict[L.Buffer, None] = {}
    read: dict[L.Buffer, None] = {}
    for t in L.walk(s):
        if isinstance(t, L.Store):
            written.update((b, None) for b, _ in t.targets)
            roots: tuple[Node, ...] = (*t.values, *(i for _, i in t.targets))
        elif isinstance(t, L.If):
            roots = (t.condition,)
        elif isinstance(t, L.For):
            roots = (t.start, t.stop)
        else:
            continue
        read.update((n.attr[0], None) for n in ir.postorder(roots) if _loads(n))
    return written, read


def _width(s: L.Stmt) -> int:
    """Lanes of its widest vector loop."""
    return max((t.stop.attr for t in L.walk(s) if isinstance(t, L.For) and t.mode == L.VECTORIZE), default=1)


def _copy(source: L.Buffer, target: L.Buffer, lanes: int) -> L.Stmt:
    assert source.size is not None
    k, v = ir.var(f"{target.name}.copy"), ir.var(f"{target.name}.copy_v")
    at = simplify.add(simplify.mul(k, integer(lanes)), v)
    value = ir.node("load", source.dtype.compute, (at,), (source, 0))
    inner = L.For(v, integer(0), integer(lanes), L.VECTORIZE, L.Store(((target, at),), (value,)))
    return L.For(k, integer(0), integer(source.size.attr // lanes), L.UNROLL, inner)


def _serial(s: L.Stmt) -> L.Stmt:
    """All unrolled loops as serial ones."""
    match s:
        case L.Block(statements):
            return L.block(*map(_serial, statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _serial(body))
        case L.If(c, then, otherwise, versions):
            return L.If(c, _serial(then), None if otherwise is None else _serial(otherwise), versions)
        case L.For(mode=mode, body=body):
            return replace(s, mode=L.SERIAL if mode == L.UNROLL else mode, body=_serial(body))
    return s


def _elsewhere(s: L.Stmt, place: Mapping[L.Buffer, L.Buffer]) -> L.Stmt:
    """`s` on other buffers."""
    memo: dict[Node, Node] = {}

    def moved(n: Node, args: tuple[Node, ...]) -> Node:
        if _loads(n) and n.attr[0] in place:
            return ir.node(n.op, n.dtype, args, (place[n.attr[0]], 0))
        return ir.rebuild(n, args)

    def of(t: L.Stmt) -> L.Stmt:
        match t:
            case L.Block(statements):
                return L.block(*map(of, statements))
            case L.Allocate(buffer, body):
                return L.Allocate(buffer, of(body))
            case L.If(c, then, otherwise, versions):
                return L.If(c, of(then), None if otherwise is None else of(otherwise), versions)
            case L.For(body=body):
                return replace(t, body=of(body))
            case L.Store(targets, values):
                return replace(t, targets=tuple((place.get(b, b), i) for b, i in targets), values=values)
        return t

    return of(L.map_values(s, lambda roots: ir.transform(roots, moved, memo)))

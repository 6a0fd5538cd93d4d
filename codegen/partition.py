"""Loop partitioning: a loop is parted so that in its middle the conditions inside certainly hold and vanish.

Conditions are the guards of tails and what boundary conditions mark as `likely`. A condition is dealt with at the
innermost serial loop that it depends on: before and after the middle part the loop keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.codegen import loops as L
from tilewright.codegen.prove import conjuncts
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.schedule.ranges import as_ge0

ONE = integer(1)


def partition(s: L.Stmt) -> L.Stmt:
    """Part every loop of `s` where it helps."""
    match s:
        case L.Block(statements):
            return L.block(*map(partition, statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, partition(body))
        case L.If(c, then, otherwise):
            return L.If(c, partition(then), None if otherwise is None else partition(otherwise))
        case L.For(mode=L.SERIAL | L.PARALLEL):
            return _part(s)
        case L.For(var, start, stop, mode, body):
            return L.For(var, start, stop, mode, partition(body))
    return s


def _part(loop: L.For) -> L.Stmt:
    found = list(dict.fromkeys(_conditions(loop.body, loop.var, {}, set())))
    if not found:
        return L.For(loop.var, loop.start, loop.stop, loop.mode, partition(loop.body))
    lows, highs, uniform, gone = [], [], [], []
    for c, low in found:
        k = simplify.linear(low)[0].get(loop.var, 0)
        rest = simplify.sub(low, simplify.mul(loop.var, integer(k)))
        if loop.var in ir.leaves([rest], "var"):
            uniform.append(simplify.compare("ge", low, integer(0)))
        elif k > 0:
            lows.append(simplify.neg(simplify.floordiv(rest, integer(k))))
        elif k < 0:
            highs.append(simplify.add(simplify.floordiv(rest, integer(-k)), ONE))
        gone.append(c)
    clean = partition(assume(loop.body, frozenset(gone)))
    edge = partition(loop.body)
    if uniform or loop.mode == L.PARALLEL:
        cond: Node = ir.TRUE
        for x in lows:
            cond = simplify.conjunction(cond, simplify.compare("ge", loop.var, x))
        for x in highs:
            cond = simplify.conjunction(cond, simplify.compare("lt", loop.var, x))
        for x in uniform:
            cond = simplify.conjunction(cond, x)
        return L.For(loop.var, loop.start, loop.stop, loop.mode, L.If(cond, clean, edge))
    parts: list[L.Stmt] = []
    begin, end = loop.start, loop.stop
    for x in lows:
        begin = simplify.maximum(begin, x)
    for x in highs:
        end = simplify.minimum(end, x)
    if begin is not loop.start:
        begin = simplify.minimum(begin, loop.stop)
        parts.append(L.For(loop.var, loop.start, begin, loop.mode, edge))
    parts.append(L.For(loop.var, begin, end, loop.mode, clean))
    if end is not loop.stop:
        parts.append(L.For(loop.var, simplify.maximum(begin, end), loop.stop, loop.mode, edge))
    return L.block(*parts)


def _conditions(s: L.Stmt, var: Node, inner: dict[Node, Interval], deeper: set[Node]) -> Iterator[tuple[Node, Node]]:
    """(condition, the least value of its >= 0 form over the constant loops further in) for conditions that depend
    on `var` and on no serial loop further in."""
    match s:
        case L.Block(statements):
            for t in statements:
                yield from _conditions(t, var, inner, deeper)
        case L.For(v, start, stop, mode, body):
            if mode in (L.UNROLL, L.VECTORIZE) and start.op == stop.op == "const":
                yield from _conditions(body, var, {**inner, v: Interval(start, simplify.sub(stop, ONE))}, deeper)
            else:
                yield from _marked((start, stop), var, inner, deeper)
                yield from _conditions(body, var, inner, deeper | {v})
        case L.Allocate(body=body):
            yield from _conditions(body, var, inner, deeper)
        case L.If(c, then, otherwise):
            yield from _atoms(c, var, inner, deeper)
            yield from _conditions(then, var, inner, deeper)
            if otherwise is not None:
                yield from _conditions(otherwise, var, inner, deeper)
        case L.Store(targets, values):
            yield from _marked((*values, *(i for _, i in targets)), var, inner, deeper)


def _marked(roots, var: Node, inner, deeper) -> Iterator[tuple[Node, Node]]:
    for n in ir.leaves(roots, "likely"):
        yield from _atoms(n, var, inner, deeper)


def _atoms(c: Node, var: Node, inner: dict[Node, Interval], deeper: set[Node]) -> Iterator[tuple[Node, Node]]:
    for a in conjuncts(c):
        g = as_ge0(a)
        if g is None:
            continue
        used = set(ir.leaves([g], "var"))
        if var not in used or used & deeper or ir.leaves([g], "load"):
            continue
        low = bounds(g, inner).lo if inner else g
        if low is not None and not any(v in inner for v in ir.leaves([low], "var")):
            yield a, low


def assume(s: L.Stmt, true: frozenset[Node]) -> L.Stmt:
    """`s` where the given conditions hold."""
    memo: dict[Node, Node] = {c: ir.TRUE for c in true}

    def values(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        return ir.transform(roots, _simpler, memo)

    def of(t: L.Stmt) -> L.Stmt:
        match t:
            case L.Block(statements):
                return L.block(*map(of, statements))
            case L.For(var, start, stop, mode, body):
                start, stop = values((start, stop))
                return L.For(var, start, stop, mode, of(body))
            case L.Allocate(buffer, body):
                return L.Allocate(buffer, of(body))
            case L.If(c, then, otherwise):
                (c,) = values((c,))
                if c is ir.TRUE:
                    return of(then)
                if c is ir.FALSE:
                    return of(otherwise) if otherwise is not None else L.Block(())
                return L.If(c, of(then), None if otherwise is None else of(otherwise))
            case L.Store(targets, vals):
                offsets = values(tuple(i for _, i in targets))
                return L.Store(tuple((b, i) for (b, _), i in zip(targets, offsets, strict=True)), values(vals))
        return t

    return of(s)


def _simpler(n: Node, args: tuple[Node, ...]) -> Node:
    if n.op == "load_if" and args[0] is ir.TRUE:
        return ir.node("load", n.dtype, args[1:], n.attr)
    if n.op == "not" and args[0].op == "const":
        return ir.FALSE if args[0].attr else ir.TRUE
    if n.op == "and":
        return simplify.conjunction(*args)
    if n.op == "or":
        if ir.TRUE in args:
            return ir.TRUE
        return args[1] if args[0] is ir.FALSE else args[0] if args[1] is ir.FALSE else ir.rebuild(n, args)
    return ir.rebuild(n, args)

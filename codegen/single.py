"""Loops that run once, or once at most: their variable is its start.

Stages that are computed at a loop of their consumer have such loops over a single point. Without the variables the
offsets in their buffers are constants, and the buffers can be registers. Conditions that then hold whatever the
constant loops around do (a tile of a tile is never cut) vanish, and so do quotients that are the same in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.codegen.prove import conjuncts
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node
from tilewright.lang.types import index
from tilewright.schedule.ranges import as_ge0, spread


def unwrap(s: L.Stmt) -> L.Stmt:
    """`s` with the variables of serial and unrolled loops of at most one iteration replaced by their start.

    A loop that certainly runs once gives way to its body; one that may not run at all stays around it, and so does one
    that lies along an axis of an array.
    """
    return _unwrap(s, {}, {})


def _unwrap(s: L.Stmt, env: Mapping[Node, Node], around: Mapping[Node, Interval]) -> L.Stmt:
    """`env`: variables that are gone, by their values; `around`: those of constant loops around, by their ranges."""
    match s:
        case L.Block(statements):
            return L.block(*(_unwrap(t, env, around) for t in statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _unwrap(body, env, around))
        case L.Turn(buffer, slot, body):
            (slot,) = _values((slot,), env, around)
            return L.Turn(buffer, slot, _unwrap(body, env, around))
        case L.Section(body=body):
            return s.replaced(_unwrap(body, env, around), _values(s.nodes, env, around))
        case L.For(var, start, stop, mode, body):
            start, stop = _values((start, stop), env, around)
            if (
                mode in (L.SERIAL, L.UNROLL)
                and not s.axis
                and at_most_once(start, stop)
                and not _sizes_buffers(var, body)
            ):
                once = simplify.sub(stop, start) is ir.integer(1)
                inner = _unwrap(body, {**env, var: start}, around)
                return inner if once else replace(s, start=start, stop=stop, body=inner)
            if start.op == stop.op == "const":
                around = {**around, var: Interval(start, simplify.sub(stop, ir.integer(1)))}
            inner = _unwrap(body, env, around)
            if mode in (L.UNROLL, L.VECTORIZE) and _around(inner, var):
                assert isinstance(inner, L.If)
                return replace(inner, then=replace(s, start=start, stop=stop, body=inner.then))
            return replace(s, start=start, stop=stop, body=inner)
        case L.If(condition, then, otherwise, versions):
            (condition,) = _values((condition,), env, around)
            condition = _undecided(condition, around)
            if condition is ir.TRUE:
                return _unwrap(then, env, around)
            no = None if otherwise is None else _unwrap(otherwise, env, around)
            return L.If(condition, _unwrap(then, env, around), no, versions)
    return L.map_values(s, lambda roots: _values(roots, env, around))


def _around(s: L.Stmt, var: Node) -> bool:
    """Whether `s` stands under a condition that is the same in all iterations of a loop around it."""
    if not isinstance(s, L.If) or s.otherwise is not None:
        return False
    return var not in ir.leaves((s.condition,), "var") and not ir.leaves((s.condition,), "load")


def _undecided(condition: Node, around: Mapping[Node, Interval]) -> Node:
    """The condition without the parts that hold in every iteration of the constant loops around."""
    left: Node = ir.TRUE
    for c in conjuncts(condition):
        g = as_ge0(c)
        least = None if g is None else bounds(g, around).lo
        if least is None or least.op != "const" or least.attr < 0:
            left = simplify.conjunction(left, c if g is None else _by_steps(c, g, around))
    return left


def _by_steps(condition: Node, g: Node, around: Mapping[Node, Interval]) -> Node:
    """`d * x + y >= 0`, where y stays between two multiples of d in all constant loops around, asks x alone: the iterations
    of a loop over whole groups are decided together."""
    coefs, constant = simplify.linear(g)
    d = math.gcd(*(k for k in coefs.values() if abs(k) > 1)) if coefs else 0
    if d < 2:
        return condition
    within = simplify.from_linear({t: k for t, k in coefs.items() if k % d}, constant)
    r = bounds(within, around)
    if r.lo is None or r.hi is None or not r.lo.op == r.hi.op == "const" or r.lo is r.hi:
        return condition
    if r.lo.attr // d != r.hi.attr // d:
        return condition
    steps = simplify.from_linear({t: k // d for t, k in coefs.items() if k % d == 0}, r.lo.attr // d)
    return simplify.compare("ge", steps, ir.integer(0))


def _values(roots: tuple[Node, ...], env: Mapping[Node, Node], around: Mapping[Node, Interval]) -> tuple[Node, ...]:
    roots = ir.substitute(roots, env) if env else roots
    while around and (known := _quotients(roots, around)):
        roots = ir.substitute(roots, known)
    return roots


def _quotients(roots: tuple[Node, ...], around: Mapping[Node, Interval]) -> dict[Node, Node]:
    """Quotients that are the same in every iteration of the constant loops around or of some of them, and the remainders
    of such."""
    found: dict[Node, Node] = {}
    for n in ir.postorder(roots):
        if n.op in ("floordiv", "mod") and n.dtype is index and n.args[1].op == "const" and n.args[1].attr > 0:
            r, divisor = bounds(n.args[0], around), n.args[1].attr
            if r.lo is None or r.hi is None or not r.lo.op == r.hi.op == "const":
                if (parted := _of_groups(n, around)) is not None:
                    found[n] = parted
                continue
            k = r.lo.attr // divisor
            if r.hi.attr // divisor == k:
                found[n] = ir.integer(k) if n.op == "floordiv" else simplify.sub(n.args[0], ir.integer(k * divisor))
    return found


def _of_groups(n: Node, around: Mapping[Node, Interval]) -> Node | None:
    """`(g*x + y) // (g*m)` where y stays in one group of g in all constant loops around is a quotient of x alone, and the
    remainder moves with y: lanes that fill whole groups lie side by side."""
    a, divisor = n.args[0], n.args[1].attr
    coefs, constant = simplify.linear(a)
    g = math.gcd(divisor, *(k for k in coefs.values() if abs(k) > 1))
    within = {t: k for t, k in coefs.items() if k % g}
    if g < 2 or not within or len(within) == len(coefs):
        return None
    r = bounds(simplify.from_linear(within, constant), around)
    if r.lo is None or r.hi is None or not r.lo.op == r.hi.op == "const" or r.lo.attr // g != r.hi.attr // g:
        return None
    group = r.lo.attr // g
    x, m = simplify.from_linear({t: k // g for t, k in coefs.items() if k % g == 0}, group), ir.integer(divisor // g)
    if n.op == "floordiv":
        return simplify.floordiv(x, m)
    inside = simplify.from_linear(within, constant - group * g)
    return simplify.add(simplify.mul(simplify.mod(x, m), ir.integer(g)), inside)


def at_most_once(start: Node, stop: Node) -> bool:
    """Whether a loop certainly has no second iteration."""
    extents = (simplify.sub(t, start) for t in spread(stop, "min"))
    return any(e.op == "const" and e.attr <= 1 for e in extents)


def _sizes_buffers(var: Node, body: L.Stmt) -> bool:
    """Whether the size of a buffer in the body depends on the variable (buffers are told apart by identity)."""
    sizes = [t.buffer.size for t in L.walk(body) if isinstance(t, L.Allocate) and t.buffer.size is not None]
    return var in ir.leaves(sizes, "var")

"""Loops that run once, or once at most: their variable is its start.

Stages that are computed at a loop of their consumer have such loops over a single point. Without the variables the
offsets in their buffers are constants, and the buffers can be registers.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node
from tilewright.schedule.ranges import spread


def unwrap(s: L.Stmt) -> L.Stmt:
    """`s` with the variables of serial and unrolled loops of at most one iteration replaced by their start.

    A loop that certainly runs once gives way to its body; one that may not run at all stays around it.
    """
    return _unwrap(s, {})


def _unwrap(s: L.Stmt, env: dict[Node, Node]) -> L.Stmt:
    match s:
        case L.Block(statements):
            return L.block(*(_unwrap(t, env) for t in statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _unwrap(body, env))
        case L.For(var, start, stop, mode, body):
            start, stop = _values((start, stop), env)
            if mode in (L.SERIAL, L.UNROLL) and _at_most_once(start, stop) and not _sizes_buffers(var, body):
                once = simplify.sub(stop, start) is ir.integer(1)
                inner = _unwrap(body, {**env, var: start})
                return inner if once else replace(s, start=start, stop=stop, body=inner)
            return replace(s, start=start, stop=stop, body=_unwrap(body, env))
        case L.If(condition, then, otherwise, versions):
            (condition,) = _values((condition,), env)
            return L.If(condition, _unwrap(then, env), None if otherwise is None else _unwrap(otherwise, env), versions)
    return L.map_values(s, lambda roots: _values(roots, env))


def _values(roots: tuple[Node, ...], env: dict[Node, Node]) -> tuple[Node, ...]:
    return ir.substitute(roots, env) if env else roots


def _at_most_once(start: Node, stop: Node) -> bool:
    extents = (simplify.sub(t, start) for t in spread(stop, "min"))
    return any(e.op == "const" and e.attr <= 1 for e in extents)


def _sizes_buffers(var: Node, body: L.Stmt) -> bool:
    """Whether the size of a buffer in the body depends on the variable (buffers are told apart by identity)."""
    sizes = [t.buffer.size for t in L.walk(body) if isinstance(t, L.Allocate) and t.buffer.size is not None]
    return var in ir.leaves(sizes, "var")

"""A program for given sizes: every size is a number in it, so that what depends on sizes alone is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer


def bound(p: L.Program, sizes: Mapping[str, int]) -> L.Program:
    """The program with `sizes` put in, the extents of its temporaries included. Loops and conditions stay, whatever
    their ends are now; requirements that hold are left out."""
    env = {ir.size(n): integer(v) for n, v in sizes.items()}
    memo: dict[Node, Node] = {}
    buffers: dict[L.Buffer, L.Buffer] = {}
    for s in L.walk(p.body):
        if isinstance(s, L.Allocate) and s.buffer.size is not None and s.buffer not in buffers:
            (size,) = ir.substitute((s.buffer.size,), env)
            box = ir.substitute(s.buffer.box, env)
            buffers[s.buffer] = s.buffer if size is s.buffer.size else replace(s.buffer, size=size, box=box)

    def one(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op in ("load", "load_if") and n.attr[0] in buffers:
            return ir.node(n.op, n.dtype, args, (buffers[n.attr[0]], n.attr[1]))
        return env[n] if n in env else simplify.logic(ir.rebuild(n, args))

    def values(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        return ir.transform(roots, one, memo)

    requirements = tuple(c for c in values(p.requirements) if c is not ir.TRUE)
    return replace(p, requirements=requirements, body=_placed(L.map_values(p.body, values), buffers))


def _placed(s: L.Stmt, buffers: Mapping[L.Buffer, L.Buffer]) -> L.Stmt:
    """The statements on other buffers."""

    def of(b: L.Buffer) -> L.Buffer:
        return buffers.get(b, b)

    def view(v: L.View) -> L.View:
        return replace(v, buffer=of(v.buffer))

    match s:
        case L.Block(statements):
            return L.Block(tuple(_placed(t, buffers) for t in statements))
        case L.If(then=then, otherwise=otherwise):
            no = None if otherwise is None else _placed(otherwise, buffers)
            return replace(s, then=_placed(then, buffers), otherwise=no)
        case L.For(body=body):
            return replace(s, body=_placed(body, buffers))
        case L.Allocate(b, body) | L.Turn(b, body=body):
            return replace(s, buffer=of(b), body=_placed(body, buffers))
        case L.Store(targets):
            return replace(s, targets=tuple((of(b), i) for b, i in targets))
        case L.Prefetch(b):
            return replace(s, buffer=of(b))
        case L.Section(body=body, transfers=transfers, turns=turns, operands=operands):
            moved = tuple(replace(t, source=view(t.source), target=view(t.target)) for t in transfers)
            return replace(
                s, body=_placed(body, buffers), transfers=moved, turns=tuple((of(b), n) for b, n in turns),
                operands=tuple(map(view, operands)),
            )  # fmt: skip
        case L.Call(out=out, arguments=arguments):
            given = tuple(a if isinstance(a, Node) else tuple(map(view, a)) for a in arguments)
            return replace(s, out=tuple(map(view, out)), arguments=given)
    return s


__all__ = ["bound"]

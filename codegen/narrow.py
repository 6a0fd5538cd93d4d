"""Temporaries of 64-bit integers in vectors, of 32 bits where their values fit: indices of the largest, mostly.

A temporary that only takes constants, casts of indices and what it has itself, chosen and compared, gets two forms of
the code that uses it, told apart when it runs: with half the width where all indices are short, as it was elsewhere.
The least i64, which stands for nothing found yet, becomes the least i32. The mapping grows with the values, so that
comparisons come out the same; what goes elsewhere is widened again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds, certainly_nonnegative
from tilewright.lang.ir import COMPARISONS, Node, integer
from tilewright.lang.types import i32, i64, index

_LEAST, _SHORT = -(1 << 63), 1 << 31
_NONE = ir.const(-_SHORT, i32)  # what the least i64 becomes


def narrow(s: L.Stmt) -> L.Stmt:
    """`s` with two forms of what uses such temporaries."""
    match s:
        case L.Block(statements):
            return L.Block(tuple(map(narrow, statements)))
        case L.For(body=body) | L.Section(body=body) | L.Turn(body=body):
            return replace(s, body=narrow(body))
        case L.If(then=then, otherwise=otherwise):
            return replace(s, then=narrow(then), otherwise=None if otherwise is None else narrow(otherwise))
        case L.Allocate(buffer, body):
            return _two_forms(s) or L.Allocate(buffer, narrow(body))
    return s


def _two_forms(s: L.Allocate) -> L.Stmt | None:
    b = s.buffer
    if b.dtype is not i64 or b.spread or b.slots != 1 or not _in_vectors(s.body, b, False):
        return None
    form = _Short(b)
    conditions = _short_indices(s.body, b)
    body = None if conditions is None else form.statement(s.body)
    if body is None or conditions is None:
        return None
    condition = ir.TRUE
    for c in conditions:
        condition = c if condition is ir.TRUE else ir.node("and", c.dtype, (condition, c))
    short = L.Allocate(form.short, body)
    return short if condition is ir.TRUE else L.If(condition, short, s, versions=True)


def _in_vectors(s: L.Stmt, b: L.Buffer, inside: bool) -> bool:
    if isinstance(s, L.Store):
        return inside and any(t is b for t, _ in s.targets)
    inside = inside or (isinstance(s, L.For) and s.mode == L.VECTORIZE)
    return any(_in_vectors(t, b, inside) for t in L.children(s))


def _indices(s: L.Stmt, b: L.Buffer, loops: tuple[L.For, ...]) -> Iterator[tuple[Node, tuple[L.For, ...]]]:
    """The indices that become values of the temporary, with the loops around them."""
    if isinstance(s, L.Store):
        kept = [v for (t, _), v in zip(s.targets, s.values, strict=True) if t is b]
        for n in ir.postorder(kept):
            if n.op == "cast" and n.dtype is i64 and n.args[0].dtype is index:
                yield n.args[0], loops
    for t in L.children(s):
        yield from _indices(t, b, (*loops, s) if isinstance(s, L.For) else loops)


def _short_indices(s: L.Stmt, b: L.Buffer) -> list[Node] | None:
    """The conditions under which no index that may be a value is longer than 31 bits."""
    out: dict[Node, None] = {}
    for n, loops in _indices(s, b, ()):
        r = Interval(n, n)
        for x in reversed(loops):
            env = {x.var: Interval(x.start, simplify.sub(x.stop, integer(1)))}
            r = Interval(*(e and getattr(bounds(e, env), end) for e, end in ((r.lo, "lo"), (r.hi, "hi"))))
        if r.lo is None or r.hi is None:
            return None
        out[simplify.compare("lt", r.hi, integer(_SHORT))] = None
        if not certainly_nonnegative(r.lo):
            out[simplify.compare("gt", r.lo, integer(-_SHORT))] = None
    return [c for c in out if c is not ir.TRUE]


class _Short:
    """The statements around a temporary, for one of 32 bits."""

    def __init__(self, b: L.Buffer):
        self.long, self.short = b, replace(b, dtype=i32)
        self.plain: dict[Node, Node] = {}  # nodes by what they become
        self.halves: dict[Node, Node | None] = {}  # nodes of i64 by what they are in 32 bits, if they can be

    def statement(self, s: L.Stmt) -> L.Stmt | None:
        """None where the temporary is used in another way."""
        match s:
            case L.Block(statements):
                found = [self.statement(t) for t in statements]
                return None if None in found else L.Block(tuple(found))  # type: ignore[arg-type]
            case L.For(start=start, stop=stop, body=body):
                inner = self.statement(body)
                return None if inner is None else replace(s, start=self.value(start), stop=self.value(stop), body=inner)
            case L.Allocate(buffer, body):
                inner = self.statement(body)
                return None if inner is None else L.Allocate(buffer, inner)
            case L.If(condition, then, otherwise, versions):
                first = self.statement(then)
                second = None if otherwise is None else self.statement(otherwise)
                if first is None or (otherwise is not None and second is None):
                    return None
                return L.If(self.value(condition), first, second, versions)
            case L.Store(targets, values):
                return self.store(s, targets, values)
        return None

    def store(self, s: L.Store, targets: tuple[tuple[L.Buffer, Node], ...], values: tuple[Node, ...]) -> L.Stmt | None:
        placed, stored, origin = [], [], s.origin
        if origin is not None:
            origin = replace(origin, point=tuple(map(self.value, origin.point)), spare=self.value(origin.spare))
        for (b, i), v in zip(targets, values, strict=True):
            self.look(v)
            new = self.halves.get(v) if b is self.long else self.value(v)
            if new is None:
                return None
            placed.append((self.short if b is self.long else b, self.value(i)))
            stored.append(new)
        return replace(s, targets=tuple(placed), values=tuple(stored), origin=origin)

    def value(self, n: Node) -> Node:
        self.look(n)
        return self.plain[n]

    def look(self, root: Node) -> None:
        """Both forms of all that a node is made of."""
        for n in ir.postorder([root]):
            if n in self.plain:
                continue
            args = tuple(self.plain[a] for a in n.args)
            if n.dtype is i64:
                self.halves[n] = half = self.half(n, args)
                loaded = n.op == "load" and n.attr[0] is self.long
                self.plain[n] = _widened(half) if loaded and half is not None else ir.rebuild(n, args)
                continue
            halves = [self.halves.get(a) for a in n.args]
            if n.op in COMPARISONS and None not in halves and self.long in _loaded(n):
                self.plain[n] = ir.node(n.op, n.dtype, tuple(halves))  # type: ignore[arg-type]
            else:
                self.plain[n] = ir.rebuild(n, args)

    def half(self, n: Node, args: tuple[Node, ...]) -> Node | None:
        if n.op == "const":
            return _NONE if n.attr == _LEAST else ir.const(n.attr, i32) if abs(n.attr) < _SHORT else None
        if n.op == "load":
            return ir.node("load", i32, args, (self.short, n.attr[1])) if n.attr[0] is self.long else None
        if n.op == "cast":
            return ir.node("cast", i32, args) if n.args[0].dtype is index else None
        halves = [self.halves.get(a) for a in n.args if a.dtype is i64]
        if None in halves or n.op not in ("select", "min", "max"):
            return None
        return ir.node(n.op, i32, (*args[: len(args) - len(halves)], *halves))  # type: ignore[arg-type]


def _loaded(n: Node) -> set[L.Buffer]:
    return {m.attr[0] for m in ir.leaves((n,), "load")}


def _widened(half: Node) -> Node:
    nothing = ir.node("eq", ir.TRUE.dtype, (half, _NONE))
    return ir.node("select", i64, (nothing, ir.const(_LEAST, i64), ir.node("cast", i64, (half,))))

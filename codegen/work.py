"""How much one iteration of a parallel loop does, so that short loops don't wake other threads.

An estimate in simple operations: those of the values that are stored, loads and stores of memory, times trip counts; a
vector loop counts an eighth of its lanes. What indices take is not counted, nor what registers hold. One is 0.05 (register
tiles of multiply-adds) to 0.2 ns (loops over memory, exp) of a Zen 4. It decides nothing but who runs the iterations, and
what is worth timing (see `timed`).
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import index

ONE = integer(1)
ENOUGH = 30_000  # operations of a whole loop (2-6 us) that are worth a second thread


def annotate(s: L.Stmt) -> L.Stmt:
    """`s` with the work of every parallel loop."""
    match s:
        case L.Block(statements):
            return L.Block(tuple(map(annotate, statements)))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, annotate(body))
        case L.If(c, then, otherwise, versions):
            return L.If(c, annotate(then), None if otherwise is None else annotate(otherwise), versions)
        case L.For(var, start, stop, L.PARALLEL, body):
            around = ((var, Interval(start, simplify.sub(stop, ONE))),)
            nested = any(isinstance(t, L.For) and t.mode == L.PARALLEL for t in L.walk(body))
            shared = _shared(body, around) if nested else None
            return replace(s, work=_work(body, around), shared=shared, body=annotate(body))
        case L.For() | L.Section() | L.Turn():
            return replace(s, body=annotate(s.body))
    return s


def cycles(s: L.Stmt) -> int | None:
    """About how many a statement takes, where its loops are constant."""
    if any(simplify.sub(t.stop, t.start).op != "const" for t in L.walk(s) if isinstance(t, L.For)):
        return None
    found = _work(s, ())
    return found.attr if found.op == "const" else None


Loops = tuple[tuple[Node, Interval], ...]


def _work(s: L.Stmt, around: Loops) -> Node:
    match s:
        case L.For(var, start, stop, mode, body):
            inner = _work(body, (*around, (var, Interval(start, simplify.sub(stop, ONE)))))
            trips = _most(simplify.sub(stop, start), around)
            if mode == L.VECTORIZE and trips.op == "const":
                trips = integer(max(1, trips.attr // 8))
            return simplify.mul(trips, inner)
        case L.Store(targets, values):
            stores = sum(b.memory != "reg" for b, _ in targets)
            return integer(max(1, stores + sum(map(_counts, ir.postorder(values)))))
        case L.If(_, then, None) | L.If(_, then, _, True):
            return _work(then, around)
        case L.If(_, then, otherwise) if otherwise is not None:
            return simplify.maximum(_work(then, around), _work(otherwise, around))
        case L.Call():
            return integer(ENOUGH)  # nothing is known of it, and to call it alone takes some 10 us
    total = integer(1)
    for t in L.children(s):
        total = simplify.add(total, _work(t, around))
    return total


def _counts(n: Node) -> bool:
    if n.op in ("const", "scalar") or n.dtype is index:
        return False
    return n.op not in ("load", "load_if") or n.attr[0].memory != "reg"


def _shared(s: L.Stmt, around: Loops) -> Node:
    """The work in parallel loops."""
    match s:
        case L.For(mode=L.PARALLEL):
            return _work(s, around)
        case L.For(var, start, stop, _, body):
            inner = _shared(body, (*around, (var, Interval(start, simplify.sub(stop, ONE)))))
            return simplify.mul(_most(simplify.sub(stop, start), around), inner)
        case L.If(_, then, None) | L.If(_, then, _, True):
            return _shared(then, around)
        case L.If(_, then, otherwise) if otherwise is not None:
            return simplify.maximum(_shared(then, around), _shared(otherwise, around))
    total = integer(0)
    for t in L.children(s):
        total = simplify.add(total, _shared(t, around))
    return total


def _most(trips: Node, around: Loops) -> Node:
    """The largest trip count over the loops around; a small number where it depends on data."""
    top: Node | None = trips
    for var, r in reversed(around):
        short = None if top is None else _short(top)
        top = None if short is None else bounds(short, {var: r}).hi
    if top is None:
        return integer(16)
    known = [t for t in ir.spread(top, "min") if not ir.leaves((t,), "load") and not ir.leaves((t,), "var")]
    return functools.reduce(simplify.minimum, known) if known else integer(16)


_LONGEST = 60  # nodes of what is looked at: this is an estimate


def _short(n: Node) -> Node | None:
    """What a minimum does not exceed, of its terms that are short; None where there are none."""
    terms = [t for t in ir.spread(n, "min") if sum(1 for _ in ir.postorder((t,))) <= _LONGEST]
    return functools.reduce(simplify.minimum, terms) if terms else None

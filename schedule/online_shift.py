"""How a running sum follows when its terms are a polynomial in what other reductions have come to: for `online`.

    squares = sum over k of (x(k) - r/n)**2,   r = sum over k of x(k)

Nothing of this splits into a(k) * b(r) with one number b. But a polynomial moves from one place to another by its own
derivatives: with D_q the sum of the terms' q-th derivatives divided by q!, all at the place p,

    D_0 at p + d  =  D_0 + D_1 d + D_2 d**2 + ...
    D_1 at p + d  =  D_1 + 2 D_2 d + ...

so that b(r) is a matrix, which is always invertible, and the D_q run along with the sum. With several sources the powers
are those of each of them, as in (x - r/n) * (y - s/n).

The place is free; only at the end it must be what r has become. r itself would be a bad one on the way: half a sum,
divided by all of n, is far from every x, and the large terms that it makes cancel later. A running sum is therefore
taken for the share of points that were seen: p = r * n / seen. For a mean that is the mean of these points, every term
has the size that it has in the plain text, and the terms that are added on moving are of that size as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilewright.lang import ir, simplify
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.symbols import Domain
from tilewright.lang.types import bool_
from tilewright.schedule.online_algebra import Member
from tilewright.schedule.online_terms import NoSplitError, Uses, widens
from tilewright.schedule.state import REPAIR

Powers = tuple[int, ...]  # of each source

_HIGHEST = 4  # degree
_MOST = 9  # sums that run along


@dataclass(frozen=True, eq=False)
class Shift:
    """`sources`: the other reductions, as the term loads them. `terms`: by powers, what is summed (the powers 0 are the
    reduction's own term), with the sources as they are in the plain text."""

    sources: tuple[Node, ...]
    terms: Mapping[Powers, Node]

    @property
    def companions(self) -> tuple[Powers, ...]:
        """The powers of the sums that run along, lower ones first."""
        return tuple(sorted((p for p in self.terms if any(p)), key=lambda p: (sum(p), p)))

    def moved(self, powers: Powers, sums: Mapping[Powers, Node], away: tuple[Node, ...]) -> Node:
        """The sum of some powers at another place. `sums`: what the sums are, `away`: by how much each source moves."""
        out = sums[powers]
        for higher in self.companions:
            if higher == powers or any(h < p for h, p in zip(higher, powers, strict=True)):
                continue
            n = sums[higher]
            times = math.prod(math.comb(h, p) for h, p in zip(higher, powers, strict=True))
            if times != 1:
                n = ir.node("mul", n.dtype, (n, ir.const(float(times), n.dtype)))
            for h, p, d in zip(higher, powers, away, strict=True):
                for _ in range(h - p):
                    n = ir.node("mul", n.dtype, (n, d))
            out = ir.node("add", out.dtype, (out, n))
        return out


def shift(late: Member, early: Mapping[Func, Member]) -> Shift:
    """The polynomial that a sum's term is in the reductions that it uses. Raises NoSplitError where it is none."""
    sources = tuple(dict.fromkeys(n for n in ir.leaves((late.term,), "load") if n.attr[0] in early))
    t = late.body.func.dtypes[0]
    if late.operator != "add" or not late.term.dtype.is_float or t.is_storage_only:
        raise NoSplitError("only sums of f32 and f64 follow a polynomial")
    if late.body.predicates:
        raise NoSplitError("its terms are a polynomial, and with where() it is not known which block is the last")
    for n in sources:
        start = early[n.attr[0]].start
        if n.dtype is not late.term.dtype:
            raise NoSplitError(f"{n.attr[0].name} has another type")
        if not (start.op == "const" and math.isfinite(start.attr)):
            raise NoSplitError(f"{n.attr[0].name} starts with {start!r}, from where a polynomial can't be moved")
    uses = Uses(list(sources))
    term = late.term
    value = late.body.values[0]
    if value.op == "sub":
        term = ir.node("neg", term.dtype, (term,))
    terms: dict[Powers, Node] = {}
    zero = (0,) * len(sources)
    terms[zero] = term
    for powers in sorted(product(range(_HIGHEST + 2), repeat=len(sources)), key=lambda p: (sum(p), p)):
        if not any(powers):
            continue
        axis = next(k for k, p in enumerate(powers) if p)
        lower = (*powers[:axis], powers[axis] - 1, *powers[axis + 1 :])
        if lower not in terms:
            continue
        found = derivative(terms[lower], sources[axis], uses)
        if found is None:
            continue
        if sum(powers) > _HIGHEST or len(terms) > _MOST:
            raise NoSplitError("its term is a polynomial of too high a degree")
        terms[powers] = _divided(found, powers[axis])
    return Shift(sources, terms)


def _divided(n: Node, by: int) -> Node:
    return n if by == 1 else ir.node("mul", n.dtype, (n, ir.const(1.0 / by, n.dtype)))


def derivative(n: Node, source: Node, uses: Uses) -> Node | None:
    """d n / d source, factor by factor, so that what is small in `n` stays small; None where it is 0."""
    found: dict[Node, Node | None] = {}
    for m in ir.postorder((n,)):
        found[m] = _rule(m, source, found, uses)
    return found[n]


def _rule(n: Node, source: Node, found: Mapping[Node, Node | None], uses: Uses) -> Node | None:
    if n is source:
        return ir.const(1.0, n.dtype)
    if not uses.depends(n) or n.op == "load":
        return None
    t = n.dtype
    d = [found[a] for a in n.args]
    if n.op == "neg":
        return _negative(d[0])
    if n.op in ("add", "sub"):
        return _plus(d[0], d[1] if n.op == "add" else _negative(d[1]))
    if n.op == "mul":
        return _plus(_times(d[0], n.args[1]), _times(d[1], n.args[0]))
    if n.op == "div" and not uses.depends(n.args[1]):
        return None if d[0] is None else ir.node("div", t, (d[0], n.args[1]))
    if widens(n):
        return None if d[0] is None else ir.node("cast", t, (d[0],))
    if n.op == "select" and not uses.depends(n.args[0]):
        if d[1] is None and d[2] is None:
            return None
        a, b = (ir.const(0.0, t) if x is None else x for x in d[1:])
        return ir.node("select", t, (n.args[0], a, b))
    what = n.attr if n.op == "call" else n.op
    raise NoSplitError(f"its term is no polynomial in what it uses: that stands inside {what}")


def _negative(n: Node | None) -> Node | None:
    if n is None:
        return None
    return ir.const(-n.attr, n.dtype) if n.op == "const" else ir.node("neg", n.dtype, (n,))


def _plus(a: Node | None, b: Node | None) -> Node | None:
    if a is None or b is None:
        return b if a is None else a
    if a is b:
        return ir.node("mul", a.dtype, (ir.const(2.0, a.dtype), a))
    return ir.node("add", a.dtype, (a, b))


def _times(a: Node | None, b: Node) -> Node | None:
    if a is None:
        return None
    return b if a.op == "const" and a.attr == 1.0 else ir.node("mul", b.dtype, (a, b))


# The definitions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Places:
    """Where the sources are taken to be in a block: `count` points in all, `before` and `seen` of them before and after
    it (index nodes)."""

    count: Node
    before: Node
    seen: Node
    early: Mapping[Func, Member]

    def now(self, source: Node) -> Node:
        """The place in this block."""
        return self._of(source, source, self.seen)

    def earlier(self, source: Node, old: Node) -> Node:
        """The place in the block before, where `old` is what the source was."""
        return self._of(
            source, old, simplify.maximum(self.before, ir.integer(1))
        )  # nothing was seen: any place will do

    def _of(self, source: Node, value: Node, points: Node) -> Node:
        if self.early[source.attr[0]].operator != "add":
            return value
        t = value.dtype
        share = ir.node("div", t, (ir.node("cast", t, (self.count,)), ir.node("cast", t, (points,))))
        return ir.node("mul", t, (value, share))


def running(
    late: Member, d: Definition, s: Shift, places: Places, name: Callable[[str], str]
) -> tuple[Definition, list[Definition]]:
    """The update of the reduction with its sources where they are in the block, and those of the sums that run along."""
    at = {n: places.now(n) for n in s.sources}
    direct = set(s.sources) <= set(ir.leaves(d.values, "load"))  # else they come in through inlined Funcs
    values = ir.substitute(d.values if direct else late.body.values, at)
    t = late.body.func.dtypes[0]
    more = []
    for powers in s.companions:
        f = Func(name(f"{late.body.func.name}_d{''.join(map(str, powers))}"), (t,))
        f.init = Definition(f, -1, late.body.func.args, (ir.const(0.0, t),), None, None)
        f.frozen_by = "online"
        (term,) = ir.substitute((s.terms[powers],), at)
        step = ir.node("add", t, (ir.node("load", t, d.lhs, (f, 0)), term))
        more.append(Definition(f, 0, d.lhs, (step,), d.rdom, d.location))
    return replace(d, values=tuple(values)), more


def moves(
    late: Member, s: Shift, places: Places, before: Mapping[Func, Func], companions: Sequence[Func]
) -> Iterator[Definition]:
    """The stages that move the sums to the place of a block, where it is another one than before."""
    body = late.body
    condition: Node | None = None
    away = []
    for n in s.sources:
        old = places.earlier(n, ir.node("load", n.dtype, n.args, (before[n.attr[0]], 0)))
        now = places.now(n)
        away.append(ir.node("sub", n.dtype, (now, old)))
        moved = ir.node("ne", bool_, (now, old))
        condition = moved if condition is None else ir.node("or", bool_, (condition, moved))
    assert condition is not None
    funcs = dict(zip(((0,) * len(s.sources), *s.companions), (body.func, *companions), strict=True))
    sums = {p: ir.node("load", f.dtypes[0], body.lhs, (f, 0)) for p, f in funcs.items()}
    for powers, f in funcs.items():
        value = s.moved(powers, sums, tuple(away))
        if value is sums[powers]:
            continue
        domain = Domain({})
        domain.predicates = (condition,)
        domain.frozen = True
        yield Definition(f, REPAIR, body.lhs, (value,), domain, body.location)


__all__ = ["Places", "Powers", "Shift", "derivative", "moves", "running", "shift"]

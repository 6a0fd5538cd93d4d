"""Bounds of regions inside of loops, kept short by what is known there.

A region that slides starts elsewhere in the first iteration than in later ones: `select(y > 0, later, first)`. What
such a region needs of others has that selection in it, once for every use, and so on from stage to stage. Here it is
brought to the outside, and of the terms of minima and maxima only those stay that can decide.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node
from tilewright.schedule.prove import Facts
from tilewright.schedule.ranges import ONE, Range, spread

Site = tuple[Range, ...]  # the loops around a place, outermost first

_MOST_TERMS = 24  # of one minimum or maximum; longer ones stay as they are
_MOST_NODES = 100  # of an expression, and
_MOST_QUESTIONS = 100  # about which of two terms decides; beyond, all terms stay


def facts_at(site: Site) -> Facts:
    """What the loops around a place say."""
    ends = (t for x in site for t in spread(simplify.sub(simplify.sub(x.stop, ONE), x.var), "min"))
    return Facts(tuple((x.var, x.interval) for x in site), tuple(t for t in ends if len(simplify.linear(t)[0]) > 1))


def at_least(a: Node, b: Node, facts: Facts) -> bool:
    """Whether a >= b certainly holds. Terms are taken apart before ranges are put in: what they share cancels."""
    least = spread(simplify.sub(a, b), "min")
    return all(any(map(facts.nonnegative, spread(t, "max"))) for t in least)


def tidied(n: Node, site: Site) -> Node:
    """An equal expression: selections between first and later iterations outside, terms that never decide gone."""
    size = sum(1 for _ in ir.postorder((n,)))
    return n if size > _MOST_NODES else _tidied(n, site, facts_at(site), [_MOST_QUESTIONS])


def tidied_range(r: Interval, site: Site) -> Interval:
    """Both ends, tidied."""
    return Interval(None if r.lo is None else tidied(r.lo, site), None if r.hi is None else tidied(r.hi, site))


def with_constant_ends(loops: Site, site: Site) -> Site:
    """Loops inside of `site`, those that always have as many iterations as one term of their end says with only that."""
    out: Site = ()
    for x in loops:
        terms = spread(x.stop, "min")
        always = [t for t in terms if simplify.sub(t, x.start).op == "const"]
        if len(always) == 1 and 1 < len(terms) <= _MOST_TERMS:
            facts = facts_at((*site, *out))
            if all(t is always[0] or at_least(t, always[0], facts) for t in terms):
                x = replace(x, stop=always[0])
        out = (*out, x)
    return out


def _tidied(n: Node, site: Site, facts: Facts, left: list[int]) -> Node:
    x = _asks(n, site)
    if x is not None:
        first = in_first(n, x)
        assert first is not None
        later = _tidied(in_later(n, x), site, facts.where(beyond_first(x)), left)
        return choice(x, later, _tidied(first, site, facts, left))
    for op in ("min", "max"):
        terms = spread(n, op)
        if 1 < len(terms) <= _MOST_TERMS:
            return _deciding(op, [_tidied(t, site, facts, left) for t in terms], facts, left)
    return n


def _deciding(op: str, terms: list[Node], facts: Facts, left: list[int]) -> Node:
    """The minimum or maximum of terms, without those that another one makes superfluous."""

    def decides(u: Node, t: Node) -> bool:
        left[0] -= 1
        return left[0] >= 0 and (at_least(u, t, facts) if op == "max" else at_least(t, u, facts))

    terms = list(dict.fromkeys(t for term in terms for t in spread(term, op)))
    kept = list(terms)
    for t in terms:
        others = [u for u in kept if u is not t]
        if any(decides(u, t) for u in others):
            kept = others
    out = kept[0]
    for t in kept[1:]:
        out = simplify.build(op, out.dtype, (out, t))
    return out


# First and later iterations -------------------------------------------------------------------------------------


def beyond_first(x: Range) -> Node:
    """The condition that a loop is not in its first iteration."""
    return simplify.compare("gt", x.var, x.start)


def choice(x: Range, later: Node, first: Node) -> Node:
    """`later`, but `first` in the first iteration of a loop."""
    return later if later is first else simplify.build("select", later.dtype, (beyond_first(x), later, first))


def _asks(n: Node, site: Site) -> Range | None:
    """The outermost loop whose first iteration is told apart in `n`."""
    conditions = {s.args[0] for s in ir.leaves((n,), "select")}
    return next((x for x in site if beyond_first(x) in conditions), None)


def in_first(n: Node, x: Range) -> Node | None:
    """`n` in the first iteration of a loop, where its variable is gone; None where no first iteration is told apart."""
    return None if _asks(n, (x,)) is None else ir.substitute((_arm(n, x, 2),), {x.var: x.start})[0]


def in_later(n: Node, x: Range) -> Node:
    """`n` in the other iterations."""
    return _arm(n, x, 1)


def in_second(n: Node, x: Range) -> Node:
    """`n` in the second iteration."""
    return ir.substitute((n,), {x.var: simplify.add(x.start, ONE)})[0]


def where_two(x: Range, outer: Site) -> Facts:
    """What is known outside of a loop that has two iterations."""
    return facts_at(outer).where(simplify.compare("lt", simplify.add(x.start, ONE), x.stop))


def _arm(n: Node, x: Range, arm: int) -> Node:
    c = beyond_first(x)
    while found := {s: s.args[arm] for s in ir.leaves((n,), "select") if s.args[0] is c}:
        (n,) = ir.substitute((n,), found)
    return n


def cases(r: Interval, site: Site) -> list[Interval]:
    """The ranges that `r` may be, none of which tells first iterations apart."""
    assert r.lo is not None and r.hi is not None
    x = _asks(r.lo, site) or _asks(r.hi, site)
    if x is None:
        return [r]
    later = Interval(in_later(r.lo, x), in_later(r.hi, x))
    first = Interval(*(ir.substitute((_arm(n, x, 2),), {x.var: x.start})[0] for n in (r.lo, r.hi)))
    return [*cases(later, site), *cases(first, site)]

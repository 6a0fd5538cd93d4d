"""Interval analysis: the range of an index expression when variables run over ranges, as index expressions again.

`None` as a bound means unbounded. Bounds are inclusive. Conditions refine the arms of a select:
`select(0 <= x & x < n, x, 0)` stays inside 0..n-1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, floordiv, maximum, minimum, mul, neg, sub
from tilewright.lang.types import i64, index

Bound = Node | None


@dataclass(frozen=True, slots=True)
class Interval:
    """lo..hi, both inclusive; None where there is no bound."""

    lo: Bound
    hi: Bound

    @property
    def bounded(self) -> bool:
        return self.lo is not None and self.hi is not None


EVERYTHING = Interval(None, None)


def point(n: Node) -> Interval:
    return Interval(n, n)


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval that holds both."""
    return Interval(
        None if a.lo is None or b.lo is None else minimum(a.lo, b.lo),
        None if a.hi is None or b.hi is None else maximum(a.hi, b.hi),
    )


def intersect(a: Interval, b: Interval) -> Interval:
    lo = b.lo if a.lo is None else a.lo if b.lo is None else maximum(a.lo, b.lo)
    hi = b.hi if a.hi is None else a.hi if b.hi is None else minimum(a.hi, b.hi)
    return Interval(lo, hi)


Env = Mapping[Node, Interval]


def bounds(n: Node, env: Env) -> Interval:
    """The range of `n` (an integer expression) over all values of the variables in `env`.

    Leaves that are not in `env` stand for themselves (outer loop variables, sizes).
    """
    if len(env) == 1:
        ((x, r),) = env.items()
        return _over_one(n, x, r.lo, r.hi)
    return _Analysis(env).of(n)


@lru_cache(1 << 13)
def _over_one(n: Node, x: Node, lo: Bound, hi: Bound) -> Interval:
    """`bounds` over one variable: proofs put in one loop after the other, and come to the same expressions again."""
    return _Analysis({x: Interval(lo, hi)}).of(n)


def all_bounds(nodes: Iterable[Node], env: Env) -> list[Interval]:
    """The ranges of several nodes at once."""
    return list(map(ranges_over(env), nodes))


def ranges_over(env: Env) -> Callable[[Node], Interval]:
    """`bounds` over one environment, for many nodes."""
    return _Analysis(env).of


def refine(env: Env, known: list[tuple[Node, Interval]]) -> Env:
    """`env` where the facts of a condition hold as well (see `facts`)."""
    return _Analysis(env).with_facts(known) if known else env


_DEEPEST = 32  # selects inside each other whose conditions count; beyond, an arm has its range without them


class _Analysis:
    def __init__(self, env: Env, depth: int = 0):
        self.env, self.depth = env, depth
        self.memo: dict[Node, Interval] = {}
        self.moving = frozenset(env) if all(n.op == "var" for n in env) else None

    def of(self, n: Node) -> Interval:
        found = self.memo.get(n)
        if found is None:
            for m in self._unknown(n):  # arguments first, so that the recursion below stays flat
                if m not in self.memo and not self._refines(m):
                    self.memo[m] = self._one(m)
            found = self.memo.get(n) or self._one(n)
            self.memo[n] = found
        return found

    def _unknown(self, n: Node) -> Iterator[Node]:
        """What is below `n` and not known yet, arguments before users."""
        memo, stack = self.memo, [(n, False)]
        while stack:
            m, ready = stack.pop()
            if ready:
                yield m
            elif m not in memo:
                if self._fixed(m):
                    memo[m] = point(m)
                elif m.args:
                    stack.append((m, True))
                    stack += [(a, False) for a in m.args[::-1] if a not in memo]
                else:
                    yield m

    def _fixed(self, n: Node) -> bool:
        """Whether `n` is index arithmetic in which nothing varies."""
        return self.moving is not None and ir.plain(n) and self.moving.isdisjoint(ir.variables(n))

    def _get(self, n: Node) -> Interval:
        found = self.memo.get(n)
        if found is None:
            found = self.memo[n] = point(n) if self._fixed(n) else self._one(n)
        return found

    def _varies(self, n: Node) -> bool:
        """Whether an expression takes several values over the environment."""
        r = self._get(n)
        return r.lo is not n or r.hi is not n

    def _one(self, n: Node) -> Interval:
        if n in self.env:
            return self.env[n]
        if not n.dtype.is_int:
            return EVERYTHING
        if n.dtype is index:
            if n.op in ("const", "var", "size", "rvar", "scalar"):
                return point(n)
            if n.op in ("add", "mul"):
                return self._linear(n)
            if n.op == "select" and not any(m in self.env or m.op in ("load", "assume") for m in ir.postorder((n,))):
                return point(n)
            if n.op == "cast" and n.args[0].op == "scalar" and n.args[0].dtype.is_int and n.args[0] not in self.env:
                return point(n)  # one number in a call
            if n.op not in ("assume", "span") and all(a.dtype is index and self._get(a) == point(a) for a in n.args):
                return point(n)  # nothing in it varies
        rule = _RULES.get(n.op)
        found = rule(self, n) if rule else EVERYTHING
        return found if n.dtype is index or n.op == "assume" else _fit(n, found)

    def _linear(self, n: Node) -> Interval:
        """A sum of multiples: each atom's range once, so that equal terms of both bounds cancel."""
        coefs, c = simplify.linear(n)
        if n.op == "mul" and n in coefs:
            return _times(self._get(n.args[0]), self._get(n.args[1]))
        ranges = [(self._get(t), k) for t, k in coefs.items()]
        return Interval(
            simplify.total([(r.lo if k > 0 else r.hi, k) for r, k in ranges], c),
            simplify.total([(r.hi if k > 0 else r.lo, k) for r, k in ranges], c),
        )

    def _refines(self, n: Node) -> bool:
        """Whether the arms of a select are looked at with what its condition says."""
        return n.op == "select" and self.depth < _DEEPEST and bool(facts(n.args[0]) or facts_if_false(n.args[0]))

    def select(self, n: Node) -> Interval:
        c, a, b = n.args
        holds, fails = (facts(c), facts_if_false(c)) if self.depth < _DEEPEST else ([], [])
        return union(self._refined(a, holds), self._refined(b, fails))

    def _refined(self, n: Node, known: list[tuple[Node, Interval]]) -> Interval:
        """The range of n where bounds on some expressions are known."""
        return _Analysis(self.with_facts(known), self.depth + 1).of(n) if known else self._get(n)

    def with_facts(self, known: list[tuple[Node, Interval]]) -> Env:
        env = dict(self.env)
        for e, r in known:
            r = Interval(_end(r.lo, self, True), _end(r.hi, self, False))
            env[e] = intersect(env[e] if e in env else self._get(e), r)
        return env


def _end(b: Bound, a: _Analysis, low: bool) -> Bound:
    """A bound that may itself vary, at its safe end."""
    if b is None:
        return None
    r = a._get(b)
    return r.lo if low else r.hi


def _fit(n: Node, r: Interval) -> Interval:
    """Typed integers wrap: keep what is known only if it stays inside the type, else the type's own range.

    64 bits are taken to hold what sizes make: the call checks that (see lang.binding).
    """
    t = n.dtype
    if t.bits == 64 and _keeps_values(n):
        return r
    kept = [b for b in (r.lo, r.hi) if b is not None]
    constant = all(b.op == "const" for b in kept)
    if len(kept) == 2 and t.bits == 64 and t.kind == "i" and not constant:
        return r
    if len(kept) == 2 and constant and all(t.low <= b.attr <= t.high for b in kept):
        return r
    return Interval(integer(t.low), integer(t.high)) if t.bits <= 32 else EVERYTHING


def _keeps_values(n: Node) -> bool:
    """Whether the result is one of the arguments' values, which fits where they do."""
    if n.op != "cast":
        return n.op in ("min", "max", "select")
    a, t = n.args[0].dtype, n.dtype
    return a.is_int and t.low <= a.low and a.high <= t.high


def _times(x: Interval, y: Interval) -> Interval:
    if not (x.bounded and y.bounded):
        return EVERYTHING
    assert x.lo and x.hi and y.lo and y.hi
    if x.lo is x.hi and certainly_nonnegative(x.lo):
        return Interval(mul(y.lo, x.lo), mul(y.hi, x.lo))
    if y.lo is y.hi and certainly_nonnegative(y.lo):
        return Interval(mul(x.lo, y.lo), mul(x.hi, y.lo))
    ends = [mul(a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    lo = hi = ends[0]
    for e in ends[1:]:
        lo, hi = minimum(lo, e), maximum(hi, e)
    return Interval(lo, hi)


def certainly_nonnegative(n: Node) -> bool:
    """Certainly >= 0 because it is made of sizes and non-negative numbers."""
    if n.op == "const":
        return n.attr >= 0
    if n.op == "size":
        return True
    if n.op == "max":
        return any(map(certainly_nonnegative, n.args))
    if n.op in ("add", "mul", "floordiv", "min"):
        return all(map(certainly_nonnegative, n.args))
    return False


def _ring(fn):
    def rule(a: _Analysis, n: Node) -> Interval:
        x, y = a._get(n.args[0]), a._get(n.args[1])
        return fn(x, y)

    return rule


def _add(x: Interval, y: Interval) -> Interval:
    return Interval(
        None if x.lo is None or y.lo is None else add(x.lo, y.lo),
        None if x.hi is None or y.hi is None else add(x.hi, y.hi),
    )


def _sub(x: Interval, y: Interval) -> Interval:
    return Interval(
        None if x.lo is None or y.hi is None else sub(x.lo, y.hi),
        None if x.hi is None or y.lo is None else sub(x.hi, y.lo),
    )


def _min(x: Interval, y: Interval) -> Interval:
    hi = y.hi if x.hi is None else x.hi if y.hi is None else minimum(x.hi, y.hi)
    return Interval(None if x.lo is None or y.lo is None else minimum(x.lo, y.lo), hi)


def _max(x: Interval, y: Interval) -> Interval:
    lo = y.lo if x.lo is None else x.lo if y.lo is None else maximum(x.lo, y.lo)
    return Interval(lo, None if x.hi is None or y.hi is None else maximum(x.hi, y.hi))


def _extreme(fn):
    """min and max; where the two arguments move against each other, half their sum is a bound: min(k, n - k) <= n/2."""

    def rule(a: _Analysis, n: Node) -> Interval:
        x, y = n.args
        found = fn(a._get(x), a._get(y))
        if n.dtype is not index:
            return found
        total = add(x, y)
        if len(simplify.linear(total)[0]) >= len(simplify.linear(x)[0]) + len(simplify.linear(y)[0]):
            return found
        r = bounds(total, a.env)
        if n.op == "min" and r.hi is not None:
            return intersect(found, Interval(None, floordiv(r.hi, integer(2))))
        if n.op == "max" and r.lo is not None:
            return intersect(found, Interval(neg(floordiv(neg(r.lo), integer(2))), None))
        return found

    return rule


def _floordiv(a: _Analysis, n: Node) -> Interval:
    x, d = a._get(n.args[0]), _as_index(n.args[1]) or n.args[1]
    if d.op == "const" and d.attr > 0:
        return Interval(x.lo and floordiv(x.lo, d), x.hi and floordiv(x.hi, d))
    if certainly_nonnegative(d) and x.bounded:  # a positive divisor, or 0 where the quotient is 0
        assert x.lo and x.hi
        if a._varies(d):  # by 1 at the least
            return Interval(minimum(x.lo, integer(0)), maximum(x.hi, integer(0)))
        return Interval(minimum(floordiv(x.lo, d), integer(0)), maximum(floordiv(x.hi, d), integer(0)))
    return EVERYTHING


def _mod(a: _Analysis, n: Node) -> Interval:
    x, divisor = a._get(n.args[0]), _as_index(n.args[1]) or n.args[1]
    if divisor.op == "const" and divisor.attr > 0:
        k = divisor.attr
        if x.lo is not None and x.hi is not None and x.lo.op == x.hi.op == "const" and 0 <= x.lo.attr <= x.hi.attr < k:
            return x
        return Interval(integer(0), integer(k - 1))
    if certainly_nonnegative(divisor):
        top = a._get(divisor).hi
        return Interval(integer(0), None if top is None else maximum(sub(top, integer(1)), integer(0)))
    return EVERYTHING


def _abs(a: _Analysis, n: Node) -> Interval:
    x = a._get(n.args[0])
    if not x.bounded:
        return Interval(integer(0), None)
    assert x.lo and x.hi
    return Interval(maximum(maximum(x.lo, neg(x.hi)), integer(0)), maximum(x.hi, neg(x.lo)))


def _cast(a: _Analysis, n: Node) -> Interval:
    source = n.args[0]
    if not source.dtype.is_int:
        return Interval(integer(0), integer(1)) if source.dtype.is_bool else EVERYTHING
    return a._get(source)  # where it does not fit, `_fit` (typed) or the range check (index) takes over


def _and(a: _Analysis, n: Node) -> Interval:
    for m in n.args:
        if m.op == "const" and m.attr >= 0:
            return Interval(integer(0), integer(m.attr))
    return EVERYTHING


def _shr(a: _Analysis, n: Node) -> Interval:
    x, k = a._get(n.args[0]), n.args[1]
    if k.op == "const" and 0 <= k.attr < n.dtype.bits:
        d = integer(1 << k.attr)
        return Interval(x.lo and floordiv(x.lo, d), x.hi and floordiv(x.hi, d))
    return EVERYTHING


def _assume(a: _Analysis, n: Node) -> Interval:
    x, low, high = (a._get(m) for m in n.args)
    if x.lo is not None and x.lo is x.hi:
        return x
    return intersect(x, Interval(low.lo, None if high.hi is None else sub(high.hi, integer(1))))


def _span(a: _Analysis, n: Node) -> Interval:
    """All of start..stop - 1."""
    hi = a._get(n.args[1]).hi
    return Interval(a._get(n.args[0]).lo, None if hi is None else sub(hi, integer(1)))


_RULES = {
    "const": lambda a, n: point(integer(n.attr)),
    "add": _ring(_add), "sub": _ring(_sub), "mul": _ring(_times), "min": _extreme(_min), "max": _extreme(_max),
    "neg": lambda a, n: _sub(point(integer(0)), a._get(n.args[0])),
    "floordiv": _floordiv, "mod": _mod, "abs": _abs, "cast": _cast, "and": _and, "shr": _shr,
    "select": _Analysis.select, "assume": _assume, "span": _span,
    "load": lambda a, n: EVERYTHING,
}  # fmt: skip


# Facts from conditions --------------------------------------------------------------------------------------------


def facts(c: Node) -> list[tuple[Node, Interval]]:
    """Bounds on expressions that hold where `c` does."""
    return [f for part in ir.spread(c, "and") for f in _facts(part)]


def _facts(c: Node) -> list[tuple[Node, Interval]]:
    if c.op in ("lt", "le", "gt", "ge", "eq") and c.args[0].dtype.is_int:
        a, b = c.args
        one = integer(1)
        if a.dtype is not index:
            x, y = _as_index(a), _as_index(b)
            found = [] if y is None else [(e, _range_of(c.op, y, one)) for e in _same_value(a)]
            return found if x is None else [*found, *((e, _range_of(_SWAP[c.op], x, one)) for e in _same_value(b))]
        return [(a, _range_of(c.op, b, one)), (b, _range_of(_SWAP[c.op], a, one)), *_isolated(c.op, a, b)]
    return []


def _as_index(n: Node) -> Node | None:
    """A typed constant or index expression (converted to i64) as an index node; None for what is neither."""
    if n.op == "const":
        return integer(n.attr)
    return n.args[0] if n.op == "cast" and n.dtype is i64 and n.args[0].dtype is index else None


def _same_value(n: Node) -> list[Node]:
    """`n` and what it was widened from: a fact about the one holds for the other."""
    out = [n]
    while n.op == "cast" and _keeps_values(n):
        n = n.args[0]
        out.append(n)
    return out


_SWAP = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "ne": "eq"}


def _range_of(op: str, b: Node, one: Node) -> Interval:
    return {
        "lt": lambda: Interval(None, sub(b, one)), "le": lambda: Interval(None, b),
        "gt": lambda: Interval(add(b, one), None), "ge": lambda: Interval(b, None), "eq": lambda: Interval(b, b),
    }[op]()  # fmt: skip


def _isolated(op: str, a: Node, b: Node) -> list[tuple[Node, Interval]]:
    """a OP b solved for each variable in it."""
    coefs, c = simplify.linear(sub(a, b))
    out = []
    for t, k in coefs.items():
        if t.op in ("var", "rvar") and t is not a and t is not b:
            sign = 1 if k > 0 else -1
            rest = simplify.from_linear({u: -sign * v for u, v in coefs.items() if u is not t}, -sign * c)
            r = _range_of(op if k > 0 else _SWAP[op], rest, integer(1))  # of |k| * t
            n = integer(abs(k))
            lo = None if r.lo is None else simplify.neg(simplify.floordiv(simplify.neg(r.lo), n))
            out.append((t, Interval(lo, None if r.hi is None else simplify.floordiv(r.hi, n))))
    return out


def facts_if_false(c: Node) -> list[tuple[Node, Interval]]:
    """Bounds that hold where `c` does not."""
    found: list[tuple[Node, Interval]] = []
    for part in ir.spread(c, "or"):
        if part.op == "not":
            found += facts(part.args[0])
        elif part.op in _NEGATED:
            found += facts(ir.node(_NEGATED[part.op], part.dtype, part.args))
    return found

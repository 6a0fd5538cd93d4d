"""Which updates of a (value, index) pair choose the better of two pairs, whatever way they are written.

`f[()] = (select(c, v, best), select(c, k, at))` takes the point's pair (v, k) or keeps (best, at). The condition is read
as a disjunction of what is known to be an order:

    v > best, v < best, v >= best, v <= best    either operand first; with integers also negated, or with the arms
                                                of both selects exchanged, or the value as maximum(best, v)
    (v != v) & (best == best)                   with > and <: the first NaN wins (and stays)
    ~(v <= best) & (best == best)               the same as both: a better number or the first NaN
    v != v                                      with >= and <=: the last NaN wins
    at < 0, at == -1                            nothing was seen so far (the lowest i64 is in partial results)
    (v == best) & (k < at)                      equal values: the smaller index wins (or the larger one, k > at)

Without the last form equal values are decided by the order of the points. Partial results then know that order from
the index alone: it must grow from each point of the domain to the next. Refused is what depends on the order in other
ways: a NaN that is kept because it came first, a first index that may be taken for "nothing seen".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.lang import expr, ir, simplify, types
from tilewright.lang.expr import Expr, cast_node, wrap
from tilewright.lang.func import Definition
from tilewright.lang.intervals import Interval, bounds, certainly_nonnegative
from tilewright.lang.ir import Node
from tilewright.lang.reduce import identity
from tilewright.lang.types import DType

Values = tuple[Node, ...]
LOWEST = types.i64.low  # the index of a partial result without points; no point has it


@dataclass(frozen=True)
class Order:
    """What makes one pair win over another: the larger (`top`) or smaller value; of equal ones the later point where it
    is not `strict`. `nan`: NaN wins over numbers. `unseen`: any point wins where at is below 0 ("lt"), or is this
    number. `tie`: of equal values the smaller ("lt") or larger ("gt") index wins,
    whenever its point comes."""

    top: bool
    strict: bool
    nan: bool = False
    unseen: str | int = ""
    tie: str = ""

    def better(self, v: Expr, best: Expr) -> Expr:
        """v is strictly better than best."""
        if self.nan:  # one comparison less than a better number, or NaN where there was a number
            return ~(v <= best if self.top else v >= best) & (best == best)
        return v > best if self.top else v < best

    def equal(self, v: Expr, best: Expr) -> Expr:
        same = v == best
        return same | ((v != v) & (best != best)) if self.nan else same

    def takes(self, v: Expr, k: Expr, best: Expr, at: Expr) -> Expr:
        """The condition, in the one form that all others are equal to."""
        wins = self.better(v, best)
        if self.tie:
            wins = wins | ((v == best) & (k < at if self.tie == "lt" else k > at))
        elif not self.strict:
            wins = v >= best if self.top else v <= best
            wins = wins | (v != v) if self.nan else wins
        if self.unseen == "":
            return wins
        return (at < 0 if self.unseen == "lt" else at == self.unseen) | wins


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair reduction. `dtypes` and `identity` are those of partial results, whose index is i64 where the order of the
    points decides; `steps` gives the values of their steps in terms of the pair that they update."""

    top: bool
    dtypes: tuple[DType, ...]
    identity: Values
    steps: Callable[[Values], Values]
    combine: Callable[[Values, Values], Values]
    merge: Callable[[Values, Values], Values]
    ordered: bool
    exact: bool


def match_pair(d: Definition, best: Node, at: Node) -> Pair | None:
    """The pair reduction that an update of two components, which it reads as `best` and `at`, is; or None."""
    t, narrow = d.func.dtypes
    if t.is_storage_only or t.is_bool or not narrow.is_int:
        return None  # a value that is rounded when it is stored is not the one that was compared
    found = _arms(d, best, at)
    if found is None:
        return None
    v, k, order = found
    if any(n.attr[0] is d.func for n in ir.leaves((v, k), "load")):
        return None
    if t.is_float and order.unseen != "" and not order.nan:
        return None  # a NaN that comes first stays, one that comes later is passed over
    if order.tie:
        return _by_index(d, v, k, order, t, narrow)
    index, casts = _index(k)
    if index is None or not grows(d, index):
        return None
    if order.unseen not in ("", LOWEST) and not _natural(d, index, casts):
        return None  # an index below 0 would count as nothing seen
    start = (ir.const(identity("max" if order.top else "min", t), t.compute), ir.const(LOWEST, types.i64))
    first = _first_point(d, index) if order.strict and order.unseen != "" else None
    inside = replace(order, unseen="" if order.unseen == "" or first is not None else LOWEST)

    def steps(mine: Values) -> Values:
        return _chosen(inside, (v, cast_node(index, types.i64)), mine)

    def combine(a: Values, b: Values) -> Values:
        (x, i), (y, j) = (tuple(map(wrap, p)) for p in (a, b))
        first = j < i if order.strict else j > i
        takes = (j > LOWEST) & ((i == LOWEST) | order.better(y, x) | (order.equal(y, x) & first))
        return expr.select(takes, y, x).node, expr.select(takes, j, i).node

    def merge(mine: Values, theirs: Values) -> Values:
        (x, i), (y, j) = (tuple(map(wrap, p)) for p in (mine, theirs))
        if first is not None:
            some, at = first
            j = expr.select(wrap(some) & (j == LOWEST), wrap(at), j)
        takes = (j > LOWEST) & order.takes(y, j, x, wrap(cast_node(i.node, types.i64)))
        narrowed = j.node
        for c in reversed(casts):
            narrowed = cast_node(narrowed, c)
        return expr.select(takes, y, x).node, expr.select(takes, wrap(narrowed), i).node

    return Pair(order.top, (t, types.i64), start, steps, combine, merge, True, True)


def _first_point(d: Definition, index: Node) -> tuple[Node, Node] | None:
    """Whether a domain has points, and the index of its first one, where they are the same for all of them.

    Where no point is better than the identity all are equal to it, and the first one counts: partial results need not
    ask at each step whether they have seen any. None where only data or variables of the Func say which point is first.
    """
    assert d.rdom is not None
    ends = [n for r in d.rdom.ranges.values() for n in r]
    if d.predicates or any(n.op in ("var", "load") for n in ir.postorder((index, *ends))):
        return None
    some = ir.TRUE
    for start, stop in d.rdom.ranges.values():
        some = simplify.conjunction(some, simplify.compare("lt", start, stop))
    (first,) = ir.substitute((index,), {d.rdom.rvar(n): start for n, (start, _) in d.rdom.ranges.items()})
    return some, cast_node(first, types.i64)


def _by_index(d: Definition, v: Node, k: Node, order: Order, t: DType, narrow: DType) -> Pair | None:
    """Equal values are decided by the index: an order of pairs, so that points may come in any order."""
    if order.unseen != "" or order.nan:
        return None
    last = narrow.high if order.tie == "lt" else narrow.low
    start = (ir.const(identity("max" if order.top else "min", t), t.compute), ir.const(last, narrow))
    index, _ = _index(k)
    exact = not t.is_float or (index is not None and grows(d, index))  # else 0.0 and -0.0 may have one index

    def combine(a: Values, b: Values) -> Values:
        return _chosen(order, b, a)

    return Pair(
        order.top, (t, narrow), start, lambda mine: _chosen(order, (v, k), mine), combine, combine, False, exact
    )


def _chosen(order: Order, new: Values, old: Values) -> Values:
    (v, k), (best, at) = (tuple(map(wrap, p)) for p in (new, old))
    takes = order.takes(v, k, best, at)
    return expr.select(takes, v, best).node, expr.select(takes, k, at).node


# Reading the condition ------------------------------------------------------------------------------------------------


def _arms(d: Definition, best: Node, at: Node) -> tuple[Node, Node, Order] | None:
    """The point's value and index, and the order that decides between them and what was there."""
    first, second = d.values
    if second.op != "select":
        return None
    c, k, kept = second.args
    exchanged = k is at
    if exchanged:
        k, kept = kept, k
    if kept is not at:
        return None
    if first.op in ("max", "min") and best in first.args and not first.dtype.is_float:
        v = first.args[1] if first.args[0] is best else first.args[0]
        order = _order(c, v, k, best, at, exchanged)
        return (v, k, order) if order is not None and order.top == (first.op == "max") and order.unseen == "" else None
    if first.op != "select" or first.args[0] is not c:
        return None
    v, old = first.args[1:][::-1] if exchanged else first.args[1:]
    order = _order(c, v, k, best, at, exchanged) if old is best else None
    return None if order is None else (v, k, order)


def _order(c: Node, v: Node, k: Node, best: Node, at: Node, negated: bool) -> Order | None:
    if negated or c.op == "not":
        inner = c.args[0] if c.op == "not" else c
        twice = negated and c.op == "not"
        found = _compared(inner, v, best)
        if found is None or (v.dtype.is_float and not twice):
            return None  # NaN: not (a > b) is not a <= b
        return found if twice else Order(not found.top, not found.strict)
    order: Order | None = None
    nan: str | None = None
    unseen: str | int = ""
    tie = ""
    for part in ir.spread(c, "or"):
        plain = _compared(part, v, best)
        if plain is not None and order is None:
            order = plain
        elif unseen == "" and (said := _nothing_seen(part, at)) != "":
            unseen = said
        elif _unequal(part, v):
            nan = "last"
        elif part.op == "and" and not nan and _first_nan(part, v, best):
            nan = "first"
        elif part.op == "and" and not nan and order is None and (said := _better_or_nan(part, v, best)) is not None:
            order, nan = said, "first"
        elif part.op == "and" and not tie:
            tie = _tie(part, v, k, best, at)
            if not tie:
                return None
        else:
            return None
    if order is None or (nan is not None and nan != ("first" if order.strict else "last")):
        return None
    if tie and not order.strict:
        return None  # equal values are taken anyway
    return replace(order, nan=nan is not None, unseen=unseen, tie=tie)


_TURNED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


def _comparison(n: Node, a: Node, b: Node) -> str:
    """How `n` compares a with b: gt, ge, lt, le; "" if it is no such comparison."""
    if n.op not in _TURNED:
        return ""
    return n.op if n.args == (a, b) else _TURNED[n.op] if n.args == (b, a) else ""


def _compared(n: Node, v: Node, best: Node) -> Order | None:
    op = _comparison(n, v, best)
    return Order(op in ("gt", "ge"), op in ("gt", "lt")) if op else None


def _nothing_seen(n: Node, at: Node) -> str | int:
    """at < 0 (lt), at == -1 or LOWEST (that number), or ""."""
    for x, number in ((n.args[0], n.args[1]), n.args[::-1]) if len(n.args) == 2 else ():
        if x is at and number.op == "const":
            if n.op == "eq" and number.attr in (-1, LOWEST):
                return number.attr
            return "lt" if (_comparison(n, x, number), number.attr) in (("lt", 0), ("le", -1)) else ""
    return ""


def _unequal(n: Node, v: Node) -> bool:
    """v is NaN."""
    return n.op == "ne" and n.args == (v, v)


def _first_nan(n: Node, v: Node, best: Node) -> bool:
    """v is NaN and best is none."""
    other = _where_number(n, best)
    return other is not None and _unequal(other, v)


def _better_or_nan(n: Node, v: Node, best: Node) -> Order | None:
    """best is a number, and v is NaN or better: not (v <= best)."""
    other = _where_number(n, best)
    if other is None or other.op != "not" or not v.dtype.is_float:
        return None
    found = _compared(other.args[0], v, best)
    return None if found is None or found.strict else Order(not found.top, True)


def _where_number(n: Node, best: Node) -> Node | None:
    """What else a condition asks for than that best is a number."""
    parts = ir.spread(n, "and")
    other = [p for p in parts if not (p.op == "eq" and p.args == (best, best)) and not _is_not_nan(p, best)]
    return other[0] if len(parts) == 2 and len(other) == 1 else None


def _is_not_nan(n: Node, best: Node) -> bool:
    return n.op == "not" and _unequal(n.args[0], best)


def _tie(n: Node, v: Node, k: Node, best: Node, at: Node) -> str:
    """Which index wins where v == best: the smaller one (lt) or the larger one (gt); "" where it is no such condition."""
    parts = ir.spread(n, "and")
    same = [p for p in parts if p.op == "eq" and set(p.args) == {v, best}]
    other = [p for p in parts if p not in same]
    if len(same) != 1 or len(other) != 1:
        return ""
    return {"lt": "lt", "gt": "gt"}.get(_comparison(other[0], k, at), "")


# Indices --------------------------------------------------------------------------------------------------------------


def _index(k: Node) -> tuple[Node | None, tuple[DType, ...]]:
    """The index expression below the conversions of a typed index, and their types, the last one first."""
    casts = []
    while k.op == "cast" and k.dtype.is_int:
        casts.append(k.dtype)
        k = k.args[0]
    return (k if k.dtype is types.index else None), tuple(casts)


def grows(d: Definition, k: Node) -> bool:
    """Whether an index grows from each point of the domain to the next: then the smallest one is that of the first."""
    if d.rdom is None:
        return False
    coefs = dict(simplify.linear(k)[0])
    reach: int | None = 0  # how far the variables further in can take it
    for name, (start, stop) in reversed(d.rdom.ranges.items()):
        step = coefs.pop(d.rdom.rvar(name), 0)
        if reach is None or step <= reach:
            return False
        extent = simplify.sub(stop, start)
        reach = reach + step * max(0, extent.attr - 1) if extent.op == "const" else None
    return not ir.leaves(tuple(coefs), "rvar")


def _natural(d: Definition, k: Node, casts: tuple[DType, ...]) -> bool:
    """Whether an index is certainly never below 0, nor beyond what the types that it is converted to can hold."""
    assert d.rdom is not None
    ends = {d.rdom.rvar(n): Interval(a, simplify.sub(b, ir.integer(1))) for n, (a, b) in d.rdom.ranges.items()}
    r = bounds(k, ends)
    top = r.hi.attr if r.hi is not None and r.hi.op == "const" else None
    fits = all(t is types.i64 or (top is not None and top <= t.high) for t in casts)
    return fits and r.lo is not None and certainly_nonnegative(r.lo)


__all__ = ["Order", "Pair", "grows", "match_pair"]

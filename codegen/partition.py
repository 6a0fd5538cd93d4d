"""Loop partitioning: where the conditions inside certainly hold they vanish.

Conditions are the guards of tails and what boundary conditions mark as `likely`. They are dealt with at the innermost
serial loop, by one of two ways:

* the loop is parted: before and after its middle part it keeps the conditions, in the middle they are gone;
* where only some statements of its body have conditions and another one holds the work (the reduction loop of a
  register tile between the loads and stores of the tile), these statements get two versions and the work stays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.codegen import loops as L
from tilewright.codegen.edges import rolled, weight
from tilewright.codegen.prove import conjuncts
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.schedule.ranges import as_ge0
from tilewright.schedule.state import refuse

ZERO, ONE = integer(0), integer(1)


@dataclass(frozen=True)
class Condition:
    """A condition and the least value of its >= 0 form over the constant loops between it and the place of interest."""

    node: Node
    least: Node


# The variables of vector loops around, and of those along an axis of a machine's array: what is decided holds for all lanes
# and all elements, so that elements at the same iteration are in the same part of a loop.
Lanes = dict[Node, Interval]


def partition(s: L.Stmt, lanes: Lanes | None = None) -> L.Stmt:
    """Part every loop of `s` where it helps, inner ones first."""
    around = lanes or {}
    match s:
        case L.Block(statements):
            return L.block(*(partition(t, around) for t in statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, partition(body, around))
        case L.Section(body=body) | L.Turn(body=body):
            return replace(s, body=partition(body, around))
        case L.If(c, then, otherwise, versions):
            return L.If(
                c, partition(then, around), None if otherwise is None else partition(otherwise, around), versions
            )
        case L.For(var, start, stop, mode, body):
            if mode == L.VECTORIZE or s.axis:
                return replace(s, body=partition(body, {**around, var: _interval(start, stop)}))
            inner = partition(body, around)
            if s.part == "never":
                return replace(s, body=inner)
            if s.part == "always":
                return _parted(replace(s, body=inner), body, around)
            if mode in (L.SERIAL, L.PARALLEL) and _holds_work_apart(inner, around):
                inner = _versions(inner, around)
            elif mode == L.SERIAL:
                inner, body = (_beside_work(t, var, around) for t in (inner, body))
            made = replace(s, body=inner)
            if mode == L.SERIAL:
                return _part(made, body, around)
            return _part_uniform(made, body, around) if mode == L.PARALLEL else made
    return s


def _interval(start: Node, stop: Node) -> Interval:
    return Interval(start, simplify.sub(stop, ONE))


# Two versions of statements -------------------------------------------------------------------------------------


def _holds_work_apart(s: L.Stmt, lanes: Lanes) -> bool:
    """Whether the body has statements with conditions beside a serial loop without any."""
    parts = _statements(s)
    plain = [t for t in parts if not any(True for _ in conditions(t, lanes))]
    return 0 < len(plain) < len(parts) and any(
        isinstance(t, L.For) and t.mode == L.SERIAL for p in plain for t in L.walk(p)
    )


def _statements(s: L.Stmt) -> list[L.Stmt]:
    match s:
        case L.Block(statements):
            return [t for u in statements for t in _statements(u)]
        case L.Allocate(body=body) | L.Section(body=body) | L.Turn(body=body):
            return _statements(body)
    return [s]


def _beside_work(s: L.Stmt, var: Node, lanes: Lanes) -> L.Stmt:
    """The body of the loop `var`, where what holds the work has conditions of this loop alone: for those of loops further
    out, which are in statements beside it, these get two versions, so that no other loop has to be parted for them."""
    work = [t for t in _statements(s) if any(isinstance(u, L.For) and u.mode == L.SERIAL for u in L.walk(t))]
    found = [c for t in work for c in conditions(t, lanes)]
    return _versions(s, lanes, var) if found and all(var in ir.variables(c.least) for c in found) else s


def _versions(s: L.Stmt, lanes: Lanes, but: Node | None = None) -> L.Stmt:
    """Every statement that has conditions (other ones than of the loop `but`), as a fast form for where they hold and the
    form it had."""
    match s:
        case L.Block(statements):
            return L.block(*(_versions(t, lanes, but) for t in statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _versions(body, lanes, but))
        case L.Section(body=body) | L.Turn(body=body):
            return replace(s, body=_versions(body, lanes, but))
    found = [c for c in conditions(s, lanes) if but is None or but not in ir.variables(c.least)]
    if not found or any(isinstance(t, L.For) and t.mode in (L.SERIAL, L.PARALLEL) for t in L.walk(s)):
        return s
    return L.If(_all_hold(found), assume(s, frozenset(c.node for c in found)), s, versions=True)


def in_versions(s: L.Stmt) -> L.Stmt:
    """A statement that stands alone, its loops parted: conditions that none of them decides make it two versions."""
    s = partition(s)
    if _holds_work_apart(s, {}):
        return _versions(s, {})
    found = list(conditions(s, {}))
    return L.If(_all_hold(found), assume(s, frozenset(c.node for c in found)), s, versions=True) if found else s


def _all_hold(found: Iterable[Condition]) -> Node:
    out: Node = ir.TRUE
    for c in found:
        out = simplify.conjunction(out, simplify.compare("ge", c.least, ZERO))
    return out


def _parted(loop: L.For, plain: L.Stmt, lanes: Lanes) -> L.Stmt:
    """A loop that must be parted."""
    if not _here(loop, lanes):
        raise refuse(
            f"the loop {loop.var.attr} can't be parted: no condition inside depends on it alone", "partition",
            "conditions are those of tails and boundary conditions, linear in the loop's variable; part the loop that "
            "they depend on, or leave partition out", about=("partition", loop.var.attr),
        )  # fmt: skip
    return _part(loop, plain, lanes) if loop.mode == L.SERIAL else _part_uniform(loop, plain, lanes)


# Parts of loops -------------------------------------------------------------------------------------------------


def _here(loop: L.For, lanes: Lanes) -> list[Condition]:
    """The conditions that depend on this loop's variable and on no serial loop further in."""
    return [c for c in conditions(loop.body, lanes) if loop.var in ir.variables(c.least)]


def _part(loop: L.For, plain: L.Stmt, lanes: Lanes) -> L.Stmt:
    """`plain` is the body before its own loops were parted: large bodies keep it in the edges."""
    middle = _middle(loop, lanes)
    if middle is None:
        return _part_uniform(loop, plain, lanes)
    begin, end, clean = middle
    edge = _edge(loop, plain)
    return L.block(*_edges(loop, begin, end, edge, replace(loop, start=begin, stop=end, body=clean)))


def _edge(loop: L.For, plain: L.Stmt) -> L.Stmt:
    s = rolled(_lane_by_lane(loop.body if weight(loop.body) <= _LARGE else plain))
    half = _half(s, loop.var)
    return s if half is None else L.If(*half, s, versions=True)


def _half(s: L.Stmt, var: Node) -> tuple[Node, L.Stmt] | None:
    """Where the vectors of the upper half of a tile are off altogether, by where `var` is, and `s` there: the conditions
    of unrolled loops that choose vectors are decided, and what is computed for nobody falls to dead code. None
    where no loop that stays one is inside, so that it would not be worth the code."""
    if not any(isinstance(t, L.For) and t.mode == L.SERIAL and t.stop.op != "const" for t in L.walk(s)):
        return None
    off: dict[Node, None] = {}
    inner = {t.var for t in L.walk(s) if isinstance(t, L.For)}

    def most(c: Node, unrolled: L.For, lane: L.For) -> Node | None:
        g = as_ge0(c)
        if g is None or not {unrolled.var, lane.var} <= set(ir.leaves((g,), "var")):
            return None
        upper = Interval(integer(unrolled.stop.attr // 2), simplify.sub(unrolled.stop, ONE))
        return bounds(g, {unrolled.var: upper, lane.var: _interval(lane.start, lane.stop)}).hi

    def of(t: L.Stmt) -> L.Stmt:
        if isinstance(t, L.For) and t.mode == L.UNROLL and t.start is ZERO and t.stop.op == "const" and t.stop.attr > 1:
            lanes = [u for u in L.walk(t.body) if isinstance(u, L.For) and u.mode == L.VECTORIZE]
            found = {c: h for c in _all_conditions(t.body) for u in lanes if (h := most(c, t, u)) is not None}
            seen = set(ir.leaves(tuple(found.values()), "var"))
            if var in seen and seen.isdisjoint(inner):
                off.update(dict.fromkeys(found.values()))
                middle = integer(t.stop.attr // 2)
                none = assume(t.body, frozenset(), frozenset(found))
                return L.block(replace(t, stop=middle), replace(t, start=middle, body=none))
        match t:
            case L.Block(statements):
                return L.block(*map(of, statements))
            case L.Allocate(buffer, body):
                return L.Allocate(buffer, of(body))
            case L.If(c, then, otherwise, versions):
                return L.If(c, of(then), None if otherwise is None else of(otherwise), versions)
            case L.For(body=body):
                return replace(t, body=of(body))
        return t

    made = of(s)
    if not off:
        return None
    condition: Node = ir.TRUE
    for h in off:
        condition = simplify.conjunction(condition, simplify.compare("lt", h, ZERO))
    return condition, made


def _all_conditions(s: L.Stmt) -> Iterator[Node]:
    """The parts of all conditions inside, those of masks included."""
    for t in L.walk(s):
        if isinstance(t, L.If):
            yield from conjuncts(t.condition)
        elif isinstance(t, L.Store):
            for n in ir.leaves((*t.values, *(i for _, i in t.targets)), "likely"):
                yield from conjuncts(n)


def _middle(loop: L.For, lanes: Lanes) -> tuple[Node, Node, L.Stmt] | None:
    """Where the conditions that are linear in the loop's variable hold, and the body there; None without any."""
    found = _here(loop, lanes)
    linear = [(c, simplify.linear(c.least)[0].get(loop.var, 0)) for c in found]
    linear = [(c, k) for c, k in linear if k and loop.var not in ir.variables(_rest(c.least, loop.var, k))]
    if not linear:
        return None
    begin, end = loop.start, loop.stop
    for c, k in linear:
        rest = _rest(c.least, loop.var, k)
        if k > 0:  # var >= ceil(-rest / k)
            begin = simplify.maximum(begin, simplify.neg(simplify.floordiv(rest, integer(k))))
        else:
            end = simplify.minimum(end, simplify.add(simplify.floordiv(rest, integer(-k)), ONE))
    if begin is not loop.start:
        begin = simplify.minimum(begin, loop.stop)
    return begin, end, assume(loop.body, frozenset(c.node for c, _ in linear))


def _edges(loop: L.For, begin: Node, end: Node, edge: L.Stmt, middle: L.Stmt) -> Iterator[L.Stmt]:
    """The middle part between what remains of the loop before and after it."""
    if begin is not loop.start:
        yield replace(loop, stop=begin, mode=L.SERIAL, body=edge)
    yield middle
    if end is not loop.stop:
        yield replace(loop, start=simplify.maximum(begin, end), mode=L.SERIAL, body=edge)


def _lane_by_lane(s: L.Stmt) -> L.Stmt:
    """The edge of a loop, where vectors have lanes that boundary conditions repair: those run one by one.

    They are few, and in a vector all lanes would pay for the repair (a division for `wrap_around`) and for a gather.
    """
    match s:
        case L.Block(statements):
            return L.block(*map(_lane_by_lane, statements))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _lane_by_lane(body))
        case L.Section(body=body) | L.Turn(body=body):
            return replace(s, body=_lane_by_lane(body))
        case L.If(c, then, otherwise, versions):
            return L.If(c, _lane_by_lane(then), None if otherwise is None else _lane_by_lane(otherwise), versions)
        case L.For(var=var, mode=L.VECTORIZE, body=body):
            middle = _middle(replace(s, mode=L.SERIAL), {}) if _repaired(body, var) else None
            if middle is None:
                return s
            begin, end, clean = middle
            inside = simplify.conjunction(simplify.compare("ge", var, begin), simplify.compare("lt", var, end))
            return L.block(*_edges(s, begin, end, body, replace(s, body=L.If(inside, clean))))
        case L.For(body=body):
            return replace(s, body=_lane_by_lane(body))
    return s


def _repaired(s: L.Stmt, var: Node) -> bool:
    """Whether a boundary condition moves what is read, in another way for every value of `var`.

    (One that only gives a constant instead is a mask, which a vector has for nothing.)
    """
    for t in L.walk(s):
        if isinstance(t, L.Store):
            roots = (*t.values, *(i for _, i in t.targets))
            places = [n.args[-1] for n in ir.postorder(roots) if n.op in ("load", "load_if")]
            if any(var in ir.leaves((n,), "var") for n in ir.leaves(places, "likely")):
                return True
    return False


def _rest(n: Node, var: Node, k: int) -> Node:
    return simplify.sub(n, simplify.mul(var, integer(k)))


_LARGE = 64  # stores after unrolling, beyond which an edge is not parted again


def _part_uniform(loop: L.For, plain: L.Stmt, lanes: Lanes) -> L.For:
    """Conditions that are not linear in the variable, or of a parallel loop: two versions of the body."""
    found = _here(loop, lanes)
    if not found:
        return loop
    clean = assume(loop.body, frozenset(c.node for c in found))
    return replace(loop, body=L.If(_all_hold(found), clean, _edge(loop, plain), versions=True))


# Conditions -----------------------------------------------------------------------------------------------------


def conditions(s: L.Stmt, lanes: Lanes) -> Iterator[Condition]:
    """The conditions inside `s` that are linear in loop variables and depend on no serial loop of `s`, each once."""
    seen: set[Node] = set()
    for c in _conditions(s, lanes, frozenset()):
        if c.node not in seen:
            seen.add(c.node)
            yield c


def _conditions(s: L.Stmt, inner: dict[Node, Interval], deeper: frozenset[Node]) -> Iterator[Condition]:
    match s:
        case L.Block(statements):
            for t in statements:
                yield from _conditions(t, inner, deeper)
        case L.For(v, start, stop, mode, body):
            if mode in (L.UNROLL, L.VECTORIZE) and start.op == stop.op == "const":
                yield from _conditions(body, {**inner, v: _interval(start, stop)}, deeper)
            else:
                yield from _marked((start, stop), inner, deeper)
                yield from _conditions(body, inner, deeper | {v})
        case L.Allocate(body=body) | L.Section(body=body) | L.Turn(body=body):
            yield from _conditions(body, inner, deeper)
        case L.If(versions=True):
            pass  # dealt with
        case L.If(c, then, otherwise):
            if inner:
                yield from _atoms(c, inner, deeper)
            else:
                yield from _marked((c,), inner, deeper)
            yield from _conditions(then, inner, deeper)
            if otherwise is not None:
                yield from _conditions(otherwise, inner, deeper)
        case L.Store(targets, values):
            yield from _marked((*values, *(i for _, i in targets)), inner, deeper)


def _marked(roots: Sequence[Node], inner: dict[Node, Interval], deeper: frozenset[Node]) -> Iterator[Condition]:
    for n in dict.fromkeys(m for r in roots for m in ir.marks(r)):
        yield from _atoms(n, inner, deeper)


def _atoms(c: Node, inner: dict[Node, Interval], deeper: frozenset[Node]) -> Iterator[Condition]:
    for a in conjuncts(c):
        g = as_ge0(a)
        if g is None or ir.leaves((g,), "load"):
            continue
        if ir.variables(g) & deeper:
            continue
        least = bounds(g, inner).lo if inner else g
        if least is not None and ir.variables(least).isdisjoint(inner):
            yield Condition(a, least)


def assume(s: L.Stmt, true: frozenset[Node], false: frozenset[Node] = frozenset()) -> L.Stmt:
    """`s` where the given conditions hold, and others do not."""
    memo: dict[Node, Node] = dict.fromkeys(true, ir.TRUE) | dict.fromkeys(false, ir.FALSE)

    def values(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        return ir.transform(roots, _simpler, memo)

    def of(t: L.Stmt) -> L.Stmt:
        match t:
            case L.Block(statements):
                return L.block(*map(of, statements))
            case L.For(start=start, stop=stop, body=body):
                start, stop = values((start, stop))
                return replace(t, start=start, stop=stop, body=of(body))
            case L.Allocate(buffer, body):
                return L.Allocate(buffer, of(body))
            case L.Section(body=body):
                return t.replaced(of(body), values(t.nodes))
            case L.Turn(body=body):
                return replace(t, body=of(body))
            case L.If(c, then, otherwise, versions):
                (c,) = values((c,))
                if c is ir.TRUE:
                    return of(then)
                if c is ir.FALSE:
                    return of(otherwise) if otherwise is not None else L.Block(())
                return L.If(c, of(then), None if otherwise is None else of(otherwise), versions)
            case L.Store(targets, vals):
                offsets = values(tuple(i for _, i in targets))
                placed = tuple((b, i) for (b, _), i in zip(targets, offsets, strict=True))
                return replace(t, targets=placed, values=values(vals))
        return t

    return of(s)


def _simpler(n: Node, args: tuple[Node, ...]) -> Node:
    if n.op == "load_if" and args[0] is ir.TRUE:
        return ir.node("load", n.dtype, args[1:], n.attr)
    if n.op == "load_if" and args[0] is ir.FALSE:
        return ir.const(0, n.dtype)
    return simplify.logic(ir.rebuild(n, args))

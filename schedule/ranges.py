"""From a stage's loops to numbers: what each variable is in terms of the loop variables, how far each loop runs,
and which conditions remain.

A stage's own variables (pure ones over a region, reduction variables over their range) are split and fused into
loops. Every split that need not come out even leaves a condition; conditions that are linear in a loop variable become
that loop's bounds, the rest become guards at the outermost place where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds, certainly_nonnegative
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import index
from tilewright.schedule.inline import Body
from tilewright.schedule.numbers import NUMBER, by_data
from tilewright.schedule.state import ROUND_UP, SHIFT, Fuse, Split, Stage, root_name, versioned

ZERO, ONE = integer(0), integer(1)


@dataclass(frozen=True, eq=False)
class Range:
    """One loop: `var` runs start <= var < stop. `guards` hold once this loop and the outer ones are entered."""

    name: str
    var: Node
    start: Node
    stop: Node
    mode: str
    reduction: bool
    guards: tuple[Node, ...]
    peel: tuple[int, int] = (0, 0)
    part: str = "auto"
    axis: str = ""
    unit: str = ""
    widest: tuple[Node, Node] | None = None  # start and stop without what data say, if these differ

    @property
    def interval(self) -> Interval:
        """The range of the variable as far as sizes say: regions and buffers do not depend on data."""
        start, stop = self.widest or (self.start, self.stop)
        return Interval(start, simplify.sub(stop, ONE))


@dataclass(frozen=True, eq=False)
class StageRanges:
    """All loops of a stage, outermost first; `values` gives each variable of the definition; `guards` are known
    before the first loop. `shifts` are (extent, factor) pairs: the shifted form needs extent >= factor. `spare` are
    the guards that only keep pure variables inside their region: where results are private, they may be left out.
    `ends` gives the values with the tails of splits within splits put in, where loops that make them up are inside.
    Where one of `again` holds, a tail that moved back computes a point once more."""

    loops: tuple[Range, ...]
    values: Mapping[Node, Node]
    domain: Mapping[Node, Interval]
    guards: tuple[Node, ...]
    shifts: tuple[tuple[Node, int], ...]
    spare: frozenset[Node]
    ends: Callable[[frozenset[Node]], Mapping[Node, Node]]
    again: tuple[Node, ...] = ()

    def env(self, depth: int) -> dict[Node, Interval]:
        """The range of each variable of the definition inside the first `depth` loops (these stand for themselves)."""
        outer = {x.var for x in self.loops[:depth]}
        ends = self.ends(frozenset(x.var for x in self.loops[depth:]))
        out = {}
        for root, value in self.values.items():
            if not any(v in outer for v in ir.leaves((value,), "var")):
                out[root] = self.domain[root]
                continue
            r = project(Interval(value, ends[root]), self.loops[depth:])
            # a variable that is a loop of its own stays inside its domain; only splits can stick out
            out[root] = r if value.op == "var" else _within(r, self.domain[root])
        return out


def _within(r: Interval, whole: Interval) -> Interval:
    """A range met with the domain, where that says more (a loop starts in the domain, so only the end can stick out)."""
    lo = whole.lo if r.lo is None else r.lo
    if r.hi is None or whole.hi is None:
        return Interval(lo, whole.hi if r.hi is None else r.hi)
    return Interval(lo, simplify.minimum(r.hi, whole.hi))


def project(r: Interval, loops: tuple[Range, ...]) -> Interval:
    """The range over all iterations of `loops` (innermost last); their own bounds may depend on outer ones.

    Terms are taken apart before a loop's range is put in: what a minimum and the rest of a sum share cancels.
    """
    lo, hi = r.lo, r.hi
    for x in reversed(loops):
        env = {x.var: x.interval}
        if lo is not None and x.var in ir.variables(lo):
            ends = [bounds(t, env).lo for t in apart(lo, "max", x.var)]
            lo = reduce(simplify.maximum, known) if (known := [e for e in ends if e is not None]) else None
        if hi is not None and x.var in ir.variables(hi):
            ends = [bounds(t, env).hi for t in apart(hi, "min", x.var)]
            hi = reduce(simplify.minimum, known) if (known := [e for e in ends if e is not None]) else None
    return Interval(lo, hi)


_MOST_APART = 16  # terms of one sum of minima (or maxima) that are looked at one by one


def apart(n: Node, op: str, v: Node) -> list[Node]:
    """Expressions whose minimum (or maximum) is `n`, those that contain `v` with sums distributed."""
    out, todo = [], [n]
    while todo:
        m = todo.pop()
        coefs, c = simplify.linear(m)
        t = next((t for t, k in coefs.items() if t.op == (op if k > 0 else _OTHER[op]) and v in ir.variables(t)), None)
        if t is None:
            out.append(m)
        else:
            rest = simplify.from_linear({u: k for u, k in coefs.items() if u is not t}, c)
            todo += [simplify.add(rest, simplify.mul(x, integer(coefs[t]))) for x in ir.spread(t, t.op)]
        if len(out) + len(todo) > _MOST_APART:
            return [n]
    return out


def extent(r: Interval) -> Node:
    """hi - lo + 1 (may be negative where the interval is empty)."""
    assert r.lo is not None and r.hi is not None
    return simplify.add(simplify.sub(r.hi, r.lo), ONE)


def constant_extent(r: Interval, loops: tuple[Range, ...] = ()) -> int | None:
    """The smallest constant found that the extent of `r` provably doesn't exceed, or None."""
    assert r.lo is not None and r.hi is not None
    n = extent(r)
    found = _constants([_top(n, loops, [_MOST_TERMS]), _top_by_cases(n, (), [_MOST_TERMS]) if loops else None])
    best = min(found) if found else _top_by_cases(n, loops, [_MOST_TERMS])
    return None if best is None else max(best, 0)


_MOST_TERMS = 256  # that are looked at for one constant


def _top(n: Node, loops: tuple[Range, ...], budget: list[int]) -> int | None:
    """A constant that `n` doesn't exceed in any iteration of `loops`.

    A maximum is below what all its terms are below, a minimum below what one is. Terms are taken apart before the
    loops' ranges are put in, so that what stands in both bounds of a range cancels.
    """
    budget[0] -= 1
    if budget[0] < 0:
        return None
    if n.op == "const":
        return n.attr
    coefs, c = simplify.linear(n)
    every = next((t for t, k in coefs.items() if t.op == ("max" if k > 0 else "min")), None)
    some = next((t for t, k in coefs.items() if t.op == "min" and k > 0), None)
    some = some or next((t for t, k in coefs.items() if t.op == "max" and k < 0), None)
    t = every or some
    if t is None:
        over = project(Interval(ZERO, n), loops).hi if loops else None
        if over is None or over is n:
            return c if certainly_nonnegative(simplify.sub(integer(c), n)) else None
        return _top(over, (), budget)
    rest = simplify.from_linear({u: k for u, k in coefs.items() if u is not t}, c)
    terms = [simplify.add(rest, simplify.mul(x, integer(coefs[t]))) for x in ir.spread(t, t.op)]
    tops = _constants(_top(x, loops, budget) for x in terms)
    if every is None:
        return min(tops, default=None)
    return max(tops) if len(tops) == len(terms) else None


def _top_by_cases(n: Node, loops: tuple[Range, ...], budget: list[int]) -> int | None:
    """The same; where that finds nothing, by what an extreme inside another one is: one of its terms, everywhere."""
    found = _top(n, loops, budget)
    if found is None and loops:
        over = project(Interval(ZERO, n), loops).hi
        found = over.attr if over is not None and over.op == "const" else None
    if found is not None or budget[0] < 0:
        return found
    outer = [a for t in simplify.linear(n)[0] if t.op in ("min", "max") for a in ir.spread(t, t.op)]
    inner = next((m for m in ir.postorder(outer) if m.op in ("min", "max")), None)
    if inner is None:
        return None
    cases = [ir.substitute((n,), {inner: x})[0] for x in ir.spread(inner, inner.op)]
    tops = _constants(_top_by_cases(x, loops, budget) for x in cases)
    return max(tops) if len(tops) == len(cases) else None


def _constants(tops: Iterable[int | None]) -> list[int]:
    return [t for t in tops if t is not None]


def spread(n: Node, op: str) -> list[Node]:
    """Expressions whose `min` (or `max`, by `op`) is `n`, with sums distributed: min(a, b) + c gives a + c, b + c."""
    if n.op == op:
        return [t for a in n.args for t in spread(a, op)]
    coefs, c = simplify.linear(n)
    for t, k in coefs.items():
        if t is not n and t.op == (op if k > 0 else _OTHER[op]):
            rest = simplify.from_linear({u: v for u, v in coefs.items() if u is not t}, c)
            return [
                x for term in spread(t, t.op) for x in spread(simplify.add(rest, simplify.mul(term, integer(k))), op)
            ]
    return [n]


_OTHER = {"min": "max", "max": "min"}


def _clamped(e: Node) -> Node:
    """e, or 0 where it is negative."""
    return e if certainly_nonnegative(e) else simplify.maximum(e, ZERO)


def _divides(factor: int, e: Node) -> bool:
    return simplify.mod(e, integer(factor)) is ZERO


def stage_ranges(
    stage: Stage,
    body: Body,
    domain: Mapping[Node, Interval],
    prefix: str,
    shifted: bool = True,
    shared: Mapping[str, Node] = MappingProxyType({}),
) -> StageRanges:
    """Work out the loops of `stage` over `domain` (a range for every variable of the definition).

    Loop variables are called `{prefix}.{loop}`, but for those of loops that are `shared` with another stage. With
    `shifted` False, shift tails have guards too.
    """
    stage, shown = versioned(stage)
    extents: dict[str, Node] = {}
    caps: dict[str, int | None] = {}
    lows: dict[str, Node] = {}
    for root in stage.roots:
        r = domain[root]
        name = root_name(root)
        assert r.lo is not None
        extents[name], caps[name], lows[name] = extent(r), constant_extent(r), r.lo
    conditions: list[Node] = []  # of reduction variables and predicates
    pure_conditions: list[Node] = []
    pure = {root_name(r) for r in stage.roots if r.op == "var"}
    for t in stage.transforms:
        if isinstance(t, Split) and t.parent in pure:
            pure |= {t.outer, t.inner}
        elif isinstance(t, Fuse) and t.outer in pure and t.inner in pure:
            pure.add(t.fused)
    relative: dict[str, Node] = {}
    for t in stage.transforms:
        if isinstance(t, Split):
            e = extents[t.parent]
            extents[t.outer] = simplify.floordiv(simplify.add(e, integer(t.factor - 1)), integer(t.factor))
            extents[t.inner] = integer(t.factor)
            top = caps[t.parent]
            caps[t.outer], caps[t.inner] = (None if top is None else -(-top // t.factor)), t.factor
        else:
            # where both are empty their product must be no number of iterations
            extents[t.fused] = simplify.mul(_clamped(extents[t.outer]), extents[t.inner])
            a, b = caps[t.outer], caps[t.inner]
            caps[t.fused] = None if a is None or b is None else a * b
    roots = {root_name(r): r for r in stage.roots}
    vars_ = {}
    based: set[str] = set()  # unsplit variables: the loop runs over the values themselves
    for x in stage.loops:
        v = vars_[x.name] = shared.get(shown[x.name]) or ir.var(f"{prefix}.{shown[x.name]}")
        if x.name in roots and (
            x.mode not in ("vectorize", "unroll") or (extents[x.name].op == "const" and lows[x.name] is ZERO)
        ):
            based.add(x.name)
            relative[x.name] = simplify.sub(v, lows[x.name])
        else:
            relative[x.name] = v
            e = extents[x.name]
            if x.mode in ("vectorize", "unroll") and e.op != "const":
                where = pure_conditions if x.name in pure else conditions
                where += nonnegative(simplify.sub(simplify.sub(e, ONE), v))
    shifts = [
        (extents[t.parent], t.factor) for t in stage.transforms if isinstance(t, Split) and _may_shift(t, extents)
    ]
    shifts = [x for x in shifts if x[0].op != "const"]
    loops = dict(relative)
    nested: set[Split] = set()
    again: list[Node] = []

    def condition(t: Split, value: Node) -> Node:
        e = extents[t.parent]
        guard = not _may_shift(t, extents) or (not shifted and e.op != "const")
        if not _divides(t.factor, e) and guard and t.tail != ROUND_UP:
            where = pure_conditions if t.parent in pure else conditions
            where += nonnegative(simplify.sub(simplify.sub(e, ONE), value))
            if t.parent not in roots:
                nested.add(t)
        if _may_shift(t, extents):
            again.append(simplify.compare("lt", value, simplify.mul(relative[t.outer], integer(t.factor))))
        return value

    _made_up(stage, extents, relative, condition)
    values = {roots[n]: (vars_[n] if n in based else simplify.add(lows[n], relative[n])) for n in roots}

    def ends(inner: frozenset[Node]) -> Mapping[Node, Node]:
        def end(t: Split, value: Node) -> Node:
            if t not in nested or not any(v in inner for v in ir.leaves((value,), "var")):
                return value
            return simplify.minimum(value, simplify.sub(extents[t.parent], ONE))

        if not nested:
            return values
        at = dict(loops)
        _made_up(stage, extents, at, end)
        return {roots[n]: (vars_[n] if n in based else simplify.add(lows[n], at[n])) for n in roots}

    data: dict[Node, tuple[Node, Node]] = {}
    for c in (c for p in body.predicates for c in ir.spread(p, "and")):
        (plain,) = ir.substitute((c,), values)
        conditions.append(plain)
        found = by_data(c, domain)
        if found is not None:
            least, number = ir.substitute(found, values)
            data[plain] = least, number
    spare = frozenset(pure_conditions) - frozenset(conditions)
    every = list(dict.fromkeys((*pure_conditions, *conditions)))
    made = _walk(
        stage, shown, extents, caps, lows, based, vars_, every, data, values, domain, tuple(shifts), spare, ends
    )
    return replace(made, again=tuple(again)) if again else made


def _may_shift(t: Split, extents: Mapping[str, Node]) -> bool:
    """Whether a split's last tile moves back (at the call, where the extent is known only there)."""
    e = extents[t.parent]
    return t.tail == SHIFT and not (e.op == "const" and e.attr < t.factor) and not _divides(t.factor, e)


def _made_up(
    stage: Stage, extents: Mapping[str, Node], relative: dict[str, Node], on_split: Callable[[Split, Node], Node]
) -> None:
    """Add to `relative`, which has the loops' own values, those of all that they come from, counted from its start.

    `on_split` sees every split with the value of its parent, and gives the value to go on with.
    """
    for t in reversed(stage.transforms):
        if isinstance(t, Fuse):
            inner, f = _clamped(extents[t.inner]), relative[t.fused]
            relative[t.outer] = simplify.floordiv(f, inner)
            relative[t.inner] = simplify.mod(f, inner)
            if not certainly_nonnegative(inner):  # then the analysis can't see the ends, which hold wherever it runs
                for name in (t.outer, t.inner):
                    last = simplify.sub(extents[name], ONE)
                    relative[name] = simplify.maximum(simplify.minimum(relative[name], last), ZERO)
            continue
        e, f = extents[t.parent], integer(t.factor)
        base = simplify.mul(relative[t.outer], f)
        if _may_shift(t, extents):
            base = simplify.minimum(base, simplify.sub(e, f))
            if e.op != "const":
                base = simplify.maximum(base, ZERO)  # too few points: the guarded form's only tile stands at the start
        relative[t.parent] = on_split(t, simplify.add(base, relative[t.inner]))


def nonnegative(n: Node) -> list[Node]:
    """n >= 0 as conditions that are linear where possible: one for each term of a `min` in it that can decide."""
    least = reduce(simplify.minimum, spread(n, "min"))
    return [simplify.compare("ge", t, ZERO) for t in ir.spread(least, "min")]


def as_ge0(c: Node) -> Node | None:
    """A comparison of index expressions as an expression that must be >= 0; None for other conditions."""
    if c.op not in ("lt", "le", "gt", "ge") or c.args[0].dtype is not index:
        return None
    a, b = c.args if c.op in ("gt", "ge") else c.args[::-1]
    d = simplify.sub(a, b)
    return simplify.sub(d, ONE) if c.op in ("lt", "gt") else d


def ended_by_data(c: Node, v: Node, r: Interval, env: Mapping[Node, Interval]) -> Interval:
    """The range `r` of a variable where a condition on a number of the caller's may hold, the others being in `env`;
    what the number is chosen by must be known there."""
    found = by_data(c, env)
    if found is None or r.lo is None or r.hi is None:
        return r
    known = {u: x.lo for u, x in env.items() if x.lo is x.hi and x.lo is not None}
    least, number = found
    (number,) = ir.substitute((number,), known)
    g = as_ge0(least)
    assert g is not None
    k = simplify.linear(g)[0].get(v, 0)
    hidden = {u for u in env if u is not v and u not in known}
    rest = simplify.sub(ir.substitute((g,), known)[0], simplify.mul(v, integer(k)))
    top = _most(rest, {u: env[u] for u in hidden}, hidden)
    if k == 0 or top is None or any(u in env for op in ("var", "rvar") for u in ir.leaves((number, top), op)):
        return r
    top = ir.substitute((top,), {NUMBER: ir.node("cast", index, (number,))})[0]
    if k < 0:
        return Interval(r.lo, simplify.minimum(r.hi, simplify.floordiv(top, integer(-k))))
    return Interval(simplify.maximum(r.lo, simplify.neg(simplify.floordiv(top, integer(k)))), r.hi)


def _walk(
    stage, shown, extents, caps, lows, based, vars_, conditions, data, values, domain, shifts, spare, ends
) -> StageRanges:
    """Enter the loops one by one: tighten bounds by the conditions, hand the rest on as guards."""
    pending = [c for c in conditions if c is not ir.TRUE]
    todo = set(vars_.values())
    lanes: set[Node] = set()
    before, pending = _known(pending, todo)
    ranges: list[Range] = []
    full = {}
    for x in stage.loops:  # the widest range of each loop, for bounds that involve loops further in
        v = vars_[x.name]
        e, cap = extents[x.name], caps[x.name]
        lo = lows[x.name] if x.name in based else ZERO
        if x.mode in ("vectorize", "unroll") and cap is not None:
            e = integer(cap)
        full[v] = (lo, simplify.add(lo, e))
    for x in stage.loops:
        v = vars_[x.name]
        start, stop = full[v]
        widest = [start, stop]
        todo.discard(v)
        fixed = x.mode in ("vectorize", "unroll")
        left = []
        for c in pending:
            least, number = data.get(c, (c, None))
            if number is not None and any(t is v or t in todo or t in lanes for t in ir.leaves((number,), "var")):
                left.append(c)
                continue
            g = as_ge0(least)
            coefs, _ = simplify.linear(g) if g is not None else ({}, 0)
            k = coefs.get(v, 0)
            others = g is not None and k != 0 and not any(v in ir.leaves([t], "var") for t in coefs if t is not v)
            if not others or fixed:
                left.append(c)
                continue
            assert g is not None
            rest = simplify.sub(g, simplify.mul(v, integer(k)))  # k*v + rest >= 0
            hidden = todo | lanes  # a bound is the same for all lanes of a vector loop around
            inner = {t: Interval(full[t][0], simplify.sub(full[t][1], ONE)) for t in hidden}
            exact = not any(t in hidden for t in ir.leaves([rest], "var"))
            top = rest if exact else _most(rest, inner, hidden)
            if top is None:
                left.append(c)
                continue
            if number is not None:
                top = ir.substitute((top,), {NUMBER: ir.node("cast", index, (number,))})[0]
            if k < 0:  # v <= floor(rest / -k)
                end = simplify.add(simplify.floordiv(top, integer(-k)), ONE)
                stop = simplify.minimum(stop, end)
                widest[1] = widest[1] if number is not None else simplify.minimum(widest[1], end)
            else:  # v >= ceil(-rest / k)
                begin = simplify.neg(simplify.floordiv(top, integer(k)))
                start = simplify.maximum(start, begin)
                widest[0] = widest[0] if number is not None else simplify.maximum(widest[0], begin)
            if not exact:
                left.append(c)
        if x.mode == "vectorize":
            lanes.add(v)
        now, pending = _known(left, todo)
        wide = None if widest == [start, stop] else (widest[0], widest[1])
        made = Range(
            shown[x.name], v, start, stop, x.mode, x.reduction, tuple(now), x.peel, x.part, x.axis, x.unit, wide
        )
        ranges.append(made)
    return StageRanges(tuple(ranges), values, domain, tuple(before), shifts, spare, ends)


def _most(n: Node, inner: Mapping[Node, Interval], todo: set[Node]) -> Node | None:
    """The largest value of `n` over the loops further in, if that does not depend on them."""
    for _ in range(len(inner) + 1):
        hi = bounds(n, inner).hi
        if hi is None:
            return None
        if not any(t in todo for t in ir.leaves([hi], "var")):
            return hi
        n = hi
    return None


def _known(conditions: list[Node], todo: set[Node]) -> tuple[list[Node], list[Node]]:
    """Conditions that involve no loop further in, and the others."""
    now, later = [], []
    for c in conditions:
        (later if any(t in todo for t in ir.leaves([c], "var")) else now).append(c)
    return now, later

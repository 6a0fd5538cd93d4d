"""How the running value of a reduction follows when another one, which its terms use, changes: for `online`.

A term t(k, r) of a sum splits into a(k) * b(r) where it is a product whose only factors with r are exponentials of
something linear in r, or r itself (as factor or divisor). What was summed with r = old is right for r = new once it is
multiplied by b(new) / b(old), written so that nothing overflows on the way: exp(old - new), never exp(old) / exp(new).
For a maximum or minimum the terms are sums and the repair is an addition.

b can't be inverted where r still has the value that it has before any point: an infinite maximum, a sum of 0. There
the running value is started afresh, which is right because what r was made of makes the term vanish as well: a score
of -inf is an exponential of 0. That is proved from the term, or the split is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.lang import ir
from tilewright.lang.expr import cast_node
from tilewright.lang.func import Func
from tilewright.lang.ir import Node
from tilewright.lang.types import bool_
from tilewright.schedule.algebra import Reduction, match, self_load
from tilewright.schedule.inline import Body
from tilewright.schedule.online_terms import (
    EXPONENTIALS,
    Linear,
    NoSplitError,
    Symbols,
    Uses,
    joined,
    times,
    widens,
)


@dataclass(frozen=True, eq=False)
class Member:
    """One reduction of a group: what is combined, the operator's facts, and the value before any point."""

    body: Body
    reduction: Reduction
    term: Node
    start: Node

    @property
    def operator(self) -> str:
        return self.reduction.operator


@dataclass(frozen=True, eq=False)
class Repair:
    """What a change of `source` (a load of the other reduction, as the term has it) does to a running value.

    `power`: for `exp`, `exp2` and `add` the factor of the source in the exponent or sum, for `value` its exponent.
    `unsafe`: the running value starts afresh where the source was at most this (`value`), or exactly this; None: never.
    """

    source: Node
    kind: str
    power: float
    symbols: Symbols = ()
    unsafe: float | None = None

    @property
    def adds(self) -> bool:
        return self.kind == "add"

    def change(self, before: Node, after: Node) -> Node:
        """What the running value is multiplied by (or what is added to it), in the source's type."""
        t = after.dtype
        if self.kind == "value":
            a, b = (after, before) if self.power > 0 else (before, after)
            once = ir.node("div", t, (a, b))
            out = once
            for _ in range(abs(int(self.power)) - 1):
                out = ir.node("mul", t, (out, once))
            return out
        a, b = (after, before) if self.power > 0 else (before, after)
        away = ir.node("sub", t, (a, b))
        if abs(self.power) != 1.0:
            away = ir.node("mul", t, (away, ir.const(abs(self.power), t)))
        away = times(away, self.symbols)
        return away if self.adds else ir.node("call", t, (away,), self.kind)

    def lost(self, before: Node) -> Node | None:
        """Where the running value starts afresh, provided that the source has changed."""
        if self.unsafe is None:
            return None
        out = ir.node("le" if self.kind == "value" else "eq", bool_, (before, ir.const(self.unsafe, before.dtype)))
        if self.symbols and not self.adds:  # a scale of unknown sign: only a positive one makes the terms vanish
            sign = times(ir.const(1.0, before.dtype), self.symbols)
            positive = ir.node("gt", bool_, (sign, ir.const(0.0, sign.dtype)))
            out = ir.node("and", bool_, (out, positive))
        return out


def member(body: Body, init: Body) -> Member:
    """The reduction that an update is. Raises NoSplitError if it is none with one value."""
    found = match(body)  # type: ignore[arg-type]
    if found is None or len(body.values) != 1:
        raise NoSplitError("it is not known to be associative (sum, product, min, max, and, or, xor are)")
    value = body.values[0]
    if value.op == "round_to":
        value = value.args[0]
    me = self_load(body)  # type: ignore[arg-type]
    a, b = value.args
    start = init.values[0]
    if start.op == "round_to" and start.args[0].op == "const" and start.args[0].attr in (0.0, math.inf, -math.inf):
        start = start.args[0]
    return Member(body, found, b if a is me else a, start)


def repairs(late: Member, early: Mapping[Func, Member]) -> list[Repair]:
    """How `late` follows the reductions that its terms use. Raises NoSplitError where a term does not split."""
    loads = [n for n in ir.leaves((late.term,), "load") if n.attr[0] in early]
    if not loads:
        return []
    if len({n.attr[0] for n in loads}) != len(loads):
        raise NoSplitError("its term uses one reduction at several places")
    if not late.term.dtype.is_float or not all(n.dtype.is_float for n in loads):
        raise NoSplitError("only floats can be repaired")
    _check_start(late)
    uses = Uses(loads)
    if late.operator == "add":
        found = [_multiplied(key, count, uses) for key, count in sorted(uses.factors(late.term).items(), key=str)]
    elif late.operator in ("min", "max"):
        found = [_added(n, uses.linear(late.term)) for n in loads]
    else:
        raise NoSplitError(f"no operation is known that distributes over its {late.operator!r}")
    if len(found) != len(loads):
        raise NoSplitError("its term uses one reduction in two ways, or in none that matters")
    return [_with_safety(r, late, early[r.source.attr[0]], uses) for r in found]


def _check_start(late: Member) -> None:
    """The first value must be one that no repair moves."""
    neutral = {"add": 0.0, "max": -math.inf, "min": math.inf}.get(late.operator)
    if neutral is not None and not (late.start.op == "const" and late.start.attr == neutral):
        raise NoSplitError(f"it starts with {late.start!r}, which a repair would change; only {neutral} stays as it is")


def _multiplied(key: tuple, count: int, uses: Uses) -> Repair:
    load, kind, c, symbols = key
    if kind == "value":
        return Repair(load, kind, float(count))
    return Repair(load, kind, c * count, symbols)


def _added(load: Node, term: Linear) -> Repair:
    found = [(s, c) for (atom, s), c in term.items() if atom is load]
    others = [atom for atom, _ in term if atom is not None and atom is not load and load in ir.postorder((atom,))]
    if len(found) != 1 or others:
        raise NoSplitError(f"its term is not {load.attr[0].name} plus something that does not depend on it")
    return Repair(load, "add", found[0][1], found[0][0])


# Safety ---------------------------------------------------------------------------------------------------------


def _with_safety(r: Repair, late: Member, early: Member, uses: Uses) -> Repair:
    """The repair with the value of the source at which the running value starts afresh."""
    name = early.body.func.name
    if r.kind == "value":
        if early.operator not in ("add", "max") or not nonnegative(early.term):
            raise NoSplitError(f"{name} is a factor or divisor of its term and can't be shown to grow from 0")
        if not (early.start.op == "const" and early.start.attr <= 0):
            raise NoSplitError(f"{name} is a factor or divisor of its term and does not start at 0")
        if not _has_factor(late.term, _aligned(early.term, r, early)):
            raise NoSplitError(f"where {name} is 0, its term can't be shown to be 0 as well")
        return Repair(r.source, r.kind, r.power, r.symbols, 0.0)
    if early.operator not in ("min", "max"):
        return r
    if early.start.op == "const" and math.isfinite(early.start.attr):
        return r  # it is never infinite in the direction that matters
    if not _vanishes(late, r, early, uses):
        raise NoSplitError(f"where all values of {name} are infinite, its term can't be shown to vanish")
    return Repair(r.source, r.kind, r.power, r.symbols, -math.inf if early.operator == "max" else math.inf)


def _aligned(n: Node, r: Repair, early: Member) -> Node:
    """An expression of the earlier reduction at the point that the load means; ranges by name."""
    env = dict(zip(early.body.lhs, r.source.args, strict=True))
    return named(ir.substitute((n,), env)[0])


def named(n: Node) -> Node:
    """An expression with reduction variables known by their names alone, so that those of two domains compare."""
    return ir.substitute((n,), {v: ir.var(f"{v.attr[1]} of the domain") for v in ir.leaves((n,), "rvar")})[0]


def _vanishes(late: Member, r: Repair, early: Member, uses: Uses) -> bool:
    """Whether an infinite value of the earlier reduction's term makes the later one's term its neutral element."""
    towards = -1.0 if early.operator == "max" else 1.0
    wanted = 1.0 if late.operator == "min" else -1.0  # an exponent of -inf, a maximum of -inf, a minimum of +inf
    own = _aligned(early.term, r, early)
    for exponent, holds in _sums(late.term, r, uses):
        known = {named(c): arm for c, arm in holds.items()}
        ratio = _ratio(_named_linear(uses.linear(exponent), r.source), Uses([]).linear(_under(own, known)), r.symbols)
        if ratio is None or ratio * towards * wanted <= 0:
            return False
    return True


def _sums(
    n: Node, r: Repair, uses: Uses, holds: Mapping[Node, bool] | None = None
) -> list[tuple[Node, dict[Node, bool]]]:
    """The exponents (or, for a maximum or minimum, the sums) that contain the source, and what selects say there."""
    holds = dict(holds or {})
    if r.source not in ir.postorder((n,)):
        return []
    if n.op == "select":
        c, a, b = n.args
        return [*_sums(a, r, uses, {**holds, c: True}), *_sums(b, r, uses, {**holds, c: False})]
    if r.adds:
        return [(n, holds)]
    if n.op == "call" and n.attr in EXPONENTIALS:
        return [(n.args[0], holds)]
    if n.op in ("mul", "div"):  # one vanishing factor is enough; a divisor that vanishes is none
        return _sums(n.args[0], r, uses, holds) or _sums(n.args[1], r, uses, holds)
    return [s for a in n.args for s in _sums(a, r, uses, holds)]


def _under(n: Node, holds: Mapping[Node, bool]) -> Node:
    while n.op == "select" and n.args[0] in holds:
        n = n.args[1] if holds[n.args[0]] else n.args[2]
    return n


def _named_linear(x: Linear, without: Node) -> Linear:
    return {(None if a is None else named(a), s): c for (a, s), c in x.items() if a is not without and a is not None}


def _ratio(x: Linear, own: Linear, symbols: Symbols) -> float | None:
    """c where x = c * own * symbols, constants apart."""
    own = {(a, joined(s, symbols)): c for (a, s), c in own.items() if a is not None}
    if not own or own.keys() != x.keys():
        return None
    found = {x[k] / own[k] for k in own}
    return found.pop() if len(found) == 1 else None


def _has_factor(term: Node, wanted: Node) -> bool:
    """Whether a product has a factor (or all factors of a product) `wanted`."""
    have, need = Counter(_atoms(named(term))), Counter(_atoms(wanted))
    for n, c in list(need.items()):
        if n.op == "abs" and have[n] < c:  # |x| is 0 where x is
            need[n.args[0]] += need.pop(n)
    return all(have[n] >= c for n, c in need.items())


def _atoms(n: Node) -> list[Node]:
    if n.op == "mul":
        return [a for x in n.args for a in _atoms(x)]
    if n.op == "div" or n.op == "neg" or widens(n):
        return _atoms(n.args[0])
    return [] if n.op == "const" and n.attr != 0 else [n]


def nonnegative(n: Node) -> bool:
    """Whether a float expression is certainly >= 0 (or NaN)."""
    if n.op == "const":
        return n.attr >= 0
    if (n.op == "call" and n.attr in (*EXPONENTIALS, "sigmoid", "sqrt", "rsqrt")) or n.op in ("abs", "sqrt"):
        return True
    if n.op == "mul" and n.args[0] is n.args[1]:
        return True
    if n.op in ("mul", "div", "add", "min") or widens(n):
        return all(map(nonnegative, n.args))
    if n.op == "max":
        return any(map(nonnegative, n.args))
    return n.op == "select" and all(map(nonnegative, n.args[1:]))


# The update that repairs ----------------------------------------------------------------------------------------


def changed(r: Repair, before: Node) -> Node:
    return ir.node("ne", bool_, (before, r.source))


def repaired(late: Member, found: list[Repair], before: Mapping[Node, Node], changes: Mapping[Node, Node]) -> Node:
    """The running value after the repair. `before`: the sources' old values, `changes`: what `Repair.change` gave."""
    me = self_load(late.body)  # type: ignore[arg-type]
    value, lost = me, None
    for r in found:
        c = cast_node(changes[r.source], me.dtype)
        neutral = ir.const(0.0 if r.adds else 1.0, me.dtype)
        if len(found) > 1:
            c = ir.node("select", me.dtype, (changed(r, before[r.source]), c, neutral))
        value = ir.node("add" if r.adds else "mul", me.dtype, (value, c))
        here = r.lost(before[r.source])
        if here is not None:
            if len(found) > 1:
                here = ir.node("and", bool_, (here, changed(r, before[r.source])))
            lost = here if lost is None else ir.node("or", bool_, (lost, here))
    if lost is not None:
        value = ir.node("select", me.dtype, (lost, cast_node(late.start, me.dtype), value))
    return cast_node(value, late.body.func.dtypes[0])

"""The range of index arithmetic at actual sizes: it must stay within +-2^62, where 64 bits hold every step of it."""

from __future__ import annotations

from typing import Any

from tilewright.lang import ir
from tilewright.lang.errors import ArgumentError, Location
from tilewright.lang.extents import Span, spans
from tilewright.lang.func import Definition
from tilewright.lang.intervals import Interval, all_bounds
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.regions import domain
from tilewright.lang.types import i64, index
from tilewright.lang.values import Env, index_values

LIMIT = 1 << 62

_ARITHMETIC = frozenset(["add", "sub", "mul", "neg"])


def check_ranges(p: Pipeline, env: Env) -> None:
    """Raise ArgumentError where an extent or an index expression could leave +-2^62 at these sizes."""
    fixed: dict[Node, Node] = {ir.size(s): integer(env[s]) for s in p.sizes}
    fixed |= {s.node: ir.const(env[s.name].item(), s.dtype) for s in p.scalars if not s.dtype.is_float}
    extents = [e for a in p.arrays for e in a.extents] + [e for o in p.outputs for e in (*o.starts, *o.stops)]
    for e, v in zip(extents, index_values(extents, env), strict=True):
        _require(e, v, v, p.location)
    regions = spans(p, env)
    for f in p.funcs:
        if f in regions:
            for d in f.definitions:
                _check_definition(d, regions[f], fixed)


def _check_definition(d: Definition, span: Span, fixed: dict[Node, Node]) -> None:
    box = tuple(Interval(integer(a), integer(b - 1)) for a, b in span)
    ranges = domain(d, box)
    ends = [e for r in ranges.values() for e in (r.lo, r.hi) if e is not None]
    numbers = ir.substitute(ends, fixed)
    env = {v: Interval(a, b) for v, a, b in zip(ranges, numbers[::2], numbers[1::2], strict=True)}
    for e, v in zip(ends, numbers, strict=True):
        if v.op == "const":
            _require(e, v.attr, v.attr, d.location)
    memo: dict[Node, Node] = {}
    shown = list(dict.fromkeys(_index_nodes(d)))
    nodes = [ir.substitute([n], fixed, memo)[0] for n in shown]
    args = list(dict.fromkeys(a for n in nodes for a in n.args))
    found = dict(zip((*nodes, *args), all_bounds((*nodes, *args), env), strict=True))
    for n, was in zip(nodes, shown, strict=True):
        r = found[n]
        if r.bounded:
            assert r.lo is not None and r.hi is not None
            if r.lo.op == r.hi.op == "const":
                _require(was, r.lo.attr, r.hi.attr, d.location)
        elif n.dtype is i64 and n.op in _ARITHMETIC and all(found[a].bounded for a in n.args):
            raise _too_large(was, "too large", d.location)  # it wraps, which the inferred regions leave out


def _index_nodes(d: Definition) -> list[Node]:
    """Index arithmetic of a definition, with the typed arithmetic that indices are made of."""
    out: list[Node] = []
    below: set[Node] = set()
    for n in reversed(list(ir.postorder(d.roots))):
        if n.dtype is index:
            out.append(n)
        if n.dtype is index or n in below:
            below.update(n.args)
        if n in below and n.dtype is i64:
            out.append(n)
    return out


def _require(n: Node, lo: int, hi: int, where: Location | None) -> None:
    if lo < -LIMIT or hi > LIMIT:
        raise _too_large(n, f"{lo if lo < -LIMIT else hi}", where)


def _too_large(n: Node, value: Any, where: Location | None) -> ArgumentError:
    return ArgumentError(
        f"{n!r} is {value} at these sizes: beyond what index arithmetic in 64 bits can hold (2^62)",
        code="argument.range",
        where=where,
        hint="pass smaller sizes: the kernel's arrays could not be that large either",
    )

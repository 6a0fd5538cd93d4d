"""Region inference: which box of every Func must be computed, and which box of every input is read.

Boxes are symbolic: one `Interval` (inclusive, index nodes) an axis. The same functions serve the root level here
and, with other environments, the regions at any loop of a nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.lang import ir, simplify
from tilewright.lang.errors import BoundsError
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.intervals import Env, Interval, bounds, facts, facts_if_false, ranges_over, refine, union
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.lang.tensors import Array, Tensor
from tilewright.lang.types import bool_

Box = tuple[Interval, ...]

_MOST_CONTEXTS = 64  # conditions told apart within one definition; beyond, arms of a select count as always read


class Read(NamedTuple):
    """A load: what is read, and the box of all its indices."""

    tensor: Any
    component: int
    box: Box
    load: Node


# One definition -------------------------------------------------------------------------------------------------


def domain(d: Definition, box: Box) -> dict[Node, Interval]:
    """The ranges of a definition's Vars, where its Func has the region `box`, and of its reduction variables."""
    env = {i: r for i, r in zip(d.lhs, box, strict=True) if i.op == "var"}
    if d.rdom is not None:
        for name, (start, stop) in d.rdom.ranges.items():
            env[d.rdom.rvar(name)] = Interval(start, simplify.sub(stop, integer(1)))
    return env


def executed(d: Definition, env: Env) -> Env:
    """`env` shrunk to where the predicates of `d` can hold."""
    for p in d.predicates:
        env = refine(env, facts(p))
    return env


def writes(d: Definition, env: Env) -> Box:
    """The box of the points that `d` writes when its variables run over `env`."""
    env = executed(d, env)
    return tuple(bounds(i, env) for i in d.lhs)


def reads(d: Definition, env: Env, of: Tensor | None = None) -> list[Read]:
    """What `d` reads (`of` a tensor, or of all) when its variables run over `env`: one entry a load and condition.

    An arm of a select reads only where its condition lets it. Bounds may be None (see `require_bounded`).
    """
    found: dict[tuple, Read] = {}
    inner = executed(d, env)
    for roots, where in ((d.predicates, env), ((*d.lhs, *d.values), inner)):
        for r in _reads(roots, where, of):
            found.setdefault((r.load, r.box), r)
    return list(found.values())


def _reads(roots: Iterable[Node], env: Env, of: Tensor | None) -> Iterable[Read]:
    roots = list(roots)
    loading: set[Node] = set()
    for n in ir.postorder(roots):
        wanted = n.op == "load" and (of is None or n.attr[0] is of)
        if wanted or any(a in loading for a in n.args):
            loading.add(n)
    arms: dict[tuple[int, Node, bool], int] = {}
    envs: list[Env] = [env]
    ranges = [ranges_over(env)]

    def arm(context: int, c: Node, holds: bool) -> int:
        key = (context, c, holds)
        if key not in arms:
            known = facts(c) if holds else facts_if_false(c)
            if not known or len(envs) >= _MOST_CONTEXTS:
                return context
            arms[key] = len(envs)
            envs.append(refine(envs[context], known))
            ranges.append(ranges_over(envs[-1]))
        return arms[key]

    seen: set[tuple[Node, int]] = set()
    stack = [(r, 0) for r in reversed(roots)]
    while stack:
        n, k = stack.pop()
        if n not in loading or (n, k) in seen:
            continue
        seen.add((n, k))
        if n.op == "load" and (of is None or n.attr[0] is of):
            yield Read(n.attr[0], n.attr[1], tuple(map(ranges[k], n.args)), n)
        if n.op == "select":
            c, a, b = n.args
            stack += [(b, arm(k, c, False)), (a, arm(k, c, True)), (c, k)]
        else:
            stack.extend((a, k) for a in reversed(n.args))


def require_bounded(box: Box, what: str, indices: tuple[Node, ...], d: Definition) -> None:
    """Raise BoundsError unless every axis of `box` has both bounds."""
    for k, r in enumerate(box):
        if not r.bounded:
            side = "lower" if r.lo is None else "upper"
            raise BoundsError(
                f"axis {k} of {what} is indexed with {indices[k]!r}, which has no {side} bound,"
                f" in a definition of {d.func.name}",
                code="bounds.unbounded",
                where=d.location,
                hint="limit the index: tw.clamp(index, 0, n - 1), or promise its range: tw.assume(index, 0, n)",
            )


# A pipeline at root level ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use:
    """`consumer` (a definition or an output) needs `box` of `tensor` if `guard` holds; else it does not run at all."""

    consumer: Definition | Output
    tensor: Any
    component: int
    box: Box
    guard: Node
    load: Node | None


@dataclass(frozen=True)
class Regions:
    """What must be computed and what is read, when every Func is computed once, whole.

    `guards[f]` is a condition over sizes: where it fails, no consumer of f runs and f need not run either. It is
    TRUE wherever an empty consumer makes the box empty anyway.
    """

    funcs: Mapping[Func, Box]
    guards: Mapping[Func, Node]
    inputs: Mapping[Array, Box]
    uses: tuple[Use, ...]


def required(p: Pipeline) -> Regions:
    """The regions of all Funcs and inputs of a pipeline, from its outputs. Computed once for a pipeline."""
    found = p.__dict__.get("_regions")
    if found is None:
        found = p.__dict__["_regions"] = _required(p)
    return found


def region(p: Pipeline, f: Func) -> Box:
    """The region of one Func. Where it is known from before (`remember`), no others are looked for."""
    known = p.__dict__.get("_known_regions", {})
    return known[f] if f in known else required(p).funcs[f]


def remember(p: Pipeline, regions: Mapping[Func, Box]) -> None:
    """Take regions for known that `required` found for an equal pipeline."""
    p.__dict__.setdefault("_known_regions", {}).update(regions)


def _required(p: Pipeline) -> Regions:
    boxes: dict[Func, Box] = {}
    guards: dict[Func, Node] = {}
    uses: list[Use] = [_output_use(o) for o in p.outputs]
    for f in reversed(p.funcs):
        wanted = [u for u in uses if u.tensor is f]
        start = hull([u.box for u in wanted]) if wanted else None
        if isinstance(f, InoutFunc):
            assert f.inout is not None
            start, guards[f] = _whole(f.inout), ir.TRUE
            boxes[f] = start
            uses.extend(_written(d, start) for d in f.updates)
        else:
            assert start is not None
            boxes[f] = _closed(f, start)
            guards[f] = any_runs(wanted)
        for d in f.definitions:
            uses.extend(_definition_uses(d, boxes[f], guards[f]))
    inputs: dict[Array, list[Box]] = {}
    for u in uses:
        if isinstance(u.tensor, Array):
            inputs.setdefault(u.tensor, []).append(u.box)
    return Regions(boxes, guards, {a: hull(b) for a, b in inputs.items()}, tuple(uses))


def _output_use(o: Output) -> Use:
    box = tuple(Interval(a, simplify.sub(b, integer(1))) for a, b in zip(o.starts, o.stops, strict=True))
    return Use(o, o.func, o.component, box, all_hold(runs(box)), None)


def _whole(a: Array) -> Box:
    return tuple(Interval(integer(0), simplify.sub(n, integer(1))) for n in a.extents)


def _written(d: Definition, box: Box) -> Use:
    env = domain(d, box)
    out = writes(d, env)
    require_bounded(out, d.func.name, d.lhs, d)
    return Use(d, d.func, 0, out, all_hold(runs(env.values())), None)


def _definition_uses(d: Definition, box: Box, guard: Node) -> list[Use]:
    env = domain(d, box)
    inner = executed(d, env)
    run = conditions(guard) | runs(inner[v] for v in env)
    out = []
    for r in reads(d, env):
        require_bounded(r.box, r.tensor.name, r.load.args, d)
        out.append(Use(d, r.tensor, r.component, r.box, all_hold(run), r.load))
    return out


def _closed(f: Func, box: Box) -> Box:
    """`box` grown by what the updates of f read of f itself and by what they write beyond bare Vars."""
    for shrink in (True, False):  # predicates may tie ranges to the region: without them one more round is enough
        for _ in range(len(f.updates) + 2):
            grown = box
            for d in reversed(f.updates):
                grown = _grown(f, d, grown, shrink)
            if grown == box:
                return box
            box = grown
    raise BoundsError(
        f"the region of {f.name} grows without end through its own updates", code="bounds.unbounded",
        where=f.updates[-1].location, hint="limit the index that it reads itself with: tw.clamp(index, 0, n - 1)",
    )  # fmt: skip


def _grown(f: Func, d: Definition, box: Box, shrink: bool) -> Box:
    if not shrink:
        d = _without_predicates(d)
    env = domain(d, box)
    out = writes(d, env)
    require_bounded(out, f.name, d.lhs, d)
    more = [tuple(b if i.op == "var" else w for i, b, w in zip(d.lhs, box, out, strict=True))]
    for r in reads(d, env, f):
        require_bounded(r.box, f.name, r.load.args, d)
        more.append(tuple(b if i is a else w for i, a, b, w in zip(d.lhs, r.load.args, box, r.box, strict=True)))
    return hull([box, *more])


def _without_predicates(d: Definition) -> Definition:
    from tilewright.lang.symbols import Domain

    if d.rdom is None or not d.rdom.predicates:
        return d
    bare = Domain(d.rdom.ranges, d.rdom.location)
    moved = {old: bare.rvar(n) for n, old in zip(bare.ranges, d.rdom.rvars, strict=True)}
    lhs, values = ir.substitute(d.lhs, moved), ir.substitute(d.values, moved)
    return Definition(d.func, d.number, lhs, values, bare, d.location)


def hull(boxes: Iterable[Box]) -> Box:
    """The smallest box around all of them (at least one)."""
    boxes = list(dict.fromkeys(boxes))
    out = boxes[0]
    for b in boxes[1:]:
        out = tuple(union(x, y) for x, y in zip(out, b, strict=True))
    return out


# Guards ---------------------------------------------------------------------------------------------------------


def runs(ranges: Iterable[Interval]) -> set[Node]:
    """The conditions (extent - 1 >= 0) under which none of the ranges is empty, where that is not certain."""
    most = {simplify.sub(r.hi, r.lo) for r in ranges if r.lo is not None and r.hi is not None}
    return {simplify.compare("ge", e, integer(0)) for e in most if not _never_negative(e)} - {ir.TRUE}


def _never_negative(e: Node) -> bool:
    coefs, constant = simplify.linear(e)
    return constant >= 0 and all(n.op == "size" and k > 0 for n, k in coefs.items())


def all_hold(conditions: Iterable[Node]) -> Node:
    """The conjunction, of conditions e + c >= 0 that differ in c the strictest only."""
    strictest: dict[Any, tuple[int, Node]] = {}
    for n in conditions:
        key, constant = _family(n)
        if key not in strictest or constant < strictest[key][0]:
            strictest[key] = (constant, n)
    out = ir.TRUE
    for c in sorted((c for _, c in strictest.values()), key=lambda c: c.digest):
        out = simplify.conjunction(out, c)
    return out


def _family(n: Node) -> tuple[Any, int]:
    if n.op == "ge" and ir.is_const(n.args[1], 0):
        coefs, constant = simplify.linear(n.args[0])
        return frozenset(coefs.items()), constant
    return n, 0


def any_runs(uses: list[Use]) -> Node:
    """When some use needs a Func: conditions that an empty box shows by itself are left out."""
    if len({u.box for u in uses}) == 1:
        shown = runs(uses[0].box)
        parts = [conditions(u.guard) - shown for u in uses]
    else:
        parts = [conditions(u.guard) for u in uses]
    least = [s for s in parts if not any(t < s for t in parts)]
    out: Node | None = None
    for s in sorted({frozenset(s) for s in least}, key=lambda s: sorted(c.digest for c in s)):
        c = all_hold(s)
        out = c if out is None else ir.TRUE if ir.TRUE in (out, c) else ir.node("or", bool_, (out, c))
    return ir.TRUE if out is None else out


def conditions(guard: Node) -> set[Node]:
    return set(ir.spread(guard, "and")) - {ir.TRUE}

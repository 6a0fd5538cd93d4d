"""What the elements of an array ask for together: which of their accesses are to something that another one has asked for.

All elements run the loops inside of the spatial ones in lock step. Of those that want the same tensor element at once the
first one, in the order of the spatial loops, counts as the one that gets it (multicast), or that brings it (reduction).
Whether two elements `x` and `y` want the same depends on their distance only, where indices are linear in the spatial
variables: `rows . (x - y) = 0`. Of all such distances those are enough between which and 0 (axis by axis) no other lies:
whoever has an earlier partner at a distance has one at such a shortest distance too, for the array is a box.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.hw.errors import SimulationError
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import index
from tilewright.schedule.ranges import spread

Row = tuple[int, ...]  # the coefficients of a linear index, one for each spatial variable

_MOST = 1 << 22  # distances that are looked at one by one
MOST_OVERLAPS = 8  # of whose subsets each is a term


@dataclass(frozen=True, eq=False, slots=True)
class Lane:
    """A loop, spatial or within: `var` runs start <= var < stop, never more than `most` iterations."""

    var: Node
    start: Node
    stop: Node
    most: int


def rows(indices: Sequence[Node], array: Sequence[Lane]) -> tuple[Row, ...]:
    """The linear forms of which equal values mean equal indices."""
    found: dict[object, dict[Node, int]] = {}
    variables = {x.var for x in array}
    for k, n in enumerate(indices):
        _collect(n, variables, (k,), found)
    made = {tuple(coefs.get(x.var, 0) for x in array) for coefs in found.values()}
    return tuple(sorted(r for r in made if any(r)))


def _collect(n: Node, variables: set[Node], key: tuple[object, ...], found: dict[object, dict[Node, int]]) -> None:
    """Adds to the linear forms by key: what is multiplied by a size is apart from what is not, and so are the arguments
    of functions (floor division, minimum, a load): where these are equal, so is the value."""
    coefs, _ = simplify.linear(n)
    for atom, c in coefs.items():
        inside = variables & set(ir.leaves((atom,), "var"))
        if not inside:
            continue
        if atom in variables:
            form = found.setdefault(key, {})
            form[atom] = form.get(atom, 0) + c
        elif atom.op == "mul":
            mine = [a for a in atom.args if variables & set(ir.leaves((a,), "var"))]
            rest = tuple(a for a in atom.args if a not in mine)
            for a in mine:
                scaled: dict[object, dict[Node, int]] = {}
                _collect(a, variables, (*key, rest), scaled)
                for k, form in scaled.items():
                    into = found.setdefault(k, {})
                    for v, d in form.items():
                        into[v] = into.get(v, 0) + c * d
        else:
            for a in atom.args:
                _collect(a, variables, (*key, atom, a), found)


def shortest(forms: tuple[Row, ...], extents: Row) -> tuple[Row, ...]:
    """The shortest distances at which an element has earlier partners: `form . d = 0` for all forms, |d| < extents, the
    first number that is not 0 is positive."""
    return tuple(d for d, _ in shortest_in_boxes(forms, extents, tuple(0 for _ in forms)))


@functools.lru_cache(maxsize=4096)
def shortest_in_boxes(forms: tuple[Row, ...], extents: Row, reach: Row) -> tuple[tuple[Row, Row], ...]:
    """The shortest distances at which boxes overlap whose corners are at `form . x`: |form . d| <= reach (axis by axis).
    Each with how far the boxes are apart there."""
    far = [_farthest(k, e, forms, reach) for k, e in enumerate(extents)]
    size = math.prod(2 * n + 1 for n in far)
    if size > _MOST:
        raise SimulationError(
            f"the elements of an array of {' x '.join(map(str, extents))} have too many neighbours to compare",
            code="spatial.size", hint="lay fewer or shorter loops out",
        )  # fmt: skip
    axes = [np.arange(-n, n + 1) for n in far]
    d = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], 1) if axes else np.zeros((0, 0), int)
    lead = np.zeros(len(d), int)
    for k in reversed(range(len(extents))):
        lead = np.where(d[:, k] != 0, np.sign(d[:, k]), lead)
    d = d[lead > 0]
    apart = d @ np.array(forms, int).reshape(len(forms), len(extents)).T
    fits = (np.abs(apart) <= np.array(reach, int)).all(1)
    d, apart = d[fits], apart[fits]
    full = np.concatenate([d, apart], 1)
    order = np.argsort(np.abs(full).sum(1), kind="stable")
    full = full[order]
    out: list[tuple[Row, Row]] = []
    while len(full):
        v = full[0]
        out.append((tuple(map(int, v[: len(extents)])), tuple(map(int, v[len(extents) :]))))
        between = ((v * full >= 0) & (np.abs(v) <= np.abs(full))).all(1)
        full = full[~between]
    return tuple(out)


def _farthest(k: int, extent: int, forms: tuple[Row, ...], reach: Row) -> int:
    """How far apart along a variable a shortest distance can be: one step where it is in no form, and no farther than a
    form lets it that has no other."""
    own = [r // abs(f[k]) for f, r in zip(forms, reach, strict=True) if f[k] and not any(f[:k] + f[k + 1 :])]
    return min([extent - 1, *own, *([] if any(f[k] for f in forms) else [1])])


def _moved(d: Row, array: Sequence[Lane]) -> dict[Node, Node]:
    return {x.var: simplify.sub(x.var, integer(k)) for x, k in zip(array, d, strict=True) if k}


def partner(d: Row, array: Sequence[Lane], within: Sequence[Lane] = (), guards: Sequence[Node] = ()) -> Node:
    """Whether an element has a partner at a distance before it, which runs this iteration of the loops `within` too, and for
    which the `guards` hold."""
    moved = _moved(d, array)
    out: Node = ir.TRUE
    for c, there in zip(guards, ir.substitute(tuple(guards), moved), strict=True):
        if there is not c:
            out = simplify.conjunction(out, simplify.logic(there))
    for x, k in zip(array, d, strict=True):
        start, stop = ir.substitute((x.start, x.stop), moved)
        at = moved.get(x.var, x.var)
        if k > 0 or start is not x.start:
            out = simplify.conjunction(out, simplify.compare("ge", at, start))
        if k < 0 or stop is not x.stop:
            out = simplify.conjunction(out, simplify.compare("lt", at, stop))
    for x in within:
        start, stop = ir.substitute((x.start, x.stop), moved)
        if start is not x.start:
            out = simplify.conjunction(out, simplify.compare("ge", x.var, start))
        if stop is not x.stop:
            out = simplify.conjunction(out, simplify.compare("lt", x.var, stop))
    return out


def asked_before(
    forms: tuple[Row, ...], array: Sequence[Lane], within: Sequence[Lane] = (), guards: tuple[Node, ...] = ()
) -> Node:
    """Whether an element asks for what an earlier one asks for: a condition on the spatial variables, and on those of the
    loops `within` where their bounds move with the array. `guards` hold where an element asks at all."""
    found = shortest(forms, tuple(x.most for x in array))
    kept = usable(guards, array, found)
    return _any(partner(d, array, within, kept) for d in found)


def usable(guards: Sequence[Node], array: Sequence[Lane], distances: Sequence[Row]) -> tuple[Node, ...]:
    """Those conditions under which the elements that ask are a box, or which are the same for partners: whoever has a
    partner that asks then has one that asks at a shortest distance. Others are taken to hold for partners."""
    return tuple(c for c in guards if all(_is_same(t, array, distances) or _is_range(t, c, array) for t in _parts(c)))


def _parts(condition: Node) -> list[Node]:
    """What a comparison compares with 0: several terms where it holds if it does for each of them; else what is no sum."""
    way = condition.args[0] if condition.op == "not" else condition
    if way.op not in ir.COMPARISONS or way.args[0].dtype is not index:
        return [condition]
    below = (way.op in ("lt", "le")) == (way is condition)
    return (
        spread(simplify.sub(*way.args), "max" if below else "min")
        if way.op not in ("eq", "ne")
        else [simplify.sub(*way.args)]
    )


def _form(n: Node, array: Sequence[Lane]) -> Row | None:
    """The coefficients of the spatial variables, if an expression is linear in these."""
    variables = {x.var for x in array}
    if n.dtype is not index:
        return None
    coefs, _ = simplify.linear(n)
    if any(variables & set(ir.leaves((a,), "var")) for a in coefs if a not in variables):
        return None
    return tuple(coefs.get(x.var, 0) for x in array)


def _is_same(n: Node, array: Sequence[Lane], distances: Sequence[Row]) -> bool:
    form = _form(n, array)
    return form is not None and all(sum(a * b for a, b in zip(form, d, strict=True)) == 0 for d in distances)


def _is_range(n: Node, condition: Node, array: Sequence[Lane]) -> bool:
    """Whether it says something of one variable, and that it lies on one side of something, or there."""
    form = _form(n, array)
    way = condition.args[0] if condition.op == "not" else condition
    hole = way.op == ("ne" if way is condition else "eq")
    return form is not None and sum(map(bool, form)) < 2 and not hole


def _any(conditions: Iterable[Node]) -> Node:
    out: Node = ir.FALSE
    for c in conditions:
        if c is ir.FALSE:
            continue
        out = c if out is ir.FALSE else ir.node("or", c.dtype, (out, c))
    return out


def overlaps(
    forms: tuple[Row, ...], array: Sequence[Lane], lengths: Sequence[Node], most: Row, guards: Sequence[Node] = ()
) -> list[tuple[int, Node, tuple[Node, ...]]]:
    """How many elements of its box an element of the array shares with the boxes of earlier ones: a sum of terms
    (sign, condition, factors). The box has a form and a length on each axis, of `most` points at most."""
    found = shortest_in_boxes(forms, tuple(x.most for x in array), tuple(m - 1 for m in most))
    if len(found) > MOST_OVERLAPS:
        raise SimulationError(
            f"the boxes that elements of an array copy overlap in {len(found)} ways", code="spatial.overlaps",
            hint="lay fewer loops out whose windows overlap, or copy at a loop outside of them",
        )  # fmt: skip
    kept = usable(guards, array, [d for d, _ in found])
    out: list[tuple[int, Node, tuple[Node, ...]]] = []
    for chosen in range(1, 1 << len(found)):
        some = [found[k] for k in range(len(found)) if chosen >> k & 1]
        condition: Node = ir.TRUE
        for d, _ in some:
            condition = simplify.conjunction(condition, partner(d, array, (), kept))
        if condition is ir.FALSE:
            continue
        factors = []
        for axis, e in enumerate(lengths):
            ends = e  # of what they have in common, from the corner of this element's box
            for d, apart in some:
                (before,) = ir.substitute((e,), _moved(d, array))
                ends = simplify.minimum(ends, simplify.sub(before, integer(apart[axis])))
            starts = max(0, *(-apart[axis] for _, apart in some))
            factors.append(simplify.sub(ends, integer(starts)))
        out.append((-1 if len(some) % 2 == 0 else 1, condition, tuple(factors)))
    return out


def merged(lanes: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The points lo..hi that intervals of a length cover together: `lanes` say how many lie how far apart."""
    starts = [0]
    for n, step in lanes:
        starts = sorted({s + step * k for s in starts for k in range(n)})
    out: list[tuple[int, int]] = []
    for s in starts:
        if out and s <= out[-1][1]:
            out[-1] = out[-1][0], s + length
        else:
            out.append((s, s + length))
    return out


def distinct(lanes: Sequence[tuple[int, Row]], lengths: Sequence[int]) -> int:
    """The points that boxes of these lengths cover together: `lanes` say how many lie how far apart on each axis."""
    if all(sum(map(bool, steps)) < 2 for _, steps in lanes):
        along = [merged([(n, abs(s[a])) for n, s in lanes if s[a]], e) for a, e in enumerate(lengths)]
        return math.prod(sum(hi - lo for lo, hi in found) for found in along)
    sizes = [e + sum(abs(s[a]) * (n - 1) for n, s in lanes) for a, e in enumerate(lengths)]
    if max(math.prod(sizes), math.prod(n for n, _ in lanes)) > _MOST:
        raise SimulationError(
            f"what elements of an array of {' x '.join(str(n) for n, _ in lanes)} want has too many points to compare",
            code="spatial.size", hint="lay fewer or shorter loops out",
        )  # fmt: skip
    covered = np.zeros(sizes, bool)
    first = [-sum(min(0, s[a]) * (n - 1) for n, s in lanes) for a in range(len(lengths))]
    for point in np.ndindex(*(n for n, _ in lanes)):
        at = [f + sum(k * s[a] for k, (_, s) in zip(point, lanes, strict=True)) for a, f in enumerate(first)]
        covered[tuple(slice(x, x + e) for x, e in zip(at, lengths, strict=True))] = True
    return int(covered.sum())


__all__ = [
    "MOST_OVERLAPS", "Lane", "asked_before", "distinct", "merged", "overlaps", "partner", "rows", "shortest",
    "shortest_in_boxes",
]  # fmt: skip

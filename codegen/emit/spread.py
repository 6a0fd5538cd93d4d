"""Copies for several elements of an array at once: a buffer in memories of theirs that lives around their loops is spread
over them. The box that is copied is the hull of what they want; here is counted what each memory has of it.

Where a memory is one for several elements, what these want together is counted once, and nothing between their parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from tilewright.codegen import loops as L
from tilewright.codegen.emit.conditions import means
from tilewright.codegen.emit.region import Region
from tilewright.codegen.extents import ranges_of, span
from tilewright.codegen.sharing import Lane, distinct, merged, rows
from tilewright.hw.errors import SimulationError
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer

if TYPE_CHECKING:
    from tilewright.codegen.emit.ledger import Key, Ledger

_MOST = 4096  # elements of an array along an axis of a buffer, each of which is a term


def own_axes(ledger: Ledger, b: L.Buffer) -> frozenset[str]:
    """The axes of the array along which there is one memory of a buffer's kind next to the other."""
    return ledger.machine.memory(b.memory).axes(ledger.machine.compute.axes or {})


def replicas(ledger: Ledger, b: L.Buffer) -> int:
    """How many elements have the same of a buffer, as seen from outside of their loops."""
    return math.prod(x.count for x in _inside(ledger, b) if not any(x.steps))


def _inside(ledger: Ledger, b: L.Buffer) -> tuple[L.Spread, ...]:
    """The spatial loops that are not around and at each iteration of which there is another memory with a part of it."""
    own = own_axes(ledger, b)
    return tuple(x for x in _left(ledger, b) if x.axis in own)


def _left(ledger: Ledger, b: L.Buffer) -> tuple[L.Spread, ...]:
    return b.spread[len(ledger.array) - ledger.outside.get(b, 0) :]


def innermost(ledger: Ledger, t: L.Transfer) -> L.Buffer | None:
    """The one of a copy's buffers that says which elements want what, if several do that are not told apart here."""
    both = [v.buffer for v in (t.source, t.target) if _inside(ledger, v.buffer)]
    order = ledger.machine.memories
    return max(both, key=lambda b: order.index(ledger.machine.memory(b.memory)), default=None)


def spread_box(
    ledger: Ledger,
    r: Region,
    keys: tuple[Key, Key],
    whole: tuple[Node, ...],
    elements: L.Buffer,
    around: Sequence[Lane],
) -> bool:
    """Count, for a box of a buffer, what its memories have of what `elements` want (under the second key) instead of the
    box itself (taken off under the first). `around` are the spatial loops around that share the memory. False where that is
    the box, to which nothing has been done then."""
    b = keys[0].buffer
    assert b is not None
    half = len(whole) // 2
    origin, extents = whole[:half], whole[half:]
    own = own_axes(ledger, b)
    inside = _inside(ledger, elements)
    known = ranges_of(ledger.loops)
    extents = tuple(_constant(e, known) for e in extents)
    mine = [x for x in inside if x.axis in own]
    others = [x for x in inside if x.axis not in own]
    shared = [x for x in _left(ledger, elements) if x not in inside]
    parts = [
        _Axis.of(elements, inside, shared, a, e, _constant(most, known))
        for a, (e, most) in enumerate(zip(extents, elements.box, strict=True))
    ]
    if not mine and all(p.hull([x.steps[p.axis] for x in others], [x.count for x in others]) for p in parts):
        return False
    if around:
        _count(ledger, r, keys, extents, [integer(_together(b, origin, parts, mine, others, around))], around)
    else:
        _count(ledger, r, keys, extents, _factors(b, parts, mine, others))
    return True


def together(
    ledger: Ledger, r: Region, keys: tuple[Key, Key], whole: tuple[Node, ...], around: Sequence[Lane]
) -> bool:  # fmt: skip
    """Count what the boxes of all elements around cover together. False where constants do not say it: nothing is done."""
    b = keys[0].buffer
    assert b is not None
    half = len(whole) // 2
    known = ranges_of(ledger.loops)
    extents = tuple(_constant(e, known) for e in whole[half:])
    parts = [_Axis(a, e, None) for a, e in enumerate(extents)]
    try:
        found = _together(b, whole[:half], parts, (), (), around)
    except SimulationError:
        return False
    _count(ledger, r, keys, extents, [integer(found)], around)
    return True


def _count(
    ledger: Ledger, r: Region, keys: tuple[Key, Key], extents: Sequence[Node], found: Sequence[Node],
    around: Sequence[Lane] = (),
) -> None:  # fmt: skip
    """Take off a box, and count what is there instead, by the first of the elements around for all of them."""
    from tilewright.codegen.emit.values import scalar, value

    ledger.product(r, keys[0], extents, [scalar(r, e) for e in extents])
    condition: Node = ir.TRUE
    for x in around:
        condition = simplify.conjunction(condition, simplify.compare("eq", x.var, x.start))
    mask = None if condition is ir.TRUE else means(r, value(r, condition), condition)
    ledger.product(r, keys[1], found, [scalar(r, e) for e in found], mask)


def _constant(e: Node, known: Mapping[Node, tuple[int, int]]) -> Node:
    found = span(e, known)
    return integer(found[0]) if found and found[0] == found[1] else e


class _Axis:
    """An axis of a box: its extent, and how much of it an element wants (None: not known)."""

    def __init__(self, axis: int, extent: Node, reach: int | None):
        self.axis, self.extent, self.reach = axis, extent, reach

    @staticmethod
    def of(
        elements: L.Buffer, inside: Sequence[L.Spread], shared: Sequence[L.Spread], axis: int, extent: Node, box: Node
    ) -> _Axis:
        """`inside` are the loops along which elements are apart, `shared` those along which they have a memory in common;
        `box` is the extent of all that the buffer has."""
        if not any(x.steps[axis] for x in inside):
            return _Axis(axis, extent, None)
        top, most = constant_top(extent), constant_top(box)
        if top is not None and most is not None and top != most:
            raise _refused(
                elements, "a part of its window is copied while elements of the array want parts of their own"
            )
        reach = elements.reach[axis]
        if reach is not None:
            reach += sum(abs(x.steps[axis]) * (x.count - 1) for x in shared)
        elif most is not None:
            reach = most - sum(abs(x.steps[axis]) * (x.count - 1) for x in inside)
        return _Axis(axis, extent, reach)

    def hull(self, steps: Sequence[int], counts: Sequence[int]) -> bool:
        """Whether elements want all of the box together."""
        if self.reach is None:
            return True
        return len(merged([(n, abs(c)) for c, n in zip(steps, counts, strict=True)], self.reach)) == 1


def constant_top(n: Node) -> int | None:
    """The most that an extent is, if that is a constant."""
    return min([e.attr for e in ir.spread(n, "min") if e.op == "const"], default=None)


def _factors(b: L.Buffer, parts: Sequence[_Axis], mine: Sequence[L.Spread], others: Sequence[L.Spread]) -> list[Node]:
    """Factors of the number of elements that all memories of a kind have together."""
    if any(sum(map(bool, x.steps)) > 1 for x in (*mine, *others)):
        return [integer(_diagonal(b, parts, mine, others))]
    out: list[Node] = [integer(math.prod(x.count for x in mine if not any(x.steps)))]
    for p in parts:
        apart = [(x.count, abs(x.steps[p.axis])) for x in mine if x.steps[p.axis]]
        together = [(x.count, abs(x.steps[p.axis])) for x in others if x.steps[p.axis]]
        if p.reach is None:
            less = sum(c * (n - 1) for n, c in apart)
            out += [integer(math.prod(n for n, _ in apart)), simplify.sub(p.extent, integer(less))]
            continue
        pieces: Counter[tuple[int, int]] = Counter()
        for moved in product(*(range(0, n * c, c) for n, c in apart)):
            for lo, hi in merged(together, p.reach):
                pieces[sum(moved) + lo, hi - lo] += 1
        if len(pieces) > _MOST and p.extent.op != "const":
            raise _refused(b, "too many elements of the array have a part of it whose end is not a constant")
        total: Node = integer(0)
        if p.extent.op == "const":
            total = integer(sum(k * max(0, min(n, p.extent.attr - at)) for (at, n), k in pieces.items()))
        else:
            for (at, n), k in pieces.items():
                left = simplify.maximum(simplify.minimum(integer(n), simplify.sub(p.extent, integer(at))), integer(0))
                total = simplify.add(total, simplify.mul(left, integer(k)))
        out.append(total)
    return out


def _constants(b: L.Buffer, parts: Sequence[_Axis], inside: Sequence[L.Spread]) -> list[int]:
    """What an element wants along each axis, where all of it is there."""
    lengths = []
    for p in parts:
        far = sum(abs(x.steps[p.axis]) * (x.count - 1) for x in inside)
        if p.extent.op != "const":
            raise _refused(
                b, "elements of the array want parts of it with gaps between them, in tiles of which some are cut"
            )
        length = p.extent.attr - far if p.reach is None else p.reach
        if length + far != p.extent.attr:
            raise _refused(b, "elements of the array want parts of it with gaps between them, some of them cut")
        lengths.append(length)
    return lengths


def _diagonal(b: L.Buffer, parts: Sequence[_Axis], mine: Sequence[L.Spread], others: Sequence[L.Spread]) -> int:
    lengths = _constants(b, parts, (*mine, *others))
    return math.prod(x.count for x in mine) * distinct([(x.count, x.steps) for x in others], lengths)


def _together(
    b: L.Buffer, origin: Sequence[Node], parts: Sequence[_Axis], mine: Sequence[L.Spread], others: Sequence[L.Spread],
    around: Sequence[Lane],
) -> int:  # fmt: skip
    """The same for all of the elements around at once, which share the memory."""
    lengths = _constants(b, parts, (*mine, *others))
    lanes = [(x.count, x.steps) for x in others]
    return math.prod(x.count for x in mine) * distinct([*lanes, *_lanes(b, origin, around)], lengths)


def _lanes(b: L.Buffer, origin: Sequence[Node], around: Sequence[Lane]) -> list[tuple[int, tuple[int, ...]]]:
    forms = [rows((o,), around) or ((0,) * len(around),) for o in origin]
    trips = [simplify.sub(x.stop, x.start) for x in around]
    if any(len(f) > 1 for f in forms) or any(n.op != "const" for n in trips):
        raise _refused(
            b, "elements of the array want parts of it with gaps between them, at places that are not linear"
        )
    return [(n.attr, tuple(f[0][k] for f in forms)) for k, n in enumerate(trips)]


def unequal(b: L.Buffer) -> SimulationError:
    """Some elements of the array that copy for others do not run."""
    return _refused(
        b, "it is copied for several elements of the array at once, under a condition that differs among others"
    )


def _refused(b: L.Buffer, why: str) -> SimulationError:
    return SimulationError(
        f"{b.name} can't be counted: {why}", code="spatial.gaps",
        hint="copy it inside of these spatial loops, where each element asks for its own part",
    )  # fmt: skip


__all__ = ["constant_top", "innermost", "own_axes", "replicas", "spread_box", "together", "unequal"]

"""What the elements of an array share, counted while a program is emitted: see `codegen.sharing` for which accesses.

Accesses are counted for each element as if it were alone; those to buffers that live outside of spatial loops and that an
earlier element has asked for as well are counted once more, and the account takes them off: what several elements load at
once is loaded once (multicast), and what they store at once to one place is added on the way and stored once (reduced).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen import loops as L
from tilewright.codegen.emit.conditions import both, here, means
from tilewright.codegen.emit.index import Access
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.sharing import Lane, asked_before, overlaps, rows
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import from_linear

if TYPE_CHECKING:
    from tilewright.codegen.emit.ledger import Key, Ledger

_FAR = 1 << 40  # more points than any box has along an axis


def relayed(stage: str) -> str | None:
    """How a stage passes a partial sum on to the next element: `pass` where it starts a sum, `relay` where a tile around
    does so; None for all others."""
    how = stage.partition("{")[0].rpartition(".")[2]
    return how if how in ("pass", "relay") else None


def lanes_around(ledger: Ledger, r: Region, b: L.Buffer) -> list[Lane]:
    """The spatial loops inside of which a buffer does not live, but is accessed here."""
    if ledger.machine.memory(b.memory).per == "element":
        return []  # each has its own
    around = ledger.array[ledger.outside.get(b, 0) :]
    return [Lane(s.var, here(r, s.start), here(r, s.stop), _most(ledger, s)) for s in around]


def is_spread(ledger: Ledger, b: L.Buffer) -> bool:
    """Whether a buffer is in memories of the elements of an array, and is seen from outside of their loops: each element
    has a part of it, or all."""
    if not b.spread or ledger.machine.memory(b.memory).per != "element":
        return False
    return len(ledger.array) == ledger.outside.get(b, 0)


def replicas(b: L.Buffer) -> int:
    """How many elements have the same."""
    return math.prod(n for n, c in b.spread if not any(c))


def spread_box(ledger: Ledger, r: Region, keys: tuple[Key, Key], whole: tuple[Node, ...]) -> None:
    """Count, for a box of a buffer that is spread, what all elements have of it (under the second key) instead of the box
    itself (taken off under the first)."""
    from tilewright.codegen.emit.values import scalar

    b = keys[0].buffer
    assert b is not None
    extents = whole[len(whole) // 2 :]
    ledger.product(r, keys[0], extents, [scalar(r, e) for e in extents])
    own: list[Node] = [integer(math.prod(n for n, _ in b.spread))]
    for axis, e in enumerate(extents):
        own.append(simplify.sub(e, integer(sum(abs(c[axis]) * (n - 1) for n, c in b.spread))))
    ledger.product(r, keys[1], own, [scalar(r, e) for e in own])


def _most(ledger: Ledger, s: L.For) -> int:
    """The most iterations of a spatial loop: as many as its axis is long, or fewer where it says so itself."""
    extent = simplify.sub(s.stop, s.start)
    ends = [e.attr for e in ir.spread(extent, "min") if e.op == "const"]
    return max(1, min([(ledger.machine.compute.axes or {}).get(s.axis, _FAR), *ends]))


def share_access(ledger: Ledger, r: Region, key: Key, n: int, mask: Value | None, a: Access | None) -> None:
    """Count, under a key, an access of `n` elements that an earlier element of the array makes as well. Where indices
    are data that elements read themselves, nothing is known to be shared."""
    from tilewright.codegen.emit.values import value

    assert key.buffer is not None
    array = lanes_around(ledger, r, key.buffer)
    if not array or a is None:
        return
    index = [from_linear(dict(terms), 0) for terms in (a.terms, a.dynamic, a.strides)]
    within = [Lane(s.var, here(r, s.start), here(r, s.stop), _FAR) for s in ledger.within]
    condition = asked_before(rows(index, array), array, within)
    if condition is ir.FALSE:
        return
    x = value(r, condition)[0]
    means(r, (x, False), condition)
    if mask is None or mask[0] == "true":
        mask = x, False
    elif mask[1]:
        assert r.lanes is not None
        lanes = r.lanes.n
        wide = r.f.broadcast("i1", x, lanes)
        means(r, (wide, True), condition)
        mask = both(r, r.f.op(f"and <{lanes} x i1> {wide}, {mask[0]}"), wide, mask[0]), True
    else:
        mask = both(r, r.f.op(f"and i1 {x}, {mask[0]}"), x, mask[0]), False
    ledger.charge(r, key, n, mask)


def share_box(ledger: Ledger, r: Region, keys: tuple[Key, Key], whole: tuple[Node, ...]) -> None:
    """Count the elements of a box (coordinates of the first one, then extents) that boxes of earlier elements have
    too: those to be taken off under the first key, those that were taken off too often under the second."""
    from tilewright.codegen.emit.values import scalar, value

    assert keys[0].buffer is not None
    array = lanes_around(ledger, r, keys[0].buffer)
    if not array or not whole:
        return
    half = len(whole) // 2
    origin, extents = whole[:half], whole[half:]
    forms, lengths = [], []
    for o, e in zip(origin, extents, strict=True):
        found = rows((o,), array) or ((0,) * len(array),)
        forms += found
        lengths += [e] * len(found)
    for sign, condition, factors in overlaps(tuple(forms), array, lengths, _reach(lengths)):
        distinct = _once(forms, origin, array, factors)
        ledger.product(
            r, keys[sign < 0], distinct, [scalar(r, f) for f in distinct],
            None if condition is ir.TRUE else means(r, value(r, condition), condition),
        )  # fmt: skip


def _once(
    forms: Sequence[object], origin: Sequence[Node], array: Sequence[Lane], factors: tuple[Node, ...]
) -> list[Node]:
    """The factors of a box, one for each axis: an axis with several forms has the shortest."""
    out: list[Node] = []
    at = 0
    for o in origin:
        many = len(rows((o,), array) or ((),))
        out.append(_least(factors[at : at + many]))
        at += many
    return out


def _least(nodes: Sequence[Node]) -> Node:
    out = nodes[0]
    for n in nodes[1:]:
        out = simplify.minimum(out, n)
    return out


def _reach(lengths: Sequence[Node]) -> tuple[int, ...]:
    return tuple(min([e.attr for e in ir.spread(n, "min") if e.op == "const"] or [_FAR]) for n in lengths)

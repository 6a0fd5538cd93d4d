"""What the elements of an array share, counted while a program is emitted: see `codegen.sharing` for which accesses.

Accesses are counted for each element as if it were alone; those to buffers that live outside of spatial loops and that an
earlier element has asked for as well are counted once more, and the account takes them off: what several elements load at
once is loaded once (multicast), and what they store at once to one place is added on the way and stored once (reduced).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen import loops as L
from tilewright.codegen.emit.conditions import both, here, meaning, means
from tilewright.codegen.emit.index import Access
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.emit.spread import own_axes, spread_box, together, unequal
from tilewright.codegen.sharing import MOST_OVERLAPS, Lane, asked_before, overlaps, rows, shortest_in_boxes
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node
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
    """The spatial loops inside of which a buffer does not live, but is accessed here, and whose elements share it."""
    own = own_axes(ledger, b)  # there each has a memory of its own
    around = [s for s in ledger.array[ledger.outside.get(b, 0) :] if s.axis not in own]
    return [Lane(s.var, here(r, s.start), here(r, s.stop), _most(ledger, s)) for s in around]


def _guards(ledger: Ledger, array: Sequence[Lane], *more: Node) -> tuple[Node, ...]:
    """The conditions that hold for some elements and not for others."""
    variables = {x.var for x in array}
    parts = (c for g in (*ledger.guards, *more) for c in ir.spread(g, "and"))
    return tuple(dict.fromkeys(c for c in parts if variables & set(ir.leaves((c,), "var"))))


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
    masks = () if mask is None or mask[0] == "true" else (meaning(r, mask[0]),)
    condition = asked_before(rows(index, array), array, within, _guards(ledger, array, *masks))
    if condition is ir.FALSE:
        return
    x, varies = value(r, condition)
    means(r, (x, varies), condition)
    if mask is None or mask[0] == "true":
        mask = x, varies
    elif varies:
        assert r.lanes is not None and mask[1]
        mask = both(r, r.f.op(f"and <{r.lanes.n} x i1> {x}, {mask[0]}"), x, mask[0]), True
    elif mask[1]:
        assert r.lanes is not None
        lanes = r.lanes.n
        wide = r.f.broadcast("i1", x, lanes)
        means(r, (wide, True), condition)
        mask = both(r, r.f.op(f"and <{lanes} x i1> {wide}, {mask[0]}"), wide, mask[0]), True
    else:
        mask = both(r, r.f.op(f"and i1 {x}, {mask[0]}"), x, mask[0]), False
    ledger.charge(r, key, n, mask)


def share_box(
    ledger: Ledger, r: Region, keys: tuple[Key, Key], whole: tuple[Node, ...], elements: L.Buffer | None = None
) -> None:
    """Count the elements of a box (coordinates of the first one, then extents) that boxes of earlier elements have
    too: those to be taken off under the first key, those that were taken off too often under the second. `elements` is the
    buffer of further elements of the array, for all of which the box is copied at once."""
    from tilewright.codegen.emit.values import scalar, value

    assert keys[0].buffer is not None
    array = lanes_around(ledger, r, keys[0].buffer)
    if array and elements is not None and _guards(ledger, array):
        raise unequal(keys[0].buffer)
    if not whole or (elements is not None and spread_box(ledger, r, keys, whole, elements, array)) or not array:
        return
    half = len(whole) // 2
    origin, extents = whole[:half], whole[half:]
    forms, lengths = [], []
    for o, e in zip(origin, extents, strict=True):
        found = rows((o,), array) or ((0,) * len(array),)
        forms += found
        lengths += [e] * len(found)
    reach = _reach(lengths)
    ways = shortest_in_boxes(tuple(forms), tuple(x.most for x in array), tuple(n - 1 for n in reach))
    guards = _guards(ledger, array)
    if len(ways) > MOST_OVERLAPS and not guards and together(ledger, r, keys, whole, array):
        return
    for sign, condition, factors in overlaps(tuple(forms), array, lengths, reach, guards):
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

"""Pure definitions that transpose: vectors run along one axis of what is written, what is read lies along another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node

_MOST = 16  # rows and columns of a tile: larger ones take long to compile and gain little


def crossing_axis(lhs: Sequence[Node], values: Sequence[Node]) -> Node | None:
    """The variable along which most loads are contiguous that are strided along the last one; None without such loads.

    A load counts where its last index is the variable (plus what does not vary with it) and another of its indices
    runs along the vector axis.
    """
    vector, others = lhs[-1], [v for v in lhs[:-1] if v.op == "var"]
    found: Counter[Node] = Counter()
    for n in ir.leaves(values, "load"):
        if not n.args or vector in ir.postorder(n.args[-1:]) or vector not in ir.postorder(n.args[:-1]):
            continue
        coefs, _ = simplify.linear(n.args[-1])
        for u in others:
            inside = [a for a in coefs if u in ir.postorder((a,))]
            if inside == [u] and coefs[u] == 1 and u not in ir.postorder(n.args[:-1]):
                found[u] += 1
    return found.most_common(1)[0][0] if found else None


def tile_size(width: int, size: int) -> int:
    """Rows and columns of a tile of elements of `size` bytes, for vector registers of `width` bytes."""
    return max(2, min(_MOST, width // size))

"""What must hold of sizes and scalars before a kernel runs: conditions that the kernel itself checks first.

They are the checks of `lang.binding` once more, for the calls that never enter Python.
"""

from __future__ import annotations

from tilewright.lang import ir, simplify
from tilewright.lang.func import InoutFunc
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.regions import required
from tilewright.lang.tensors import Array
from tilewright.lang.types import bool_

ZERO = integer(0)


def requirements(p: Pipeline) -> tuple[Node, ...]:
    """Conditions: output slices run forward, inputs hold what is read of them."""
    found: dict[Node, None] = {}
    for o in p.outputs:
        for n in o.extents:
            found[simplify.compare("ge", n, ZERO)] = None
    for u in required(p).uses:
        if not isinstance(u.tensor, (Array, InoutFunc)):
            continue
        array = u.tensor.inout if isinstance(u.tensor, InoutFunc) else u.tensor
        assert array is not None
        held: Node = ir.TRUE
        empty: Node = ir.FALSE
        for r, n in zip(u.box, array.extents, strict=True):
            assert r.lo is not None and r.hi is not None
            held = simplify.conjunction(held, simplify.compare("ge", r.lo, ZERO))
            held = simplify.conjunction(held, simplify.compare("lt", r.hi, n))
            empty = _or(empty, simplify.compare("lt", r.hi, r.lo))
        if held is not ir.TRUE:
            found[_or(_or(held, empty), _not(u.guard))] = None
    return tuple(c for c in found if c is not ir.TRUE)


def _or(a: Node, b: Node) -> Node:
    if ir.TRUE in (a, b):
        return ir.TRUE
    return b if a is ir.FALSE else a if b is ir.FALSE else ir.node("or", bool_, (a, b))


def _not(c: Node) -> Node:
    if c.op == "const":
        return ir.FALSE if c.attr else ir.TRUE
    return ir.node("not", bool_, (c,))

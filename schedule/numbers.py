"""Numbers that the caller gives, such as the lengths of rows, as ends of loops: comparisons of variables with them."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Array
from tilewright.lang.types import i64, index

ONE = integer(1)

NUMBER = ir.var("the caller's number")


def by_data(c: Node, env: Mapping[Node, Interval]) -> tuple[Node, Node] | None:
    """A comparison of an index expression with a number that the caller gives (`k < lengths[b]`) as one of index
    expressions, in which `NUMBER` stands for the number, and the number; None for other conditions.

    Its variables run over `env`. Where a number of 64 bits is far outside of what they reach, the next one outside
    stands for it: sums with it don't overflow."""
    if c.op not in ("lt", "le", "gt", "ge") or not c.args[0].dtype.is_int or c.args[0].dtype is index:
        return None
    left, right = (_index_value(a) for a in c.args)
    if (left is None) == (right is None):
        return None
    number = c.args[1 if left is not None else 0]
    value = left if left is not None else right
    assert value is not None
    if not _given(number):
        return None
    while number.op == "cast":  # to a wider type
        number = number.args[0]
    if number.dtype.bits == 64:
        reach = _reach(value, env)
        if reach is None:
            return None
        # any number beyond what is reached is as good as the next one
        ends = simplify.add(reach[1], ONE), reach[0]
        if c.op in (("le", "gt") if left is not None else ("ge", "lt")):
            ends = reach[1], simplify.sub(reach[0], ONE)
        for op, e in zip(("min", "max"), ends, strict=True):
            number = ir.node(op, number.dtype, (number, ir.node("cast", number.dtype, (e,))))
    left, right = (value, NUMBER) if left is not None else (NUMBER, value)
    return simplify.compare(c.op, left, right), number


def _reach(value: Node, env: Mapping[Node, Interval]) -> tuple[Node, Node] | None:
    """The least and the largest value of an index expression over all iterations."""
    lo: Node | None = value
    hi: Node | None = value
    for _ in range(len(env) + 1):  # ranges may be in terms of other variables
        ends = [e for e in (lo, hi) if e is not None]
        if not any(v in env for op in ("var", "rvar") for v in ir.leaves(ends, op)):
            break
        lo, hi = lo and bounds(lo, env).lo, hi and bounds(hi, env).hi
    return None if lo is None or hi is None else (lo, hi)


def _index_value(n: Node) -> Node | None:
    """The index expression that a number is; casts to less than 64 bits, which wrap, are others."""
    return n.args[0] if n.op == "cast" and n.args[0].dtype is index and n.dtype is i64 else None


def _given(n: Node) -> bool:
    """Whether a number comes from the caller and does not change while the kernel runs; sums, which wrap, are not."""
    if n.op == "load":
        t = n.attr[0]
        return isinstance(t, Array) and not ir.leaves(n.args, "load")
    if n.op == "cast":
        return n.args[0].dtype.is_int and n.args[0].dtype is not index and n.dtype.bits >= n.args[0].dtype.bits and (
            n.dtype.kind == n.args[0].dtype.kind or n.dtype.bits > n.args[0].dtype.bits
        ) and _given(n.args[0])  # fmt: skip
    return n.op in ("scalar", "const") or (n.op in ("min", "max") and all(_given(a) for a in n.args))

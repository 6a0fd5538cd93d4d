"""Conditions of the emitted code as expressions: what masks stand for, with the values of unrolled variables put in.

Operands are texts of LLVM; a skeleton needs what they mean. `Region.meaning` has the expression of every operand that
masks something.
"""

from __future__ import annotations

import functools

from tilewright.codegen.emit.region import Region, Value
from tilewright.lang import ir
from tilewright.lang.ir import COMPARISONS, Node, integer, substitute
from tilewright.lang.simplify import conjunction, from_linear, linear, sub
from tilewright.lang.types import bool_, index


def here(r: Region, n: Node) -> Node:
    """An expression in variables of loops that are emitted as loops (and the lanes' variable)."""
    inside = [v for v in r.shared.info(n).unrolled if v in r.env_linear]
    if not inside:
        return n
    return substitute((n,), {v: from_linear(*r.env_linear[v]) for v in inside})[0]


def means(r: Region, x: Value, n: Node) -> Value:
    """Remember what an operand stands for; gives it back."""
    if r.shared.ledger is not None:
        r.meaning[x[0]] = here(r, n)
    return x


def meaning(r: Region, operand: str) -> Node:
    """What an operand stands for."""
    return r.meaning[operand]


def both(r: Region, made: str, a: str, b: str) -> str:
    """Remember that an operand is the conjunction of two others; gives it back."""
    if r.shared.ledger is not None:
        r.meaning[made] = conjunction(r.meaning[a], r.meaning[b])
    return made


def opposite(r: Region, made: str, a: str) -> str:
    if r.shared.ledger is not None:
        r.meaning[made] = negated(r.meaning[a])
    return made


def same(r: Region, made: str, a: str) -> str:
    if r.shared.ledger is not None and a in r.meaning:
        r.meaning[made] = r.meaning[a]
    return made


def some_lane(r: Region, made: str, mask: str) -> str:
    """Remember that an operand says whether a mask has an active lane."""
    if r.shared.ledger is not None:
        assert r.lanes is not None
        r.meaning[made] = any_lane(r.meaning[mask], r.lanes.var, r.lanes.n)
    return made


def negated(c: Node) -> Node:
    return c.args[0] if c.op == "not" else ir.node("not", bool_, (c,))


@functools.lru_cache(maxsize=4096)
def any_lane(c: Node, lane: Node, n: int) -> Node:
    """Whether a condition holds for a lane at least."""
    ways = set()
    for part in ir.spread(c, "and"):
        if lane in ir.leaves((part,), "var"):
            ways.add(_way(part, lane))
    if not ways:
        return c
    if ways in ({-1}, {1}):  # where it holds in any, it holds in the first, or in the last
        return substitute((c,), {lane: integer(0 if ways == {-1} else n - 1)})[0]
    out: Node | None = None
    for k in range(n):
        (one,) = substitute((c,), {lane: integer(k)})
        out = one if out is None else ir.node("or", bool_, (out, one))
    assert out is not None
    return out


def _way(c: Node, lane: Node) -> int | None:
    """Which lanes a condition prefers: later ones (1) or earlier ones (-1); None where there is no order."""
    if c.op not in COMPARISONS or c.op in ("eq", "ne") or c.args[0].dtype is not index:
        return None
    coefs, _ = linear(sub(*c.args))
    k = coefs.get(lane, 0)
    if not k or any(lane in ir.leaves((a,), "var") for a in coefs if a is not lane):
        return None
    return (1 if k > 0 else -1) * (1 if c.op in ("gt", "ge") else -1)


def by_data(n: Node) -> bool:
    """Whether an expression depends on what the kernel is called with besides its sizes."""
    return any(m.op in ("load", "load_if", "scalar", "stride", "call_extern") for m in ir.postorder((n,)))


def sayable(n: Node) -> bool:
    """Whether a skeleton can say an expression."""
    from tilewright.codegen.skeleton.graph import expressible  # only programs for a machine need it

    return expressible(n) and not by_data(n)

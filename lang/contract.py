"""Which additions are fused multiply-adds in mode `contract` (see docs/numerics.md)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang.ir import Node, const, is_const, node, rebuild, transform


def contract(roots: Sequence[Node]) -> tuple[Node, ...]:
    """The values of one definition with its fma nodes decided: to be done before anything is simplified.

    A float add or subtract with a product as operand becomes `fma(a, b, c)` = a*b + c rounded once. It takes its
    left operand if that is a product, else the right one; a product that has other uses too is fused all the same.
    Calls, selections and roundings are no products.
    """
    return transform(roots, _decide)


def _decide(n: Node, args: tuple[Node, ...]) -> Node:
    if n.op not in ("add", "sub") or not n.dtype.is_float:
        return rebuild(n, args)
    left, right = args
    if _is_product(n.args[0]):
        return node("fma", n.dtype, (*left.args, right if n.op == "add" else _negated(right)))
    if _is_product(n.args[1]):
        a, b = right.args
        return node("fma", n.dtype, (a if n.op == "add" else _negated(a), b, left))
    return rebuild(n, args)


def _is_product(n: Node) -> bool:
    return n.op == "mul" and n.dtype.is_float


def _negated(n: Node) -> Node:
    return const(-n.attr, n.dtype) if is_const(n) else node("neg", n.dtype, (n,))

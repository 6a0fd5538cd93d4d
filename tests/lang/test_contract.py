"""Which adds become fma, by small cases and by values where one rounding differs from two."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.lang import ir
from tilewright.lang.contract import contract
from tilewright.lang.evaluate import evaluate
from tilewright.lang.expr import Expr, bitcast, cast, select, wrap
from tilewright.lang.ir import Node
from tilewright.lang.math import exp
from tilewright.lang.types import bf16, f32, f64, i32, u32

A, B, C, D = (wrap(ir.node("param", f32, (), k)) for k in range(4))


def fma(a: Expr | Node, b: Expr, c: Expr | Node) -> Node:
    args = tuple(v.node if isinstance(v, Expr) else v for v in (a, b, c))
    return ir.node("fma", f32, args)


def fused(e: Expr) -> Node:
    return contract([e.node])[0]


@pytest.mark.parametrize(
    "text, expression, expected",
    [
        ("left", A * B + C, fma(A, B, C)),
        ("right", C + A * B, fma(A, B, C)),
        ("left of two", A * B + C * D, fma(A, B, C * D)),
        ("minus", A * B - C, fma(A, B, -C)),
        ("minus a product", C - A * B, fma(-A, B, C)),
        ("minus, left of two", A * B - C * D, fma(A, B, -(C * D))),
        ("minus a constant", A * B - 2.0, fma(A, B, wrap(ir.const(-2.0, f32)))),
        ("a constant less a product", 2.0 - A * B, fma(-A, B, wrap(ir.const(2.0, f32)))),
        ("a chain", A * B + C * D + A, ir.node("add", f32, (fma(A, B, C * D), A.node))),
        ("inside a factor", (A * B + C) * D + A, fma(fma(A, B, C), D, A)),
        ("Horner", (A * B + C) * B + D, fma(fma(A, B, C), B, D)),
    ],
)
def test_what_fuses(text: str, expression: Expr, expected: Node) -> None:
    assert fused(expression) is expected


@pytest.mark.parametrize(
    "expression",
    [
        exp(A * B) + C,
        select(A > B, A * B, C * D) + C,
        cast(bf16, A * B) + C,
        bitcast(f32, bitcast(u32, A * B)) + C,
        -(A * B) + C,
        A / B + C,
        A + B - C,
        cast(f64, A * B) + 1.0,
        cast(i32, A) * cast(i32, B) + cast(i32, C),
    ],
)
def test_what_does_not_fuse(expression: Expr) -> None:
    (root,) = contract([expression.node])
    assert root is expression.node


def test_a_product_with_other_uses_fuses_too() -> None:
    p = A * B
    total, product = contract([(p + C).node, p.node])
    assert total is fma(A, B, C) and product is p.node


def test_operands_are_contracted_before_they_are_used() -> None:
    p = (A * B + C) * D
    total, product = contract([(p + C).node, p.node])
    assert product.args[0] is fma(A, B, C)
    assert total.args[0] is fma(A, B, C)


def test_deep_expressions_do_not_recurse() -> None:
    x = A
    for _ in range(5000):
        x = x * B + C
    (root,) = contract([x.node])
    assert root.op == "fma" and sum(n.op == "fma" for n in ir.postorder([root])) == 5000


def test_one_rounding_shows_in_the_bits() -> None:
    x = np.float32(1 + 2**-12)  # its square is 1 + 2**-11 + 2**-24
    e = (A * A - (1 + 2.0**-11)).node
    strict, once = (evaluate([n], {A.node: x})[0].item() for n in (e, contract([e])[0]))
    assert (strict, once) == (0.0, 2.0**-24)
    assert evaluate(contract([(C - A * B).node]), {A.node: x, B.node: x, C.node: 1 + 2.0**-11})[0] == -(2.0**-24)

"""What nodes keep about themselves: the variables below them, their linear form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang import ir
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, floordiv, linear, maximum, mul, sub

LEAVES = st.sampled_from([ir.var("x"), ir.var("y"), ir.size("N"), ir.size("M")]) | st.integers(-4, 4).map(integer)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.builds(lambda f, a, b: f(a, b), st.sampled_from([add, sub, mul, floordiv, maximum]), inner, inner),
    max_leaves=12,
)


@given(NODES)
def test_variables_are_those_below(n: Node):
    for _ in range(2):
        assert ir.variables(n) == frozenset(ir.leaves((n,), "var"))


@given(NODES)
def test_a_linear_form_belongs_to_its_caller(n: Node):
    coefs, constant = linear(n)
    before = dict(coefs)
    coefs.clear()
    assert linear(n) == (before, constant)
    assert add(n, integer(0)) is n and sub(n, n) is integer(0)


def test_variables_of_deep_sums():
    x = n = ir.var("x")
    for k in range(5000):
        n = ir.node("add", n.dtype, (n, ir.size(f"s{k % 7}")))
    assert ir.variables(n) == {x}

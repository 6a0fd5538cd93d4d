"""The loops of a boundary condition have the names of what it extends."""

import pytest

import tilewright as tw
from tilewright.lang import ir


@pytest.mark.parametrize(
    "condition", [tw.repeat_edge, tw.wrap_around, tw.reflect, tw.reflect_interior, tw.constant_exterior]
)
def test_axes_are_those_of_the_func(condition):
    H, W = tw.sizes("H W")
    y, x = tw.vars("y x")
    f = tw.func("f")
    f[y, x] = y + x
    value = (0,) if condition is tw.constant_exterior else ()
    around = condition(f, *value, (0, H), (0, W))
    assert around.args == (ir.var("y"), ir.var("x"))
    assert around.args == tuple(v.node for v in (y, x))

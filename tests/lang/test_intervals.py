"""Index arithmetic and interval analysis against all values of small ranges."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import I, J, N, indices
from tilewright.lang.expr import Expr, compare, inside, maximum, minimum, select
from tilewright.lang.intervals import Interval, bounds, facts, refine
from tilewright.lang.ir import integer
from tilewright.lang.values import index_values


def values(e: Expr, env: dict) -> int:
    return index_values([e.node], env)[0]


@given(indices([I, J, N]), indices([I, J, N]))
def test_extremes_are_what_they_say(a, b):
    for i, j, n in product((-5, -1, 0, 3), (-2, 0, 7), (0, 1, 4)):
        env = {I.node: i, J.node: j, "N": n}
        x, y = values(a, env), values(b, env)
        assert values(maximum(minimum(a, b), b), env) == y and values(minimum(maximum(a, b), a), env) == x
        assert values(maximum(a, b), env) == max(x, y) and values(minimum(a, b), env) == min(x, y)


def test_absorption():

    assert maximum(minimum(I * 2, J + N), J + N + 3).node is (J + N + 3).node
    assert minimum(maximum(I * 2, J + N), I * 2 - 1).node is (I * 2 - 1).node
    assert maximum(minimum(I * 2, J + N), J + N - 1).node.op == "max"


@given(indices([I, J, N]), st.integers(-3, 3), st.integers(0, 4), st.integers(-3, 3), st.integers(0, 4))
def test_ranges_hold(e, i, di, j, dj):
    env = {I.node: Interval(integer(i), integer(i + di)), J.node: Interval(integer(j), integer(j + dj))}
    r = bounds(e.node, env)
    assert r.lo is not None and r.hi is not None
    for n in (0, 1, 5):
        lo, hi = index_values([r.lo, r.hi], {"N": n})
        for x, y in product(range(i, i + di + 1), range(j, j + dj + 1)):
            assert lo <= values(e, {I.node: x, J.node: y, "N": n}) <= hi


@given(indices([I, J], fancy=False), indices([I, J], fancy=False), st.sampled_from(["lt", "le", "gt", "ge", "eq"]))
def test_conditions_refine_ranges(a, b, op):

    c = compare(op, a, b).node
    env = refine({v: Interval(integer(-3), integer(4)) for v in (I.node, J.node)}, facts(c))
    for x, y in product(range(-3, 5), repeat=2):
        here = {I.node: x, J.node: y}
        if index_values([c], here)[0]:
            for v, r in env.items():
                lo, hi = index_values([n for n in (r.lo, r.hi) if n is not None], here)
                assert lo <= index_values([v], here)[0] <= hi


def test_mirrored_indices_stay_inside():
    k = (I % (2 * N)).node
    mirrored = minimum(Expr(k), 2 * N - 1 - Expr(k))
    r = bounds(select(inside(I, 0, N), I, mirrored).node, {I.node: Interval(integer(-99), integer(99))})
    assert r.hi is not None and index_values([r.hi], {"N": 7}) == [6]


@given(indices([I, J, N]), indices([I, J, N], fancy=False), st.integers(0, 3), st.sampled_from(["div", "mod"]))
def test_divisors_that_vary_leave_no_variable_behind(e, d, more, op):
    """Bounds are made of what stays fixed, also where the divisor moves with the variables."""
    d = maximum(d, 0) + more
    n = (e // d if op == "div" else e % d).node
    ranges = {I.node: (-2, 2), J.node: (0, 3)}
    r = bounds(n, {v: Interval(integer(lo), integer(hi)) for v, (lo, hi) in ranges.items()})
    assert r.lo is not None and r.hi is not None
    for size in (0, 1, 5):
        lo, hi = index_values([r.lo, r.hi], {"N": size})
        for x, y in product(range(-2, 3), range(4)):
            assert lo <= index_values([n], {I.node: x, J.node: y, "N": size})[0] <= hi

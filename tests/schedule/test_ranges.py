"""Constant bounds of extents: right at every size, and found where the same terms stand in both ends."""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.values import index_value
from tilewright.schedule.ranges import ZERO, Range, constant_extent

M, N, X = ir.size("M"), ir.size("N"), ir.var("x")
LOOP = Range("x", X, ZERO, simplify.floordiv(simplify.add(M, integer(3)), integer(4)), "serial", False, ())


def drawn(rnd: random.Random, depth: int) -> Node:
    if depth == 0 or rnd.random() < 0.2:
        return rnd.choice([M, N, X, integer(rnd.randrange(-4, 9)), simplify.mul(X, integer(4))])
    a, b = drawn(rnd, depth - 1), drawn(rnd, depth - 1)
    op = rnd.choice([simplify.minimum, simplify.maximum, simplify.add, simplify.sub, simplify.minimum])
    return op(a, b)


@pytest.mark.parametrize("seed", range(60))
def test_no_extent_is_larger(seed):
    rnd = random.Random(seed)
    for _ in range(5):
        low, wide = drawn(rnd, 3), drawn(rnd, 2)
        high = rnd.choice([wide, simplify.minimum(wide, simplify.add(low, integer(rnd.randrange(9))))])
        bound = constant_extent(Interval(low, high), (LOOP,))
        if bound is None:
            continue
        for m, n in itertools.product((0, 1, 3, 8, 13), (0, 2, 7)):
            for x in range((m + 3) // 4):
                env = {M: m, N: n, X: x}
                assert index_value(high, env) - index_value(low, env) + 1 <= bound, (low, high, env)


def test_found_by_cases():
    """A tile that starts at a minimum, or at what a shifted tail makes of its start, has at most its factor."""
    shifted = simplify.maximum(simplify.minimum(simplify.sub(N, integer(4)), simplify.mul(X, integer(4))), ZERO)
    for start in (simplify.minimum(M, simplify.add(X, N)), shifted, simplify.sub(shifted, simplify.minimum(M, N))):
        for least in (ZERO, integer(1), start):
            low = simplify.maximum(least, start)
            for most in (N, simplify.minimum(M, X)):
                r = Interval(low, simplify.minimum(most, simplify.add(start, integer(7))))
                for found in (constant_extent(r), constant_extent(r, (LOOP,))):
                    assert found is not None and found <= 8, r

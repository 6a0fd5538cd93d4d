"""Stages that nothing needs after all: everywhere the same idea of what is not executed."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")


@tw.kernel
def never(A: tw.i64[M, N], Z: tw.i64[K]):
    """The predicate lets no point of the sum through where the output lies left of zero: p is not needed."""
    i, j = tw.vars("i j")
    E = tw.repeat_edge(A)
    p, t = tw.func("p"), tw.func("t")
    p[i, j] = E[i, j] * 2
    q = tw.rdom(y=3)
    p[i, q.y] += E[i, q.y + 1]
    k = tw.rdom(k=K)
    k.where(k.k <= i)
    t[i] = 0
    t[i] += p[i, k.k] + 0 * tw.cast(tw.i64, k.k)
    return t[-2 : N - 2]


@tw.kernel
def half_used(A: tw.i64[M, N]):
    """The component that reads p is read by nobody."""
    i, j = tw.vars("i j")
    p, pair, out = tw.func("p"), tw.func("pair"), tw.func("out")
    k = tw.rdom(k=3)
    p[i, j] = 1
    p[i, j] += A[i, tw.clamp(j + k.k, 0, N - 1)]
    pair[i] = (p[i, 0], tw.cast(tw.i64, i))
    out[i] = pair[i][1] + A[i, 0]
    return out[:M]


@pytest.mark.parametrize("sizes", [(3, 1, 1), (9, 1, 1), (4, 6, 3), (0, 1, 2), (3, 0, 2), (3, 5, 0)])
def test_reductions_without_points(sizes) -> None:
    m, n, k = sizes
    a, z = np.arange(m * n).reshape(m, n), np.zeros(k, np.int64)
    if m == 0 and n > 2:
        return
    for s in (None, never.schedule()):
        if s is not None:
            s["p"].compute_root()
        fast = never.compile(s) if s is not None else never.compile()
        try:
            expected = never.reference(a, z)
        except tw.BoundsError:
            with pytest.raises(tw.BoundsError):
                fast(a, z)
            continue
        testing.assert_bitwise(fast(a, z), expected)


def test_a_component_that_nobody_reads() -> None:
    a = np.arange(20).reshape(4, 5)
    testing.assert_bitwise(half_used.compile()(a), half_used.reference(a))

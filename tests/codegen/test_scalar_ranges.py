"""Reductions whose ends are scalars of a call: as far as the scalar says, checked at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.lang.errors import BoundsError

M, N = tw.sizes("M N")
TYPES = [tw.i8, tw.u8, tw.i32, tw.u32, tw.i64, tw.u64]


def sums(t: Any) -> Any:
    @tw.kernel
    def first(x: tw.f32[M, N], n: t):
        i = tw.vars("i")
        total = tw.func("total")
        total[i] = tw.sum(x[i, tw.rdom(r=n)])
        return total[:M]

    return first


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_the_sum_of_the_first(t: Any) -> None:
    kernel, x = sums(t), np.arange(3 * 50, dtype=np.float32).reshape(3, 50)
    s = kernel.schedule()
    s["sum.update"].split("r", "outer", "inner", 8)
    for fast in (kernel.compile(), kernel.compile(s)):
        for n in (0, 1, 7, 49, 50, *([-3] if t in (tw.i8, tw.i32, tw.i64) else [])):
            assert np.array_equal(fast(x, n), x[:, : max(n, 0)].sum(axis=1)), n
            assert np.array_equal(fast(x, t.np.type(n)), kernel.reference(x, n))
        for n in (51, t.high if t is not tw.u64 else 2**63 - 1):
            for call in (fast, kernel.reference):
                with pytest.raises(BoundsError) as caught:
                    call(x, n)
                assert caught.value.code == "bounds.input"


def test_one_number_long_sums_in_parts() -> None:
    """Long sums are cut into parts by the default schedule, as many as the scalar says."""

    @tw.kernel
    def first(x: tw.f32[N], n: tw.i64):
        r = tw.rdom(r=n)
        total = tw.func("total")
        total[()] = 0.0
        total[()] += x[r]
        return total[()]

    x = np.ones(20_000, np.float32)
    for n in (-1, 0, 1, 4095, 4096, 4097, 8193, 20_000):
        assert first(x, n) == max(n, 0) == first.reference(x, n)
    with pytest.raises(BoundsError):
        first(x, 20_001)

"""Updates of (value, index) pairs: which of them may run in partial results without another index for equal values."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")


def pairs(index, start=-1, value=float("-inf"), **ranges):
    """argmax as `tw.argmax` defines it, with an index, a first index and a first value of one's own."""

    @tw.kernel
    def kernel(a: tw.f32[M, N]):
        r = tw.rdom(**(ranges or {"x": N}))
        f = tw.func("f", (tw.f32, tw.i64))
        f[()] = (value, start)
        best, at = f[()]
        v = a[r.y if "y" in ranges else 0, r.x]
        wins = (at < 0) | (v > best) | ((v != v) & (best == best))
        f[()] = (tw.select(wins, v, best), tw.select(wins, tw.cast(tw.i64, index(r)), at))
        return f[()]

    return kernel


DATA = np.random.default_rng(0).integers(0, 3, (8, 101)).astype(np.float32)


@pytest.mark.parametrize(
    "kernel",
    [pairs(lambda r: r.x), pairs(lambda r: 3 * r.x + 7), pairs(lambda r: 100 * r.y + r.x, y=8, x=100)],
    ids=["itself", "steps", "rows"],
)
def test_growing_indices_may(kernel):
    once = kernel.schedule()
    once["f.update"].vectorize("x", 16)
    twice = kernel.schedule()
    twice["f.update"].split("x", "xo", "xi", 8).rfactor("xi", "part")
    twice["part.update[0]"].rfactor("xo", "parts")
    for s in (once, twice):
        testing.assert_bitwise(kernel.compile(s)(DATA), kernel.reference(DATA))


@pytest.mark.parametrize(
    "kernel",
    [
        pairs(lambda r: 1000 - r.x),
        pairs(lambda r: r.x // 2),
        pairs(lambda r: 99 * r.y + r.x, y=8, x=101),
        pairs(lambda r: r.x, y=8, x=100),
        pairs(lambda r: r.x, start=5),
        pairs(lambda r: r.x, value=1.0),
    ],
    ids=["falls", "repeats", "overlaps", "of-the-row-only", "has-an-index", "has-a-value"],
)
def test_others_may_not(kernel):
    s = kernel.schedule()
    with pytest.raises(tw.ScheduleError) as refused:
        s["f.update"].vectorize("x", 16)
    assert refused.value.code == "schedule.not-associative"
    testing.assert_bitwise(kernel(DATA), kernel.reference(DATA))

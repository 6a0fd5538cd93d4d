"""prefetch: past the ends of loops, and of what is written by the loops around."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule

M, N = tw.sizes("M N")


def centred():
    """Rows less their largest, and twice that: two components."""
    p = tw.Pipeline("centred", x=tw.f32[M, N])
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    away, both = tw.func("away"), tw.func("both")
    away[i, j] = p.x[i, j] - tw.max(p.x[i, k], over=k, name="largest")
    both[i, j] = (away[i, j], away[i, j] + away[i, j])
    return p.returns(both[:M, :N])


def scheduled(kernel) -> Schedule:
    s = kernel.schedule()
    for stage in ("away", "largest"):
        s[stage].compute_at("both.i")
    s["away"].vectorize("j", 8)
    return s


def rows(nest: str, what: str) -> list[str]:
    return [line.strip() for line in nest.splitlines() if f"prefetch {what} " in line]


def test_what_is_read_goes_on_past_the_end():
    s = scheduled(centred())
    s.prefetch("x", at="away.j", distance=4)
    (row,) = rows(str(good(s)), "x")
    assert row == "prefetch x over axis0 i'..i' + 1, axis1 8*j + 32..8*j + 40"


def test_what_is_written_is_fetched_by_shares():
    s = scheduled(centred())
    s.prefetch("both", at="away.j", distance=0)
    s.prefetch("both", at="largest.update.k", distance=2)
    first, second = sorted(rows(str(good(s)), "both"))
    assert first == "prefetch both over i i..i + 1, j 8*j..8*j + 8"
    assert second == "prefetch both over i i..i + 1, j k + 2..k + 3"
    assert centred().compile(s).asm.count("prefetchw") >= 2  # both components


@pytest.mark.parametrize("n", [1, 7, 8, 37, 64])
def test_values_do_not_depend_on_it(n: int):
    s = scheduled(centred())
    s.prefetch("both", at="away.j", distance=3).prefetch("x", at="away.j", distance=1000)
    x = np.random.default_rng(n).standard_normal((5, n), np.float32)
    right = x - x.max(1, keepdims=True)
    for got, want in zip(centred().compile(s)(x), (right, right + right), strict=True):
        np.testing.assert_array_equal(got, want)


def test_only_loops_inside_of_what_is_written():
    s = scheduled(centred())
    refused(s, "not-read", lambda: s.prefetch("away", at="largest.update.k"), "it reads largest, x")
    s.prefetch("both", at="away.j")
    s["largest"].compute_root()
    refused(s, "not-read", lambda: s["away"].compute_root(), "both")

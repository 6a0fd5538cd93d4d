"""Mean and variance of series with gaps: what is NaN was not measured and does not count.

Two passes, as textbooks advise: the squares are those of what is left after the mean is taken away. A series stays in
the cache from the first pass to the second.
"""

from __future__ import annotations

import warnings

import numpy as np

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
VECTOR = tw.host_registers().width // 4


@tw.kernel
def nan_moments(series: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    mean, moments = tw.func("mean"), tw.func("moments")
    value = series[i, k]
    measured = value == value  # NaN is not equal to itself
    count = tw.sum(tw.cast(tw.f32, measured), over=k, name="count")
    mean[i] = tw.sum(tw.select(measured, value, 0.0), over=k, name="total") / count
    away = value - mean[i]
    squares = tw.sum(tw.select(measured, away * away, 0.0), over=k, name="squares")
    moments[i] = (mean[i], squares / count)
    return moments[:M]


def by_stages():
    """Counts of all series, then their sums, then their squares: three times through memory."""
    s = nan_moments.schedule()
    for stage in ("squares", "mean", "total", "count"):
        s[stage].compute_root()
    return s


def expert():
    """Series on threads; sums in lanes of four vectors, which meet at the end of a series."""
    s = nan_moments.schedule()
    s["moments"].parallel("i")
    for stage in ("squares", "mean", "total", "count"):
        s[stage].compute_at("moments.i")
    for stage in ("squares", "total", "count"):
        s[f"{stage}.update"].vectorize("k", 4 * VECTOR)
    return s


SCHEDULES = (by_stages, expert)


def inputs(M=200, N=1000):
    """Hourly temperatures of stations on different heights; a tenth of the hours is missing, and one whole station."""
    rng = np.random.default_rng(0)
    day = 5 * np.sin(np.arange(N) * (2 * np.pi / 24))
    series = (20 - rng.random((M, 1)) * 15 + day + rng.standard_normal((M, N))).astype(np.float32)
    series[rng.random((M, N)) < 0.1] = np.nan
    series[M // 2] = np.nan
    return (series,)


def independent(series):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the station without values
        return tuple(np.float32(f(np.float64(series), axis=1)) for f in (np.nanmean, np.nanvar))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(nan_moments, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

"""Sums and means of long arrays that nobody scheduled: as fast as NumPy's pairwise sums, and no less accurate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.cases import entry
from benchmarks.cases.data import uniform
from benchmarks.harness import Case, Peer, Work

N = tw.sizes("N")


@tw.kernel
def total(x: tw.f32[N]):
    i, k = tw.vars("i"), tw.rdom(k=N)
    out = tw.func("out")
    out[i] = tw.sum(x[k], over=k)
    return out[:1]


@tw.kernel
def mean(x: tw.f32[N]):
    i, k = tw.vars("i"), tw.rdom(k=N)
    out = tw.func("out")
    out[i] = tw.sum(x[k], over=k) / tw.cast(tw.f32, N)
    return out[:1]


def reduction(kernel: Any, numpy: Callable[..., Any], n: int = 1 << 26) -> Case:
    x = uniform(n)
    run = kernel.compile().bind(x)

    def check() -> None:
        exact = float(numpy(x, dtype=np.float64))
        ours, theirs = (abs(float(v) - exact) for v in (run()[0], numpy(x)))
        if ours > theirs:
            raise AssertionError(f"off by {ours:.3g}, NumPy's by {theirs:.3g}")

    return Case(run, (Peer("NumPy", lambda: numpy(x), 1.0),), check, Work(1.0 * n, reads=x.nbytes))


ENTRIES = (
    entry(
        "unscheduled-sum", "the sum of 2^26 f32, its error no larger than NumPy's", partial(reduction, total, np.sum)
    ),
    entry("unscheduled-mean", "the mean of the same", partial(reduction, mean, np.mean)),
)

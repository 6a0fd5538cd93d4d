"""Softmax of the rows of a matrix: three passes over a row that stays in the cache, in vectors.

The maximum and the sum run in lanes and combine at the end of a row, so the sum's order is that of the schedule.
"""

from __future__ import annotations

import numpy as np
from scipy import special

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
VECTOR = tw.host_registers().width // 4


@tw.kernel
def softmax(X: tw.f32[M, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    E, Y = tw.func("E"), tw.func("Y")
    largest = tw.max(X[i, k], over=k, name="largest")
    E[i, j] = tw.exp(X[i, j] - largest)
    Y[i, j] = E[i, j] * (1.0 / tw.sum(E[i, k], over=k, name="total"))  # one division a row
    return Y[:M, :N]


def by_stages():
    """One stage after the other over the whole matrix."""
    s = softmax.schedule()
    s["largest"].compute_root()
    s["E"].compute_root().vectorize("j", VECTOR)
    s["total"].compute_root()
    s["Y"].vectorize("j", VECTOR)
    return s


def fused():
    """All stages of a row before the next row."""
    s = softmax.schedule()
    s["Y"].parallel("i").vectorize("j", VECTOR)
    for stage in ("total", "E", "largest"):  # users first: a place must be around all uses
        s[stage].compute_at("Y.i")
    s["E"].vectorize("j", VECTOR)
    return s


def expert():
    """Vectors at a time, so that the steps of one hide the latency of another; the lines that the results go to are
    fetched behind the arithmetic of `exp`; a task takes several rows, with one buffer."""
    s = softmax.schedule()
    s["Y"].parallel("i", 16).vectorize("j", 2 * VECTOR)
    for stage in ("total", "E", "largest"):
        s[stage].compute_at("Y.i_p")
    s["E"].hoist_storage("Y.i").vectorize("j", 2 * VECTOR)
    for reduction in ("largest", "total"):
        s[f"{reduction}.update"].vectorize("k", 4 * VECTOR)
    s.prefetch("Y", at="E.j", distance=0)
    return s


SCHEDULES = (by_stages, fused, expert)


def inputs(M=100, N=333):
    """Logits of a classifier: mostly small, a few that stand out."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, N), dtype=np.float32) * np.float32(3)


def check(**sizes):
    x = inputs(**sizes)
    testing.check_schedules(softmax, SCHEDULES, (x,), independent=np.float32(special.softmax(np.float64(x), axis=1)))


if __name__ == "__main__":
    check()

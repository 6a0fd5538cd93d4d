"""Where the largest value of each row is: a reduction of pairs (value, index), in lanes.

The first of equal values wins, in every schedule: lanes compare their indices where values are equal.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
VECTOR = tw.host_registers().width // 8  # of the 64-bit indices


@tw.kernel
def argmax(X: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    winner = tw.func("winner")
    winner[i] = tw.argmax(X[i, k], over=k, name="best")
    return winner[:M]


def serial():
    """One element after the other."""
    s = argmax.schedule()
    s["best"].compute_at("winner.i")
    s["best.update"].serial("k")
    return s


def expert():
    """Rows on threads; in a row each lane keeps its own best pair, and the lanes meet at the end."""
    s = argmax.schedule()
    s["winner"].parallel("i")
    s["best"].compute_at("winner.i")
    s["best.update"].vectorize("k", 8 * VECTOR)
    return s


SCHEDULES = (serial, expert)


def inputs(M=200, N=1000):
    """Scores of a classifier, rounded to halves so that many are equal."""
    rng = np.random.default_rng(0)
    return np.float32(np.round(rng.standard_normal((M, N)) * 2) / 2)


def check(**sizes):
    x = inputs(**sizes)
    testing.check_schedules(argmax, SCHEDULES, (x,), independent=np.argmax(x, axis=1))


if __name__ == "__main__":
    check()

"""Tridiagonal systems, many at once, by the Thomas algorithm: a sweep down eliminates, a sweep up substitutes.

Along a system each step needs the one before; systems do not know of each other and lie side by side in a vector.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

import tilewright as tw
from tilewright import testing

N, S = tw.sizes("N S")
VECTOR = tw.host_registers().width // 8
STRIP = 8 * VECTOR  # systems that are swept together: eight divisions at a time


@tw.kernel
def tridiagonal(lower: tw.f64[N, S], middle: tw.f64[N, S], upper: tw.f64[N, S], right: tw.f64[N, S]):
    i, s = tw.vars("i s")
    down, up = tw.rdom(down=N), tw.rdom(up=N)
    swept, solved, x = tw.func("swept"), tw.func("solved"), tw.func("x")
    swept[i, s] = (0.0, 0.0)  # as it stays above the first row, which is then like the others
    ratio, value = swept[down - 1, s]
    pivot = 1.0 / (middle[down, s] - lower[down, s] * ratio)
    swept[down, s] = (upper[down, s] * pivot, (right[down, s] - lower[down, s] * value) * pivot)
    row = N - 1 - up
    ratio, value = swept[row, s]
    solved[i, s] = 0.0  # as it stays below the last row
    solved[row, s] = value - ratio * solved[row + 1, s]
    x[i, s] = solved[i, s]
    return x[:N, :S]


def by_sweeps():
    """Each sweep over all systems, a row at a time."""
    s = tridiagonal.schedule()
    s["swept"].compute_root()
    s["solved"].compute_root()
    s["swept.update"].reorder("down", "s").vectorize("s", VECTOR)
    s["solved.update"].reorder("up", "s").vectorize("s", VECTOR)
    s["x"].vectorize("s", VECTOR)
    return s


def expert():
    """Strips of systems on threads: between the sweeps a strip stays in the cache."""
    s = tridiagonal.schedule()
    s["x"].split("s", "strip", "s", STRIP).reorder("strip", "i", "s").parallel("strip").vectorize("s")
    for stage, sweep in (("solved", "up"), ("swept", "down")):
        s[stage].compute_at("x.strip")
        s[f"{stage}.init"].vectorize("s", STRIP)
        s[f"{stage}.update"].reorder(sweep, "s").vectorize("s", STRIP)
    return s


SCHEDULES = (by_sweeps, expert)


def inputs(N=60, S=1000):
    """A step of vertical diffusion in columns of air of 60 layers: implicit, with a mixing that varies with height."""
    rng = np.random.default_rng(0)
    mixing = np.exp(rng.normal(0, 1, (N + 1, S))) * 0.5
    mixing[[0, -1]] = 0  # nothing leaves at the ground and at the top
    temperature = 290 - 60 * np.linspace(0, 1, N)[:, None] + rng.normal(0, 2, (N, S))
    return -mixing[:-1], 1 + mixing[:-1] + mixing[1:], -mixing[1:], temperature


def independent(lower, middle, upper, right):
    return np.stack([
        linalg.solve_banded((1, 1), np.stack([np.roll(u, 1), m, np.roll(l, -1)]), r)
        for l, m, u, r in zip(lower.T, middle.T, upper.T, right.T, strict=True)
    ], axis=1)  # fmt: skip


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(tridiagonal, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

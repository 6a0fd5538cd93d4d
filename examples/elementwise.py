"""A chain of elementwise operations over long arrays: one pass over memory, whatever the number of operations.

Arrays that are larger than the cache leave nothing to gain but in how they are written: a plain store first reads the
line that it fills; one that streams does not.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

N = tw.sizes("N")
VECTOR = tw.host_registers().width // 4
CHUNK = 1 << 16  # elements a task


@tw.kernel
def elementwise(x: tw.f32[N], y: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = tw.sqrt(tw.abs(x[i] * y[i] + x[i])) * y[i]
    return out[:N]


def vectors():
    """Vectors; results through the cache."""
    s = elementwise.schedule()
    s["out"].vectorize("i", VECTOR)
    return s


def expert():
    """Four vectors at a time in chunks on threads; results past the cache."""
    s = elementwise.schedule()
    s["out"].parallel("i", CHUNK).vectorize("i_p", 4 * VECTOR)
    s.stream_stores("out")
    return s


SCHEDULES = (vectors, expert)


def inputs(N=100_000):
    rng = np.random.default_rng(0)
    return rng.standard_normal(N, dtype=np.float32), rng.standard_normal(N, dtype=np.float32)


def check(**sizes):
    x, y = inputs(**sizes)
    wide = np.float64(x)
    testing.check_schedules(elementwise, SCHEDULES, (x, y), np.float32(np.sqrt(abs(wide * y + x)) * y))


if __name__ == "__main__":
    check()

"""Matrix times vector in f32: the matrix is read once, as fast as memory gives it, along several rows at a time.

A row's sum runs in the lanes of one vector, which meet at its end. Several rows share what is loaded of the vector, and
give the prefetchers as many streams.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, K = tw.sizes("M K")
VECTOR = tw.host_registers().width // 4
ROWS = 8


@tw.kernel
def matvec(W: tw.f32[M, K], x: tw.f32[K]):
    i = tw.vars("i")
    k = tw.rdom(k=K)
    y = tw.func("y")
    y[i] = 0.0
    y[i] += W[i, k] * x[k]
    return y[:M]


def by_rows():
    """A row at a time, its sum in the lanes of four vectors."""
    s = matvec.schedule()
    s["y.update"].vectorize("k", 4 * VECTOR)
    return s


def expert():
    """Eight rows at a time, four vectors of each, all sums in registers."""
    s = matvec.schedule()
    s["y.update"].split("i", "io", "ii", ROWS).parallel("io").vectorize("k", VECTOR)
    s["y_k_v"].compute_at("y.update.io")
    lanes = s["y_k_v.update[0]"].split("i", "ir", "ii", ROWS).split("k", "ko", "ki", 4)
    lanes.reorder("ir", "ko", "ki", "ii", "k_v").unroll("ki").unroll("ii")
    s.cache_write("y_k_v", at="y_k_v.update[0].ir", memory="reg")
    return s


SCHEDULES = (by_rows, expert)


def inputs(M=300, K=700):
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal(K, dtype=np.float32)


def check(**sizes):
    w, x = inputs(**sizes)
    testing.check_schedules(matvec, SCHEDULES, (w, x), np.float32(np.float64(w) @ np.float64(x)))


if __name__ == "__main__":
    check()

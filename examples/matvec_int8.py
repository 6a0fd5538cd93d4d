"""Matrix times vector with weights in 8 bits and a factor a row: a quarter of the bytes of f32.

The vector stays f32, so weights become f32 on their way into the sum. Factors come last, once a row.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, K = tw.sizes("M K")
VECTOR = tw.host_registers().width // 4
ROWS = 8


@tw.kernel
def matvec_int8(W: tw.i8[M, K], scale: tw.f32[M], x: tw.f32[K]):
    i = tw.vars("i")
    k = tw.rdom(k=K)
    y = tw.func("y")
    total = tw.sum(tw.cast(tw.f32, W[i, k]) * x[k], over=k, name="total")
    y[i] = scale[i] * total
    return y[:M]


def by_rows():
    """A row at a time, its sum in the lanes of four vectors."""
    s = matvec_int8.schedule()
    s["total"].compute_at("y.i")
    s["total.update"].vectorize("k", 4 * VECTOR)
    return s


def expert():
    """Eight rows at a time, four vectors of each, all sums in registers."""
    s = matvec_int8.schedule()
    s["y"].split("i", "io", "ii", ROWS).parallel("io")
    s["total"].compute_at("y.io")
    s["total.update"].vectorize("k", VECTOR)
    s["total_k_v"].compute_at("y.io")
    lanes = s["total_k_v.update[0]"].split("i", "ir", "ii", ROWS).split("k", "ko", "ki", 4)
    lanes.reorder("ir", "ko", "ki", "ii", "k_v").unroll("ki").unroll("ii")
    s.cache_write("total_k_v", at="total_k_v.update[0].ir", memory="reg")
    return s


SCHEDULES = (by_rows, expert)


def inputs(M=300, K=700):
    """Weights with the factors that make the largest of each row 127, and a vector."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((M, K), dtype=np.float32)
    scale = np.abs(weights).max(1, initial=0.0) / 127
    return np.int8(np.rint(weights / scale[:, None])), np.float32(scale), rng.standard_normal(K, dtype=np.float32)


def independent(w, scale, x):
    return np.float32(w.astype(np.float64) @ x * scale)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(matvec_int8, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

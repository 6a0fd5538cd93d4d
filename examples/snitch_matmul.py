"""A matrix product taken step by step to a cluster of cores with a scratchpad (docs/snitch.md tells the story).

Naive, staged in the scratchpad, on all cores, with the cores' vectors and a register tile, and with copies that run ahead.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")
TILE, DEPTH = 64, 32  # of C, and of k: two slots of A and B and one of C are half of the scratchpad


@tw.kernel
def snitch_matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def naive():
    """Three loops over main memory."""
    s = snitch_matmul.schedule(machine="snitch-cluster")
    for stage in ("C.init", "C.update"):
        s[stage].unscheduled()
    return s


def staged():
    """A tile of C and the parts of A and B that it needs next are in the scratchpad."""
    s = snitch_matmul.schedule(machine="snitch-cluster")
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", TILE, TILE).split("k", "ko", "ki", DEPTH)
    C.reorder("io", "jo", "ko", "ii", "ki", "ji")
    s.cache_read("A", at="C.update.ko", memory="tcdm")
    s.cache_read("B", at="C.update.ko", memory="tcdm")
    s.cache_write("C", at="C.update.jo", memory="tcdm")
    return s


def cores():
    """Rows of the tile are shared out among the cores."""
    s = staged()
    s["C.update"].parallel("ii")
    return s


def vectors():
    """Each core computes rows of eight by vectors of two, which stay in registers while ki runs."""
    s = staged()
    C = s["C.update"]
    C.split("ii", "ic", "ir", 4).split("ji", "jr", "jv", 8).split("jv", "jw", "jl", 2)
    C.reorder("io", "jo", "ko", "ic", "jr", "ki", "ir", "jw", "jl")
    C.parallel("ic").unroll("ir").unroll("jw").vectorize("jl")
    return s


def expert():
    """The copies of the next part of A and B run while this one is computed."""
    s = vectors()
    for tile in ("A_C", "B_C"):
        s[tile].double_buffer()
    return s


SCHEDULES = (naive, staged, cores, vectors, expert)


def inputs(M=130, N=70, K=90):
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)


def check(**sizes):
    a, b = inputs(**sizes)
    testing.check_schedules(snitch_matmul, SCHEDULES, (a, b), independent=np.float32(np.float64(a) @ np.float64(b)))


if __name__ == "__main__":
    check()

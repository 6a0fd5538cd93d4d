"""Matrix product in f64: the schedules of matmul.py with half as many numbers in a vector.

Its tile is lower and wider, which makes larger edges and pays where matrices are large. Every schedule computes each
element's sum in the order of `k`, so all of them give the same bits.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul_f64(A: tw.f64[M, K], B: tw.f64[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 8
ROWS, COLUMNS = 6, REGISTERS.count // 8 * VECTOR  # 24 sums in 32 registers or 12 in 16, the others hold a row of B
DEPTH = 512  # of k in a block: eight tiles' rows of A fit the second cache, B the third


def tiled():
    """A tile of C stays in registers while k runs."""
    s = matmul_f64.schedule()
    C = s["C.update"]
    C.split("k", "ko", "ki", 4).tile("i", "j", "io", "jo", "ii", "ji", ROWS, COLUMNS).split("ji", "jv", "jl", VECTOR)
    C.reorder("jo", "io", "ko", "ki", "ii", "jv", "jl").parallel("jo")
    C.unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.io", memory="reg")
    return s


def expert():
    """Blocks of A and B that fit the caches, both packed, A by transposes in registers; rows of C are fetched ahead."""
    s = matmul_f64.schedule()
    C = s["C.update"]
    C.split("j", "jc", "j1", 1024).split("k", "kc", "k1", DEPTH).split("i", "ic", "i1", 8 * ROWS)
    C.split("j1", "jr", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR)
    C.split("i1", "ir", "ii", ROWS).split("k1", "ko", "ki", 4)
    C.reorder("jc", "kc", "ic", "jr", "ir", "ko", "ki", "ii", "jv", "jl")
    C.parallel("ic").unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    B = s.cache_read("B", at="C.update.kc", layout=f"k j -> j//{COLUMNS} k j%{COLUMNS}")
    B.parallel("k", 16).vectorize("j", VECTOR)
    A = s.cache_read("A", at="C.update.ic", layout=f"i k -> i//{ROWS} k i%{ROWS}")
    A.tile("i", "k", "io", "ko", "it", "kt", ROWS, VECTOR).unroll("it").vectorize("kt")
    s.cache_write("C", at="C.update.ir", memory="reg")
    s.prefetch("C", at="C.update.ir", distance=0)
    return s


SCHEDULES = (tiled, expert)


def inputs(M=300, N=260, K=520):
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, K)), rng.standard_normal((K, N))


def check(**sizes):
    a, b = inputs(**sizes)
    testing.check_schedules(matmul_f64, SCHEDULES, (a, b), independent=np.float64(np.longdouble(a) @ np.longdouble(b)))


if __name__ == "__main__":
    check()

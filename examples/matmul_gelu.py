"""A layer of a transformer's feed-forward network: matrix product, bias and GELU in one pass.

GELU is the exact one, x/2 * (1 + erf(x/sqrt(2))). It is applied to a tile of sums as it leaves its registers, so sums are
never stored.
"""

from __future__ import annotations

import numpy as np
from scipy import special

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
ROWS, COLUMNS = min(8, REGISTERS.count // 2 - 2), 2 * VECTOR  # a tile of registers, as in matmul.py
STRIP, BLOCK = 12 * ROWS, 16 * COLUMNS  # rows of A, columns of B: what the second cache holds, and the third


@tw.kernel
def matmul_gelu(A: tw.f32[M, K], B: tw.f32[K, N], bias: tw.f32[N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C, out = tw.func("C"), tw.func("out")
    C[i, j] = bias[j]
    C[i, j] += A[i, k] * B[k, j]
    out[i, j] = 0.5 * C[i, j] * (1.0 + tw.erf(C[i, j] * np.float32(np.sqrt(0.5))))
    return out[:M, :N]


def by_stages():
    """All sums, then GELU of all of them."""
    s = matmul_gelu.schedule()
    s["out"].vectorize("j", VECTOR)
    s["C"].compute_root()
    s["C.init"].vectorize("j", VECTOR)
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", ROWS, COLUMNS).split("ji", "jv", "jl", VECTOR)
    C.reorder("jo", "io", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.io", memory="reg")
    s.cache_read("B", at="C.update.jo", layout=f"k j -> j//{COLUMNS} k j%{COLUMNS}").vectorize("j", VECTOR)
    return s


def expert():
    """A block of columns at a time, packed where it stays in the cache, A packed at first; GELU of a tile of sums over
    all of `k`."""
    s = matmul_gelu.schedule()
    out = s["out"].split("i", "ic", "i1", STRIP).split("j", "jc", "j1", BLOCK)
    out.split("j1", "jo", "ji", COLUMNS).split("i1", "io", "ii", ROWS)
    out.reorder("jc", "ic", "jo", "io", "ii", "ji").parallel("jc").vectorize("ji", VECTOR)
    s["C"].compute_at("out.io")
    s["C.init"].vectorize("j", VECTOR)
    C = s["C.update"].split("i", "it", "ii", ROWS).split("j", "jt", "jj", COLUMNS).split("jj", "jv", "jl", VECTOR)
    C.split("k", "ko", "ki", 4).reorder("it", "jt", "ko", "ki", "ii", "jv", "jl")
    C.unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.jt", memory="reg")
    B = s.cache_read("B", at="out.jc", consumers=["C.update"], layout=f"k j -> j//{COLUMNS} k j%{COLUMNS}")
    B.vectorize("j", VECTOR)
    s.layout("A", f"i k -> i//{ROWS} k i%{ROWS}")
    s["A_packed"].tile("i", "k", "io", "ko", "it", "kt", ROWS, VECTOR).parallel("io").unroll("it").vectorize("kt")
    return s


SCHEDULES = (by_stages, expert)


def inputs(M=200, N=140, K=300):
    """Activations, weights as they are initialised, and a bias."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)  # noqa: E731
    return normal(M, K), normal(K, N) * np.float32(max(K, 1) ** -0.5), normal(N)


def independent(a, b, bias):
    x = np.float64(a) @ np.float64(b) + bias
    return np.float32(x * special.ndtr(x))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(matmul_gelu, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

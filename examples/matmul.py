"""Matrix product in f32: a register tile, panels packed into the order they are read in, blocks for the caches.

A product that fits the caches as it stands is a form of its own. Every schedule computes each element's sum in the order
of `k`, so all of them give the same bits.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


# The tile of C: two vectors of f32 wide, and as many rows as registers hold besides a row of B and an element of A. More
# than eight rows would not be faster: sixteen sums in turns hide how long an fma takes, edges grow with the tile.
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
ROWS, COLUMNS = min(8, REGISTERS.count // 2 - 2), 2 * VECTOR
# Of k in a block, a bit over half of 1024: eight tiles' rows of A fit the second cache, B the third.
DEPTH = 17 * COLUMNS
SMALL = 2 * (12 * COLUMNS) ** 2  # elements of a B that the second cache holds as it stands


def tiled():
    """A tile of C stays in registers while k runs."""
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", ROWS, COLUMNS).split("ji", "jv", "jl", VECTOR)
    C.reorder("jo", "io", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.io", memory="reg")
    return s


def packed():
    """The same tile; B is copied once into panels as wide as the tile, in which it is read from end to end."""
    s = tiled()
    s.cache_read("B", at="C.update.jo", layout=f"k j -> j//{COLUMNS} k j%{COLUMNS}").vectorize("j", VECTOR)
    return s


def small(C):
    """A form that packs nothing, for where B stays in the cache: copies would take longer than they save."""
    C.split("k", "ko", "ki", 4).tile("i", "j", "io", "jo", "ii", "ji", ROWS, COLUMNS).split("ji", "jv", "jl", VECTOR)
    C.reorder("jo", "io", "ko", "ki", "ii", "jv", "jl").parallel("jo")
    C.unroll("ki").unroll("ii").unroll("jv").vectorize("jl")


def expert():
    """Blocks of A and B that fit the caches, both packed, A by transposes in registers; rows of C are fetched ahead."""
    s = matmul.schedule()
    C = s["C.update"]
    form = C.specialize(f"K * N <= {SMALL}", "small")
    small(form)
    s.cache_write("C", at=f"{form.stage}.io", memory="reg")
    C.split("j", "jc", "j1", 2048).split("k", "kc", "k1", DEPTH).split("i", "ic", "i1", 8 * ROWS)
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


SCHEDULES = (tiled, packed, expert)


def inputs(M=300, N=260, K=520):
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)


def check(**sizes):
    a, b = inputs(**sizes)
    testing.check_schedules(matmul, SCHEDULES, (a, b), independent=np.float32(np.float64(a) @ np.float64(b)))


if __name__ == "__main__":
    check()

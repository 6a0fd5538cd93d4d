"""Matrix products of any shape and order: forms of one schedule for transposed operands, few rows, few columns.

What stands in another order (`a.T` of NumPy) is read in squares that are transposed in registers. Where one side is so
short that packing the other would cost more than the product, nothing is packed but the short side, and nothing at all
where B is small. One row of a product with transposed B is dot products, in the lanes of vectors; every other form adds
up an element in the order of `k`, so that they give the same bits.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")


@tw.kernel
def gemm(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
ROWS, COLUMNS = min(8, REGISTERS.count // 2 - 2), 2 * VECTOR  # a tile of registers, as in matmul.py
DEPTH = 17 * COLUMNS  # of k in a block; a bit over a half of 1024, for sizes that are a bit over 1024
FEW = 8  # rows that share what is read once
SMALL = 2 * (12 * COLUMNS) ** 2  # elements of a B that the second cache holds


def transposed(copy):
    """The form of a copy of B for columns that are contiguous: squares that are transposed in registers."""
    t = copy.specialize("stride(B, 0) == 1", f"columns_of_{copy.func}")
    t.tile("j", "k", "jo", "ko", "jt", "kt", VECTOR, VECTOR).reorder("jo", "ko", "kt", "jt")
    t.unroll("kt").vectorize("jt")


def large(s, C):
    """Blocks of A and B that fit the caches, packed from either order."""
    C.split("j", "jc", "j1", 2048).split("k", "kc", "k1", DEPTH).split("i", "ic", "i1", 8 * ROWS)
    C.split("j1", "jr", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR)
    C.split("i1", "ir", "ii", ROWS).split("k1", "ko", "ki", 4)
    C.reorder("jc", "kc", "ic", "jr", "ir", "ko", "ki", "ii", "jv", "jl")
    C.parallel("ic").unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    b = s.cache_read("B", at=f"{C.stage}.kc", name="panels", layout=f"k j -> j//{COLUMNS} k j%{COLUMNS}")
    transposed(b)
    b.parallel("k", 16).vectorize("j", VECTOR)
    a = s.cache_read("A", at=f"{C.stage}.ic", name="strips", layout=f"i k -> i//{ROWS} k i%{ROWS}")
    a.specialize("stride(A, 0) == 1", "columns_of_A").split("i", "io", "it", ROWS).reorder("io", "k", "it").vectorize(
        "it"
    )
    a.tile("i", "k", "io", "ko", "it", "kt", ROWS, VECTOR).unroll("it").vectorize("kt")
    s.cache_write("C", at=f"{C.stage}.ir", memory="reg")
    s.prefetch("C", at=f"{C.stage}.ir", distance=0)


def few_rows(s, C, rows, depth, vectors):
    """All rows at once, packed; `depth` rows of B are streamed through tiles of `vectors`."""
    C.split("i", "io", "ii", rows).split("k", "ko", "ki", depth)
    C.split("j", "jo", "jt", vectors * VECTOR).split("jt", "jv", "jl", VECTOR).unroll("ii").unroll("jv").vectorize("jl")
    s.cache_read("A", at=f"{C.stage}.io", name=f"rows_{rows}_{vectors}", layout="i k -> k i")


def short_forms(s, C):
    """Forms for few rows (of B as it stands, and transposed), for few columns, and for a small B or so few tiles of
    rows that packing B does not pay."""
    for form, rows, vectors in (("one_row", 1, 4), ("few_rows", FEW, 2)):
        stream = C.specialize(f"(M <= {rows}) & (stride(B, 1) == 1)", form)
        few_rows(s, stream, rows, 8, vectors)
        stream.reorder("io", "ko", "jo", "ki", "ii", "jv", "jl").unroll("ki")
        s.cache_write("C", at=f"{stream.stage}.jo", memory="reg")

    dots = C.specialize("(M <= 1) & (stride(B, 0) == 1)", "one_row_of_columns")
    dots.split("j", "jo", "ji", FEW).vectorize("k", VECTOR)
    s["C_k_v"].compute_at(f"{dots.stage}.jo")
    lanes = s["C_k_v.update[0]"].split("j", "jr", "ji", FEW).split("k", "ko", "ki", 4)
    lanes.reorder("jr", "ko", "ki", "ji", "k_v").unroll("ki").unroll("ji")
    s.cache_write("C_k_v", at="C_k_v.update[0].jr", memory="reg")
    s.cache_write("C", at=f"{dots.stage}.jo", memory="reg")  # as in all forms: no pass then writes first values

    turn = C.specialize(f"(M <= {FEW}) & (stride(B, 0) == 1)", "few_rows_of_columns")
    few_rows(s, turn, FEW, VECTOR, 1)
    turn.reorder("io", "jo", "ko", "ki", "ii", "jv", "jl").partition("io", "never")
    transposed(s.cache_read("B", at=f"{turn.stage}.ko", name="square", layout="k j -> k j"))
    s.cache_write("C", at=f"{turn.stage}.jo", memory="reg")

    narrow = C.specialize(f"N <= {VECTOR}", "few_columns")
    narrow.split("i", "io", "ii", 8).split("j", "jo", "jl", VECTOR).split("k", "ko", "ki", 8)
    narrow.reorder("jo", "io", "ko", "ki", "ii", "jl").unroll("ki").unroll("ii").vectorize("jl").partition(
        "jo", "never"
    )
    s.cache_read("B", at=f"{narrow.stage}.jo", name="column", layout="k j -> k j")
    s.cache_write("C", at=f"{narrow.stage}.io", memory="reg")

    few = f"(K * N <= {SMALL}) | ((M <= {4 * ROWS}) & (K * N <= {8 * SMALL}))"
    whole = C.specialize(f"({few}) & (stride(B, 1) == 1)", "small")
    whole.split("i", "io", "ii", ROWS).split("j", "jo", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR)
    whole.split("k", "ko", "ki", 4).reorder("jo", "io", "ko", "ki", "ii", "jv", "jl")
    whole.parallel("jo").unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at=f"{whole.stage}.io", memory="reg")


def tiled():
    """A tile of C in registers, whatever the shape and the orders; nothing is packed."""
    s = gemm.schedule()
    C = s["C.update"]
    C.split("i", "io", "ii", ROWS).split("j", "jo", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR)
    C.reorder("jo", "io", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.io", memory="reg")
    return s


def expert():
    """Forms for short sides; all other matrices in packed blocks."""
    s = gemm.schedule()
    short_forms(s, s["C.update"])
    large(s, s["C.update"])
    return s


SCHEDULES = (tiled, expert)


def inputs(M=150, N=103, K=91, orders="nn"):
    """Two matrices; `orders` says which of them stand transposed in memory: nn, nt, tn or tt."""
    rng = np.random.default_rng(0)
    pair = rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)
    return tuple(np.ascontiguousarray(x.T).T if o == "t" else x for x, o in zip(pair, orders, strict=True))


def check(**sizes):
    a, b = inputs(**sizes)
    testing.check_schedules(gemm, SCHEDULES, (a, b), independent=np.float32(np.float64(a) @ np.float64(b)))


def check_forms(
    orders=("nn", "nt", "tn", "tt"),
    shapes=((61, 70, 35), (1, 100, 35), (FEW - 3, 100, 35), (61, VECTOR - 3, 35), (13, 17 * COLUMNS, 18 * COLUMNS)),
):
    """Every form on matrices in every order, of numbers whose sums are exact: the same bits as the default schedule."""
    plain, fast = gemm.compile(), gemm.compile(expert())
    for shape in shapes:
        for order in orders:
            a, b, c, d = (np.rint(4 * x) for x in (*inputs(*shape, order), *inputs(*shape)))
            np.testing.assert_array_equal(fast(a, b), plain(c, d))


if __name__ == "__main__":
    check()
    check_forms()

"""Matrix product in 8-bit integers, as quantised networks use it: sums in 32 bits, narrowed again at the end.

Processors multiply unsigned by signed bytes, four at a time. So A is moved by 128 to where it is unsigned, and what each
sum has too much then, 128 times the sum of B's column, is taken off its start. Both operands are followed by zeros up to
whole groups of four. A sum becomes an i8 by a factor a column, rounded to nearest and then clamped, so that what is too
large saturates. Integers may be added in any order: all schedules give the same bits.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")


@tw.kernel
def int8_matmul(A: tw.i8[M, K], B: tw.i8[K, N], bias: tw.i32[N], scale: tw.f32[N]):
    i, j, l = tw.vars("i j l")
    k = tw.rdom(k=(K + 3) // 4 * 4)
    a, b, columns, C, out = (tw.func(n) for n in ("a", "b", "columns", "C", "out"))
    a[i, l] = tw.cast(tw.u8, tw.cast(tw.i32, tw.constant_exterior(A, 0, None, (0, K))[i, l]) + 128)
    b[l, j] = tw.constant_exterior(B, 0)[l, j]
    columns[j] = 0
    columns[j] += tw.cast(tw.i32, b[k, j])
    C[i, j] = bias[j] - 128 * columns[j]
    C[i, j] += tw.cast(tw.i32, a[i, k]) * tw.cast(tw.i32, b[k, j])
    scaled = tw.round(tw.cast(tw.f32, C[i, j]) * scale[j])
    out[i, j] = tw.cast(tw.i8, tw.clamp(scaled, -128.0, 127.0))
    return out[:M, :N]


REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
ROWS, COLUMNS = min(8, REGISTERS.count // 2 - 2), 2 * VECTOR  # a tile of registers, as in matmul.py
STRIP = 8 * ROWS


def by_rows():
    """A row of sums at a time, in vectors; operands are widened where they are used."""
    s = int8_matmul.schedule()
    s["out"].parallel("i").vectorize("j", VECTOR)
    s["columns"].compute_root()
    s["columns.update"].reorder("k", "j").vectorize("j", VECTOR)
    s["C"].compute_at("out.i")
    s["C.init"].vectorize("j", VECTOR)
    s["C.update"].reorder("i", "k", "j").vectorize("j", VECTOR)
    return s


def expert():
    """Both operands in groups of four along k, a group for every lane: the form of the processor's dot product."""
    s = int8_matmul.schedule()
    out = s["out"].split("i", "ic", "i1", STRIP).split("i1", "io", "ii", ROWS)
    out.split("j", "jo", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR).reorder("ic", "jo", "io", "ii", "jv", "jl")
    out.parallel("ic").unroll("ii").unroll("jv").vectorize("jl")
    s["C"].compute_at("out.io")
    C = s["C.update"].split("i", "ir", "ii", ROWS).split("j", "jr", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR)
    C.split("k", "ko", "k1", 8).split("k1", "ku", "ki", 4).reorder("ir", "jr", "ko", "ku", "ii", "jv", "jl", "ki")
    C.unroll("ku").unroll("ii").unroll("jv").vectorize("jl").unroll("ki")
    s.cache_write("C", at="C.update.jr", memory="reg")

    b = s["b"].compute_root().layout(f"l j -> j//{COLUMNS} l//4 j%{COLUMNS} l%4")
    b.tile("l", "j", "lo", "jo", "lt", "jt", 4, COLUMNS, tail="round_up")
    b.parallel("lo", 8).unroll("lt").vectorize("jt")
    a = s["a"].compute_at("out.ic").layout(f"i l -> i//{ROWS} l//4 i%{ROWS} l%4")
    a.split("l", "lo", "lt", 4 * VECTOR, tail="round_up").split("i", "io", "it", ROWS).reorder("io", "lo", "it", "lt")
    a.unroll("it").vectorize("lt")

    s["columns"].compute_root()
    sums = s["columns.update"].split("k", "ko", "ki", 4).split("j", "jo", "jt", COLUMNS).split("jt", "jv", "jl", VECTOR)
    sums.reorder("jo", "ko", "jv", "jl", "ki").parallel("jo").unroll("jv").vectorize("jl").unroll("ki")
    s.cache_write("columns", at="columns.update.jo", memory="reg")
    return s


SCHEDULES = (by_rows, expert)


def inputs(M=200, N=140, K=300):
    """Activations, weights, a bias and factors with which a few results in a hundred saturate."""
    rng = np.random.default_rng(0)
    a, b = (np.int8(np.clip(rng.normal(0, 40, shape), -128, 127)) for shape in ((M, K), (K, N)))
    bias = rng.integers(-3000, 3000, N, dtype=np.int32)
    return a, b, bias, np.float32(rng.uniform(0.8, 1.2, N) * 60 / (1600 * np.sqrt(max(K, 1))))


def independent(a, b, bias, scale):
    sums = np.int64(a) @ np.int64(b) + bias
    return np.int8(np.clip(np.rint(np.float32(sums) * scale), -128, 127))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(int8_matmul, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

"""Matrix product in 8-bit integers, as quantised networks use it: sums in 32 bits, narrowed again at the end.

A sum becomes an i8 by a factor a column, rounded to nearest and then clamped, so that what is too large saturates.
Integers may be added in any order: all schedules give the same bits.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N, K = tw.sizes("M N K")


@tw.kernel
def int8_matmul(A: tw.i8[M, K], B: tw.i8[K, N], bias: tw.i32[N], scale: tw.f32[N]):
    i, j, l = tw.vars("i j l")
    k = tw.rdom(k=K)
    a, b, C, out = (tw.func(n) for n in ("a", "b", "C", "out"))
    a[i, l] = tw.cast(tw.i32, A[i, l])
    b[l, j] = tw.cast(tw.i32, B[l, j])
    C[i, j] = bias[j]
    C[i, j] += a[i, k] * b[k, j]
    scaled = tw.round(tw.cast(tw.f32, C[i, j]) * scale[j])
    out[i, j] = tw.cast(tw.i8, tw.clamp(scaled, -128.0, 127.0))
    return out[:M, :N]


REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
ROWS, COLUMNS = REGISTERS.count // 2 - 2, 2 * VECTOR  # a tile of registers, as in matmul.py
STRIP = 8 * ROWS


def by_rows():
    """A row of sums at a time, in vectors; operands are widened where they are used."""
    s = int8_matmul.schedule()
    s["out"].parallel("i").vectorize("j", VECTOR)
    s["C"].compute_at("out.i")
    s["C.init"].vectorize("j", VECTOR)
    s["C.update"].reorder("i", "k", "j").vectorize("j", VECTOR)
    return s


def expert():
    """Operands are widened while they are packed; a tile of sums stays in registers and is narrowed in the cache."""
    s = int8_matmul.schedule()
    out = s["out"].tile("i", "j", "io", "jo", "ii", "ji", STRIP, COLUMNS)
    out.parallel("io").vectorize("ji")
    s["C"].compute_at("out.jo")
    C = s["C.update"].split("i", "ir", "ii", ROWS).split("j", "jv", "jl", VECTOR)
    C.reorder("ir", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.ir", memory="reg")
    s["b"].compute_root().layout(f"l j -> j//{COLUMNS} l j%{COLUMNS}").vectorize("j", VECTOR)
    s["a"].compute_at("out.io").layout(f"i l -> i//{ROWS} l i%{ROWS}")
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

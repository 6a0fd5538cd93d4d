"""Matrix times vector with weights in 4 bits, a factor for every 32 of them: 4.5 bits a weight, a seventh of f32.

A word holds eight weights of a group; four words make a group. Unpacking is a shift and a mask: a weight q in 0..15 (for
-8..7), put below the exponent of 16, is the number 16 + q at once, so nothing has to be converted. The sum of a group
then starts at -24 times the sum of its part of the vector. Lanes are different groups, so that a factor is for a lane,
and all factors of a vector of groups are widened and applied at once.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, G = tw.sizes("M G")  # rows, groups a row
VECTOR = tw.host_registers().width // 4
ROWS = 4
SIXTEEN = 0x41800000  # as an f32; a bit of 1 << 19 counts 1


@tw.kernel
def matvec_int4(W: tw.u32[M, G, 4], scale: tw.f16[M, G], x: tw.f32[G, 32]):
    """Bits 4n.. of word t of a group are its weight 4n + t."""
    i, g = tw.vars("i g")
    t, n = tw.rdom(t=4, n=8)
    u, k = tw.rdom(u=32), tw.rdom(k=G)
    group, y = tw.func("group"), tw.func("y")
    left, right = (tw.cast(tw.u32, e) for e in (19 - 4 * n, 4 * n - 19))  # one of them is no shift at all: 0
    bits = W[i, g, t] << left | W[i, g, t] >> right
    group[i, g] = -24.0 * tw.sum(x[g, u], over=u, name="whole")
    group[i, g] += tw.bitcast(tw.f32, bits & (15 << 19) | SIXTEEN) * x[g, 4 * n + t]
    y[i] = 0.0
    y[i] += scale[i, k] * group[i, k]
    return y[:M]


def by_rows():
    """A row at a time, groups in the lanes of a vector."""
    s = matvec_int4.schedule()
    s["y.update"].vectorize("k", VECTOR)
    s["y_k_v"].compute_at("y.update.i")
    s["group"].compute_at("y_k_v.update[0].k")
    s["group.init"].vectorize("g", VECTOR)
    s["group.update"].reorder("t", "n", "g").unroll("n").vectorize("g", VECTOR)
    return s


def expert():
    """Four rows at a time; their words, and the vector, stand in the order in which they are read."""
    s = matvec_int4.schedule()
    s.layout("W", f"i g t -> i//{ROWS} g//{VECTOR} t i%{ROWS} g%{VECTOR}")
    s.layout("x", f"g u -> g//{VECTOR} u g%{VECTOR}")
    s["whole"].compute_root()
    s["whole.init"].vectorize("g", VECTOR)
    s["whole.update"].reorder("u", "g").vectorize("g", VECTOR)
    s["y.update"].split("i", "io", "ii", ROWS).parallel("io").vectorize("k", VECTOR)
    s["y_k_v"].compute_at("y.update.io")
    s["y_k_v.update[0]"].split("i", "ir", "ii", ROWS).reorder("ir", "k", "ii", "k_v").unroll("ii")
    s["group"].compute_at("y_k_v.update[0].k")
    s["group.init"].vectorize("g", VECTOR)
    group = s["group.update"].split("i", "ir", "ii", ROWS).split("g", "go", "gl", VECTOR)
    group.reorder("ir", "go", "t", "n", "ii", "gl").unroll("n").unroll("ii").vectorize("gl")
    s.cache_write("group", at="group.update.go", memory="reg")
    s["y.update"].specialize(f"(M % {ROWS} == 0) & (G % {VECTOR} == 0)", "whole_tiles")
    return s


SCHEDULES = (by_rows, expert)


def quantised(weights):
    """Words and factors of weights [M, 32*G]: the largest of a group becomes 7 or -7."""
    groups = weights.reshape(len(weights), weights.shape[1] // 32, 32)
    scale = np.float16(np.abs(groups).max(2) / 7)
    steps = np.float32(np.maximum(scale, np.finfo(np.float16).tiny))[:, :, None]
    q = np.uint32(np.clip(np.rint(groups / steps) + 8, 0, 15)).reshape(*scale.shape, 8, 4)
    return np.bitwise_or.reduce(q << (4 * np.arange(8, dtype=np.uint32)[:, None]), axis=2), scale


def inputs(M=90, G=21):
    """Weights that lean to one side, and a vector as a ReLU leaves it: sums large enough to be judged by their bounds."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((M, 32 * G), dtype=np.float32) + rng.choice((-1, 1), (M, 1))
    return *quantised(weights), np.maximum(rng.standard_normal((G, 32), dtype=np.float32), 0)


def independent(w, scale, x):
    q = np.float64(w[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)[:, None]) & 15) - 8
    return np.float32(np.einsum("igu,gu,ig->i", q.reshape(*scale.shape, 32), np.float64(x), np.float64(scale)))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(matvec_int4, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

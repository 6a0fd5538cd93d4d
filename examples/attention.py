"""Scaled dot-product attention in one pass: scores of a tile of queries and a block of keys, never all of them.

The maximum, the sum and the weighted values of a row are kept up to date from block to block (`online`). With
`causal`, the last query sees all keys, each query before it one key less; what no query of a tile sees is skipped.
A query that sees no key at all gets 0/0, which is NaN.
"""

from __future__ import annotations

import numpy as np
from scipy import special

import tilewright as tw
from tilewright import testing

H, M, N, D = tw.sizes("H M N D")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
ROWS, COLUMNS = min(8, REGISTERS.count // 2 - 2), 2 * VECTOR  # a tile of registers, as in matmul.py
QUERIES, KEYS = 8 * ROWS, 32 * VECTOR  # a tile of scores that stays in the second cache
LOG2_E = 1.4426950408889634


@tw.kernel
def attention(Q: tw.f32[H, M, D], K: tw.f32[H, N, D], V: tw.f32[H, N, D], scale: tw.f32, *, causal=False):
    h, i, j, d = tw.vars("h i j d")
    k, e = tw.rdom(k=N), tw.rdom(e=D)
    k = k.where(k <= i + N - M) if causal else k
    query, score, weight, sums, out = (tw.func(n) for n in ("query", "score", "weight", "sums", "out"))
    query[h, i, d] = Q[h, i, d] * (scale * LOG2_E)  # powers of two of these scores are those of e of the scaled ones
    score[h, i, j] = 0.0
    score[h, i, j] += query[h, i, e] * K[h, j, e]
    largest = tw.max(score[h, i, k], over=k, name="largest")
    weight[h, i, j] = tw.exp2(score[h, i, j] - largest)
    total = tw.sum(weight[h, i, k], over=k, name="total")
    sums[h, i, d] = 0.0
    sums[h, i, d] += weight[h, i, k] * V[h, k, d]
    out[h, i, d] = sums[h, i, d] * (1.0 / total)
    return out[:H, :M, :D]


def tile(s, stage, i, j, k):
    """The register tile of a product over `k`: rows `i` by columns `j`, both in the order of the loops around it."""
    x = s[stage]
    x.split(i, "it", "ii", ROWS).split(j, "jt", "jj", COLUMNS).split("jj", "jv", "jl", VECTOR)
    x.reorder("h", "jt", "it", k, "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write(stage.split(".")[0], at=f"{stage}.it", memory="reg")


def unfused(causal=False):
    """One head after the other: all of its scores, then softmax, then the product with the values."""
    s = attention.schedule(causal=causal)
    s["out"].parallel("h").vectorize("d", VECTOR)
    for f in ("sums", "total", "weight", "largest", "score"):
        s[f].compute_at("out.h")
    tile(s, "score.update", "i", "j", "e")
    tile(s, "sums.update", "i", "d", "k")
    s["query"].compute_at("out.h").layout(f"h i d -> h i//{ROWS} d i%{ROWS}")
    pack(s)
    s["largest.update"].vectorize("k", 4 * VECTOR)
    s["total.update"].vectorize("k", 4 * VECTOR)
    s["weight"].vectorize("j", 2 * VECTOR)
    return s


def pack(s):
    """Keys of a head in panels as wide as the register tile."""
    keys = s.cache_read("K", at="score.update.h", layout=f"h k e -> h k//{COLUMNS} e k%{COLUMNS}")
    keys.compute_at("out.h").split("k", "kt", "kl", COLUMNS).reorder("h", "kt", "e", "kl").vectorize("kl")


def expert(causal=False):
    """A tile of queries against a block of keys at a time; what both products read stands packed or in the cache."""
    s = attention.schedule(causal=causal)
    s["out"].split("i", "io", "ii", QUERIES).parallel("h").vectorize("d", VECTOR)
    for f in ("sums", "total", "largest"):
        s[f].compute_at("out.io")
    s.online(["largest", "total", "sums"], over="k", block=KEYS)
    s["sums_online.update"].partition("k_b", "never")  # the loops inside are parted, that is enough
    s["weight"].compute_at("k_b").vectorize("j", 2 * VECTOR)
    s["score"].compute_at("k_b")
    tile(s, "score.update", "i", "j", "e")
    tile(s, "sums.update", "i", "d", "k")
    s["query"].compute_at("out.io").layout(f"h i d -> h i//{ROWS} d i%{ROWS}")
    pack(s)
    s["largest.update"].vectorize("k", 4 * VECTOR)
    s["total.update"].vectorize("k", 4 * VECTOR)
    s["sums.repair"].vectorize("d", VECTOR)
    return s


SCHEDULES = (unfused, expert)


def inputs(H=2, M=100, N=150, D=40):
    """Queries and keys as they leave their projections, and the usual scale."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(s, dtype=np.float32) for s in ((H, M, D), (H, N, D), (H, N, D)))
    return q, k, v, np.float32(D**-0.5)


def independent(q, k, v, scale, causal=False):
    scores = np.einsum("hid,hjd->hij", np.float64(q), k) * scale
    if causal:
        scores[:, ~np.tri(*scores.shape[1:], scores.shape[2] - scores.shape[1], dtype=bool)] = -np.inf
    with np.errstate(invalid="ignore"):  # of rows without a key
        return np.float32(np.einsum("hij,hjd->hid", special.softmax(scores, axis=2), v))


def check(causal=False, **sizes):
    args = inputs(**sizes)
    testing.check_schedules(attention, SCHEDULES, args, independent(*args, causal), {"causal": causal})


if __name__ == "__main__":
    check()
    check(causal=True)
    check(causal=True, M=150, N=100)  # the first 50 queries see nothing

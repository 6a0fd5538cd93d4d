"""One token of a transformer's attention: its key and value are appended to a cache in place, its query attends to it.

The sequences of a batch have lengths of their own; the cache has room for more. Several query heads share a head of
keys and values. Softmax and the weighted sum run in one pass over blocks of the cache (`online`). Pass the part of the
cache that the longest sequence needs (`keys[:, :, :n]`, a view), and no time goes into the rest.
"""

from __future__ import annotations

import numpy as np
from scipy import special

import tilewright as tw
from tilewright import testing

B, H, G, N, D = tw.sizes("B H G N D")  # sequences, heads of the cache, queries a head, room, numbers a head
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
WIDE = REGISTERS.count // 4 * VECTOR  # of a row of values at a time: with two queries, half of all registers
KEYS = 32 * VECTOR  # in a block
LOG2_E = 1.4426950408889634


@tw.kernel
def decode_step(
    query: tw.f32[B, H, G, D], key: tw.f32[B, H, D], value: tw.f32[B, H, D],
    keys: tw.inout(tw.f32[B, H, N, D]), values: tw.inout(tw.f32[B, H, N, D]), length: tw.i64[B], scale: tw.f32,
):  # fmt: skip
    """`length`: tokens that are in the cache before this one, less than N."""
    b, h, g, j, d = tw.vars("b h g j d")
    e = tw.rdom(e=D)
    place = tw.clamp(length[b], 0, N - 1)
    keys[b, h, place, d] = key[b, h, d]
    values[b, h, place, d] = value[b, h, d]

    score, weight, sums, out = (tw.func(n) for n in ("score", "weight", "sums", "out"))
    score[b, h, g, j] = 0.0
    score[b, h, g, j] += query[b, h, g, e] * keys[b, h, j, e]
    k = tw.rdom(k=N)
    k = k.where(k <= place)
    scaled = score[b, h, g, k] * (scale * LOG2_E)
    largest = tw.max(scaled, over=k, name="largest")
    weight[b, h, g, j] = tw.exp2(score[b, h, g, j] * (scale * LOG2_E) - largest)
    total = tw.sum(weight[b, h, g, k], over=k, name="total")
    sums[b, h, g, d] = 0.0
    sums[b, h, g, d] += weight[b, h, g, k] * values[b, h, k, d]
    out[b, h, g, d] = sums[b, h, g, d] / total
    return out[:B, :H, :G, :D]


def by_heads():
    """A head at a time: all its scores, then softmax, then the sum of values."""
    s = decode_step.schedule()
    s["out"].parallel("h").vectorize("d", VECTOR)
    for f in ("sums", "total", "weight", "largest", "score"):
        s[f].compute_at("out.h")
    s["score.update"].vectorize("e", VECTOR)
    s["weight"].vectorize("j", VECTOR)
    s["sums.update"].reorder("b", "h", "k", "g", "d").vectorize("d", VECTOR)
    return s


def expert():
    """Blocks of keys and values, each read once for all queries of a head, in one pass; rows are read from end to end."""
    s = decode_step.schedule()
    s["out"].parallel("h").vectorize("d", VECTOR)
    for f in ("sums", "total", "largest"):
        s[f].compute_at("out.h")
    s.online(["largest", "total", "sums"], over="k", block=KEYS)
    s["weight"].compute_at("k_b").vectorize("j", VECTOR)
    s["score"].compute_at("k_b")
    s["score.update"].reorder("b", "h", "j", "g", "e").vectorize("e", VECTOR)
    for f in ("largest", "total"):
        s[f"{f}.update"].vectorize("k", 4 * VECTOR)
    sums = s["sums.update"].split("g", "go", "gi", 2).split("d", "do", "dt", WIDE).split("dt", "du", "dv", VECTOR)
    sums.reorder("b", "h", "go", "do", "k", "gi", "du", "dv").unroll("gi").unroll("du").vectorize("dv")
    s.cache_write("sums", at="sums.update.do", memory="reg")
    return s


SCHEDULES = (by_heads, expert)


def inputs(B=3, H=2, G=4, N=100, D=40):
    """A cache of what layers before would leave there, filled to different lengths (one sequence has just begun)."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)  # noqa: E731
    length = rng.integers(0, N, B)
    length[:1] = 0
    return normal(B, H, G, D), normal(B, H, D), normal(B, H, D), normal(B, H, N, D), normal(B, H, N, D), length, D**-0.5


def independent(query, key, value, keys, values, length, scale):
    keys, values, out = np.float64(keys), np.float64(values), np.empty(query.shape)
    for b, n in enumerate(length):
        keys[b, :, n], values[b, :, n] = key[b], value[b]
        w = special.softmax(np.einsum("hgd,hkd->hgk", query[b], keys[b, :, : n + 1]) * scale, axis=2)
        out[b] = np.einsum("hgk,hkd->hgd", w, values[b, :, : n + 1])
    return np.float32(out)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(decode_step, SCHEDULES, args, independent(*args))
    for make in SCHEDULES:  # on a cache that nothing was appended to yet
        query, key, value, keys, values, length, scale = inputs(**sizes)
        before = keys.copy(), values.copy()
        decode_step.compile(make())(query, key, value, keys, values, length, scale)
        for cache, old, new in zip((keys, values), before, (key, value), strict=True):
            old[np.arange(len(length)), :, length] = new
            np.testing.assert_array_equal(cache, old)


if __name__ == "__main__":
    check()

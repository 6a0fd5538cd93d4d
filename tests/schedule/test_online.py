"""online: softmax, log-sum-exp, attention in one pass over blocks; masks, infinities, NaN; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.kernels import pipeline
from tests.schedule.helpers import flat, refused
from tests.schedule.nest_oracle import run_nest
from tilewright import testing
from tilewright.schedule.build import build_nest
from tilewright.schedule.nest import LoopNode, walk
from tilewright.schedule.schedule import Schedule, parse_schedule

H, G, M, N, D = tw.sizes("H G M N D")
INFINITY = np.float32(np.inf)


@tw.kernel
def log_sum(X: tw.f32[M, N]):
    """log2 of a sum of powers of two: exact where X is of small integers."""
    i = tw.vars("i")
    k = tw.rdom(k=N)
    Y = tw.func("Y")
    m = tw.max(X[i, k], over=k, name="m")
    Y[i] = m + tw.log2(tw.sum(tw.exp2(X[i, k] - m), over=k, name="l"))
    return Y[:M]


@tw.kernel
def sums(X: tw.f32[M, N]):
    """Maximum and sum themselves."""
    i = tw.vars("i")
    k = tw.rdom(k=N)
    m, l = tw.func("m"), tw.func("l")
    m[i] = -INFINITY
    m[i] = tw.maximum(m[i], X[i, k])
    l[i] = 0.0
    l[i] += tw.exp2(X[i, k] - m[i])
    return {"m": m[:M], "l": l[:M]}


@tw.kernel
def softmax(X: tw.f32[M, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    E, Y = tw.func("E"), tw.func("Y")
    m = tw.max(X[i, k], over=k, name="m")
    E[i, j] = tw.exp(X[i, j] - m)
    Y[i, j] = E[i, j] / tw.sum(E[i, k], over=k, name="l")
    return Y[:M, :N]


@tw.kernel
def attention(
    Q: tw.f32[G, M, D], K: tw.f32[H, N, D], V: tw.f32[H, N, D], scale: tw.f32, lengths: tw.i64[H],
    *, causal=False, ragged=False, group=1,
):  # fmt: skip
    """Powers of two of scaled scores; `group` query heads share one head of keys and values."""
    h, i, j, d = tw.vars("h i j d")
    e = tw.rdom(e=D)
    S, T, P, o, Y = (tw.func(n) for n in ("S", "T", "P", "o", "Y"))
    S[h, i, j] = 0.0
    S[h, i, j] += Q[h, i, e] * K[h // group, j, e]
    T[h, i, j] = S[h, i, j] * scale

    def domain():
        k = tw.rdom(k=N)
        if causal:
            k = k.where(k <= i)
        return k.where(k < lengths[h // group]) if ragged else k

    m, l = tw.func("m"), tw.func("l")
    k = domain()
    m[h, i] = -INFINITY
    m[h, i] = tw.maximum(m[h, i], T[h, i, k])
    P[h, i, j] = tw.exp2(T[h, i, j] - m[h, i])
    k = domain()
    l[h, i] = 0.0
    l[h, i] += P[h, i, k]
    k = domain()
    o[h, i, d] = 0.0
    o[h, i, d] += P[h, i, k] * V[h // group, k, d]
    Y[h, i, d] = o[h, i, d] / l[h, i]
    return Y[:G, :M, :D]


def fused(kernel, block=4, rows=3, **statics) -> Schedule:
    """Attention with scores of one tile of rows and one block at a time."""
    s = kernel.schedule(**statics)
    s["Y"].split("i", "io", "ii", rows)
    for f in ("o", "l", "m"):
        s[f].compute_at("Y.io")
    s.online(["m", "l", "o"], over="k", block=block)
    s["P"].compute_at("k_b")
    s["S"].compute_at("k_b")
    return s


def online(kernel, members=("m", "l"), block=4, **statics) -> Schedule:
    s = kernel.schedule(**statics)
    s.online(members, over="k", block=block)
    return s


def agree(kernel, s: Schedule, args, **statics) -> None:
    """The nest and native code give the reference's bits (zeros apart)."""
    expected = flat(kernel.reference(*args, **statics))
    for got in (flat(run_nest(s, *args)), flat(kernel.compile(s)(*args))):
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b)


def scores(rows: int, columns: int, seed: int, masked: float = 0.0) -> np.ndarray:
    """Small integers, some of them -inf."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-5, 5, (rows, columns)).astype(np.float32)
    x[rng.random(x.shape) < masked] = -INFINITY
    return x


def qkv(heads, group, queries, keys, depth, seed):
    rng = np.random.default_rng(seed)

    def some(*shape):
        return rng.integers(-1, 2, shape).astype(np.float32)

    lengths = rng.integers(0, keys + 2, heads)
    q, k, v = some(heads * group, queries, depth), some(heads, keys, depth), some(heads, keys, depth)
    return q, k, v, np.float32(1.0), lengths


# Nests ----------------------------------------------------------------------------------------------------------


def test_nest(golden):
    s = online(log_sum)
    assert parse_schedule(str(s), s.pipeline) == s
    s.check()
    golden(f"{s}\n\n{s.loops()}")


def test_nest_of_attention(golden):
    s = fused(attention, causal=True)
    assert parse_schedule(str(s), s.pipeline) == s
    s.check()
    golden(f"{s}\n\n{s.loops()}")


# Values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [0, 1, 3, 4, 8, 9, 13])
def test_lengths(columns):
    """No points, fewer than a block, whole blocks, a rest."""
    for kernel in (log_sum, sums):
        agree(kernel, online(kernel), (scores(3, columns, columns),))


@pytest.mark.parametrize("block", [1, 2, 7, 32])
def test_blocks(block):
    agree(sums, online(sums, block=block), (scores(4, 15, block),))


def test_masked_rows_and_blocks():
    """-inf first, last, in whole blocks, everywhere."""
    x = scores(6, 14, 0)
    x[0], x[1, :4], x[2, :9], x[3, 4:8], x[4, 8:] = (-INFINITY,) * 5
    x[5, 1:] = -INFINITY
    for kernel in (log_sum, sums):
        agree(kernel, online(kernel), (x,))
    for seed in range(4):
        agree(sums, online(sums), (scores(8, 11, seed, 0.8),))


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_infinities_and_nan(odd):
    for at in (0, 5, 10):
        x = scores(3, 11, 1)
        x[0, at] = odd
        x[1, :at], x[1, at] = -INFINITY, odd
        x[2, :], x[2, at] = -INFINITY, odd
        agree(sums, online(sums), (x,))


def test_softmax_within_its_bound():
    x = np.random.default_rng(0).standard_normal((5, 70)).astype(np.float32) * 4
    s = online(softmax, block=16)
    testing.assert_within_bound(softmax, softmax.compile(s)(x), x)
    assert "online m l" in s.state.reassociations


MASKS = [{}, {"causal": True}, {"ragged": True}, {"causal": True, "ragged": True, "group": 2}]


@pytest.mark.parametrize("statics", MASKS)
@pytest.mark.parametrize("shape", [(2, 5, 5, 3), (1, 4, 9, 2), (1, 7, 3, 1)])
def test_attention(statics, shape):
    heads, queries, keys, depth = shape
    args = qkv(heads, statics.get("group", 1), queries, keys, depth, queries)
    close(attention, fused(attention, **statics), args, **statics)


def close(kernel, s, args, **statics):
    """Powers of two of small scores add up exactly; the division rounds in the same way everywhere."""
    expected = kernel.reference(*args, **statics)
    for got in (run_nest(s, *args), kernel.compile(s)(*args)):
        np.testing.assert_array_equal(expected, got)


@pytest.mark.parametrize("statics", MASKS[:3])
def test_attention_within_its_bound(statics):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 9, 8), (2, 13, 8), (2, 13, 8)))
    args = (q, k, v, np.float32(0.5), np.int64([13, 6]))
    s = fused(attention, **statics)
    p = attention.pipeline(**statics)
    testing.assert_within_bound(p, attention.compile(s)(*args), *args)


def test_scores_are_never_in_memory_as_a_whole():
    """The footprint of the simulated run: what is ours does not grow with the number of keys."""
    s = fused(attention, block=16, rows=4)
    taken = []
    for n in (32, 128):
        sizes = {"H": 1, "G": 1, "M": 8, "N": n, "D": 4}
        account = attention.simulate(s, machine="generic-avx2", sizes=sizes).account
        taken.append({b.name: b.size for f in account.footprint for b in f.buffers if b.name not in "QKVY"})
    assert taken[0] == taken[1]
    assert max(taken[0].values()) == 4 * 16 * 4  # a tile of scores


def test_the_rest_is_scheduled_by_default():
    """Only the group is said: what stands between its members is computed in the block loop or inlined."""
    x = scores(5, 100, 3, 0.3)
    agree(log_sum, online(log_sum, block=32), (x,))
    s = attention.schedule()
    s.online(["m", "l", "o"], over="k", block=8)
    close(attention, s, qkv(2, 1, 5, 19, 3, 0))


def test_stages_in_a_block_can_be_scheduled():
    s = fused(attention, block=8, rows=6, causal=True)
    s["S.update"].split("j", "jo", "jv", 4).reorder("h", "i", "jo", "e", "jv").vectorize("jv")
    s["m.update"].vectorize("k", 4)
    s["l.update"].vectorize("k", 4)
    s["l.repair"].vectorize("i", 4)
    s["m_before"].vectorize("i", 2)
    s["o_change"].vectorize("i", 2)
    s["P"].vectorize("j", 4)
    s["o.repair"].vectorize("d", 4)
    o = s["o.update"].split("d", "do", "dv", 4).split("i", "io", "ii", 2).reorder("h", "io", "do", "k", "ii", "dv")
    o.unroll("ii").vectorize("dv")
    s.cache_write("o", at="o.update.do", memory="reg")
    s.cache_read("V", at="o.update.h")
    s.check()
    assert parse_schedule(str(s), s.pipeline) == s
    close(attention, s, qkv(2, 1, 13, 21, 6, 0), causal=True)


def test_keys_and_values_through_a_ring():
    """Blocks of keys and values in two slots each, copied ahead."""
    s = fused(attention, block=8, causal=True)
    s.cache_read("K", at="k_b", consumers=["S.update"]).double_buffer(2)
    s.cache_read("V", at="k_b", consumers=["o.update"]).double_buffer(2)
    s.check()
    assert str(s.loops()).count("asynchronously") == 2
    args = qkv(2, 1, 9, 21, 3, 0)
    np.testing.assert_array_equal(attention.reference(*args, causal=True), attention.compile(s)(*args))


def test_blocks_beyond_the_diagonal_are_not_entered():
    s = fused(attention, block=4, rows=2, causal=True)
    loop = s.loops().loop("o_online.update.k_b")
    assert "io" in repr(loop.stop) and "M" in repr(loop.stop)


def test_the_loop_over_blocks_may_be_left_whole():
    s = fused(attention, causal=True)
    s["o_online.update"].partition("k_b", "never")
    loops = {n.address: n for n in walk(build_nest(s.state).body) if isinstance(n, LoopNode)}
    assert loops["o_online.update.k_b"].part == "never"


def test_storage_types():
    """A running value of a storage type rounds at every step and repair; f64 beside f32."""

    @tw.kernel
    def narrow(X: tw.f32[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        m, l, w = tw.func("m", tw.bf16), tw.func("l", tw.f16), tw.func("w", tw.f64)
        m[i] = -INFINITY
        m[i] = tw.maximum(m[i], X[i, k])
        l[i] = 0.0
        l[i] += tw.exp2(X[i, k] - m[i])
        w[i] = 0.0
        w[i] += tw.cast(tw.f64, tw.exp2(X[i, k] - m[i])) * 3.0
        return {"m": m[:M], "l": l[:M], "w": w[:M]}

    x = np.float32([[0, 1, 0, 1, 2, 1, 0, 2, 3], [3, 2, 1, 0, 0, 1, 2, 3, 0], [-INFINITY] * 5 + [0, 1, 1, 0]])
    agree(narrow, online(narrow, ("m", "l", "w")), (x,))


def test_several_ranges_and_a_start():
    """Blocks of one variable of two, from 1 on; a Func that needs the maximum alone stands at the same place."""

    @tw.kernel
    def boxes(X: tw.f32[M, N, D]):
        i = tw.vars("i")
        r = tw.rdom(k=(1, N), c=D)
        m, l, n, y = tw.func("m"), tw.func("l"), tw.func("n"), tw.func("y")
        m[i] = -INFINITY
        m[i] = tw.maximum(m[i], X[i, r.k, r.c])
        l[i] = 0.0
        l[i] += tw.exp2(X[i, r.k, r.c] - m[i])
        n[i] = m[i] * 2.0
        y[i] = l[i] + n[i]
        return y[:M]

    x = np.random.default_rng(0).integers(-3, 4, (5, 12, 3)).astype(np.float32)
    s = boxes.schedule()
    for f in ("n", "l", "m"):
        s[f].compute_at("y.i")
    s.online(["m", "l"], over="k", block=5)
    agree(boxes, s, (x,))
    t = boxes.schedule()
    t["n"].compute_root()
    t.online(["m", "l"], over="c", block=2)
    agree(boxes, t, (x,))


def test_members_move_together():
    s = online(softmax)
    s["m"].compute_at("Y.i")
    assert {s.state.funcs[n].compute.loop for n in ("m", "l", "l_online")} == {"i"}
    s["l"].compute_root()
    assert {s.state.funcs[n].compute.kind for n in ("m", "l", "l_online")} == {"root"}


# What is refused ------------------------------------------------------------------------------------------------


def test_errors():
    s = log_sum.schedule()
    refused(s, "online-variable", lambda: s.online(["m", "l"], "j", 4), "no reduction variable j")
    refused(s, "online-split", lambda: s.online(["l", "m"], "k", 4), "order of their uses")
    refused(s, "online-twice", lambda: s.online(["m", "m"], "k", 4))
    refused(s, "online-form", lambda: s.online(["m", "Y"], "k", 4))
    t = fused(attention)
    refused(t, "online-between", lambda: t["P"].compute_root(), "P stands between")
    u = attention.schedule()
    u["l"].compute_at("Y.h")
    refused(u, "online-place", lambda: u.online(["m", "l", "o"], "k", 4))
    s.online(["m", "l"], "k", 4)
    refused(s, "online-before", lambda: s["m_before"].compute_inline())
    refused(s, "online-before", lambda: s.clone("m_before", ["l.repair"]))
    refused(s, "online-storage", lambda: s["l_online"].store_in("spm"))
    refused(s, "online-blocks", lambda: s["l.init"].compute_with("m.init.i"))
    refused(s, "online-twice", lambda: s.online(["m", "l"], "k", 4, name="again"))
    refused(s, "not-associative", lambda: s["l_online.update"].parallel("k_b"))
    refused(s, "online-blocks", lambda: s["l_online.update"].split("k_b", "a", "b", 2))


def test_domains_must_be_the_same():
    @tw.kernel
    def halves(X: tw.f32[M, N]):
        i = tw.vars("i")
        m, l, n = tw.func("m"), tw.func("l"), tw.func("n")
        a, b, c = tw.rdom(k=N), tw.rdom(k=N), tw.rdom(k=N - 1)
        a, b = a.where(a < i), b.where(b <= i)
        m[i] = -INFINITY
        m[i] = tw.maximum(m[i], X[i, a])
        l[i] = 0.0
        l[i] += tw.exp2(X[i, b] - m[i])
        n[i] = 0.0
        n[i] += tw.exp2(X[i, c] - m[i])
        return l[:M], n[:M]

    s = halves.schedule()
    refused(s, "online-domain", lambda: s.online(["m", "l"], "k", 4), "the same points")
    refused(s, "online-domain", lambda: s.online(["m", "n"], "k", 4), "the same box")


@pytest.mark.parametrize("over", ["a", "k", "q"])
@pytest.mark.parametrize("t", [tw.f32, tw.i32])
def test_blocks_of_an_inner_variable_change_the_order(over, t):
    """Blocks go outside of the variables before theirs: refused in strict for floats, whatever else is repaired."""

    @tw.kernel
    def total(A: t[N, N, N]):
        d, f = tw.rdom(a=N, k=N, q=N), tw.func("f")
        f[()] = A[0, 0, 0]
        f[()] += A[d.a, d.k, d.q]
        return f[()]

    s = total.schedule()
    s.online(["f"], over, 2)
    assert bool(s.state.reassociations) == (t.is_float and over != "a")
    a = np.random.default_rng(0).standard_normal((7, 7, 7)).astype(t.np)
    if s.state.reassociations:
        with pytest.raises(tw.ScheduleError, match="strict"):
            total.compile(s, mode="strict")
        testing.assert_within_bound(total, total.compile(s)(a), a)
    else:
        testing.assert_bitwise(total.compile(s, mode="strict")(a), total.reference(a))


def test_members_have_one_form():
    """A form of the whole update is none of a block: refused whichever comes first."""
    s = sums.schedule()
    s["l.update"].specialize("N > 2", "big")
    refused(s, "online-loops", lambda: s.online(["m", "l"], over="k", block=2), "several forms (big)")
    t = sums.schedule()
    t.online(["m", "l"], over="k", block=2)
    for stage in ("m.update", "l.repair", "l.update"):
        refused(t, "specialize-shared", lambda stage=stage: t[stage].specialize("N > 2", "big"))


@pytest.mark.parametrize("directly", [True, False])
def test_first_values_do_not_follow_from_members(directly):
    """They are there before the first block, when no member is what it will be in the end."""

    def offset(X: tw.i32[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        total, twice, square, out = (tw.func(n) for n in ("total", "twice", "square", "out"))
        total[i] = 0
        total[i] += X[i, k]
        twice[i] = 2 * total[i]
        square[i] = total[i] if directly else twice[i]
        square[i] += X[i, k] * X[i, k]
        out[i] = square[i] - total[i]
        return out[:M]

    s = Schedule(pipeline(offset))
    s["out"].split("i", "io", "ii", 4)
    for name in ("square", "total"):
        s[name].compute_at("out.io")
    refused(s, "online-split", lambda: s.online(["total", "square"], "k", 4), "its first value uses total")

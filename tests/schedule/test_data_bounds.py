"""Conditions of reductions on numbers that the caller gives: they end the loops, and nothing is evaluated beyond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw

B, N = tw.sizes("B N")

CONDITIONS = {
    "below": lambda k, b, n: k < n,
    "up to": lambda k, b, n: k <= n,
    "the other way": lambda k, b, n: n > k,
    "from": lambda k, b, n: k >= n,
    "after": lambda k, b, n: n < k,
    "a triangle": lambda k, b, n: k + b < n,
    "every other": lambda k, b, n: 2 * k + 1 <= n,
    "downwards": lambda k, b, n: 5 - k < n,
    "the smaller": lambda k, b, n: k < tw.minimum(n, 5),
    "a window": lambda k, b, n: (k < n) & (k >= n - 4),
    "twice": lambda k, b, n: (k < n) & (k < 7),
    "neither": lambda k, b, n: k != n,
}
TYPES = {"i64": tw.i64, "i32": tw.i32, "i8": tw.i8, "u8": tw.u8, "u32": tw.u32}


def kernel(what: str, t, scalar: bool):
    def made(x: tw.i64[B, N], n: tw.i64[B]):
        b = tw.vars("b")
        d = tw.rdom(k=N)
        d.where(CONDITIONS[what](d.k, b, n if scalar else n[b]))
        twice, f = tw.func("twice"), tw.func("f")
        i, j = tw.vars("i j")
        twice[i, j] = 2 * x[i, j]
        f[b] = 0
        f[b] += twice[b, d.k] + b + x[b, d.k]
        return f[:B]

    made.__annotations__ = {"x": tw.i64[B, N], "n": t if scalar else t[B]}
    return tw.kernel(made)


def plain(s):
    return s


def split(s):
    s["f.update"].split("k", "ko", "ki", 3)
    return s


def tails(s):
    s["f.update"].split("b", "bo", "bi", 4).split("k", "ko", "ki", 5).reorder("bo", "ko", "bi", "ki")
    return s


def lanes(s):
    s["f.update"].split("b", "bo", "bi", 4).reorder("bo", "k", "bi").vectorize("bi")
    return s


def held(s):
    s["f.update"].split("b", "bo", "bi", 4).reorder("bo", "k", "bi").unroll("bi")
    s.cache_write("f", at="f.update.bo", memory="reg")
    return s


def threads(s):
    s["f.update"].parallel("b")
    return s


def parts(s):
    s["f.update"].split("k", "ko", "ki", 4).rfactor("ki", "part")
    return s


def in_lanes(s):
    s["f.update"].vectorize("k", 4)
    return s


def staged(s):
    s["twice"].compute_at("f.update.k")
    return s


def shifted(s):
    s["f.init"].split("b", "bo", "bi", 3, tail="shift")
    s["twice"].compute_root()
    s["f.update"].split("k", "ko", "ki", 3).unroll("ki")
    return s


def ring(s):
    s["f.update"].split("k", "ko", "ki", 4)
    s["twice"].compute_at("f.update.ki")
    s.cache_read("x", at="f.update.ko", name="slot")
    s["slot"].double_buffer(2)
    return s


SCHEDULES = (plain, split, tails, lanes, held, threads, parts, in_lanes, staged, shifted, ring)


@pytest.mark.parametrize("what", CONDITIONS)
def test_every_schedule(what):
    k = kernel(what, tw.i64, False)
    x = np.arange(5 * 13).reshape(5, 13) + 1
    lengths = np.array([3, 13, 0, np.iinfo(np.int64).max, -2])
    expected = k.reference(x, lengths)
    for schedule in SCHEDULES:
        s = schedule(k.schedule())
        np.testing.assert_array_equal(k.compile(s)(x, lengths), expected, err_msg=f"{schedule.__name__}\n{s.loops()}")


@pytest.mark.parametrize("what", CONDITIONS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_values(what, data):
    t = data.draw(st.sampled_from(sorted(TYPES)))
    scalar = data.draw(st.booleans())
    k = kernel(what, TYPES[t], scalar)
    b, n = data.draw(st.integers(0, 9)), data.draw(st.sampled_from([0, 1, 4, 7, 13]))
    info = np.iinfo(t.replace("i", "int").replace("u", "uint"))
    near = st.integers(max(info.min, -3), n + 3)
    number = st.one_of(near, near, st.sampled_from([info.min, info.max, 0]))
    x = np.arange(b * n).reshape(b, n) + 1
    lengths = np.array(data.draw(st.lists(number, min_size=b, max_size=b)), info.dtype)
    given_ = info.dtype.type(data.draw(number)) if scalar else lengths
    expected = k.reference(x, given_)
    schedule = data.draw(st.sampled_from(SCHEDULES))
    s = schedule(k.schedule())
    np.testing.assert_array_equal(k.compile(s)(x, given_), expected, err_msg=f"{schedule.__name__}\n{s.loops()}")


def test_loops_end_where_data_say():
    s = split(kernel("below", tw.i32, False).schedule())
    assert "for ko in 0..min((N + 2)//3, (index(n[b]) + 2)//3)" in str(s.loops())
    assert "if" not in str(s.loops())


def test_nothing_is_evaluated_beyond():
    k = kernel("below", tw.i64, False)
    inputs = {"x": np.ones((4, 50), np.int64), "n": np.array([3, 0, 50, 7])}
    counts = k.count(plain(k.schedule()), sizes={"B": 4, "N": 50}, inputs=inputs)
    assert counts.loads["x"] == counts.evaluations["f_k_v.update[0]"] == 60  # in lanes
    assert counts.loads["n"] == 4


def test_blocks_of_dependent_reductions_end_where_data_say():
    @tw.kernel
    def softened(x: tw.f32[B, N], n: tw.i64[B]):
        b = tw.vars("b")
        m, l, out = (tw.func(f) for f in ("m", "l", "out"))
        for f, first in ((m, -float("inf")), (l, 0.0)):
            d = tw.rdom(k=N)
            d.where(d.k < n[b])
            f[b] = first
            f[b] = tw.maximum(m[b], x[b, d.k]) if f is m else l[b] + tw.exp(x[b, d.k] - m[b])
        out[b] = l[b]
        return out[:B]

    s = softened.schedule()
    s.online(["m", "l"], over="k", block=4)
    for f in ("m", "l"):
        s[f].compute_at("out.b")
    lengths = np.array([0, 3, 19, 8, -5])
    x = np.random.default_rng(0).standard_normal((5, 19)).astype(np.float32)
    expected = [np.exp(x[b, :n] - x[b, :n].max()).sum() if n > 0 else 0 for b, n in enumerate(lengths)]
    np.testing.assert_allclose(softened.compile(s)(x, lengths), expected, rtol=1e-6)
    counts = softened.count(s, sizes={"B": 5, "N": 19}, inputs={"x": x, "n": lengths})
    lanes = [counts.evaluations[f"{f}_k_v.update[0]"] for f in "ml"]
    assert lanes == [3 + 19 + 8] * 2
    assert counts.evaluations["m_before"] == 1 + 5 + 2  # blocks


@pytest.mark.parametrize("t", [tw.u8, tw.i8, tw.u16, tw.i16, tw.u64], ids=lambda t: t.name)
def test_narrowed_variables_are_no_ends_of_loops(t) -> None:
    """A cast to fewer bits wraps, and one of a negative number to an unsigned type too: what fulfils the condition is no
    interval of the loop."""

    @tw.kernel
    def wrapped(x: tw.i64[N], n: t):
        d = tw.rdom(k=N)
        d.where(tw.cast(t, 3 * d.k - 7) < n)
        f = tw.func("f")
        i = tw.vars("i")
        f[i] = 0
        f[i] += x[d.k]
        return f[:1]

    x = np.arange(70_000)
    numpy = {"u": "uint", "i": "int"}[t.name[0]] + t.name[1:]
    kept = (3 * x - 7).astype(numpy) < 10
    assert wrapped(x, n=10)[0] == x[kept].sum() == wrapped.reference(x, n=10)[0]

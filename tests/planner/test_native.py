"""Calls of a program without Python: the same values as on the slow way, for whatever changes between calls."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.codegen.native_calls import MISSED
from tilewright.hw import load_machine
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

H, N, T, M = tw.sizes("H N T M")
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def program(kernel, **sizes):
    return Program(make_plan(kernel.pipeline(), load_machine("skylake-sp"), sizes))


def only_native(fast, monkeypatch):
    """From now on every call must be taken by a builtin."""
    monkeypatch.setattr(fast, "_slow", lambda *args: pytest.fail("a call went the slow way"))


@tw.kernel
def decode(x: tw.f32[T, 16], w: tw.f32[16, 48], keys: tw.inout(tw.f32[1, 2, N, 8]),
           values: tw.inout(tw.f32[1, 2, N, 8]), past: tw.i64, scale: tw.f32):  # fmt: skip
    parts = ops.split(ops.linear(x, w), 3)
    q, k, v = (ops.transpose(ops.reshape(t, (1, T, 2, 8)), (0, 2, 1, 3)) for t in parts)
    keys, values = ops.append(keys, k, past), ops.append(values, v, past)
    return ops.attention(q, keys, values, causal=True, past=past, scale=scale)


def test_caches_grow_without_python(monkeypatch):
    fast = program(decode, T=1, N=64, past=0)
    w, caches = normal(16, 48) / 4, [np.zeros((1, 2, 40, 8), np.float32) for _ in range(2)]
    wanted = [c.copy() for c in caches]
    for t in range(30):
        if t == 2:  # from here on views of other lengths
            only_native(fast, monkeypatch)
        x, scale = normal(1, 16), 0.1 + 0.01 * t
        views = [c[:, :, : t + 1] for c in caches]
        got = fast(x, w, *views, t, scale)
        right = decode.reference(x, w, *(c[:, :, : t + 1] for c in wanted), t, np.float32(scale))
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
        for a, b in zip(caches, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@tw.kernel
def layers(x: tw.f32[T, M], w: tw.f32[M, M]):
    for k in range(3):
        with tw.scope(f"layer{k}"):
            x = ops.value(x) + ops.linear(ops.softmax(ops.linear(x, w)), w)
    return {"x": x, "double": [ops.value(x) * 2.0]}


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_sizes_and_results(threads, monkeypatch):
    fast = program(layers, T=500, M=700)
    inputs = [(normal(t, m), normal(m, m) / 20) for t, m in ((100, 64), (1, 64), (7, 33), (0, 5))]
    for x, w in inputs:
        fast(x, w, threads=threads)
    only_native(fast, monkeypatch)
    for x, w in inputs * 2:
        got, wanted = fast(x, w=w, threads=threads), layers.reference(x, w)
        outs = {"x": np.empty_like(x), "double": [np.empty_like(x)]}
        assert fast(x, w, out=outs, threads=threads) is outs
        for a in (got, outs):
            np.testing.assert_allclose(a["x"], wanted["x"], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(a["double"][0], wanted["double"][0], rtol=1e-4, atol=1e-5)


def test_what_a_builtin_does_not_take_goes_the_slow_way():
    fast = program(layers, T=500, M=700)
    x, w = normal(20, 64), normal(64, 64) / 20
    fast(x, w)
    native = fast._native[None][0][1]
    wanted = fast(x, w)
    np.testing.assert_array_equal(native(x, w)["x"], wanted["x"])
    assert native(x[:10], w) is MISSED  # buffers of other sizes
    assert native(x[:, ::-1], w) is MISSED
    for _ in range(2):
        np.testing.assert_allclose(fast(x[:, ::-1].copy()[:, ::-1], w)["x"], wanted["x"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(fast(x[::2], w)["x"], wanted["x"][::2], rtol=1e-4, atol=1e-5)
    outs = {"x": x, "double": [np.empty_like(x)]}
    fast(x, w, out=outs)  # over the input
    np.testing.assert_array_equal(outs["x"], wanted["x"])
    with pytest.raises(tw.ArgumentError):
        fast(x, w[:, :3])


def test_the_arrays_of_a_call_are_not_kept():
    fast = program(layers, T=500, M=700)
    x, w = normal(20, 64), normal(64, 64) / 20
    for _ in range(2):
        result = fast(x, w)["x"]
    seen = [weakref.ref(a) for a in (x, w, result)]
    del x, w, result
    gc.collect()
    assert [s() for s in seen] == [None] * 3


@tw.kernel
def longer(x: tw.f32[M], y: tw.f32[N]):
    i, k = tw.Var("i"), tw.rdom(k=M)
    total = tw.func("total")
    total[i] += x[k] * y[k + i]
    again = tw.func("again")
    again[i] += total[i] * total[tw.rdom(j=4).j]
    return again[:4]


def test_a_requirement_that_does_not_hold_is_told():
    fast = program(longer, M=1000, N=1010)
    x, y = normal(100), normal(110)
    fast(x, y)
    np.testing.assert_allclose(fast(x[:90], y[:95]), longer.reference(x[:90], y[:95]), rtol=1e-4, atol=1e-4)
    for n in (102, 100, 0):
        with pytest.raises(tw.BoundsError):
            fast(x, y[:n])

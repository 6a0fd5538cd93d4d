"""`fast.bind(...)`: the same bits as the call itself, on the buffers as they are at each call."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright.codegen import bound_call, entry
from tilewright.lang.errors import ArgumentError

M, N = tw.sizes("M N")


@tw.kernel
def scaled(a: tw.f32[M, N], b: tw.f32[M, N], by: tw.f32):
    i, j = tw.vars("i j")
    s, p = tw.func("s"), tw.func("p")
    s[i, j] = a[i, j] + b[i, j] * by
    p[i] = tw.sum(a[i, tw.rdom(k=N)], name="sums")
    return s[:M, :N], p[:M]


@tw.kernel
def named(a: tw.f32[N], *, twice=False):
    i = tw.vars("i")
    f = tw.func("f")
    f[i] = a[i] * (2.0 if twice else 1.0)
    return {"f": f[:N]}


@tw.kernel
def raised(x: tw.inout(tw.i64[N])):
    i = tw.vars("i")
    x[i] += 1
    return x[:N]


def data(m, n, seed=0):
    return np.random.default_rng(seed).standard_normal((2, m, n)).astype(np.float32)


@given(st.integers(0, 5), st.integers(1, 20), st.sampled_from([1, 2, -1]), st.integers(1, 2), st.booleans())
def test_the_same_as_the_call(m, n, step, threads, own) -> None:
    fast = scaled.compile()
    whole = data(m, 2 * n)
    a, b = whole[0, :, ::step], whole[1, :, ::step]
    out = fast(a, b, 0.5) if own else None
    call = fast.bind(a, b, by=0.5, out=out, threads=threads)
    for seed in (1, 2):
        whole[...] = data(m, 2 * n, seed)
        result = call()
        assert result is call.result and (out is None or result is out)
        for got, want in zip(result, fast(a, b, 0.5), strict=True):
            assert np.array_equal(got, want)


def test_arrays_that_the_kernel_changes() -> None:
    x = np.arange(5)
    call = raised.compile().bind(x)
    for k in range(3):
        call()
        assert np.array_equal(x, np.arange(5) + k + 1)


def test_results_with_names() -> None:
    a = data(1, 5)[0, 0]
    call = named.compile(twice=True).bind(a)
    assert np.array_equal(call()["f"], 2 * a)


def test_handles_of_packed_inputs() -> None:
    s = product.schedule()
    s.layout("B", "k j -> j//4 k j%4")
    fast = product.compile(s)
    a, b = np.arange(12.0).reshape(3, 4), np.arange(36.0).reshape(4, 9)
    packed = fast.prepack("B", b)
    assert np.array_equal(fast.bind(a, packed)(), a @ b)
    assert np.array_equal(fast.bind(A=a, B=packed, threads=2)(), a @ b)


@tw.kernel
def product(A: tw.f64[M, N], B: tw.f64[N, tw.sizes("K")]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    C = tw.func("C")
    C[i, j] = tw.sum(A[i, k] * B[k, j], over=k)
    return C[:M, : B.shape[1]]


def test_promises_are_still_checked(monkeypatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")

    @tw.kernel
    def picked(a: tw.f32[N], at: tw.i64[M]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = a[tw.assume(at[i], 0, N)]
        return f[:M]

    a, at = np.arange(4, dtype=np.float32), np.array([3, 1])
    call = picked.compile().bind(a, at)
    assert np.array_equal(call(), [3, 1])
    at[1] = 4
    with pytest.raises(tw.TilewrightError, match="assume"):
        call()
    at[1] = 0
    assert np.array_equal(call(), [3, 0])


def test_what_a_stage_raises_is_raised() -> None:
    @tw.extern_stage
    def checked(out, x):
        if (x < 0).any():
            raise ValueError("negative")
        out[...] = x

    @tw.kernel
    def through(a: tw.f32[N]):
        i = tw.vars("i")
        g, h, f = tw.func("g"), tw.func("h", tw.f32), tw.func("f")
        g[i] = a[i]
        h[i] = checked(g.box[i])
        f[i] = h[i]
        return f[:N]

    a = np.ones(4, np.float32)
    call = through.compile().bind(a)
    assert np.array_equal(call(), a)
    a[:] = -1
    with pytest.raises(tw.ExternStageError, match="negative"):
        call()


def test_what_it_keeps_alive_and_lets_go() -> None:
    fast = scaled.compile()
    a, b = (x.copy() for x in data(3, 4))
    want, gone = fast(a, b, 2.0), weakref.ref(a)
    call = fast.bind(a, b, 2.0)
    del a, b
    gc.collect()
    assert gone() is not None
    assert all(map(np.array_equal, call(), want))
    del call
    gc.collect()
    assert gone() is None


def test_it_is_neither_copied_nor_pickled() -> None:
    call = scaled.compile().bind(*data(2, 3), 1.0)
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="bind again"):
            how(call)


def test_it_outlives_what_its_module_remembers() -> None:
    """Two threads that are the first to bind make two definitions, of which one is remembered."""
    fast = scaled.compile()
    a, b = data(2, 3)
    want = fast(a, b, 2.0)
    gone = []
    for module, made in ((bound_call, lambda: fast.bind(a, b, 2.0)), (entry, lambda: fresh().compile())):
        module._definition.cache_clear()
        gone.append((weakref.ref(module._definition()), made()))
        module._definition.cache_clear()
    gc.collect()
    assert all(definition() is not None for definition, _ in gone)
    assert all(map(np.array_equal, gone[0][1](), want))
    assert np.array_equal(gone[1][1](a[0]), a[0])
    kept = [definition for definition, _ in gone]
    gone.clear()
    gc.collect()
    assert all(definition() is None for definition in kept)


def fresh():
    @tw.kernel
    def copied(a: tw.f32[N]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = a[i]
        return f[:N]

    return copied


def test_wrong_arguments() -> None:
    fast = scaled.compile()
    a, b = data(3, 4)
    for wrong in ((a,), (a, b[:2], 1.0), (a, b, "x"), (a, b, 1.0, 2.0)):
        with pytest.raises(ArgumentError):
            fast.bind(*wrong)
    with pytest.raises(ArgumentError, match="threads"):
        fast.bind(a, b, 1.0, threads=0)
    call = fast.bind(a, b, 1.0)
    assert "scaled" in repr(call)
    with pytest.raises(TypeError):
        call(a)

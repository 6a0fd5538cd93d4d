"""Calls of every kind: arrays of any stride, given outputs, outputs on inputs, several threads inside and outside."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import testing
from tilewright.lang.errors import ArgumentError

M, N, K = tw.sizes("M N K")


@tw.kernel
def scaled(A: tw.f32[M, N], B: tw.f32[N], alpha: tw.f32):
    i, j = tw.vars("i j")
    out = tw.func("out")
    out[i, j] = A[i, j] * alpha + B[j]
    return out[:M, :N]


@tw.kernel
def product(A: tw.i64[M, K], B: tw.i64[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def halves(A: tw.f32[M, N]):
    """Two outputs that share a producer which reads beyond the edges."""
    i, j = tw.vars("i j")
    E = tw.repeat_edge(A)
    s, d, p = tw.func("s"), tw.func("d"), tw.func("p")
    p[i, j] = E[i, j - 1] + E[i, j + 1]
    s[i, j] = p[i, j] + A[i, j]
    d[i, j] = p[i + 1, j] - p[i - 1, j]
    return {"s": s[:M, :N], "d": d[:M, 1:N]}


@tw.kernel
def running(A: tw.f32[M, N], S: tw.inout(tw.f32[M])):
    """Sums that go on from call to call."""
    i = tw.vars("i")
    k = tw.rdom(k=N)
    S[i] += A[i, k]
    return None


def view(a: np.ndarray, kind: str) -> np.ndarray:
    """An array with the elements of `a`, that lies otherwise."""
    if kind == "plain" or not a.ndim:
        return a.copy()
    if kind == "fortran":
        return np.asfortranarray(a)
    if kind == "backwards":
        return a[tuple(slice(None, None, -1) for _ in a.shape)].copy()[tuple(slice(None, None, -1) for _ in a.shape)]
    if kind == "rows":  # a window of a wider array
        wide = np.full((*a.shape[:-1], a.shape[-1] + 3), 77, a.dtype)
        wide[..., 1 : 1 + a.shape[-1]] = a
        return wide[..., 1 : 1 + a.shape[-1]]
    wide = np.full(tuple(2 * n for n in a.shape), 77, a.dtype)
    out = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    out[...] = a
    return out


KINDS = ["plain", "fortran", "backwards", "rows", "spread"]


def around(a: np.ndarray) -> np.ndarray:
    """Everything of the memory that a view is taken from."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


@pytest.fixture(scope="module")
def compiled() -> dict[str, Callable]:
    kernels = {"scaled": scaled, "product": product, "halves": halves, "running": running}
    return {name: k.compile() for name, k in kernels.items()}


@given(st.data())
@settings(max_examples=12)
def test_strides(compiled, data) -> None:
    """Any strides of inputs and outputs: the same values, and nothing beside the output is touched."""
    shape = data.draw(st.sampled_from([(1, 1), (5, 7), (3, 40), (17, 4), (0, 3), (4, 0)]))
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, shape).astype(np.float32)
    b = rng.integers(-9, 9, shape[1]).astype(np.float32)
    if data.draw(st.booleans()):
        b = np.broadcast_to(b[:1], b.shape) if b.size else b
    given_a, given_b = (view(x, data.draw(st.sampled_from(KINDS))) for x in (a, b))
    out = view(np.full(shape, 5, np.float32), data.draw(st.sampled_from(KINDS)))
    before = around(out).copy()
    threads = data.draw(st.sampled_from([None, 1, 3]))
    assert compiled["scaled"](given_a, given_b, np.float32(2), out=out, threads=threads) is out
    testing.assert_bitwise(np.array(out), scaled.reference(a, b, np.float32(2)), zeros=True)
    out[...] = 5
    assert around(out).tobytes() == before.tobytes()


def test_broadcast_and_read_only_inputs(compiled) -> None:
    a = np.broadcast_to(np.arange(6, dtype=np.int64)[:, None], (6, 9))
    b = np.broadcast_to(np.int64(3), (9, 20))
    testing.assert_bitwise(compiled["product"](a, b), product.reference(a.copy(), b.copy()))


@pytest.mark.parametrize("shape", [(3, 5), (40, 33), (1, 1)])
def test_outputs_on_inputs(compiled, shape) -> None:
    """Where each element is read for itself alone the output may lie on the input; elsewhere it is refused."""
    a = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    b = np.ones(shape[1], np.float32)
    expected = compiled["scaled"](a.copy(), b, np.float32(0.5))
    assert compiled["scaled"](a, b, np.float32(0.5), out=a) is a
    testing.assert_bitwise(a, expected)
    with pytest.raises(ArgumentError):
        compiled["halves"](a, out={"s": a, "d": np.empty((shape[0], shape[1] - 1), np.float32)})
    if shape[0] > 1:
        both = np.zeros((shape[0] + 1, shape[1]), np.float32)
        with pytest.raises(ArgumentError):
            compiled["scaled"](both[1:], b, np.float32(0.5), out=both[:-1])


def test_numbers_of_threads(compiled) -> None:
    """The bits do not depend on how many threads run, float sums included."""
    a = np.random.default_rng(2).standard_normal((300, 257)).astype(np.float32)
    results = [compiled["halves"](a, threads=n) for n in (1, 2, 3, 8)]
    for r in results[1:]:
        testing.assert_bitwise(r, results[0])
    sums = []
    for n in (1, 2, 3):
        s = np.zeros(300, np.float32)
        compiled["running"](a, s, threads=n)
        sums.append(s)
    testing.assert_bitwise(sums[1], sums[0])
    testing.assert_bitwise(sums[2], sums[0])


def test_concurrent_calls(compiled) -> None:
    """Python threads that call the same kernels at once, with arrays of different strides."""
    rng = np.random.default_rng(3)
    wrong: list[str] = []

    def work(seed: int) -> None:
        a = rng.integers(-9, 9, (60 + seed, 50)).astype(np.int64)
        b = rng.integers(-9, 9, (50, 70)).astype(np.int64)
        for k in range(4):
            got = compiled["product"](view(a, KINDS[(seed + k) % 5]), view(b, KINDS[k % 5]), threads=1 + (seed + k) % 3)
            if not np.array_equal(got, a @ b):
                wrong.append(f"call {k} of thread {seed}")

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong

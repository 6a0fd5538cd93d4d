"""Complex products and sums of exponentials as pairs: in partial results, vectors and threads; what is no such pair."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.schedule import algebra

M, N = tw.sizes("M N")


def product(dtype, swapped=False):
    @tw.kernel
    def product(a: dtype[M, N], b: dtype[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N).k
        p = tw.func("p", (dtype, dtype))
        p[i] = (1, 0)
        re, im = p[i]
        c, s = a[i, k], b[i, k]
        p[i] = (c * re - im * s, im * c + s * re) if swapped else (re * c - im * s, re * s + im * c)
        return p[:M]

    return product


def exponentials(kind, weighted=False, start=float("-inf")):
    @tw.kernel
    def exponentials(x: tw.f32[M, N], w: tw.f32[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N).k
        f = tw.func("f", (tw.f32, tw.f32))
        f[i] = (start, 0.0)
        m, s = f[i]
        e = tw.exp2 if kind == "exp2" else tw.exp
        top = tw.maximum(m, x[i, k])
        term = tw.select(x[i, k] == top, 1, e(x[i, k] - top))
        f[i] = (top, s * tw.select(m == top, 1, e(m - top)) + (w[i, k] * term if weighted else term))
        return f[:M]

    return exponentials


def schedules(kernel, func):
    """Partial results in a Func, in lanes, in threads, and of partial results."""
    plain, lanes, threads, twice = (kernel.schedule() for _ in range(4))
    plain[f"{func}.update"].split("k", "ko", "ki", 4).rfactor("ki", "part")
    lanes[f"{func}.update"].vectorize("k", 8)
    threads[f"{func}.update"].split("k", "ko", "ki", 8).parallel("ko")
    twice[f"{func}.update"].split("k", "ko", "ki", 8).rfactor("ko", "part")
    twice["part.update[0]"].split("ki", "kio", "kii", 2).rfactor("kii", "parts")
    return [plain, lanes, threads, twice]


SIZES = [(1, 1), (3, 7), (2, 8), (3, 33), (2, 0), (1, 64)]


@pytest.mark.parametrize("dtype", [tw.f32, tw.f64, tw.i32, tw.i64])
@pytest.mark.parametrize("swapped", [False, True])
def test_complex_products_of_exact_data(dtype, swapped):
    """Factors 1, i, -1, -i and now and then 1 + i: every partial product is exact."""
    kernel = product(dtype, swapped)
    for s in schedules(kernel, "p"):
        fast = kernel.compile(s)
        for m, n in SIZES:
            rng = np.random.default_rng(n)
            turns = rng.integers(0, 4, (m, n))
            a, b = (np.array(t, dtype.np)[turns] for t in ([1, 0, -1, 0], [0, 1, 0, -1]))
            wide = rng.random((m, n)) < 0.2
            a, b = np.where(wide, 1, a).astype(dtype.np), np.where(wide, 1, b).astype(dtype.np)
            testing.assert_bitwise(fast(a, b), kernel.reference(a, b), zeros=True)


def test_complex_products_of_random_data():
    kernel = product(tw.f64)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 21))
    want = np.prod(a + 1j * b, axis=1)
    for s in schedules(kernel, "p"):
        re, im = kernel.compile(s)(a, b)
        assert np.allclose(re + 1j * im, want, rtol=1e-12)  # an independent computation, far looser than the bound
        testing.assert_within_bound(kernel, (re, im), a, b)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_exponentials_of_exact_data(weighted):
    kernel = exponentials("exp2", weighted)
    for s in schedules(kernel, "f"):
        fast = kernel.compile(s)
        for m, n in SIZES:
            rng = np.random.default_rng(n)
            x = rng.integers(-4, 5, (m, n)).astype(np.float32)
            x[rng.random((m, n)) < 0.3] = -np.inf
            w = rng.integers(1, 4, (m, n)).astype(np.float32)
            testing.assert_bitwise(fast(x, w), kernel.reference(x, w), zeros=True)


def test_sums_of_exponentials_of_random_data():
    kernel = exponentials("exp")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 37)).astype(np.float32)
    x[1] = -np.inf
    w = np.ones_like(x)
    want = np.logaddexp.reduce(x.astype(np.float64), axis=1)
    for s in schedules(kernel, "f"):
        m, r = kernel.compile(s)(x, w)
        with np.errstate(divide="ignore"):
            assert np.allclose(m + np.log(r.astype(np.float64)), want, rtol=1e-6)
        testing.assert_bitwise(m, x.max(axis=1))
    testing.assert_within_bound(kernel, kernel.compile(schedules(kernel, "f")[1])(x[:1], w[:1]), x[:1], w[:1])


def test_strict_refuses():
    kernel = product(tw.f32)
    s = kernel.schedule()
    s["p.update"].vectorize("k", 4)
    with pytest.raises(tw.ScheduleError) as refused:
        kernel.compile(s, mode="strict")
    assert refused.value.code == "schedule.strict"


def update(values):
    """The first update of a pair with given values, which get (re, im, c, s)."""

    @tw.kernel
    def kernel(a: tw.f32[N], b: tw.f32[N]):
        k = tw.rdom(k=N).k
        p = tw.func("p", (tw.f32, tw.f32))
        p[()] = (1.0, 0.0)
        re, im = p[()]
        p[()] = values(re, im, a[k], b[k])
        return p[()]

    return kernel.pipeline().func("p").updates[0]


@pytest.mark.parametrize(
    "values",
    [
        lambda re, im, c, s: (re * c + im * s, re * s + im * c),
        lambda re, im, c, s: (re * c - im * s, re * s - im * c),
        lambda re, im, c, s: (re * c - im * s, re * c + im * s),
        lambda re, im, c, s: (re * c - im * s, im * s + re * c),
        lambda re, im, c, s: (im * c - re * s, re * s + im * c),
        lambda re, im, c, s: (re * re - im * s, re * s + im * c),
        lambda re, im, c, s: (tw.maximum(re, c), im * tw.exp(re - tw.maximum(re, c)) + tw.exp(c - tw.maximum(re, c))),
        lambda re, im, c, s: (tw.minimum(re, c), im + tw.exp(c - re)),
        lambda re, im, c, s: (tw.maximum(c, re), im + 1),
    ],
    ids=["plus", "minus", "twice", "crossed", "swapped", "square", "unguarded", "other", "sum"],
)
def test_what_only_looks_like_one(values):
    assert algebra.match(update(values)) is None

"""online for sums whose terms are polynomials in other reductions: variance, covariance, moments, layer norm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.schedule.helpers import flat, refused
from tests.schedule.nest_oracle import run_nest
from tilewright import testing
from tilewright.schedule.schedule import parse_schedule

M, N = tw.sizes("M N")
RNG = np.random.default_rng(5)


def moments(term, dtype=tw.f64, first=lambda x, w: x, start=0.0):
    """`total` and `other` are sums over the rows of X and W; `late` is the sum of a term in what they come to."""

    @tw.kernel
    def kernel(X: dtype[M, N], W: dtype[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        total, other, late = (tw.func(n) for n in ("total", "other", "late"))
        total[i] = 0.0
        total[i] += first(X[i, k], W[i, k])
        other[i] = 0.0
        other[i] += W[i, k]
        late[i] = start
        late[i] += term(X[i, k], W[i, k], total[i], other[i], N)
        return {"total": total[:M], "other": other[:M], "late": late[:M]}

    return kernel


TERMS = {
    "variance": lambda x, w, r, s, n: (x - r / n) * (x - r / n),
    "spelled as a power": lambda x, w, r, s, n: (x - r / n) ** 2,
    "covariance": lambda x, w, r, s, n: (x - r / n) * (w - s / n),
    "one-sided": lambda x, w, r, s, n: (x - r / n) * w,
    "third moment": lambda x, w, r, s, n: (x - r / n) ** 3,
    "weighted": lambda x, w, r, s, n: w * (x - r / n) * (x - r / n),
    "about another point": lambda x, w, r, s, n: (x - r * 0.25) * (x - r * 0.25),
    "with a select": lambda x, w, r, s, n: tw.select(w > 0.0, (x - r / n) * (x - r / n), r),
    "a sum of parts": lambda x, w, r, s, n: x * s - w * r + r * s,
    "subtracted": lambda x, w, r, s, n: -((x - r / n) * (x - r / n)),
}


def both(kernel, block):
    s = kernel.schedule()
    s.online(["total", "other", "late"], over="k", block=block)
    return s


@pytest.mark.parametrize("name", TERMS)
def test_within_the_bound(name):
    """On data that drifts, and on all kinds of terms."""
    kernel = moments(TERMS[name])
    s = both(kernel, 6)
    x, w = np.sort(RNG.uniform(-1, 1, (2, 23)), axis=1), RNG.standard_normal((2, 23))
    testing.assert_within_bound(kernel, run_nest(s, x, w), x, w)


def test_variance_of_data_far_from_0():
    kernel = moments(TERMS["variance"])
    fast = kernel.compile(both(kernel, 16))
    for n in (2, 15, 16, 17, 700):
        drifts = np.sort(RNG.standard_normal((4, n)), axis=1)
        for x in (1e6 + RNG.standard_normal((4, n)), 1e6 + drifts):
            got = fast(x, x)
            testing.assert_within_bound(kernel, got, x, x)
            naive = {**got, "late": (x * x).sum(1) - x.sum(1) ** 2 / n}
            with pytest.raises(testing.MismatchError):
                testing.assert_within_bound(kernel, naive, x, x)


def test_covariance_of_data_far_from_0():
    kernel = moments(TERMS["covariance"])
    x, w = 1e6 + RNG.standard_normal((2, 4, 300))
    testing.assert_within_bound(kernel, kernel.compile(both(kernel, 32))(x, w), x, w)


@pytest.mark.parametrize("name", TERMS)
def test_exact_data_in_two_blocks(name):
    """Shares of powers of two are exact, and then every bit is that of the plain text."""
    kernel = moments(TERMS[name])
    x, w = RNG.integers(-8, 9, (2, 2, 8)).astype(np.float64)
    got = run_nest(both(kernel, 4), x, w)
    for e, g in zip(flat(kernel.reference(x, w)), flat(got), strict=True):
        np.testing.assert_array_equal(e, g)


def test_lengths():
    kernel = moments(TERMS["variance"], start=3.0)
    s = both(kernel, 4)
    fast = kernel.compile(s)
    for n in (0, 1, 3, 4, 5, 13):
        x = RNG.standard_normal((2, n))
        for got in (fast(x, x), run_nest(s, x, x)):
            np.testing.assert_allclose(got["late"], kernel.reference(x, x)["late"], rtol=1e-12)


def test_what_is_no_number_gives_what_the_plain_text_gives():
    kernel = moments(TERMS["variance"])
    fast = kernel.compile(both(kernel, 4))
    for odd in (np.inf, -np.inf, np.nan):
        x = RNG.standard_normal((3, 12))
        x[0, 0] = x[1, 7] = odd
        none = [np.isnan(v["late"]).tolist() for v in (fast(x, x), kernel.reference(x, x))]
        assert none == [[True, True, False]] * 2


def test_a_maximum_from_a_finite_start():
    """The squares of how far the values are below the largest: what changes need not be a sum."""

    @tw.kernel
    def kernel(X: tw.f64[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        top, late = tw.func("top"), tw.func("late")
        top[i] = -100.0
        top[i] = tw.maximum(top[i], X[i, k])
        late[i] = 0.0
        late[i] += (X[i, k] - top[i]) * (X[i, k] - top[i])
        return late[:M]

    s = kernel.schedule()
    s.online(["top", "late"], over="k", block=4)
    x = RNG.integers(-50, 50, (6, 19)).astype(np.float64)
    for got in (kernel.compile(s)(x), run_nest(s, x)):
        testing.assert_bitwise(got, kernel.reference(x))


def test_the_nest_and_the_text():
    kernel = moments(TERMS["variance"])
    s = both(kernel, 16)
    text = str(s.loops())
    for line in ("repair late over i 0..M", "update late_d1 over i 0..M", "repair late_d1", "update late_d2"):
        assert line in text, text
    assert "repair late_d2" not in text
    assert parse_schedule(str(s), kernel.pipeline()) == s and s.state.reassociations
    with pytest.raises(tw.ScheduleError) as e:
        kernel.compile(s, mode="strict")
    assert e.value.code == "schedule.strict"


def test_stages_can_be_scheduled():
    kernel = moments(TERMS["covariance"], tw.f32)
    s = kernel.schedule()
    s.online(["total", "other", "late"], over="k", block=32, name="pass_")
    for stage in ("total", "other", "late", "late_d01", "late_d10"):
        s[f"{stage}.update"].vectorize("k", 8)
    s["late_d11.update"].split("i", "io", "ii", 2)
    s["late.repair"].vectorize("i", 4)
    x, w = RNG.standard_normal((2, 5, 100), np.float32)
    testing.assert_within_bound(kernel, kernel.compile(s)(x, w), x, w)
    with pytest.raises(tw.ScheduleError) as e:
        s["late_d11"].store_at("pass_.update.k_b")
    assert e.value.code.startswith("schedule.")


@tw.kernel
def layer_norm(X: tw.f32[M, N], gamma: tw.f32[N], beta: tw.f32[N], epsilon: tw.f32):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    mean, scale, Y = tw.func("mean"), tw.func("scale"), tw.func("Y")
    mean[i] = tw.sum(X[i, k], over=k, name="total") / N
    away = X[i, k] - mean[i]
    scale[i] = 1.0 / tw.sqrt(tw.sum(away * away, over=k, name="squares") / N + epsilon)
    Y[i, j] = (X[i, j] - mean[i]) * scale[i] * gamma[j] + beta[j]
    return Y[:M, :N]


def test_layer_norm_in_one_pass():
    """The mean is a Func that is inlined into the second sum."""
    s = layer_norm.schedule()
    s["Y"].parallel("i")
    for f in ("scale", "squares", "total"):
        s[f].compute_at("Y.i")
    s.online(["total", "squares"], over="k", block=64)
    for n in (1, 63, 200):
        x = RNG.standard_normal((4, n), np.float32) + np.float32(20)
        args = x, RNG.standard_normal(n, np.float32), RNG.standard_normal(n, np.float32), np.float32(1e-5)
        got = layer_norm.compile(s)(*args)
        if n > 1:
            testing.assert_within_bound(layer_norm, got, *args)
        else:
            np.testing.assert_allclose(got, layer_norm.reference(*args), rtol=1e-5)


def test_refused():
    def where():
        @tw.kernel
        def kernel(X: tw.f64[M, N]):
            i = tw.vars("i")
            total, late = tw.func("total"), tw.func("late")
            k = tw.rdom(k=N).where(X[0, 0] > 0.0)
            total[i] = 0.0
            total[i] += X[i, k]
            k = tw.rdom(k=N).where(X[0, 0] > 0.0)
            late[i] = 0.0
            late[i] += (X[i, k] - total[i]) * (X[i, k] - total[i])
            return late[:M]

        return kernel

    def infinite():
        @tw.kernel
        def kernel(X: tw.f64[M, N]):
            i = tw.vars("i")
            k = tw.rdom(k=N)
            total, late = tw.func("total"), tw.func("late")
            total[i] = -np.inf
            total[i] = tw.maximum(total[i], X[i, k])
            late[i] = 0.0
            late[i] += (X[i, k] - total[i]) * (X[i, k] - total[i])
            return late[:M]

        return kernel

    cases = [
        (where(), "where()"),
        (infinite(), "can't be moved"),
        (moments(lambda x, w, r, s, n: tw.sqrt(x - r)), "inside sqrt"),
        (moments(lambda x, w, r, s, n: w / (x - r)), "inside div"),
        (moments(lambda x, w, r, s, n: (x - r) ** 7), "too high a degree"),
        (moments(lambda x, w, r, s, n: tw.select(r > x, r, w)), "inside select"),
    ]
    for kernel, why in cases:
        s = kernel.schedule()
        names = [n for n in ("total", "late") if n in s.state.funcs]
        refused(s, "online-split", lambda s=s, names=names: s.online(names, over="k", block=4), why)


@given(
    st.lists(st.tuples(st.sampled_from([-2, -1, 1, 2]), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(1, 9), st.integers(1, 40), st.integers(0, 9),
)  # fmt: skip
@settings(max_examples=6, deadline=None)
def test_random_polynomials(parts, block, n, seed):
    """Sums of c * x**a * (r - x)**b, against arithmetic with whole numbers."""

    def term(x, w, r, s, n):
        out = 0.0 * x
        for c, a, b in parts:
            t = float(c) * w
            for _ in range(a):
                t = t * x
            for _ in range(b):
                t = t * (r * 0.125 - x)
            out = out + t
        return out

    if all(b == 0 for _, _, b in parts):
        return
    kernel = moments(term)
    s = kernel.schedule()
    s.online(["total", "late"], over="k", block=block)
    rng = np.random.default_rng(seed)
    x, w = rng.integers(-4, 5, (2, 2, n)).astype(np.float64)
    got = flat(run_nest(s, x, w))
    want = flat(kernel.reference(x, w))
    scale = max(1.0, max(float(np.abs(v).max()) for v in want)) + 1e6
    for g, e in zip(got, want, strict=True):
        assert np.abs(g - e).max() <= 1e-9 * scale

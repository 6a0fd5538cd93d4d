"""Which terms split for online: repaired blocks give what the plain text gives. And those that do not split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tests.schedule.helpers import flat, refused
from tests.schedule.nest_oracle import run_nest
from tilewright.lang.errors import ScheduleError

M, N = tw.sizes("M N")
INFINITY = np.float32(np.inf)
Step = Callable


def largest(x, m):
    return tw.maximum(m, x)


def smallest(x, m):
    return tw.minimum(m, x)


def pair(first: float, step: Step, second: float, term: Step, combine: Step = lambda a, t: a + t):
    """A kernel of two dependent reductions over the rows of X, the second with weights W; both are returned."""

    @tw.kernel
    def two(X: tw.f32[M, N], W: tw.f32[N], c: tw.f32):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        a, b = tw.func("a"), tw.func("b")
        a[i] = first
        a[i] = step(X[i, k], a[i])
        b[i] = second
        b[i] = combine(b[i], term(X[i, k], a[i], W[k], c))
        return {"a": a[:M], "b": b[:M]}

    return two


# Data is exact: small integers, weights and scales that are powers of two.
SPLIT = {
    "shifted": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a)),
    "weighted": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a) * w),
    "negative": (-INFINITY, largest, 0.0, lambda x, a, w, c: -(w * tw.exp2(x - a))),
    "scaled outside": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2((x - a) * c)),
    "scaled inside": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(c * x - c * a)),
    "constant scale": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(2.0 * x - a * 2.0)),
    "squared": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a) * tw.exp2(x - a)),
    "minimum": (INFINITY, smallest, 0.0, lambda x, a, w, c: tw.exp2(a - x)),
    "select": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.select(w > 1.0, tw.exp2(x - a), 0.0)),
    "two terms": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a) * w + tw.exp2(x - a)),
    "wide": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a) / w),
    "finite start": (1.0, largest, 0.0, lambda x, a, w, c: tw.exp2(w - a)),
    "running sum": (0.0, lambda x, a: a + x, 0.0, lambda x, a, w, c: tw.exp2(w - a)),
    "maximum of sums": (-INFINITY, largest, -INFINITY, lambda x, a, w, c: x - a, tw.maximum),
    "minimum of sums": (INFINITY, smallest, INFINITY, lambda x, a, w, c: x - a, tw.minimum),
    "subtracted": (-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a), lambda b, t: b - t),
}


def values(rows: int, columns: int, seed: int, masked: float):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (rows, columns)).astype(np.float32)
    x[rng.random(x.shape) < masked] = -INFINITY
    return x, np.exp2(rng.integers(0, 3, columns)).astype(np.float32), np.float32(2)


def agree(kernel, s, args) -> None:
    expected = flat(kernel.reference(*args))
    for got in (flat(run_nest(s, *args)), flat(kernel.compile(s)(*args))):
        for e, g in zip(expected, got, strict=True):
            np.testing.assert_array_equal(e, g)


@pytest.mark.parametrize("name", SPLIT)
def test_splits(name):
    kernel = pair(*SPLIT[name])
    s = kernel.schedule()
    s.online(["a", "b"], over="k", block=3)
    assert s.state.reassociations
    sign = -1 if SPLIT[name][0] == INFINITY else 1
    for seed, masked in enumerate((0.0, 0.7) if abs(SPLIT[name][0]) == INFINITY else (0.0,)):
        x, w, c = values(6, 8, seed, masked)
        x[0, :4] = -sign * INFINITY if masked else 0
        agree(kernel, s, (sign * x, w, c))


DOES_NOT = {
    "a sum of exponentials": ((-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x) - tw.exp2(a)), "differently"),
    "added": ((-INFINITY, largest, 0.0, lambda x, a, w, c: x - a), "differently"),
    "inside a function": ((-INFINITY, largest, 0.0, lambda x, a, w, c: tw.tanh(x - a)), "inside tanh"),
    "not linear": ((-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(x - a * a)), "not linear"),
    "a changing scale": ((-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(w * (x - a))), "not linear"),
    "starts elsewhere": ((-INFINITY, largest, 1.0, lambda x, a, w, c: tw.exp2(x - a)), "starts with"),
    "does not vanish": ((-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(w - a)), "vanish"),
    "the wrong way": ((-INFINITY, largest, 0.0, lambda x, a, w, c: tw.exp2(a - x)), "vanish"),
    "a divisor": ((0.0, lambda x, a: a + x, 0.0, lambda x, a, w, c: x / a), "grow from 0"),
    "product": ((-INFINITY, largest, 1.0, lambda x, a, w, c: tw.exp2(x - a), lambda b, t: b * t), "distributes"),
}


@pytest.mark.parametrize("name", DOES_NOT)
def test_does_not_split(name):
    parts, why = DOES_NOT[name]
    s = pair(*parts).schedule()
    refused(s, "online-split", lambda: s.online(["a", "b"], over="k", block=3), why)


def test_divisor_that_grows_from_zero():
    """Weights divided by their sum inside the sum: the sum is repaired where it changes, and by the maximum."""

    @tw.kernel
    def mean(X: tw.f32[M, N], W: tw.f32[N]):
        i, j = tw.vars("i j")
        k = tw.rdom(k=N)
        m, l, o, P = (tw.func(n) for n in "mloP")
        m[i] = -INFINITY
        m[i] = tw.maximum(m[i], X[i, k])
        P[i, j] = tw.exp2(X[i, j] - m[i])
        l[i] = 0.0
        l[i] += P[i, k]
        o[i] = 0.0
        o[i] += P[i, k] * W[k] / l[i]
        return o[:M]

    s = mean.schedule()
    s.online(["m", "l", "o"], over="k", block=4)
    x = np.float32([[1, 1, 0, 0, 2, 2, 1, 1], [3] * 8, [-INFINITY] * 4 + [0] * 4, [-INFINITY] * 8])
    w = np.float32([1, 2, 4, 8, 1, 2, 4, 8])
    for got in (run_nest(s, x, w), mean.compile(s)(x, w)):
        np.testing.assert_allclose(got, mean.reference(x, w), 1e-6)


def test_largest_magnitude():
    @tw.kernel
    def scaled(X: tw.f32[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        a, b = tw.func("a"), tw.func("b")
        a[i] = 0.0
        a[i] = tw.maximum(a[i], abs(X[i, k]))
        b[i] = 0.0
        b[i] += X[i, k] / a[i]
        return b[:M]

    s = scaled.schedule()
    s.online(["a", "b"], over="k", block=4)
    agree(scaled, s, (np.float32([[0, 0, 0, 0, 0, 2, -4, 1], [1, -2, 0, 1, 4, 0, 0, 0], [0] * 8]),))


def test_independent_reductions_share_a_pass():
    """Nothing is repaired, so no order changes: strict allows it, and the bits are the reference's."""

    @tw.kernel
    def both(X: tw.f32[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        t, q = tw.func("t"), tw.func("q")
        t[i] = 0.0
        t[i] += X[i, k]
        q[i] = 0.0
        q[i] += X[i, k] * X[i, k]
        return {"t": t[:M], "q": q[:M]}

    s = both.schedule()
    s.online(["t", "q"], over="k", block=4)
    s["t.update"].unscheduled()
    s["q.update"].unscheduled()
    assert not s.state.reassociations
    x = np.random.default_rng(0).standard_normal((5, 11)).astype(np.float32)
    expected, got = both.reference(x), both.compile(s, mode="strict")(x)
    for name in expected:
        np.testing.assert_array_equal(expected[name], got[name])


def test_strict_refuses_repairs():
    kernel = pair(*SPLIT["shifted"])
    s = kernel.schedule()
    s.online(["a", "b"], over="k", block=3)
    with pytest.raises(ScheduleError) as e:
        kernel.compile(s, mode="strict")
    assert e.value.code == "schedule.strict"

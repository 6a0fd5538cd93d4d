"""Functions of the user's own: native and reference values, schedules, what is refused, what a digest sees."""

from __future__ import annotations

import math
import subprocess
import sys

import numba
import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.lang.extern import extern
from tilewright.lang.text.kernel_writer import print_kernel

M, N = tw.sizes("M N")


def damp(x, y):
    return x * 0.5 + y * y if x > y else math.sqrt(x * x + 1.0)


def steps(n):
    k = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    return k


def halves(x):
    return x * 0.1 + 1.0 / 3.0


DAMP = tw.extern(damp, result=tw.f64, args=(tw.f64, tw.f64))


@tw.kernel
def damped(a: tw.f64[M, N], b: tw.f64[M, N]):
    i, j = tw.vars("i j")
    p, c = tw.func("p"), tw.func("c")
    p[i, j] = DAMP(a[i, j], b[i, j] - 1.0)
    c[i, j] = p[i, j] + DAMP(p[i, j], 2.0)
    return c[:M, :N]


def data(shape=(5, 13), seed=0):
    return np.random.default_rng(seed).normal(size=(2, *shape))


def test_values_under_schedules():
    a, b = data()
    want = damped.reference(a, b)
    plain = np.array([[damp(x, y - 1.0) for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)])
    assert np.array_equal(want, plain + np.vectorize(damp)(plain, 2.0))
    vectors, at, threads = (damped.schedule() for _ in range(3))
    vectors["c"].vectorize("j", 8)
    at["p"].compute_at("c.i").vectorize("j", 4)
    threads["p"].compute_root()
    threads["c"].parallel("i").unroll("j", 2)
    for s in (None, vectors, at, threads):
        testing.assert_bitwise(damped.compile(s, mode="strict")(a, b), want)
    result = damped.simulate(at, machine="generic-avx2", sizes={"M": 5, "N": 13}, inputs={"a": a, "b": b}).result
    testing.assert_bitwise(result, want)


def test_narrow_types_are_rounded_once():
    third = tw.extern(halves, result=tw.f32, args=(tw.f32,))
    hailstone = tw.extern(steps, result=tw.u8, args=(tw.i16,))

    @tw.kernel
    def both(a: tw.f32[N], k: tw.i16[N]):
        i = tw.vars("i")
        f, g = tw.func("f"), tw.func("g")
        f[i] = third(a[i])
        g[i] = hailstone(k[i]) + 250
        return f[:N], g[:N]

    a, k = data((37,))[0].astype(np.float32), np.arange(37, dtype=np.int16)
    s = both.schedule()
    s["f"].vectorize("i", 8)
    s["g"].vectorize("i", 8)
    got = both.compile(s, mode="strict")(a, k)
    testing.assert_bitwise(got, both.reference(a, k))
    assert got[0].dtype == np.float32 and got[1].dtype == np.uint8
    assert np.array_equal(got[0], (a.astype(np.float64) * 0.1 + 1.0 / 3.0).astype(np.float32))


def test_divisions_by_zero_are_numbers():
    inverse = tw.extern(lambda x: 1.0 / x, result=tw.f64, args=[tw.f64], name="inverse")

    @tw.kernel
    def kernel(a: tw.f64[N]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = inverse(a[i])
        return f[:N]

    a = np.array([0.0, -0.0, 2.0, np.nan])
    testing.assert_bitwise(kernel(a), kernel.reference(a))


def test_functions_of_numba_and_functions_that_call_others():
    @numba.njit
    def inner(x):
        return x + 1.0

    @numba.njit
    def outer(x):
        return inner(x) * 2.0

    f = tw.extern(outer, result=tw.f64, args=(tw.f64,))

    @tw.kernel
    def kernel(a: tw.f64[N]):
        i = tw.vars("i")
        g = tw.func("g")
        g[i] = f(a[i])
        return g[:N]

    a = data((9,))[0]
    assert np.array_equal(kernel(a), (a + 1) * 2)
    testing.assert_bitwise(kernel(a), kernel.reference(a))


def test_digest():
    def make(constant, power=1.0):
        def fn(x):
            return x * constant + power

        return extern(fn, tw.f64, (tw.f64,))

    assert make(2.0).digest == make(2.0).digest
    assert make(2.0).digest != make(3.0).digest != make(3.0, 2.0).digest
    assert extern(halves, tw.f32, (tw.f32,)).digest != extern(halves, tw.f64, (tw.f32,)).digest
    assert DAMP.digest == tw.extern(damp, tw.f64, (tw.f64, tw.f64)).digest

    def kernel(e):
        @tw.kernel
        def k(a: tw.f64[N]):
            i = tw.vars("i")
            f = tw.func("f")
            f[i] = e(a[i])
            return f[:N]

        return k

    assert kernel(make(2.0)).pipeline().digest == kernel(make(2.0)).pipeline().digest
    assert kernel(make(2.0)).pipeline().digest != kernel(make(3.0)).pipeline().digest
    a = np.arange(3.0)
    for c in (2.0, 3.0):
        assert np.array_equal(kernel(make(c))(a), a * c + 1)


def test_refused():
    for bad, says in (
        (lambda: tw.extern(np.exp, tw.f64, (tw.f64,)), "no plain function"),
        (lambda: tw.extern(damp, tw.bf16, (tw.f64, tw.f64)), "extern function of bf16"),
        (lambda: tw.extern(damp, tw.f64, (tw.u64, tw.f64)), "extern function of u64"),
        (lambda: tw.extern(lambda x: x, tw.f64, (tw.f64,)), "no name"),
        (lambda: DAMP(1.0), "takes 2 arguments and is given 1"),
        (lambda: DAMP(1.0, tw.cast(tw.f32, 1.0)), "argument 1 of damp is f64 and is given f32"),
    ):
        with pytest.raises(tw.TypeRuleError, match=says):
            bad()
    words = tw.extern(lambda x: str(x), tw.f64, (tw.f64,), name="words")

    @tw.kernel
    def kernel(a: tw.f64[N]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = words(a[i])
        return f[:N]

    with pytest.raises(tw.CompileError, match="Numba can't compile the function words") as caught:
        kernel(np.zeros(3))
    assert caught.value.code == "extern.compile"


def test_the_text_names_it():
    text = print_kernel(damped.pipeline())
    assert "call_extern!f64(damp, a[i, j], b[i, j] - 1.0)" in text
    again = tw.parse_kernel(text, externs=[DAMP])
    assert again.pipeline().digest == damped.pipeline().digest
    a, b = data()
    testing.assert_bitwise(again(a, b), damped(a, b))
    with pytest.raises(tw.TilewrightError, match="the function damp is not given"):
        tw.parse_kernel(text)
    other = tw.extern(damp, tw.f64, (tw.i32, tw.f64))
    with pytest.raises(tw.TilewrightError, match="is called with other types"):
        tw.parse_kernel(text, externs=[other])


def test_bounds_prove_nothing():
    a, b = data()
    with pytest.raises(tw.TilewrightError):
        testing.assert_within_bound(damped, damped(a, b), a, b)


@pytest.mark.parametrize("raising", [True, False])
def test_functions_that_may_raise_are_refused(raising):
    def careful(x):
        if x < 0:
            if raising:
                raise ValueError("below zero")
            return np.nan
        return x**0.5 + 1 / x

    called = tw.extern(careful, result=tw.f64, args=(tw.f64,))

    @tw.kernel
    def k(x: tw.f64[N]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = called(x[i])
        return f[:N]

    x = np.array([1.0, -2.0, 4.0, 0.0])
    if raising:
        with pytest.raises(tw.ExternStageError, match=r"the function careful raised ValueError for -2\.0") as seen:
            k.reference(x)
        assert seen.value.code == "extern.failed" and isinstance(seen.value.__cause__, ValueError)
        with pytest.raises(tw.CompileError, match="the function careful may raise") as caught:
            k(x)
        assert caught.value.code == "extern.raises"
    else:
        np.testing.assert_array_equal(k(x), [2.0, np.nan, 2.25, np.inf])


def test_numba_is_imported_only_where_such_a_kernel_is_compiled():
    code = (
        "import sys, numpy as np, tilewright as tw\n"
        "def f(x): return x + 1.0\n"
        "e = tw.extern(f, result=tw.f64, args=(tw.f64,))\n"
        "N, = [tw.sizes('N')]\n"
        "@tw.kernel\n"
        "def k(a: tw.f64[N]):\n"
        "    i = tw.vars('i'); g = tw.func('g'); g[i] = e(a[i]); return g[:N]\n"
        "k.reference(np.zeros(3)); assert 'numba' not in sys.modules\n"
        "assert k(np.zeros(3)).tolist() == [1, 1, 1]; assert 'numba' in sys.modules\n"
    )
    import os
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([sys.executable, file.name], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr

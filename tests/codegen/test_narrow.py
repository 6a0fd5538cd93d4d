"""Indices in 32 bits where they fit: the same results as with 64, NaN and ties included; both forms run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen import narrow

M, N = tw.sizes("M N")


def places(name: str, t: Any, first: int = 0, least: bool = False):
    p = tw.Pipeline(name, a=t[M, N])
    i, out = tw.vars("i"), tw.func("out")
    k = tw.rdom(k=(first, N))
    out[i] = (tw.argmin if least else tw.argmax)(p.a[i, k], over=k)
    return p.returns(out[:M])


def compiled(kernel: Any, lanes: int, name: str = "argmax"):
    s = kernel.schedule()
    s[name].compute_at("out.i")
    s[f"{name}.update"].vectorize("k", lanes)
    return kernel.compile(s)


def rows(t: Any, n: int) -> np.ndarray:
    """Many ties; the largest at either end; NaN once, twice, everywhere; nothing but the least value."""
    rng = np.random.default_rng(n)
    a = rng.integers(0, 4, (12, n)).astype(t.np)
    a[1, -1], a[2, 0] = 9, 9
    if t.is_float:
        a[3, n // 2], a[4, [n // 3, n - 1]], a[5], a[6] = np.nan, np.nan, np.nan, -np.inf
        a[7, 0], a[8, -1] = np.nan, np.nan
    a[9] = 0
    return a


@pytest.mark.parametrize("lanes", [8, 64])
@pytest.mark.parametrize("n", [1, 7, 64, 100, 333])
@pytest.mark.parametrize("t", [tw.f32, tw.f64, tw.u8, tw.i64], ids=str)
def test_places_of_the_largest(t: Any, n: int, lanes: int) -> None:
    a = rows(t, n)
    np.testing.assert_array_equal(compiled(places(f"most_{lanes}", t), lanes)(a), a.argmax(1))


def test_the_least_and_ranges_that_start_further_on() -> None:
    a = rows(tw.f32, 100)
    np.testing.assert_array_equal(compiled(places("least", tw.f32, 0, True), 16, "argmin")(a), a.argmin(1))
    np.testing.assert_array_equal(compiled(places("later", tw.f32, 3), 16)(a), 3 + a[:, 3:].argmax(1))
    assert (compiled(places("none", tw.f32), 16)(np.empty((3, 0), np.float32)) == -1).all()


def test_the_long_form_runs_where_indices_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices of 100 and more count as too long for the short form."""
    monkeypatch.setattr(narrow, "_SHORT", 100)
    f = compiled(places("long_form", tw.f32), 16)
    assert "< 100)" in f.dump("narrow")
    for n in (90, 96, 97, 100, 101, 333):
        a = rows(tw.f32, n)
        np.testing.assert_array_equal(f(a), a.argmax(1))


def test_what_is_narrowed() -> None:
    text = compiled(places("shown", tw.f32), 16).dump("narrow")
    assert "buffer argmax_k_v.1[16] i32" in text and "buffer argmax_k_v.1[16] i64" in text
    assert "< 2147483648" in text


def test_other_sums_of_64_bits_stay() -> None:
    p = tw.Pipeline("sums", a=tw.i64[M, N])
    i, out = tw.vars("i"), tw.func("out")
    k = tw.rdom(k=N)
    out[i] = tw.sum(p.a[i, k] + tw.cast(tw.i64, k), over=k, name="total")
    kernel = p.returns(out[:M])
    f = compiled(kernel, 8, "total")
    assert "i32" not in f.dump("narrow")
    a = np.full((2, 50), 1 << 40)
    np.testing.assert_array_equal(f(a), (a + np.arange(50)).sum(1))

"""Lesson 6: regions that don't start at zero. The first element of a result is the start of its slice."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

N = tw.sizes("N")


@tw.kernel
def shifted():
    y, x = tw.vars("y x")
    g = tw.func("gradient")
    g[y, x] = x + y
    return g[:8, :8], g[50:55, 100:107], g[-3:2, -8:0]


def test_every_slice_starts_where_it_says():
    origin, far, negative = shifted()
    y, x = np.mgrid[:8, :8]
    np.testing.assert_array_equal(origin, x + y)
    y, x = np.mgrid[50:55, 100:107]
    np.testing.assert_array_equal(far, x + y)
    y, x = np.mgrid[-3:2, -8:0]
    np.testing.assert_array_equal(negative, x + y)


@tw.kernel
def differences(a: tw.i32[N]):
    i = tw.vars("i")
    d = tw.func("d")
    d[i] = a[i] - a[i - 1]
    return d[1:N]


def test_a_start_keeps_reads_inside_the_input():
    a = np.random.default_rng(0).integers(0, 100, 50).astype(np.int32)
    np.testing.assert_array_equal(differences(a), np.diff(a))
    assert differences(a[:1]).shape == (0,)


def test_a_slice_that_reads_beyond_the_input_is_an_error():
    with pytest.raises(tw.BoundsError, match="a"):

        @tw.kernel
        def wrong(a: tw.i32[N]):
            i = tw.vars("i")
            d = tw.func("d")
            d[i] = a[i] - a[i - 1]
            return d[:N]

        wrong(np.zeros(5, np.int32))

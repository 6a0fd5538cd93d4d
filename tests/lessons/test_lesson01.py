"""Lesson 1: a gradient. A Func over the whole grid, Vars, and a region of it that is computed."""

from __future__ import annotations

import numpy as np

import tilewright as tw


@tw.kernel
def gradient():
    y, x = tw.vars("y x")
    g = tw.func("gradient")
    g[y, x] = x + y
    return g[:600, :800]


def test_the_gradient():
    y, x = np.mgrid[:600, :800]
    np.testing.assert_array_equal(gradient(), x + y)
    np.testing.assert_array_equal(gradient.reference(), x + y)


def test_indices_are_wide_integers():
    assert gradient().dtype == np.int64

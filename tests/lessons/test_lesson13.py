"""Lesson 13: Funcs of tuples. Several values for a place, argmax as a reduction of pairs, complex numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw

N = tw.sizes("N")


@tw.kernel
def colours():
    c, y, x = tw.vars("c y x")
    one, several = tw.func("one"), tw.func("several")
    one[c, y, x] = tw.select(c == 0, 245, c == 1, 42, 132)  # as one Func with an axis of channels
    several[y, x] = (x + y, tw.sqrt(tw.cast(tw.f32, x * y)))  # as a Func of two values, of two types
    return one[:3, :4, :5], several[:4, :5]


def test_several_values_for_a_place():
    one, (total, root) = colours()
    y, x = np.mgrid[:4, :5]
    np.testing.assert_array_equal(one, np.broadcast_to(np.array([245, 42, 132])[:, None, None], (3, 4, 5)))
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(root, np.sqrt(np.float32(x * y)))


# A reduction of pairs ----------------------------------------------------------------------------------------------


@tw.kernel
def largest(a: tw.f32[N]):
    r = tw.rdom(r=(1, N))
    best = tw.func("best")
    best[()] = (a[0], tw.cast(tw.i64, 0))
    value, index = best[()]
    better = a[r] > value
    best[()] = (tw.select(better, a[r], value), tw.select(better, tw.cast(tw.i64, r), index))
    return best[()]


def test_the_largest_value_and_where_it_is():
    a = np.float32(np.sin(np.arange(100)))
    value, index = largest(a)
    assert (value, index) == (a.max(), a.argmax())


@tw.kernel
def where_largest(a: tw.f32[N]):
    found = tw.func("found")
    found[()] = tw.argmax(a[tw.rdom(r=N)], name="best")
    return found[()]


def test_in_lanes_the_first_of_equal_values_still_wins():
    a = np.float32(np.random.default_rng(0).integers(0, 5, 1000))
    s = where_largest.schedule()
    s["best.update"].vectorize("r", 16)
    assert where_largest.compile(s)(a) == a.argmax()


# A type of one's own -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Complex:
    """A pair of expressions that computes like a complex number."""

    re: Any
    im: Any

    def __add__(self, other):
        return Complex(self.re + other.re, self.im + other.im)

    def __mul__(self, other):
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def magnitude_squared(self):
        return self.re * self.re + self.im * self.im


@tw.kernel(mode="strict")
def mandelbrot():
    y, x, t = tw.vars("y x t")
    step = tw.rdom(step=(1, 12))
    z = tw.func("z", (tw.f32, tw.f32))
    start = Complex(tw.cast(tw.f32, x) / 15.0 - 2.5, tw.cast(tw.f32, y) / 6.0 - 2.0)
    z[t, y, x] = (0.0, 0.0)
    following = (lambda w: w * w + start)(Complex(*z[step - 1, y, x]))
    z[step, y, x] = (following.re, following.im)
    escape = tw.func("escape")
    r = tw.rdom(r=(1, 12))
    escaped = Complex(*z[r, y, x]).magnitude_squared() >= 4.0
    escape[y, x] = tw.argmax(tw.cast(tw.i8, escaped), over=r, name="first")
    return escape[:25, :61]


def test_complex_numbers_as_pairs():
    y, x = np.mgrid[:25, :61]
    re, im = np.float32(x) / np.float32(15) - np.float32(2.5), np.float32(y) / np.float32(6) - np.float32(2)
    a, b, size = np.zeros_like(re), np.zeros_like(im), []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(11):
            a, b = a * a - b * b + re, (a * b + b * a) + im
            size.append(a * a + b * b >= 4)
    np.testing.assert_array_equal(mandelbrot(), 1 + np.argmax(size, axis=0))

"""Lesson 17: conditions on reduction domains. They shrink loops where they can and are tested where they can't."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw

N, R = tw.sizes("N R")


def steps(kernel: tw.Kernel, func: str, **sizes: int) -> int:
    """How many points the updates of a Func are executed at, its initial values aside."""
    account = kernel.simulate(kernel.schedule(), machine="toy", sizes=sizes).account
    return account.of("dram", func).reads


@tw.kernel
def stairs():
    """What lies on the diagonal and below it."""
    y, x = tw.vars("y x")
    r = tw.rdom(y=12, x=12)
    r.where(r.x <= r.y)
    f = tw.func("f", tw.i32)
    f[y, x] = 0
    f[r.y, r.x] += tw.cast(tw.i32, 20 * r.y + r.x)
    return f[:12, :12]


def test_a_condition_between_two_variables_shortens_the_inner_loop(golden):
    y, x = np.mgrid[:12, :12]
    np.testing.assert_array_equal(stairs(), np.where(x <= y, 20 * y + x, 0))
    assert steps(stairs, "f") == 12 * 13 // 2
    golden(str(stairs.schedule().loops()))


@tw.kernel
def disc():
    """The points whose distance from the origin is at most 7."""
    y, x = tw.vars("y x")
    r = tw.rdom(y=(-9, 10), x=(-9, 10))
    r.where(r.x * r.x + r.y * r.y <= 49)
    f = tw.func("f", tw.i32)
    f[y, x] = 0
    f[r.y, r.x] += 1
    return f[-9:10, -9:10]


def test_a_condition_that_is_not_linear_is_tested(golden):
    y, x = np.mgrid[-9:10, -9:10]
    inside = x * x + y * y <= 49
    np.testing.assert_array_equal(disc(), inside)
    assert steps(disc, "f") == inside.sum()
    golden(str(disc.schedule().loops()))


@tw.kernel
def wedge():
    """Several conditions: all of them must hold."""
    y, x = tw.vars("y x")
    r = tw.rdom(y=R, x=R)
    r.where(r.x >= 3)
    r.where(r.y > r.x)
    r.where(2 * r.y < r.x + N)
    f = tw.func("f", tw.i32)
    f[y, x] = 0
    f[r.y, r.x] += 1
    return f[:R, :R]


@given(st.integers(0, 14), st.integers(0, 20))
def test_several_conditions(r: int, n: int):
    y, x = np.mgrid[:r, :r]
    expected = (x >= 3) & (y > x) & (2 * y < x + n)
    np.testing.assert_array_equal(wedge(sizes={"R": r, "N": n}), expected)


@tw.kernel
def bright(picture: tw.i32[N, N], least: tw.i32):
    """A condition on data, through another Func: what is bright after a blur is added up row by row."""
    y, x = tw.vars("y x")
    r = tw.rdom(x=(1, N - 1))
    blurred, total = tw.func("blurred", tw.i32), tw.func("total", tw.i32)
    blurred[y, x] = picture[y, x - 1] + 2 * picture[y, x] + picture[y, x + 1]
    r.where(blurred[y, r.x] >= 4 * least)
    total[y] = 0
    total[y] += picture[y, r.x]
    return total[:N]


def test_a_condition_on_data(golden):
    p = np.random.default_rng(0).integers(0, 100, (33, 33)).astype(np.int32)
    blurred = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    expected = np.where(blurred >= 200, p[:, 1:-1], 0).sum(1)
    np.testing.assert_array_equal(bright(p, 50), expected)
    np.testing.assert_array_equal(bright.reference(p, 50), expected)
    for place in ("total.update.y", "root"):
        s = bright.schedule()
        s["blurred"].compute_root() if place == "root" else s["blurred"].compute_at(place)
        np.testing.assert_array_equal(bright.compile(s)(p, 50), expected)
        golden(str(s.loops()), place.rpartition(".")[2])


def test_a_condition_on_what_is_updated_is_an_error():
    with pytest.raises(tw.DefinitionError) as refused:

        @tw.kernel
        def wrong(a: tw.i32[N]):
            i = tw.vars("i")
            r = tw.rdom(r=N)
            f = tw.func("f")
            f[i] = a[i]
            r.where(f[r.r] > 0)
            f[r.r] = f[r.r] - 1
            return f[:N]

    assert "f" in str(refused.value)

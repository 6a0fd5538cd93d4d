"""Lesson 9: updates. Definitions in order, reduction domains, schedules of updates, places of a producer."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import cbook
from PIL import Image

import tilewright as tw

H, W = tw.sizes("H W")


# Definitions that change what is there -----------------------------------------------------------------------------


@tw.kernel
def several():
    y, x = tw.vars("y x")
    f = tw.func("f")
    f[y, x] = x + y
    f[3, 7] = 42
    f[y, x] = f[y, x] + 17
    f[3, x] = f[0, x] * f[10, x]
    f[y, 0] = f[y, 0] // f[y, 3]
    return f[:100, :100]


def test_updates_run_in_order():
    y, x = np.mgrid[:100, :100]
    f = x + y
    f[3, 7] = 42
    f += 17
    f[3] = f[0] * f[10]
    f[:, 0] = f[:, 0] // f[:, 3]
    np.testing.assert_array_equal(several(), f)


@tw.kernel
def ranges():
    y, x = tw.vars("y x")
    r = tw.rdom(r=50)
    f = tw.func("f")
    f[y, x] = x + y
    f[r, x] = f[r, x] * f[r - 1, x + 0] + 1
    return f[:100, :100]


def test_a_reduction_variable_counts_upwards():
    y, x = np.mgrid[-1:100, :100]
    f = x + y
    for r in range(50):
        f[r + 1] = f[r + 1] * f[r] + 1
    np.testing.assert_array_equal(ranges(), f[1:])


@tw.kernel
def histogram(picture: tw.u8[H, W]):
    b = tw.vars("b")
    r = tw.rdom(y=H, x=W)
    count = tw.func("count", tw.i32)
    count[b] = 0
    count[tw.cast(tw.i64, picture[r.y, r.x])] += 1
    return count[:256]


def photograph():
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as f:
        return np.asarray(f.convert("L"))[:150]


def test_a_histogram():
    p = photograph()
    np.testing.assert_array_equal(histogram(p), np.bincount(p.ravel(), minlength=256))


# Scheduling updates ------------------------------------------------------------------------------------------------


@tw.kernel
def three():
    y, x = tw.vars("y x")
    f = tw.func("f", tw.i32)
    f[y, x] = tw.cast(tw.i32, x * y)
    f[y, 0] = f[y, 8]
    f[0, x] = f[8, x] + 2
    return f[:16, :16]


def test_every_definition_has_a_schedule_of_its_own(golden):
    s = three.schedule()
    s["f.init"].vectorize("x", 4).parallel("y")
    s["f.update[0]"].split("y", "yo", "yi", 4).parallel("yo")
    s["f.update[1]"].vectorize("x", 4)
    y, x = np.mgrid[:16, :16]
    f = x * y
    f[:, 0] = f[:, 8]
    f[0] = f[8] + 2
    np.testing.assert_array_equal(three.compile(s)(), f)
    golden(f"{s}\n\n{s.loops()}")


# A producer and the definitions that read it -----------------------------------------------------------------------


def pair(first, second):
    """A consumer of 10 elements whose initial value and whose updates read a producer x * 17, or don't."""

    @tw.kernel
    def kernel():
        x = tw.vars("x")
        producer, consumer = tw.func("producer", tw.i32), tw.func("consumer", tw.i32)
        producer[x] = tw.cast(tw.i32, x * 17)
        consumer[x] = 2 * producer[x] if first else tw.cast(tw.i32, 2 * x)
        consumer[x] += producer[x] if second else 50
        return consumer[:10]

    return kernel


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_a_producer_that_one_definition_reads_is_computed_there(first, second):
    kernel = pair(first, second)
    s = kernel.schedule()
    s["producer"].compute_at("consumer.init.x" if first else "consumer.update.x")
    x = np.arange(10)
    expected = (34 * x if first else 2 * x) + (17 * x if second else 50)
    np.testing.assert_array_equal(kernel.compile(s)(), expected)


def test_a_producer_that_both_read_has_no_place_in_one_of_them():
    kernel = pair(True, True)
    s = kernel.schedule()
    with pytest.raises(tw.ScheduleError) as refused:
        s["producer"].compute_at("consumer.init.x")
    assert refused.value.code == "schedule.illegal-place" and "root" in str(refused.value)


def test_but_each_may_have_a_copy():
    kernel = pair(True, True)
    s = kernel.schedule()
    for stage in ("init", "update"):
        s.cache_read("producer", at=f"consumer.{stage}.x", name=f"for_{stage}")
    np.testing.assert_array_equal(kernel.compile(s)(), 51 * np.arange(10))


@tw.kernel
def sums_of_products():
    x = tw.vars("x")
    r = tw.rdom(r=5)
    producer, consumer = tw.func("producer", tw.i32), tw.func("consumer", tw.i32)
    producer[x] = tw.cast(tw.i32, x % 8)
    consumer[x] = tw.cast(tw.i32, x + 10)
    consumer[x] += tw.cast(tw.i32, r) + producer[x + r]
    return consumer[:10]


def test_a_producer_inside_a_reduction_loop():
    expected = np.array([x + 10 + sum(r + (x + r) % 8 for r in range(5)) for x in range(10)])
    for place in ("consumer.update.x", "consumer.update.r"):
        s = sums_of_products.schedule()
        s["producer"].compute_at(place)
        np.testing.assert_array_equal(sums_of_products.compile(s)(), expected)


# Inline reductions -------------------------------------------------------------------------------------------------


@tw.kernel
def box_blur(picture: tw.u8[H, W]):
    y, x = tw.vars("y x")
    r = tw.rdom(v=(-2, 3), u=(-2, 3))
    edge = tw.repeat_edge(picture)
    result = tw.func("result")
    total = tw.sum(tw.cast(tw.i32, edge[y + r.v, x + r.u]), over=r, name="total")
    result[y, x] = tw.cast(tw.u8, total // 25)
    return result[:H, :W]


@tw.kernel
def spread(picture: tw.u8[H, W]):
    y, x = tw.vars("y x")
    r = tw.rdom(v=(-2, 3), u=(-2, 3))
    edge = tw.repeat_edge(picture)
    result = tw.func("result")
    around = edge[y + r.v, x + r.u]
    result[y, x] = tw.max(around, over=r, name="high") - tw.min(around, over=r, name="low")
    return result[:H, :W]


def windows(p):
    return np.lib.stride_tricks.sliding_window_view(np.pad(p, 2, mode="edge"), (5, 5))


def test_a_sum_within_an_expression():
    p = photograph()
    np.testing.assert_array_equal(box_blur(p), windows(p).sum((2, 3), dtype=np.int64) // 25)


def test_the_spread_of_a_neighbourhood_in_strips():
    p = photograph()
    s = spread.schedule()
    s["result"].split("y", "strip", "row", 4).parallel("strip").vectorize("x", 32)
    for f in ("high", "low"):
        s[f].compute_at("result.row")
        s[f"{f}.update"].reorder("y", "v", "u", "x").vectorize("x", 32)
    expected = windows(p).max((2, 3)) - windows(p).min((2, 3))
    np.testing.assert_array_equal(spread.compile(s)(p), expected)
    np.testing.assert_array_equal(spread(p), expected)

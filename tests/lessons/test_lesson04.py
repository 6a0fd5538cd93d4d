"""Lesson 4: watching a kernel at work. Stores in their order, values on the way, one element's history."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

N = tw.sizes("N")


@tw.kernel
def gradient():
    y, x = tw.vars("y x")
    g = tw.func("gradient")
    g[y, x] = tw.cast(tw.i32, x + y)
    return g[:4, :5]


def plain(s):
    s["gradient"].unscheduled()


def columns(s):
    s["gradient"].reorder("x", "y")


def tiles(s):
    s["gradient"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 2)


def threads(s):
    """Rows run in any order on threads; the trace has them as one thread would take them."""
    s["gradient"].parallel("y")


def vectors(s):
    """Lanes follow each other; those beyond the end store nothing."""
    s["gradient"].vectorize("x", 4)


@pytest.mark.parametrize("act", [plain, columns, tiles, threads, vectors], ids=lambda f: f.__name__)
def test_stores_in_their_order(act, golden):
    s = gradient.schedule()
    act(s)
    trace = gradient.trace(s, sizes={})
    golden(str(trace))
    y, x = np.mgrid[:4, :5]
    np.testing.assert_array_equal(trace.result, x + y)
    assert sorted(t.element for t in trace) == sorted(np.ndindex(4, 5))
    assert all(t.value == sum(t.element) for t in trace)


@tw.kernel
def blurred(a: tw.i32[N]):
    i = tw.vars("i")
    sums, means = tw.func("sums"), tw.func("means")
    sums[i] = a[i] + a[i + 1] + a[i + 2]
    means[i] = (sums[i] + sums[i + 1]) // 6
    return means[: N - 3]


def test_two_stages_take_turns(golden):
    """A window that slides: two sums before the first mean, then one for each."""
    s = blurred.schedule()
    s["sums"].compute_at("means.i").store_root().fold_storage("i", 2)
    trace = blurred.trace(s, sizes={"N": 8}, inputs={"a": np.arange(8, dtype=np.int32)})
    golden(f"{s.loops()}\n\n{trace}")
    assert len(trace.of("sums")) == 6 and len(trace.of("means")) == 5


def test_some_of_the_stores():
    """What is printed on a condition elsewhere is a filter over the trace here."""
    a = np.arange(40, dtype=np.int32) % 7
    trace = blurred.trace(sizes={"N": 40}, stages="means", inputs={"a": a})
    large = [str(t) for t in trace if t.value > 3]
    expected = blurred(a)
    assert large == [f"means[{i}] = {v}" for i, v in enumerate(expected) if v > 3]


@tw.kernel
def running(a: tw.f32[N]):
    r = tw.rdom(r=(1, N))
    i = tw.vars("i")
    total = tw.func("total")
    total[i] = a[i]
    total[r] += total[r - 1]
    return total[:N]


def test_updates_say_at_which_step(golden):
    a = np.float32([1, 2, 4, 8])
    golden(str(running.trace(sizes={"N": 4}, inputs={"a": a})))
    steps = running.trace(sizes={"N": 4}, stages="total.update", inputs={"a": a})
    assert [(s.at["r"], s.value) for s in steps] == [(1, 3.0), (2, 7.0), (3, 15.0)]


def test_values_on_the_way_without_a_schedule():
    """The reference keeps what is asked for, and tells how one element came about."""
    a = np.arange(8, dtype=np.int32)
    result, kept = blurred.reference(a, keep=["sums"])
    np.testing.assert_array_equal(kept["sums"], a[:-2] + a[1:-1] + a[2:])
    np.testing.assert_array_equal(result, (kept["sums"][:-1] + kept["sums"][1:]) // 6)
    story = blurred.why(a, out=(2,))
    assert story.startswith("means[2] = 3") and "sums[3] = 12" in story and "a[5] = 5" in story

"""Lesson 18: a reduction in parts. Partial histograms over rows, lanes or tiles that are added up at the end."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import cbook
from PIL import Image

import tilewright as tw

H, W, N = tw.sizes("H W N")


@tw.kernel
def histogram(picture: tw.u8[H, W]):
    b = tw.vars("b")
    r = tw.rdom(y=H, x=W)
    h = tw.func("h", tw.i32)
    h[b] = 0
    h[tw.cast(tw.i64, picture[r.y, r.x])] += 1
    return h[:256]


def serial(s):
    """Any order would do, but threads would count in one place at once."""
    s["h.update"].unscheduled()


def rows(s):
    """A histogram for every row, in parallel; those are added up in vectors."""
    s["h.update"].rfactor("y", "part")
    s["part"].compute_root().layout("b y -> y b")
    s["part.init"].vectorize("b", 8)
    s["part.update[0]"].parallel("y")
    s["h.update"].vectorize("b", 8)


def lanes(s):
    """Eight histograms that take turns, in the lanes of a vector."""
    s["h.update"].split("x", "xo", "xi", 8).rfactor("xi", "part")
    s["part"].compute_root()
    s["part.update[0]"].vectorize("xi")


def tiles(s):
    """A histogram for every tile, with parts over two variables; all tiles are one parallel loop."""
    s["h.update"].tile("y", "x", "yo", "xo", "yi", "xi", 32, 64).rfactor("yo", "strips")
    s["strips.update[0]"].rfactor("xo", "blocks")
    s["blocks"].compute_root().layout("b yo xo -> yo xo b")
    s["blocks.update[0]"].fuse("yo", "xo", "tile").parallel("tile")


def in_short(s):
    """What the directives for loops make by themselves of a reduction loop."""
    s["h.update"].split("y", "yo", "yi", 16).parallel("yo")


SCHEDULES = (serial, rows, lanes, tiles, in_short)


@pytest.mark.parametrize("act", SCHEDULES, ids=lambda f: f.__name__)
def test_a_histogram_in_parts(act, golden):
    s = histogram.schedule()
    act(s)
    golden(f"{s}\n\n{s.loops()}")
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as f:
        picture = np.asarray(f.convert("L"))[:203, :150]
    fast = histogram.compile(s)
    for p in (picture, picture[:1], picture[:0], picture[:, :5]):
        np.testing.assert_array_equal(fast(p), np.bincount(p.ravel(), minlength=256))


@tw.kernel
def total(a: tw.f32[N]):
    r = tw.rdom(r=N)
    t = tw.func("t")
    t[()] = 0.0
    t[()] += a[r]
    return t[()]


def test_parts_of_a_sum_of_floats_are_another_order():
    """Exact sums agree; where sums round, strict refuses what adds in another order."""
    s = total.schedule()
    s["t.update"].split("r", "ro", "ri", 16).rfactor("ri", "part")
    a = np.arange(1000, dtype=np.float32)
    assert total.compile(s)(a) == total.reference(a) == a.sum()
    with pytest.raises(tw.ScheduleError) as refused:
        total.compile(s, mode="strict")
    assert refused.value.code == "schedule.strict"


@tw.kernel
def recurrence(a: tw.f32[N]):
    r = tw.rdom(r=(1, N))
    t = tw.func("t")
    t[()] = a[0]
    t[()] = t[()] * 0.5 + a[r]
    return t[()]


def test_what_is_no_associative_reduction_has_no_parts():
    s = recurrence.schedule()
    with pytest.raises(tw.ScheduleError, match="keep the loop serial") as refused:
        s["t.update"].rfactor("r", "part")
    assert refused.value.code == "schedule.not-associative"

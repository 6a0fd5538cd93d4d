"""Histogram of a photograph: an update that scatters, and partial histograms so that threads don't meet."""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")


@tw.kernel
def histogram(picture: tw.u8[H, W]):
    b = tw.vars("b")
    r = tw.rdom(y=H, x=W)
    count = tw.func("count", tw.i32)
    count[b] = 0
    count[tw.cast(tw.i64, picture[r.y, r.x])] += 1
    return count[:256]


def serial():
    """One pixel after the other."""
    s = histogram.schedule()
    s["count.update"].serial("y")
    return s


def by_strips():
    """A histogram for every strip of 64 rows, on threads; they are added up at the end."""
    s = histogram.schedule()
    s["count.update"].split("y", "strip", "row", 64).parallel("strip")
    return s


def expert():
    """Threads by strips, and in a strip eight histograms in turn: equal neighbours don't wait for each other."""
    s = by_strips()
    s["count_strip.update[0]"].split("x", "xo", "lane", 8).rfactor("lane", "turn").parallel("strip")
    s["turn"].compute_at("count_strip.update[0].strip")
    s["turn.update[0]"].unroll("lane")
    return s


SCHEDULES = (serial, by_strips, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.asarray(photograph.convert("L")), (repeat, repeat))


def check(rows=600):
    picture = inputs()[:rows]
    independent = np.bincount(picture.ravel(), minlength=256).astype(np.int32)
    testing.check_schedules(histogram, SCHEDULES, (picture,), independent)


if __name__ == "__main__":
    check()

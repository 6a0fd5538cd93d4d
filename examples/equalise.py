"""Histogram equalisation: the brightness of a photograph is spread evenly over 0..255.

A histogram, its running sums, a table made of these, and a look into the table for each pixel. Integers throughout.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")


@tw.kernel
def equalise(picture: tw.u8[H, W]):
    y, x, b = tw.vars("y x b")
    r, n = tw.rdom(y=H, x=W), tw.rdom(n=(1, 256))
    count, darker, table, out = tw.func("count", tw.i32), tw.func("darker"), tw.func("table"), tw.func("out")
    value = lambda y, x: tw.cast(tw.i64, picture[y, x])  # noqa: E731
    count[b] = 0
    count[value(r.y, r.x)] += 1
    darker[b] = tw.cast(tw.i64, count[b])  # how many pixels are no brighter
    darker[n] += darker[n - 1]
    k = tw.rdom(k=256)
    pixels = darker[255]
    least = tw.min(tw.select(darker[k] > 0, darker[k], pixels), over=k, name="least")  # of the darkest value there is
    rest = tw.maximum(pixels - least, 1)
    table[b] = tw.cast(tw.u8, (255 * (darker[b] - least) + rest // 2) // rest)
    out[y, x] = table[value(y, x)]
    return out[:H, :W]


def serial():
    """One pixel after the other, twice."""
    s = equalise.schedule()
    s["table"].compute_root()
    s["count.update"].serial("y")
    s["out"].serial("y")
    return s


def by_strips():
    """Threads over strips of 64 rows; for the histogram, each strip has one of its own, added up at the end."""
    s = equalise.schedule()
    s["table"].compute_root()
    s["count.update"].split("y", "strip", "row", 64).parallel("strip")
    s["out"].parallel("y", 64)
    return s


def expert():
    """In a strip four histograms take turns, so that equal neighbours don't wait for each other."""
    s = by_strips()
    s["count_strip.update[0]"].split("x", "xo", "lane", 4).rfactor("lane", "turn").parallel("strip")
    s["turn"].compute_at("count_strip.update[0].strip")
    s["turn.update[0]"].unroll("lane")
    s["out"].unroll("x", 8)
    return s


SCHEDULES = (serial, by_strips, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.asarray(photograph.convert("L")), (repeat, repeat))


def independent(picture):
    darker = np.searchsorted(np.sort(picture, axis=None), np.arange(256), side="right")
    least = darker[darker > 0].min()
    rest = max(picture.size - least, 1)
    return ((255 * np.maximum(darker - least, 0) + rest // 2) // rest).astype(np.uint8)[picture]


def check(rows=600):
    picture = inputs()[:rows]
    testing.check_schedules(equalise, SCHEDULES, (picture,), independent(picture))


if __name__ == "__main__":
    check()

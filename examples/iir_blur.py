"""A recursive blur of a photograph: running averages down and up every column, then along every row.

Each pixel needs the one before, so the scans run along columns, many columns in a vector; what was computed is
transposed in tiles, and the same pass over the transposed picture takes care of the rows.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image
from scipy import signal

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4
STRIP = 8 * VECTOR  # columns that are scanned together: eight vectors hide the latency of one


@tw.kernel
def iir_blur(picture: tw.f32[3, H, W], rate: tw.f32):
    c, y, x = tw.vars("c y x")

    def down_and_up(name, source, height):
        """The transposed picture after a scan down and a scan up its columns."""
        down, up = tw.rdom(down=(1, height)), tw.rdom(up=(1, height))
        line = height - 1 - up
        scan, turned = tw.func(f"scan{name}"), tw.func(f"turned{name}")
        scan[c, y, x] = source[c, y, x]
        scan[c, down, x] += rate * (scan[c, down - 1, x] - scan[c, down, x])
        scan[c, line, x] += rate * (scan[c, line + 1, x] - scan[c, line, x])
        turned[c, y, x] = scan[c, x, y]
        return turned

    columns = down_and_up(1, picture, H)
    both = down_and_up(2, columns, W)
    return both[:3, :H, :W]


def by_stages():
    """Every scan over the whole picture, all columns of a line at once."""
    s = iir_blur.schedule()
    for k in (1, 2):
        s[f"scan{k}"].compute_root()
        s[f"scan{k}.init"].vectorize("x", VECTOR)
        s[f"scan{k}.update[0]"].reorder("c", "down", "x").vectorize("x", VECTOR)
        s[f"scan{k}.update[1]"].reorder("c", "up", "x").vectorize("x", VECTOR)
    s["turned1"].compute_root()
    return s


def expert():
    """Strips of columns on threads: copied, scanned both ways and turned in tiles of registers, all in the cache."""
    s = iir_blur.schedule()
    s["turned1"].compute_root()
    for k in (1, 2):
        turned = s[f"turned{k}"]
        turned.split("y", "strip", "column", STRIP)
        turned.tile("column", "x", "row", "line", "yi", "xi", VECTOR, VECTOR)
        turned.parallel("strip").unroll("yi").vectorize("xi")
        s[f"scan{k}"].compute_at(f"turned{k}.strip")
        s[f"scan{k}.init"].vectorize("x", VECTOR)
        s[f"scan{k}.update[0]"].reorder("c", "down", "x").vectorize("x", STRIP)
        s[f"scan{k}.update[1]"].reorder("c", "up", "x").vectorize("x", STRIP)
    return s


SCHEDULES = (by_stages, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 3 x 600 x 512, values 0 to 1, and how much of its neighbour a pixel takes."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        planes = np.moveaxis(np.asarray(photograph, np.float32) / np.float32(255), 2, 0)
    return np.ascontiguousarray(np.tile(planes, (1, repeat, repeat))), np.float32(0.75)


def independent(picture, rate):
    wide, keep = picture.astype(np.float64), np.float64(rate)
    for axis in (1, 2):
        for direction in (slice(None), slice(None, None, -1)):
            wide = np.flip(wide, axis) if direction.step else wide
            first = keep * np.take(wide, [0], axis)
            wide, _ = signal.lfilter([1 - keep], [1, -keep], wide, axis, zi=first)
            wide = np.flip(wide, axis) if direction.step else wide
    return wide.astype(np.float32)


def check(rows=120, columns=500):
    picture, rate = inputs()
    picture = np.ascontiguousarray(picture[:, :rows, :columns])
    testing.check_schedules(iir_blur, SCHEDULES, (picture, rate), independent(picture, rate))


if __name__ == "__main__":
    check()

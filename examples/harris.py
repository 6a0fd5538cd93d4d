"""Harris corners: where a photograph changes in both directions. From the 8 bits of three colours to a response in f32.

Brightness, its slopes by Sobel's operator, the three products of slopes summed over 3x3 pixels, and of these the
determinant minus 0.04 times the square of the trace. Nine stages that are cheap by themselves: the work is in not
sending their values through memory.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image

import tilewright as tw
from tilewright import testing
from tilewright.schedule.idioms import line_buffer

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4


@tw.kernel
def harris(picture: tw.u8[3, H, W]):
    y, x = tw.vars("y x")
    colour = tw.repeat_edge(picture, None, (0, H), (0, W))
    grey, across, down, corners = (tw.func(n) for n in ("grey", "across", "down", "corners"))
    red, green, blue = (tw.cast(tw.f32, colour[c, y, x]) for c in range(3))
    grey[y, x] = 0.299 * red + 0.587 * green + 0.114 * blue
    g = lambda dy, dx: grey[y + dy, x + dx]  # noqa: E731
    across[y, x] = (g(-1, 1) - g(-1, -1)) + 2.0 * (g(0, 1) - g(0, -1)) + (g(1, 1) - g(1, -1))
    down[y, x] = (g(1, -1) - g(-1, -1)) + 2.0 * (g(1, 0) - g(-1, 0)) + (g(1, 1) - g(-1, 1))

    def summed(name, a, b):
        """The product of two slopes, summed over 3 x 3 pixels."""
        column, total = tw.func(name + "_column"), tw.func(name)
        column[y, x] = sum(a[y + d, x] * b[y + d, x] for d in (-1, 0, 1))
        total[y, x] = sum(column[y, x + d] for d in (-1, 0, 1))
        return total

    xx, xy, yy = summed("xx", across, across), summed("xy", across, down), summed("yy", down, down)
    trace = xx[y, x] + yy[y, x]
    corners[y, x] = (xx[y, x] * yy[y, x] - xy[y, x] * xy[y, x]) - 0.04 * (trace * trace)
    return corners[:H, :W]


COLUMNS = ("xx_column", "xy_column", "yy_column")


def by_stages():
    """Brightness, slopes and sums over the whole picture, one after the other."""
    s = harris.schedule()
    for stage in ("grey", "across", "down", *COLUMNS, "corners"):
        s[stage].parallel("y").vectorize("x", VECTOR)
    for stage in ("grey", "across", "down", *COLUMNS):
        s[stage].compute_root()
    return s


def expert():
    """Strips of 128 rows. In a strip all goes line by line: of five lines of brightness and three of slopes that are in
    use eight and four are kept, so that a mask finds them. Both slopes share a loop. Sums of products are made from the
    slopes each time: multiply-adds take less than stored columns.
    """
    s = harris.schedule()
    s["corners"].split("y", "strip", "row", 128).parallel("strip").vectorize("x", VECTOR)
    for stage, lines in (("grey", 8), ("across", 4), ("down", 4)):
        line_buffer(s, stage, at="corners.row", axis="y", lines=lines, within="corners.strip")
        s[stage].split("x", "x", "lane", VECTOR, tail="round_up").vectorize("lane")
    s["down"].compute_with("across.x")
    return s


SCHEDULES = (by_stages, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 3 x 600 x 512; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.moveaxis(np.asarray(photograph), 2, 0), (1, repeat, repeat))


def independent(picture):
    g = np.pad(np.tensordot([0.299, 0.587, 0.114], picture.astype(np.float64), 1), 2, mode="edge")
    g_y, g_x = g[2:] - g[:-2], g[:, 2:] - g[:, :-2]
    across = g_x[:-2] + 2 * g_x[1:-1] + g_x[2:]
    down = g_y[:, :-2] + 2 * g_y[:, 1:-1] + g_y[:, 2:]
    windows = np.lib.stride_tricks.sliding_window_view
    xx, xy, yy = (windows(p, (3, 3)).sum((2, 3)) for p in (across**2, across * down, down**2))
    return np.float32(xx * yy - xy**2 - 0.04 * (xx + yy) ** 2)


def check(rows=200, columns=512):
    picture = inputs()[:, :rows, :columns]
    testing.check_schedules(harris, SCHEDULES, (picture,), independent(picture))


if __name__ == "__main__":
    check()

"""Bilateral grid: a photograph is smoothed, but not across its edges (Chen, Paris and Durand, 2007).

Each pixel is put into a coarse grid over height, brightness and width. Blurring the grid mixes what is near both in
place and in brightness. Each pixel is then read from the grid again, between the eight cells around it.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image
from scipy import ndimage

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4
CELL, LEVELS = 8, 8  # pixels a cell each way, steps of brightness from 0 to 1
WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def between(a, b, t):
    """Sums and numbers of pixels on the way from a to b."""
    return tuple(p + t * (q - p) for p, q in zip(a, b, strict=True))


@tw.kernel
def bilateral_grid(picture: tw.f32[H, W]):
    y, z, x = tw.vars("y z x")
    r = tw.rdom(ry=CELL, rx=CELL)
    grid = tw.func("grid", (tw.f32, tw.f32))  # the sum of the pixels in a cell, and how many there are
    blur_z, blur_y, blur_x = (tw.func(n) for n in ("blur_z", "blur_y", "blur_x"))
    row, pixel, out = (tw.func(n) for n in ("row", "pixel", "out"))
    value = tw.repeat_edge(picture)[CELL * y + r.ry - CELL // 2, CELL * x + r.rx - CELL // 2]
    grid[y, z, x] = (0.0, 0.0)
    cell = (y, tw.clamp(tw.cast(tw.i64, value * LEVELS + 0.5), 0, LEVELS), x)
    grid[cell] = (grid[cell][0] + value, grid[cell][1] + 1.0)

    def blurred(cells):
        return tuple(sum(w * cell[part] for w, cell in zip(WEIGHTS, cells, strict=True)) for part in (0, 1))

    blur_z[y, z, x] = blurred([grid[y, z + d, x] for d in range(-2, 3)])
    blur_y[y, z, x] = blurred([blur_z[y + d, z, x] for d in range(-2, 3)])
    blur_x[y, z, x] = blurred([blur_y[y, z, x + d] for d in range(-2, 3)])

    share = lambda v: tw.cast(tw.f32, v % CELL) * (1.0 / CELL)  # noqa: E731
    row[y, z, x] = between(blur_x[y // CELL, z, x], blur_x[y // CELL + 1, z, x], share(y))
    pixel[y, z, x] = between(row[y, z, x // CELL], row[y, z, x // CELL + 1], share(x))
    level = picture[y, x] * LEVELS
    below = tw.clamp(tw.cast(tw.i64, level), 0, LEVELS - 1)
    total, number = between(pixel[y, below, x], pixel[y, below + 1, x], level - tw.cast(tw.f32, below))
    out[y, x] = total / number
    return out[:H, :W]


def by_stages():
    """The grid, then its blurs one after the other, then all pixels, line by line."""
    s = bilateral_grid.schedule()
    s["grid"].compute_root()
    s["grid.update"].parallel("y")
    for stage in ("blur_z", "blur_y", "blur_x"):
        s[stage].compute_root().parallel("y").vectorize("x", VECTOR)
    s["out"].parallel("y").vectorize("x", VECTOR)
    s["row"].compute_at("out.y").vectorize("x", VECTOR)
    return s


def expert():
    """All levels of a cell lie side by side, in a vector where there are 16 lanes. A line of the picture has its own
    line of cells, so that a pixel is read from four. Neighbouring cells take turns in the scatter: its additions, each
    to the result of another one, don't wait.
    """
    s = bilateral_grid.schedule()
    blurs = ("blur_z", "blur_y", "blur_x")
    s["out"].split("y", "cells", "line", CELL).parallel("cells").vectorize("x", CELL)
    s["row"].compute_at("out.line")
    for stage in ("grid", *blurs):
        s[stage].compute_root()
    for stage in ("grid", *blurs, "row"):
        s[stage].layout("y z x -> y x z").pad("z", 16)
    for stage in ("grid.init", *blurs, "row"):
        s[stage].reorder("y", "x", "z").vectorize("z", VECTOR)
    s["grid.update"].split("x", "x", "cell", 8).reorder("y", "x", "ry", "rx", "cell").unroll("cell")
    for stage in ("grid.init", "grid.update", *blurs):
        s[stage].parallel("y")
    return s


SCHEDULES = (by_stages, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey, values 0 to 1; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.asarray(photograph.convert("L"), np.float32) / np.float32(255), (repeat, repeat))


def independent(picture):
    height, width = picture.shape
    rows, columns = -(-height // CELL) + 1, -(-width // CELL) + 1
    margin = 2 * CELL  # the blurs reach two cells further
    down, across = (
        np.clip(np.arange(-margin - CELL // 2, n * CELL + margin - CELL // 2), 0, size - 1)
        for n, size in ((rows, height), (columns, width))
    )
    wide = np.float64(picture)[np.ix_(down, across)]
    cells = np.indices(wide.shape) // CELL
    at = (cells[0], np.int64(np.clip(wide, 0, 1) * LEVELS + 0.5), cells[1])
    grid = np.zeros((2, rows + 4, LEVELS + 2, columns + 4))
    np.add.at(grid[0], at, wide)
    np.add.at(grid[1], at, 1)
    for axis in (2, 1, 3):
        grid = ndimage.convolve1d(grid, WEIGHTS, axis, mode="constant")
    grid = grid[:, 2:-2, :, 2:-2]
    y, x = np.mgrid[:height, :width] / CELL
    total, number = (ndimage.map_coordinates(g, (y, picture * np.float64(LEVELS), x), order=1) for g in grid)
    return np.float32(total / number)


def check(rows=200, columns=512):
    picture = inputs()[:rows, :columns]
    testing.check_schedules(bilateral_grid, SCHEDULES, (picture,), independent(picture))


if __name__ == "__main__":
    check()

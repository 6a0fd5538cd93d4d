"""A chain of sixteen 5x5 stencils over a photograph: each is cheap, and memory is too slow to do one after the other.

Tiles take several steps in the cache. What a tile needs of earlier steps reaches two pixels further with each of them,
so neighbouring tiles overlap, and compute what they share twice.
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
STEPS, TOGETHER = 16, 4  # steps that a tile takes between two visits to memory
WEIGHTS = np.outer([1, 2, 3, 2, 1], [1, 2, 3, 2, 1]) / 81


@tw.kernel
def stencil_chain(picture: tw.f32[H, W], *, steps=STEPS):
    y, x = tw.vars("y x")
    before = tw.repeat_edge(picture)
    for step in range(1, steps + 1):
        f = tw.func(f"f{step}")
        f[y, x] = sum(float(WEIGHTS[i, j]) * before[y + i - 2, x + j - 2] for i in range(5) for j in range(5))
        before = f
    return before[:H, :W]


def by_steps(steps=STEPS):
    """Every step over the whole picture."""
    s = stencil_chain.schedule(steps=steps)
    for step in range(1, steps + 1):
        f = s[f"f{step}"]
        if step < steps:
            f.compute_root()
        f.parallel("y").vectorize("x", VECTOR)
    return s


def expert(steps=STEPS):
    """Tiles of 64 x 512 pixels take four steps at a time. Four rows are summed together: they share what they read."""
    s = stencil_chain.schedule(steps=steps)
    for last in range(steps, 0, -TOGETHER):
        f = s[f"f{last}"]
        if last < steps:
            f.compute_root()
        f.tile(("y", "x"), ("strip", "tile"), ("y", "x"), (64, 512)).parallel("strip")
        for step in range(last - 1, max(last - TOGETHER, 0), -1):
            s[f"f{step}"].compute_at(f"f{last}.tile")
        for step in range(last, max(last - TOGETHER, 0), -1):
            g = s[f"f{step}"].split("y", "y", "row", 4).split("x", "x", "lane", VECTOR)
            g.reorder("y", "x", "row", "lane").unroll("row").vectorize("lane")
    return s


SCHEDULES = (by_steps, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey, values 0 to 1; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.asarray(photograph.convert("L"), np.float32) / np.float32(255), (repeat, repeat))


def independent(picture, steps=STEPS):
    wide = np.pad(picture.astype(np.float64), 2 * steps, mode="edge")
    for _ in range(steps):
        wide = ndimage.convolve(wide, WEIGHTS, mode="nearest")
    return np.float32(wide[2 * steps : -2 * steps, 2 * steps : -2 * steps])


def check(rows=200, columns=512, steps=STEPS):
    picture = np.ascontiguousarray(inputs()[:rows, :columns])
    testing.check_schedules(stencil_chain, SCHEDULES, (picture,), independent(picture, steps), {"steps": steps})


if __name__ == "__main__":
    check()

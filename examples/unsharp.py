"""Unsharp mask: a photograph is sharpened by adding what a Gaussian blur takes away from its brightness.

Five stages over a colour picture in f32; the amount is an argument of the call.
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
WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


@tw.kernel
def unsharp(picture: tw.f32[3, H, W], amount: tw.f32):
    c, y, x = tw.vars("c y x")
    colour = tw.repeat_edge(picture, None, (0, H), (0, W))
    grey, down, blurred, gain, sharp = (tw.func(n) for n in ("grey", "down", "blurred", "gain", "sharp"))
    grey[y, x] = 0.299 * colour[0, y, x] + 0.587 * colour[1, y, x] + 0.114 * colour[2, y, x]
    down[y, x] = sum(w * grey[y + k - 2, x] for k, w in enumerate(WEIGHTS))
    blurred[y, x] = sum(w * down[y, x + k - 2] for k, w in enumerate(WEIGHTS))
    gain[y, x] = 1.0 + amount * (1.0 - blurred[y, x] / tw.maximum(grey[y, x], 1e-3))
    sharp[c, y, x] = tw.clamp(picture[c, y, x] * gain[y, x], 0.0, 1.0)
    return sharp[:3, :H, :W]


def by_stages():
    """Every stage over the whole picture."""
    s = unsharp.schedule()
    for stage in ("grey", "down", "blurred", "gain"):
        s[stage].compute_root().vectorize("x", VECTOR)
    s["sharp"].vectorize("x", VECTOR)
    return s


def expert():
    """Strips of 16 rows, in which all stages stay in the cache; the gain is shared by the three colours."""
    s = unsharp.schedule()
    s["sharp"].split("y", "strip", "row", 16).reorder("strip", "c", "row", "x").parallel("strip")
    s["sharp"].vectorize("x", VECTOR)
    for stage in ("gain", "down", "grey"):
        s[stage].compute_at("sharp.strip").vectorize("x", VECTOR)
    return s


SCHEDULES = (by_stages, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 3 x 600 x 512, values 0 to 1, and an amount."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        planes = np.moveaxis(np.asarray(photograph, np.float32) / np.float32(255), 2, 0)
    return np.ascontiguousarray(np.tile(planes, (1, repeat, repeat))), np.float32(0.75)


def independent(picture, amount):
    wide = picture.astype(np.float64)
    grey = np.tensordot([0.299, 0.587, 0.114], wide, 1)
    blurred = ndimage.convolve1d(ndimage.convolve1d(grey, WEIGHTS, 0, mode="nearest"), WEIGHTS, 1, mode="nearest")
    gain = 1 + np.float64(amount) * (1 - blurred / np.maximum(grey, np.float32(1e-3)))
    return np.clip(wide * gain, 0, 1).astype(np.float32)


def check(rows=200):
    picture, amount = inputs()
    picture = np.ascontiguousarray(picture[:, :rows])
    testing.check_schedules(unsharp, SCHEDULES, (picture, amount), independent(picture, amount))


if __name__ == "__main__":
    check()

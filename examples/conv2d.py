"""A convolutional layer, 3x3 with padding: a register tile of output channels by columns, weights packed for it."""

from __future__ import annotations

import numpy as np
from scipy import signal

import tilewright as tw
from tilewright import testing

CO, CI, H, W = tw.sizes("CO CI H W")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
CHANNELS, COLUMNS = 2 * VECTOR, REGISTERS.count // 2 - 2


@tw.kernel
def conv2d(image: tw.f32[CI, H, W], weights: tw.f32[CO, CI, 3, 3]):
    o, y, x = tw.vars("o y x")
    r = tw.rdom(c=CI, v=3, u=3)
    padded = tw.constant_exterior(image, 0.0, None, (0, H), (0, W), name="padded")
    out = tw.func("out")
    out[o, y, x] = 0.0
    out[o, y, x] += weights[o, r.c, r.v, r.u] * padded[r.c, y + r.v - 1, x + r.u - 1]
    return out[:CO, :H, :W]


def by_rows():
    """Vectors along a row of the picture, which is read through its padding."""
    s = conv2d.schedule()
    s["out.update"].reorder("o", "y", "c", "v", "u", "x").parallel("o").vectorize("x", VECTOR)
    return s


def expert():
    """The padded picture is made once; a tile of channels by columns stays in registers for all of its sums."""
    s = conv2d.schedule()
    s["padded"].compute_root().vectorize("x2", VECTOR)
    out = s["out.update"]
    out.split("o", "oo", "ot", CHANNELS).split("ot", "ov", "ol", VECTOR).split("x", "xo", "xi", COLUMNS)
    out.reorder("oo", "y", "xo", "c", "v", "u", "xi", "ov", "ol").parallel("oo")
    out.unroll("xi").unroll("ov").vectorize("ol")
    s.cache_write("out", at="out.update.xo", memory="reg", layout="o y x -> y x o")
    s.cache_read("weights", at="out.update.oo", layout=f"o c v u -> o//{CHANNELS} c v u o%{CHANNELS}")
    return s


SCHEDULES = (by_rows, expert)


def inputs(CO=40, CI=12, size=30):
    """An activation after a rectifier, and weights scaled as at the start of training."""
    rng = np.random.default_rng(0)
    image = np.maximum(rng.standard_normal((CI, size, size)), 0)
    return np.float32(image), np.float32(rng.standard_normal((CO, CI, 3, 3)) * np.sqrt(2 / (9 * CI)))


def independent(image, weights):
    wide = image.astype(np.float64)
    planes = [sum(signal.correlate(p, k, "same", "direct") for p, k in zip(wide, w, strict=True)) for w in weights]
    return np.float32(planes)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(conv2d, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

"""A convolutional layer, 3x3 with padding, bias and rectifier, over a batch of pictures with channels last.

A register tile of pixels by output channels runs through all its sums; weights are packed for it. The input is staged:
a few padded rows, with all their channels, lie in the cache while every output channel of a strip is computed.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

B, H, W, CI, CO = tw.sizes("B H W CI CO")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
# A tile of registers: rows by pixels by output channels, sixteen vectors where there are 32 registers.
ROWS, PIXELS, CHANNELS = 2, min(4, REGISTERS.count // 4 - 1), 2 * VECTOR


@tw.kernel
def conv_layer(image: tw.f32[B, H, W, CI], weights: tw.f32[3, 3, CI, CO], bias: tw.f32[CO]):
    n, y, x, o = tw.vars("n y x o")
    r = tw.rdom(v=3, u=3, c=CI)
    padded = tw.constant_exterior(image, 0.0, None, (0, H), (0, W), None, name="padded")
    total, out = tw.func("total"), tw.func("out")
    total[n, y, x, o] = bias[o]
    total[n, y, x, o] += padded[n, y + r.v - 1, x + r.u - 1, r.c] * weights[r.v, r.u, r.c, o]
    out[n, y, x, o] = tw.maximum(total[n, y, x, o], 0.0)
    return out[:B, :H, :W, :CO]


def by_rows():
    """Vectors of output channels, a row of pixels at a time; the picture is read through its padding."""
    s = conv_layer.schedule()
    s["out"].parallel("y").vectorize("o", VECTOR)
    s["total"].compute_at("out.y")
    s["total.init"].vectorize("o", VECTOR)
    s["total.update"].reorder("n", "y", "x", "v", "u", "c", "o").vectorize("o", VECTOR)
    return s


def expert():
    """Strips of rows whose input is staged; a tile of pixels by channels stays in registers for all of its sums. Tiles are
    low, so that few of their pixels lie beyond the picture, where sums of zeros cost less than conditions in the loop.
    Weights are packed: once for all calls where they are given by `prepack`.
    """
    s = conv_layer.schedule()
    s["out"].split("y", "yo", "yi", 4).parallel("yo").vectorize("o", VECTOR)
    s["total"].compute_at("out.yo").align("y", ROWS)
    s["total"].align("x", PIXELS)
    s["padded"].compute_at("out.yo").vectorize("x3", VECTOR)
    total = s["total.update"].tile("y", "x", "yo", "xo", "yi", "xi", ROWS, PIXELS)
    total.split("o", "oo", "ot", CHANNELS).split("ot", "ov", "ol", VECTOR)
    total.reorder("n", "oo", "yo", "xo", "v", "u", "c", "yi", "xi", "ov", "ol")
    total.unroll("yi").unroll("xi").unroll("ov").vectorize("ol")
    s.cache_write("total", at="total.update.xo", memory="reg")
    s.layout("weights", f"v u c o -> o//{CHANNELS} v u c o%{CHANNELS}")
    return s


SCHEDULES = (by_rows, expert)


def inputs(B=2, size=30, CI=12, CO=40):
    """Activations after a rectifier, and weights scaled as at the start of training."""
    rng = np.random.default_rng(0)
    image = np.maximum(rng.standard_normal((B, size, size, CI), dtype=np.float32), 0)
    weights = rng.standard_normal((3, 3, CI, CO)) * np.sqrt(2 / (9 * CI))
    return image, np.float32(weights), rng.standard_normal(CO, dtype=np.float32) / 10


def independent(image, weights, bias):
    """A product of matrices for each place in the filter."""
    _, height, width, _ = image.shape
    wide = np.pad(np.float64(image), ((0, 0), (1, 1), (1, 1), (0, 0)))
    total = np.float64(bias)
    for v, u in np.ndindex(3, 3):
        total = total + wide[:, v : v + height, u : u + width] @ weights[v, u]
    return np.float32(np.maximum(total, 0))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(conv_layer, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

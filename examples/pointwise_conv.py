"""A 1x1 convolution with bias and rectifier: all channels of a pixel are mixed, pixel by pixel.

With channels last a batch of pictures is one long list of pixels, `image.reshape(-1, channels)`, whatever their heights
and widths: no tile ends at the end of a row.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

P, CI, CO = tw.sizes("P CI CO")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
PIXELS, CHANNELS = REGISTERS.count // 2 - 2, 2 * VECTOR  # a tile of registers: pixels by output channels


@tw.kernel
def pointwise_conv(image: tw.f32[P, CI], weights: tw.f32[CI, CO], bias: tw.f32[CO]):
    p, o = tw.vars("p o")
    c = tw.rdom(c=CI)
    total, out = tw.func("total"), tw.func("out")
    total[p, o] = bias[o]
    total[p, o] += image[p, c] * weights[c, o]
    out[p, o] = tw.maximum(total[p, o], 0.0)
    return out[:P, :CO]


def by_stages():
    """All sums in vectors of channels, then the rectifier."""
    s = pointwise_conv.schedule()
    s["total"].compute_root()
    s["total.init"].parallel("p", 64).vectorize("o", VECTOR)
    s["total.update"].reorder("p", "c", "o").parallel("p", 64).vectorize("o", VECTOR)
    s["out"].parallel("p", 64).vectorize("o", VECTOR)
    return s


def expert():
    """All output channels of a strip of pixels, which stays in the cache, a tile of registers at a time. Weights are
    packed: once for all calls where they are given by `prepack`.
    """
    s = pointwise_conv.schedule()
    s["out"].split("p", "strip", "p", 4 * PIXELS).parallel("strip").vectorize("o", VECTOR)
    s["total"].compute_at("out.strip")
    s["total.init"].vectorize("o", VECTOR)
    total = s["total.update"].split("p", "pt", "pi", PIXELS)
    total.split("o", "oo", "ot", CHANNELS).split("ot", "ov", "ol", VECTOR)
    total.reorder("oo", "pt", "c", "pi", "ov", "ol").unroll("pi").unroll("ov").vectorize("ol")
    s.cache_write("total", at="total.update.pt", memory="reg")
    s.layout("weights", f"c o -> o//{CHANNELS} c o%{CHANNELS}")
    return s


SCHEDULES = (by_stages, expert)


def inputs(P=300, CI=40, CO=72):
    """Activations after a rectifier, and weights scaled as at the start of training."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)  # noqa: E731
    return np.maximum(normal(P, CI), 0), normal(CI, CO) * np.float32((2 / max(CI, 1)) ** 0.5), normal(CO) / 10


def independent(image, weights, bias):
    return np.float32(np.maximum(np.float64(image) @ np.float64(weights) + bias, 0))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(pointwise_conv, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

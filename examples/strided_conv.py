"""A convolution that halves its pictures: a square filter of any size at every second pixel, with bias and rectifier.

Filters stand on pixels 0, 2, 4, ... and reach as far to one side as to the other; beyond the edges lie zeros. The first
layer of many networks is one of 7x7 over three colours, later ones are 3x3. As in conv_layer.py a tile of pixels by
output channels stays in registers for all its sums; the pixels that it reads lie two apart.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

B, H, W, R, CI, CO = tw.sizes("B H W R CI CO")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
# A tile of registers: rows by pixels by output channels, sixteen vectors where there are 32 registers.
ROWS, PIXELS, CHANNELS = 2, min(4, REGISTERS.count // 4 - 1), 2 * VECTOR
STRIDE = 2


@tw.kernel
def strided_conv(image: tw.f32[B, H, W, CI], weights: tw.f32[R, R, CI, CO], bias: tw.f32[CO], *, stride=STRIDE):
    n, y, x, o = tw.vars("n y x o")
    r = tw.rdom(v=R, u=R, c=CI)
    padded = tw.constant_exterior(image, 0.0, None, (0, H), (0, W), None, name="padded")
    total, out = tw.func("total"), tw.func("out")
    total[n, y, x, o] = bias[o]
    total[n, y, x, o] += (
        padded[n, stride * y + r.v - R // 2, stride * x + r.u - R // 2, r.c] * weights[r.v, r.u, r.c, o]
    )
    out[n, y, x, o] = tw.maximum(total[n, y, x, o], 0.0)
    return out[:B, : (H + stride - 1) // stride, : (W + stride - 1) // stride, :CO]


def by_rows(stride=STRIDE):
    """Vectors of output channels, a row of pixels at a time; the picture is read through its padding."""
    s = strided_conv.schedule(stride=stride)
    s["out"].parallel("y").vectorize("o", VECTOR)
    s["total"].compute_at("out.y")
    s["total.init"].vectorize("o", VECTOR)
    s["total.update"].reorder("n", "y", "x", "v", "u", "c", "o").vectorize("o", VECTOR)
    return s


def expert(stride=STRIDE):
    """Strips of rows whose input is staged; a tile of pixels by channels stays in registers for all of its sums. Tiles are
    low, so that few of their pixels lie beyond the picture, where sums of zeros cost less than conditions in the loop.
    Weights are packed: once for all calls where they are given by `prepack`.
    """
    s = strided_conv.schedule(stride=stride)
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


def inputs(B=2, size=30, R=3, CI=12, CO=40):
    """Activations after a rectifier, and weights scaled as at the start of training."""
    rng = np.random.default_rng(0)
    image = np.maximum(rng.standard_normal((B, size, size, CI), dtype=np.float32), 0)
    weights = rng.standard_normal((R, R, CI, CO)) * np.sqrt(2 / (R * R * CI))
    return image, np.float32(weights), rng.standard_normal(CO, dtype=np.float32) / 10


def independent(image, weights, bias, stride=STRIDE):
    """A product of matrices for each place in the filter."""
    (_, height, width, _), reach = image.shape, len(weights) // 2
    wide = np.pad(np.float64(image), ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    total = np.float64(bias)
    for v, u in np.ndindex(weights.shape[:2]):
        total = total + wide[:, v : v + height : stride, u : u + width : stride] @ weights[v, u]
    return np.float32(np.maximum(total, 0))


def check(stride=STRIDE, **sizes):
    args = inputs(**sizes)
    testing.check_schedules(strided_conv, SCHEDULES, args, independent(*args, stride), statics={"stride": stride})


if __name__ == "__main__":
    check()
    check(size=28, R=7, CI=3)

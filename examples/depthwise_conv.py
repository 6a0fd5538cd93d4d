"""A depthwise convolution: every channel of a picture by its own 3x3 filter, with bias and rectifier, at every pixel or
at every second one.

There is little to compute for what is read, so pictures are read where they lie, without a padded copy, and some pixels
side by side are computed together in vectors of channels, so that what several of them read is loaded once.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

import tilewright as tw
from tilewright import testing

B, H, W, C = tw.sizes("B H W C")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
PIXELS = 2  # in a row, and rows, that are computed together
STRIDE = 1


@tw.kernel
def depthwise_conv(image: tw.f32[B, H, W, C], filters: tw.f32[3, 3, C], bias: tw.f32[C], *, stride=STRIDE):
    n, y, x, c = tw.vars("n y x c")
    padded = tw.constant_exterior(image, 0.0, None, (0, H), (0, W), None, name="padded")
    out = tw.func("out")
    total = bias[c]
    for v, u in np.ndindex(3, 3):
        total = total + padded[n, stride * y + v - 1, stride * x + u - 1, c] * filters[v, u, c]
    out[n, y, x, c] = tw.maximum(total, 0.0)
    return out[:B, : (H + stride - 1) // stride, : (W + stride - 1) // stride, :C]


def by_pixels(stride=STRIDE):
    """Vectors of channels, pixel by pixel, from a padded copy of the picture."""
    s = depthwise_conv.schedule(stride=stride)
    s["padded"].compute_root().parallel("x1").vectorize("x3", VECTOR)
    s["out"].parallel("y").vectorize("c", VECTOR)
    return s


def expert(stride=STRIDE):
    """Two by two pixels at once: the sixteen elements that they read are loaded for all of them."""
    s = depthwise_conv.schedule(stride=stride)
    out = s["out"].tile("y", "x", "yo", "xo", "yi", "xi", PIXELS, PIXELS).split("c", "co", "ci", VECTOR)
    out.reorder("n", "yo", "xo", "co", "yi", "xi", "ci").parallel("yo").unroll("yi").unroll("xi").vectorize("ci")
    return s


SCHEDULES = (by_pixels, expert)


def inputs(B=2, size=30, C=40):
    """Activations after a rectifier, and filters."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)  # noqa: E731
    return np.maximum(normal(B, size, size, C), 0), normal(3, 3, C) / 3, normal(C) / 10


def independent(image, filters, bias, stride=STRIDE):
    image, filters = np.float64(image), np.float64(filters)
    planes = [
        [ndimage.correlate(p[..., c], filters[..., c], mode="constant") for c in range(p.shape[-1])] for p in image
    ]
    sums = np.moveaxis(planes, 1, -1)[:, ::stride, ::stride]
    return np.float32(np.maximum(sums + bias, 0))


def check(stride=STRIDE, **sizes):
    args = inputs(**sizes)
    testing.check_schedules(depthwise_conv, SCHEDULES, args, independent(*args, stride), statics={"stride": stride})


if __name__ == "__main__":
    for stride in (1, 2):
        check(stride)

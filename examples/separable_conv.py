"""A depthwise separable convolution: each channel by its own 3x3 filter, then all channels mixed, pixel by pixel.

Pictures are batches with channels last, as both halves want their vectors. What the filters give is never stored as a
whole: a few rows at a time, with all their channels, go from the cache into the product that mixes them.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

import tilewright as tw
from tilewright import testing

B, H, W, CI, CO = tw.sizes("B H W CI CO")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4
PIXELS, CHANNELS = REGISTERS.count // 2 - 2, 2 * VECTOR  # a tile of registers: pixels by output channels


@tw.kernel
def separable_conv(
    image: tw.f32[B, H, W, CI], filters: tw.f32[3, 3, CI], bias: tw.f32[CI], mix: tw.f32[CI, CO], shift: tw.f32[CO]
):
    n, y, x, c, o = tw.vars("n y x c o")
    k = tw.rdom(k=CI)
    padded = tw.constant_exterior(image, 0.0, None, (0, H), (0, W), None, name="padded")
    filtered, mixed, out = (tw.func(f) for f in ("filtered", "mixed", "out"))
    total = bias[c]
    for v, u in np.ndindex(3, 3):
        total = total + padded[n, y + v - 1, x + u - 1, c] * filters[v, u, c]
    filtered[n, y, x, c] = tw.maximum(total, 0.0)
    mixed[n, y, x, o] = shift[o]
    mixed[n, y, x, o] += filtered[n, y, x, k] * mix[k, o]
    out[n, y, x, o] = tw.maximum(mixed[n, y, x, o], 0.0)
    return out[:B, :H, :W, :CO]


def by_stages():
    """All of the filters' results, then the product, in vectors of channels."""
    s = separable_conv.schedule()
    s["filtered"].compute_root().parallel("y").vectorize("c", VECTOR)
    s["mixed"].compute_root()
    s["mixed.init"].parallel("y").vectorize("o", VECTOR)
    s["mixed.update"].reorder("n", "y", "x", "k", "o").parallel("y").vectorize("o", VECTOR)
    s["out"].parallel("y").vectorize("o", VECTOR)
    return s


def expert():
    """A strip of rows at a time: filtered in vectors of channels, mixed in a tile of registers."""
    s = separable_conv.schedule()
    s["out"].split("y", "yo", "yi", 4).parallel("yo").vectorize("o", VECTOR)
    s["mixed"].compute_at("out.yo")
    s["filtered"].compute_at("out.yo").vectorize("c", VECTOR)
    mixed = s["mixed.update"].split("x", "xt", "xi", PIXELS)
    mixed.split("o", "oo", "ot", CHANNELS).split("ot", "ov", "ol", VECTOR)
    mixed.reorder("n", "y", "oo", "xt", "k", "xi", "ov", "ol").unroll("xi").unroll("ov").vectorize("ol")
    s.cache_write("mixed", at="mixed.update.xt", memory="reg")
    return s


SCHEDULES = (by_stages, expert)


def inputs(B=2, size=20, CI=24, CO=40):
    """An activation after a rectifier, and weights scaled as at the start of training."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)  # noqa: E731
    image = np.maximum(normal(B, size, size, CI), 0)
    return image, normal(3, 3, CI) / 3, normal(CI) / 10, normal(CI, CO) * np.float32((2 / CI) ** 0.5), normal(CO) / 10


def independent(image, filters, bias, mix, shift):
    image, filters, mix = np.float64(image), np.float64(filters), np.float64(mix)
    planes = [
        [ndimage.correlate(p[..., c], filters[..., c], mode="constant") for c in range(p.shape[-1])] for p in image
    ]
    active = np.maximum(np.moveaxis(planes, 1, -1) + bias, 0)
    return np.float32(np.maximum(active @ mix + shift, 0))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(separable_conv, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()

"""Lesson 2: a picture made brighter. Types: 8 bits are widened to floats, limited, and narrowed again."""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image

import tilewright as tw

H, W = tw.sizes("H W")


@tw.kernel
def brighter(picture: tw.u8[H, W, 3]):
    y, x, c = tw.vars("y x c")
    result = tw.func("brighter")
    value = tw.cast(tw.f32, picture[y, x, c])
    result[y, x, c] = tw.cast(tw.u8, tw.minimum(value * 1.5, 255.0))
    return result[:H, :W, :3]


def test_a_photograph_becomes_brighter():
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        picture = np.asarray(photograph)
    expected = np.minimum(picture.astype(np.float32) * np.float32(1.5), 255).astype(np.uint8)
    np.testing.assert_array_equal(brighter(picture), expected)
    np.testing.assert_array_equal(brighter(picture[::2, ::-1]), expected[::2, ::-1])  # any strides

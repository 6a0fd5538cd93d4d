"""Lesson 16: planar, interleaved and packed pictures. One algorithm, forms of its schedule for the strides of a call."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

H, W, C = tw.sizes("H W C")


@tw.kernel
def brighter(picture: tw.u8[C, H, W], by: tw.u8):
    c, y, x = tw.vars("c y x")
    out = tw.func("out")
    wide = tw.cast(tw.u16, picture[c, y, x]) + tw.cast(tw.u16, by)
    out[c, y, x] = tw.cast(tw.u8, tw.minimum(wide, 255))
    return out[:C, :H, :W]


def by_numpy(picture, by):
    return np.minimum(picture.astype(np.int32) + by, 255)


def planar(channels, height, width):
    """One plane after the other."""
    return np.arange(channels * height * width).astype(np.uint8).reshape(channels, height, width)


def interleaved(channels, height, width):
    """The channels of a pixel side by side."""
    return np.ascontiguousarray(planar(channels, height, width).transpose(1, 2, 0)).transpose(2, 0, 1)


def spread(channels, height, width):
    """Rows from the bottom up, every other element."""
    return planar(channels, height, 2 * width)[:, ::-1, ::2]


LAYOUTS = (planar, interleaved, spread)
SHAPES = ((3, 20, 33), (1, 1, 1), (4, 5, 16), (3, 0, 7))


def for_planes(s):
    """Whole rows in vectors."""
    s["out"].vectorize("x", 16)


def for_pixels(s):
    """Three channels, known: unrolled over what is shared by the vectors of a block of pixels."""
    s["out"].bound("c", 0, 3)
    s["out"].split("x", "x", "lane", 16).reorder("y", "x", "c", "lane").unroll("c").vectorize("lane")


def by_strides(s):
    """A form for each: planes where the elements of a row are side by side, pixels where their channels are."""
    rows = s.specialize("out", "(stride(picture, 2) == 1) & (stride(out, 2) == 1)", "rows")
    rows.split("x", "x", "lane", 16).vectorize("lane")
    pixels = s.specialize("out", "(stride(picture, 0) == 1) & (stride(out, 0) == 1) & (C == 3)", "pixels")
    pixels.reorder("y", "x", "c").unroll("c")


@pytest.mark.parametrize("act", [for_planes, for_pixels, by_strides], ids=lambda f: f.__name__)
def test_pictures_of_any_strides(act, golden):
    s = brighter.schedule()
    act(s)
    golden(f"{s}\n\n{s.loops()}")
    fast = brighter.compile(s)
    for shape in SHAPES:
        if act is for_pixels and shape[0] != 3:
            with pytest.raises(tw.BoundsError) as refused:
                fast(planar(*shape), 77)
            assert refused.value.code == "bounds.schedule"
            continue
        for source in LAYOUTS:
            for target in LAYOUTS:
                picture, out = source(*shape), target(*shape)
                fast(picture, 77, out=out)
                np.testing.assert_array_equal(out, by_numpy(picture, 77))


def packed(s):
    """The caller's result is in pixels of four channels, the last of which is padding that stays as it is."""
    s.layout("out", "c y x -> c//4 y x c%4", given=True)


def test_a_result_in_packed_pixels(golden):
    s = brighter.schedule()
    packed(s)
    golden(f"{s}\n\n{s.loops()}")
    picture = planar(3, 5, 7)
    out = np.full((1, 5, 7, 4), 9, np.uint8)
    brighter.compile(s)(picture, 77, out=out)
    np.testing.assert_array_equal(out[0, :, :, :3], by_numpy(picture, 77).transpose(1, 2, 0))
    np.testing.assert_array_equal(out[..., 3], 9)


def test_strides_of_what_has_none_are_refused():
    s = brighter.schedule()
    with pytest.raises(tw.ScheduleError, match="known: out, picture") as refused:
        s.specialize("out", "stride(wide, 0) == 1", "form")
    assert refused.value.code == "schedule.condition" and str(refused.value).count("condition 'stride") == 1

"""Lesson 7: two stages. What a stage needs of another one, and of the input, follows from how it reads."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import cbook
from PIL import Image

import tilewright as tw

H, W = tw.sizes("H W")


def separable_blur(at, y, x):
    """Three columns, then three rows, in 16 bits."""
    across, blurred = tw.func("across"), tw.func("blurred")
    across[y, x] = (at(y, x - 1) + 2 * at(y, x) + at(y, x + 1)) // 4
    blurred[y, x] = (across[y - 1, x] + 2 * across[y, x] + across[y + 1, x]) // 4
    result = tw.func("result")
    result[y, x] = tw.cast(tw.u8, blurred[y, x])
    return result


@tw.kernel
def smaller(picture: tw.u8[H, W]):
    y, x = tw.vars("y x")
    result = separable_blur(lambda y, x: tw.cast(tw.u16, picture[y, x]), y, x)
    return result[1 : H - 1, 1 : W - 1]


@tw.kernel
def whole(picture: tw.u8[H, W]):
    y, x = tw.vars("y x")
    edge = tw.repeat_edge(picture)
    result = separable_blur(lambda y, x: tw.cast(tw.u16, edge[y, x]), y, x)
    return result[:H, :W]


@pytest.fixture(scope="module")
def photograph():
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as f:
        return np.asarray(f.convert("L"))[:200]


def by_numpy(p):
    p = p.astype(np.uint16)
    across = (p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]) // 4
    return ((across[:-2] + 2 * across[1:-1] + across[2:]) // 4).astype(np.uint8)


def test_the_inner_part_of_a_picture(photograph):
    np.testing.assert_array_equal(smaller(photograph), by_numpy(photograph))


def test_the_whole_picture_with_its_edge_repeated(photograph):
    np.testing.assert_array_equal(whole(photograph), by_numpy(np.pad(photograph, 1, mode="edge")))


def test_what_is_needed_of_the_input():
    assert smaller.required_inputs(H=20, W=30) == {"picture": ((0, 20), (0, 30))}


def test_schedules_of_the_two_stages_agree(photograph):
    expected = by_numpy(np.pad(photograph, 1, mode="edge"))
    root = whole.schedule()
    root["across"].compute_root().vectorize("x", 16)
    rows = whole.schedule()
    rows["across"].compute_at("result.y")
    tiles = whole.schedule()
    tiles["result"].tile("y", "x", "yo", "xo", "yi", "xi", 16, 32).parallel("yo")
    tiles["across"].compute_at("result.xo").vectorize("x", 16)
    for s in (root, rows, tiles):
        np.testing.assert_array_equal(whole.compile(s)(photograph), expected)

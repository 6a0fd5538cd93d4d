"""A 3x3 box blur of a photograph in 8 bits: two stages, and how far apart they are computed.

Sums are 16 bits wide. The edge of the picture is repeated; only rows and columns at the edge pay for that.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image
from scipy import ndimage

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
LANES = tw.host_registers().width // 2  # of 16 bits


@tw.kernel
def blur(picture: tw.u8[H, W]):
    y, x = tw.vars("y x")
    inside = tw.repeat_edge(picture)
    wide = lambda y, x: tw.cast(tw.u16, inside[y, x])  # noqa: E731
    across, blurred = tw.func("across"), tw.func("blurred")
    across[y, x] = wide(y, x - 1) + wide(y, x) + wide(y, x + 1)
    blurred[y, x] = tw.cast(tw.u8, (across[y - 1, x] + across[y, x] + across[y + 1, x]) // 9)
    return blurred[:H, :W]


def by_stages():
    """All sums across first, then all sums down: every value once, but the sums travel through memory."""
    s = blur.schedule()
    s["across"].compute_root().vectorize("x", LANES)
    s["blurred"].vectorize("x", LANES)
    return s


def inlined():
    """Nothing is kept: each sum across is computed three times."""
    s = blur.schedule()
    s["across"].compute_inline()
    s["blurred"].parallel("y").vectorize("x", LANES)
    return s


def expert():
    """Strips of 32 rows: the sums of a strip stay in the cache, and only two rows of a strip are computed twice."""
    s = blur.schedule()
    s["blurred"].split("y", "strip", "row", 32).parallel("strip").vectorize("x", LANES)
    s["across"].compute_at("blurred.strip").vectorize("x", LANES)
    return s


SCHEDULES = (by_stages, inlined, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.asarray(photograph.convert("L")), (repeat, repeat))


def check(rows=600):
    picture = inputs()[:rows]
    sums = ndimage.convolve(picture.astype(np.int64), np.ones((3, 3), np.int64), mode="nearest")
    testing.check_schedules(blur, SCHEDULES, (picture,), independent=(sums // 9).astype(np.uint8))


if __name__ == "__main__":
    check()

"""A 3x3 box blur of a photograph in 8 bits: two stages, and the classic ways to arrange them.

Sums are 16 bits wide. The edge of the picture is repeated; only rows and columns at the edge pay for that. What the
schedules trade is locality against work done twice against parallel strips: run as a program, this prints how often a
sum across is computed for each pixel, how much of the sums is stored at once, and the time.
"""

from __future__ import annotations

import timeit

import numpy as np
from matplotlib import cbook
from PIL import Image
from scipy import ndimage

import tilewright as tw
from tilewright import testing
from tilewright.schedule.idioms import line_buffer

H, W = tw.sizes("H W")
LANES = tw.host_registers().width // 2  # of 16 bits
TILE = 32, 8 * LANES


@tw.kernel
def blur(picture: tw.u8[H, W]):
    y, x = tw.vars("y x")
    inside = tw.repeat_edge(picture)
    wide = lambda y, x: tw.cast(tw.u16, inside[y, x])  # noqa: E731
    across, blurred = tw.func("across"), tw.func("blurred")
    across[y, x] = wide(y, x - 1) + wide(y, x) + wide(y, x + 1)
    blurred[y, x] = tw.cast(tw.u8, (across[y - 1, x] + across[y, x] + across[y + 1, x]) // 9)
    return blurred[:H, :W]


def breadth_first():
    """All sums across, then all sums down: every value once, but the sums travel through memory."""
    s = blur.schedule()
    s["across"].compute_root().parallel("y").vectorize("x", LANES)
    s["blurred"].parallel("y").vectorize("x", LANES)
    return s


def full_fusion():
    """Nothing is kept: each sum across is computed three times."""
    s = blur.schedule()
    s["across"].compute_inline()
    s["blurred"].parallel("y").vectorize("x", LANES)
    return s


def sliding_window():
    """Three rows of sums are kept, each computed once: least work, least memory, but one row after the other."""
    s = blur.schedule()
    s["blurred"].vectorize("x", LANES)
    line_buffer(s, "across", at="blurred.y", axis="y", lines=3)
    s["across"].vectorize("x", LANES)
    return s


def in_tiles(s):
    s["blurred"].tile(("y", "x"), ("yo", "xo"), ("yi", "xi"), TILE).parallel("yo").vectorize("xi", LANES)


def overlapped_tiles():
    """The sums that a tile needs, in the cache; those at the seams of tiles are computed twice."""
    s = blur.schedule()
    in_tiles(s)
    s["across"].compute_at("blurred.xo").vectorize("x", LANES)
    return s


def sliding_in_tiles():
    """A window of three rows slides down every tile: of the sums only these are kept."""
    s = blur.schedule()
    in_tiles(s)
    line_buffer(s, "across", at="blurred.yi", axis="y", lines=3, within="blurred.xo")
    s["across"].vectorize("x", LANES)
    return s


def sliding_in_strips():
    """A window slides down every strip of 32 rows; only two rows of a strip are computed twice."""
    s = blur.schedule()
    s["blurred"].split("y", "strip", "row", 32).parallel("strip").vectorize("x", LANES)
    line_buffer(s, "across", at="blurred.row", axis="y", lines=3, within="blurred.strip")
    s["across"].vectorize("x", LANES)
    return s


def expert():
    """Eight sums across serve six pixels of a column, a vector of columns at a time, and never leave their registers."""
    s = blur.schedule()
    b = s["blurred"].split("y", "strip", "row", 48).split("row", "block", "down", 6).split("x", "column", "lane", LANES)
    b.reorder("strip", "block", "column", "down", "lane").parallel("strip").unroll("down").vectorize("lane")
    across = s["across"].compute_at("blurred.column").store_in("reg").unroll("y")
    across.split("x", "vector", "lane", LANES, tail="round_up").vectorize("lane")
    return s


CLASSIC = (breadth_first, full_fusion, sliding_window, overlapped_tiles, sliding_in_tiles, sliding_in_strips)
SCHEDULES = (*CLASSIC, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey; `repeat` lays it out that many times each way."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        return np.tile(np.asarray(photograph.convert("L")), (repeat, repeat))


def independent(picture):
    sums = ndimage.convolve(picture.astype(np.int64), np.ones((3, 3), np.int64), mode="nearest")
    return (sums // 9).astype(np.uint8)


def check(rows=600):
    picture = inputs()[:rows]
    testing.check_schedules(blur, SCHEDULES, (picture,), independent=independent(picture))


def table(repeat=4, runs=30):
    """A line a schedule: sums across computed per pixel, sums kept at a time, and the best time of some runs."""
    small, large = inputs(), inputs(repeat)
    named = {f.__name__: f() for f in SCHEDULES}
    for name, s in {"(unscheduled)": None, **named}.items():
        account = blur.simulate(s, machine="generic-avx2", sizes={"H": small.shape[0], "W": small.shape[1]}).account
        sums = sum(t.writes for t in account.traffic if t.tensor == "across")  # inlined: three loads each
        sums = sums or sum(t.reads for t in account.traffic if t.tensor == "picture") // 3
        kept = sum(f.peak for f in account.footprint)
        fast, out = blur.compile(s), np.empty_like(large)
        seconds = min(timeit.repeat(lambda: fast(large, out=out), number=1, repeat=runs))  # noqa: B023
        print(f"{name:18} {sums / small.size:5.2f} sums a pixel {kept:8,} bytes kept {seconds * 1e3:7.3f} ms")
    seconds = min(timeit.repeat(lambda: ndimage.uniform_filter(large, 3, mode="nearest"), number=1, repeat=3))
    print(f"{'SciPy':18} {'':40} {seconds * 1e3:7.3f} ms")


if __name__ == "__main__":
    check()
    table()

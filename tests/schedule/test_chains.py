"""Chains of tiled stages: what they need of each other stays short, and with it the time to build the nest."""

import pytest

import tilewright as tw
from tests.schedule.helpers import agrees, good

M, N = tw.sizes("M N")
TOGETHER = 3  # stages that share a tile


@tw.kernel
def chain(x: tw.i32[M, N], *, steps):
    i, j = tw.vars("i j")
    before = tw.repeat_edge(x)
    for step in range(1, steps + 1):
        f = tw.func(f"f{step}")
        f[i, j] = before[i - 1, j] + before[i + 1, j - 2] - before[i, j + 1]
        before = f
    return before[:M, :N]


def tiled(steps):
    s = chain.schedule(steps=steps)
    for last in range(steps, 0, -TOGETHER):
        if last < steps:
            s[f"f{last}"].compute_root()
        s[f"f{last}"].tile(("i", "j"), ("io", "jo"), ("i", "j"), (8, 32))
        for step in range(last - 1, max(last - TOGETHER, 0), -1):
            s[f"f{step}"].compute_at(f"f{last}.jo")
        for step in range(last, max(last - TOGETHER, 0), -1):
            s[f"f{step}"].split("i", "i", "row", 2).split("j", "j", "lane", 4).reorder("i", "j", "row", "lane")
    return s


@pytest.mark.parametrize("steps", [6, 12, 36])
def test_regions_stay_short(steps):
    """Each stage at the root reaches as far beyond the picture as the stages behind it; a tile's are of fixed size."""
    text = str(tiled(steps).loops())
    for k in range(steps - TOGETHER, 0, -TOGETHER):
        far = steps - k
        assert f"produce f{k} over i -{far}..M + {far}, j -{2 * far}..N + {far}\n" in text
    for k in range(1, steps):
        if k % TOGETHER:
            more = TOGETHER - k % TOGETHER
            assert f"buffer f{k}: i32[{8 + 2 * more}, {32 + 3 * more}] in main" in text
    assert max(map(len, text.split("\n"))) < 400


@pytest.mark.parametrize("sizes", [{"M": 1, "N": 1}, {"M": 11, "N": 37}, {"M": 0, "N": 5}])
def test_values(sizes):
    s = tiled(6)
    good(s)
    agrees(s, sizes)


@tw.kernel
def twice(x: tw.i32[M, N]):
    i, j = tw.vars("i j")
    near, f = tw.func("near"), tw.func("f")
    near[i, j] = x[i, j] + 1
    f[i, j] = near[i, j] * near[i, j]
    return f[:M, :N]


@pytest.mark.parametrize("width", [4, 16])
def test_a_vector_of_a_tile_runs_once(width):
    """A producer's split into vectors of its consumer's tile has one iteration, at the last tile as well."""
    s = twice.schedule()
    s["f"].split("j", "strip", "j", width).reorder("strip", "i", "j")
    s["near"].compute_at("f.strip").split("j", "vector", "lane", width)
    text = good(s)
    assert "for vector in 0..1\n" in text and "min(1" not in text
    for n in (0, 1, width - 1, width, 2 * width + 1):
        agrees(s, {"M": 3, "N": n})

"""Lesson 24: double buffering three ways. What comes next is fetched while what is there is used."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

H, W = tw.sizes("H W")


@tw.kernel
def edges(picture: tw.i32[3, H, W]):
    c, y, x = tw.vars("c y x")
    lit, edge = tw.func("lit"), tw.func("edge")
    lit[c, y, x] = 2 * picture[c, y, x] + 1
    edge[c, y, x] = 4 * lit[c, y, x] - lit[c, y - 1, x] - lit[c, y + 1, x] - lit[c, y, x - 1] - lit[c, y, x + 1]
    return edge[:3, 1 : H - 1, 1 : W - 1]


def by_numpy(picture):
    p = 2 * picture + 1
    around = p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]
    return 4 * p[:, 1:-1, 1:-1] - around


def planes(s):
    """A copy of the next plane is on its way while one is used."""
    s["lit"].compute_root()
    s.cache_read("lit", at="edge.c", memory="spm", name="staged").double_buffer(2)


def planes_in_a_fold(s):
    """Two planes by hand: each is computed when its turn comes, over the one before the last."""
    s["lit"].store_root().compute_at("edge.c").fold_storage("c", 2)
    s["lit"].store_in("spm")


def tiles(s):
    """A copy of the next tile of 16 x 16, with what is around it, is on its way while one is used."""
    s["lit"].compute_root()
    s["edge"].tile("y", "x", "yo", "xo", "yi", "xi", 16, 16)
    s.cache_read("lit", at="edge.xo", memory="spm", name="staged").double_buffer(2)


def tiles_out(s):
    """The other direction: a tile of the result is on its way out while the next one is computed."""
    s["edge"].tile("y", "x", "yo", "xo", "yi", "xi", 16, 16)
    s["lit"].compute_at("edge.xo")
    s.cache_write("edge", at="edge.xo", memory="spm")["edge"].double_buffer(2)


# what holds two -> its extents, slots first, for pictures of 34 x 50
ROOM = {
    planes: (2, 1, 34, 50),
    planes_in_a_fold: (1, 2, 34, 50),
    tiles: (2, 1, 18, 18),
    tiles_out: (2, 1, 16, 16),
}


@pytest.mark.parametrize("act", ROOM, ids=lambda f: f.__name__)
def test_room_for_two(act, golden):
    s = edges.schedule(machine="toy")
    act(s)
    golden(f"{s}\n\n{s.loops()}")
    sizes = {"H": 34, "W": 50}
    picture = np.random.default_rng(0).integers(-99, 99, (3, 34, 50)).astype(np.int32)
    run = edges.simulate(s, machine="toy", sizes=sizes, inputs={"picture": picture})
    np.testing.assert_array_equal(run.result, by_numpy(picture))
    np.testing.assert_array_equal(edges.compile(s)(picture), by_numpy(picture))
    (b,) = (b for f in run.account.footprint if f.memory == "spm" for b in f.buffers)
    assert b.slots == ROOM[act][0] and b.slots * b.size == 4 * np.prod(ROOM[act])


def test_what_is_computed_is_not_copied():
    """Slots are filled by copies that run by themselves; a Func that is computed in place is folded instead."""
    s = edges.schedule()
    s["lit"].compute_at("edge.c")
    with pytest.raises(tw.ScheduleError, match="cache_read") as refused:
        s["lit"].double_buffer(2)
    assert refused.value.code == "schedule.ring"

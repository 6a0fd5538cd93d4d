"""Tiles within tiles (cache_write at several loops of one stage)."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.schedule.algorithms import ALL, accumulate, matmul
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.schedule.schedule import Schedule


def tiled(reduction_outside: bool = True) -> Schedule:
    s = Schedule(matmul())
    C = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 4, 3).split("k", "ko", "ki", 2)
    C.split("ii", "im", "ii", 2)
    C.reorder(*(("ko", "io", "jo") if reduction_outside else ("io", "jo", "ko")), "im", "ki", "ii", "ji")
    s.cache_write("C", at="C.update.jo", memory="spm", name="outer")
    s.cache_write("C", at="C.update.im", memory="reg", name="inner")
    return s


def test_nest(golden):
    s = tiled()
    golden(f"{s}\n\n{good(s)}")


def test_first_values_are_computed_into_the_innermost_one():
    nest = good(tiled(reduction_outside=False))
    assert "init inner" in nest and "load inner" in nest and "load outer" not in nest


def test_inout_is_loaded_everywhere():
    s = Schedule(accumulate())
    s["C.update"].split("i", "io", "ii", 2)
    s.cache_write("C", at="C.update.ii", memory="main")
    s.cache_write("C", at="C.update.io", memory="main")
    assert [t.loop for t in s.state.stages[("C", 0)].tiles] == ["io", "ii"]
    nest = good(s)
    assert nest.index("load C_tile_1") < nest.index("load C_tile over")


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_pair_of_loops_of_every_stage(name):
    first = Schedule(ALL[name]())
    for key, stage in first.state.stages.items():
        for pair in combinations([x.name for x in stage.loops], 2):
            s = Schedule(ALL[name]())
            for f in s.state.funcs:
                s[f].compute_root()
            for loop in reversed(pair):
                s.cache_write(key[0], at=s.state.loop_address(key, loop), memory="main")
            good(s)


def test_native():
    for outside in (True, False):
        natively(tiled(outside), {"M": 9, "N": 7, "K": 5}, {"M": 8, "N": 6, "K": 4})


def test_rings_are_the_outermost_ones_that_can_be():
    s = tiled()
    s["C"].double_buffer(3)
    assert [t.slots for t in s.state.stages[("C", 0)].tiles] == [3, 1]
    refused(s, "ring-twice", lambda: s["C"].double_buffer(2))
    good(s)


def test_one_a_loop_and_memory():
    s = tiled()
    refused(s, "tile-twice", lambda: s.cache_write("C", at="C.update.im"), "inner", "at different loops")


def test_two_memories_at_one_loop():
    s = tiled()
    s.cache_write("C", at="C.update.jo", memory="main", name="middle")
    assert [t.name for t in s.state.stages[("C", 0)].tiles] == ["outer", "middle", "inner"]
    nest = good(s)
    assert nest.index("store middle") < nest.index("store outer")
    natively(s, {"M": 9, "N": 7, "K": 5})


def test_a_spatial_reduction_passes_on():
    """What a neighbour has summed comes through the array's network in the first step, from the tile around later."""
    s = Schedule(matmul())
    C = s["C.update"].split("k", "ks", "ki", 4).split("ki", "ko", "kt", 2).reorder("ks", "ko", "i", "kt", "j")
    C.spatial("ks", "x")
    s.cache_write("C", at="C.update.ks", memory="spm", name="outer")
    s.cache_write("C", at="C.update.i", memory="main", name="inner")
    nest = good(s)
    assert "pass inner" in nest and "relay outer" in nest
    natively(s, {"M": 5, "N": 6, "K": 11}, {"M": 3, "N": 2, "K": 4})

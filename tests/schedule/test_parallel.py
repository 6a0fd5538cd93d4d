"""parallel: pure loops and reductions; races that are refused."""

from __future__ import annotations

from tests.schedule.algorithms import blur, histogram, largest, matmul, prefix_sum
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].parallel("i", 2)
    s["C.init"].parallel("i")
    golden(f"{s}\n\n{good(s)}")


def test_reductions():
    for make, stage, loop in ((matmul, "C.update", "k"), (histogram, "hist.update", "y"), (largest, "arg.update", "j")):
        s = Schedule(make())
        s[stage].parallel(loop)
        good(s)
        s = Schedule(make())
        s[stage].parallel(loop, 2)
        good(s)


def test_a_scan_is_no_reduction():
    s = Schedule(prefix_sum())
    refused(s, "not-associative", lambda: s["s.update"].parallel("k"))
    s["s.update"].parallel("i")
    good(s)


def test_storage_outside_races():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y").store_root()
    refused(s, "store-race", lambda: s["blur_y"].parallel("y"), "blur_y.y", "store_at('blur_y.y')")
    s["blur_x"].store_at("blur_y.y")
    s["blur_y"].parallel("y")
    refused(s, "store-race", lambda: s["blur_x"].store_root())
    good(s)


def test_a_tile_in_registers_is_not_shared():
    s = Schedule(matmul())
    C = s["C.update"].split("j", "jo", "ji", 4).reorder("i", "k", "jo", "ji")
    s.cache_write("C", at="C.update.i")
    refused(s, "tile-race", lambda: C.parallel("jo"), "C_tile is in registers")
    s = Schedule(matmul())
    s["C.update"].reorder("i", "k", "j").parallel("j")
    refused(s, "tile-race", lambda: s.cache_write("C", at="C.update.i"))
    s.cache_write("C", at="C.update.i", memory="main")
    good(s)

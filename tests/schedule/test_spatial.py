"""spatial: loops along the axes of a machine's array, over pure and over reduction variables."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import blur, histogram, largest, matmul, prefix_sum
from tests.schedule.helpers import good, refused
from tests.schedule.test_compute_with import twins
from tilewright.hw import load_machine
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.directive import Directive
from tilewright.schedule.machines import check_arrays
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    C = s["C.update"].split("i", "io", "ii", 2).split("k", "ko", "ki", 3)
    C.reorder("io", "ko", "ii", "ki", "j").spatial("ii", "row").spatial("ki", "column")
    golden(f"{s}\n\n{good(s)}")


def test_reductions_keep_their_order():
    for make, stage, loop in ((matmul, "C.update", "k"), (histogram, "hist.update", "y"), (largest, "arg.update", "j")):
        s = Schedule(make())
        s[stage].spatial(loop, "x")
        assert not s.state.reassociations
        good(s)


def test_a_scan_has_no_order_to_lie_in():
    s = Schedule(prefix_sum())
    refused(s, "not-associative", lambda: s["s.update"].spatial("k", "x"), "s.update.k", "lay pure loops out")
    s["s.update"].spatial("i", "x")
    good(s)


def test_a_tile_inside_and_around():
    for at in ("j", "ki", "ii"):
        s = Schedule(matmul())
        C = s["C.update"].split("i", "io", "ii", 2).split("k", "ko", "ki", 3)
        C.reorder("io", "ko", "ki", "ii", "j").spatial("ii", "row").spatial("ki", "column")
        s.cache_write("C", at=f"C.update.{at}", memory="spm")
        s.cache_read("A", at="C.update.ii", memory="spm")
        good(s)


def test_storage_outside_races():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y").store_root()
    refused(s, "store-race", lambda: s["blur_y"].spatial("y", "x"), "spatial loop blur_y.y", "store_at('blur_y.y')")
    s["blur_x"].store_at("blur_y.y")
    s["blur_y"].spatial("y", "x")
    refused(s, "store-race", lambda: s["blur_x"].store_root())
    good(s)


def test_what_stands_where():
    s = Schedule(matmul())
    C = s["C.update"].split("j", "jo", "ji", 4)
    C.reorder("i", "k", "ji", "jo").vectorize("ji")
    refused(s, "vector-inside", lambda: C.spatial("jo", "x"))
    s = Schedule(matmul())
    C = s["C.update"].split("j", "jo", "ji", 4).spatial("jo", "x")
    C.reorder("i", "k", "ji", "jo")
    refused(s, "vector-inside", lambda: C.vectorize("ji"), "jo")
    C.reorder("i", "k", "jo", "ji").vectorize("ji")
    refused(s, "vector-inside", lambda: C.reorder("i", "k", "ji", "jo"), "spatial loop jo")
    C.reorder("jo", "i", "k", "ji")
    refused(s, "spatial-inside", lambda: C.parallel("i"))
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y").parallel("x")
    refused(s, "spatial-inside", lambda: s["blur_y"].spatial("y", "x"), "blur_x.x", "blur_y.y")
    s["blur_x"].serial("x")
    s["blur_y"].spatial("y", "x")
    good(s)


@pytest.mark.parametrize("act", ["vectorize", "unroll", "parallel", "peel", "partition"])
def test_one_mode_at_a_time(act):
    s = Schedule(matmul())
    C = s["C.update"].split("j", "jo", "ji", 4)
    C.spatial("ji", "x")
    refused(s, "loop-mode", lambda: getattr(C, act)("ji"), "spatial")
    C.spatial("ji", "y")
    assert s.state.stages[("C", 0)].loop("ji").axis == "y"
    C.serial("ji")
    assert s.state.stages[("C", 0)].loop("ji").axis == ""
    C.unroll("ji")
    refused(s, "loop-mode", lambda: C.spatial("ji", "x"), "unrolled")
    good(s)


def test_shared_loops_lie_along_one_axis():
    s = Schedule(twins())
    s["U"].spatial("y", "x")
    s["V"].spatial("y", "y")
    refused(s, "compute-with-loops", lambda: s["V"].compute_with("U.y"), "along x", "along y")


def test_in_text():
    s = Schedule(matmul())
    s["C.update"].spatial("i", "on")
    assert 'spatial i on "on"' in str(s)
    good(s)
    refused(s, "name", lambda: s["C.update"].spatial("j", "no axis"))
    refused(s, "option", lambda: s.apply(Directive("spatial", "C.update", ("j",))), "needs 'on'")


def test_the_axes_of_a_bound_machine():
    s = Schedule(matmul(), machine="tpu-v1")
    C = s["C.update"].split("i", "io", "ii", 256).split("j", "jo", "ji", 2).split("k", "ko", "ki", 257)
    refused(s, "array-axis", lambda: C.spatial("ii", "x"), "tpu-v1 has no axis 'x'", "row, column")
    C.spatial("ii", "row")
    refused(s, "array-extent", lambda: C.spatial("ji", "row"), "512 with the loops around it", "256 long")
    C.spatial("ji", "column")
    refused(s, "array-extent", lambda: C.spatial("ki", "column"), "257 iterations")
    assert "machine tpu-v1" in str(s)
    good(s)


def test_what_is_computed_inside_counts_too():
    s = Schedule(blur(), machine="tpu-v1")
    s["blur_y"].split("y", "yo", "yi", 16).spatial("yi", "row")
    s["blur_x"].compute_at("blur_y.yi").split("x", "xo", "xi", 16)
    s["blur_x"].spatial("xi", "row").split("xo", "xp", "xq", 2)
    refused(s, "array-extent", lambda: s["blur_x"].spatial("xq", "row"), "blur_x.xi", "512")


def test_a_machine_is_met_at_sizes():
    s = Schedule(matmul())
    s["C.update"].spatial("i", "row")
    machine = load_machine("tpu-v1")
    check_arrays(s.state, machine, {"M": 256, "N": 1, "K": 1})
    for sizes, on in (({"M": 257, "N": 1, "K": 1}, machine), ({"M": 1, "N": 1, "K": 1}, load_machine("toy"))):
        with pytest.raises(ScheduleError):
            check_arrays(s.state, on, sizes)

"""store_in, layout, prefetch."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import N, accumulate, blur, edge_blur, made, matmul, two_outputs
from tests.schedule.helpers import good, refused
from tilewright.lang.func import func
from tilewright.lang.symbols import vars
from tilewright.lang.types import i32
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(blur())
    s["blur_y"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 4)
    s["blur_x"].compute_at("blur_y.xo").store_in("spm").layout("y x -> x y")
    s.prefetch("A", at="blur_x.y", distance=2)
    golden(f"{s}\n\n{good(s)}")


def test_outputs_are_copied_out(golden):
    s = Schedule(matmul())
    s["C"].layout("i j -> j//4 i j%4")
    golden(f"{s}\n\n{good(s)}")
    s = Schedule(two_outputs())
    s["p"].layout("i j -> j i").store_in("spm")
    good(s)


def test_inout_stays():
    s = Schedule(accumulate())
    refused(s, "inout-storage", lambda: s["C"].store_in("spm"))
    refused(s, "inout-storage", lambda: s["C"].layout("i j -> j i"))


def test_inlined_has_no_storage():
    s = Schedule(blur())
    refused(s, "inlined", lambda: s["blur_x"].store_in("spm"), "compute_root()")
    s["blur_x"].compute_root().store_in("spm")
    refused(s, "inlined", lambda: s["blur_x"].compute_inline())


def test_memories_of_a_machine():
    s = Schedule(blur(), machine="snitch-cluster")
    s["blur_x"].compute_at("blur_y.y")
    refused(s, "memory", lambda: s["blur_x"].store_in("nowhere"), "nowhere")
    s["blur_x"].store_in("main").store_in(s.machine.memories[1].name)
    good_text = str(s)
    assert "store_in blur_x in main" in good_text


def test_prefetch_errors():
    s = Schedule(edge_blur())
    s.prefetch("A", at="blur_y.y")
    refused(s, "prefetch-twice", lambda: s.prefetch("A", at="blur_y.y", distance=2))
    refused(s, "not-read", lambda: s.prefetch("B", at="blur_y.y"), "it reads A")
    refused(s, "not-read", lambda: s["blur_x"].compute_root(), "A is not read by blur_y", "prefetched")
    refused(s, "factor", lambda: s.prefetch("A", at="blur_y.x", distance=-1))
    good(s)


def test_a_ring_keeps_its_place():
    """What has several slots stays where its copies are made; other orders of the directives are refused."""
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2)
    s.cache_read("B", at="C.update.ko")
    s["B_C"].double_buffer()
    refused(s, "ring", lambda: s["B_C"].compute_root(), "several slots")
    refused(s, "ring", lambda: s["B_C"].compute_inline())
    refused(s, "ring", lambda: s["B_C"].compute_at("C.update.ki"))
    refused(s, "ring", lambda: s["B_C"].store_root())
    refused(s, "ring", lambda: s["B_C"].store_at("C.update.i"))
    assert "produce B_C" in str(s.loops())


def test_a_window_that_rounds_up_has_room():
    """Whole tiles of a Func that is stored further out: its buffer holds all of each tile, the other axis slides."""
    for loop, factor in (("x", 4), ("y", 3), ("x", 2)):
        s = Schedule(edge_blur())
        s["blur_x"].compute_at("blur_y.y").store_root()
        s["blur_x"].split(loop, "o", "t", factor, "round_up")
        (slides,) = s.report().of("sliding")
        assert (slides.what, slides.done) == ("blur_x.y", loop == "x")
        assert slides.done or "tiles are whole" in slides.how
        good(s)


def test_rings_do_not_run_ahead_of_what_their_loop_writes():
    """Whatever comes first: the slots, or the place of what is copied. In a loop around them it may be written."""

    def staged() -> Schedule:
        s = Schedule(blur())
        s["blur_y"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 4)
        s["blur_x"].compute_at("blur_y.yo")
        s.cache_read("blur_x", at="blur_y.xo", name="part")
        return s

    s = staged()
    s["part"].double_buffer()
    good(s)
    refused(s, "ring-dependence", lambda: s["blur_x"].compute_at("blur_y.xo"), "written in the loop xo")
    t = staged()
    t["blur_x"].compute_at("blur_y.xo")
    refused(t, "ring-dependence", lambda: t["part"].double_buffer(), "stage blur_x without")


@pytest.mark.parametrize("between", ["inlined", "nested"])
def test_rings_see_all_that_they_are_made_from(between):
    """A copy of an inlined Func reads what that reads; what stands in a Func of the loop is written there too."""

    def steps(A: i32[N]):
        i = vars("i")
        p, m, c = func("p"), func("m"), func("c")
        p[i] = A[i] * 2
        p[i] += 1
        m[i] = p[i] * 1
        if between == "nested":
            m[i] += p[i]
        c[i] = m[i] + 3 + (p[i] if between == "nested" else 0)
        return c[:N]

    s = Schedule(made(steps))
    s["c"].split("i", "io", "ii", 4)
    if between == "nested":
        s["m"].compute_at("c.io")
        s.cache_read("p", at="c.io", consumers=["c"], name="part")
    else:
        s.cache_read("m", at="c.io", name="part")
    s["p"].compute_root()
    s["part"].double_buffer()
    good(s)
    refused(s, "ring-dependence", lambda: s["p"].compute_at("c.io"), "copies p")

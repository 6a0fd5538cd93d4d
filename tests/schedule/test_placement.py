"""compute_inline, compute_root, compute_at, store_at, store_root."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import ALL, blur, chain, convolution, edge_blur, matmul, two_outputs
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def inline(s: Schedule) -> None:
    s["blur_x"].compute_inline()


def root(s: Schedule) -> None:
    s["blur_x"].compute_root()


def at_rows(s: Schedule) -> None:
    s["blur_x"].compute_at("blur_y.y")


def at_points(s: Schedule) -> None:
    s["blur_x"].compute_at("blur_y.x")


def stored_outside(s: Schedule) -> None:
    s["blur_x"].store_root().compute_at("blur_y.y")


def in_tiles(s: Schedule) -> None:
    s["blur_y"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 4)
    s["blur_x"].compute_at("blur_y.xo")


def stored_in_between(s: Schedule) -> None:
    s["blur_y"].split("y", "yo", "yi", 4).parallel("yo")
    s["blur_x"].store_at("blur_y.yo").compute_at("blur_y.yi").vectorize("x", 4)


@pytest.mark.parametrize("act", [inline, root, at_rows, at_points, stored_outside, in_tiles, stored_in_between])
def test_two_stages(act, golden):
    s = Schedule(blur())
    act(s)
    golden(f"{s}\n\n{good(s)}")


def test_three_stages():
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y")
    s["A_edge"].compute_at("blur_x.x")
    good(s)
    s["A_edge"].compute_at("blur_y.y")
    good(s)
    s["A_edge"].compute_root()
    good(s)


def test_several_consumers():
    s = Schedule(chain())
    s["c"].compute_at("d.x")
    s["b"].compute_at("d.x")
    refused(s, "illegal-place", lambda: s["a"].compute_at("c.x"), "legal places: root, d.x;", "it is used by b, c")
    s["a"].compute_at("d.x")
    good(s)


def test_a_reduction_inside_its_consumer():
    s = Schedule(convolution())
    s["out"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 3)
    s["conv"].compute_at("out.xo")
    good(s)
    s["conv"].compute_at("out.xi")
    good(s)


def test_illegal_places():
    s = Schedule(blur())
    e = refused(s, "illegal-place", lambda: s["blur_x"].compute_at("blur_x.y"), "one of its own loops")
    assert "legal places: root, blur_y.y, blur_y.x; it is used by blur_y" in str(e)
    refused(s, "output-place", lambda: s["blur_y"].compute_at("blur_x.y"), "is an output")
    refused(s, "output-place", lambda: s["blur_y"].compute_inline())
    refused(s, "output-place", lambda: s["blur_y"].store_root())
    refused(s, "unknown-loop", lambda: s["blur_x"].compute_at("blur_y.z"), "known: y, x")
    refused(s, "unknown-stage", lambda: s["blur_x"].compute_at("blur.z"))
    refused(s, "ambiguous-loop", lambda: s["blur_x"].compute_at("y"), "blur_x.y, blur_y.y")
    t = Schedule(edge_blur())
    refused(t, "illegal-place", lambda: t["A_edge"].compute_at("blur_x.y"), "blur_x is inlined")


def test_short_names_are_printed_in_full():
    s = Schedule(blur())
    s["blur_y"].split("y", "yo", "yi", 2)
    s["blur_x"].compute_at("yo")
    assert "compute_at blur_x at blur_y.yo" in str(s)
    good(s)


def test_updates_are_not_inlined():
    s = Schedule(convolution())
    refused(s, "inline-update", lambda: s["conv"].compute_inline(), "legal places: root, out.y, out.x")


def test_what_has_loops_is_not_inlined():
    s = Schedule(blur())
    s["blur_x"].compute_root().vectorize("x", 4)
    refused(s, "inlined", lambda: s["blur_x"].compute_inline(), "its loops or its storage are scheduled")
    s = Schedule(blur())
    s["blur_x"].vectorize("x", 4)
    refused(s, "inlined", s.check, "blur_x is inlined, but its loops are scheduled", "compute_root()")


def test_consumers_stay_around():
    """A directive elsewhere can't pull the place away."""
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y")
    s["A_edge"].compute_at("blur_x.x")
    refused(s, "inlined", lambda: s["blur_x"].compute_inline())
    s = Schedule(edge_blur())
    s["blur_y"].split("y", "yo", "yi", 2)
    s["blur_x"].compute_at("blur_y.yi")
    s["A_edge"].compute_at("blur_y.yi")
    refused(s, "illegal-place", lambda: s["blur_x"].compute_at("blur_y.yo"), "A_edge can't be computed")


def test_circles():
    s = Schedule(edge_blur())
    s["blur_x"].compute_root()
    refused(s, "illegal-place", lambda: s["blur_x"].compute_at("A_edge.x0"))


def test_storing_inside():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y")
    refused(s, "store-inside", lambda: s["blur_x"].store_at("blur_y.x"), "legal places: root, blur_y.y")
    s["blur_x"].store_at("blur_y.y")
    refused(s, "store-inside", lambda: s["blur_x"].compute_root())
    good(s)


def test_for_all_of_a_func():
    s = Schedule(convolution())
    refused(s, "func-directive", lambda: s["conv.update"].compute_at("out.y"), "s['conv'].compute_at(...)")


def test_two_outputs_share_a_stage():
    s = Schedule(two_outputs())
    refused(s, "output-place", lambda: s["p"].compute_at("q.i"))
    good(s)


@pytest.mark.parametrize("name", sorted(ALL))
def test_everything_at_the_root(name):
    s = Schedule(ALL[name]())
    for f in s.state.funcs:
        s[f].compute_root()
    good(s)


def test_matmul_has_no_other_place():
    s = Schedule(matmul())
    refused(s, "output-place", lambda: s["C"].compute_at("C.update.k"), "cache_write")


def test_a_loop_that_is_factored_away():
    s = Schedule(matmul())
    s["C.update"].reorder("i", "k", "j").split("k", "ko", "ki", 2).vectorize("j", 4)
    s.cache_read("B", at="C.update.ki")
    refused(s, "illegal-place", lambda: s["C.update"].rfactor("ki", "P"), "has no such loop any more")


def test_storage_only_around_what_is_stored():
    """hoist_storage further in than the buffer, at a loop of the Func itself, outside a loop of threads: refused."""
    s = Schedule(blur())
    s["blur_y"].split("y", "yo", "yi", 2)
    s["blur_x"].compute_at("blur_y.yi")
    refused(s, "store-inside", lambda: s["blur_x"].hoist_storage("blur_y.x"), "blur_y.yi", "root")
    refused(s, "store-inside", lambda: s["blur_x"].hoist_storage("blur_x.y"))
    t = s.copy()
    t["blur_x"].store_at("blur_y.yo")
    refused(t, "store-inside", lambda: t["blur_x"].hoist_storage("blur_y.yi"), "blur_y.yo")
    t["blur_x"].hoist_storage("blur_y.yo")
    refused(t, "store-inside", lambda: t["blur_x"].store_root())
    good(t)
    s["blur_y"].parallel("yo")
    refused(s, "store-race", lambda: s["blur_x"].hoist_storage(), "blur_y.yo")
    s["blur_x"].hoist_storage("blur_y.yo")
    good(s)


@pytest.mark.parametrize("say", [
    lambda h: h.hoist_storage("blur_y.y"), lambda h: h.fold_storage("y", 4), lambda h: h.pad("x", 4),
    lambda h: h.align("y", 4), lambda h: h.bound("y", 0, 40), lambda h: h.store_root(), lambda h: h.stream_stores(),
    lambda h: h.store_in("spm"), lambda h: h.layout("y x -> x y"),
])  # fmt: skip
def test_what_has_a_buffer_is_not_inlined(say):
    """What was said of a region or a buffer is not forgotten without a word."""
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y")
    say(s["blur_x"])
    refused(s, "inlined", lambda: s["blur_x"].compute_inline())

"""Unfinished schedules: what `relaxed` leaves out, and that the rest can be checked and built."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.schedule.check import check
from tilewright.schedule.promises import relaxed
from tilewright.schedule.schedule import Schedule

M, N = tw.sizes("M N")


@tw.kernel
def two_stages(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    P, C = tw.func("P"), tw.func("C")
    P[i, j] = A[i, j] * 2.0
    C[i, j] = P[i, j] + 1.0
    return C[:M, :N]


def kept(s: Schedule) -> tuple[str, ...]:
    """What is left out of a schedule that is refused as it stands."""
    with pytest.raises(tw.ScheduleError):
        s.check()
    state, ignored = relaxed(s.state)
    check(state)
    return ignored


def test_a_finished_schedule_keeps_everything() -> None:
    s = two_stages.schedule()
    s["C"].vectorize("j", 8)
    state, ignored = relaxed(s.state)
    assert ignored == () and state is s.state


def test_a_stage_that_is_inlined_though_its_loops_are_scheduled() -> None:
    s = two_stages.schedule()
    s["P"].vectorize("j", 8)
    assert kept(s) == ("P is inlined",)


def test_a_tile_that_is_not_constant_yet() -> None:
    s = two_stages.schedule()
    s.cache_write("C", at="C.i", memory="reg")
    assert kept(s) == ("C_tile in reg",)


def test_a_buffer_in_registers_that_is_not_constant_yet() -> None:
    s = two_stages.schedule()
    s["P"].compute_at("C.i")
    s.store_in("P", "reg")
    assert kept(s) == ("P in reg",)


def test_a_loop_that_is_not_constant_after_all() -> None:
    s = two_stages.schedule()
    s["P"].compute_at("C.i")
    s["P"].unroll("i")  # one row for each i, so far
    s["P"].compute_root()
    assert kept(s) == ("unroll P.i",)


def test_several_at_once() -> None:
    s = two_stages.schedule()
    s["P"].vectorize("j", 8)
    s.cache_write("C", at="C.i", memory="reg")
    assert kept(s) == ("P is inlined", "C_tile in reg")

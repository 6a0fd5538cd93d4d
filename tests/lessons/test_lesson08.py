"""Lesson 8: a producer and its consumer. What is computed twice, what is kept, and how much room that takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing


def averages(height: int = 4, width: int = 4) -> tw.Kernel:
    """Each element of the consumer is the mean of four neighbours in the producer."""

    @tw.kernel
    def averages():
        y, x = tw.vars("y x")
        waves, mean = tw.func("waves"), tw.func("mean")
        waves[y, x] = tw.sin(tw.cast(tw.f32, x * y))
        mean[y, x] = (waves[y, x] + waves[y, x + 1] + waves[y + 1, x] + waves[y + 1, x + 1]) / 4.0
        return mean[:height, :width]

    return averages


def by_numpy(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[: height + 1, : width + 1]
    w = np.sin(np.float64(x * y))
    return ((w[:-1, :-1] + w[:-1, 1:] + w[1:, :-1] + w[1:, 1:]) / 4).astype(np.float32)


def nowhere(s):
    s["waves"].compute_inline()


def at_the_root(s):
    s["waves"].compute_root()


def a_row(s):
    s["waves"].compute_at("mean.y")


def new_rows(s):
    s["waves"].compute_at("mean.y").store_root()


def two_rows(s):
    s["waves"].compute_at("mean.y").store_root().fold_storage("y", 2)


def new_points(s):
    s["waves"].compute_at("mean.x").store_root()


def new_points_of_two_rows(s):
    s["waves"].compute_at("mean.x").store_root().fold_storage("y", 2)


def new_columns(s):
    s["waves"].compute_at("mean.x").store_at("mean.y")


def four_points(s):
    s["waves"].compute_at("mean.x")


def tiles(s):
    s["mean"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 2)
    s["waves"].compute_at("mean.xo")


def strips(s):
    """A bit of everything: parallel strips, rows that slide in a window of two, vectors."""
    s["mean"].split("y", "yo", "yi", 16).parallel("yo").vectorize("x", 4)
    s["waves"].store_at("mean.yo").compute_at("mean.yi").fold_storage("y", 2).vectorize("x", 4)


# schedule -> evaluations of the producer and elements that are kept of it, for 4 x 4 elements of the consumer
SMALL: dict[Callable, tuple[int, int]] = {
    nowhere: (0, 0),  # it has neither loops nor a buffer: each element of the consumer has four sines
    at_the_root: (5 * 5, 5 * 5),
    a_row: (4 * 2 * 5, 2 * 5),
    new_rows: (5 * 5, 5 * 5),
    two_rows: (5 * 5, 2 * 5),
    new_points: (5 * 5, 5 * 5),
    new_points_of_two_rows: (5 * 5, 2 * 5),
    new_columns: (4 * 2 * 5, 2 * 5),
    four_points: (16 * 4, 2 * 2),
    tiles: (4 * 3 * 3, 3 * 3),
}


def counted(kernel: tw.Kernel, s) -> tuple[int, int]:
    """How often the producer was evaluated, and the most elements of it that were kept at a time."""
    account = kernel.simulate(s, machine="toy", sizes={}).account
    made = [t for t in account.traffic if t.tensor == "waves"]
    kept = [b.size // 4 for f in account.footprint for b in f.buffers if b.name == "waves"]
    return sum(t.writes for t in made), sum(kept)


@pytest.fixture(scope="module")
def small() -> tw.Kernel:
    return averages()


@pytest.mark.parametrize("act", SMALL, ids=lambda f: f.__name__)
def test_where_the_producer_is_computed(act, small, golden):
    s = small.schedule()
    act(s)
    golden(f"{s}\n\n{s.loops()}")
    assert counted(small, s) == SMALL[act]
    np.testing.assert_array_equal(small.compile(s, mode="strict")(), small.reference())


def test_the_whole_of_it_together(golden):
    kernel = averages(160, 160)
    s = kernel.schedule()
    strips(s)
    golden(f"{s}\n\n{s.loops()}\n\n{s.report()}")
    assert counted(kernel, s) == (10 * 17 * 161, 2 * 161)  # strips of 16 rows share none with their neighbours
    np.testing.assert_array_equal(kernel.compile(s, mode="strict")(), kernel.reference())


def test_values():
    kernel = averages(160, 160)
    testing.assert_within_bound(kernel, kernel())
    testing.assert_within_bound(kernel, by_numpy(160, 160))


def test_a_parallel_loop_between_storage_and_computation_is_refused(small):
    s = small.schedule()
    s["mean"].parallel("y")
    s["waves"].compute_at("mean.y")
    with pytest.raises(tw.ScheduleError) as refused:
        s["waves"].store_root()
    assert refused.value.code == "schedule.store-race"

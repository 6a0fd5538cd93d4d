"""Parallel loops inside of parallel loops: which of them is shared out is decided by every call."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

import tilewright as tw

B, M, N = tw.sizes("B M N")


@tw.kernel
def rows(a: tw.f32[B, M, N]):
    b, i = tw.vars("b i")
    k = tw.rdom(k=N)
    out = tw.func("out")
    out[b, i] = 0.0
    out[b, i] += a[b, i, k] * a[b, i, k]
    return out[:B, :M]


class Counting:
    """Runs nothing: the caller does all tasks. Counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def submit(self, _run) -> Future:
        self.asked += 1
        return Future()


def asked(schedule, shape: tuple[int, int, int], threads: int = 2) -> int:
    pool, a = Counting(), np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    found = rows.compile(schedule, mode="strict")(a, executor=pool, threads=threads)
    np.testing.assert_array_equal(found, rows.reference(a))
    return pool.asked


def nested():
    s = rows.schedule()
    s["out.init"].vectorize("i", 8)
    s["out.update"].parallel("b").parallel("i")
    return s


@pytest.mark.parametrize(
    "shape, loops",
    [
        ((1, 64, 4096), 1),  # the only iteration: what is inside
        ((3, 64, 4096), 3),  # few: what is inside, in each of them
        ((7, 64, 4096), 7),
        ((8, 64, 4096), 1),  # enough for two threads
        ((3, 20, 256), 1),  # too little inside of each
        ((3, 2, 2), 0),  # too little altogether
        ((0, 64, 4096), 0),
        ((1, 1, 0), 0),
    ],
)
def test_the_loop_that_has_iterations_enough_is_shared_out(shape, loops):
    assert asked(nested(), shape) == loops


def test_one_thread_takes_all():
    assert asked(nested(), (3, 64, 4096), threads=1) == 0


@tw.kernel
def mostly_serial(a: tw.f32[B, M, N]):
    """A running product along rows, which no threads share, and a little that they could."""
    b, i, j = tw.vars("b i j")
    k = tw.rdom(k=N)
    run, out = tw.func("run"), tw.func("out")
    run[b] = 1.0
    run[b] += a[b, 0, k] * tw.sqrt(tw.abs(a[b, 0, k])) / (1.0 + a[b, 0, k] * a[b, 0, k])
    out[b, i, j] = run[b] + i + j
    return out[:B, :M, :N]


def test_what_is_shared_out_inside_has_to_be_most_of_the_work():
    s = mostly_serial.schedule()
    s["out"].parallel("b").parallel("i")
    s["run"].compute_at("out.b")
    a = np.random.default_rng(0).standard_normal((3, 1, 300_000), dtype=np.float32)
    pool = Counting()
    found = mostly_serial.compile(s, mode="strict")(a, executor=pool, threads=2)
    np.testing.assert_array_equal(found, mostly_serial.reference(a))
    assert pool.asked == 1


@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_default_schedule_shares_out_more_than_one_loop(size):
    """One picture: its rows, not the pictures."""
    pool, a = Counting(), np.random.default_rng(0).standard_normal((size, 64, 4096), dtype=np.float32)
    found = rows.compile()(a, executor=pool, threads=2)
    np.testing.assert_allclose(found, rows.reference(a), rtol=1e-4)
    assert pool.asked == (1 if size > 8 else size)

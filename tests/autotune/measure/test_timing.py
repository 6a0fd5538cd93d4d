"""When a candidate has been timed enough, on a clock that goes as told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.autotune.measure.timing import Policy, Times, in_turns, sampled, timed


class Told:
    """A call that takes the given seconds, one after the other, the last of them for ever; and its clock."""

    def __init__(self, seconds: Iterable[float]):
        self.seconds, self.now, self.calls, self.before = list(seconds), 0.0, 0, 0

    def __call__(self) -> None:
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1

    def clock(self) -> float:
        return self.now

    def restore(self) -> None:
        self.now += 5.0  # not a part of what is timed
        self.before += 1


def times(*seconds: float, policy: Policy | None = None, **options) -> tuple[Told, Times]:
    run = Told(seconds)
    return run, sampled(run, policy or Policy(), clock=run.clock, **options)


def test_three_that_agree_are_enough() -> None:
    run, found = times(0.02)
    assert found.samples == pytest.approx((0.02,) * 3)
    assert run.calls == 3


def test_cold_runs_are_dropped() -> None:
    run, found = times(0.09, 0.05, 0.02, 0.0201, 0.0202)
    assert found.samples == pytest.approx((0.02, 0.0201, 0.0202))
    assert run.calls == 5


def test_short_calls_are_repeated_for_a_sample() -> None:
    run, found = times(1e-6)
    assert len(found.samples) == pytest.approx(100, abs=2)  # of 200 us: 20 ms
    assert run.calls == pytest.approx(20_000, rel=0.03)
    assert found.best == pytest.approx(1e-6)


def test_where_nothing_agrees_it_ends() -> None:
    _, found = times(*(0.02 * (1 + 0.2 * k) for k in (0, 3, 5, 7, 9, 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33)))
    assert len(found.samples) <= 8


def test_what_is_far_slower_than_the_best_is_timed_once() -> None:
    assert times(0.1, best=0.02)[0].calls == 1
    assert times(0.035, best=0.02)[0].calls == 2
    assert times(0.025, best=0.02)[0].calls == 3


def test_of_what_takes_long_one_sample_is_enough() -> None:
    assert times(3.0)[0].calls == 1


def test_what_happens_before_a_sample_is_not_timed() -> None:
    run = Told([1e-6])
    found = sampled(run, Policy(), run.restore, several=False, clock=run.clock)
    assert found.best == pytest.approx(1e-6, rel=1e-3)
    assert run.before == run.calls == 5  # not 20,000, each with its flush
    run = Told([1e-6 * (1 + 0.1 * k) for k in range(100)])
    assert len(sampled(run, Policy(), run.restore, several=False, clock=run.clock).samples) == 15


def test_finalists_take_turns() -> None:
    order: list[int] = []
    ticks = iter(range(1000))
    runs = [lambda k=k: order.append(k) for k in range(3)]
    found = in_turns(runs, [1, 2, 1], 2, clock=lambda: float(next(ticks)))
    assert order == [0, 1, 1, 2, 2, 1, 1, 0]
    assert [t.samples for t in found] == [(1.0, 1.0), (0.5, 0.5), (1.0, 1.0)]


@given(st.lists(st.floats(1e-7, 0.4), min_size=1, max_size=40), st.none() | st.floats(1e-7, 1.0))
def test_it_always_ends_and_the_figure_was_seen(seconds: list[float], best: float | None) -> None:
    run, found = times(*seconds, best=best)
    assert min(seconds) * 0.999 <= found.best <= found.median
    assert found.spread >= 0
    assert sum(found.samples) <= run.now + 1e-9


def test_one_call_of_several() -> None:
    run = Told([1.0, 3.0])
    assert timed(run, 2, clock=run.clock) == 2.0

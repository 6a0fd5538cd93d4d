"""Regret, flips and transfer regret are what their formulas say, from figures of a rule."""

from __future__ import annotations

import math

import pytest

from tests.autotune.fakes import FakeMeasurer
from tests.autotune.test_buckets import FIXED, P
from tilewright.autotune.buckets import Buckets
from tilewright.autotune.measure.task import Task
from tilewright.autotune.regret import Regret, after, assessed, neighbours, probes, sampled, split

BUCKETS = Buckets.of(P, {"M": (1, 64), **FIXED}, points={"M": [4, 16, 64]})
A, B, C = (b.text for b in BUCKETS)  # M=1..4, M=5..16, M=17..64


def figure(task: Task, schedule: str) -> float:
    """Schedules are the sizes that they are best at: the ratio to the real size costs."""
    return task.sizes["M"] * (1 + abs(math.log2(task.sizes["M"] / float(schedule))))


def task(sizes) -> Task:
    return Task("", "", "product", dict(sizes))


def measured(schedules: dict[str, str], default: str = "", spread: float = 0.0, go_on=lambda: True) -> Regret:
    measurer = FakeMeasurer(figure, spread=spread)
    return assessed(measurer, task, probes(BUCKETS, schedules, default), go_on)


def test_probes_are_samples_then_points_with_the_schedules_of_neighbours() -> None:
    todo = probes(BUCKETS, {A: "4", B: "16", C: "64"}, "1")
    assert [(p.bucket.text, p.sizes["M"], p.point) for p in todo] == [
        (A, 1, False), (A, 2, False), (B, 5, False), (B, 9, False), (C, 17, False), (C, 33, False),
        (A, 4, True), (B, 16, True), (C, 64, True),
    ]  # fmt: skip
    assert dict(todo[0].schedules) == {A: "4", B: "16", C: "64", "": "1"}
    # equal schedules compete once, and a bucket alone has nothing to compare with
    assert dict(probes(BUCKETS, {A: "4", B: "4", C: "64"}, "4")[0].schedules) == {A: "4", C: "64"}
    assert probes(BUCKETS, {A: "4"}) == [] and probes(BUCKETS, {A: "4", B: "4", C: "4"}, "4") == []
    assert [p.point for p in probes(BUCKETS, {A: "4", B: "16"}, points=False)] == [False] * 4


def test_neighbours_are_near_and_on_both_sides() -> None:
    many = Buckets.of(P, {"M": (1, 4096), **FIXED})
    for n, b in enumerate(many):
        near = [many.all.index(x) for x in neighbours(many, b)]
        assert len(near) == 2 and n not in near
        if 0 < n < len(many) - 1:
            assert any(k < n for k in near) and any(k > n for k in near)


def test_regret_is_the_cost_over_the_best_schedule_known() -> None:
    r = measured({A: "4", B: "16", C: "64"})
    # at M=1 the schedule for 4 costs 1 + 2, and no other one is better; at 5 that for 4 is better than that for 16
    assert r.buckets[A] == 0 and r.buckets[C] == pytest.approx((1 + math.log2(64 / 17)) / (1 + math.log2(17 / 16)) - 1)
    five, nine = (r.samples[k] for k in (2, 3))
    assert five.best == A and five.flipped
    assert five.regret == pytest.approx((1 + math.log2(16 / 5)) / (1 + math.log2(5 / 4)) - 1)
    assert nine.best == B and nine.regret == 0 and not nine.flipped
    assert r.of(BUCKETS.all[1]) == five.regret
    assert len(r.inside) == 6 and r.flips == pytest.approx(2 / 6)
    logs = [[math.log1p(s.regret) for s in r.inside if s.probe.bucket is b] for b in BUCKETS]
    assert r.mean == pytest.approx(math.exp(sum(sum(x) / len(x) for x in logs) / 3) - 1)


def test_weights_are_the_share_of_the_calls() -> None:
    heavy = Buckets.of(P, {"M": (1, 64), **FIXED}, points={"M": [4, 16, 64]}, weights={"M": {4: 99, 16: 1, 64: 0}})
    todo = probes(heavy, {A: "4", B: "16", C: "64"})
    assert [p.bucket.text for p in todo[:3]] == [A, A, B]
    r = assessed(FakeMeasurer(figure), task, todo)
    assert 0 < r.mean < 0.01 < measured({A: "4", B: "16", C: "64"}).mean


def test_transfer_regret_is_that_of_a_neighbour_at_the_point() -> None:
    r = measured({A: "4", B: "16", C: "64"})
    assert r.transfers[A, B] == pytest.approx(2) and r.transfers[C, B] == pytest.approx(2)
    assert set(r.transfers) == {(A, B), (C, B), (B, A), (C, A), (A, C), (B, C)}
    assert r.transfer == pytest.approx(math.exp(sum(math.log1p(t) for t in r.transfers.values()) / 6) - 1)
    assert not list(r.better())
    bad = measured({A: "4", B: "256", C: "64"})
    assert [(b.text, whose) for b, whose, _ in bad.better()] == [(B, A)]


def test_buckets_whose_regret_is_high_are_to_be_split() -> None:
    r = measured({A: "4", B: "16", C: "64"})
    assert [b.text for b in r.to_split()] == [C, B]
    assert [b.text for b in r.to_split(limit=1.2)] == [C] and r.to_split(limit=9) == ()
    assert len(split(BUCKETS, r.to_split())) == 5
    # the noise of the times is above every difference
    assert measured({A: "4", B: "16", C: "64"}, spread=5.0).to_split() == ()
    assert measured({A: "4", B: "16", C: "64"}, spread=5.0).flips == 0


def test_the_default_schedule_competes() -> None:
    r = measured({A: "4", B: "16", C: "64"}, default="9")
    assert r.samples[3].best == "" and r.samples[3].flipped
    assert all("" not in pair for pair in r.transfers)


def test_what_there_is_no_time_for_and_what_fails_is_missing() -> None:
    left = iter([True, True, False])
    r = measured({A: "4", B: "16", C: "64"}, go_on=lambda: next(left))
    assert len(r.samples) == 2 and not r.complete and "no time" in str(r) and r.buckets == {A: 0}
    assert r.transfer is None and "unknown" in str(r)
    probe = probes(BUCKETS, {A: "4", B: "16", C: "64"})[2]
    failing = FakeMeasurer(lambda t, s: "timeout" if s == "16" else figure(t, s))
    s = sampled(failing, task(probe.sizes), probe)
    assert s.own is None and s.regret is None and not s.flipped
    nothing = Regret((s,))
    assert (
        nothing.mean is None and nothing.flips is None and nothing.of(BUCKETS.all[1]) is None and not nothing.to_split()
    )
    assert str(Regret(())) == "regret of buckets: nothing was measured"


def test_it_is_told_in_words_and_as_data() -> None:
    r = measured({A: "4", B: "16", C: "64"})
    assert "another schedule is better at 2 of 6 sizes" in str(r) and f"one schedule is too little for {C}, {B}" in str(
        r
    )
    data = r.as_json()
    assert data["complete"] and data["split"] == [C, B] and len(data["samples"]) == 9


def test_where_no_size_could_be_compared_that_is_said() -> None:
    failing = FakeMeasurer(lambda t, s: figure(t, s) if t.sizes["M"] in (4, 16, 64) else "crash")
    r = assessed(failing, task, probes(BUCKETS, {A: "4", B: "16", C: "64"}, ""), lambda: True)
    assert not r.inside and r.transfer is not None
    assert str(r).startswith("regret of buckets is unknown, transfer regret ") and "0 of 0" not in str(r)


def test_what_is_left_once_other_schedules_are_in_charge() -> None:
    r = measured({A: "4", B: "16", C: "64"})
    left, right = buckets = [b for b in BUCKETS.split(BUCKETS.all[2]) if b not in BUCKETS.all]
    now = {BUCKETS.all[0]: [A], BUCKETS.all[1]: [B], left: [B], right: [C]}
    mended = after(r, now)
    expected = {17: figure(task({"M": 17}), "16"), 33: figure(task({"M": 33}), "64" if 33 in right.ranges[0] else "16")}
    for s in mended.samples:
        if s.probe.bucket in buckets and not s.probe.point:
            assert s.own == expected[s.probe.sizes["M"]]
    assert mended.mean is not None and r.mean is not None and mended.mean < r.mean
    assert after(r, {b: [b.text] for b in BUCKETS}) == r
    assert after(r, {b: [] for b in BUCKETS}).mean is None  # what it has did not compete

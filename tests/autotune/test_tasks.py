"""Which job the next seconds are for, and when two times are the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.autotune.test_space import Tiles, double
from tilewright.autotune.buckets import Bucket
from tilewright.autotune.measure.task import Task
from tilewright.autotune.space import Point, points
from tilewright.autotune.tasks import RECENT, Candidate, Found, Job, Subject, next_job, same, winner
from tilewright.autotune.transfer import again, carried, distance, nearest, offer

SUBJECT = Subject("double", double.pipeline())
POINTS = list(points(Tiles()))
DEFAULT = Candidate(Point((), double.schedule().copy()), "default")


def job(m: int = 64, **fields: object) -> Job:
    bucket = Bucket.read(f"M={m},N=64")
    made = Job(SUBJECT, bucket, Task.of(double, bucket.point), Tiles(), DEFAULT)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def found(figure: float | None, p: Point = POINTS[1], spread: float = 0.0, samples: int = 5) -> Found:
    return Found(Candidate(p), "ok" if figure is not None else "crash", figure, spread, samples)


def test_each_job_has_a_first_round_in_order():
    jobs = [job(8), job(16), job(32)]
    for expected in jobs:
        assert next_job(jobs) is expected
        expected.begun += 1


def test_then_the_expected_gain_decides():
    slow, quick = job(8, begun=1, rounds=[(10.0, 0.0)]), job(16, begun=1, rounds=[(10.0, 0.5)])
    assert next_job([slow, quick]) is quick
    assert quick.expected() == pytest.approx(RECENT * 0.5 / 10 + (1 - RECENT) / 10)
    little, much = job(8, begun=1, rounds=[(1.0, 0.0)]), job(16, begun=9, rounds=[(50.0, 0.0)])
    assert next_job([much, little]) is little
    seldom, often = job(8, begun=1, weight=0.1, rounds=[(5.0, 0.1)]), job(16, begun=1, weight=0.9, rounds=[(5.0, 0.1)])
    assert next_job([seldom, often]) is often


def test_a_job_at_its_bound_is_left_alone():
    near, far = job(8, begun=1, bound=0.9, rounds=[(1.0, 0.0)]), job(16, begun=1, bound=0.1, rounds=[(2.0, 0.0)])
    near.learn(found(1.0))
    far.learn(found(1.0))
    assert near.room == pytest.approx(0.1)
    assert next_job([near, far]) is far
    there = job(8, begun=1, bound=0.99, rounds=[(1.0, 0.0)])
    there.learn(found(1.0))
    assert next_job([there]) is None
    assert next_job([job(8, exhausted=True)]) is None


def test_what_is_learnt():
    j = job()
    assert j.learn(found(2.0, POINTS[1]))
    assert not j.learn(found(3.0, POINTS[2]))
    assert not j.learn(found(None, POINTS[3]))
    assert not j.learn(found(2.0, POINTS[4]))
    assert j.best is not None and j.best.candidate.point is POINTS[1]
    assert j.tried == 4
    assert j.failed == {"crash": 1}
    assert [f for _, f in j.history] == [2.0]


def test_winners_of_finals_come_before_single_runs():
    j = job()
    j.learn(found(1.0, POINTS[1]))
    j.finals = [found(2.0, POINTS[2]), found(3.0, POINTS[3])]
    best = winner(j)
    assert best is not None and best.candidate.point is POINTS[2]
    assert winner(job()) is None


@given(st.floats(1e-6, 10), st.floats(1e-6, 10), st.floats(0, 0.2), st.integers(1, 100))
def test_the_same_within_noise(a: float, b: float, share: float, n: int):
    one, two = found(a, spread=share * a, samples=n), found(b, spread=share * b, samples=n)
    assert same(one, two) == same(two, one)
    assert same(one, one)
    if share == 0:
        assert same(one, two) == (max(a, b) - min(a, b) <= 0.005 * min(a, b))
    if max(a, b) > 3 * min(a, b) and n > 20:
        assert not same(one, two)


def test_neighbours_are_near_by_ratio():
    jobs = [job(m) for m in (1, 8, 64, 512)]
    for j in jobs[1:]:
        j.learn(found(1.0))
    assert [j.sizes["M"] for j in nearest(jobs[0], jobs)] == [8, 64]
    assert [j.sizes["M"] for j in nearest(jobs[3], jobs)] == [64, 8]
    assert distance({"M": 1}, {"M": 7}) == pytest.approx(math.log(4))


def test_schedules_travel_by_their_choices_and_as_they_stand():
    p = next(q for q in POINTS if q.values.get("columns") == 8 and q.values["rows"] == 4)
    assert [q.hash for q in carried(Tiles(), p.values, str(p.schedule))] == [p.hash]
    other = again(Tiles(), {**p.values, "rows": 7})
    assert other is not None and other.values["rows"] == 8
    assert [q.trace for q in carried(Tiles(), {}, str(p.schedule))] == [()]
    assert not list(carried(Tiles(), {}, "schedule double\n  B:\n    vectorize q by 4"))


def test_nothing_is_offered_twice():
    j = job()
    assert offer(j, POINTS[1:4], "records") == 3
    assert offer(j, POINTS[1:5], "records") == 1
    j.learn(found(1.0, POINTS[6]))
    j.asked.add(POINTS[7].hash)
    assert offer(j, POINTS[6:8], "records") == 0

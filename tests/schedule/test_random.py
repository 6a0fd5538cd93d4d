"""Random schedules: refused directives leave nothing behind, legal ones run and give the reference's values."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.algorithms import ALL
from tests.schedule.helpers import agrees
from tests.schedule.nest_oracle import NestError
from tests.schedule.random_schedules import grow
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.schedule import Schedule, parse_schedule

# Promises that a random schedule need not keep, found by check().
BROKEN = {
    "schedule.extent",
    "schedule.register-size",
    "schedule.inlined",
    "schedule.tail",
    "schedule.prefetch-lost",
    "schedule.bound-updates",
    "schedule.stream",
}


def look_at(s: Schedule, sizes: dict[str, int], seed: int) -> None:
    assert parse_schedule(str(s), s.pipeline) == s
    try:
        s.check()
    except ScheduleError as e:
        assert e.code in BROKEN, e
        return
    try:
        agrees(s, sizes, seed)
    except NestError as e:
        if not str(e).startswith("required:"):
            raise AssertionError(f"{e}\n{s}\n{s.loops()}\nat {sizes}") from e


@given(st.integers(0, 2**32), st.sampled_from(sorted(ALL)), st.integers(1, 10))
def test_random_schedules(seed, name, steps):
    r = random.Random(seed)
    s, _ = grow(ALL[name](), r.randrange, steps)
    look_at(s, {"M": 3 + r.randrange(5), "N": 3 + r.randrange(6), "K": r.randrange(5)}, seed % 1000)


@given(st.integers(0, 2**32), st.sampled_from([("m", "l", "o"), ("m", "o"), ("m", "l")]), st.integers(1, 5))
def test_random_schedules_of_a_pass(seed, members, block):
    """Whatever is said before and after `online`."""
    r = random.Random(seed)
    s, _ = grow(ALL["running"](), r.randrange, r.randrange(3))
    try:
        s.online(members, "k", block)
    except ScheduleError:
        assert len(s) > 0
    grow(s.pipeline, r.randrange, r.randrange(9), s)
    look_at(s, {"M": 3 + r.randrange(5), "N": r.randrange(8), "K": 1 + r.randrange(5)}, seed % 1000)


@given(st.data(), st.sampled_from(["matmul", "blur", "chain"]))
def test_small_schedules(data, name):
    """The same with every choice drawn, so that a failure shrinks."""
    s, _ = grow(ALL[name](), lambda n: data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, 4)))
    look_at(s, {"M": 4, "N": 5, "K": 3}, 0)

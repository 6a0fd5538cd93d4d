"""Timelines of real schedules: intervals add up to the time that the account says, and nothing overlaps on a track."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import jsonschema
import pytest

import tilewright as tw
from tests.hw.test_trace import check
from tilewright.hw import Account, load_machine
from tilewright.hw.account import account_schema
from tilewright.hw.timing import CAUSES

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.f64[M, K], B: tw.f64[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def tiled():
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", 8, 8).split("k", "ko", "ki", 8)
    C.reorder("io", "jo", "ko", "ii", "ki", "ji")
    s.cache_write("C", at="C.update.jo", memory="tcdm")
    s.cache_read("A", at="C.update.ko", memory="tcdm")
    s.cache_read("B", at="C.update.ko", memory="tcdm")
    return s


def double():
    s = tiled()
    s["A_C"].double_buffer()
    s["B_C"].double_buffer(3)
    return s


def parallel():
    s = double()
    s["C.update"].parallel("io")
    return s


SCHEDULES = (tiled, double, parallel)
SIZES = {"M": 21, "N": 13, "K": 19}
MACHINE = load_machine("snitch-cluster")


def account(schedule, sync: str, timeline: int = 100_000) -> Account:
    return matmul.account(schedule(), machine=MACHINE, sizes=SIZES, sync=sync, timeline=timeline)


@pytest.mark.parametrize("sync", ["decoupled", "barrier"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_intervals_add_up_to_the_time(schedule, sync: str) -> None:
    a = account(schedule, sync)
    time = a.time
    assert time is not None
    spent: dict[tuple[str, str], float] = defaultdict(float)
    for i in time.intervals:
        spent[i.track, i.cause] += i.end - i.start
    assert spent["compute", ""] == time.busy
    for cause in CAUSES:
        assert spent["wait", cause] == time.waiting(cause)
    for use in time.uses:
        # Of several cores those of the slowest are shown, at their part of the bandwidth.
        if use.resource.startswith("dma.") and schedule is not parallel:
            assert spent[use.resource, ""] == use.busy
    assert max(i.end for i in time.intervals) == time.cycles
    assert time.cycles >= time.bound > 0
    tracks = defaultdict(list)
    for i in time.intervals:
        if not i.memory:
            tracks["core" if i.track in ("compute", "wait") else i.track].append((i.start, i.end))
    for found in tracks.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(found)))


@pytest.mark.parametrize("sync", ["decoupled", "barrier"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_traces_and_documents_of_real_runs_are_valid(schedule, sync: str) -> None:
    a = account(schedule, sync)
    check(json.loads(json.dumps(a.trace())), a, MACHINE)
    jsonschema.Draft202012Validator(account_schema()).validate(json.loads(a.to_json()))
    assert Account.from_json(a.to_json()) == a


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lives_fill_a_memory_up_to_its_peak(schedule) -> None:
    a = account(schedule, "decoupled")
    taken = [e["args"]["taken"] for e in a.trace()["traceEvents"] if e["ph"] == "C"]
    (tcdm,) = (f for f in a.footprint if f.memory == "tcdm")
    assert max(taken) == tcdm.peak
    assert a.time is not None
    names = {i.name for i in a.time.intervals if i.memory == "tcdm"}
    assert names == {"A_C", "B_C", "C_tile"}
    # The tile of C lives around what is loaded for it.
    ((start, end), *_) = sorted((i.start, i.end) for i in a.time.intervals if i.memory and i.name == "C_tile")
    assert any(start <= i.start and i.end <= end for i in a.time.intervals if i.memory and i.name == "A_C")


def test_the_first_intervals_are_those_of_the_whole_timeline() -> None:
    def work(a: Account) -> list:
        assert a.time is not None
        return [i for i in a.time.intervals if not i.memory]

    whole, few = account(double, "decoupled"), account(double, "decoupled", 25)
    assert len(work(few)) == 25
    assert set(work(few)) <= set(work(whole))
    assert account(double, "decoupled", 0).trace is not None and not work(account(double, "decoupled", 0))
    assert few.time is not None and whole.time is not None
    assert few.time.cycles == whole.time.cycles

"""Timelines of real schedules: intervals add up to the time that the account says, and nothing overlaps on a track."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.hw.test_trace import check
from tilewright.hw import Account, AccountError, CapacityError, load_machine
from tilewright.hw.account import account_schema
from tilewright.hw.timing import CAUSES
from tilewright.schedule.causes import RaceError

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
    moved: dict[str, int] = defaultdict(int)
    for i in time.intervals:
        if i.track.startswith("dma."):
            moved[i.name] += i.bytes
    if schedule is not parallel:
        assert moved == {c.name: c.bytes for c in a.copies}
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
    none = account(double, "decoupled", 0)
    assert none.time is not None and not none.time.intervals
    with pytest.raises(AccountError, match="no timeline"):
        none.trace()
    assert few.time is not None and whole.time is not None
    assert few.time.cycles == whole.time.cycles


# Machines that have a rate for f64, for one without it there is no time (`account.rate`).
MEMORIES = {"toy": "spm", "snitch-cluster": "tcdm"}
FACTORS = st.sampled_from([1, 2, 3, 4, 5, 8])


@settings(max_examples=30)
@given(
    st.permutations(["io", "jo", "ko"]), st.tuples(FACTORS, FACTORS, FACTORS), st.sampled_from(sorted(MEMORIES)),
    st.tuples(st.sampled_from(["io", "jo", "ko"]), st.sampled_from(["io", "jo", "ko"])), st.integers(1, 3),
    st.booleans(), st.booleans(), st.sampled_from(["decoupled", "barrier"]), st.tuples(*[st.integers(0, 20)] * 3),
)  # fmt: skip
def test_no_run_is_faster_than_its_roofline(order, by, machine, at, slots, vector, threads, sync, sizes) -> None:
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", by[0], by[1]).split("k", "ko", "ki", by[2])
    C.reorder(*order, "ii", "ki", "ji")
    if vector:
        C.vectorize("ji")
    for name, loop in zip("AB", at, strict=True):
        s.cache_read(name, at=f"C.update.{loop}", memory=MEMORIES[machine])
    if slots > 1:
        s["A_C"].double_buffer(slots)
    if threads and order[0] != "ko":
        C.parallel(order[0])
    try:
        found = matmul.account(
            s, machine=machine, sizes=dict(zip("MNK", sizes, strict=True)), sync=sync, timeline=50_000
        )
    except (CapacityError, RaceError):  # slots of a loop that is shared out among cores are a race
        return
    time = found.time
    assert time is not None
    assert time.cycles >= time.bound * (1 - 1e-12)
    assert time.cycles == time.busy + time.waiting()
    assert time.busy == sum(i.end - i.start for i in time.intervals if i.track == "compute")
    for section in found.roofline().regions:
        assert section.took is None or section.took >= section.cycles * (1 - 1e-9)

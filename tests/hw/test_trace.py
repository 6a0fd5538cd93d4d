"""Chrome traces by the letter: every event has what its kind needs, tracks are named, counters add up."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings

from tests.hw.random_accounts import TOY, accounts
from tests.hw.sample_account import SNITCH, sample
from tilewright.hw import Account, AccountError, Machine, Time
from tilewright.hw.render.trace import trace_events

KEYS = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"ph", "name", "pid", "tid", "ts", "args"},
    "M": {"ph", "name", "pid", "tid", "args"},
}
NAMING = {"process_name": str, "thread_name": str, "process_sort_index": int, "thread_sort_index": int}


def check(trace: dict, account: Account, machine: Machine) -> None:
    """Raise AssertionError where the trace is none, or does not say what the account says."""
    assert account.time is not None
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named, used, last = set(), set(), 0.0
    for e in trace["traceEvents"]:
        assert set(e) == KEYS[e["ph"]]
        assert type(e["pid"]) is int and type(e["tid"]) is int and type(e["name"]) is str
        if e["ph"] == "M":
            (value,) = e["args"].values()
            assert type(value) is NAMING[e["name"]]
            if e["name"].endswith("_name"):
                place = (e["name"], e["pid"], e["tid"])
                assert place not in named
                named.add(place)
            continue
        assert type(e["ts"]) is float and e["ts"] >= last
        last = e["ts"]
        used.add(("process_name", e["pid"], 0))
        if e["ph"] == "X":
            assert type(e["dur"]) is float and e["dur"] >= 0
            used.add(("thread_name", e["pid"], e["tid"]))
        else:
            (value,) = e["args"].values()
            assert type(value) is int and value >= 0
    assert used <= named
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    shown = sorted((e["args"]["cycles"], e["args"].get("bytes", 0)) for e in spans)
    assert shown == sorted((i.end - i.start, i.bytes) for i in account.time.intervals if not i.memory)
    lasts = {e["name"]: e["args"]["taken"] for e in trace["traceEvents"] if e["ph"] == "C"}
    assert all(value == 0 for value in lasts.values())  # in the end all are gone


def test_the_sample() -> None:
    account = sample()
    trace = account.trace()
    check(trace, account, SNITCH)
    peaks: dict[str, int] = defaultdict(int)
    for e in trace["traceEvents"]:
        if e["ph"] == "C":
            peaks[e["name"]] = max(peaks[e["name"]], e["args"]["taken"])
    assert peaks == {"tcdm bytes": account.footprint[0].peak}
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert names == {"compute and waits", "dma.0"}
    # At 1 GHz a microsecond is a thousand cycles.
    assert account.time is not None
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(account.time.cycles / 1000)
    # On one track nothing overlaps.
    for tid in {(e["pid"], e["tid"]) for e in spans}:
        track = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if (e["pid"], e["tid"]) == tid)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(track))


@settings(max_examples=25)
@given(accounts())
def test_any_account(account: Account) -> None:
    assume(account.time is not None and account.time.intervals)
    check(json.loads(json.dumps(trace_events(account, TOY))), account, TOY)


def test_files(tmp_path) -> None:
    account = sample()
    account.save_trace(tmp_path / "t.json")
    account.save_trace(tmp_path / "t.json.gz")
    account.save_trace(tmp_path / "again.json.gz")
    plain = (tmp_path / "t.json").read_bytes()
    packed = (tmp_path / "t.json.gz").read_bytes()
    assert json.loads(plain) == account.trace()
    assert gzip.decompress(packed) == plain
    assert packed == (tmp_path / "again.json.gz").read_bytes()


@pytest.mark.parametrize(
    "time, notes, says",
    [
        (None, (), "timeline=1000"),
        (None, ("there is no time: i8 has no rate",), "i8 has no rate"),
        (Time(1.0, 1.0, "decoupled", 1.0), (), "timeline=1000"),
        (Time(0.0, 0.0, "decoupled", 0.0), (), "takes no time with M="),
    ],
)
def test_without_intervals_there_is_no_trace(time: Time | None, notes: tuple[str, ...], says: str) -> None:
    with pytest.raises(AccountError) as e:
        replace(sample(), time=time, notes=notes).trace()
    assert e.value.code == "account.timeline"
    assert says in str(e.value)


def test_a_machine_that_is_no_preset_is_asked_for() -> None:
    account = replace(sample(), machine="mine")
    with pytest.raises(AccountError) as e:
        account.trace()
    assert e.value.code == "account.machine"
    check(account.trace(SNITCH), account, SNITCH)

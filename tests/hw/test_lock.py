"""Locks: their files, what counts as a difference, and how tolerances are read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hw.random_accounts import accounts
from tests.hw.sample_account import sample
from tilewright.hw import Account, AccountError, Stall
from tilewright.hw.lock import KINDS, Difference, Lock, Tolerance, differences_text, parse_lock, parse_tolerances


def moved(account: Account, **changes) -> Account:
    """The account with a wait of so many more cycles, and more or fewer bytes read of A."""
    assert account.time is not None
    wait, read = changes.get("wait", 0.0), changes.get("read", 0)
    stalls = (*account.time.stalls, Stall("load", "C.update", "A_C", wait))
    time = replace(account.time, cycles=account.time.cycles + wait, stalls=stalls)
    first, *rest = account.traffic
    return replace(account, time=time, traffic=(replace(first, bytes_read=first.bytes_read + read), *rest))


def test_the_file(golden) -> None:
    golden(Lock.of(sample()).text())


@settings(max_examples=30)
@given(accounts())
def test_the_file_gives_the_lock_back_and_nothing_has_moved(account: Account) -> None:
    lock = Lock.of(account)
    assert parse_lock(lock.text()) == lock
    assert parse_lock(lock.text()).text() == lock.text()
    assert parse_lock(lock.text()).check(account) == ()
    lines = lock.text().splitlines()
    assert sum("=" in line for line in lines if not line.startswith("#")) >= 3 + len(lock.sizes)


def test_without_a_tolerance_everything_counts() -> None:
    lock, account = Lock.of(sample()), sample()
    assert lock.check(account) == ()
    assert lock.check(moved(account, read=1)) == (Difference("bytes", "dram A read", 16384, 16385),)
    found = lock.check(moved(account, wait=0.01))
    assert [(d.kind, d.name) for d in found] == [("cycles", "all"), ("cycles", "waiting, load")]


@given(st.floats(0, 5000), st.floats(0, 50))
def test_a_share_of_cycles_is_one_of_the_whole_run(wait: float, percent: float) -> None:
    account = sample()
    assert account.time is not None
    allowed = percent / 100 * account.time.cycles
    found = Lock.of(account).check(moved(account, wait=wait), parse_tolerances(f"cycles={percent:f}%"))
    if abs(wait - allowed) > 0.01:  # figures are rounded, and so is what is typed
        assert bool(found) == (wait > allowed)


@pytest.mark.parametrize(
    "tolerance, by, counts",
    [
        (Tolerance(), 1, True), (Tolerance(absolute=1), 1, False), (Tolerance(absolute=1), -1, False),
        (Tolerance(absolute=1), 2, True), (Tolerance(share=0.01), 163, False), (Tolerance(share=0.01), 164, True),
        (Tolerance(share=0.01), -164, True), (Tolerance(absolute=200, share=0.01), 200, False),
    ],
)  # fmt: skip
def test_tolerances(tolerance: Tolerance, by: int, counts: bool) -> None:
    found = Lock.of(sample()).check(moved(sample(), read=by), {"bytes": tolerance})
    assert bool(found) == counts


def test_what_is_new_or_gone_counts_whatever_the_tolerance() -> None:
    account = sample()
    wide = {kind: Tolerance(absolute=1e30) for kind in KINDS}
    fewer = replace(account, traffic=account.traffic[1:], time=None)
    gone = Lock.of(account).check(fewer, wide)
    assert ("bytes", "dram A read", None) in [(d.kind, d.name, d.after) for d in gone]
    assert ("cycles", "all", None) in [(d.kind, d.name, d.after) for d in gone]
    new = Lock.of(fewer).check(account, wide)
    assert [(d.kind, d.name) for d in new] == [(d.kind, d.name) for d in gone]
    assert all(d.before is None for d in new)


def test_the_table(golden) -> None:
    lock = Lock.of(sample())
    found = lock.check(replace(moved(sample(), wait=100.25, read=-1024), footprint=(), operations={"f32": 1}))
    golden(differences_text(found))


@pytest.mark.parametrize("change", [{"kernel": "other"}, {"machine": "toy"}, {"sizes": {"M": 1}}])
def test_another_run_is_no_difference_but_a_mistake(change) -> None:
    with pytest.raises(AccountError) as e:
        Lock.of(sample()).check(replace(sample(), **change))
    assert e.value.code == "lock.other"
    assert next(iter(change)) in e.value.message


@pytest.mark.parametrize(
    "text, code",
    [
        ("format = ", "lock.syntax"),
        (f"format = {'9' * 5000}", "lock.syntax"),
        (f"format = {'[' * 2000}", "lock.syntax"),
        ("", "lock.bad-value"),
        ("format = 2", "lock.bad-value"),
        ("format = 1\nkernel = 3", "lock.bad-value"),
        ('format = 1\nkernel = "k"\nmachine = "m"\nsizes = 3', "lock.bad-value"),
        ('format = 1\nkernel = "k"\nmachine = "m"\n[sizes]\nM = 1.5', "lock.bad-value"),
        ('format = 1\nkernel = "k"\nmachine = "m"\n[bytes]\nx = "1"', "lock.bad-value"),
        ('format = 1\nkernel = "k"\nmachine = "m"\n[bytes]\nx = nan', "lock.bad-value"),
        ('format = 1\nkernel = "k"\nmachine = "m"\n[bytes]\nx = true', "lock.bad-value"),
        ('format = 1\nkernel = "k"\nmachine = "m"\n[bites]\nx = 1', "lock.bad-value"),
    ],
)
def test_bad_files(text: str, code: str) -> None:
    with pytest.raises(AccountError) as e:
        parse_lock(text, "my.lock")
    assert e.value.code == code
    assert e.value.where[0].file == "my.lock"


def test_tolerances_as_text() -> None:
    read = parse_tolerances("bytes=0, cycles = 1 %,footprint=64,")
    assert read == {"bytes": Tolerance(), "cycles": Tolerance(share=0.01), "footprint": Tolerance(absolute=64)}
    assert parse_tolerances("") == {}


@pytest.mark.parametrize(
    "text", ["bytes", "bites=1", "bytes=", "bytes=-1", "bytes=1,bytes=2", "bytes=x%", "bytes=nan", "=1"]
)
def test_bad_tolerances(text: str) -> None:
    with pytest.raises(AccountError) as e:
        parse_tolerances(text)
    assert e.value.code == "lock.tolerance"

"""The engine against a naive model of the machine, against itself without fast forward, and compiled against interpreted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.codegen.naive_skeleton import Naive, TooLong
from tests.codegen.random_skeletons import tables, values
from tilewright.codegen.skeleton import tree as T
from tilewright.codegen.skeleton.engine import Result, run


def check_naive(table: T.Table, sizes: dict) -> None:
    """The plain walk says what the naive model says."""
    try:
        naive = Naive(table, sizes).run()
    except TooLong:
        reject()
    found = run(table, sizes, forward=False)
    assert found.counters == tuple(naive.counts[k] for k in range(len(table.counters)))
    assert {k: n for k, n in found.visits.items() if n} == {k: n for k, n in naive.visits.items() if n}
    copies = {
        k: {"copies": c.copies, "descriptors": c.descriptors, "bytes": c.bytes, "runs": c.runs, "burst": c.burst_bytes,
            "split": c.split, "transfer": c.transfer}
        for k, c in found.copies.items() if c.copies
    }  # fmt: skip
    assert copies == {k: dict(c) for k, c in naive.copies.items()}
    assert {k: n for k, n in found.sections.items() if n} == {k: n for k, n in naive.m.busy.items() if n}
    waits: Counter = Counter()
    for w in found.waits:
        waits[w.cause] += w.ticks
    assert waits == +naive.m.waits
    assert found.used == tuple(naive.m.used[r] for r in range(len(table.resources)))
    assert found.total == naive.m.clock
    check_sum(found)


def check_sum(found: Result) -> None:
    assert found.total == found.busy + found.waited()


def facts(r: Result) -> tuple:
    waits = sorted((w.cause, -1 if w.section is None else w.section, -1 if w.buffer is None else w.buffer, w.ticks)
                   for w in r.waits)  # fmt: skip
    return r.total, r.counters, dict(r.sections), dict(r.visits), dict(r.copies), waits, r.used, dict(r.channels)


@given(tables(), values)
@settings(max_examples=80)
def test_the_plain_walk_is_the_naive_model(table, sizes):
    check_naive(table, sizes)


@given(tables(barrier=True), values)
@settings(max_examples=80)
def test_phases_are_those_of_the_naive_model(table, sizes):
    check_naive(table, sizes)


def lines(table: T.Table, found: Result) -> list[int]:
    """Ticks of what only one can have at a time: channels, the bus where an engine's data are serial, resources."""
    engines = {s.section: s.engine for s in T.walk(table.tree) if isinstance(s, T.Copy)}
    buses = [0] * len(table.engines)
    for section, c in found.copies.items():
        engine = table.engines[engines[section]]
        if engine.contention == "fifo":
            buses[engines[section]] += c.transfer - c.descriptors * engine.issue
    return [*found.channels.values(), *buses, *found.used, found.busy]


@given(st.booleans().flatmap(tables), values)
@settings(max_examples=60)
def test_nothing_is_at_two_things_at_once(table, sizes):
    """Copies that run ahead and copies that the core waits for, in rings in rings, on cores."""
    for forward in (True, False):
        found = run(table, sizes, forward=forward)
        assert found.total >= max(lines(table, found))


@given(st.booleans().flatmap(lambda b: tables(b, cores=False, copies=True)), values)
@settings(max_examples=60)
def test_a_machine_that_only_copies_takes_as_long_as_its_channel(table, sizes):
    for forward in (True, False):
        found = run(table, sizes, forward=forward)
        assert found.total == sum(found.channels.values())


@given(st.booleans().flatmap(lambda b: tables(b, cores=False)), values)
@settings(max_examples=60)
def test_a_timeline_has_the_time_and_the_bytes_of_every_copy(table, sizes):
    """Also where several share a channel between two barriers, and where the work takes it in between."""
    for native in (True, False):
        found = run(table, sizes, intervals=20_000, native=native)
        shown: dict[int, list[int]] = {}
        for i in found.intervals:
            if not isinstance(i.track, str):
                assert i.section is not None
                sums = shown.setdefault(i.section, [0, 0])
                sums[0] += i.end - i.start
                sums[1] += i.bytes
        copied = {s: [c.transfer, c.bytes] for s, c in found.copies.items() if c.transfer}
        assert {s: size for s, (_, size) in shown.items()} == {s: size for s, (_, size) in copied.items()}
        for s, (took, _) in shown.items():
            # channels that share a bus wait for each other's data in the middle of a copy
            assert took >= copied[s][0] if shares_a_bus(table) else took == copied[s][0]


def shares_a_bus(table) -> bool:
    return any(e.contention == "fifo" and e.channels > 1 for e in table.engines)


@given(tables(), values)
@settings(max_examples=80)
def test_fast_forward_changes_nothing(table, sizes):
    assert facts(run(table, sizes)) == facts(run(table, sizes, forward=False))


@given(tables(barrier=True), values)
def test_fast_forward_changes_nothing_between_barriers(table, sizes):
    assert facts(run(table, sizes)) == facts(run(table, sizes, forward=False))


@given(tables(), values)
@settings(max_examples=20)
def test_the_compiled_engine_is_its_source(table, sizes):
    assert facts(run(table, sizes, native=True)) == facts(run(table, sizes, native=False))


@given(st.booleans().flatmap(tables), values, st.integers(40, 60))
@settings(max_examples=40)
def test_what_64_bits_do_not_hold_is_computed_without_them(table, sizes, heavy):
    """Work that takes very long: times wrap around nowhere, whichever sums they come from."""
    weights = [tuple((r, w << heavy) for r, w in c.weights) for c in table.counters]
    engines = tuple(replace(e, issue=e.issue << heavy - 5, latency=e.latency << heavy - 5) for e in table.engines)
    counters = tuple(replace(c, weights=w) for c, w in zip(table.counters, weights, strict=True))
    table = replace(table, counters=counters, engines=engines)
    found = run(table, sizes)
    assert found.total == found.busy + found.waited()
    check_naive(table, sizes)

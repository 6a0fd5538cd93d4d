"""Closed forms and laws of time: streams of tiles through rings, section 2 of the memory reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.skeleton import tree as T
from tilewright.codegen.skeleton.engine import Result, run
from tilewright.hw.errors import SimulationError
from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer, size, var
from tilewright.lang.types import bool_, f32

I = var("i")
ENGINE = T.Engine("dma", channels=2, queue=64)


def stream(
    load: int,
    work: int,
    store: int,
    slots_in: int = 2,
    slots_out: int = 2,
    in_place: bool = False,
    engine: T.Engine = ENGINE,
    sync: str = "decoupled",
    barrier: int = 0,
    alone: int = 0,
) -> T.Table:
    """N tiles that are loaded, worked on and stored; a byte is a tick, and so is a unit of work. The core waits for a load
    of `alone` more bytes before it works."""
    buffers = (
        T.Buffer("X", "main"),
        T.Buffer("Y", "main"),
        T.Buffer("x", "l1", slots_in),
        T.Buffer("y", "l1", slots_out),
        T.Buffer("Z", "main"),
        T.Buffer("z", "l1"),
    )
    out = 2 if in_place else 3

    def slot(b: int) -> ir.Node:
        return simplify.mod(I, integer(buffers[b].slots))

    def copy(section: int, outer: int, inner: int, count: int, inward: bool) -> T.Copy:
        far = T.Side(outer, None, simplify.mul(I, integer(1024)), (integer(1),), 1)
        near = T.Side(inner, slot(inner), simplify.mul(slot(inner), integer(1024)), (integer(1),), 1)
        source, target = (far, near) if inward else (near, far)
        return T.Copy(section, source, target, (integer(count),), True, 0, inward, 1, 1)

    uses = (T.Use(2, slot(2), True, in_place), *(() if in_place else (T.Use(3, slot(3), False, True),)))
    items = (copy(0, 0, 2, load, True), T.Compute(1, uses, T.Charge(0, integer(work))), copy(2, 1, out, store, False))
    if alone:
        far, near = (T.Side(b, None, integer(0), (integer(1),), 1) for b in (4, 5))
        items = (T.Copy(3, far, near, (integer(alone),), False, 0, True, 1, 1), *items)
    loop: T.Step = T.Loop(I, integer(0), size("N"), T.SERIAL, T.Sequence(items), None, None, True)
    for b in {2, out}:
        loop = T.Life(b, loop)
    counters = (T.Counter("work", 1, ((0, 1),)),)
    return T.Table(
        loop, counters, (T.Resource("ops"),), ("load", "work", "store", "alone"), buffers, (engine,), sync=sync,
        barrier=barrier,
    )  # fmt: skip


def total(table: T.Table, n: int) -> int:
    found = run(table, {"N": n})
    assert found.total == found.busy + found.waited()
    assert found.total >= bound(table, found)
    return found.total


def bound(table: T.Table, found: Result) -> int:
    """What the busiest resource takes."""
    return max([found.busy, *found.used, *found.channels.values()])


TIMES = st.integers(1, 40)
TILES = st.integers(1, 60)


@given(TIMES, TIMES, TIMES, TILES)
def test_two_slots_in_and_out(load, work, store, n):
    assert total(stream(load, work, store), n) == load + work + store + (n - 1) * max(load, work, store)


@given(TIMES, TIMES, TIMES, TILES)
def test_one_slot_in_place_is_serial(load, work, store, n):
    assert total(stream(load, work, store, 1, in_place=True), n) == n * (load + work + store)


@given(TIMES, TIMES, TIMES, st.integers(1, 4))
def test_slots_in_place_share_the_three_steps(load, work, store, slots):
    table = stream(load, work, store, slots, in_place=True)
    # The rest of a steady stream, over a number of tiles that all slots divide.
    rate = total(table, 12 * slots + 60) - total(table, 60)
    assert rate == 12 * max(slots * max(load, work, store), load + work + store)


@given(TIMES, TIMES, TIMES)
def test_one_channel_for_both_directions(load, work, store):
    table = stream(load, work, store, engine=replace(ENGINE, channels=1))
    assert total(table, 160) - total(table, 60) == 100 * max(load + store, work)


@given(TIMES, TIMES, TIMES, TILES, st.integers(0, 9))
def test_a_barrier_between_phases(load, work, store, n, barrier):
    table = stream(load, work, store, sync="barrier", barrier=barrier)
    phases = [
        max(load if p < n else 0, store if p >= 2 else 0, work if 1 <= p <= n else 0) for p in range(n + 2)
    ]  # fmt: skip
    assert total(table, n) == sum(phases) + (n + 2) * barrier
    single = stream(load, work, store, sync="barrier", barrier=barrier, engine=replace(ENGINE, channels=1))
    phases = [
        max((load if p < n else 0) + (store if p >= 2 else 0), work if 1 <= p <= n else 0) for p in range(n + 2)
    ]  # fmt: skip
    assert total(single, n) == sum(phases) + (n + 2) * barrier


@given(TIMES, TIMES, TIMES, TIMES, TILES, st.integers(1, 3), st.integers(0, 30))
def test_a_copy_of_the_work_has_its_turn_on_the_channel(load, work, store, alone, n, channels, latency):
    """Of one channel, the loads' (as it is of two), or none of the others'."""
    engine = replace(ENGINE, channels=channels, latency=latency)
    table = stream(load, work, store, engine=engine, sync="barrier", barrier=2, alone=alone)
    done = alone + latency + work  # the work of an iteration
    taken = [alone if channels < 3 else 0, alone if channels == 1 else 0]  # of the loads' channel and of the stores'

    def phase(p: int) -> int:
        loads, stores, works = load * (p < n), store * (p >= 2), 1 <= p <= n
        if channels == 1:
            lines = [loads + stores + taken[0] * works]
        else:
            lines = [loads and loads + taken[0] * works, stores and stores + taken[1] * works]
        return max([done * works, *(t + latency for t in lines if t)])

    assert total(table, n) == sum(phase(p) + 2 for p in range(n + 2))


@given(TIMES, st.integers(1, 20), st.integers(0, 30), st.integers(0, 9))
def test_what_is_done_in_an_iteration_is_done_for_the_next(length, n, latency, barrier):
    """The core reads a box, then writes it, while a ring is drained to the same buffer."""

    def side(b: int, first: int = 0, slot: ir.Node | None = None) -> T.Side:
        return T.Side(b, slot, integer(first), (integer(1),), 1)

    turn = simplify.mod(I, integer(2))
    copies = (
        T.Copy(0, side(0), side(1), (integer(length),), False, 0, True, 1, 1),
        T.Copy(1, side(1), side(0), (integer(length),), False, 0, False, 1, 1),
        T.Copy(2, side(2, 0, turn), side(0, 1024), (integer(length),), True, 0, False, 1, 1),
    )
    loop = T.Loop(I, integer(0), size("N"), T.SERIAL, T.Sequence(copies), None, None, True)
    buffers = (T.Buffer("Y", "main"), T.Buffer("y", "l1"), T.Buffer("ring", "l1", 2))
    table = T.Table(T.Life(2, loop), (), (), ("read", "write", "drain"), buffers,
                    (replace(ENGINE, channels=3, latency=latency),), sync="barrier", barrier=barrier)  # fmt: skip
    assert total(table, n) == n * 2 * (length + latency) + length + latency + (n + 2) * barrier


@given(TIMES, TIMES, TIMES, TILES, st.integers(1, 2), st.integers(0, 30))
def test_two_slots_never_lose_against_one(load, work, store, n, channels, latency):
    engine = replace(ENGINE, channels=channels, latency=latency)
    assert total(stream(load, work, store, engine=engine), n) <= total(
        stream(load, work, store, 1, 1, engine=engine), n
    )


@given(TIMES, TIMES, TIMES, TILES, st.integers(1, 3), st.integers(0, 30))
def test_faster_copies_make_nothing_slower(load, work, store, n, slots, latency):
    engine = replace(ENGINE, latency=latency)
    slow = total(stream(load + 1, work, store + 1, slots, slots, engine=engine), n)
    assert total(stream(load, work, store, slots, slots, engine=engine), n) <= slow


@given(TIMES, TIMES, st.integers(0, 200), st.integers(1, 6))
def test_slots_hide_latency(load, work, latency, slots):
    table = stream(load, work, 1, slots, 6, engine=replace(ENGINE, latency=latency))
    rate = total(table, 12 * slots + 60) - total(table, 60)
    # A slot is free, filled, waited for and used once in a round.
    one = max(load, work, 1)
    assert rate >= 12 * slots * one
    if slots * one >= latency + load + work and 6 * one >= latency + 1 + work:
        assert rate == 12 * slots * one
    if slots * one < latency + load + work:
        assert rate >= 12 * (latency + load + work)


@given(TIMES, st.integers(1, 100), st.integers(1, 5))
def test_a_queue_bounds_what_is_under_way(load, latency, queue):
    """Loads only: one a channel's turn, but no more than the queue in a load's whole time."""
    table = stream(load, 0, 1, 16, 16, engine=replace(ENGINE, latency=latency, queue=queue))
    body = table.tree
    while isinstance(body, T.Life):
        body = body.body
    assert isinstance(body, T.Loop) and isinstance(body.body, T.Sequence)
    loop = replace(body, body=T.Sequence(body.body.items[:2]))
    table = replace(table, tree=T.Life(2, loop))
    rate = total(table, 60 + 12 * queue) - total(table, 60)
    assert rate == 12 * max(queue * load, load + latency)


def test_waits_say_what_came_last():
    found = run(stream(9, 2, 3), {"N": 10})
    causes = {(w.cause, w.section) for w in found.waits}
    assert causes == {("load", 1), ("drain", None)}
    found = run(stream(2, 3, 11), {"N": 10})
    assert max(found.waits, key=lambda w: w.ticks).cause == "store"
    issued = run(stream(3, 1, 1, engine=replace(ENGINE, issue=20)), {"N": 10})
    assert issued.waited("issue") > issued.waited("load") > 0


def test_the_first_intervals():
    table = stream(5, 7, 3)
    kept = run(table, {"N": 1000}, intervals=6).intervals
    assert len(kept) == 6
    assert (kept[0].track, kept[0].section, kept[0].start, kept[0].end) == ((0, 0), 0, 0, 5)
    assert any(s.track == "compute" and (s.start, s.end) == (5, 12) for s in kept)
    assert run(table, {"N": 1000}, intervals=6).total == run(table, {"N": 1000}).total


def test_counts_of_long_nests():
    """10^10 innermost iterations, and tails at every level."""
    j, k = var("j"), var("k")
    inner = T.Loop(k, integer(0), simplify.minimum(integer(64), simplify.sub(size("N"), simplify.mul(j, integer(64)))),
                   T.SERIAL, T.Charge(0, integer(1)), 1, 2)  # fmt: skip
    tiles = simplify.floordiv(simplify.add(size("N"), integer(63)), integer(64))
    middle = T.Loop(j, integer(0), tiles, T.SERIAL, inner)
    outer = T.Compute(0, (), T.Loop(I, integer(0), size("N"), T.SERIAL, middle))
    table = T.Table(outer, tuple(T.Counter(n, 0) for n in "abc"), (), ("all",), ())
    for n in (0, 1, 63, 64, 65, 100_003):
        assert run(table, {"N": n}).counters == (n * n, n * (-(-n // 64)), n * n)


def test_more_than_64_bits_hold():
    """Costs, counts and times beyond 2^63, of one section, of a ring in both modes, and of cores."""
    work = T.Compute(0, (), T.Loop(I, integer(0), size("N"), T.SERIAL, T.Charge(0, size("K")), 1, 2))
    names = (T.Counter("a", 0, ((0, 3 << 20),)), T.Counter("visits", 0), T.Counter("trips", 0))
    for n, k in ((2**40, 1), (2**41, 2**21), (2**62, 1), (2**31, 2**62), (2**62, 2**62)):
        for mode in (T.SERIAL, T.PARALLEL):
            tree = T.Loop(var("j"), integer(0), integer(8), mode, work)
            found = run(T.Table(tree, names, (T.Resource("ops", T.CORE),), ("all",), (), (), cores=4), {"N": n, "K": k})
            assert found.counters == (8 * n * k, 8, 8 * n)
            assert found.total == found.busy == (8 if mode == T.SERIAL else 2) * n * k * (3 << 20)
    load, longest, store, n = 3 << 40, 5 << 40, 1 << 40, 1 << 30
    for sync in ("decoupled", "barrier"):
        found = run(stream(load, longest, store, sync=sync), {"N": n})
        assert found.total == load + n * longest + store == found.busy + found.waited()


def test_expressions_that_read_data_are_refused():
    data = ir.node("load", f32.compute, (integer(0),), ("X", 0))
    condition = ir.node("lt", bool_, (data, data))
    table = T.Table(T.Branch(condition, T.Charge(0, integer(1))), (T.Counter("a"),), (), (), ())
    with pytest.raises(SimulationError) as caught:
        run(table, {})
    assert caught.value.code == "skeleton.data"

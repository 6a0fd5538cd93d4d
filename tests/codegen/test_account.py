"""Accounts without data: counts by closed forms, copies, energy, time, footprint, and what has no skeleton."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.codegen.machine_runs import roomy
from tests.codegen.test_simulate import matmul, staged
from tilewright.hw import Account, AccountError, CapacityError, SimulationError, load_machine
from tilewright.views.explain import explain

M, N = tw.sizes("M N")


def ringed():
    s = staged()
    s["A_C"].double_buffer()
    s["B_C"].double_buffer()
    return s


def up(n: int, k: int) -> int:
    return -(-n // k)


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000))
@settings(max_examples=20)
def test_counts_of_a_product_at_any_size(m: int, n: int, k: int) -> None:
    got = matmul.account(ringed(), machine="toy", sizes={"M": m, "N": n, "K": k})
    assert got.source == "skeleton"
    rows, columns, depth = up(m, 16), up(n, 16), up(k, 32)
    a, c = got.of("spm", "A_C"), got.of("spm", "C_tile")
    assert got.of("dram", "A").reads == a.fills == a.writes == m * k * columns
    assert a.reads == m * n * k and c.drains == got.of("dram", "C").writes == m * n
    assert c.first == m * 16 * columns  # whole vectors: there is room for them in the tile
    assert c.updates == c.served + m * n == m * n * k + m * n or c.updates == m * n * k
    assert got.operations == {"f32": 2 * m * n * k}
    stream = next(s for s in got.copies if s.name == "A_C")
    assert stream.copies == rows * columns * depth and stream.bytes == 4 * m * k * columns
    assert {r.tensor: r.of for r in got.traffic if r.memory == "spm"} == {"A_C": "A", "B_C": "B", "C_tile": "C"}


def test_the_account_of_a_run_is_that_of_its_skeleton() -> None:
    sizes = {"M": 40, "N": 33, "K": 70}
    ran = matmul.simulate(ringed(), machine="toy", sizes=sizes).account
    assert replace(ran, source="skeleton") == matmul.account(ringed(), machine="toy", sizes=sizes)


def test_energy_is_bytes_and_operations_times_their_figures() -> None:
    toy = load_machine("toy")
    machine = replace(toy, compute=replace(toy.compute, energy={"f32": 2.0}))
    got = matmul.account(staged(), machine=machine, sizes={"M": 32, "N": 32, "K": 32})
    dram, spm = got.of("dram"), got.of("spm")
    assert got.energy["dram"] == 100 * (dram.bytes_read + dram.bytes_written)
    assert got.energy["spm"] == spm.bytes_read + spm.bytes_written
    assert got.energy["compute"] == 2.0 * 2 * 32**3


def test_classes_of_operations_count_as_the_machine_says() -> None:
    @tw.kernel
    def quotients(A: tw.f32[M]):
        i = tw.vars("i")
        q = tw.func("q")
        q[i] = A[i] / 3.0 + tw.exp(A[i])
        return q[:M]

    s = quotients.schedule()
    s["q"].unscheduled()
    toy = load_machine("toy")
    plain = quotients.account(s, machine=toy, sizes={"M": 100})
    assert plain.operations == {"f32": 3 * 100}
    machine = replace(toy, compute=replace(toy.compute, classes={"div": 8.0, "special": 20.0}))
    dear = quotients.account(s, machine=machine, sizes={"M": 100})
    assert dear.operations == {"f32": (8 + 20 + 1) * 100}
    assert dear.time.busy == 100 * 29 * toy.compute.lanes(4) / 16  # scalar code takes a vector's turn


def test_vectors_across_banks_wait() -> None:
    """A column of a row-major tile of 16 words a row lies in one of 8 banks of 8 bytes."""

    @tw.kernel
    def transposed(A: tw.f64[M, N]):
        i, j = tw.vars("i j")
        t = tw.func("t")
        t[i, j] = A[j, i]
        return t[:N, :M]

    s = transposed.schedule()
    t = s["t"].tile("i", "j", "io", "jo", "ii", "ji", 16, 16)
    t.reorder("io", "jo", "ii", "ji").vectorize("ji", 8)
    s.cache_read("A", at="t.jo", memory="spm")
    got = transposed.account(s, machine="toy", sizes={"M": 64, "N": 64})
    assert got.time.waiting("bank") == 64 * 64 / 8 * 7  # eight words, one after the other
    wide = replace(roomy(1), memories=tuple(replace(m, banks=1) for m in roomy(1).memories))
    assert transposed.account(s, machine=wide, sizes={"M": 64, "N": 64}).time.waiting("bank") == 0


def test_accesses_to_a_memory_of_few_under_way_take_its_latency() -> None:
    @tw.kernel
    def more(A: tw.f32[M]):
        i = tw.vars("i")
        m = tw.func("m")
        m[i] = A[i] + 1.0
        return m[:M]

    toy = roomy(2)
    dram, *others = toy.memories
    waiting = replace(toy, memories=(replace(dram, latency=80.0, outstanding=4), *others))
    each, register = 80 / 4, toy.compute.vector_bytes // 4

    def busy(n: int, change) -> float:
        s = more.schedule()
        change(s, s["m"].unscheduled())
        got = more.simulate(s, machine=waiting, sizes={"M": n}).account  # held to its skeleton
        assert got.time.cycles >= got.time.bound
        assert got == replace(more.account(s, machine=waiting, sizes={"M": n}), source="execution")
        free = more.account(s, machine=toy, sizes={"M": n})
        assert free.time.cycles < got.time.cycles and "latency" not in str(free.time.uses)
        (used,) = (u.busy for u in got.time.uses if u.resource == "dram.latency")
        assert used == got.time.busy and got.roofline(waiting).whole.limit == "dram.latency"
        return used

    assert busy(100, lambda s, m: None) == 2 * 100 * each  # a load and a store for each element
    assert busy(99, lambda s, m: m.vectorize("i", 2 * register)) == 2 * -(-99 // (2 * register)) * 2 * each
    assert busy(100, lambda s, m: m.parallel("i")) == 2 * 50 * each  # cores wait on their own


def test_time_leaves_no_operations_out() -> None:
    """Where a machine has no rate for a type there is no time, no roofline and no nest, and all of them say why."""

    @tw.kernel
    def more(A: tw.u16[M]):
        i = tw.vars("i")
        m = tw.func("m")
        m[i] = A[i] + A[i]
        return m[:M]

    def rated(**ops: float):
        toy = roomy(1)
        return replace(toy, compute=replace(toy.compute, ops=ops))

    none, signed, own = (rated(f32=16.0), rated(i16=2.0), rated(i16=2.0, u16=4.0))
    for got in (
        more.account(machine=none, sizes={"M": 9}),
        more.simulate(machine=none, sizes={"M": 9}).account,
    ):
        assert got.time is None and got.operations == {"u16": 9} and got.of("dram", "A").reads == 9
        assert got.notes == ("there is no time: toy has no rate of operations on u16",)
        with pytest.raises(SimulationError, match="no time") as e:
            got.nest.text()
        assert "no rate of operations on u16" in str(e.value)
        with pytest.raises(AccountError, match="no rate of operations on u16"):
            got.roofline(none)
        assert Account.from_json(got.to_json()) == got
    assert more.account(machine=none, sizes={"M": 0}).time is not None  # which has none
    assert "note: there is no time" in str(explain(more, machine=none, sizes={"M": 9}))
    slow, fast = (more.account(machine=m, sizes={"M": 9000}) for m in (signed, own))
    assert slow.roofline(signed).whole.compute == 9000 / 2 and fast.roofline(own).whole.compute == 9000 / 4


def test_time_knows_no_caches_and_says_so() -> None:
    sizes = {"M": 24, "N": 20, "K": 30}
    machine = load_machine("skylake-sp")
    plain = matmul.account(machine=machine, sizes=sizes)
    cached = matmul.simulate(machine=machine, sizes=sizes, caches=True).account
    assert cached.time == plain.time and plain.time.cycles >= plain.time.bound
    assert any("time knows no caches" in note for note in plain.notes) and plain.notes == cached.notes
    line = cached.roofline(machine)
    (region,) = line.regions
    assert line.whole.took is region.took is None  # it would not be of these caches
    assert {r.name for r in region.roofs} <= {r.name for r in line.whole.roofs}
    for roof in region.roofs:
        assert roof == next(r for r in line.whole.roofs if r.name == roof.name)
    assert not any("caches" in note for note in matmul.account(machine="toy", sizes=sizes).notes)


def test_a_run_meets_as_it_is_told_and_keeps_its_first_intervals() -> None:
    sizes = {"M": 32, "N": 32, "K": 64}
    for sync in ("decoupled", "barrier"):
        ran = matmul.simulate(ringed(), machine="toy", sizes=sizes, sync=sync, timeline=50).account
        assert ran == replace(
            matmul.account(ringed(), machine="toy", sizes=sizes, sync=sync, timeline=50), source="execution"
        )
        assert ran.time.sync == sync and ran.time.intervals
    with pytest.raises(SimulationError, match="sync='never'"):
        matmul.simulate(ringed(), machine="toy", sizes=sizes, sync="never")


def test_a_buffer_of_every_core_at_work() -> None:
    s = staged()
    s["C.update"].parallel("io")
    got = matmul.account(s, machine=roomy(4), sizes={"M": 64, "N": 64, "K": 64})
    (spm,) = (f for f in got.footprint if f.memory == "spm")
    assert spm.peak == 4 * 5120 == spm.arena
    assert all(b.copies == 4 for b in spm.buffers)
    few = matmul.account(s, machine=roomy(4), sizes={"M": 32, "N": 64, "K": 64})
    assert next(f for f in few.footprint if f.memory == "spm").peak == 2 * 5120


def test_buffers_that_live_together_do_not_overlap() -> None:
    got = matmul.account(ringed(), machine="toy", sizes={"M": 64, "N": 64, "K": 64})
    for f in got.footprint:
        spans = sorted((b.offset, b.offset + f.taken(b)) for b in f.buffers if b.offset is not None)
        assert len(spans) == len(f.buffers)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(start % f.alignment == 0 for start, _ in spans)


def test_double_buffering_hides_copies_and_barriers_cost() -> None:
    sizes = {"M": 128, "N": 128, "K": 256}
    plain, ring, barrier = (
        matmul.account(s, machine="toy", sizes=sizes, sync=sync)
        for s, sync in ((staged(), None), (ringed(), None), (ringed(), "barrier"))
    )
    assert ring.time.cycles <= barrier.time.cycles < plain.time.cycles
    assert ring.time.busy == plain.time.busy == barrier.time.busy
    assert ring.time.sync == "decoupled" and barrier.time.sync == "barrier"
    for a in (plain, ring, barrier):
        assert a.time.cycles == a.time.busy + a.time.waiting() and a.time.cycles >= a.time.bound


def test_the_nest_has_every_loop_copy_and_computation() -> None:
    got = matmul.account(ringed(), machine="toy", sizes={"M": 64, "N": 48, "K": 64})
    lines = {x.name: x for x in got.time.lines if x.kind in ("loop", "copy", "buffer")}
    assert (lines["C.update.io"].visits, lines["C.update.io"].trips) == (1, 4)
    assert (lines["C.update.ko"].visits, lines["C.update.ko"].trips) == (12, 24)
    assert lines["A_C"].kind == "copy" and lines["A_C"].visits == 24
    assert lines["C.update.io"].bytes == sum(s.bytes for s in got.copies)
    assert lines["C.update.io"].busy == got.time.busy
    assert lines["A_C"].live == {"spm": 1024 + 2 * 2048 + 2 * 2048}
    assert "for ko in 0..(K + 31)//32" in str(got.nest)


def test_the_first_intervals_of_time() -> None:
    got = matmul.account(ringed(), machine="toy", sizes={"M": 64, "N": 64, "K": 64}, timeline=40)
    tracks = {i.track for i in got.time.intervals}
    assert {"compute", "dma.0"} <= tracks
    assert all(i.start <= i.end <= got.time.cycles for i in got.time.intervals)


def test_data_in_bounds_have_no_skeleton_but_time() -> None:
    @tw.kernel
    def counted(rows: tw.i32[M], A: tw.f32[M, N]):
        i = tw.vars("i")
        j = tw.rdom(j=N)
        s = tw.func("s")
        s[i] = 0.0
        j.where(j < rows[i])
        s[i] += A[i, j]
        return s[:M]

    with pytest.raises(SimulationError) as e:
        counted.account(machine="toy", sizes={"M": 5, "N": 9})
    assert e.value.code == "skeleton.data" and "simulate" in str(e.value)
    assert counted.simulate(machine="toy", sizes={"M": 5, "N": 9}).account.time.cycles > 0


def test_what_does_not_fit_and_unknown_ways_to_meet_are_refused() -> None:
    with pytest.raises(CapacityError):
        matmul.account(staged(tile=128, depth=128), machine="toy", sizes={"M": 256, "N": 256, "K": 256})
    with pytest.raises(SimulationError) as e:
        matmul.account(staged(), machine="toy", sizes={"M": 4, "N": 4, "K": 4}, sync="never")
    assert e.value.code == "simulation.sync" and "barrier" in str(e.value)


@pytest.mark.parametrize("n", [1, 63, 100, 4096, 4097, 9000, 20_000])
def test_sums_by_halves_have_a_skeleton(n: int) -> None:
    """Steps that combine partial results run over shifted sizes: no data decide how many there are."""

    @tw.kernel
    def total(A: tw.f32[M, N]):
        i = tw.vars("i")
        j = tw.rdom(j=N)
        s = tw.func("s")
        s[i] = tw.sum(A[i, j], over=j)
        return s[:M]

    found = total.account(machine="toy", sizes={"M": 2, "N": n})
    run = total.simulate(machine="toy", sizes={"M": 2, "N": n}).account
    assert (found.traffic, found.operations, found.time) == (run.traffic, run.operations, run.time)

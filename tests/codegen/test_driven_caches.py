"""Caches driven by kernels while they run: the stream of accesses, the counts of a naive hierarchy, policies."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.codegen.naive_caches import naive
from tests.codegen.recorded_accesses import accesses, driven, machine
from tests.codegen.test_cpu_caches import cache, hierarchies
from tests.kernels import matmul
from tests.schedule.algorithms import ALL
from tests.schedule.random_schedules import grow
from tilewright.codegen import loops as L
from tilewright.codegen.cpu_caches import DrivenCaches
from tilewright.codegen.cpu_caches.driving import main_buffers
from tilewright.hw import Account, SimulationError
from tilewright.hw.cache_counts import CacheCounts
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError

M, N, K = tw.sizes("M N K")
SMALL = machine(cache("L1", 512, 2), cache("L2", 4096, 4))


@given(hierarchies(), st.integers(0, 2**32), st.sampled_from(sorted(ALL)), st.integers(0, 8))
@settings(max_examples=12, deadline=None)
def test_counts_are_those_of_a_naive_hierarchy(caches, seed, name, steps):
    """Kernels under random schedules: what they access, recorded, goes through lists of lines one access at a time."""
    r = random.Random(seed)
    s, _ = grow(ALL[name](), r.randrange, steps)
    sizes = {n: {"M": r.randrange(12), "N": 3 + r.randrange(20), "K": r.randrange(9)}[n] for n in s.pipeline.sizes}
    on = machine(*caches)
    try:
        recorded, run = accesses(s, sizes, on)
        fast, _ = driven(s, sizes, on, DrivenCaches)
    except (ScheduleError, CompileError, BoundsError):
        return  # random schedules make promises that they don't keep
    slow = naive(caches)
    for buffer, at, size, write in recorded:
        slow[0].access(at, size, "write" if write else "read", buffer)
    for level in slow[:-1]:
        level.flush()
    for got, want in zip(fast.hierarchy.levels, slow, strict=True):
        total = Counter()
        for (_, field), n in want.counts.items():
            total[field] += n
        assert got.total == CacheCounts(*(total[f.name] for f in fields(CacheCounts))), (got.name, str(s))
    written = Counter()
    for buffer, _, size, write in recorded:
        written[buffer] += size * write
    bytes_of = {b.name: b.dtype.bytes for b in main_buffers(run.program, on)}
    stored = Counter()
    for (_, b), n in run.tally.stores.items():
        stored[b] += n * bytes_of.get(b, 0)
    assert +written == +stored
    inside(recorded, run)


def inside(recorded, run) -> None:
    """Every access lies in its buffer, and no two buffers that live at once share a place."""
    names = [b.name for b in run.program.arguments]
    sizes = {n: run.bound.arrays[n].nbytes for n in names if n in run.bound.arrays}
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for buffer, at, size, _ in recorded:
        low[buffer] = min(low.get(buffer, at), at)
        high[buffer] = max(high.get(buffer, at), at + size)
    for buffer, n in sizes.items():
        if buffer in low:
            assert high[buffer] - low[buffer] <= n
    arguments = sorted((low[n], high[n]) for n in names if n in low and names.count(n) == 1)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(arguments))


def test_the_stream_of_a_plain_nest():
    s = matmul.schedule()
    s["C.init"].unscheduled()
    s["C.update"].unscheduled()
    recorded, _ = accesses(s, {"M": 2, "N": 3, "K": 2}, SMALL)
    a, b, c = 4096, 8192, 12288  # pages
    expected = [("out.C", c + 4 * (3 * i + j), 4, True) for i in range(2) for j in range(3)]
    for i in range(2):
        for j in range(3):
            for k in range(2):
                expected += [
                    ("out.C", c + 4 * (3 * i + j), 4, False), ("A", a + 4 * (2 * i + k), 4, False),
                    ("B", b + 4 * (3 * k + j), 4, False), ("out.C", c + 4 * (3 * i + j), 4, True),
                ]  # fmt: skip
    assert sorted(recorded) == sorted(expected)
    update = recorded[6:]
    for point in range(12):  # operands in any order, then the result
        assert Counter(update[4 * point : 4 * point + 4]) == Counter(expected[6 + 4 * point : 10 + 4 * point])
        assert update[4 * point + 3] == expected[9 + 4 * point]


def runs(pairs) -> list[tuple[int, int]]:
    """Addresses with their bytes, merged where they touch."""
    out: list[tuple[int, int]] = []
    for at, size in sorted(pairs):
        if out and out[-1][1] >= at:
            out[-1] = (out[-1][0], max(out[-1][1], at + size))
        else:
            out.append((at, at + size))
    return out


@tw.kernel
def copied(a: tw.f32[N]):
    i = tw.vars("i")
    f = tw.func("f")
    f[i] = a[i] + 1.0
    return f[:N]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 13, 129])
@pytest.mark.parametrize("tail", ["guard", "shift"])
def test_vectors_are_one_access_and_lanes_that_are_off_are_none(n, tail):
    s = copied.schedule()
    s["f"].split("i", "io", "ii", 8, tail=tail).vectorize("ii")
    recorded, _ = accesses(s, {"N": n}, SMALL)
    for name in ("a", "out.f"):
        own = [(at, size) for buffer, at, size, write in recorded if buffer == name]
        assert all(size <= 32 for _, size in own)
        assert sum(size == 32 for _, size in own) == n // 8 + (tail == "shift" and n > 8 and n % 8 > 0)
        assert [y - x for x, y in runs(own)] == ([4 * n] if n else [])


@tw.kernel
def every_third(a: tw.f64[3 * N + 2]):
    i = tw.vars("i")
    f, g = tw.func("f"), tw.func("g")
    f[i] = a[3 * i]
    g[i] = a[N - 1 - i]
    return f[:N], g[:N]


def test_windows_and_reversed_vectors():
    """Lanes that are read by whole vectors are those vectors; others one element each."""
    s = every_third.schedule()
    s["f"].vectorize("i", 4)
    s["g"].vectorize("i", 4)
    recorded, _ = accesses(s, {"N": 4}, SMALL)
    reads = [(at - 4096, size) for buffer, at, size, write in recorded if not write]
    assert reads == [(0, 32), (32, 32), (48, 32), (0, 32)]
    s = every_third.schedule()
    s["f"].vectorize("i", 2)
    s["g"].vectorize("i", 2)
    recorded, _ = accesses(s, {"N": 2}, SMALL)
    assert [(at - 4096, size) for _, at, size, write in recorded if not write] == [(0, 8), (24, 8), (0, 16)]


@tw.kernel
def masked(a: tw.u8[N]):
    """A mask of lanes with holes, in vectors of more than 64 lanes too."""
    r = tw.rdom(i=N)
    r.where(a[r.i] > 100)
    i = tw.vars("i")
    f = tw.func("f", tw.u8)
    f[i] = tw.cast(tw.u8, 7)
    f[r.i] = tw.cast(tw.u8, 9)
    return f[:N]


@pytest.mark.parametrize("lanes", [1, 4, 64, 128])
@pytest.mark.parametrize("n", [5, 128, 300])
def test_a_mask_with_holes(lanes, n):
    a = np.random.default_rng(n).integers(0, 255, n, dtype=np.uint8)
    s = masked.schedule()
    s["f.init"].unscheduled()
    s["f.update"].unscheduled()
    if lanes > 1:
        s["f.update"].vectorize("i", lanes)
    recorded, run = accesses(s, {"N": n}, SMALL, {"a": a})
    base = min(at for buffer, at, _, _ in recorded if buffer == "out.f")
    wanted = Counter(dict.fromkeys(range(n), 1)) + Counter(np.flatnonzero(a > 100).tolist())
    got = Counter(at - base + x for buffer, at, size, write in recorded if write for x in range(size))
    assert got == wanted
    assert (run.result == np.where(a > 100, 9, 7)).all()
    if lanes > 1:  # a run of active lanes is one access, unless it crosses a word of 64 or the vector
        on = np.concatenate([[False], a > 100])
        starts = np.flatnonzero(on[1:] & (~on[:-1] | (np.arange(n) % min(lanes, 64) == 0)))
        assert len([1 for _, _, _, w in recorded if w]) == n + len(starts)


def test_registers_and_scratchpads_have_no_caches():
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 4).split("j", "jo", "ji", 4).reorder("io", "jo", "k", "ii", "ji")
    s["C.update"].unroll("ii").unroll("ji")
    s.cache_write("C", at="C.update.jo", memory="reg")
    s.cache_read("B", at="C.update.jo", memory="spm")
    recorded, run = accesses(s, {"M": 8, "N": 8, "K": 8}, SMALL)
    assert {buffer for buffer, *_ in recorded} == {"A", "B", "out.C"}
    copied_in = [1 for buffer, _, size, _ in recorded if buffer == "B" for _ in range(size // 4)]
    assert len(copied_in) == 8 * 8 * 2  # all of B once a block row: nothing else reads it
    assert {s.buffer.memory for s in L.walk(run.program.body) if isinstance(s, L.Allocate)} == {"reg", "spm"}


def test_temporaries_nest_behind_the_arguments():
    """A tile begins at a multiple of 64 behind the arguments' pages; one that begins when another has ended takes its
    place."""
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 4)
    s.cache_read("A", at="C.update.io", memory="main")
    s.cache_read("B", at="C.update.ii", memory="main")
    recorded, _run = accesses(s, {"M": 8, "N": 5, "K": 3}, SMALL)
    first = {b: min(at for name, at, _, _ in recorded if name == b) for b in {e[0] for e in recorded}}
    assert first["A"] == 4096 and first["B"] == 8192 and first["out.C"] == 12288
    outer, inner = ("A_C", "B_C")
    assert first[outer] == 16384
    assert first[inner] == 16384 + 64  # 4 rows of 3 elements are less than 64 bytes
    assert len({at for name, at, _, _ in recorded if name == inner}) == 15


def test_functions_of_the_users_read_and_write_rows():
    def stage(out, a):
        np.copyto(out, a[1:, :] + a[:-1, :])

    @tw.kernel
    def pairs(A: tw.f64[M + 1, N]):
        i, j = tw.vars("i j")
        b = tw.func("b", tw.f64)
        b[i, j] = tw.extern_stage(stage)(A.box[i : i + 2, j])
        return b[:M, :N]

    s = pairs.schedule()
    recorded, run = accesses(s, {"M": 3, "N": 5}, SMALL)
    assert (run.result == run.bound.arrays["A"][1:] + run.bound.arrays["A"][:-1]).all()
    assert recorded == [("A", 4096 + 40 * i, 40, False) for i in range(4)] + [
        ("out.b", 8192 + 40 * i, 40, True) for i in range(3)
    ]


@pytest.mark.parametrize(("policies", "reads", "writes"), [
    ({}, 64, 64),  # every line is loaded for its first store, and written back
    ({"write_allocate": False}, 0, 1024),  # every store goes to the memory
    ({"write": "through"}, 64, 1024),  # loaded, and stored at once
    ({"write": "through", "write_allocate": False}, 0, 1024),
])  # fmt: skip
def test_policies_of_stores(policies, reads, writes):
    @tw.kernel
    def ones():
        i = tw.vars("i")
        f = tw.func("f", tw.f32)
        f[i] = 1.0
        return f[:1024]

    s = ones.schedule()
    s["f"].unscheduled()
    got = ones.simulate(s, machine=machine(cache("L1", 1024, 2, **policies)), sizes={}, caches=True).account
    memory = got.caches[-1].total
    assert (memory.reads, memory.writes) == (reads, writes)


def swept(n: int, times: int, *caches):
    """Reads of n lines, over and over."""

    @tw.kernel
    def sums(a: tw.f64[8 * N]):
        t = tw.vars("t")
        r = tw.rdom(k=N)
        f = tw.func("f")
        f[t] = 0.0
        f[t] += a[8 * r.k]
        return f[:times]

    s = sums.schedule()
    s["f.init"].unscheduled()
    s["f.update"].unscheduled()
    return sums.simulate(s, machine=machine(*caches), sizes={"N": n}, caches=True).account.caches


def test_victims_add_up_and_copies_do_not():
    """16 lines swept over and over fit into 8 + 16 lines where the second level has what the first gives up, into the
    second alone where it has copies; 20 only into both together."""
    inner, size = cache("L1", 8 * 64, 8), 16 * 64
    for n, policy, misses in ((16, "neither", 16), (16, "exclusive", 16), (20, "neither", 80), (20, "exclusive", 20)):
        levels = swept(n - 1, 4, inner, cache("L2", size, 16, inclusion=policy))  # and the line of f
        assert levels[-1].tensors["a"].reads == misses - misses // n, (n, policy)


def test_an_inclusive_level_takes_lines_from_above():
    """One line is read all the time and never leaves the first level, until the second, which sees none of it, gives it
    up."""
    l1, l2 = cache("L1", 4 * 64, 4), cache("L2", 8 * 64, 8)
    kept, lost = (
        swept(40, 2, l1, cache("L2", 8 * 64, 8, inclusion=policy))[0].tensors["f"].misses
        for policy in ("neither", "inclusive")
    )
    assert kept == 1 and lost > 4
    assert l2.sets == 1


def test_more_of_a_fully_associative_cache_never_hurts():
    s = matmul.schedule()
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 5, 7)
    misses = []
    for lines in (2, 4, 8, 16, 32, 64):
        on = machine(cache("L1", 64 * lines, lines))
        misses.append(
            matmul.simulate(s, machine=on, sizes={"M": 13, "N": 17, "K": 19}, caches=True)
            .account.caches[0]
            .total.misses
        )
    assert misses == sorted(misses, reverse=True)
    assert misses[-1] >= sum(-(-4 * x // 64) for x in (13 * 19, 19 * 17, 13 * 17))


def test_values_and_the_account():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((33, 21), dtype=np.float32), rng.standard_normal((21, 18), dtype=np.float32)
    got = matmul.simulate(
        machine="generic-avx2", sizes={"M": 33, "N": 18, "K": 21}, inputs={"A": a, "B": b}, caches=True
    )
    assert got.result.tobytes() == matmul.compile()(a, b).tobytes()
    assert Account.from_json(got.to_json()) == got.account
    assert [level.name for level in got.account.caches] == ["L1", "L2", "L3", "memory"]
    assert set(got.account.caches[0].tensors) >= {"A", "B", "C"}
    plain = matmul.simulate(machine="generic-avx2", sizes={"M": 33, "N": 18, "K": 21}, inputs={"A": a, "B": b})
    assert plain.account.caches == () and plain.account.traffic == got.account.traffic
    again = matmul.simulate(machine="generic-avx2", sizes={"M": 33, "N": 18, "K": 21}, caches=True)
    assert again.account.caches == got.account.caches  # nothing depends on where arrays lie, or on their values


def test_a_machine_without_caches():
    with pytest.raises(SimulationError) as e:
        matmul.simulate(machine="toy", sizes={"M": 4, "N": 4, "K": 4}, caches=True)
    assert e.value.code == "caches.none" and "generic-avx2" in str(e.value)

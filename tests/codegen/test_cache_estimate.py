"""The estimate of cache misses: sets of lines against Python sets, closed forms, ranks against the exact model."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from benchmarks.cache_ranks import ranks, spearman, stencil
from benchmarks.small import matmul
from tests.codegen.recorded_accesses import machine
from tests.codegen.test_cpu_caches import cache
from tests.schedule.algorithms import ALL
from tests.schedule.random_schedules import grow
from tilewright.codegen.cache_estimate import cache_estimate
from tilewright.codegen.cache_estimate.lines import lattice, merged, union
from tilewright.hw import SimulationError
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError

SMALL = machine(cache("L1", 2 << 10, 4), cache("L2", 16 << 10, 8))

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=8)


def made(pairs):
    return merged(np.array([a for a, _ in pairs]), np.array([a + n for a, n in pairs]))


def as_set(lines) -> set[int]:
    return {x for a, b in zip(lines.low.tolist(), lines.high.tolist(), strict=True) for x in range(a, b + 1)}


@given(intervals, intervals, st.integers(1, 12), st.data())
def test_sets_of_lines(first, second, sets, data):
    a, b = made(first), made(second)
    x, y = as_set(a), as_set(b)
    assert x == {v for low, n in first for v in range(low, low + n + 1)} and a.count == len(x)
    assert as_set(union([a, b])) == x | y
    assert as_set(a & b) == x & y
    assert a.on_sets(sets).tolist() == [sum(v % sets == k for v in x) for k in range(sets)]
    good = np.array(data.draw(st.lists(st.booleans(), min_size=sets, max_size=sets)))
    assert a.where(good) == sum(good[v % sets] for v in x)


@given(
    st.lists(st.tuples(st.integers(-100, 300), st.integers(1, 6)), max_size=3), st.sampled_from([1, 4, 8]),
    st.sampled_from([16, 64]), st.integers(0, 100),
)  # fmt: skip
def test_the_lines_of_a_lattice(axes, size, line, start):
    got = as_set(lattice(np.array([start + 5000]), axes, size, line))
    places = {start + 5000}
    for step, n in axes:
        places = {p + step * k for p in places for k in range(n)}
    wanted = {x // line for p in places for x in range(p, p + size)}
    assert got >= wanted
    # gaps of less than a line are no gaps, and nothing else is added
    if all(abs(step) <= size or abs(step) >= line or n == 1 or step == 0 for step, n in axes[:1]) and len(axes) < 2:
        assert got == wanted


def test_more_runs_than_are_told_apart_keep_their_number():
    lines = lattice(np.array([0]), [(1 << 10, 1000), (1 << 21, 1000)], 4, 64)
    assert lines.count == pytest.approx(1_000_000, rel=0.01)


def misses(levels) -> list[dict[str, int]]:
    return [{t: c.misses for t, c in level.tensors.items()} for level in levels[:-1]]


def nest(order: tuple[str, ...], tiles: dict[str, int]):
    s = matmul.schedule()
    s["C.init"].unscheduled()
    update = s["C.update"].unscheduled()
    for v, n in tiles.items():
        update.split(v, f"{v}o", f"{v}i", n)
    update.reorder(*order)
    return s


def test_closed_forms_of_a_product():
    """Fully associative: i-k-j sweeps over B once a row; tiles that fit load A and B once a block row or column."""
    d, lines = 96, 96 * 96 // 16
    on = machine(cache("L1", 64 * 64, 64))
    sizes = {"M": d, "N": d, "K": d}
    (plain,) = misses(matmul.cache_estimate(nest(("i", "k", "j"), {}), machine=on, sizes=sizes))
    assert plain == {"A": lines, "B": d * lines, "C": 2 * lines}
    tiled = nest(("io", "jo", "ko", "ii", "ki", "ji"), dict.fromkeys("ijk", 16))
    (found,) = misses(matmul.cache_estimate(tiled, machine=on, sizes=sizes))
    assert found == {"A": 6 * lines, "B": 6 * lines, "C": 2 * lines}
    assert found == misses(matmul.simulate(tiled, machine=on, sizes=sizes, caches=True).account.caches)[0]


def test_layer_conditions_of_a_stencil():
    s = stencil.schedule()
    s["b"].unscheduled()
    on = machine(cache("L1", 64 * 1024, 1024))  # 1024 lines, rows of 128 or 512
    for width, a in ((1024, 1), (4096, 3)):
        (l1,) = misses(stencil.cache_estimate(s, machine=on, sizes={"H": 100, "W": width + 2}))
        assert l1["a"] == pytest.approx(a * 100 * width // 8, rel=0.05)
        assert l1["b"] == pytest.approx(98 * width // 8, rel=0.02)


def test_what_fits_is_loaded_once_whatever_the_order():
    for order in (("i", "j", "k"), ("k", "j", "i"), ("j", "k", "i")):
        found = misses(matmul.cache_estimate(nest(order, {}), machine="zen3", sizes={"M": 32, "N": 32, "K": 32}))
        assert found == [{"A": 64, "B": 64, "C": 64}] * 3


def test_conflicts_of_a_power_of_two():
    """A column of a matrix with rows of 4096 bytes lies on one set of sixteen ways or less; of 4160 bytes on all."""
    on = machine(cache("L1", 32 << 10, 8))
    column = nest(("j", "i", "k"), {})
    for n, often in ((1024, True), (1040, False)):
        (l1,) = misses(matmul.cache_estimate(column, machine=on, sizes={"M": 2, "N": n, "K": 64}))
        assert (l1["B"] > 64 * n) == often, (n, l1)


def test_ranks_of_random_schedules():
    found = ranks(seed=1, count=24)
    assert min(found.correlation.values()) > 0.93
    assert max(found.error.values()) < 0.25


def test_spearman():
    x = np.array([1.0, 5.0, 2.0, 9.0])
    assert spearman(x, x**3) == pytest.approx(1) and spearman(x, -x) == pytest.approx(-1)
    assert spearman(np.array([1, 2, 2, 3]), np.array([1, 3, 2, 4])) == pytest.approx(0.9486832980505138)


@given(st.integers(0, 2**32), st.sampled_from(sorted(ALL)))
def test_all_kinds_of_programs(seed, name):
    """Counts are consistent, at any size: levels pass on what they miss."""
    r = random.Random(seed)
    s, _ = grow(ALL[name](), r.randrange, r.randrange(7))
    sizes = {
        n: {"M": r.randrange(2000), "N": 3 + r.randrange(3000), "K": r.randrange(900)}[n] for n in s.pipeline.sizes
    }
    try:
        levels = cache_estimate(s.pipeline, s, SMALL, sizes)
    except (ScheduleError, CompileError, BoundsError):
        return
    except SimulationError as e:
        assert e.code == "estimate.data"
        return
    for level, below in itertools.pairwise(levels):
        for tensor, c in level.tensors.items():
            assert min(c.read_hits, c.write_hits, c.read_misses, c.write_misses) >= 0
            assert (
                abs(c.read_hits + c.read_misses - c.reads) <= 1 and abs(c.write_hits + c.write_misses - c.writes) <= 1
            )
            assert abs(below.tensors[tensor].reads - c.misses) <= 1
            assert abs(below.tensors[tensor].writes - c.write_backs) <= 1


def test_policies():
    @tw.kernel
    def ones():
        i = tw.vars("i")
        f = tw.func("f", tw.f32)
        f[i] = 1.0
        return f[:1024]

    s = ones.schedule()
    s["f"].unscheduled()
    for policies in (
        {},
        {"write_allocate": False},
        {"write": "through"},
        {"write": "through", "write_allocate": False},
    ):
        on = machine(cache("L1", 1024, 2, **policies))
        estimate = ones.cache_estimate(s, machine=on, sizes={})[-1].total
        exact = ones.simulate(s, machine=on, sizes={}, caches=True).account.caches[-1].total
        assert (estimate.reads, estimate.writes) == (exact.reads, exact.writes), policies


def test_scalars_among_the_inputs_are_known():
    N = tw.sizes("N")

    @tw.kernel
    def first(A: tw.f32[N], n: tw.i32, a: tw.f32):
        i, r = tw.vars("i"), tw.rdom(r=n).r
        f = tw.func("f")
        f[i] = 0.0
        f[i] += A[r] * a
        return f[:N]

    s = first.schedule()
    s["f.init"].unscheduled()
    s["f.update"].unscheduled()
    on, sizes = machine(cache("L1", 1024, 2)), {"N": 700}
    for n in (1, 17, 600):
        inputs = {"n": n, "a": 0.5, "A": np.ones(700, "f4")}
        estimate = first.cache_estimate(s, machine=on, sizes=sizes, mode="strict", inputs=inputs)[0].tensors["A"]
        exact = first.simulate(s, machine=on, sizes=sizes, mode="strict", inputs=inputs, caches=True).account.caches[0]
        exact = exact.tensors["A"]
        assert estimate.reads == exact.reads == 700 * n
        assert estimate.misses == pytest.approx(exact.misses, rel=0.05, abs=2)
    with pytest.raises(SimulationError) as e:
        first.cache_estimate(s, machine=on, sizes=sizes, mode="strict")
    assert e.value.code == "estimate.data"
    for wrong in ({"m": 3}, {"n": 0.5}):
        with pytest.raises(ArgumentError) as e:
            first.cache_estimate(s, machine=on, sizes=sizes, mode="strict", inputs=wrong)
        assert e.value.code in ("argument.unknown", "argument.scalar-kind")


def test_the_machine_of_the_schedule():
    s = matmul.schedule(machine="zen3")
    sizes = {"M": 8, "N": 8, "K": 8}
    assert str(matmul.cache_estimate(s, sizes=sizes)) == str(matmul.cache_estimate(s, machine="zen3", sizes=sizes))


def test_refused():
    with pytest.raises(SimulationError) as e:
        matmul.cache_estimate(machine="toy", sizes={"M": 4, "N": 4, "K": 4})
    assert e.value.code == "caches.none"

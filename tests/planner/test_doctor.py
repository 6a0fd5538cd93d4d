"""Each problem is found in a plan that has it and in none that has not, and what a remedy makes is without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilewright as tw
from tilewright import ops
from tilewright.hw import Machine, load_machine
from tilewright.planner.doctor import diagnose, healed
from tilewright.planner.goal import Point, ValidFor
from tilewright.planner.plan import Plan, make_plan
from tilewright.planner.timing import Measured, time_plan
from tilewright.planner.validate import Fault, Validation

M, N, K = tw.sizes("M N K")


def plan(kernel, machine: Machine | str = "skylake-sp", **sizes: int) -> Plan:
    return make_plan(kernel.pipeline(), load_machine(machine) if isinstance(machine, str) else machine, sizes)


def codes(*args) -> list[str]:
    return [f.code for f in diagnose(*args)]


@tw.kernel
def product(a: tw.f32[M, K], b: tw.f32[K, N]):
    return ops.relu(ops.matmul(a, b))


@pytest.fixture(scope="module")
def healthy() -> Plan:
    return plan(product, M=512, N=512, K=512)


def test_nothing_ails_a_product(healthy):
    assert diagnose(healthy) == ()


@tw.kernel
def small_steps(x: tw.f32[M, M]):
    for _ in range(6):
        x = ops.softmax(ops.matmul(x, x), axis=0)
    return x


def test_many_small_steps_are_starved(healthy):
    ill = plan(small_steps, M=16)
    (found,) = [f for f in diagnose(ill) if f.code == "starved"]
    assert found.evidence["share of starts"] > 0.3
    assert "starved" not in codes(plan(small_steps, M=512))
    # by the clock: most of a call is outside of its kernels
    times = Measured({"M": 512}, 1.0, {s.name: 0.9 / len(healthy.steps) for s in healthy.steps})
    assert "starved" not in codes(healthy, times)


@tw.kernel
def rows(x: tw.f32[M, 8], y: tw.f32[8, N]):
    return ops.softmax(ops.matmul(x, y))


def test_a_tile_that_is_too_large_for_the_cache_spills():
    well = plan(rows, M=1000, N=64)
    assert len(well.steps[0].region.members) > 1
    assert "spills" not in codes(well)
    ill = replace(well, sizes={"M": 1000, "N": 8192})  # rows of which a tile was made for much shorter ones
    (found,) = [f for f in diagnose(ill) if f.code == "spills"]
    assert found.evidence["at"] == "M=1000, N=8192"
    assert "spills" not in codes(found.apply(ill))


@tw.kernel
def both(x: tw.f32[M, N]):
    """A transposition that is read where it lies."""
    return ops.matmul(x, ops.transpose(x))


@tw.kernel
def turned(x: tw.f32[M, N]):
    return ops.transpose(x), ops.transpose(ops.reshape(x, (M * N,)), (0,))


def test_what_is_only_moved_is_seen(healthy):
    (found,) = [f for f in diagnose(plan(turned, M=2000, N=2000)) if f.code == "transposes"]
    assert found.evidence["share of the time"] > 0.2
    assert "transposes" not in codes(plan(both, M=1000, N=64))


@tw.kernel
def layers(x: tw.f32[M, 1024], up: tw.f32[1024, 1024], down: tw.f32[1024, 1024]):
    return ops.linear(ops.softmax(ops.linear(x, up)), down)


def test_weights_that_are_packed_in_every_call_are_named():
    ill = plan(layers, M=256)
    (found,) = [f for f in diagnose(ill) if f.code == "transposes"]
    assert found.evidence["bytes converted"] > 0
    assert set(found.apply(ill).weights) == {"up", "down"}
    assert "transposes" not in codes(found.apply(ill))


@tw.kernel
def long(x: tw.f32[M, M]):
    a = ops.matmul(x, x)
    b = ops.matmul(a, a)
    c = ops.matmul(b, b)
    return ops.matmul(a, ops.matmul(b, c))


def with_memory(size: int) -> Machine:
    m = load_machine("skylake-sp")
    return replace(m, memories=tuple(replace(x, capacity=size) if x.name == m.main.name else x for x in m.memories))


def test_a_peak_near_what_memory_holds_is_too_high():
    need = plan(long, M=500).metrics.plan.memory.peak
    ill = plan(long, with_memory(int(need * 1.05)), M=500)
    (found,) = [f for f in diagnose(ill) if f.code == "peak"]
    assert found.severity == "warning"
    assert found.evidence["peak"] == need
    assert healed(ill, (found,)).metrics.plan.memory.peak <= need
    assert "peak" not in codes(plan(long, with_memory(need * 4), M=500))


def test_wrong_values_are_reported_with_the_pass(healthy):
    fault = Fault(healthy.steps[0].name, "tile", "result: 1 of 9 elements differ", {"M": 3}, 2, "split i by 3")
    wrong = Validation((fault,), ({"M": 3},), 1, 1, 1, ())
    (found,) = diagnose(healthy, None, wrong)
    assert (found.code, found.severity) == ("values", "error")
    assert found.evidence["directive"] == "2: split i by 3"
    made = found.apply(healthy)
    assert [n for n, _ in made.steps[0].passes] == ["inline", "fuse", "default"]
    assert diagnose(healthy, None, replace(wrong, faults=())) == ()


def test_many_different_kernels_compile_long():
    @tw.kernel
    def scaled(x: tw.f32[M, M]):
        for k in range(70):
            x = ops.matmul(x, ops.value(x) * (1.0 + k))
        return x

    @tw.kernel
    def alike(x: tw.f32[M, M]):
        for _ in range(70):
            x = ops.matmul(x, ops.value(x) * 2.0)
        return x

    (found,) = [f for f in diagnose(plan(scaled, M=400)) if f.code == "compile"]
    assert found.evidence["kernels"] > 64
    assert "compile" not in codes(plan(alike, M=400))


def test_long_compilation_is_a_finding(healthy):
    assert "compile" in codes(healthy, Measured({}, 1.0, compiling=40.0))
    assert "compile" not in codes(healthy, Measured({}, 1.0, compiling=4.0))


def test_slow_at_some_sizes(healthy):
    at = {"M": 16, "N": 16, "K": 16}
    ranges = dict.fromkeys(at, (16, 512))
    ill = replace(healthy, valid_for=ValidFor(ranges, (Point(at, 1e5, 1.8, ()), Point(healthy.sizes, 1e6, 1.0, ()))))
    (found,) = diagnose(ill)
    assert (found.code, found.evidence["times the best plan there"]) == ("shapes", 1.8)
    assert dict(found.apply(ill).sizes) == at
    fine = replace(ill, valid_for=ValidFor(ranges, (Point(at, 1e5, 1.1, ()),)))
    assert diagnose(fine) == ()


def test_slow_at_some_sizes_by_the_clock(healthy):
    large, tiny = {"M": 512, "N": 512, "K": 512}, {"M": 512, "N": 1, "K": 512}
    ill = Measured(large, 0.01, {healthy.steps[0].name: 0.01}, ((large, 0.01), (tiny, 0.001)))
    (found,) = diagnose(healthy, ill)
    assert found.code == "shapes"
    assert found.evidence["slow at"] == "M=512, N=1, K=512"
    assert diagnose(healthy, replace(ill, shapes=((large, 0.01), (tiny, 0.00003)))) == ()


def test_times_of_a_plan():
    p = plan(long, M=40)
    found = time_plan(p, shapes=[{"M": 20}])
    assert set(found.steps) == {s.name for s in p.steps}
    assert 0 < found.seconds < 1
    assert [s for s, _ in found.shapes] == [{"M": 20}]

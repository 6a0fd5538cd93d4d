"""The model of times: what is far quicker is foreseen to be quicker, bounds are counts, and everything is the same twice."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilewright as tw
from examples import attention, layer_norm, matmul, softmax
from tilewright.autotune.model import Model, lower_bound, needed, peaks
from tilewright.autotune.model.core import Core, Work
from tilewright.autotune.model.rates import plausible
from tilewright.autotune.model.samples import COUNT, Samples
from tilewright.hw import load_machine
from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer
from tilewright.schedule.registers import Registers

HOST = load_machine("skylake-sp")
VECTOR = matmul.VECTOR
M, N, K = tw.sizes("M N K")


def seconds(schedule, sizes, threads=1, kernel=matmul.matmul, **options):
    model = Model(kernel.pipeline(**options), sizes, HOST, threads=threads)
    cost = model.predict(schedule).cost
    assert cost is not None and 0 < cost < math.inf
    return cost


def square(n):
    return {"M": n, "N": n, "K": n}


def tile(rows, vectors, lanes=VECTOR, packed=False):
    s = matmul.matmul.schedule()
    c = s["C.update"]
    c.tile("i", "j", "io", "jo", "ii", "ji", rows, vectors * lanes).split("ji", "jv", "jl", lanes)
    c.reorder("jo", "io", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.io", memory="reg")
    if packed:
        w = vectors * lanes
        s.cache_read("B", at="C.update.jo", layout=f"k j -> j//{w} k j%{w}").vectorize("j", lanes)
    return s


def scalar():
    s = matmul.matmul.schedule()
    s["C.update"].unscheduled()
    return s


def across():
    """Vectors along what lies apart."""
    s = matmul.matmul.schedule()
    s["C.update"].reorder("j", "k", "i").vectorize("i", VECTOR)
    return s


@pytest.mark.parametrize(
    ("quick", "slow", "n", "times"),
    [
        (lambda: tile(4, 2), scalar, 512, 8),
        (lambda: tile(4, 2), lambda: tile(1, 1), 512, 1.5),  # results wait for each other
        (lambda: tile(8, 2), lambda: tile(32, 4), 512, 1.3),  # a tile that registers don't hold
        (lambda: tile(4, 2, packed=True), lambda: tile(4, 2), 2048, 1.1),
        (matmul.expert, matmul.matmul.schedule, 2048, 1.0),
        (lambda: tile(4, 2), across, 512, 4),
    ],
    ids=["vectors", "sums-side-by-side", "registers", "panels", "blocks", "gathers"],
)
def test_what_is_far_quicker_is_foreseen_to_be(quick, slow, n, times):
    assert seconds(quick(), square(n)) * times < seconds(slow(), square(n))


def test_a_time_is_not_below_the_arithmetic_and_near_to_it_for_a_good_schedule():
    """2 n^3 operations at 64 a cycle of 2.4 GHz."""
    least = 2 * 1024**3 / 64 / 2.4e9
    if tw.host_registers().width < 64:
        pytest.skip("register tiles for another width")
    assert least <= seconds(matmul.expert(), square(1024)) < 3 * least


def test_work_grows_with_sizes():
    found = [seconds(matmul.expert(), square(n)) for n in (128, 512, 2048)]
    assert 20 * found[0] < found[1] < found[2] / 20


def test_threads_share_parallel_loops_and_no_others():
    sizes = square(512)
    assert seconds(tile(4, 2), sizes, 2) == seconds(tile(4, 2), sizes, 1)
    s = tile(4, 2)
    s["C.update"].parallel("jo")
    one, two, three = (seconds(s, sizes, n) for n in (1, 2, 3))
    assert 1.6 * two < one < 2.2 * two
    assert three < two
    uneven = matmul.matmul.schedule()
    uneven["C.update"].split("i", "io", "ii", 256).vectorize("j", VECTOR).reorder("io", "k", "ii", "j_v", "j")
    uneven["C.update"].parallel("io")
    assert seconds(uneven, {**sizes, "M": 768}, 2) > 0.6 * seconds(uneven, {**sizes, "M": 768}, 1)  # two parts of three


def test_small_loops_are_not_shared():
    s = tile(4, 2)
    s["C.update"].parallel("jo")
    assert seconds(s, square(16), 4) == seconds(s, square(16), 1)


def test_predictions_do_not_depend_on_those_before():
    schedules = [tile(4, 2), matmul.expert(), scalar(), tile(8, 3)]
    model = Model(matmul.matmul.pipeline(), square(300), HOST)
    first = [model.predict(s) for s in schedules]
    assert [model.predict(s) for s in reversed(schedules)] == first[::-1]
    fresh = [Model(matmul.matmul.pipeline(), square(300), HOST).predict(s) for s in schedules]
    assert fresh == first


@pytest.mark.parametrize("sizes", [square(0), square(1), {"M": 1, "N": 0, "K": 7}, {"M": 7, "N": 1, "K": 13}])
def test_any_sizes_have_a_time(sizes):
    for s in (matmul.expert(), tile(4, 2), scalar()):
        found = Model(matmul.matmul.pipeline(), sizes, HOST).predict(s)
        assert found.cost is not None and 0 <= found.cost < 1e-3


def test_what_is_not_legal_in_a_mode_can_not_be():
    s = softmax.softmax.schedule()
    s["total"].compute_at("Y.i")
    s["total.update"].vectorize("k", 16)
    found = Model(softmax.softmax.pipeline(), {"M": 8, "N": 64}, HOST, mode="strict").predict(s)
    assert found.cost == math.inf and "strict" in found.reason


def test_one_pass_over_blocks_has_a_time():
    sizes = {"H": 2, "M": 128, "N": 128, "D": 64}
    model = Model(attention.attention.pipeline(), sizes, HOST)
    costs = [model.predict(s()).cost for s in attention.SCHEDULES]
    assert all(c is not None and 0 < c < 1 for c in costs)


@tw.kernel
def chosen(x: tw.f32[N], start: tw.i32[M]):
    """A reduction over a part that data say, and values that go where data say."""
    i = tw.vars("i")
    y = tw.func("y")
    y[i] = tw.select(start[i] > 0, x[tw.clamp(start[i], 0, N - 1)] * 2.0, 0.0)
    return y[:M]


def test_data_that_decide_are_taken_as_usual():
    cost = Model(chosen.pipeline(), {"M": 1000, "N": 1000}, HOST).predict(chosen.schedule()).cost
    assert cost is not None and 0 < cost < 1e-3


# Simulated machines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["cycles", "bytes", "energy"])
def test_the_figure_of_a_simulated_machine_is_its_account(objective):
    sizes = {"M": 32, "N": 32, "K": 32}
    s = matmul.matmul.schedule(machine="toy")
    found = Model(matmul.matmul.pipeline(), sizes, "toy", objective=objective).predict(s)
    account = matmul.matmul.account(s, machine="toy", sizes=sizes)
    main = (
        account.of("dram")
        if any(r.memory == "dram" for r in account.traffic)
        else account.of(account.traffic[0].memory)
    )
    wanted = {
        "cycles": account.time.cycles if account.time else None, "energy": sum(account.energy.values()) or None,
        "bytes": main.bytes_read + main.bytes_written,
    }[objective]  # fmt: skip
    assert found.cost == wanted


def test_buffers_that_do_not_fit_can_not_be():
    s = matmul.matmul.schedule(machine="toy")
    s.cache_read("B", at="C.update.i", memory="spm")
    found = Model(matmul.matmul.pipeline(), square(512), "toy", objective="cycles").predict(s)
    assert found.cost == math.inf and "spm" in found.reason


# The bound ----------------------------------------------------------------------------------------------------------


def test_a_product_needs_its_multiply_adds():
    sizes = {"M": 30, "N": 40, "K": 50}
    assert needed(matmul.matmul.pipeline(), sizes) == {"f32": 2.0 * 30 * 40 * 50}
    bound = lower_bound(matmul.matmul.pipeline(), sizes, {"f32": 1e9})
    assert 0.5 * 120e-6 < bound < 120e-6
    assert lower_bound(matmul.matmul.pipeline(), sizes, {"f64": 1e9}) == 0


def test_sizes_of_zero_need_nothing():
    assert lower_bound(matmul.matmul.pipeline(), square(0), {"f32": 1.0}) == 0


@tw.kernel
def picked(a: tw.f32[N], b: tw.f32[N]):
    """Of `twice` every other point is read, of `guarded` one arm, of `whole` all points; `a + b` is the same twice."""
    i = tw.vars("i")
    twice, guarded, whole, out = tw.func("twice"), tw.func("guarded"), tw.func("whole"), tw.func("out")
    twice[i] = a[i] / b[i]
    guarded[i] = a[i] * b[i]
    whole[i] = a[i] + b[i]
    out[i] = tw.select(a[i] > 0, guarded[i], 0.0) + twice[2 * i] + whole[i] + (a[i] + b[i])
    return out[: N // 2]


def test_only_what_no_schedule_leaves_out_is_needed():
    """A comparison and three sums of `out`, of which one may be that of `whole`; the sum of `whole` itself."""
    assert needed(picked.pipeline(), {"N": 100})["f32"] <= 50 * 6
    assert needed(picked.pipeline(), {"N": 100})["f32"] >= 50 * 4


@pytest.mark.parametrize(
    ("kernel", "sizes", "schedules"),
    [
        (matmul.matmul, {"M": 13, "N": 21, "K": 17}, matmul.SCHEDULES),
        (softmax.softmax, {"M": 9, "N": 33}, softmax.SCHEDULES),
        (layer_norm.layer_norm, None, layer_norm.SCHEDULES),
        (picked, {"N": 30}, ()),
    ],
    ids=["matmul", "softmax", "layer_norm", "picked"],
)
def test_no_schedule_does_less_than_what_is_needed(kernel, sizes, schedules):
    p = kernel.pipeline()
    sizes = sizes or dict.fromkeys(p.sizes, 24)
    least = needed(p, sizes)
    assert sum(least.values()) > 0
    for s in [kernel.schedule(), *(f() for f in schedules)]:
        done = kernel.account(s, machine="skylake-sp", sizes=sizes, time=False).operations
        assert all(n <= done.get(t, 0) for t, n in least.items())


def test_peaks_are_of_types_that_no_instruction_exceeds():
    assert peaks(2, HOST) == {"f32": 64 * 2.4e9 * 2, "f64": 32 * 2.4e9 * 2}


# Parts --------------------------------------------------------------------------------------------------------------


def test_samples_count_loops_whose_ends_move():
    """Tiles of 16 over 100 points, the last of which has 4; and rectangles, of which the count is exact."""
    at = Samples({})
    i, j = ir.var("i"), ir.var("j")
    at.enter(i, integer(0), integer(7))
    stop = simplify.minimum(integer(16), simplify.sub(integer(100), simplify.mul(i, integer(16))))
    outer, trips = at.enter(j, integer(0), stop)
    assert at.runs == pytest.approx(100, rel=0.05) and trips == pytest.approx(100 / 7, rel=0.05)
    at.leave(j, outer)
    at.enter(j, integer(0), integer(5))
    assert at.runs == 35
    assert at.holds(simplify.compare("lt", j, integer(2))).mean() == pytest.approx(0.4, abs=2 / COUNT)


def test_cycles_are_those_of_what_is_scarce():
    core = Core.of(HOST, Registers(64, 32))
    work = Work()
    work.arithmetic(10, 64)
    assert work.cycles(core) == pytest.approx(10 * 64 / core.arithmetic)
    work.load(100, 4)
    assert work.cycles(core) == 50


def test_a_measured_machine_is_not_slower_than_can_be():
    """Whatever else ran while it was measured."""
    from dataclasses import replace

    slow = replace(
        HOST, caches=tuple(replace(c, bandwidth=0.01) for c in HOST.caches),
        memories=tuple(replace(m, read_bandwidth=1e-3, write_bandwidth=1e-3) for m in HOST.memories),
    )  # fmt: skip
    found = plausible(slow)
    assert all(c.bandwidth > 1 for c in found.caches) and found.main.read_bandwidth > 0.5
    assert plausible(found) == found
    assert np.isfinite(Model(matmul.matmul.pipeline(), square(64), found).predict(tile(4, 2)).cost or math.inf)

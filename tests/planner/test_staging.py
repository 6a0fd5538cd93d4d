"""Plans for machines with scratchpads: values, capacity, traffic, and what is said where nothing fits."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import ops
from tilewright.codegen.accounts.simulate import simulate
from tilewright.hw import load_machine, machine_text, parse_machine
from tilewright.planner import staging
from tilewright.planner.boxes import BLOCKS, axes_of, reach
from tilewright.planner.cliff import cliffs
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.plan import make_plan
from tilewright.planner.tilings import pad_of

H, M, N, K = tw.sizes("H M N K")
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


@functools.cache
def machine(name="toy", capacity=None):
    """A preset, with another capacity of its scratchpad."""
    m = load_machine(name)
    if capacity is None:
        return m
    lines, inside = [], False
    for line in machine_text(m).splitlines():
        inside = (inside and not line.startswith("[")) or line == f'name = "{pad_of(m).name}"'
        lines.append(f"capacity = {capacity}" if inside and line.startswith("capacity") else line)
    return parse_machine("\n".join(lines))


def plan_of(kernel, on, objective="latency", **sizes):
    return make_plan(kernel.pipeline(), on, sizes, Goal(objective, budget_s=1000))


def simulated(plan, *args):
    """The result of a plan's last step, every step run on the simulated machine, and the accounts."""
    values = dict(zip((p.name for p in plan.pipeline.params), args, strict=True))
    accounts = []
    for s in plan.steps:
        p = s.part.pipeline
        given = {a.name: values[b.name] for a, b in zip(p.params, s.part.inputs, strict=True)}
        done = simulate(p, s.schedule, plan.machine, {n: plan.sizes[n] for n in p.sizes}, inputs=given)
        values[s.name] = done.result
        accounts.append(done.account)
    return values[plan.pipeline.outputs[0].func.name], accounts


def check(kernel, plan, *args):
    got, accounts = simulated(plan, *args)
    np.testing.assert_allclose(got, kernel.reference(*args), rtol=2e-4, atol=2e-5)
    for a in accounts:
        assert all(f.capacity is None or f.peak <= f.capacity for f in a.footprint)
    return accounts


@tw.kernel
def product(a: tw.f32[M, K], b: tw.f32[K, N], bias: tw.f32[N]):
    return ops.relu(ops.linear(a, b, bias))


@tw.kernel
def attention(q: tw.f32[1, H, M, 16], k: tw.f32[1, H, N, 16], v: tw.f32[1, H, N, 16]):
    return ops.attention(q, k, v)


@tw.kernel
def causal(q: tw.f32[1, H, M, 16], k: tw.f32[1, H, N, 16], v: tw.f32[1, H, N, 16]):
    return ops.attention(q, k, v, causal=True)


@tw.kernel
def rows(x: tw.f32[M, N]):
    return ops.softmax(x)


@tw.kernel
def convolved(x: tw.f32[1, M, N, 8], w: tw.f32[3, 3, 8, 8]):
    return ops.relu(ops.conv2d(x, w, padding=1))


@tw.kernel
def blurred(x: tw.f32[M, N]):
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(x)
    across, down = tw.func("across"), tw.func("down")
    across[i, j] = edge[i, j - 1] + edge[i, j] + edge[i, j + 1]
    down[i, j] = tw.exp(across[i - 1, j]) + tw.exp(across[i, j]) + tw.exp(across[i + 1, j])
    return down[:M, :N]


CASES = {
    "product": (product, {"M": 37, "N": 29, "K": 50}, [(37, 50), (50, 29), (29,)]),
    "attention": (attention, {"H": 2, "M": 33, "N": 40}, [(1, 2, 33, 16), (1, 2, 40, 16), (1, 2, 40, 16)]),
    "causal": (causal, {"H": 1, "M": 20, "N": 37}, [(1, 1, 20, 16), (1, 1, 37, 16), (1, 1, 37, 16)]),
    "rows": (rows, {"M": 19, "N": 70}, [(19, 70)]),
    "convolved": (convolved, {"M": 9, "N": 13}, [(1, 9, 13, 8), (3, 3, 8, 8)]),
    "blurred": (blurred, {"M": 30, "N": 35}, [(30, 35)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "on"),
    [("product", "snitch-cluster"), ("attention", "snitch-cluster"), ("causal", "toy"), ("rows", "snitch-cluster"),
     ("convolved", "toy"), ("blurred", "toy")],
)  # fmt: skip
def test_values_in_little_memory(name, on):
    kernel, sizes, shapes = CASES[name]
    accounts = check(kernel, plan_of(kernel, machine(on, 8192), **sizes), *(normal(*s) for s in shapes))
    assert any(c.engine for a in accounts for c in a.copies)


@tw.kernel
def heads(q: tw.f32[1, H, M, 64], k: tw.f32[1, H, N, 64], v: tw.f32[1, H, N, 64]):
    return ops.attention(q, k, v)


def test_attention_reads_keys_and_values_once_for_every_tile_of_queries():
    plan = plan_of(heads, machine("toy", 32768), H=2, M=50, N=100)
    (step,) = plan.steps
    assert step.region.group is not None and BLOCKS in step.staged.tiling.widths
    tiles = math.ceil(50 / step.staged.tiling.widths[2])
    assert tiles > 1
    queries, keys = 2 * 50 * 64 * 4, 2 * 100 * 64 * 4
    (account,) = check(heads, plan, normal(1, 2, 50, 64), normal(1, 2, 100, 64), normal(1, 2, 100, 64))
    main = account.of("dram")
    assert main.bytes_read == queries + tiles * 2 * keys
    assert main.bytes_written == queries
    assert plan.account().read["dram"] == main.bytes_read
    assert {c.tensor for c in account.copies} == {"input", "input_1", "input_2", "attention"}  # no scores


def test_objectives():
    sizes = {"M": 64, "N": 64, "K": 96}
    plans = {o: plan_of(product, machine("toy", 16384), o, **sizes) for o in ("latency", "traffic", "memory")}
    accounts = {o: p.account() for o, p in plans.items()}
    moved = {o: a.read["dram"] + a.written["dram"] for o, a in accounts.items()}
    assert accounts["latency"].cycles == min(a.cycles for a in accounts.values())
    assert moved["traffic"] == min(moved.values())
    assert accounts["memory"].cycles == accounts["latency"].cycles  # main memory is spared, the scratchpad filled
    assert moved["traffic"] < moved["memory"]


@tw.kernel
def row_sums(a: tw.f32[M, K], b: tw.f32[K, N]):
    return ops.sum(ops.matmul(a, b), -1)


def test_a_plan_for_traffic_moves_no_more_than_the_quickest():
    sizes = {"M": 128, "N": 128, "K": 32}
    moved = []
    for objective in ("latency", "traffic"):
        a = plan_of(row_sums, machine("toy", 16384), objective, **sizes).account()
        moved.append(a.read["dram"] + a.written["dram"])
    assert moved[1] <= moved[0]


@tw.kernel
def twice(x: tw.f32[M, N], y: tw.f32[M, N]):
    return ops.softmax(x), ops.softmax(y)


def test_equal_parts_are_looked_at_once(monkeypatch):
    looked = []
    real = staging.stage
    monkeypatch.setattr(staging, "stage", lambda m, *a: looked.append(m) or real(m, *a))
    plan = plan_of(twice, machine("toy", 2048), M=64, N=32)
    assert len(plan.steps) == 2 and len(looked) == 1
    assert plan.account().cycles == 2 * plan.steps[0].staged.account.time.cycles


def test_plans_for_scratchpads_are_the_same_in_every_run():
    plans = [plan_of(product, machine("toy", 8192), M=37, N=29, K=50) for _ in range(2)]
    assert [str(s.schedule) for s in plans[0].steps] == [str(s.schedule) for s in plans[1].steps]
    for s in plans[0].steps:
        assert [n for _, n in s.passes] == sorted(n for _, n in s.passes) and s.passes[-1][1] == len(s.schedule)


@settings(max_examples=6, deadline=None)
@given(
    kernel=st.sampled_from([product, rows, blurred]),
    size=st.tuples(*[st.integers(1, 90)] * 3),
    capacity=st.sampled_from([128, 512, 1024, 4096, 20000]),
)
def test_capacity_is_never_exceeded(kernel, size, capacity):
    sizes = {n: v for n, v in zip("MNK", size, strict=True) if n in kernel.pipeline().sizes}
    try:
        plan = plan_of(kernel, machine("toy", capacity), **sizes)
    except PlanError as e:
        assert e.code == "plan.capacity"
        needed = int(re.search(r"to have ([\d,]+) bytes", e.hint)[1].replace(",", ""))
        assert needed > capacity
        plan = plan_of(kernel, machine("toy", needed), **sizes)  # that much is enough
        capacity = needed
    for s in plan.steps:
        assert s.staged.tiling is not None
        assert staging.peak_of(s.schedule, s.staged.space.pad, sizes) <= capacity
        assert all(f.peak <= f.capacity for f in s.staged.account.footprint if f.capacity)


def test_nothing_fits():
    with pytest.raises(PlanError) as e:
        plan_of(convolved, machine("toy", 512), M=9, N=13)
    assert e.value.code == "plan.capacity"
    assert "no tile of" in e.value.message and "spm of toy, which has 512 bytes" in e.value.message
    assert re.search(r"[\d,]+ of them for \w+$", e.value.message)


def test_the_cliff_at_the_capacity():
    plan = plan_of(product, machine("snitch-cluster", 16384), M=64, N=64, K=64)
    (c,) = cliffs(plan)
    assert (c.memory, c.capacity) == ("tcdm", 16384)
    widths = [p.width for p in c.points]
    assert widths == sorted(widths) and c.chosen in widths
    for p in c.points:
        assert p.fits == (p.peak <= c.capacity)
        assert not (p.fits and p.spilled)
    assert c.edge is not None and c.drop is not None and c.drop > 1.5  # cores then wait for main memory
    at = next(p for p in c.points if p.width == c.chosen)
    assert at.cycles == plan.account().cycles


@tw.kernel
def gathered(table: tw.f32[M, 16], ids: tw.i32[N]):
    i, j = tw.vars("i j")
    row = tw.func("row")
    row[i, j] = tw.exp(table[tw.clamp(ids[i], 0, M - 1), j])
    return row[:N, :16]


def test_what_data_choose_stays_in_main_memory():
    plan = plan_of(gathered, machine("toy"), M=50, N=20)
    (account,) = check(gathered, plan, normal(50, 16), np.arange(20, dtype=np.int32) * 2)
    assert {c.tensor for c in account.copies} == {"input", "row"}  # ids, and the result
    assert account.of("dram").bytes_read == 20 * 16 * 4 + 20 * 4


def test_registers_that_hold_no_tile():
    plan = plan_of(product, machine("tpu-v1"), M=9, N=5, K=1)
    check(product, plan, normal(9, 1), normal(1, 5), normal(5))
    check(product, plan_of(product, machine("tpu-v1"), M=1, N=1, K=3), normal(1, 3), normal(3, 1), normal(1))


# Boxes ------------------------------------------------------------------------------------------------------------


def test_boxes_of_a_stencil_grow_with_the_tile():
    r = reach(blurred.pipeline(), {"M": 30, "N": 35})
    widths = {0: 8, 1: 5}
    across = next(f for f in r.boxes if f.name == "across")
    assert tuple(map(int, r.shape(across, r.boxes[across], widths))) == (10, 5)
    (x,) = (read for read in r.reads if read.tensor.name == "x")
    assert tuple(map(int, r.shape(x.tensor, x.box, widths))) == (10, 7)
    assert axes_of(x.box) == {0, 1}


@tw.kernel
def halved(x: tw.f32[M, N], at: tw.i64[N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    out = tw.func("out")
    out[i, j] = x[i // 2, 2 * j + 1] + x[i // 2, tw.clamp(at[j], 0, N - 1)]
    out[i, j] += x[i, k]
    return out[:M, : N // 2]


def test_boxes_of_scaled_indices_and_of_data():
    r = reach(halved.pipeline(), {"M": 30, "N": 40})
    widths = {0: 8, 1: 5, ("out", 0, "k"): 10}
    init, update = (read for read in r.reads if read.tensor.name == "x")
    assert {t.name for t in r.scattered} == {"x"}
    assert init.box[1] is None and int(init.box[0].count(widths)) == 5  # of 4 or 5 rows
    assert tuple(map(int, r.shape(update.tensor, update.box, widths))) == (8, 10)
    assert r.along == {0: 30, 1: 20, ("out", 0, "k"): 40}


@pytest.mark.parametrize("border", [tw.wrap_around, tw.reflect, tw.reflect_interior], ids=lambda f: f.__name__)
@pytest.mark.parametrize("machine", ["toy", "snitch-cluster"])
def test_inputs_that_tiles_read_from_both_ends_stay_in_main_memory(border, machine):
    """A tile at a border needs the other one, too: no box of the input that is smaller than all of it has both."""
    m, n = tw.sizes("m n")

    @tw.kernel
    def near(x: tw.f32[m, n]):
        i, j = tw.vars("i j")
        edge, out = border(x), tw.func("out")
        out[i, j] = edge[i - 1, j] + edge[i + 1, j] + edge[i, j + 1]
        return out[:m, :n]

    plan = tw.plan(near, machine, sizes={"m": 300, "n": 300})
    account = plan.account()
    assert account.read[plan.machine.main.name] == 3 * 4 * 300 * 300
    assert plan.validate({"m": 9, "n": 17}).ok


@pytest.mark.parametrize("machine", ["toy", "snitch-cluster"])
def test_funcs_of_which_nothing_is_needed_have_no_tiles(machine):
    """Of no rows nothing is gathered: what the table would be made by has no region."""
    m, n = tw.sizes("m n")

    @tw.kernel
    def rows(table: tw.f32[m, 8], which: tw.i64[n]):
        i, j, k = tw.vars("i j k")
        near, far, out = tw.func("near"), tw.func("far"), tw.func("out")
        edge = tw.repeat_edge(table)
        near[i, j] = tw.exp(edge[i, j]) + edge[i, j + 1]
        far[k, j] = near[tw.clamp(which[k], 0, m - 1), j] * 2.0
        out[k, j] = 0.0
        out[k, j] += far[k, tw.rdom(r=8)] * 0.5
        return out[:n, :8], near[:m, :8]

    for sizes in ({"m": 40, "n": (0, 40)}, {"m": (1, 40), "n": 0}, {"m": 40, "n": 0}):
        plan = tw.plan(rows, machine, sizes=sizes)
        assert plan.account({"m": 7, "n": 0}).cycles is not None
        assert plan.validate({"m": 7, "n": 5}).ok


@pytest.mark.parametrize("machine", ["toy", "snitch-cluster"])
def test_funcs_of_which_nothing_is_needed_are_no_inputs(machine):
    """What is inlined has no copy that an engine could make."""
    m, k = tw.sizes("m k")

    @tw.kernel
    def sums(x: tw.f32[k]):
        i = tw.vars("i")
        edge, first, second = tw.repeat_edge(x), tw.func("first"), tw.func("second")
        first[i] = 0.0
        first[i] += edge[tw.rdom(r=k)]
        second[i] = 0.0
        r, q = tw.rdom(r=m), tw.rdom(q=m)
        second[i] += first[r] - edge[r]
        second[i] = tw.maximum(second[i], first[q])
        return second[:m]

    plan = tw.plan(sums, machine, sizes={"m": 0, "k": 1000}, objective="memory")
    assert plan.account().cycles is not None
    assert plan.validate({"m": 5, "k": 9}).ok

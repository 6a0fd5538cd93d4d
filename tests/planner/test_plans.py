"""`tw.plan`: what it takes, what it refuses, what a plan says of itself, and that it runs."""

import json
import math

import jsonschema
import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.ranges import points_of, read_sizes
from tilewright.planner.reports.data import plan_schema

M, N, K, T = tw.sizes("M N K T")


@tw.kernel
def layer(x: tw.f32[T, 48], up: tw.f32[48, 96], down: tw.f32[96, 48]):
    h = ops.softmax(ops.linear(x, up))
    return ops.value(x) + ops.linear(h, down)


@tw.kernel
def valid(x: tw.f32[N - 4], y: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = x[i] + y[i + 2]
    return out[: N - 4]


@tw.kernel
def reading(x: tw.f32[M], y: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = x[i] + y[i]
    return out[:M]


@tw.kernel
def first(x: tw.f32[N], n: tw.i64):
    k = tw.rdom(k=n)
    total = tw.func("total")
    i = tw.vars("i")
    total[i] = 0.0
    total[i] += x[k]
    return total[:1]


def plan(kernel=layer, **how):
    return tw.plan(kernel, how.pop("machine", "skylake-sp"), **how)


# What it takes ----------------------------------------------------------------------------------------------------


def test_kernels_and_pipelines_alike():
    a, b = plan(sizes={"T": 20}), plan(layer.pipeline(), sizes={"T": 20})
    assert a.as_json() | {"measured": 0} == b.as_json() | {"measured": 0}


def test_statics_types_and_keywords():
    t = tw.dtype_var("t", tw.f32, tw.f64)

    @tw.kernel
    def scaled(x: t[N], *, times=1, factor: t):
        i = tw.vars("i")
        out = tw.func("out")
        out[i] = x[i] * factor * float(times)
        return out[:N]

    fast = plan(scaled, sizes={"N": 8}, statics={"times": 3}, dtypes={"t": tw.f64}).compile()
    x = np.arange(8.0)
    np.testing.assert_array_equal(fast(x, factor=2.0), 6 * x)
    with pytest.raises(tw.ArgumentError):
        fast(x, 2.0)
    assert plan(scaled, sizes={"N": 8}).pipeline.outputs[0].dtype == tw.f32


def test_an_explicit_pipeline():
    p = tw.Pipeline("twice", A=tw.f32[M])
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = p.A[i] * 2.0
    fast = plan(p.returns(out[:M]), sizes={"M": 5}).compile()
    np.testing.assert_array_equal(fast(np.arange(5, dtype=np.float32)), 2 * np.arange(5))
    with pytest.raises(tw.ArgumentError, match="no outputs yet"):
        plan(p, sizes={"M": 5})


def test_this_computer_is_the_machine_where_none_is_named():
    p = tw.plan(layer, sizes={"T": 8})
    assert p.machine.name == "host"
    assert p.machine.caches[0].size >= 8 << 10
    assert tw.plan(layer, sizes={"T": 8}).as_json()["steps"] == p.as_json()["steps"]


@pytest.mark.parametrize(
    ("how", "error", "code", "said"),
    [
        ({"weights": "w"}, PlanError, "plan.weights", "'w'"),
        ({"weights": 5}, PlanError, "plan.weights", "5"),
        ({"weights": None}, PlanError, "plan.weights", "None"),
        ({"weights": [["w"]]}, PlanError, "plan.weights", "'w'"),
        ({"machine": 5}, tw.TilewrightError, "machine.unknown", "5"),
        ({"machine": None}, tw.TilewrightError, "machine.unknown", "None"),
        ({"statics": [1]}, tw.ArgumentError, "argument.plan", "statics="),
        ({"dtypes": [tw.f32]}, tw.ArgumentError, "argument.plan", "dtypes="),
        ({"scalars": [1]}, tw.ArgumentError, "argument.plan", "scalars="),
        ({"target": 3}, tw.ArgumentError, "argument.plan", "no kernel"),
        ({"target": layer.pipeline(), "statics": {"a": 1}}, tw.ArgumentError, "argument.plan", "static"),
        ({"sizes": None}, tw.ArgumentError, "argument.size-undetermined", "T"),
        ({"sizes": {}}, tw.ArgumentError, "argument.size-undetermined", "T"),
        ({"sizes": [3]}, tw.ArgumentError, "argument.size-kind", "dict"),
        ({"sizes": {"T": 3, "U": 4}}, tw.ArgumentError, "argument.size-unknown", "'U'"),
        ({"sizes": {"T": -3}}, tw.ArgumentError, "argument.size-negative", "-3"),
        ({"sizes": {"T": (-3, 4)}}, tw.ArgumentError, "argument.size-negative", "-3"),
        ({"sizes": {"T": 1.5}}, tw.ArgumentError, "argument.size-kind", "1.5"),
        ({"sizes": {"T": (1, 1.5)}}, tw.ArgumentError, "argument.size-kind", "1.5"),
        ({"sizes": {"T": (9, 1)}}, PlanError, "plan.sizes", r"T=\(1, 9\)"),
        ({"sizes": {"T": (1, 2, 3)}}, PlanError, "plan.sizes", r"\(low, high\)"),
        ({"objective": "speed"}, PlanError, "plan.objective", "latency"),
        ({"phase": "training"}, PlanError, "plan.phase", "decode"),
        ({"budget_s": 0}, PlanError, "plan.budget", "above 0"),
        ({"tokens": "U"}, PlanError, "plan.tokens", "one of its sizes: T"),
        ({"machine": "nowhere"}, tw.TilewrightError, "machine.unknown", "skylake-sp"),
        ({"target": valid, "sizes": {"N": 3}}, PlanError, "plan.sizes", "axis 0 of x is -1 at N=3"),
        ({"target": valid, "sizes": {"N": (3, 9)}}, PlanError, "plan.sizes", "axis 0 of x is -1 at N=3"),
        ({"target": reading, "sizes": {"M": (1, 9), "N": 5}}, tw.BoundsError, "bounds", "y"),
        ({"target": first, "sizes": {"N": 5}}, tw.ArgumentError, "argument.missing", "scalars="),
        ({"target": first, "sizes": {"N": 5}, "scalars": {"n": 1.5}}, tw.ArgumentError, "argument.scalar-kind", "1.5"),
        ({"target": first, "sizes": {"N": 5}, "scalars": {"m": 1}}, tw.ArgumentError, "argument.", "m"),
    ],
    ids=str,
)  # fmt: skip
def test_what_it_refuses(how, error, code, said):
    how = {"sizes": {"T": 8}} | how
    with pytest.raises(error, match=said) as e:
        plan(how.pop("target", layer), **how)
    assert e.value.code.startswith(code)
    assert e.value.hint


def test_a_scalar_that_indices_go_by():
    fast = plan(first, sizes={"N": 64}, scalars={"n": 40}).compile()
    assert fast(np.ones(64, np.float32), 17) == 17


# Ranges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "points"),
    [
        ({"M": (4, 4)}, [4]),
        ({"M": (1, 4096)}, [1, 64, 4096]),
        ({"M": (0, 100)}, [0, 10, 100]),
        ({"M": (0, 0)}, [0]),
        ({"M": (7, 8)}, [7, 8]),
    ],
)
def test_points_stand_for_a_range(ranges, points):
    assert [p["M"] for p in points_of(ranges)] == points


def test_a_plan_for_a_range_is_the_best_of_those_for_its_points():
    sizes = {"T": (1, 2000)}
    p = plan(sizes=sizes, budget_s=60.0)
    assert p.valid_for.ranges == {"T": (1, 2000)}
    assert [x.sizes["T"] for x in p.valid_for.points] == [1, 45, 2000]
    assert p.sizes["T"] in (1, 45, 2000)
    assert all(x.ratio >= 1 and math.isfinite(x.cycles) for x in p.valid_for.points)
    assert any(x.ratio == 1 for x in p.valid_for.points)
    assert p.goal == Goal(budget_s=60.0)
    assert p.valid_for.covers({"T": 77})
    assert not p.valid_for.covers({"T": 0})
    fast = p.compile()
    for tokens in (1, 3, 50, 2001):
        args = np.ones((tokens, 48), np.float32), np.ones((48, 96), np.float32) / 48, np.ones((96, 48), np.float32)
        np.testing.assert_allclose(fast(*args), layer.reference(*args), rtol=1e-5)


def test_sizes_are_given_in_the_order_of_the_pipeline():
    assert list(read_sizes(reading.pipeline(), {"N": (3, 9), "M": 2}, {})) == ["M", "N"]


def test_nothing_at_all_is_planned_too():
    p = plan(sizes={"T": 0})
    assert p.metrics.plan.bytes >= 0
    assert "T=0" in str(p)
    json.loads(p.to_json())


# What a plan says -------------------------------------------------------------------------------------------------


def test_figures_of_a_plan_that_can_be_counted_by_hand():
    @tw.kernel
    def chain(x: tw.f32[M, N], w: tw.f32[4]):
        i, j = tw.vars("i j")
        a, b, c = tw.func("a"), tw.func("b"), tw.func("c")
        a[i, j] = x[i, j] * 2.0
        b[i, j] = a[i, j] + w[0]
        c[i, j] = b[i, j] * b[i, j]
        return c[:M, :N]

    m = plan(chain, sizes={"M": 64, "N": 32}, tokens="M").metrics
    size = 64 * 32 * 4
    assert (m.plan.funcs, m.plan.stored, m.plan.steps, m.plan.kernels) == (3, 1, 1, 1)
    assert m.plan.fusion_rate == pytest.approx(2 / 3)
    assert (m.plan.read, m.plan.written) == (size + 4, size)
    assert m.bytes_per_token == (2 * size + 4) / 64
    assert (m.naive.stored, m.naive.steps, m.naive.fusion_rate) == (3, 3, 0)
    assert (m.naive.read, m.naive.written) == (3 * size + 4, 3 * size)
    assert m.plan.flops == m.naive.flops == 3 * 64 * 32
    assert m.plan.memory.buffers == 0
    assert m.naive.memory.buffers == 2 * size
    assert (m.plan.memory.weights, m.plan.memory.inputs, m.plan.memory.outputs) == (16, size, size)
    assert m.plan.memory.peak == 16 + 2 * size
    (step,) = m.steps
    assert step.intensity == pytest.approx(3 * 64 * 32 / (2 * size + 4))
    assert step.inlined == ("a", "b")
    assert m.seconds == m.plan.cycles / 2.4e9
    assert 0 < m.plan.utilisation <= 1
    assert "fusion rate" in str(m)


def test_a_cache_that_is_appended_to_counts_what_is_written():
    @tw.kernel
    def append(keys: tw.inout(tw.f32[1, 2, N, 8]), k: tw.f32[1, 2, 1, 8], length: tw.i64[1]):
        ops.append(keys, k, length)

    m = plan(append, sizes={"N": 1000}).metrics
    assert m.plan.memory.caches == 2 * 1000 * 8 * 4
    assert m.plan.written < 1000
    assert m.naive.written < 1000


def test_the_data_say_everything_and_stay_the_same():
    def made():
        return plan(sizes={"T": (4, 40)}, tokens="T").as_json()

    data = made()
    assert data.pop("measured").keys() == {"plan_s"}
    again = made()
    again.pop("measured")
    assert json.dumps(data) == json.dumps(again)
    assert (data["format"], data["version"], data["kernel"]) == ("tilewright-plan", 1, "layer")
    names = {f["name"] for f in data["funcs"]}
    assert {n for s in data["steps"] for n in s["funcs"]} == names
    assert all(f["steps"] for f in data["funcs"])
    assert sorted(k for x in data["kernels"] for k in x["steps"]) == list(range(len(data["steps"])))
    assert all(x["schedule"].startswith("schedule ") for x in data["kernels"])
    for b in data["buffers"]:
        assert b["bytes"] == 4 * math.prod(b["shape"])
        assert all(first <= last < len(data["steps"]) for first, last in b["spans"])
    made_by = {b: k for k, s in enumerate(data["steps"]) for b in s["outputs"]}
    for k, s in enumerate(data["steps"]):
        assert all(made_by[x] < k for x in s["inputs"] if x in made_by)


@pytest.mark.parametrize(
    ("machine", "kernel", "how"),
    [
        ("skylake-sp", layer, {"sizes": {"T": (4, 40)}, "tokens": "T", "phase": "decode"}),
        ("skylake-sp", first, {"sizes": {"N": 64}, "scalars": {"n": 40}}),
        ("skylake-sp", layer, {"sizes": {"T": 0}, "objective": "memory"}),
        ("toy", reading, {"sizes": {"M": (4, 9), "N": 9}, "objective": "traffic"}),
    ],
)
def test_the_data_are_as_the_schema_says(machine, kernel, how):
    p = tw.plan(kernel, machine, **how)
    p.compile()
    jsonschema.Draft202012Validator(plan_schema()).validate(json.loads(p.to_json()))


def test_what_was_measured_is_told():
    p = plan(sizes={"T": 8})
    assert p.seconds["plan"] > 0
    p.compile()
    assert p.as_json()["measured"].keys() == {"plan_s", "compile_s"}
    assert "compiled in" in str(p)


def test_a_search_that_stops_early_says_so():
    p = plan(sizes={"T": 64}, budget_s=1e-9)
    assert p.stopped
    assert "stopped early" in str(p)
    x, up, down = np.ones((3, 48), np.float32), np.ones((48, 96), np.float32), np.ones((96, 48), np.float32)
    np.testing.assert_allclose(p.compile()(x, up, down), layer.reference(x, up, down), rtol=1e-5)


def test_many_steps_are_listed_by_kernels():
    @tw.kernel
    def deep(x: tw.f32[T, 48], up: tw.f32[48, 96], down: tw.f32[96, 48]):
        for k in range(16):
            with tw.scope(f"layer{k}"):
                x = ops.value(x) + ops.linear(ops.gelu(ops.linear(x, up)), down)
        return x

    p = plan(deep, sizes={"T": 64}, budget_s=1e-9)  # nothing is fused
    assert len(p.steps) > 30
    assert f"{len(p.steps)} steps, equal ones in one row" in str(p)
    assert len(str(p).splitlines()) < 80

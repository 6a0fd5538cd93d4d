"""Plans on disk: an unchanged graph is not planned again, and what has changed is another plan."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.planner.graphs import case
from tilewright import ops
from tilewright.codegen import cache
from tilewright.codegen import compile as compile_module
from tilewright.codegen.compile import Compiled
from tilewright.hw import load_machine
from tilewright.planner import order, plan, regions, store
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.plan import Plan, Step
from tilewright.planner.program import Program

ROOT = Path(__file__).parents[2]
T, N = tw.sizes("T N")
D, F = 256, 1024  # so large that the layers are not one region
RNG = np.random.default_rng(0)


def block(activation=ops.gelu, last=ops.softmax):
    @tw.kernel
    def block(x: tw.f32[T, D], g: tw.f32[D], w: tw.f32[D, F], v: tw.f32[F, D]):
        for layer in range(2):
            with tw.scope(f"layer{layer}"):
                h = ops.layer_norm(x, g)
                x = ops.value(x) + ops.linear(activation(ops.linear(h, w)), v)
        return last(x)

    return block


ARGS = tuple(RNG.standard_normal(s, dtype=np.float32) / 16 for s in ((20, D), (D,), (D, F), (F, D)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    cache.forget()
    yield tmp_path / "cache"
    cache.forget()


def planned(kernel, **how):
    return tw.plan(kernel, how.pop("machine", "skylake-sp"), sizes=how.pop("sizes", {"T": 20}), **how)


def never(*args, **kwargs):
    raise AssertionError("this is not needed for a plan from disk")


def forget_planning(monkeypatch):
    for module, name in ((regions, "form_regions"), (order, "least_memory"), (plan, "make_plan")):
        monkeypatch.setattr(module, name, never)


def kept_plans():
    return [e for e in cache.entries() if e.meta and e.meta.get("kind") == "plan"]


def test_the_second_time_nothing_is_planned_or_compiled(folder, monkeypatch):
    first = planned(block())
    expected = first.compile()(*ARGS)
    cache.forget()  # what is in memory
    forget_planning(monkeypatch)
    monkeypatch.setattr(Compiled, "build", never)
    again = planned(block())
    np.testing.assert_array_equal(again.compile()(*ARGS), expected)
    np.testing.assert_allclose(expected, block().reference(*ARGS), rtol=1e-4, atol=1e-5)


def test_writing_over_an_input_is_checked_when_its_code_is_made(folder, monkeypatch):
    i = tw.vars("i")

    def kernels():
        @tw.kernel
        def double(x: tw.f32[N]):
            y = tw.func("y")
            y[i] = x[i] * 2
            return y[:N]

        @tw.kernel
        def reverse(x: tw.f32[N]):
            y = tw.func("y")
            y[i] = x[N - 1 - i]
            return y[:N]

        return double.compile(), reverse.compile()

    def run(fast):
        x = np.arange(40, dtype=np.float32)
        return fast(x, out=x)

    double, reverse = kernels()
    expected = run(double)
    with pytest.raises(tw.ArgumentError, match="shares memory"):
        run(reverse)
    cache.forget()
    double, reverse = kernels()
    with pytest.raises(tw.ArgumentError, match="shares memory"):  # it was not kept
        run(reverse)
    monkeypatch.setattr(compile_module, "completed", never)
    np.testing.assert_array_equal(run(double), expected)


def test_a_plan_from_disk_says_the_same(folder):
    first = planned(block(), tokens="T")
    cache.forget()
    again = planned(block(), tokens="T")
    assert type(again) is not Plan
    assert isinstance(again, Plan)
    assert isinstance(again.steps[0], Step)
    assert [s.name for s in again.steps] == [s.name for s in first.steps]
    for mine, theirs in zip(first.steps, again.steps, strict=True):
        assert [f.name for f in theirs.region.members] == [f.name for f in mine.region.members]
        assert (theirs.region.tile, theirs.region.cycles) == (mine.region.tile, mine.region.cycles)
        assert theirs.part.pipeline.digest == mine.part.pipeline.digest
        assert theirs.part.names == mine.part.names
        assert (str(theirs.schedule), theirs.schedule.hash) == (str(mine.schedule), mine.schedule.hash)
        assert str(theirs.schedule.loops()) == str(mine.schedule.loops())
        assert theirs.passes == mine.passes
    assert again.order == first.order
    assert again.places({"T": 7}) == first.places({"T": 7})
    for f in fields(Plan):
        if f.name not in ("pipeline", "steps", "seconds"):
            assert repr(getattr(again, f.name)) == repr(getattr(first, f.name)), f.name
    inside = {*again.pipeline.funcs, *again.pipeline.params}
    assert all(m in inside for s in again.steps for m in s.region.members)
    assert again.as_json() | {"measured": 0} == first.as_json() | {"measured": 0}


def test_a_program_of_a_plan_from_disk_runs_at_other_sizes(folder):
    planned(block())
    cache.forget()
    program = planned(block()).compile()
    for n in (1, 33, 0):
        x = RNG.standard_normal((n, D), dtype=np.float32) / 16
        np.testing.assert_allclose(program(x, *ARGS[1:]), block().reference(x, *ARGS[1:]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "how",
    [
        {"sizes": {"T": 21}},
        {"sizes": {"T": (20, 40)}},
        {"machine": "generic-avx2"},
        {"objective": "memory"},
        {"phase": "decode"},
        {"seed": 1},
        {"budget_s": 9.0},
        {"tokens": "T"},
        {"mode": "strict"},
    ],
    ids=repr,
)
def test_whatever_is_asked_otherwise_is_planned_anew(folder, how):
    planned(block())
    before = len(kept_plans())
    planned(block(), **how)
    assert len(kept_plans()) == before + 1


def test_another_algorithm_is_another_plan(folder):
    planned(block())
    planned(block(activation=ops.relu))
    assert len(kept_plans()) == 2
    planned(block(activation=ops.relu))
    assert len(kept_plans()) == 2


def test_another_figure_of_the_machine_is_another_plan(folder, tmp_path):
    from tilewright.hw.machine import machine_text

    text = machine_text(load_machine("skylake-sp"))
    file = tmp_path / "mine.toml"
    for name in ("mine", "yours"):
        file.write_text(text.replace('name = "skylake-sp"', f'name = "{name}"'))
        assert planned(block(), machine=str(file)).machine.name == name
    assert len(kept_plans()) == 2


def test_the_planners_code_is_in_the_key(folder, monkeypatch):
    p = block().pipeline()
    before = store.key(p, "m", {})
    hashes = {("planner", "hw"): "other"}
    monkeypatch.setattr(cache, "sources_hash", lambda *rooms: hashes.get(rooms, "kernels"))
    assert store.key(p, "m", {}) != before


def damages(data: bytes):
    yield "cut", data[: len(data) // 2]
    yield "empty", b""
    yield "one byte", data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


@pytest.mark.parametrize("how", ["cut", "empty", "one byte"])
def test_a_damaged_record_is_made_anew(folder, how):
    first = planned(block())
    (entry,) = kept_plans()
    good = entry.path.read_bytes()
    entry.path.write_bytes(dict(damages(good))[how])
    cache.forget()
    again = planned(block())
    assert type(again) is Plan
    assert again.order == first.order
    assert entry.path.read_bytes() == good  # and equal plans have equal records


@pytest.mark.parametrize("content", [b"", b"\x80\x05N.", b"no pickle", b"\x80\x05}."], ids=repr)
def test_a_record_of_another_form_is_made_anew(folder, content):
    planned(block())
    (entry,) = kept_plans()
    cache.put(entry.key, cache.Entry(content, {"kind": "plan"}))
    assert type(planned(block())) is Plan


def test_without_a_folder_plans_are_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "below"))
    cache.forget()
    assert planned(block()).steps


def test_what_the_clock_ended_is_not_kept(folder):
    hurried = planned(block(), budget_s=1e-9)
    assert hurried.late
    assert "regions" in hurried.stopped
    assert not kept_plans()


def test_what_states_ended_is_kept(folder):
    p = block().pipeline()

    def make():
        return plan.make_plan(p, load_machine("skylake-sp"), {"T": 20}, Goal(states=3))

    first = store.planned(p, "m", {}, make, never)
    again = store.planned(p, "m", {}, never, lambda: load_machine("toy"))
    assert again.stopped == first.stopped
    assert first.stopped["regions"] == "3 states looked at"
    assert again.machine.name == "toy"  # it is not looked for before


def count_built(monkeypatch):
    built = []
    real = Compiled.build

    def build(self, *args):
        built.append(self.pipeline.name)
        return real(self, *args)

    monkeypatch.setattr(Compiled, "build", build)
    return built


def test_an_edited_operator_compiles_one_kernel(folder, monkeypatch):
    built = count_built(monkeypatch)
    planned(block()).compile()
    assert len(built) > 1
    built.clear()
    program = planned(block(last=lambda x: ops.softmax(x) * 2)).compile()
    assert len(built) == 1
    np.testing.assert_allclose(
        program(*ARGS), block(last=lambda x: ops.softmax(x) * 2).reference(*ARGS), rtol=1e-4, atol=1e-5
    )


def test_equal_layers_are_compiled_once(folder, monkeypatch):
    built = count_built(monkeypatch)
    program = planned(block()).compile()
    assert len(built) == len(program.kernels) < len(program.plan.steps)


def test_tables_functions_and_parameters_that_are_written_come_back(folder):
    halve = tw.extern(lambda x: x * 0.5, result=tw.f32, args=(tw.f32,), name="halve")
    i, j = tw.vars("i j")

    @tw.kernel
    def mixed(x: tw.f32[N, 8], cache: tw.inout(tw.f32[N, 8]), scale: tw.f32, at: tw.i64):
        weights = tw.const(np.arange(8, dtype=np.float32), "weights")
        h = ops.softmax(ops.value(x) * scale)
        w = tw.func("w")
        w[i, j] = halve(ops.value(h)[i, j]) * weights[j]
        cache[at, j] = w[0, j]
        return w[:N, :8]

    def run(kernel):
        x, own = np.ones((5, 8), np.float32), np.zeros((5, 8), np.float32)
        p = tw.plan(kernel, "skylake-sp", sizes={"N": 5}, scalars={"at": 2})
        return p, (p.compile()(x, own, 2.0, 2), own)

    first, values = run(mixed)
    cache.forget()
    again, others = run(mixed)
    assert type(first) is Plan
    assert type(again) is not Plan
    for a, b in zip(values, others, strict=True):
        np.testing.assert_array_equal(a, b)
    assert values[1][2].any()


WARM = """
    import sys
    import numpy as np
    import tests.planner.warm_model as m
    import tilewright as tw

    plan = tw.plan(m.block, "host", sizes={"T": 20})
    program = plan.compile()
    print(type(plan).__module__)
    print(float(program(*m.args()).sum()))
    heavy = ("hw", "planner.graph", "planner.regions", "planner.nest", "planner.model", "schedule.directives",
             "schedule.build", "schedule.machines", "codegen.emit", "codegen.lower", "codegen.accounts", "lang.text")
    print([h for h in heavy if f"tilewright.{h}" in sys.modules])
"""

MODEL = """
    import numpy as np
    import tilewright as tw
    from tilewright import ops

    T = tw.sizes("T")

    @tw.kernel
    def block(x: tw.f32[T, 32], w: tw.f32[32, 96], v: tw.f32[96, 32]):
        return ops.softmax(ops.linear(ops.gelu(ops.linear(x, w)), v))

    def args():
        rng = np.random.default_rng(0)
        return [rng.standard_normal(s, dtype=np.float32) for s in ((20, 32), (32, 96), (96, 32))]
"""


def start(tmp_path, folder):
    (tmp_path / "warm_model.py").write_text(textwrap.dedent(MODEL))
    code = textwrap.dedent(WARM).replace("tests.planner.warm_model", "warm_model")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, cache.VARIABLE: str(folder), "PYTHONPATH": path},
    )  # fmt: skip


def test_processes_that_compile_at_once_and_one_that_finds_it_all(tmp_path):
    folder = tmp_path / "cache"
    cold = [start(tmp_path, folder) for _ in range(2)]
    texts = [p.communicate()[0].splitlines() for p in cold]
    assert [p.returncode for p in cold] == [0, 0]
    assert texts[0][1] == texts[1][1]
    warm = start(tmp_path, folder)
    module, value, heavy = warm.communicate()[0].splitlines()
    assert module == "tilewright.planner.store"
    assert value == texts[0][1]
    assert heavy == "[]"


def test_a_plan_can_be_asked_for_by_several_threads(folder):
    from concurrent.futures import ThreadPoolExecutor

    kernel = block()
    with ThreadPoolExecutor(3) as pool:
        plans = list(pool.map(lambda _: planned(kernel), range(3)))
        values = list(pool.map(lambda p: p.compile()(*ARGS), plans))
    for v in values[1:]:
        np.testing.assert_array_equal(v, values[0])


def test_the_folder_shows_plans_beside_kernels(folder):
    from tilewright.commands import cache as report
    from tilewright.commands import cache_clear

    planned(block()).compile()
    found = report()
    assert [e.kernel for e in found.entries if e.kind == "plan"] == ["block"]
    assert f"{len(found.entries)} (1 plan)" in str(found)
    assert cache_clear() == len(found.entries)
    assert type(planned(block())) is Plan


def test_a_program_may_be_made_of_any_plan(folder):
    fresh = plan.make_plan(block().pipeline(), load_machine("skylake-sp"), {"T": 20})
    np.testing.assert_allclose(Program(fresh)(*ARGS), block().reference(*ARGS), rtol=1e-4, atol=1e-5)


def alike(a: object, b: object) -> bool:
    return a == b or repr(a) == repr(b)  # sets have no order, and some objects no equality


def same(first: Plan, again: Plan) -> None:
    """Whether two plans of a pipeline say the same, object for object."""
    for f in fields(Plan):
        if f.name not in ("steps", "seconds"):
            assert alike(getattr(first, f.name), getattr(again, f.name)), f.name
    for mine, theirs in zip(first.steps, again.steps, strict=True):
        for f in fields(Step):
            if f.name not in ("part", "schedule"):
                assert alike(getattr(mine, f.name), getattr(theirs, f.name)), f.name
        assert theirs.region.members == mine.region.members  # the very Funcs of the pipeline
        assert (theirs.part.inputs, theirs.part.outputs, theirs.part.names) == (
            mine.part.inputs, mine.part.outputs, mine.part.names,
        )  # fmt: skip
        assert theirs.part.pipeline.digest == mine.part.pipeline.digest
        assert (str(theirs.schedule), theirs.schedule.hash, theirs.schedule.added) == (
            str(mine.schedule), mine.schedule.hash, mine.schedule.added,
        )  # fmt: skip
    assert again.buffers == first.buffers
    assert list(map(again.shape, again.buffers)) == list(map(first.shape, first.buffers))


def kept_and_found(folder: Path, first: Plan) -> Plan:
    """A plan through the disk, for a pipeline that knows nothing of it."""
    p = first.pipeline
    for known in ("_regions", "_known_regions", "_passed"):
        p.__dict__.pop(known, None)
    store.keep(p.digest * 2, first)
    cache.forget()
    again = store.find(p.digest * 2, p, lambda: first.machine)
    assert again is not None, cache.status().problem
    return again


@given(st.data())
@settings(max_examples=4, deadline=None)
def test_any_plan_comes_back(folder, data):
    c = case(lambda options: data.draw(st.sampled_from(list(options))), most=5)
    try:
        first = c.plan()
    except PlanError:
        return
    same(first, kept_and_found(folder, first))

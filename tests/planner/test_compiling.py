"""Kernels that are compiled side by side are those that are compiled one after the other."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.codegen import cache
from tilewright.hw import load_machine
from tilewright.lang.errors import CompileError
from tilewright.planner import compiling
from tilewright.planner.compiling import compile_all
from tilewright.planner.goal import Goal
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

T = tw.sizes("T")


def graph():
    """Several kernels that share names, sizes and forms of expressions."""

    @tw.kernel
    def graph(x: tw.f32[T, 32], w: tw.f32[32, 48], v: tw.f32[48, 32]):
        h = ops.gelu(ops.linear(x, w))
        return ops.softmax(ops.value(x) + ops.linear(h, v)), ops.layer_norm(h)

    return graph.pipeline()


def compiled(folder, monkeypatch, processors, interval):
    """Everything that lies in the cache after a plan has been compiled, and the program."""
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    monkeypatch.setattr(compiling, "available", lambda: set(range(processors)))
    cache.forget()
    plan = make_plan(graph(), load_machine("skylake-sp"), {"T": 20}, Goal(states=1))  # each Func alone
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        program = Program(plan)
    finally:
        sys.setswitchinterval(before)
    kernels = (e for e in cache.entries() if e.meta and "kernel" in e.meta)  # what serves all is loaded once a process
    return {e.path.name: e.path.read_bytes() for e in kernels}, program


def test_threads_make_the_same_code(tmp_path, monkeypatch):
    alone, first = compiled(tmp_path / "a", monkeypatch, 1, 5e-3)
    together, second = compiled(tmp_path / "b", monkeypatch, 4, 1e-5)
    assert len(first.kernels) > 4
    assert [k.pipeline.digest for k in first.kernels] == [k.pipeline.digest for k in second.kernels]
    assert together == alone
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s, dtype=np.float32) for s in ((20, 32), (32, 48), (48, 32))]
    for a, b in zip(first(*args), second(*args), strict=True):
        np.testing.assert_array_equal(a, b)
    cache.forget()


@pytest.mark.parametrize("processors", [1, 3])
def test_the_first_error_is_raised(monkeypatch, processors):
    def refuse(p, schedule, mode):
        if schedule in "bd":
            raise CompileError(f"no {schedule}")
        return schedule

    monkeypatch.setattr(compiling, "available", lambda: set(range(processors)))
    monkeypatch.setattr(compiling, "compile_schedule", refuse)
    assert compile_all({k: (None, s) for k, s in enumerate("ac")}, "contract") == {0: "a", 1: "c"}
    with pytest.raises(CompileError, match="no b"):
        compile_all({k: (None, s) for k, s in enumerate("abcd")}, "contract")
    assert compile_all({}, "contract") == {}


def test_an_interruption_ends_it(monkeypatch):
    begun = []

    def interrupted(p, schedule, mode):
        begun.append(schedule)
        raise KeyboardInterrupt

    monkeypatch.setattr(compiling, "available", lambda: {0})
    monkeypatch.setattr(compiling, "compile_schedule", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_all({k: (None, k) for k in range(5)}, "contract")
    assert begun == [0]

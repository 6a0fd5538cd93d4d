"""The bounds of a search: states first, the clock behind them, and what a plan says that was made early."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.planner.budget import Budget
from tilewright.planner.goal import Goal
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

HOST = load_machine("skylake-sp")
T = tw.sizes("T")


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_each_pass_has_the_states_of_the_goal():
    b = Budget(Goal(states=3))
    assert [b.spend("a") for _ in range(4)] == [True, True, True, False]
    assert b.spend("b", 3)
    assert not b.spend("b", 1)
    assert b.stopped == {"a": "3 states looked at", "b": "3 states looked at"}
    assert b.looked == {"a": 3, "b": 3}
    assert not b.late


def test_states_that_are_asked_for_at_once_are_had_at_once_or_not_at_all():
    b = Budget(Goal(states=3))
    assert b.spend("a", 2)
    assert not b.spend("a", 2)
    assert not b.spend("a", 1)  # it has stopped
    assert b.looked == {"a": 2}


def test_the_clock_ends_all_passes():
    clock = Clock()
    b = Budget(Goal(budget_s=5), clock)
    assert b.spend("a")
    clock.now = 105.0
    assert b.spend("a")
    clock.now = 105.1
    assert not b.spend("a")
    assert not b.spend("b")
    assert b.stopped == {"a": "5 s are over", "b": "5 s are over"}
    assert b.late


@tw.kernel
def block(x: tw.f32[T, 32], g: tw.f32[32], w: tw.f32[32, 96], v: tw.f32[96, 32]):
    h = ops.layer_norm(x, g)
    a = ops.gelu(ops.linear(h, w))
    return ops.softmax(ops.value(x) + ops.linear(a, v))


@pytest.mark.parametrize("states", [2, 50])
def test_a_plan_that_stopped_early_is_right_and_says_so(states):
    plan = make_plan(block.pipeline(), HOST, {"T": 40}, Goal(states=states))
    assert plan.stopped["regions"] == f"{states:,} states looked at"
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s, dtype=np.float32) for s in ((40, 32), (32,), (32, 96), (96, 32))]
    np.testing.assert_allclose(Program(plan)(*args), block.reference(*args), rtol=1e-4, atol=1e-5)


def test_without_states_each_func_is_alone():
    plan = make_plan(block.pipeline(), HOST, {"T": 40}, Goal(states=1))
    assert all(len(s.region.members) == 1 and s.region.tile.whole for s in plan.steps)
    whole = make_plan(block.pipeline(), HOST, {"T": 40})
    assert not whole.stopped
    assert len(whole.steps) < len(plan.steps)


PLANNED = """
    import tests.planner.test_budget as t
    from tilewright.planner.goal import Goal
    from tilewright.planner.plan import make_plan

    for states in (40, 100_000):
        plan = make_plan(t.block.pipeline(), t.HOST, {"T": 40}, Goal(states=states))
        print(dict(plan.stopped), [s.name for s in plan.steps], plan.order.peak, plan.places({"T": 40}))
        for s in plan.steps:
            print([f.name for f in s.region.members], s.region.tile, s.region.cycles, s.part.pipeline.digest)
            print(s.schedule, s.passes)
"""


def test_the_plan_is_the_same_in_every_process():
    texts = []
    for seed in ("0", "1", "77"):
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PLANNED)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
        )  # fmt: skip
        texts.append(run.stdout)
    assert "regions" in texts[0]
    assert texts[0] == texts[1] == texts[2]

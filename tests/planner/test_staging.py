"""Plans for machines with scratchpads: values, capacity, traffic, and what is said where nothing fits."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import ops
from tilewright.codegen.accounts.simulate import simulate
from tilewright.hw import load_machine, machine_text, parse_machine
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
        inside = inside and not line.startswith("[") or line == f'name = "{pad_of(m).name}"'
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
    "product": (product, dict(M=37, N=29, K=50), [(37, 50), (50, 29), (29,)]),
    "attention": (attention, dict(H=2, M=33, N=40), [(1, 2, 33, 16), (1, 2, 40, 16), (1, 2, 40, 16)]),
    "causal": (causal, dict(H=1, M=20, N=37), [(1, 1, 20, 16), (1, 1, 37, 16), (1, 1, 37, 16)]),
    "rows": (rows, dict(M=19, N=70), [(19, 70)]),
    "convolved": (convolved, dict(M=9, N=13), [(1, 9, 13, 8), (3, 3, 8, 8)]),
    "blurred": (blurred, dict(M=30, N=35), [(30, 35)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", ["toy", "snitch-cluster"])
def test_values_in_little_memory(name, on):
    kernel, sizes, shapes = CASES[name]
    check(kernel, plan_of(kernel, machine(on, 8192), **sizes), *(normal(*s) for s in shapes))

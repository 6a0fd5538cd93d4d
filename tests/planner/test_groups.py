"""Steps that run at once: when the model says that it pays, and that they compute what they do one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright.hw import load_machine
from tilewright.planner.goal import Goal
from tilewright.planner.lives import lives
from tilewright.planner.order import Dependences, Task
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program
from tilewright.planner.together import WAKE, Share, at_once, grouped, in_groups

M, N = tw.sizes("M N")
RNG = np.random.default_rng(0)
WAYS = 5


def machine(cores):
    one = load_machine("skylake-sp")
    ops_ = {t: n * cores for t, n in one.compute.ops.items()}
    return replace(one, compute=replace(one.compute, cores=cores, ops=ops_))


@tw.kernel
def branches(x: tw.f32[M, 96], w: tw.f32[WAYS, 96, 96]):
    """Products of their own, which meet at the end."""
    i, j = tw.vars("i j")
    found = []
    for b in range(WAYS):
        k = tw.rdom(k=96)
        y = tw.func(f"y{b}")
        y[i, j] = 0.0
        y[i, j] += x[i, k] * w[b, k, j]
        z = tw.func(f"z{b}")
        z[i, j] = 0.0
        k = tw.rdom(k=96)
        z[i, j] += y[i, k] * w[b, k, j]
        found.append(z)
    total = tw.func("total")
    total[i, j] = sum((z[i, j] for z in found[1:]), found[0][i, j])
    return total[:M, :96], [z[:M, :96] for z in found]


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("cores", [2, 3])
def test_branches_run_at_once(cores):
    plan = make_plan(branches.pipeline(), machine(cores), {"M": 24}, Goal(phase="decode"))
    assert max(plan.order.groups) > 1
    assert sum(plan.order.groups) == len(plan.steps)
    assert plan.order.cycles < plan.order.serial
    fast = Program(plan)
    for m in (24, 1, 0, 37, 500):  # 500: too much for what was planned
        x, w = normal(m, 96), normal(WAYS, 96, 96) / 10
        wanted, parts = fast(x, w, threads=1)
        for _ in range(20):
            got, other = fast(x, w, threads=cores)
            np.testing.assert_array_equal(got, wanted)
            for a, b in zip(other, parts, strict=True):
                np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(wanted, branches.reference(x, w)[0], rtol=1e-3, atol=1e-3)


def test_calls_from_several_threads():
    fast = Program(make_plan(branches.pipeline(), machine(2), {"M": 40}, Goal(phase="decode")))
    w = normal(WAYS, 96, 96) / 10
    inputs = [normal(40, 96) for _ in range(8)]
    wanted = [fast(x, w, threads=1)[0] for x in inputs]
    fast(inputs[0], w, threads=2)
    with ThreadPoolExecutor(4) as pool:
        for got, right in zip(pool.map(lambda x: fast(x, w, threads=2)[0], inputs * 10), wanted * 10, strict=True):
            np.testing.assert_array_equal(got, right)


def test_one_core_runs_one_by_one():
    plan = make_plan(branches.pipeline(), machine(1), {"M": 24}, Goal(phase="decode"))
    assert set(plan.order.groups) == {1}


def test_least_memory_runs_one_by_one():
    plan = make_plan(branches.pipeline(), machine(2), {"M": 24}, Goal(phase="prefill"))
    fast = make_plan(branches.pipeline(), machine(2), {"M": 24}, Goal(phase="decode"))
    assert set(plan.order.groups) == {1}
    assert plan.order.peak <= fast.order.peak
    assert plan.order.cycles >= fast.order.cycles


# The model -----------------------------------------------------------------------------------------------------------


def test_shares_by_hand():
    small = Share.of(alone=420, moved=20, cores=4, pieces=99)
    assert small == Share(420, 420, 20)  # waking the others takes longer
    large = Share.of(alone=4e6, moved=20, cores=4, pieces=99)
    assert large == Share(4e6, 1e6 + WAKE, 20)
    assert Share.of(4e6, 3e6, 4, 99).whole == 3e6 + WAKE  # all cores share main memory
    assert Share.of(4e6, 0, 4, pieces=1).whole == 4e6


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(1, 3))
def test_steps_at_once_take_no_more_than_the_bound_of_list_scheduling(times, cores):
    shares = [Share(float(t), float(t)) for t in times]
    got = at_once(shares, cores)
    if len(times) == 1:
        assert got == times[0]
        return
    best = min(_dealt(order, cores) for order in permutations(times))
    assert best <= got - WAKE <= (4 / 3 - 1 / (3 * cores)) * best  # Graham 1969: longest processing time first


def _dealt(times, cores):
    ends = [0] * cores
    for t in times:
        k = ends.index(min(ends))
        ends[k] += t
    return max(ends)


@st.composite
def problems(draw):
    n = draw(st.integers(1, 9))
    tasks, shares = [], {}
    for k in range(n):
        needs = draw(st.sets(st.sampled_from([f"b{j}" for j in range(k)]), max_size=2)) if k else set()
        tasks.append(Task(f"t{k}", frozenset(needs), {f"b{k}": draw(st.integers(0, 20))}))
        alone, moved = draw(st.integers(0, 10)) * WAKE, draw(st.integers(0, 10)) * WAKE
        shares[f"t{k}"] = Share.of(alone, min(alone, moved), 2, draw(st.sampled_from([1, 100])))
    return tasks, shares, draw(st.sampled_from([20, 60, 10**9]))


@given(problems())
def test_groups_are_independent_and_pay(problem):
    tasks, shares, capacity = problem
    g = Dependences(tasks)
    one_by_one = lives(tasks).peak
    order, groups = grouped(g, range(len(tasks)), shares, 2, max(capacity, one_by_one), frozenset())
    assert g.legal(order)
    assert sorted(order) == list(range(len(tasks)))
    names = [tasks[k].name for k in order]
    assert in_groups(names, groups, shares, 2) <= sum(s.whole for s in shares.values()) * (1 + 1e-9)
    at, live = 0, lives([tasks[k] for k in order], groups).live
    for n in groups:
        group = order[at : at + n]
        assert not any(g.before[k] & set(group) for k in group)
        assert n == 1 or live[at] <= max(capacity, one_by_one)
        at += n

"""Siblings: results that read one large tensor are made in strips together; values stay, and nothing waits for itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.planner.goal import Goal
from tilewright.planner.graph import make_graph
from tilewright.planner.model import Model
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program
from tilewright.planner.region import recosted

M, N = tw.sizes("M N")
RNG = np.random.default_rng(0)
MACHINE = load_machine("skylake-sp")
MODEL = Model(MACHINE, Goal())


@tw.kernel
def statistics(x: tw.f32[M, N]):
    return ops.sum(x, -1), ops.max(x, -1), ops.sum(ops.value(x) * x, -1)


@tw.kernel
def chain(x: tw.f32[M, N]):
    """The second needs the first."""
    first = ops.sum(x, -1)
    i = tw.vars("i")
    second = tw.func("second")
    second[i] += x[i, tw.rdom(k=N)] * first[i]
    return first, ops.value(second, (M,))


@tw.kernel
def maps(x: tw.f32[M, N]):
    return ops.exp(x), ops.sqrt(ops.abs(x))


def planned(kernel, **sizes):
    return make_plan(kernel.pipeline(), MACHINE, sizes)


def test_reductions_of_one_large_tensor_are_one_step():
    plan = planned(statistics, M=8192, N=4096)
    (step,) = plan.steps
    assert len(step.region.results) == 3
    assert "compute_with" in str(step.schedule)
    fast = Program(plan)
    for shape in ((300, 40), (1, 1), (0, 3), (513, 7)):
        x = RNG.standard_normal(shape, dtype=np.float32)
        for got, wanted in zip(fast(x), statistics.reference(x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_small_tensors_stay_near_by_themselves():
    assert len(planned(statistics, M=64, N=64).steps) == 3


def test_what_needs_the_other_is_no_sibling():
    plan = planned(chain, M=8192, N=4096)
    assert not any(s.region.siblings for s in plan.steps)


def test_what_stores_as_much_as_it_reads_stays_apart():
    assert len(planned(maps, M=8192, N=4096).steps) == 2


@tw.kernel
def columns(x: tw.f32[M, N]):
    """Not the first axis of the result, and one that is read along two of its axes."""
    i, j = tw.vars("i j")
    first, second = tw.func("first"), tw.func("second")
    first[j, i] += x[i, j] * tw.cast(tw.f32, tw.rdom(k=3).k)
    second[i] = tw.max(x[i, tw.rdom(k=N)])
    return first[:N, :M], ops.value(second, (M,))


def test_axes_that_lie_otherwise():
    for kernel in (columns, maps):
        plan = planned(kernel, M=8192, N=4096)
        x = RNG.standard_normal((77, 130), dtype=np.float32)
        for got, wanted in zip(Program(plan)(x), kernel.reference(x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("kernel", [statistics, columns], ids=lambda k: k.__name__)
def test_ranges_and_reports_know_what_results_take_together(kernel):
    plan = tw.plan(kernel, MACHINE, sizes={"M": (1, 8192), "N": (8, 4096)})
    assert all(p.ratio >= 1 and math.isfinite(p.cycles) for p in plan.valid_for.points)
    large = planned(kernel, M=8192, N=4096)
    for p in (plan, large):
        assert p.diagnose() is not None
        assert str(p) and p.to_json()
    if kernel is statistics:
        (step,) = large.steps
        assert len(step.region.results) == 3
        assert math.isclose(recosted(make_graph(large.pipeline, large.sizes, MODEL), MODEL, step.region).cycles,
                            step.region.cycles, rel_tol=0.05)  # fmt: skip

"""How tensors run with their readers: shifted, wider, scaled; and that regions made of it compute what the whole does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.planner.graph import make_graph
from tilewright.planner.meeting import Met
from tilewright.planner.model import Model
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

M, N = tw.sizes("M N")
RNG = np.random.default_rng(0)
MACHINE = load_machine("skylake-sp")
MODEL = Model(MACHINE)


def small_caches(share):
    """The same machine with caches of a few kilobytes, so that small pictures are cut too."""
    return replace(MACHINE, caches=tuple(replace(c, size=max(1024, int(c.size * share))) for c in MACHINE.caches))


def met(index, extent=400):
    """How `f` meets a reader that reads it at `index(i)`, in numbers."""

    @tw.kernel
    def reads():
        i, j = tw.vars("i j")
        f, g = tw.func("f"), tw.func("g")
        f[i] = tw.cast(tw.f32, i) * 0.5
        f[0] = 3.0  # an update, so that it is kept
        g[j] = sum(f[k] for k in index(j))
        return g[:extent]

    g = make_graph(reads.pipeline(), {}, MODEL)
    (found,) = g.sources(g.kept[-1]).values()
    return found.get(0)


def test_shifts_are_neighbours():
    assert met(lambda i: [i]) == Met(0)
    assert met(lambda i: [i - 1, i, i + 2]) == Met(0, 1, -1, 2)
    assert met(lambda i: [tw.clamp(i - 1, 0, 399), i]) == Met(0, 1, -1, 0)


def test_other_scales():
    double = met(lambda i: [2 * i - 1, 2 * i + 1])
    assert (double.slope, double.low, double.high) == (2, -1, 1)
    half = met(lambda i: [i // 2, i // 2 + 1])
    assert half.slope == 1 / 2
    assert half.extent(8) >= 5
    assert met(lambda i: [399 - i]).slope == -1


def test_what_does_not_move_evenly_meets_nothing():
    assert met(lambda i: [i * i % 7]) is None
    assert met(lambda i: [i, 2 * i]) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=3), st.data()
)
def test_no_tile_reads_more_than_is_said(terms, data):
    """Of the indices (a i + b) // c, in the middle of the axis; and of what leads on from there."""

    def at(i):
        return [(a * i + b) // c for a, b, c in terms]

    found = met(at)
    if found is None:
        return
    start, width = data.draw(st.integers(100, 200)), data.draw(st.integers(1, 60))
    read = [k for i in range(start, start + width) for k in at(i)]
    assert max(read) - min(read) + 1 <= found.extent(width) + 1
    onward = Met(0, found.slope, -1, 1).through(found)
    further = [found.slope * k + d for k in (min(read), max(read)) for d in (-1, 1)]
    assert max(further) - min(further) + 1 <= onward.extent(width) + 2


@tw.kernel
def pyramid(x: tw.f32[M, N]):
    """Down by two, blurred, and up again, beside what it came from."""
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(x)
    down, small, up, out = (tw.func(n) for n in ("down", "small", "up", "out"))
    down[i, j] = edge[2 * i, j] + 2.0 * edge[2 * i + 1, j] + edge[2 * i + 2, j]
    small[i, j] = down[i, 2 * j - 1] + 2.0 * down[i, 2 * j] + down[i, 2 * j + 1]
    inside = tw.repeat_edge(small, (0, (M + 1) // 2), (0, (N + 1) // 2))
    up[i, j] = inside[i // 2, j] + inside[(i + 1) // 2, j]
    out[i, j] = edge[i, j] - (up[i, j // 2] + up[i, (j + 1) // 2])
    return out[:M, :N]


@tw.kernel
def neighbours(x: tw.f32[M, N]):
    """A chain of stencils, with a result on the way that is read at three places."""
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(x)
    a, b, c, d = (tw.func(n) for n in "abcd")
    a[i, j] = tw.exp(edge[i, j] * 0.1)
    b[i, j] = a[i - 1, j] + a[i, j] + a[i + 1, j]
    c[i, j] = tw.sqrt(tw.abs(b[i, j - 1] - b[i, j + 1]))
    d[i, j] = c[i - 2, j] + c[i + 2, j] * a[i, j]
    return d[:M, :N]


@pytest.mark.parametrize("kernel", [pyramid, neighbours])
@pytest.mark.parametrize("share", [1, 1 / 8])
def test_pictures(kernel, share):
    plan = make_plan(kernel.pipeline(), small_caches(share), {"M": 300, "N": 400})
    fast = Program(plan)
    assert any(len(s.region.members) > 1 and s.region.tile.cuts for s in plan.steps)
    for shape in ((300, 400), (1, 1), (7, 301), (61, 2)):
        x = RNG.standard_normal(shape, dtype=np.float32)
        np.testing.assert_allclose(fast(x), kernel.reference(x), rtol=1e-4, atol=1e-4)


@tw.kernel
def twice(x: tw.f32[M, N]):
    """A large, cheap Func that two results of several steps need: it is computed in each."""
    tone = ops.exp(ops.value(x) * 0.5)
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    down, across = tw.func("down"), tw.func("across")
    down[j] += tone[tw.rdom(r=M).r, j]
    across[i] += tone[i, k] * down[k]
    return ops.value(across, (M,))


def test_what_is_cheap_is_computed_where_it_is_needed():
    plan = make_plan(twice.pipeline(), MACHINE, {"M": 4096, "N": 4096})
    assert all(s.name != "exp" for s in plan.steps)
    fast = Program(plan)
    x = RNG.standard_normal((130, 70), dtype=np.float32)
    np.testing.assert_allclose(fast(x), twice.reference(x), rtol=1e-4)


@tw.kernel
def matrix_sum(a: tw.f32[M, 64], b: tw.f32[64, N]):
    return ops.sum(ops.matmul(a, b), -1)


def test_rows_of_a_product_are_summed_without_the_matrix():
    (step,) = make_plan(matrix_sum.pipeline(), MACHINE, {"M": 4096, "N": 4096}).steps
    assert "matmul" in [f.name for f in step.region.members]
    assert step.region.tile.cuts
    a, b = (RNG.standard_normal(s, dtype=np.float32) for s in ((50, 64), (64, 33)))
    fast = Program(make_plan(matrix_sum.pipeline(), MACHINE, {"M": 4096, "N": 4096}))
    np.testing.assert_allclose(fast(a, b), matrix_sum.reference(a, b), rtol=1e-3, atol=1e-3)


@tw.kernel
def long_softmax(x: tw.f32[M, N]):
    return ops.softmax(x)


@tw.kernel
def long_sums(x: tw.f32[M, N]):
    return ops.log_sum_exp(x)


@tw.kernel
def long_variance(x: tw.f32[M, N]):
    return ops.variance(x)


@pytest.mark.parametrize("kernel", [long_softmax, long_sums, long_variance])
def test_long_rows_are_reduced_in_one_pass(kernel):
    plan = make_plan(kernel.pipeline(), MACHINE, {"M": 4, "N": 1 << 23})
    assert any(s.region.group is not None for s in plan.steps)
    x = RNG.standard_normal((3, 1500), dtype=np.float32)
    np.testing.assert_allclose(Program(plan)(x), kernel.reference(x), rtol=1e-3, atol=1e-5)

"""A plan runs as its kernel does: all sizes, several results, parts of results, caches that are written in place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

B, H, N, D, T, M = tw.sizes("B H N D T M")
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def program(kernel, **sizes):
    return Program(make_plan(kernel.pipeline(), load_machine("skylake-sp"), sizes))


@tw.kernel
def layers(x: tw.f32[T, 256], g: tw.f32[256], up: tw.f32[256, 512], down: tw.f32[512, 256]):
    for k in range(5):
        with tw.scope(f"layer{k}"):
            x = ops.value(x) + ops.linear(ops.gelu(ops.linear(ops.layer_norm(x, g), up)), down)
    return x


def test_equal_layers_share_their_kernels():
    fast = program(layers, T=256)
    assert len(fast.kernels) < len(fast.plan.steps)
    weights = normal(256), normal(256, 512) / 16, normal(512, 256) / 23
    for tokens in (20, 1, 0, 57):
        x = normal(tokens, 256)
        np.testing.assert_allclose(fast(x, *weights), layers.reference(x, *weights), rtol=1e-4, atol=1e-4)


@tw.kernel
def step(
    q: tw.f32[B, 4, 1, D], k: tw.f32[B, 2, 1, D], v: tw.f32[B, 2, 1, D],
    keys: tw.inout(tw.f32[B, 2, N, D]), values: tw.inout(tw.f32[B, 2, N, D]), length: tw.i64[B], w: tw.f32[D, 8],
):  # fmt: skip
    keys, values = ops.append(keys, k, length), ops.append(values, v, length)
    seen = ops.value(length) + 1
    out = ops.attention(q, keys, values, lengths=seen)
    return ops.matmul(out, w), {"seen": seen}


def test_decoding_with_a_cache_in_place():
    fast = program(step, B=2, N=16, D=8)
    keys, values = np.zeros((2, 2, 16, 8), np.float32), np.zeros((2, 2, 16, 8), np.float32)
    wanted_keys, wanted_values, w = keys.copy(), values.copy(), normal(8, 8)
    for t in range(5):
        q, k, v, length = normal(2, 4, 1, 8), normal(2, 2, 1, 8), normal(2, 2, 1, 8), np.array([t, t + 3])
        got, said = fast(q, k, v, keys, values, length, w)
        wanted, says = step.reference(q, k, v, wanted_keys, wanted_values, length, w)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(said["seen"], says["seen"])
        np.testing.assert_array_equal(keys, wanted_keys)
        np.testing.assert_array_equal(values, wanted_values)


@tw.kernel
def pictures(x: tw.f32[M, N]):
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(x)
    across, down = tw.func("across"), tw.func("down")
    across[i, j] = edge[i, j - 1] + edge[i, j] + edge[i, j + 1]
    down[i, j] = tw.exp(across[i - 1, j]) + tw.exp(across[i, j]) + tw.exp(across[i + 1, j])
    pair = tw.func("pair")
    pair[i, j] = (down[i, j] * 2.0, tw.cast(tw.i32, down[i, j]))
    total = tw.func("total")
    total[i] += pair[i, tw.rdom(k=N)][0]
    return pair[1 : M - 1, 2:N], across[:M, :N], total[:M]


def test_several_results_and_parts_of_them():
    fast = program(pictures, M=30, N=40)
    for shape in ((30, 40), (3, 3), (17, 5)):
        x = normal(*shape)
        (a, b), c, d = fast(x)
        (p, q), r, s = pictures.reference(x)
        for got, wanted in ((a, p), (b, q), (c, r), (d, s)):
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-5)
    outs = (np.empty_like(a), np.empty_like(b)), np.empty_like(c), np.empty_like(d)
    assert fast(x, out=outs) is outs
    np.testing.assert_array_equal(outs[0][0], a)


def test_wrong_arguments_are_refused_as_by_the_kernel():
    fast = program(layers, T=256)
    with pytest.raises(tw.ArgumentError) as e:
        fast(normal(20, 31), normal(256), normal(256, 512), normal(512, 256))
    assert e.value.code.startswith("argument.")


def test_threads_that_are_no_number_are_refused_after_calls_that_were_learned():
    fast = program(both, M=200)
    args = normal(4, 5), normal(5, 5)
    for _ in range(3):
        fast(*args), fast(*args, threads=1)
    for threads in (True, 1.0, 0, "1", [1], {}):
        with pytest.raises(tw.ArgumentError) as e:
            fast(*args, threads=threads)
        assert e.value.code == "argument.threads"


def test_a_result_may_be_written_over_an_input():
    fast = program(layers, T=256)
    x, g, up, down = normal(31, 256), normal(256), normal(256, 512) / 16, normal(512, 256) / 23
    wanted = fast(x, g, up, down)
    assert fast(x, g, up, down, out=x) is x
    np.testing.assert_array_equal(x, wanted)


@tw.kernel
def both(x: tw.f32[M, 5], w: tw.f32[5, 5]):
    """The second result needs the first, and the input again."""
    first = ops.linear(x, w)
    return first, ops.exp(ops.linear(first, w)) - x


def test_parts_that_run_later_read_the_input_and_not_the_result():
    fast = program(both, M=2000)
    x, w = normal(40, 5), normal(5, 5)
    first, second = both.reference(x, w)
    got = np.empty_like(x)
    fast(x, w, out=(x, got))
    np.testing.assert_allclose(x, first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got, second, rtol=1e-4, atol=1e-5)


def test_buffers_of_many_sizes_are_not_kept():
    fast, w = program(layers, T=256), (normal(256), normal(256, 512) / 16, normal(512, 256) / 23)
    for n in range(1, 20):
        assert fast(normal(n, 256), *w).shape == (n, 256)
    assert len(fast._spaces) == 8


def test_calls_from_several_threads_wait_for_each_other():
    fast = program(layers, T=256)
    weights = normal(256), normal(256, 512) / 16, normal(512, 256) / 23
    inputs = [normal(40, 256) for _ in range(6)]
    wanted = [fast(x, *weights) for x in inputs]
    with ThreadPoolExecutor(3) as pool:
        for got, right in zip(pool.map(lambda x: fast(x, *weights), inputs), wanted, strict=True):
            np.testing.assert_array_equal(got, right)


def test_results_that_share_memory_are_refused():
    fast = program(both, M=200)
    x = normal(4, 5)
    one = np.empty_like(x)
    with pytest.raises(tw.ArgumentError) as e:
        fast(x, normal(5, 5), out=(one, one))
    assert e.value.code == "argument.alias"


@tw.kernel
def bordered(x: tw.f32[M, N]):
    """What has a border is read at its last column, which need not exist."""
    i, j = tw.vars("i j")
    turned, near = tw.func("turned"), tw.func("near")
    turned[i, j] = x[M - 1 - i, j] * 2.0
    edge = tw.repeat_edge(turned, (0, M), (0, N))
    near[i, j] = edge[i, j] + edge[i, j + 1]
    return turned[:M, :N], near[:M, :N]


def test_steps_of_which_nobody_reads_the_result_need_not_run():
    fast = program(bordered, M=40, N=7)
    assert len(fast.plan.steps) > 1
    for shape in ((5, 4), (5, 0), (0, 4), (5, 4)):
        x = normal(*shape)
        for got, wanted in zip(fast(x), bordered.reference(x), strict=True):
            np.testing.assert_array_equal(got, wanted)

"""The default schedule where a part of a Func for one index would be too narrow, where operands lie across the vectors,
and where data are added up as they lie in memory. All values are small integers: every order gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.schedule.default import complete
from tilewright.schedule.registers import Registers

M, N, K = tw.sizes("M N K")
WIDE = Registers(64, 32)


def lines(kernel: tw.kernels.Kernel) -> list[str]:
    return [x.strip() for x in str(complete(kernel.schedule(), registers=WIDE)).splitlines()]


def whole(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)


@tw.kernel
def rectified(A: tw.f32[M, K], B: tw.f32[K, N]):
    """Rows of a product share what is loaded of B: a row alone would not."""
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C, out = tw.func("C"), tw.func("out")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    out[i, j] = tw.maximum(C[i, j], 0.0) + C[i, j]
    return out[:M, :N]


@tw.kernel
def rows_by_rows(A: tw.f32[M, K], B: tw.f32[N, K]):
    """Both operands lie along the reduction."""
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[j, k]
    return C[:M, :N]


@tw.kernel
def column_sums(A: tw.f32[K, N]):
    j = tw.vars("j")
    k = tw.rdom(k=K)
    out = tw.func("out")
    out[j] = tw.sum(A[k, j], over=k)
    return out[:N]


@tw.kernel
def planes_added(A: tw.f32[M, K, N], w: tw.f32[K]):
    """A weighted sum along the middle axis, which is read once, and keeps its order."""
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    out = tw.func("out")
    out[i, j] = 1.0
    out[i, j] += A[i, k, j] * w[k]
    return out[:M, :N]


@tw.kernel
def turned_chain(A: tw.f32[M, N]):
    """Stages with the consumer's first axis as their last one, which is the vectors' one."""
    i, p, q = tw.vars("i p q")
    signal, stage, out = (tw.func(n) for n in ("signal", "stage", "out"))
    signal[q, i] = A[i, q]
    x, y = signal[q, i], signal[(q + 1) % N, i]
    stage[q, i] = (x * y + x - y, x * 3 + y * y - 1)
    out[i, p] = stage[p, i][0] + stage[(p * 5 + 2) % N, i][1]
    return out[:M, :N]


@tw.kernel
def running(A: tw.f32[K, N]):
    """Running sums down the columns, and up again: neighbours in a row do not need each other."""
    t, j = tw.vars("t j")
    down, up = tw.rdom(down=(1, K)), tw.rdom(up=(1, K))
    first, second, out = (tw.func(n) for n in ("first", "second", "out"))
    first[t, j] = A[t, j]
    first[down, j] += first[down - 1, j]
    second[t, j] = first[t, j]
    second[K - 1 - up, j] += second[K - up, j]
    out[t, j] = second[t, j] * 2
    return out[:K, :N]


@tw.kernel
def scaled(A: tw.f32[M, K], B: tw.f32[N, K]):
    """What a product reads again and again is computed once; what it reads across is turned on the way."""
    i, j, x = tw.vars("i j x")
    k = tw.rdom(k=K)
    double, C = tw.func("double"), tw.func("C")
    double[j, x] = B[j, x] * 2.0
    C[i, j] = 0.0
    C[i, j] += A[i, k] * double[j, k]
    return C[:M, :N]


SHAPES = [(1, 1, 1), (3, 5, 2), (14, 32, 16), (57, 70, 19), (130, 33, 41)]


@pytest.mark.parametrize("m, n, k", [*SHAPES, (0, 3, 2), (3, 0, 2), (3, 4, 0)], ids=str)
def test_products(m, n, k):
    a, b = whole(m, k), whole(k, n)
    c = a @ b
    np.testing.assert_array_equal(rectified(a, b), np.maximum(c, 0) + c)
    across = np.ascontiguousarray(b.T)
    np.testing.assert_array_equal(rows_by_rows(a, across), c)
    np.testing.assert_array_equal(rows_by_rows(a, b.T), c)
    np.testing.assert_array_equal(scaled(a, across), 2 * c)


@pytest.mark.parametrize("m, n, k", [*SHAPES, (2, 1100, 7), (2, 3, 4099), (0, 3, 2), (3, 0, 2), (3, 4, 0)], ids=str)
def test_sums(m, n, k):
    a = whole(m, k, n)
    w = np.arange(k, dtype=np.float32) % 3
    np.testing.assert_array_equal(planes_added(a, w), 1 + np.einsum("ikj,k->ij", a, w))
    if m:
        np.testing.assert_array_equal(column_sums(a[0]), a[0].sum(0, dtype=np.float64))


@pytest.mark.parametrize("m, n", [(1, 1), (16, 16), (17, 5), (40, 33)], ids=str)
def test_chains(m, n):
    a = whole(m, n)
    np.testing.assert_array_equal(turned_chain(a), turned_chain.reference(a))
    small = whole(m, n) % 2
    np.testing.assert_array_equal(running(small), running.reference(small))


def test_strips_keep_rows_together():
    text = lines(rectified)
    assert "split i -> i_s, i by 56" in text and "compute_at C at out.i_s" in text
    assert "parallel i_s" in text


def test_no_strips_in_loops_that_a_directive_made():
    s = rectified.schedule()
    s["out"].reorder("j", "i")
    assert "out.i_s" not in str(complete(s, registers=WIDE))
    assert "split i -> i_s" not in str(complete(s, registers=WIDE))


def test_strips_keep_vectors():
    text = lines(turned_chain)
    assert "compute_at stage at out.i_s" in text and "compute_at signal at out.i_s" in text
    assert text.count("vectorize i by 16") == 1  # of the stage; the signal is turned in tiles


def test_what_lies_across_is_packed():
    assert "cache_read B at C.update.j_o layout a0 a1 -> a1 a0" in lines(rows_by_rows)
    assert "compute_root double" in lines(scaled)


def test_rows_are_added_in_blocks_where_that_is_a_plain_sum():
    assert any(x.startswith("rfactor k_b") for x in lines(column_sums))
    assert not any(x.startswith("rfactor") for x in lines(planes_added))


def test_sweeps_run_in_vectors():
    text = lines(running)
    assert text.count("vectorize j by 16") == 5, text


def test_a_long_column_sum_is_as_accurate_as_pairwise_summation():
    """Added up one by one, they would be off by a hundredth."""
    a = np.full((1 << 18, 3), 0.1, np.float32)
    exact = a[:, 0].astype(np.float64).sum()
    assert abs(np.cumsum(a[:, 0])[-1] - exact) > 1e-3 * exact
    assert abs(column_sums(a) - exact).max() < 2e-6 * exact

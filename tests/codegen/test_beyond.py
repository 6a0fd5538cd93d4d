"""Register tiles at the ends of a region: computed whole, on what lies inside the arrays, and stored in part."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz.guarded import Block
from tilewright.codegen.loops import SERIAL, UNROLL, For, If, walk

M, N, K = tw.sizes("M N K")
ROWS, VECTOR = 3, 4


@tw.kernel
def product(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j, k = *tw.vars("i j"), tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def triangular(A: tw.f32[M, M], B: tw.f32[M, N]):
    i, j, k = *tw.vars("i j"), tw.rdom(k=M)
    C = tw.func("C")
    C[i, j] = 0.0
    k = k.where(k <= i)
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def looked_up(A: tw.f32[M, K], at: tw.i32[M], B: tw.f32[K, N]):
    i, j, k = *tw.vars("i j"), tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[tw.clamp(at[i], 0, M - 1), k] * B[k, j]
    return C[:M, :N]


def tiled(kernel, parallel=False, vectors=2):
    s = kernel.schedule()
    C = s["C.update"].split("k", "ko", "ki", 2).split("j", "jo", "jt", vectors * VECTOR).split("jt", "jv", "jl", VECTOR)
    C.split("i", "io", "ii", ROWS).reorder("jo", "io", "ko", "ki", "ii", "jv", "jl")
    C.unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    if parallel:
        C.parallel("jo")
    s.cache_write("C", at="C.update.io", memory="reg")
    return s


def at_edges(*arrays):
    """Copies that end, and then that begin, at memory which nobody may touch."""
    for at_end in (True, False):
        blocks = [Block(x.nbytes, at_end, x.itemsize) for x in arrays]
        made = [b.array(x.dtype, x.shape) for b, x in zip(blocks, arrays, strict=True)]
        for m, x in zip(made, arrays, strict=True):
            m[...] = x
        yield made
        assert all(b.intact() for b in blocks)
        for b in blocks:
            b.give_back()


def whole(*shape):
    """Numbers whose products have exact sums."""
    return np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
def test_every_end_of_a_tile(parallel, vectors):
    fast = product.compile(tiled(product, parallel, vectors))
    widths = (0, 1, 3, 4, 5, 8, 9, 12, 13, 16, 17, 23, 24, 25)
    for m, n, k in itertools.product((0, 1, 3, 4), widths, (0, 1, 3)):
        a, b = whole(m, k), whole(k, n)
        for x, y, out in at_edges(a, b, np.empty((m, n), np.float32)):
            fast(x, y, out=out)
            np.testing.assert_array_equal(out, a @ b)


def test_columns_that_stand_apart():
    fast = product.compile(tiled(product))
    for m, n, k in itertools.product((1, 4), (1, 5, 9), (1, 3)):
        a, b = whole(k, m).T, whole(n, k).T
        np.testing.assert_array_equal(fast(a, b), a @ b)


def test_a_sum_that_ends_with_the_row():
    fast = triangular.compile(tiled(triangular))
    for m, n in itertools.product(range(9), (1, 4, 7, 8, 13)):
        a, b = whole(m, m), whole(m, n)
        for x, y in at_edges(a, b):
            np.testing.assert_array_equal(fast(x, y), np.tril(a) @ b)


def test_rows_that_data_choose_keep_their_guard():
    fast = looked_up.compile(tiled(looked_up))
    for m in range(1, 8):
        at = np.int32(np.random.default_rng(m).integers(0, m, m))
        a, b = whole(m, 3), whole(3, 5)
        for x, y, z in at_edges(a, at, b):
            np.testing.assert_array_equal(fast(x, y, z), a[at] @ b)


def test_no_branch_in_the_loop_over_k():
    """But the one that ends it; the tile stays in registers, its loops unrolled."""
    program = product.compile(tiled(product, parallel=True))._built.lowered.results["edges"]
    loops = [t for t in walk(program.body) if isinstance(t, For) and str(t.var.attr).endswith("update.ko")]
    assert len(loops) > 2
    for loop in loops:
        conditions = [str(t.condition) for t in walk(loop) if isinstance(t, If)]
        assert not any("M" in c or "N" in c for c in conditions)
        inner = [
            t.mode for t in walk(loop) if isinstance(t, For) and str(t.var.attr).endswith(("update.ii", "update.jv"))
        ]
        assert set(inner) == {UNROLL} and loop.mode == SERIAL

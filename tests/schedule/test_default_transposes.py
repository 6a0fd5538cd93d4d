"""The default schedule of definitions that read along one axis and write along another: tiles."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.schedule.default import complete
from tilewright.schedule.registers import Registers

M, N, B = tw.sizes("M N B")
WIDE = Registers(64, 32)


@tw.kernel
def transposed(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    T = tw.func("T")
    T[i, j] = A[j, i]
    return T[:N, :M]


@tw.kernel
def planes(A: tw.u8[M, N, B]):
    """Channels first; the reading Func is inlined, another operand lies along the vectors."""
    b, i, j = tw.vars("b i j")
    shown, P = tw.func("shown"), tw.func("P")
    shown[b, i, j] = A[i, j, b]
    P[b, i, j] = shown[b, i, j] ^ A[b, i, j]
    return P[:16, :16, :16]


@tw.kernel
def rgb(A: tw.u8[M, N, 3]):
    b, i, j = tw.vars("b i j")
    P = tw.func("P")
    P[b, i, j] = A[i, j, b]
    return P[:3, :M, :N]


@tw.kernel
def costly(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    T = tw.func("T")
    T[i, j] = tw.exp(A[j, i])
    return T[:N, :M]


def text(kernel, registers=WIDE) -> str:
    return str(complete(kernel.schedule(), registers=registers))


def test_a_transpose_is_tiled():
    lines = text(transposed).splitlines()
    assert [x.strip() for x in lines[2:]] == [
        "tile i, j -> i_o, j_o, i_t, j_t by 16 16",
        "reorder i_o j_o i_t j_t",
        "parallel i_o",
        "unroll i_t",
        "vectorize j_t",
    ]
    assert "by 8 8" in text(transposed, Registers(32, 16))


def test_the_crossing_axis_is_found_behind_an_inlined_func():
    assert "tile b, j -> b_o, j_o, b_t, j_t by 16 16" in text(planes)


@pytest.mark.parametrize("kernel", [rgb, costly], ids=["rgb", "costly"])
def test_no_tile_where_it_does_not_pay(kernel):
    """Too few columns for a tile; arithmetic that costs more than the gather."""
    assert "tile" not in text(kernel)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (16, 16), (17, 31), (50, 64)], ids=str)
def test_values(shape):
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(transposed(a), a.T)
    np.testing.assert_array_equal(transposed(a[::-1, ::-1]), a[::-1, ::-1].T)


def test_values_of_planes():
    a = np.random.default_rng(0).integers(0, 255, (16, 16, 16), np.uint8)
    np.testing.assert_array_equal(planes(a), planes.reference(a))

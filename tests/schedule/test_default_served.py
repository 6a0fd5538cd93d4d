"""The default schedule of a pure definition: points that many of its vectors serve are computed together."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.schedule.default import complete

H, W, C = tw.sizes("H W C")


def weighted(taps: int):
    @tw.kernel
    def smooth(a: tw.f32[H, W, C], w: tw.f32[taps, C]):
        y, x, c = tw.vars("y x c")
        near = tw.constant_exterior(a, 0.0, None, (0, W), None)
        out = tw.func("out")
        total = near[y, x, c] * w[0, c]
        for k in range(1, taps):
            total = total + near[y, x + k, c] * w[k, c]
        out[y, x, c] = total
        return out[:H, :W, :C]

    return smooth


def loops(kernel) -> list[str]:
    return [f"{x.name} {x.mode}" for x in complete(kernel.schedule()).state.stages[("out", -1)].loops]


def test_points_that_many_vectors_serve_are_unrolled():
    assert loops(weighted(4)) == ["y parallel", "x_o serial", "c serial", "x_t unroll", "c_v vectorize"]


def test_few_are_not_worth_it():
    assert loops(weighted(3)) == ["y parallel", "x parallel", "c serial", "c_v vectorize"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 9, 33), (3, 4, 16), (2, 3, 5), (0, 4, 4), (2, 0, 3)])
@pytest.mark.parametrize("taps", [3, 4])
def test_values(taps, shape):
    kernel, rng = weighted(taps), np.random.default_rng(0)
    args = rng.standard_normal(shape, dtype=np.float32), rng.standard_normal((taps, shape[-1]), dtype=np.float32)
    np.testing.assert_array_equal(kernel.compile(mode="strict")(*args), kernel.reference(*args))

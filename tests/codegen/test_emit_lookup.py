"""Loads from a short range: every entry, both ends of the buffer, masks, and ranges that are too long."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.emit import lookup

M, N = tw.sizes("M N")
TYPES = {"f32": tw.f32, "f64": tw.f64, "i32": tw.i32, "i64": tw.i64}
PERMUTED = bool(lookup._permutations())


def taken(name: str, last: int, step: int):
    """Elements of a row of 0..last at places that the data say, forwards or backwards, as far as they are inside."""
    p = tw.Pipeline("taken", x=TYPES[name][M, last + 1], which=tw.i64[M, N])
    i, j, z = tw.vars("i j z")
    row, out = tw.func("row"), tw.func("out")
    row[i, z] = p.x[i, z] + p.x[i, z]
    k = tw.clamp(p.which[i, j], 0, last)
    out[i, j] = row[i, k if step > 0 else last - k]
    return p.returns(out[:M, :N])


def compiled(kernel, lanes: int):
    s = kernel.schedule()
    s["row"].compute_root()
    s["out"].vectorize("j", lanes)
    return kernel.compile(s)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("lanes", "last", "step"), [(8, 0, 1), (8, 6, -1), (8, 7, 1), (4, 5, 1), (16, 15, -1), (16, 8, 1), (8, 16, 1)]
)
def test_each_lane_takes_its_own(name: str, lanes: int, last: int, step: int) -> None:
    rng = np.random.default_rng(last)
    x = rng.integers(-100, 100, (3, last + 1)).astype(name.replace("f", "float").replace("i", "int"))
    which = rng.integers(-3, last + 4, (3, 2 * lanes + 3))  # every row has a partial vector
    which[:, :2] = 0, last
    places = np.clip(which, 0, last)
    right = np.take_along_axis(2 * x, places if step > 0 else last - places, 1)
    np.testing.assert_array_equal(compiled(taken(name, last, step), lanes)(x, which), right)


@pytest.mark.skipif(not PERMUTED, reason="no such instruction here")
@pytest.mark.parametrize(("last", "found"), [(7, True), (16, False)])
def test_a_table_is_permuted(last: int, found: bool) -> None:
    assert ("vperm" in compiled(taken("f32", last, 1), 8).asm) == found

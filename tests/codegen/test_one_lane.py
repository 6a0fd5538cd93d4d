"""Masked stores of narrow integers with a constant mask touch their own lanes only, one lane included."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.codegen.emit_support import argument, load, loop, program, put, run, same
from tilewright import testing
from tilewright.codegen.loops import VECTORIZE, If, Stmt
from tilewright.lang import ir, types
from tilewright.lang.ir import integer
from tilewright.lang.simplify import add, compare

LANE = ir.var("lane")
NARROW = [
    (types.i32, types.i16), (types.i32, types.u8), (types.i64, types.i32), (types.i16, types.i8), (types.i64, types.i8),
]  # fmt: skip


@pytest.mark.parametrize(("wide", "narrow"), NARROW)
@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_constant_masks(wide, narrow, n) -> None:
    """The first lanes, or a single one anywhere."""
    a, b = argument("a", wide, 0), argument("b", narrow, 1)
    x = np.arange(1, n + 1).astype(wide.np)
    for first, count in ((0, 1), (1, 1), (n - 1, 1), (0, 2), (1, 2), (0, n - 1)):
        body: Stmt = put(b, LANE, ir.node("cast", narrow, (load(a, LANE),)))
        body = If(compare("ge", LANE, integer(first)), If(compare("lt", LANE, integer(first + count)), body))
        y = np.full(n + 8, 77).astype(narrow.np)
        assert run(program([a, b], loop(LANE, n, body, VECTORIZE)), [x, y]) == 0
        expected = np.full(n + 8, 77).astype(narrow.np)
        expected[first : first + count] = x[first : first + count].astype(narrow.np)
        assert same(y, expected)


@pytest.mark.parametrize("storage", [types.bf16, types.f16])
def test_storage_types(storage) -> None:
    """bf16 is narrowed by integer operations, too."""
    a, b = argument("a", types.f32, 0), argument("b", storage, 1)
    value = ir.node("round_to", types.f32, (load(a, LANE),), storage)
    for first in (0, 3):
        body = If(compare("eq", LANE, integer(first)), put(b, add(LANE, integer(2)), value))
        y = np.full(20, 5).astype(storage.np)
        assert run(program([a, b], loop(LANE, 16, body, VECTORIZE)), [np.full(16, 2, np.float32), y]) == 0
        expected = np.full(20, 5).astype(storage.np)
        expected[2 + first] = 2
        assert same(y, expected)


def test_a_tail_of_one() -> None:
    """17 columns in vectors of 16: each row's last element stands alone, and the next row was written before."""

    @tw.kernel
    def narrowed(A: tw.i32[5, 17]):
        i, j = tw.vars("i j")
        out = tw.func("out")
        out[i, j] = tw.cast(tw.u8, A[i, j])
        return out[:5, :17]

    s = narrowed.schedule()
    s["out"].split("j", "jo", "ji", 16).reorder("jo", "i", "ji").unroll("jo").vectorize("ji")
    a = np.arange(85, dtype=np.int32).reshape(5, 17)
    out = np.full((6, 17), 200, np.uint8)
    narrowed.compile(s)(a, out=out[:5])
    testing.assert_bitwise(out[:5], narrowed.reference(a))
    assert (out[5] == 200).all()

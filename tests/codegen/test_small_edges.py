"""Small edges: the values of the unrolled ones, with registers where they were."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.codegen.emit_support import argument, load, loop, program, put, run
from tilewright.codegen.edges import compact, rolled, weight
from tilewright.codegen.emit import emit
from tilewright.codegen.interface import CONTIGUOUS
from tilewright.codegen.loops import SERIAL, UNROLL, VECTORIZE, Allocate, Buffer, For, If, block, walk
from tilewright.codegen.lower import Request, lower
from tilewright.lang import ir
from tilewright.lang.ir import integer
from tilewright.lang.simplify import add, compare, mul, sub
from tilewright.lang.types import bf16, bool_, f32, u8

I, J, V, N = ir.var("i"), ir.var("j"), ir.var("v"), ir.size("N")
ROWS = 9


def modes(s) -> list[str]:
    return [t.mode for t in walk(s) if isinstance(t, For)]


def masked(b: Buffer, a: Buffer, mode: str = UNROLL):
    """Nine rows of four lanes, of which N elements are there."""
    at = add(mul(I, integer(4)), V)
    inside = compare("ge", sub(sub(N, at), integer(1)), integer(0))
    return loop(I, ROWS, loop(V, 4, If(inside, put(b, at, load(a, at))), VECTORIZE), mode)


def test_unrolled_loops_of_an_edge_become_serial():
    a, b = argument("a", f32, 0), argument("b", f32, 1)
    assert weight(masked(b, a)) == ROWS
    assert modes(rolled(masked(b, a))) == [SERIAL, VECTORIZE]


def test_small_ones_stay():
    a, b = argument("a", f32, 0), argument("b", f32, 1)
    s = loop(I, 8, put(b, I, load(a, I)), UNROLL)
    assert rolled(s) is s


@pytest.mark.parametrize("memory, size", [("reg", 4096), ("main", 36)])
def test_what_registers_need_stays_unrolled(memory, size):
    a, t = argument("a", f32, 0), Buffer("t", f32, integer(size), memory)
    assert modes(rolled(masked(t, a))) == modes(rolled(masked(a, t))) == [UNROLL, VECTORIZE]
    one = loop(J, ROWS, put(t, integer(0), load(a, J)), UNROLL)
    assert modes(rolled(one)) == [SERIAL]


@pytest.mark.parametrize("dtype", [f32, bf16, bool_, u8], ids=str)
@pytest.mark.parametrize("n", [0, 1, 17, 35, 36, 40])
def test_a_tile_is_filled_and_stored_by_way_of_memory(dtype, n):
    a, b, t = argument("a", dtype, 0), argument("b", dtype, 1), Buffer("t", dtype, integer(36), "reg")
    whole = compare("ge", sub(N, integer(36)), integer(0))
    at = add(mul(I, integer(4)), V)

    def plain(to, of):
        return loop(I, ROWS, loop(V, 4, put(to, at, load(of, at)), VECTORIZE), UNROLL)

    fill = If(whole, plain(t, a), masked(t, a), versions=True)
    store = If(whole, plain(b, t), masked(b, t), versions=True)
    body = Allocate(t, block(fill, store))
    small = compact(body)
    assert {s.buffer.name for s in walk(small) if isinstance(s, Allocate)} == {"t", "t.edge"}
    p = program([a, b], small, sizes=("N",))
    x = np.random.default_rng(0).integers(0, 2, 36).astype(dtype.np)
    y = np.zeros(40, dtype.np)
    assert run(p, [x, y], sizes=(n,)) == 0
    m = min(n, 36)
    assert np.array_equal(y[:m], x[:m]) and not y[m:].any()
    assert len(emit(p)) < len(emit(program([a, b], body, sizes=("N",))))


M, N_, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N_]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N_]


def test_simulated_programs_know_no_such_copies():
    """What the simulator accounts for is the schedule's program."""
    s = matmul.schedule()
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 9, 8).reorder("io", "jo", "k", "ii", "ji")
    s["C.update"].unroll("ii").vectorize("ji")
    s.cache_read("A", at="C.update.io", layout="i k -> i//9 k i%9")
    s.cache_read("B", at="C.update.jo", layout="k j -> j//8 k j%8")
    s.cache_write("C", at="C.update.jo", memory="reg")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((19, 5), np.float32), rng.standard_normal((5, 21), np.float32)
    np.testing.assert_allclose(matmul.compile(s)(a, b), a @ b, rtol=1e-5, atol=1e-5)
    for native in (True, False):
        request = Request(s.state, "contract", "tw_test", (CONTIGUOUS,) * 3, native=native)
        names = {t.buffer.name for t in walk(lower(request).program.body) if isinstance(t, Allocate)}
        assert ("C_tile.edge" in names) == native


def test_the_slow_version_of_a_task_keeps_its_own_tile_in_registers():
    """Edges of a parallel loop are as those of a serial one: the tile's places stay constants, nothing is copied."""
    a, b, t = argument("a", f32, 0), argument("b", f32, 1), Buffer("t", f32, integer(36), "reg")
    whole = compare("ge", sub(N, integer(36)), integer(0))
    tile = Allocate(t, block(masked(t, a), masked(b, t)))
    made = compact(If(whole, tile, tile, True))
    assert isinstance(made, If) and made.otherwise is not None
    assert modes(made.otherwise) == [UNROLL, VECTORIZE, UNROLL, VECTORIZE]
    assert [s.buffer for s in walk(made.otherwise) if isinstance(s, Allocate)] == [t]

"""Instrumented kernels count what is loaded, stored and evaluated, masked lanes only where they are active."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.codegen.emit_support import argument, load, load_if, loop, program, put, run_counted
from tilewright.codegen.emit import Tally, decode_counters
from tilewright.codegen.loops import PARALLEL, UNROLL, VECTORIZE, Allocate, Buffer, If, Origin, Program, block
from tilewright.lang import ir
from tilewright.lang.ir import integer
from tilewright.lang.simplify import add, compare, mul
from tilewright.lang.types import f32, f64

I, K, L, U = (ir.var(n) for n in "iklu")
N = ir.size("N")


def f_add(a, b):
    return ir.node("add", a.dtype, (a, b))


def counted(p: Program, size: int, *lengths: int) -> Tally:
    arrays = [np.zeros(n, np.float32) for n in lengths]
    return decode_counters(p, run_counted(p, arrays, sizes=[size]).tolist())


def test_loads_and_stores_in_all_forms():
    n = 8
    a, b, c = argument("A", f32, 0), argument("B", f32, 1), argument("C", f32, 2)
    at = add(mul(I, integer(n)), L)
    body = block(
        loop(L, n, put(b, at, f_add(load(a, at), load(c, I))), VECTORIZE),  # n and one for the broadcast
        loop(U, 2, put(c, U, f_add(load(a, U), load(a, U))), UNROLL),  # one node, one load; again per value
        loop(U, 2, put(c, integer(0), load(a, add(I, integer(7)))), UNROLL),  # the second one has it in a register
    )
    got = counted(program([a, b, c], loop(I, N, body), sizes=["N"]), 5, 200, 200, 200)
    assert got.loads == {("", "A"): 5 * (8 + 2 + 1), ("", "C"): 5}
    assert got.stores == {("", "B"): 40, ("", "C"): 5 * 4}


def test_an_operand_of_several_rows_is_loaded_once():
    """Rows of a register tile share a vector of B; a row that writes what the next one reads makes it load again."""
    a, b, c = argument("A", f32, 0), argument("B", f32, 1), argument("C", f32, 2)
    at = add(mul(U, integer(8)), L)
    rows = loop(
        U, 3, loop(L, 8, put(c, at, f_add(load(a, add(K, U)), load(b, add(mul(K, integer(8)), L)))), VECTORIZE), UNROLL
    )
    got = counted(program([a, b, c], loop(K, N, rows), sizes=["N"]), 4, 99, 99, 99)
    assert got.loads == {("", "A"): 4 * 3, ("", "B"): 4 * 8}
    chain = loop(U, 3, put(c, integer(0), f_add(load(c, integer(0)), load(a, U))), UNROLL)
    got = counted(program([a, b, c], loop(K, N, chain), sizes=["N"]), 4, 99, 99, 99)
    assert got.loads == {("", "A"): 4 * 3, ("", "C"): 4 * 3}


def test_masks_count_active_lanes():
    n = 8
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    for form in (L, mul(L, integer(5)), mul(L, N)):
        tail = If(compare("lt", L, N), put(b, L, f_add(load(a, form), load(a, integer(0)))))
        p = program([a, b], loop(L, n, tail, VECTORIZE), sizes=["N"])
        for size in (0, 3, 8):
            got = counted(p, size, 99, 9)
            assert got.stores[("", "B")] == size
            same_element = {0: 0, 3: 1, 8: 1}[size]
            assert got.loads[("", "A")] == size + same_element
    guarded = load_if(a, compare("lt", L, N), add(L, integer(1)))
    uniform = load_if(a, compare("lt", integer(2), N), L)
    p = program([a, b], loop(L, n, put(b, L, f_add(guarded, uniform)), VECTORIZE), sizes=["N"])
    for size in (0, 3, 8):
        assert counted(p, size, 99, 9).loads[("", "A")] == size + (8 if size > 2 else 0)


def test_evaluations_are_points_and_spare_ones_are_told_apart():
    """By stage; lanes that are off are no points, and are not spare either."""
    b = argument("B", f32, 0)
    one = ir.const(1, f32)

    def of(stage: str, at: ir.Node, spare: ir.Node = ir.FALSE):
        return replace(put(b, at, one), origin=Origin(stage, (at,), spare))

    at = add(mul(I, integer(8)), L)
    vectors = loop(L, 8, If(compare("lt", at, integer(29)), of("f", at, compare("ge", at, integer(26)))), VECTORIZE)
    p = program([b], block(loop(I, 4, vectors), loop(I, N, of("g", I, compare("lt", I, integer(2))))), sizes=["N"])
    for size in (0, 1, 7):
        got = counted(p, size, 99)
        assert got.evaluations == {"f": 29, "g": size}
        assert got.spare == {"f": 3, "g": min(size, 2)}
        assert got.stores == {("f", "B"): 29, ("g", "B"): size}
    always = program([b], loop(L, 4, of("f", L, ir.TRUE), VECTORIZE), sizes=["N"])
    assert counted(always, 0, 9).spare == {"f": 4}


def test_a_point_a_lane_even_where_all_store_the_same():
    b = argument("B", f32, 0)
    s = replace(put(b, integer(3), ir.const(1, f32)), origin=Origin("f"))
    got = counted(program([b], loop(L, 4, s, VECTORIZE), sizes=["N"]), 0, 9)
    assert got.evaluations == {"f": 4} and got.stores == {("f", "B"): 1}


def test_buffers_and_peak_per_memory():
    a = argument("A", f32, 0)
    big, small = Buffer("big", f64, N), Buffer("small", f32, integer(10), "near")
    reg, growing = Buffer("reg", f32, integer(8), "near"), Buffer("growing", f32, add(I, integer(1)))
    one = ir.const(1, f32)
    use = block(
        Allocate(small, put(a, integer(0), one)),
        loop(K, 3, Allocate(reg, Allocate(small, put(a, integer(0), one)))),
        loop(I, 5, Allocate(growing, put(a, integer(0), one))),
    )
    got = counted(program([a], Allocate(big, use), sizes=["N"]), 100, 4)
    assert got.peak == {"main": 820, "near": 72}
    assert got.made == {"big": 1, "small": 4, "reg": 3, "growing": 5}
    assert got.largest == {"big": 800, "small": 40, "reg": 32, "growing": 20}


def test_what_has_gone_does_not_count_again():
    """Live bytes fall when a buffer ends: the peak of one after the other is that of the largest."""
    a, one = argument("A", f32, 0), ir.const(1, f32)
    bodies = [Allocate(Buffer(f"b{k}", f32, integer(k)), put(a, integer(0), one)) for k in (3, 7, 5)]
    assert counted(program([a], loop(K, N, block(*bodies)), sizes=["N"]), 9, 4).peak == {"main": 28}


def test_parallel_loops_run_serially_and_count_all():
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    p = program([a, b], loop(I, 6, loop(K, N, put(b, I, load(a, K))), PARALLEL), sizes=["N"])
    got = counted(p, 7, 9, 9)
    assert got.loads[("", "A")] == got.stores[("", "B")] == 42

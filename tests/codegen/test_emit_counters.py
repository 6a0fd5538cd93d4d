"""Instrumented kernels count every element once, masked lanes only where they are active."""

from __future__ import annotations

import numpy as np

from tests.codegen.emit_support import argument, load, load_if, loop, program, put, run_counted
from tilewright.codegen.emit import counter_layout, decode_counters, memory_layout
from tilewright.codegen.loops import PARALLEL, UNROLL, VECTORIZE, Allocate, Buffer, If, block
from tilewright.lang import ir
from tilewright.lang.ir import integer
from tilewright.lang.simplify import add, compare, mul
from tilewright.lang.types import f32, f64

I, K, L, U = (ir.var(n) for n in "iklu")
N = ir.size("N")


def f_add(a, b):
    return ir.node("add", a.dtype, (a, b))


def test_loads_and_stores_in_all_forms():
    n = 8
    a, b, c = argument("A", f32, 0), argument("B", f32, 1), argument("C", f32, 2)
    at = add(mul(I, integer(n)), L)
    body = block(
        loop(L, n, put(b, at, f_add(load(a, at), load(c, I))), VECTORIZE),  # n and one for the broadcast
        loop(U, 2, put(c, U, f_add(load(a, U), load(a, U))), UNROLL),  # one node, one load; again per value
        loop(U, 2, put(c, integer(0), load(a, I)), UNROLL),  # every statement loads for itself
    )
    p = program([a, b, c], loop(I, N, body), sizes=["N"])
    arrays = [np.zeros(200, np.float32) for _ in range(3)]
    counts = decode_counters(p, run_counted(p, arrays, sizes=[5]))
    assert counts.loads == {"A": 5 * (8 + 2 + 2), "B": 0, "C": 5}
    assert counts.stores == {"A": 0, "B": 40, "C": 5 * 4}


def test_masks_count_active_lanes():
    n = 8
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    for form in (L, mul(L, integer(5)), mul(L, N)):
        tail = If(compare("lt", L, N), put(b, L, f_add(load(a, form), load(a, integer(0)))))
        p = program([a, b], loop(L, n, tail, VECTORIZE), sizes=["N"])
        for size in (0, 3, 8):
            counts = decode_counters(
                p, run_counted(p, [np.zeros(99, np.float32), np.zeros(9, np.float32)], sizes=[size])
            )
            assert counts.stores["B"] == size
            same_element = {0: 0, 3: 1, 8: 1}[size]
            assert counts.loads["A"] == size + same_element
    guarded = load_if(a, compare("lt", L, N), add(L, integer(1)))
    uniform = load_if(a, compare("lt", integer(2), N), L)
    p = program([a, b], loop(L, n, put(b, L, f_add(guarded, uniform)), VECTORIZE), sizes=["N"])
    for size in (0, 3, 8):
        counts = decode_counters(p, run_counted(p, [np.zeros(99, np.float32), np.zeros(9, np.float32)], sizes=[size]))
        assert counts.loads["A"] == size + (8 if size > 2 else 0)


def test_live_bytes_and_peak_per_memory():
    a = argument("A", f32, 0)
    big, small = Buffer("big", f64, N), Buffer("small", f32, integer(10), "near")
    reg = Buffer("reg", f32, integer(8), "near")
    one = ir.const(1, f32)
    use = block(
        Allocate(small, put(a, integer(0), one)),
        loop(K, 3, Allocate(reg, Allocate(small, put(a, integer(0), one)))),
    )
    p = program([a], Allocate(big, use), sizes=["N"])
    assert counter_layout(p) == ["A", "big", "small", "reg"]
    assert memory_layout(p) == ["main", "near"]
    raw = run_counted(p, [np.zeros(4, np.float32)], sizes=[100])
    counts = decode_counters(p, raw)
    assert counts.peak == {"main": 800, "near": 72}
    assert raw[8] == raw[10] == 0  # nothing is live at the end


def test_parallel_loops_run_serially_and_count_all():
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    p = program([a, b], loop(I, 6, loop(K, N, put(b, I, load(a, K))), PARALLEL), sizes=["N"])
    counts = decode_counters(p, run_counted(p, [np.zeros(9, np.float32), np.zeros(9, np.float32)], sizes=[7]))
    assert counts.loads["A"] == counts.stores["B"] == 42

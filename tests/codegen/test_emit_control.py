"""Loops, branches, temporaries, requirements, scalars, parallel loops and the errors of emission."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.codegen.emit_support import Memory, argument, call, compiled, load, loop, program, put, run, same
from tilewright.codegen import runtime, target
from tilewright.codegen.emit import emit
from tilewright.codegen.loops import (
    PARALLEL,
    UNROLL,
    VECTORIZE,
    Allocate,
    Buffer,
    For,
    If,
    Prefetch,
    Store,
    block,
)
from tilewright.lang import ir, types
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import integer
from tilewright.lang.pipeline import ScalarParam
from tilewright.lang.simplify import add, compare, floordiv, mul, sub
from tilewright.lang.types import bool_, f32, f64, index

I, J, K, L, U = (ir.var(n) for n in "ijklu")
N = ir.size("N")


def f_add(a, b):
    return ir.node("add", a.dtype, (a, b))


def test_nested_loops_with_bounds_that_depend_on_outer_ones():
    """Row sums of a triangle; empty loops do nothing."""
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    body = loop(
        I, N, block(put(b, I, ir.const(0, f32)), loop(J, I, put(b, I, f_add(load(b, I), load(a, add(mul(I, N), J))))))
    )
    p = program([a, b], body, sizes=["N"])
    for n in (0, 1, 5):
        x, y = np.arange(n * n, dtype=np.float32).reshape(n, n), np.full(n, 9, np.float32)
        assert run(p, [x, y], sizes=[n]) == 0
        assert same(y, np.tril(x, -1).sum(1, dtype=np.float32))
    backwards = program([b], loop(I, 3, put(b, integer(0), ir.const(1, f32)), start=integer(5)), sizes=["N"])
    y = np.zeros(1, np.float32)
    assert run(backwards, [y], sizes=[0]) == 0
    assert y[0] == 0


def test_tuples_read_all_old_values_first():
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    swap = Store(((a, I), (b, I)), (load(b, I), load(a, I)))
    lanes = Store(((a, L), (b, L)), (load(b, L), load(a, L)))
    for body in (loop(I, 8, swap), loop(L, 8, lanes, VECTORIZE)):
        x, y = np.arange(8, dtype=np.float32), np.arange(8, 16).astype(np.float32)
        assert run(program([a, b], body), [x, y]) == 0
        assert same(x, np.arange(8, 16).astype(np.float32))
        assert same(y, np.arange(8).astype(np.float32))


def test_loads_do_not_survive_a_store():
    """x[i+1] = x[i] + x[0], and the same index read again after it was written."""
    a = argument("A", f32, 0)
    step = put(a, add(I, integer(1)), f_add(load(a, I), load(a, integer(0))))
    twice = put(a, integer(0), f_add(load(a, integer(0)), ir.const(1, f32)))
    x = np.ones(5, np.float32)
    assert run(program([a], loop(I, 4, block(step, twice, twice))), [x]) == 0
    want = np.ones(5, np.float32)
    for i in range(4):
        want[i + 1] = want[i] + want[0]
        want[0] += 2
    assert same(x, want)


@pytest.mark.parametrize("may_alias", (False, True))
def test_buffers_that_may_alias_are_read_again(may_alias):
    a, b, c = argument("A", f32, 0), argument("B", f32, 1), argument("C", f32, 2)
    body = block(
        put(b, integer(0), load(a, integer(1))), put(b, integer(1), f_add(load(a, integer(0)), load(a, integer(1))))
    )
    p = program([a, b, c], body)
    names = frozenset({frozenset({"A", "B"})}) if may_alias else frozenset()
    x = np.array([1, 2], np.float32)
    y = x if may_alias else np.zeros(2, np.float32)
    assert run(p, [x, y, np.zeros(1, np.float32)], aliases=names) == 0
    assert y.tolist() == ([2, 4] if may_alias else [2, 3])
    text = emit(p, aliases=names)
    assert text.count("noalias") == (0 if may_alias else 2)


def test_unrolled_loops_fold_conditions_and_bounds():
    a = argument("A", types.i64, 0)
    at = add(mul(I, integer(4)), U)
    value = ir.node("cast", types.i64, (mul(U, U),))
    inner = loop(J, U, put(a, at, ir.node("add", types.i64, (load(a, at), ir.const(100, types.i64)))))
    odd = If(compare("eq", sub(U, mul(floordiv(U, integer(2)), integer(2))), integer(1)), inner)
    body = loop(I, 3, For(U, integer(0), integer(4), UNROLL, block(put(a, at, value), odd)))
    x = np.zeros(12, np.int64)
    p = program([a], body)
    assert run(p, [x]) == 0
    assert x.tolist() == [0, 101, 4, 309] * 3
    assert "then" not in emit(p)


def test_unrolled_loops_may_start_anywhere():
    a = argument("A", types.i64, 0)
    start = add(mul(I, integer(3)), N)
    cast = ir.node("cast", types.i64, (U,))
    for mode in (UNROLL, "serial"):
        x = np.zeros(20, np.int64)
        p = program([a], loop(I, 2, For(U, start, add(start, integer(3)), mode, put(a, U, cast))), sizes=["N"])
        assert run(p, [x], sizes=[5]) == 0
        assert x.tolist() == [0] * 5 + list(range(5, 11)) + [0] * 9
    twice = block(*(For(U, integer(s), integer(s + 2), UNROLL, put(a, U, cast)) for s in (3, 7)))
    x = np.zeros(10, np.int64)
    assert run(program([a], twice), [x]) == 0
    assert x.tolist() == [0, 0, 0, 3, 4, 0, 0, 7, 8, 0]


@pytest.mark.parametrize("first", ("serial", UNROLL, VECTORIZE, PARALLEL))
@pytest.mark.parametrize("second", ("serial", UNROLL, VECTORIZE, PARALLEL))
def test_loops_of_one_name_in_different_modes(first, second):
    a = argument("A", types.i64, 0)
    cast = ir.node("cast", types.i64, (mul(I, integer(3)),))
    x = np.zeros(8, np.int64)
    p = program([a], block(loop(I, 4, put(a, I, cast), first), loop(I, 4, put(a, add(I, integer(4)), cast), second)))
    assert run(p, [x], memory=Memory(2)) == 0
    assert x.tolist() == [0, 3, 6, 9] * 2


def test_branches_and_masks_with_both_sides():
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    for mode, lanes in (("serial", 8), (VECTORIZE, 8)):
        c = compare("lt", L, integer(3))
        inner = If(
            ir.node("lt", bool_, (load(a, L), ir.const(0, f32))),
            put(b, L, ir.const(-1, f32)),
            put(b, L, ir.const(1, f32)),
        )
        p = program([a, b], loop(L, lanes, If(c, inner, put(b, L, load(a, L))), mode))
        x, y = np.array([-1, 1, -2, 3, 4, 5, 6, 7], np.float32), np.zeros(8, np.float32)
        assert run(p, [x, y]) == 0
        assert y.tolist() == [-1, 1, -1, 3, 4, 5, 6, 7]


def test_loops_and_conditions_inside_lanes():
    """A reduction inside the lanes, with a uniform bound, under a mask, into a register."""
    n = 8
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    t = Buffer("t", f32, integer(n), "reg")
    at = add(mul(K, integer(n)), L)
    lower = If(ir.node("le", bool_, (K, L)), put(t, L, f_add(load(t, L), load(a, at))))
    zero = loop(L, n, put(t, L, ir.const(0, f32)), VECTORIZE)
    body = Allocate(
        t, block(zero, loop(L, n, loop(K, N, lower), VECTORIZE), loop(L, n, put(b, L, load(t, L)), VECTORIZE))
    )
    p = program([a, b], body, sizes=["N"])
    x, y = np.random.default_rng(0).standard_normal((6, n)).astype(np.float32), np.zeros(n, np.float32)
    assert run(p, [x, y], sizes=[6]) == 0
    want = np.zeros(n, np.float32)
    for k in range(6):
        want[k:] += x[k, k:]
    assert same(y, want)


def test_scalars_strides_and_sizes_arrive():
    scalars = [
        ScalarParam(n, t)
        for n, t in (("x", f32), ("y", f64), ("k", types.u8), ("m", types.i32), ("q", bool_), ("h", types.bf16))
    ]
    a = argument("A", f64, 0)
    values = [np.float32(1.5), np.float64(-2.25), np.uint8(200), np.int32(-7), np.bool_(True), np.float32(3)]
    stores = []
    for i, s in enumerate(scalars):
        v = s.node if s.node.dtype is f64 else ir.node("cast", f64, (s.node,))
        stores.append(put(a, integer(i), v))
    for i, axis in enumerate((0, 1)):
        stores.append(put(a, integer(6 + i), ir.node("cast", f64, (ir.node("stride", index, (), (1, axis)),))))
    stores.append(put(a, integer(8), ir.node("cast", f64, (N,))))
    b = argument("B", f32, 1)
    p = program([a, b], block(*stores), sizes=["M", "N"], scalars=scalars, ranks=[1, 2])
    out = np.zeros(9)
    assert run(p, [out, np.zeros((4, 6), np.float32)[:, ::2]], sizes=[1, 42], scalars=values) == 0
    assert out.tolist() == [1.5, -2.25, 200, -7, 1, 3, 6, 2, 42]


def test_requirements_come_first_and_name_themselves():
    a = argument("A", f32, 0)
    requirements = [compare("gt", N, integer(3)), compare("lt", N, integer(10)), ScalarParam("q", bool_).node]
    p = program(
        [a],
        put(a, integer(0), ir.const(1, f32)),
        sizes=["N"],
        scalars=[ScalarParam("q", bool_)],
        requirements=requirements,
    )
    for n, q, code in ((5, True, 0), (3, True, 100), (10, True, 101), (5, False, 102), (2, False, 100)):
        x = np.zeros(1, np.float32)
        assert run(p, [x], sizes=[n], scalars=[np.bool_(q)]) == code
        assert x[0] == (code == 0)


def test_prefetches_of_any_index_are_harmless():
    a = argument("A", f32, 0)
    wild = [Prefetch(a, add(mul(I, integer(1 << 40)), L), w) for w in (False, True)]
    p = program([a], loop(I, 3, loop(L, 8, block(*wild), VECTORIZE)))
    assert run(p, [np.zeros(1, np.float32)]) == 0
    assert "prefetcht0" in target.assembly(emit(p)) or "prefetch" in target.assembly(emit(p))


# temporaries ----------------------------------------------------------------------------------------------------


def chain(t1: Buffer, t2: Buffer, n) -> tuple:
    """A -> t1 -> t2 -> B."""
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    one = ir.const(1, f32)
    inner = block(loop(I, n, put(t2, I, f_add(load(t1, I), one))), loop(I, n, put(b, I, f_add(load(t2, I), one))))
    return [a, b], Allocate(t1, block(loop(I, n, put(t1, I, f_add(load(a, I), one))), Allocate(t2, inner)))


def test_large_temporaries_come_from_the_allocator_and_go_back():
    sizes = {"sizes": [1000]}
    args, body = chain(Buffer("t1", f32, N), Buffer("t2", f32, mul(N, integer(2))), N)
    p = program(args, body, sizes=["N"])
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    memory = Memory()
    assert run(p, [x, y], memory=memory, **sizes) == 0
    assert same(y, x + 3)
    assert memory.requests == [4000, 8000]
    for fail_at in (0, 1):
        y = np.zeros(1000, np.float32)
        memory = Memory(fail_at=fail_at)
        assert run(p, [x, y], memory=memory, **sizes) == 1  # `call` checks that everything was given back
        assert len(memory.requests) == fail_at + 1
        assert not y.any()


@pytest.mark.parametrize(("n", "asked"), [(10_000, 2), (6_000, 1), (1_000, 0)])
def test_small_temporaries_stand_on_the_stack_up_to_a_limit(n, asked):
    """Large ones share half of its room."""
    args, body = chain(Buffer("t1", f32, integer(n)), Buffer("t2", f32, integer(n)), integer(n))
    memory = Memory()
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    assert run(program(args, body), [x, y], memory=memory) == 0
    assert same(y, x + 3)
    assert len(memory.requests) == asked


def test_a_long_chain_of_temporaries():
    """A graph of many stages nests as many allocations."""
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    chain_ = [Buffer(f"t{k}", f32, N) for k in range(300)]
    body = loop(I, N, put(b, I, load(chain_[-1], I)))
    for k in reversed(range(300)):
        value = f_add(load(chain_[k - 1] if k else a, I), ir.const(1, f32))
        body = Allocate(chain_[k], block(loop(I, N, put(chain_[k], I, value)), body))
    p = program([a, b], body, sizes=["N"])
    x, y, memory = np.arange(3, dtype=np.float32), np.zeros(3, np.float32), Memory()
    assert run(p, [x, y], sizes=[3], memory=memory) == 0
    assert same(y, x + 300)
    assert memory.requests == [12] * 300
    memory = Memory(fail_at=150)
    assert run(p, [x, y], sizes=[3], memory=memory) == 1
    assert memory.requests == [12] * 151


def register_tile(rows: int, vectors: int, n: int) -> str:
    """acc[r, v, :] += A[k, r] * B[k, v, :], all accumulators unrolled."""
    a, b, c = argument("A", f32, 0), argument("B", f32, 1), argument("C", f32, 2)
    t = Buffer("acc", f32, integer(rows * vectors * n), "reg")
    at = add(add(mul(I, integer(vectors * n)), mul(J, integer(n))), L)
    product = (
        load(a, add(mul(K, integer(rows)), I)),
        load(b, add(mul(K, integer(vectors * n)), add(mul(J, integer(n)), L))),
    )

    def tile(s):
        return loop(I, rows, loop(J, vectors, loop(L, n, s, VECTORIZE), UNROLL), UNROLL)

    update = tile(put(t, at, ir.node("fma", f32, (*product, load(t, at)))))
    body = Allocate(t, block(tile(put(t, at, ir.const(0, f32))), loop(K, N, update), tile(put(c, at, load(t, at)))))
    return emit(program([a, b, c], body, sizes=["N"]))


def test_a_register_tile_stays_in_registers():
    """Accumulators become phis: no memory but the two operands is touched in the inner loop, on AVX2 too."""
    text = register_tile(6, 2, 8)
    ll = target.optimised_ir(text)
    assert "alloca" not in ll
    assert len(re.findall(r"phi <8 x float>", ll)) >= 12
    avx2 = target.Target(target.host().triple, "haswell", "") if target.host().triple.startswith("x86_64") else None
    if avx2 is not None:
        asm = target.assembly(text, target=avx2)
        inner = max(re.split(r"\n(?=\.LBB)", asm), key=lambda part: part.count("vfmadd"))
        assert inner.count("vfmadd") == 12
        assert "%rsp" not in inner[: inner.rindex("vfmadd")]


# parallel loops -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", (1, 2, 5))
def test_parallel_loops_see_everything_around_them(threads):
    """Outer variables, unrolled ones, sizes, strides, scalars, temporaries of every kind, inner parallel loops."""
    a, b = argument("A", f32, 0), argument("B", f32, 1)
    heap, stack = Buffer("heap", f32, mul(N, N)), Buffer("stack", f32, integer(4))
    own = Buffer("own", f32, N)
    s = ScalarParam("s", f32)
    row = add(mul(I, N), J)
    x = ir.var("x")
    fill = put(
        own, x, f_add(load(a, add(mul(I, ir.node("stride", index, (), (0, 0))), x)), f_add(s.node, load(stack, U)))
    )
    back = For(J, integer(0), N, PARALLEL, put(heap, row, load(own, J)))
    nest = For(I, integer(1), N, PARALLEL, Allocate(own, block(loop(x, N, fill), back)))
    out = loop(K, mul(N, N), put(b, K, f_add(load(b, K), load(heap, K))))
    zero = loop(K, mul(N, N), put(heap, K, ir.const(0, f32)))
    body = loop(U, 2, block(put(stack, U, ir.const(10, f32)), zero, nest, out), UNROLL)
    p = program([a, b], Allocate(heap, Allocate(stack, body)), sizes=["N"], scalars=[s], ranks=[2, 1])
    n = 6
    rng = np.random.default_rng(0)
    base = rng.standard_normal((n, 2 * n)).astype(np.float32)
    y = np.zeros((n, n), np.float32)
    memory = Memory(threads)
    view = base[:, :n]
    assert run(p, [view, y], sizes=[n], scalars=[np.float32(0.5)], memory=memory) == 0
    once = view + np.float32(10.5)
    once[0] = 0
    assert same(y, np.zeros_like(once) + once + once)
    assert len(memory.tasks) == (0 if threads == 1 else 2 * (n - 1) * (n + 1))


@pytest.mark.parametrize("threads", (1, 3))
def test_failure_in_a_parallel_loop_comes_out_and_gives_everything_back(threads):
    b = argument("B", f32, 0)
    outer, inner = Buffer("outer", f32, N), Buffer("inner", f32, N)
    task = Allocate(inner, block(put(inner, integer(0), ir.const(1, f32)), put(b, I, load(inner, integer(0)))))
    p = program(
        [b],
        Allocate(
            outer, block(put(outer, integer(0), ir.const(1, f32)), For(I, integer(0), integer(4), PARALLEL, task))
        ),
        sizes=["N"],
    )
    memory = Memory(threads, fail_at=3)
    y = np.zeros(4, np.float32)
    assert run(p, [y], sizes=[100_000], memory=memory) == 1
    assert y.sum() == 2


def test_a_parallel_loop_in_the_pool_of_this_process():
    a, b = argument("A", f64, 0), argument("B", f64, 1)
    inner = loop(J, N, put(b, I, f_add(load(b, I), load(a, add(mul(I, N), J)))))
    text = emit(program([a, b], For(I, integer(0), N, PARALLEL, inner), sizes=["N"]))
    x, y, memory = np.random.default_rng(0).standard_normal((200, 200)), np.zeros(200), Memory()
    memory.context = runtime.context(2)
    for _ in range(3):
        y[:] = 0
        assert call(compiled(text), [x, y], sizes=[200], memory=memory) == 0
        assert same(y, np.add.accumulate(x, axis=1)[:, -1] + 0.0)


def test_empty_and_single_parallel_loops():
    b = argument("B", f32, 0)
    p = program([b], For(I, ir.size("S"), N, PARALLEL, put(b, I, ir.const(1, f32))), sizes=["N", "S"])
    for n, s in ((0, 0), (3, 5), (4, 3), (3, 1)):
        y, memory = np.zeros(8, np.float32), Memory(4)
        assert run(p, [y], sizes=[n, s], memory=memory) == 0
        assert y.tolist() == [float(s <= i < n) for i in range(8)]
        assert len(memory.tasks) == (n - s if n - s > 1 else 0)


# depth and errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", (0, 4))
def test_expressions_ten_thousand_deep(n):
    a = argument("A", f32, 0)
    at = L if n else integer(0)
    x = load(a, at)
    for _ in range(10_000):
        x = f_add(x, x)
    body = put(a, at, ir.node("mul", f32, (x, ir.const(0, f32))))
    p = program([a], loop(L, n, body, VECTORIZE) if n else body)
    assert len(emit(p)) > 10_000
    y = load(a, at)
    for _ in range(100):  # a diamond a level: 2^100 paths
        y = f_add(y, y)
    body = put(a, at, y)
    x = np.ones(4, np.float32)
    assert run(program([a], loop(L, n, body, VECTORIZE) if n else body), [x]) == 0
    assert x[0] == 2.0**100


def code_of(body, sizes=("N",)) -> str:
    a = argument("A", f32, 0)
    with pytest.raises(CompileError) as e:
        emit(program([a], body(a), sizes=sizes))
    return e.value.code


def test_what_can_not_be_done_is_said():
    one = ir.const(1, f32)
    assert code_of(lambda a: loop(L, 4, loop(K, 4, put(a, K, one), VECTORIZE), VECTORIZE)) == "vectorize.nested"
    assert code_of(lambda a: loop(L, N, put(a, L, one), VECTORIZE)) == "vectorize.extent"
    assert code_of(lambda a: loop(L, 4, loop(K, L, put(a, K, one)), VECTORIZE)) == "vectorize.bounds"
    assert code_of(lambda a: loop(U, N, put(a, U, one), UNROLL)) == "unroll.extent"
    reg = Buffer("r", f32, N, "reg")
    assert code_of(lambda a: Allocate(reg, put(reg, integer(0), one))) == "reg.size"
    assert code_of(lambda a: loop(L, 4, loop(K, N, put(a, K, one), PARALLEL), VECTORIZE)) == "vectorize.parallel"
    assert code_of(lambda a: loop(L, 4, Allocate(reg, put(a, L, one)), VECTORIZE)) == "vectorize.allocate"
    assert code_of(lambda a: put(a, ir.var("nowhere"), one)) == "emit.unbound"
    assert code_of(lambda a: put(a, ir.size("nowhere"), one)) == "emit.unbound"
    unknown = ir.node("call", f32, (one,), "exp")
    assert code_of(lambda a: put(a, integer(0), unknown)) == "emit.operation"

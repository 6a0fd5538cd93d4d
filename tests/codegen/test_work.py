"""The estimate of what an iteration of a parallel loop does."""

from __future__ import annotations

from tilewright.codegen import loops as L
from tilewright.codegen.work import annotate, cycles
from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer
from tilewright.lang.types import bool_, f32, index


def nest(stop: ir.Node) -> L.For:
    b = L.Buffer("b", index, integer(1), "main", 0, True)
    inner = L.For(ir.var("j"), integer(0), stop, L.SERIAL, L.Store(((b, integer(0)),), (integer(1),)))
    return L.For(ir.var("i"), integer(0), ir.size("N"), L.PARALLEL, inner)


def test_long_trip_counts_are_estimated_by_short_terms():
    """Of min(long, short) the short term is taken; what is long alone counts as unknown. The estimate stays short."""
    i, long = ir.var("i"), ir.size("S")
    for k in range(60):
        long = ir.node("max", index, (ir.node("min", index, (long, ir.size(f"A{k}"))), simplify.mul(i, integer(k + 2))))
    short = annotate(nest(simplify.minimum(long, integer(8))))
    alone = annotate(nest(long))
    plain = annotate(nest(integer(8)))
    assert isinstance(short, L.For) and isinstance(alone, L.For) and isinstance(plain, L.For)
    assert short.work is plain.work
    assert alone.work is annotate(nest(integer(16))).work  # type: ignore[union-attr]


def test_indices_and_registers_cost_nothing_and_one_branch_runs():
    """A store of a product of two elements of memory is four operations; into a register, with one in a register, two."""
    i, j = ir.var("i"), ir.var("j")
    a, b, tile = L.Buffer("a", f32, None), L.Buffer("b", f32, None), L.Buffer("t", f32, integer(4), "reg")
    place = simplify.add(simplify.mul(i, ir.size("N")), j)

    def load(x: L.Buffer, at: ir.Node) -> ir.Node:
        return ir.node("load", f32, (at,), (x, 0))

    plain = L.Store(((b, place),), (ir.node("mul", f32, (load(a, place), load(b, place))),))
    kept = L.Store(((tile, j),), (ir.node("mul", f32, (load(a, place), load(tile, j))),))
    once = L.Store(((tile, j),), (load(tile, j),))
    either = L.If(ir.node("lt", bool_, (j, i)), plain, kept)
    costs = [cycles(s) for s in (plain, kept, once, either)]
    assert costs == [4, 2, 1, 4]
    vector = L.For(j, integer(0), integer(16), L.VECTORIZE, plain)
    assert cycles(vector) == 2 * 4

"""Loops of at most one iteration lose their variable, and only those."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.codegen.emit_support import argument, loop, program, put
from tilewright import testing
from tilewright.codegen import loops as L
from tilewright.codegen.dump import dump
from tilewright.codegen.single import unwrap
from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer
from tilewright.lang.types import i64
from tilewright.lang.values import index_value

OUT = argument("out", i64, 0)
M, K = tw.sizes("M K")
I, J, N = ir.var("i"), ir.var("j"), ir.size("N")


def text(body: L.Stmt) -> str:
    return dump(program((OUT,), unwrap(body), sizes=("N",)))


def point(stop: ir.Node, body: L.Stmt, mode: str = L.SERIAL) -> L.For:
    return loop(J, stop, body, mode, start=I)


ROW = put(OUT, simplify.add(J, integer(3)), ir.node("cast", i64, (J,)))
NEXT = simplify.add(I, integer(1))


@pytest.mark.parametrize("mode", [L.SERIAL, L.UNROLL])
def test_a_loop_that_runs_once_gives_way_to_its_body(mode):
    out = text(loop(I, N, point(NEXT, ROW, mode)))
    assert "out[i + 3]" in out and "for j" not in out


def test_a_loop_that_may_not_run_stays_around_its_body():
    out = text(loop(I, N, point(simplify.minimum(NEXT, N), ROW)))
    assert "out[i + 3]" in out and "for j in i.." in out


def test_starts_of_outer_loops_reach_inner_ones():
    k = ir.var("k")
    inner = loop(k, simplify.add(J, integer(1)), put(OUT, k, integer(0)), start=J)
    assert "out[i]" in text(loop(I, N, point(NEXT, inner)))


@pytest.mark.parametrize(
    "body",
    [
        point(simplify.add(I, integer(2)), ROW),
        point(simplify.minimum(N, integer(8)), ROW),
        point(NEXT, ROW, L.PARALLEL),
        point(NEXT, L.Allocate(L.Buffer("t", i64, J), ROW)),
    ],
)
def test_other_loops_stay_as_they_are(body):
    assert "out[j + 3]" in text(loop(I, N, body))


def test_what_a_row_needs_is_computed_there_without_loops_over_one_row():
    @tw.kernel
    def centred(X: tw.f32[M, K]):
        i, j = tw.vars("i j")
        k = tw.rdom(k=K)
        Y = tw.func("Y")
        Y[i, j] = X[i, j] - tw.max(X[i, k], over=k, name="top")
        return Y[:M, :K]

    s = centred.schedule()
    s["top"].compute_at("Y.i")
    s["top.update"].vectorize("k", 16)
    fast = centred.compile(s)
    assert "for top.update.i" not in fast.source and "for top.update.i" in fast.dump("flatten")
    x = np.random.default_rng(0).standard_normal((5, 37), dtype=np.float32)
    testing.assert_bitwise(fast(x), centred.reference(x))


def test_conditions_that_constant_loops_keep_vanish():
    """With the variable of the loop around them gone, j < 8 holds for all of 0..8, and j < 7 does not."""
    for limit, kept in ((8, False), (7, True)):
        inside = simplify.compare("lt", simplify.add(simplify.mul(integer(8), I), J), integer(limit))
        body = L.For(J, integer(0), integer(8), L.UNROLL, L.If(inside, put(OUT, J, ir.node("cast", i64, (J,)))))
        out = text(L.For(I, integer(0), simplify.minimum(N, integer(1)), L.SERIAL, body))
        assert ("if " in out) == kept


def test_quotients_that_are_the_same_in_all_iterations_vanish():
    """Parts of a tile, and what is left of them: 16*i + 4*j + k for j and k below 4, of which nothing is left."""
    k, four = ir.var("k"), integer(4)
    at = simplify.add(simplify.add(simplify.mul(I, integer(16)), simplify.mul(J, four)), k)
    whole, rest = simplify.floordiv(at, integer(16)), simplify.mod(simplify.floordiv(at, four), four)
    part = simplify.mod(at, four)
    store = put(OUT, whole, ir.node("cast", i64, (simplify.add(rest, simplify.mul(part, integer(8))),)))
    out = text(loop(I, N, loop(J, four, loop(k, four, store, L.VECTORIZE))))
    assert "//" not in out and "%" not in out and "out[i]" in out and "j + k * 8" in out
    out = text(loop(I, N, loop(J, integer(5), loop(k, four, store))))
    assert "//" in out and "%" in out  # 16 is passed, but each k stays below 4
    assert "j + k" not in out


def test_a_condition_of_whole_groups_asks_for_the_group():
    """What all four iterations have in common stands around them."""
    groups = simplify.floordiv(simplify.add(N, integer(3)), integer(4))
    at = simplify.add(simplify.mul(I, integer(4)), J)
    inside = simplify.compare("lt", at, simplify.mul(groups, integer(4)))
    lines = text(loop(I, N, loop(J, 4, L.If(inside, put(OUT, at, ir.node("cast", i64, (J,)))), L.UNROLL))).splitlines()
    k = next(k for k, line in enumerate(lines) if "if " in line)
    assert "j" not in lines[k].split() and "for j" in lines[k + 1]


@pytest.mark.parametrize("last", [2, 5])
def test_a_condition_that_cuts_a_group_stays(last):
    at = simplify.add(simplify.mul(I, integer(4)), J)
    inside = simplify.compare("lt", at, simplify.add(simplify.mul(N, integer(4)), integer(last)))
    out = text(loop(I, N, loop(J, 4, L.If(inside, put(OUT, at, ir.node("cast", i64, (J,)))), L.UNROLL)))
    assert f"if i * 4 + j < N * 4 + {last}" in out


@pytest.mark.parametrize(
    ("divisor", "group", "shift"), [(48, 16, 0), (48, 16, 32), (32, 32, -64), (24, 8, 8), (6, 2, 1)]
)
def test_quotients_of_whole_groups_are_those_of_the_group(divisor, group, shift):
    """Lanes of a vector that fill whole groups go where the group does, beside each other."""
    lanes = max(1, group - shift % group)
    at = simplify.add(simplify.add(simplify.mul(I, integer(group)), J), integer(shift))
    d = integer(divisor)
    place = simplify.add(simplify.mul(simplify.floordiv(at, d), integer(1000)), simplify.mod(at, d))
    body = unwrap(loop(I, N, loop(J, integer(lanes), put(OUT, place, ir.node("cast", i64, (J,))), L.VECTORIZE)))
    (store,) = (s for s in L.walk(body) if isinstance(s, L.Store))
    ((_, found),) = store.targets
    coefs, _ = simplify.linear(found)
    assert coefs[J] == 1
    assert all(J not in ir.variables(t) for t in coefs if t is not J)
    for i in range(7):
        for j in range(lanes):
            env = {I: i, J: j}
            assert index_value(found, env) == index_value(place, env)

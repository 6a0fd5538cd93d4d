"""specialize: forms of a stage, what is known inside, what is computed in their loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.algorithms import (
    blur,
    chain,
    edge_blur,
    float_matmul,
    histogram,
    matmul,
    prefix_sum,
    triangle,
    two_outputs,
)
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.codegen.compile import compile_schedule
from tilewright.lang import ir
from tilewright.lang.symbols import sizes
from tilewright.schedule.conditions import format_condition, parse_condition
from tilewright.schedule.nest import Guard, walk
from tilewright.schedule.schedule import Schedule

SIZES = [{"M": m, "N": n, "K": k} for m, n, k in [(8, 8, 3), (7, 8, 2), (13, 16, 1), (4, 4, 0), (0, 0, 2), (5, 3, 4)]]


def tiled() -> Schedule:
    s = Schedule(matmul())
    s["C.update"].split("i", "io", "ii", 4).split("j", "jo", "ji", 4).reorder("io", "jo", "k", "ii", "ji")
    s["C.update"].vectorize("ji").unroll("ii")
    s.cache_write("C", at="C.update.jo")
    return s


def test_forms(golden):
    s = tiled()
    even = s.specialize("C.update", "(M % 4 == 0) & (N % 4 == 0)", "even")
    even.parallel("io")
    even.specialize("contiguous(A)", "dense").unroll("k", 2)
    s.specialize("C.update", "N == 8", "eight").unroll("jo")
    golden(f"{s}\n\n{good(s)}")
    natively(s, *SIZES)


def test_exact_splits_have_no_tails():
    s = tiled()
    s.specialize("C.update", "(M % 4 == 0) & (N % 4 == 0)", "even")
    form = next(n for n in walk(s.loops().nest.body) if isinstance(n, Guard)).then
    assert not any(isinstance(n, Guard) for n in walk(form))


def test_sizes_that_are_known_may_be_vectors():
    s = Schedule(blur())
    s["blur_x"].compute_root()
    s.specialize("blur_y", "N == 8", "eight").vectorize("x")
    refused(s, "extent", lambda: s["blur_y"].vectorize("x"))
    good(s)
    natively(s, {"M": 8, "N": 70}, {"M": 5, "N": 8}, {"M": 5, "N": 5}, {"M": 2, "N": 2})


def test_copies_of_what_is_computed_inside(golden):
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y")
    s["blur_x"].vectorize("x", 4)
    s.cache_read("A", at="blur_x.x")
    s.specialize("blur_y", "N >= 16", "wide")
    s["blur_x"].serial("x_v")
    golden(f"{s}\n\n{good(s)}")
    natively(s, {"M": 8, "N": 20}, {"M": 5, "N": 13}, {"M": 2, "N": 2})


def test_inlined_readers_of_what_is_inside():
    s = Schedule(chain())
    s["b"].compute_at("d.x")
    s.specialize("d", "N % 2 == 0", "even")
    assert {"b_even", "c_even"} <= set(s.state.funcs)
    good(s)
    natively(s, {"N": 7}, {"N": 8}, {"N": 2})


def test_buffers_outside_hold_the_union():
    s = Schedule(edge_blur())
    s["blur_x"].compute_root()
    s.specialize("blur_y", "N == 4", "four").unroll("x")
    s.specialize("blur_y", "M % 2 == 0", "even").split("y", "yo", "yi", 2)
    good(s)
    natively(s, {"M": 8, "N": 4}, {"M": 3, "N": 3}, {"M": 2, "N": 1}, {"M": 0, "N": 0})


def test_what_updates_need_is_not_that_of_a_form():
    s = Schedule(prefix_sum())
    s.specialize("s.update", "N == 5", "five").specialize("M % 2 == 0", "even")
    s.specialize("s.init", "N >= 4", "wide")
    nest = good(s)
    assert "max" not in nest
    natively(s, {"M": 3, "N": 3}, {"M": 4, "N": 5}, {"M": 3, "N": 5})


def test_loops_of_forms_are_not_shared():
    s = Schedule(two_outputs())
    s.specialize("q", "N % 2 == 0", "even")
    refused(s, "compute-with-forms", lambda: s["p.init"].compute_with("q{even}.j"))


def test_a_place_is_in_one_form():
    s = Schedule(blur())
    s.specialize("blur_y", "N >= 16", "wide")
    refused(s, "illegal-place", lambda: s["blur_x"].compute_at("blur_y{wide}.y"), "several forms", "before specialize")
    refused(s, "illegal-place", lambda: s["blur_x"].compute_at("blur_y.y"))
    clone = s.clone("blur_x", "blur_y{wide}")
    clone.compute_at("blur_y{wide}.y")
    s["blur_x"].compute_at("blur_y.y")
    good(s)
    natively(s, {"M": 8, "N": 20}, {"M": 5, "N": 13})


def test_strides():
    s = Schedule(blur())
    s["blur_x"].compute_root()
    s.specialize("blur_x", "stride(A, 1) == 1", "rows").vectorize("x", 4)
    good(s)
    compiled = compile_schedule(s.pipeline, s, "strict")
    a = np.arange(80, dtype=np.int32).reshape(8, 10)
    expected = compiled(a)
    for other in (np.asfortranarray(a), np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3], a[::-1, ::-1][::-1, ::-1]):
        assert np.array_equal(compiled(other), expected)


def test_partial_results_in_one_form():
    s = Schedule(matmul())
    e = s.specialize("C.update", "K % 8 == 0", "eighths")
    e.split("k", "ko", "ki", 8)
    e.rfactor("ki", "P")
    good(s)
    natively(s, {"M": 3, "N": 4, "K": 16}, {"M": 3, "N": 4, "K": 5}, {"M": 3, "N": 4, "K": 0})


@pytest.mark.parametrize("make", [histogram, triangle, float_matmul])
def test_other_updates(make):
    s = Schedule(make())
    for x in list(s.state.stages.values()):
        if s.state.funcs[x.key[0]].compute.kind != "inline":
            s.specialize(s.state.address(x.key), f"{s.pipeline.sizes[-1]} % 2 == 0", "even")
            s.specialize(s.state.address(x.key), "M >= 4", "large")
    good(s)


def test_addresses():
    s = Schedule(matmul())
    e = s.specialize("C.update", "N >= 64", "wide")
    n = e.specialize("K == 1", "thin")
    assert (e.stage, n.stage) == ("C.update{wide}", "C.update{wide}{thin}")
    assert s["C.update{wide}"].loops == s["C.update"].loops
    refused(s, "ambiguous-loop", lambda: s.cache_read("B", at="i"), "C.update{wide}{thin}.i")
    refused(s, "unknown-stage", lambda: s["C.update{narrow}"])
    s["C.update{wide}"].split("i", "io", "ii", 8)
    assert s["C.update"].loops == s["C.update{wide}{thin}"].loops == ("i", "j", "k")
    good(s)


def test_conditions():
    p = matmul()
    for text, shown in [
        ("N%16==0", "N % 16 == 0"), ("(N>=64)&(K % 4==0)", "(N >= 64) & (K % 4 == 0)"), ("contiguous( A )", "contiguous(A)"),
        ("stride(B, 0) == 2*N", "stride(B, 0) == N * 2"), ("~(M == N) | (K < 3)", "~(M == N) | (K < 3)"),
    ]:  # fmt: skip
        n = parse_condition(p, text)
        assert format_condition(n) == shown
        assert parse_condition(p, shown) is n
    s = Schedule(p)
    N, K = sizes("N K")
    s.specialize("C.update", (N % 16 == 0) & (K >= 4), "even")
    assert s.directives[0].operands == ("(N % 16 == 0) & (K >= 4)",)
    assert s.state.stages[("C", 0)].branches[0].condition.op == "and"
    assert ir.leaves([s.state.stages[("C", 0)].branches[0].condition], "size")


@pytest.mark.parametrize("text", [
    "N", "N >", "1 < 2", "Q == 1", "A[0, 0] == 1", "contiguous(Q)", "stride(A, 2) == 1", "i < 3", "N >= 64 & K == 2", "",
    "N == 1\nlet x = 2",
])  # fmt: skip
def test_what_is_no_condition(text):
    s = Schedule(matmul())
    refused(s, "condition", lambda: s.specialize("C.update", text, "x"))


def test_specialize_is_refused():
    s = Schedule(blur())
    refused(s, "inlined", lambda: s.specialize("blur_x", "N == 3", "x"))
    s.specialize("blur_y", "N == 3", "x")
    refused(s, "name-twice", lambda: s.specialize("blur_y", "N == 4", "x"))
    refused(s, "name", lambda: s.specialize("blur_y", "N == 4", "a b"))
    refused(s, "func-directive", lambda: s["blur_y{x}"].compute_root())
    t = Schedule(edge_blur())
    t["blur_x"].compute_root().split("x", "xo", "xi", 4, "round_up")
    refused(t, "tail", lambda: t.specialize("blur_x", "N == 4", "x"))
    u = Schedule(edge_blur())
    u["blur_x"].compute_root()
    u.specialize("blur_x", "N == 4", "x")
    refused(u, "tail", lambda: u["blur_x{x}"].split("x", "xo", "xi", 4, "round_up"), "all forms")


def test_strides_of_results():
    """Forms for how the caller's result lies; a name that several results share is nobody's."""
    s = Schedule(edge_blur())
    s.specialize("blur_y", "contiguous(blur_y) & contiguous(A)", "dense").vectorize("x", 8)
    s.specialize("blur_y", "stride(blur_y, 0) == 1", "turned").reorder("x", "y").vectorize("y", 8)
    good(s)
    natively(s, {"M": 8, "N": 20}, {"M": 5, "N": 13}, {"M": 1, "N": 1})
    fast = compile_schedule(s.pipeline, s, "strict")
    a = np.arange(9 * 21, dtype=np.int32).reshape(9, 21)
    expected = fast(a)
    for out in (np.empty((21, 9), np.int32).T, np.empty((9, 42), np.int32)[:, ::2]):
        for given in (a, np.asfortranarray(a)):
            fast(given, out=out)
            np.testing.assert_array_equal(out, expected)
    refused(s, "condition", lambda: s.specialize("blur_y", "stride(blur_x, 0) == 1", "no"), "known: A, blur_y")


def test_a_form_that_would_never_run():
    s = Schedule(matmul())
    s["C.update"].specialize("N % 8 == 0", "even")
    refused(s, "condition", lambda: s["C.update"].specialize("N%8 == 0", "again"), "the form even for this condition")
    s["C.update"].specialize("N % 4 == 0", "other")


def test_words_between_conditions():
    s = Schedule(matmul())
    for text in ("N > 3 and M > 3", "N > 3 or M > 3", "not N > 3"):
        refused(s, "condition", lambda text=text: s["C.update"].specialize(text, "f"), "& and |")

"""Copies and clones for chosen consumers: which stages get them, where they may stand, native values."""

from __future__ import annotations

import numpy as np

from tests.schedule.algorithms import K, M, N, blur, made, matmul
from tests.schedule.helpers import flat, good, refused
from tilewright.codegen.compile import compile_schedule
from tilewright.lang.func import func
from tilewright.lang.symbols import rdom, vars
from tilewright.lang.types import i32
from tilewright.schedule.schedule import Schedule


def shared():
    """Two stages that read the same array and the same Func, one of them inside the other's loops."""

    def shared(A: i32[M, N]):
        i, j = vars("i j")
        P, D, C = func("P"), func("D"), func("C")
        P[i, j] = A[i, j] * 3 + i
        D[i, j] = P[i, j] + A[i, j] * 5
        C[i, j] = D[i, j] + P[i, j] + A[i, j]
        return C[:M, :N]

    return made(shared)


def sums():
    """A reduction that two others read."""

    def sums(A: i32[M, N]):
        i, j = vars("i j")
        k = rdom(k=N).k
        S, C, D = func("S"), func("C"), func("D")
        S[i] = 0
        S[i] += A[i, k]
        C[i, j] = S[i] - A[i, j]
        D[i] = S[M - 1 - i] * 2
        return C[:M, :N], D[:M]

    return made(sums)


def native(s: Schedule) -> None:
    p = s.pipeline
    for shape in [(5, 7), (16, 33), (3, 4)]:
        a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
        got = compile_schedule(p, s, "strict")(a)
        want = compile_schedule(p, None, "strict")(a)
        for x, y in zip(flat([got]), flat([want]), strict=True):
            assert np.array_equal(x, y), s


def test_copy_for_several(golden):
    s = Schedule(shared())
    s["C"].split("i", "io", "ii", 4)
    s["D"].compute_at("C.io")
    s["P"].compute_root()
    s.cache_read("A", at="C.io", consumers=["D", "C"])
    golden(f"{s}\n\n{good(s)}")
    native(s)


def test_copy_for_one_inside():
    s = Schedule(shared())
    s["P"].compute_root()
    s["D"].compute_at("C.i")
    s.cache_read("P", at="C.i", consumers="D", name="near")
    assert "cache_read P at C.i for D name near" in str(s)
    nest = good(s)
    assert "D[i', j] = near[i', j]" in nest
    assert "C[i, j] = D[i, j] + P[i, j]" in nest  # it goes on reading P
    native(s)


def test_copy_at_the_root(golden):
    s = Schedule(matmul())
    copy = s.cache_read("B", layout="k j -> j//4 k j%4")
    copy.vectorize("j", 4)
    golden(f"{s}\n\n{good(s)}")
    t = Schedule(shared())
    t.cache_read("A", consumers=["C", "D"])
    t["D"].compute_root()
    good(t)
    native(t)


def test_copy_for_an_inlined_consumer():
    s = Schedule(shared())
    s.cache_read("A", at="C.i", consumers=["P", "D", "C"])
    good(s)
    native(s)


def test_copies_that_are_refused():
    s = Schedule(shared())
    s["P"].compute_root()
    s["D"].compute_root()
    refused(s, "illegal-place", lambda: s.cache_read("A", at="C.i", consumers=["D", "C"]), "legal places: root")
    refused(s, "not-read", lambda: s.cache_read("D", at="C.i", consumers=["C", "P"]), "D is not read by P")
    refused(s, "unknown-stage", lambda: s.cache_read("A", consumers=["Q"]))
    refused(s, "not-read", lambda: s.cache_read("C"), "nothing reads C")


def test_clone(golden):
    s = Schedule(sums())
    s.clone("S", consumers="D", name="again")
    s["again"].compute_at("D.i")
    s["S"].compute_at("C.i")
    golden(f"{s}\n\n{good(s)}")
    native(s)


def test_clone_of_a_pure_func():
    s = Schedule(shared())
    h = s.clone("P", consumers=["D"])
    assert h.func == "P_D" and s.state.funcs["P_D"].compute.kind == "inline"
    s["P"].compute_root()
    s["D"].compute_at("C.i")
    good(s)
    h.compute_at("D.i").vectorize("j", 4)
    good(s)
    native(s)


def test_clones_that_are_refused():
    s = Schedule(sums())
    refused(s, "not-read", lambda: s.clone("D", consumers="C"), "C does not read D", "D is read by nothing")
    refused(s, "not-read", lambda: s.clone("S", consumers="S.update"), "is that Func itself")
    refused(s, "name-twice", lambda: s.clone("S", consumers="C", name="A"))
    s["S.update"].rfactor("k", "part")
    refused(s, "unknown-func", lambda: s.clone("X", consumers="C"))
    refused(s, "illegal-place", lambda: s.clone("S", consumers="C"), "part")


def test_prefetch_sees_what_is_inside():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.y")
    s.prefetch("A", at="blur_y.y", distance=2)
    nest = good(s)
    assert "prefetch A over" in nest
    native(s)


# What cache_write with consumers would say ------------------------------------------------------------------------------


def product():
    """A product that is returned and that two others read."""

    def product(A: i32[M, K], B: i32[K, N]):
        i, j = vars("i j")
        k = rdom(k=K).k
        C, D, E = func("C"), func("D"), func("E")
        C[i, j] = 0
        C[i, j] += A[i, k] * B[k, j]
        D[i, j] = C[i, j] + 1
        E[i, j] = C[i, j] * 2
        return C[:M, :N], D[:M, :N], E[:M, :N]

    return made(product)


def right(s: Schedule) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(9, 7, 5), (16, 16, 3), (1, 1, 0)]:
        a, b = rng.integers(-9, 9, (m, k)).astype(np.int32), rng.integers(-9, 9, (k, n)).astype(np.int32)
        c = a @ b
        for x, y in zip(compile_schedule(s.pipeline, s, "strict")(a, b), (c, c + 1, c * 2), strict=True):
            assert np.array_equal(x, y), s


def test_some_read_where_it_was_computed_and_others_a_copy():
    s = Schedule(product())
    s.cache_write("C", at="C.update.j")
    s.store_in("C", "spm")
    s.cache_read("C", at="E.i", consumers="E")
    text = str(s.loops())
    assert "buffer C: i32[M, N] in spm" in text
    reads = s.loops().uses
    assert "D" in reads["C"] and "E" not in reads["C"] and reads["C_E"] == ("E",)
    assert "buffer C_E: i32[1, N] in main" in text and "output C[i, " in text
    right(s)


def test_one_reads_the_tile_while_it_lives_and_others_what_is_stored():
    s = Schedule(product())
    s["D"].split("i", "io", "ii", 4)
    s.clone("C", consumers="D")
    s["C_D"].compute_at("D.io").store_in("spm")
    text = str(s.loops())
    assert "buffer C_D: i32[4, N] in spm" in text
    reads = s.loops().uses
    assert "D" in reads["C_D"] and "E" in reads["C"] and "D" not in reads["C"]
    right(s)


def test_each_definition_has_a_tile_of_its_own():
    def twice(A: i32[M, N]):
        i = vars("i")
        k, l = rdom(k=N).k, rdom(l=N).l
        C = func("C")
        C[i] = 0
        C[i] += A[i, k]
        C[i] += A[i, l] * A[i, l]
        return C[:M]

    s = Schedule(made(twice))
    s.cache_write("C", at="C.update[1].i", memory="spm")
    text = str(s.loops())
    assert text.count("buffer C_tile") == 1 and text.index("C[i] += A[i, k]") < text.index("buffer C_tile")
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(compile_schedule(s.pipeline, s, "strict")(a), a.sum(1) + (a * a).sum(1))

"""compute_with: shared loops, ranges that differ, shared producers, what is refused, counts, native values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.algorithms import K, M, N, made
from tests.schedule.helpers import flat, good, refused
from tilewright.codegen.accounts.simulate import simulate
from tilewright.codegen.compile import compile_schedule
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import func
from tilewright.lang.symbols import rdom, vars
from tilewright.lang.types import i32
from tilewright.schedule.nest import Assign, Guard, LoopNode, walk
from tilewright.schedule.schedule import Schedule


def planes():
    """Two planes of half and of full height from one image, by way of a common Func."""

    def planes(A: i32[M, N]):
        y, x = vars("y x")
        P, U, V = func("P"), func("U"), func("V")
        P[y, x] = A[y, x] * 3 + 1
        U[y, x] = P[y, x] + P[y, x + 1]
        V[y, x] = P[2 * y, x] - P[2 * y + 1, x]
        return U[:M, : N - 1], V[: M // 2, :N]

    return made(planes)


def twins(same: bool = True):
    """Two results that read the same elements."""

    def twins(A: i32[M, N], B: i32[M, N]):
        y, x = vars("y x")
        U, V = func("U"), func("V")
        U[y, x] = A[y, x] + B[y, x]
        V[y, x] = A[y, x] * B[y, x]
        return U[:M, :N], V[: M if same else M - 1, :N]

    return made(twins)


def products():
    """Two matrix products with one factor in common, and a consumer of both."""

    def products(A: i32[M, K], B: i32[K, N], D: i32[K, N]):
        i, j = vars("i j")
        k = rdom(k=K).k
        C, E, F = func("C"), func("E"), func("F")
        C[i, j] = 0
        C[i, j] += A[i, k] * B[k, j]
        E[i, j] = 1
        E[i, j] += A[i, k] * D[k, j]
        F[i, j] = C[i, j] - E[i, j]
        return F[:M, :N]

    return made(products)


def native(s: Schedule) -> None:
    p = s.pipeline
    for m, n, k in [(5, 7, 4), (16, 33, 9), (2, 3, 1)]:
        rng = np.random.default_rng(0)
        sizes = {"M": m, "N": n, "K": k}
        args = [
            rng.integers(-9, 9, tuple(sizes[e.attr] for e in a.extents)).astype(np.int32) for a in p.arrays
        ]  # fmt: skip
        got, want = compile_schedule(p, s, "strict")(*args), compile_schedule(p, None, "strict")(*args)
        for x, y in zip(flat([got]), flat([want]), strict=True):
            assert np.array_equal(x, y), s


def test_nest(golden):
    s = Schedule(twins())
    s["V"].compute_with("U.y")
    golden(f"{s}\n\n{good(s)}")
    native(s)


def test_the_innermost_loop_and_vectors():
    for mode in ("split", "vectorize", "unroll"):
        s = Schedule(twins())
        for f in "UV":
            if mode == "split":
                s[f].split("x", "xo", "xi", 4)
            else:
                getattr(s[f], mode)("x", 4)
        s["V"].compute_with("U." + {"split": "xi", "vectorize": "x_v", "unroll": "x_u"}[mode])
        loops = [n for n in walk(s.loops().nest.body) if isinstance(n, LoopNode)]
        assert len(loops) == 3, s.loops()
        good(s)
        native(s)


def test_ranges_that_differ(golden):
    s = Schedule(planes())
    s["P"].compute_root()
    s["V"].compute_with("U.y")
    golden(f"{s}\n\n{good(s)}")
    native(s)
    t = Schedule(planes())
    t["P"].compute_root()
    t["U"].compute_with("V.x")
    good(t)
    native(t)


def test_a_producer_for_both(golden):
    s = Schedule(twins(same=False))
    s.cache_read("A", at="U.y", name="near")
    refused(s, "illegal-place", lambda: s.cache_read("A", at="U.y", consumers="V"))
    s["V"].compute_with("U.y")
    s.cache_read("B", at="U.y", consumers=["U", "V"], name="both")
    golden(f"{s}\n\n{good(s)}")
    native(s)


def test_different_reads_of_one_producer():
    for inner in ("y", "x"):
        s = Schedule(planes())
        s["P"].compute_root()
        s["V"].compute_with(f"U.{inner}")
        s["P"].compute_at("U.y")
        good(s)
        native(s)
        s["P"].store_root()
        good(s)
        native(s)


def test_places_move_along():
    s = Schedule(planes())
    s.clone("P", consumers="V", name="Q")
    s["P"].compute_at("U.y")
    s["Q"].compute_at("V.y")
    s["V"].compute_with("U.y")
    assert s.state.funcs["Q"].compute.stage == ("U", -1)
    good(s)
    native(s)


def test_reductions_share_everything(golden):
    s = Schedule(products())
    for f in ("C", "E"):
        s[f"{f}.update"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4)
        s[f"{f}.update"].reorder("io", "jo", "k", "ii", "ji")
    s["E.update"].compute_with("C.update.k")
    s["E.init"].compute_with("C.init.i")
    golden(f"{s}\n\n{good(s)}")
    native(s)
    t = Schedule(products())
    for f in ("C", "E"):
        t[f"{f}.update"].split("i", "io", "ii", 2).reorder("io", "k", "ii", "j")
        t.cache_write(f, at=f"{f}.update.io", memory="main")
    t["E.update"].compute_with("C.update.io")
    good(t)
    native(t)


def test_inside_a_consumer():
    s = Schedule(products())
    s["F"].split("i", "io", "ii", 3)
    s["C"].compute_at("F.io")
    s["E"].compute_at("F.io")
    s["E.update"].compute_with("C.update.i")
    good(s)
    native(s)
    s["F"].parallel("io")
    good(s)
    native(s)


def test_parallel():
    s = Schedule(twins(same=False))
    s["U"].parallel("y")
    s["V"].parallel("y").compute_with("U.y")
    good(s)
    native(s)


def test_refused():
    s = Schedule(products())
    refused(s, "compute-with-dependence", lambda: s["F"].compute_with("C.update.i"), "one depends on what the other")
    refused(s, "compute-with-dependence", lambda: s["C.update"].compute_with("F.i"))
    refused(s, "compute-with-self", lambda: s["C.update"].compute_with("C.init.i"), "stages of one Func")
    s["E.update"].compute_with("C.init.i")  # then C's update comes after E's, which comes after E.init
    refused(s, "compute-with-dependence", lambda: s["C.update"].compute_with("E.init.i"))
    s = Schedule(products())
    s["C"].compute_at("F.i")
    refused(s, "compute-with-place", lambda: s["E.update"].compute_with("C.update.i"), "at the root and", "at F.i")


def test_peeled_together_and_specialized_not():
    s = Schedule(twins(same=False))
    s["U"].peel("y", first=1)
    refused(s, "compute-with-loops", lambda: s["V"].compute_with("U.y"), "are peeled or parted")
    s["V"].peel("y", first=1)
    s["V"].compute_with("U.y")
    nodes = list(walk(s.loops().nest.body))
    assert sum(isinstance(n, Assign) for n in nodes) > 2  # copies of the body
    good(s)
    native(s)
    t = Schedule(twins())
    t["U"].specialize("N >= 8", "wide")
    with pytest.raises(ScheduleError):
        t["V"].compute_with("U.y")


def test_a_base_that_nothing_needs():
    s = Schedule(products())
    s["E.update"].compute_with("C.update.i")
    refused(s, "compute-with-unused", lambda: s.clone("C", consumers="F"), "nothing needs C any more")


def test_loops_that_differ():
    s = Schedule(twins())
    s["U"].reorder("x", "y")
    refused(s, "compute-with-loops", lambda: s["V"].compute_with("U.y"), "of V are y and those of U are x, y")
    t = Schedule(twins())
    t["U"].parallel("y")
    refused(t, "compute-with-loops", lambda: t["V"].compute_with("U.y"), "V.y is serial and U.y is parallel")
    u = Schedule(twins())
    u["U"].split("y", "yo", "yi", 4)
    refused(u, "compute-with-loops", lambda: u["V"].compute_with("U.yo"), "V has no loop yo")
    w = Schedule(twins())
    w["V"].compute_with("U.x")
    refused(w, "compute-with-loops", lambda: w["V"].split("x", "xo", "xi", 2), "do it before compute_with")
    refused(w, "compute-with-twice", lambda: w["V"].compute_with("U.y"), "shares loops with U already")
    refused(w, "compute-with-twice", lambda: w["U"].compute_with("V.y"))


def test_tiles_and_tails_that_are_refused():
    s = Schedule(twins())
    s.cache_write("V", at="V.y", memory="main")
    refused(s, "compute-with-tile", lambda: s["V"].compute_with("U.x"), "V_tile would hold more than one")
    t = Schedule(twins())
    for f in "UV":
        t[f].split("y", "yo", "yi", 4, tail="shift")
    refused(t, "compute-with-tail", lambda: t["V"].compute_with("U.yo"))
    u = Schedule(twins(same=False))
    u["U"].vectorize("y", 4)
    u["V"].vectorize("y", 2)
    u["U"].reorder("x", "y", "y_v")
    u["V"].reorder("x", "y", "y_v")
    u["V"].compute_with("U.y_v")
    with pytest.raises(Exception, match="vector loop of another length"):
        u.check()


@pytest.mark.parametrize("same", [True, False])
def test_fewer_iterations(same):
    """Every element is stored once, and the nest has as many iterations of the shared loops as one stage alone."""

    def iterations(s: Schedule) -> int:
        """Iterations of y loops at M = 8."""
        total = 0
        for n in walk(s.loops().nest.body):
            if isinstance(n, LoopNode) and n.name == "y":
                total += 8 if n.stop.op == "size" else 7
        return total

    apart, together = Schedule(twins(same)), Schedule(twins(same))
    together["V"].compute_with("U.y")
    assert iterations(together) == 8
    assert iterations(apart) == (16 if same else 15)
    nodes = list(walk(together.loops().nest.body))
    assert sum(isinstance(n, Assign) for n in nodes) == 2
    assert sum(isinstance(n, Guard) for n in nodes) == (0 if same else 1)
    runs = [simulate(s.pipeline, s, "generic-avx2", {"M": 8, "N": 6}, "strict").account for s in (apart, together)]
    stored = [{t.tensor: t.writes for t in r.traffic} for r in runs]
    assert stored[0] == stored[1]
    assert stored[0]["U"] == 48 and stored[0]["V"] == (48 if same else 42)


def test_shared_loads():
    """Halide's point of it: a copy that both use is made once instead of twice."""
    apart, together = Schedule(twins()), Schedule(twins())
    apart.cache_read("A", at="U.y", memory="main", name="a")
    apart.cache_read("A", at="V.y", memory="main", name="b")
    together["V"].compute_with("U.y")
    together.cache_read("A", at="U.y", consumers=["U", "V"], memory="main", name="a")
    loads = []
    for s in (apart, together):
        good(s)
        account = simulate(s.pipeline, s, "generic-avx2", {"M": 8, "N": 6}, "strict").account
        loads.append({t.tensor: t.reads for t in account.traffic}["A"])
    assert loads == [96, 48]


def test_what_shared_loops_need_is_not_made_in_them():
    """A Func in a shared loop runs before the stages that share it: one of them can't be its producer."""

    def steps(A: i32[M, N]):
        y, x = vars("y x")
        a, b, c = func("a"), func("b"), func("c")
        a[y, x] = A[y, x] * 2
        b[y, x] = a[y, x] + 1
        c[y, x] = b[y, x] * 3
        return c[:M, :N]

    for place in ("c.y", "c.x"):
        for shared in ("a.y", "a.x"):
            s = Schedule(made(steps))
            s["a"].compute_root()
            s["b"].compute_at(place)
            refused(s, "compute-with-dependence", lambda s=s, shared=shared: s["c"].compute_with(shared))
            assert s.state.order.index("a") < s.state.order.index("b")


@pytest.mark.parametrize("member", ["follower", "base", "inside"])
def test_shared_loops_after_the_block_loop_that_they_need(member):
    """Online reductions that are read in shared loops run before them, whichever of the stages reads them."""

    def mixed(A: i32[M, N], B: i32[N]):
        i, j = vars("i j")
        k = rdom(k=N).k
        f, p, u, v = func("f"), func("p"), func("u"), func("v")
        f[i] = 0
        f[i] += A[i, k]
        p[i] = f[i] + 1
        u[i, j] = A[i, j] * 2 + (f[i] if member == "base" else 0)
        v[i] = A[i, 0] * 3 if member == "base" else (p if member == "inside" else f)[i]
        return u[:M, :N], v[:M]

    s = Schedule(made(mixed))
    if member == "inside":
        s["p"].compute_at("v.i")
    s.online(["f"], "k", 3)
    s["v"].compute_with("u.i")
    good(s)
    if member != "inside":
        s["f"].compute_at("u.i")
        good(s)
        native(s)

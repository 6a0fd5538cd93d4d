"""cache_write: tiles at every loop of every stage, first values computed or loaded; what is refused."""

from __future__ import annotations

from itertools import product

import pytest

from tests.schedule.algorithms import ALL, M, N, accumulate, blur, histogram, made, matmul, prefix_sum
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.lang import expr, types
from tilewright.lang.func import func
from tilewright.lang.symbols import rdom
from tilewright.lang.symbols import vars as variables
from tilewright.lang.types import i32
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    C = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4).reorder("io", "jo", "k", "ii", "ji")
    C.unroll("ii").vectorize("ji")
    s.cache_write("C", at="C.update.jo")
    golden(f"{s}\n\n{good(s)}")


def test_reduction_outside_the_tile(golden):
    """The first step computes the initial values into the tile, later ones load it."""
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2).reorder("ko", "i", "j", "ki")
    s.cache_write("C", at="C.update.i", memory="main")
    golden(f"{s}\n\n{good(s)}")


def test_a_tile_owns_no_more_than_the_splits_around_it():
    """Points beyond the tail of a split within a split belong to the next outer tile, which may run first."""
    s = Schedule(matmul())
    for stage in ("C.init", "C.update"):
        h = s[stage].split("j", "jo", "jt", 4).split("jt", "jm", "ji", 3).reorder("jm", "jo", "ji")
        h.parallel("jm").unroll("ji")
    s.cache_write("C", at="C.init.jo", memory="main")
    s.cache_write("C", at="C.update.jo", memory="main")
    good(s)


def test_inout_is_loaded():
    s = Schedule(accumulate())
    s["C.update"].split("i", "io", "ii", 2)
    s.cache_write("C", at="C.update.io", memory="main")
    assert "load C_tile" in good(s)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_loop_of_every_stage(name):
    first = Schedule(ALL[name]())
    for key, stage in first.state.stages.items():
        for loop in stage.loops:
            s = Schedule(ALL[name]())
            for f in s.state.funcs:
                s[f].compute_root()
            s.cache_write(key[0], at=s.state.loop_address(key, loop.name), memory="main")
            good(s)


def test_a_tile_in_every_stage():
    """Only the first update computes initial values; later ones load what the one before has stored."""

    def twice(A: i32[M, N]):
        i, j = variables("i j")
        k = rdom(k=3).k
        p = func("p")
        p[i, j] = A[i, j]
        p[i, j] += A[i, j] * expr.cast(i32, k)
        p[i, j] = p[i, j] * 2 + A[i, j]
        return p[:M, :N]

    p = made(twice)
    first = Schedule(p).state.stages
    for loops in product(*([x.name for x in first[key].loops] for key in first)):
        s = Schedule(p)
        for key, loop in zip(first, loops, strict=True):
            s.cache_write("p", at=s.state.loop_address(key, loop), memory="main")
        good(s)


def test_scatter_is_loaded_and_stored():
    s = Schedule(histogram())
    s.cache_write("hist", at="hist.update.y", memory="main")
    nest = good(s)
    assert "load hist_tile" in nest
    assert "store hist_tile" in nest


def test_scan():
    s = Schedule(prefix_sum())
    s["s.update"].split("k", "ko", "ki", 2)
    s.cache_write("s", at="s.update.ko", memory="main")
    good(s)


def test_errors():
    s = Schedule(matmul())
    C = s["C.update"]
    C.split("i", "io", "ii", 2)
    refused(s, "layout", lambda: s.cache_write("C", at="C.update.io", layout="i -> i"))
    refused(s, "unknown-func", lambda: s.cache_write("D", at="C.update.io"))
    s.cache_write("C", at="C.update.io", memory="main")
    again = lambda: s.cache_write("C", at="C.update.io", memory="main")  # noqa: E731
    refused(s, "tile-twice", again, "has the tile C_tile at io already")
    refused(s, "vector-inside", lambda: C.vectorize("io", 2), "C_tile would stand inside")
    good(s)


def test_gaps():
    s = Schedule(matmul())
    C = s["C.update"].split("i", "io", "ii", 2).reorder("ii", "io")
    refused(s, "tile-gaps", lambda: s.cache_write("C", at="C.update.ii"), "io runs inside, but ii not wholly")
    C.reorder("io", "ii")
    s.cache_write("C", at="C.update.ii", memory="main")
    good(s)
    refused(s, "tile-gaps", lambda: C.reorder("ii", "io"))
    s = Schedule(matmul())
    C = s["C.update"].fuse("i", "j", "t").split("t", "to", "ti", 3)
    refused(s, "tile-gaps", lambda: s.cache_write("C", at="C.update.to"), "a part of the fused loop t")
    s.cache_write("C", at="C.update.ti", memory="main")
    good(s)


def test_vector_loops():
    s = Schedule(matmul())
    s["C.update"].vectorize("j", 4)
    refused(s, "vector-inside", lambda: s.cache_write("C", at="C.update.j_v"))
    refused(s, "vector-inside", lambda: s.cache_write("C", at="C.update.k"))


def test_register_size():
    s = Schedule(matmul())
    s.cache_write("C", at="C.update.i")
    refused(s, "register-size", s.check, "C_tile[1, N]", "constant size")


def test_foreign_loop():
    s = Schedule(ALL["two_outputs"]())
    refused(s, "foreign-loop", lambda: s.cache_write("p", at="q.i"), "q.i is no loop of p", "p.init.i")
    t = Schedule(ALL["blur"]())
    refused(t, "inlined", lambda: t.cache_write("blur_x", at="blur_x.y"))


def test_a_producer_that_slides():
    """Where its region begins depends on the iteration; its tiles own what this iteration computes and no more."""
    for loop in ("x", "xo", "xi"):
        s = Schedule(blur())
        s["blur_x"].compute_at("blur_y.y").store_root()
        s["blur_x"].reorder("x", "y")
        if loop == "x":
            s.cache_write("blur_x", at="blur_x.x", memory="main")
        else:
            s["blur_x"].split("y", "xo", "xi", 2)
            s.cache_write("blur_x", at=f"blur_x.{loop}", memory="main")
        good(s)


def test_initial_values_that_hold_others_stay():
    """What is computed in the loops of the initial values has no place in the tiles of the update."""

    def held(A: i32[M, N], B: i32[N, N]):
        i, j = variables("i j")
        k = rdom(k=N).k
        p, q = func("p"), func("q")
        p[i] = A[i, 0] * 3
        q[i, j] = p[i] + A[i, j]
        q[i, j] += A[i, k] * B[k, j]
        return q[:M, :N]

    for stored in ("i", "j"):
        s = Schedule(made(held))
        s["p"].compute_at("q.init.j").store_at(f"q.init.{stored}")
        s.cache_write("q", at="q.update.i", memory="main")
        assert "load q_tile" in good(s)


def test_a_tile_is_no_larger_than_the_region():
    """Of an index that wraps less is known inside the loops than over all of them."""

    def wraps(A: i32[M, N]):
        b = variables("b")
        d = rdom(y=3, x=N)
        h = func("h")
        h[b] = 0
        at = expr.cast(types.i64, expr.cast(types.i8, expr.cast(types.i64, d.y - 1)))
        h[expr.clamp(at, 0, 7)] += A[expr.clamp(d.y, 0, M - 1), d.x]
        return h[:5]

    for loop in ("y", "x"):
        s = Schedule(made(wraps))
        s.cache_write("h", at=f"h.update.{loop}", memory="main")
        good(s)


@pytest.mark.parametrize("memory", ["reg", "main"])
@pytest.mark.parametrize("stop", [-3, 0, 1, 5])
def test_tiles_of_nothing(memory, stop):
    """A constant range in which no step of the reduction runs, or few: the tile has no elements, or only some."""

    def few(A: i32[N]):
        i = variables("i")
        f, g = func("f"), func("g")
        k = rdom(k=4)
        k.where(i >= k.k)
        f[i] = 7
        f[i] += A[expr.clamp(k.k, 0, N - 1)]
        g[i] = f[i] + f[i] * f[i]
        return g[-9:stop]

    for layout in (None, "a -> a//3 a%3"):
        s = Schedule(made(few))
        s.cache_write("f", at="f.update.i", memory=memory, layout=layout)
        s.check()
        natively(s, {"N": 1}, {"N": 6})

"""Reduction loops whose iterations depend on no others: they move freely, and run in vectors and on threads."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.schedule.schedule import Schedule

M, N = tw.sizes("M N")
SIZES = [{"M": m, "N": n} for m, n in [(7, 9), (1, 1), (0, 3), (3, 0), (2, 17)]]


@tw.kernel
def spread(A: tw.f32[M, N]):
    """What is right of the diagonal, moved and doubled; where() leaves points out."""
    i, j = tw.vars("i j")
    r = tw.rdom(y=M, x=N)
    r.where(r.x >= r.y)
    f = tw.func("f")
    f[i, j] = 0.5
    f[r.y, 2 * r.x + 1] = f[r.y, 2 * r.x + 1] * 3 - A[r.y, r.x]
    return f[:M, : 2 * N]


@tw.kernel
def rows(A: tw.f32[M, N]):
    """Rows are independent, the columns of each are a recurrence."""
    i, j = tw.vars("i j")
    r = tw.rdom(y=M, x=(1, N))
    f = tw.func("f")
    f[i, j] = A[i, j]
    f[r.y, r.x] = f[r.y, r.x - 1] * 0.5 + f[r.y, r.x]
    return f[:M, :N]


@tw.kernel
def diagonals(A: tw.f32[M, N]):
    """A Var and a reduction variable in one index."""
    i, j = tw.vars("i j")
    r = tw.rdom(r=N)
    f = tw.func("f")
    f[i, j] = 0.0
    f[i, i + r] = A[i, r] + f[i, i + r]
    return f[:M, : M + N]


@tw.kernel
def pairs(A: tw.f32[M, N]):
    """Two values at a place, which change places."""
    i = tw.vars("i")
    r = tw.rdom(r=M)
    f = tw.func("f")
    f[i] = (A[i, 0], 2 * A[i, 0])
    a, b = f[r]
    f[r] = (b, a - b)
    return f[:M]


@tw.kernel
def gathered(A: tw.f32[M, N], index: tw.i32[M]):
    """Rows of its own, columns by data: the axis of rows tells the iterations apart."""
    i, j = tw.vars("i j")
    r = tw.rdom(r=M)
    f = tw.func("f")
    column = tw.clamp(index[r], 0, N - 1)
    f[i, j] = A[i, j]
    f[r, column] = f[r, column] + f[r, N - 1] * 2
    return f[:M, :N]


FREE = {
    spread: ("y", "x"), rows: ("y",), diagonals: ("r",), pairs: ("r",), gathered: ("r",),
}  # fmt: skip
CASES = [(k, loop) for k, loops in FREE.items() for loop in loops]


def ids(x):
    return x if isinstance(x, str) else x.__name__


def schedule(kernel):
    return Schedule(kernel.pipeline())


def sizes(kernel):
    return [s for s in SIZES if s["N"] > 0] if kernel in (gathered, pairs) else SIZES


@pytest.mark.parametrize(("kernel", "loop"), CASES, ids=ids)
def test_in_vectors_and_on_threads(kernel, loop):
    for act in ("vectorize", "parallel"):
        s = schedule(kernel)
        getattr(s["f.update"], act)(loop, 4)
        assert not s.state.reassociations and set(s.state.funcs) == {"f"}
        if kernel is not gathered:
            good(s)
    s = schedule(kernel)
    s["f.update"].split(loop, "outer", "inner", 3).parallel("outer").vectorize("inner")
    natively(s, *sizes(kernel))


def test_they_move_among_the_others():
    s = schedule(rows)
    s["f.update"].reorder("x", "y").vectorize("y", 8)
    good(s)
    natively(s, *SIZES)
    refused(s, "not-associative", lambda: s["f.update"].parallel("x"), "f[y, x] needs f[y, x - 1]")
    t = schedule(spread)
    t["f.update"].tile("y", "x", "yo", "xo", "yi", "xi", 2, 4).fuse("yo", "xo", "t").parallel("t").vectorize("xi")
    good(t)
    natively(t, *SIZES)


@tw.kernel
def upwards(A: tw.f32[M, N]):
    """Each row reads the one before."""
    i, j = tw.vars("i j")
    r = tw.rdom(y=(1, M), x=N)
    f = tw.func("f")
    f[i, j] = A[i, j]
    f[r.y, r.x] = f[r.y - 1, r.x] * 0.5 + f[r.y, r.x]
    return f[:M, :N]


@tw.kernel
def colliding(A: tw.f32[M, N]):
    """Several iterations write one element: by a quotient, and by the other variable."""
    i, j = tw.vars("i j")
    r = tw.rdom(y=M, x=N)
    f = tw.func("f")
    f[i, j] = 0.0
    f[r.y // 2, r.x - r.y + M] = f[r.y // 2, r.x - r.y + M] * 0.5 + A[r.y, r.x]
    return f[:M, : M + N]


@pytest.mark.parametrize(("kernel", "loop"), [(upwards, "y"), (colliding, "y")], ids=ids)
def test_others_do_not(kernel, loop):
    s = schedule(kernel)
    refused(s, "not-associative", lambda: s["f.update"].parallel(loop))
    refused(s, "not-associative", lambda: s["f.update"].vectorize(loop, 4))


@tw.kernel
def wavefront(A: tw.f32[M, N]):
    """Each point reads its neighbours as they are by then; points of one diagonal do not read each other."""
    i, j = tw.vars("i j")
    r = tw.rdom(t=M + N - 1, j=N)
    r.where(tw.inside(r.t - r.j, 0, M))
    f = tw.func("f")
    f[i, j] = A[tw.clamp(i, 0, M - 1), tw.clamp(j, 0, N - 1)]
    y, x = r.t - r.j, r.j
    f[y, x] = f[y - 1, x] * 0.5 + f[y, x - 1] * 0.25 + f[y + 1, x] * 0.125 + f[y, x + 1] + f[y, x]
    return f[:M, :N]


@tw.kernel
def skewed(A: tw.f32[M, N]):
    """The same with diagonals as rows, and two steps between an element and what it reads."""
    t, j = tw.vars("t j")
    r = tw.rdom(t=(2, M), j=(1, N - 1))
    f = tw.func("f")
    f[t, j] = A[t, j]
    f[r.t, r.j] = f[r.t - 2, r.j + 1] * 0.5 + f[r.t - 1, r.j - 1] + f[r.t, r.j]
    return f[:M, :N]


@tw.kernel
def product(A: tw.f32[M], B: tw.f32[N]):
    """Coefficients of a product of polynomials."""
    i = tw.vars("i")
    r = tw.rdom(y=M, x=N)
    f = tw.func("f")
    f[i] = 0.0
    f[r.y + r.x] += A[r.y] * B[r.x]
    return f[: M + N - 1]


HELD = [(wavefront, "t", "j"), (skewed, "t", "j"), (product, "y", "x"), (product, "x", "y"), (colliding, "y", "x")]


@pytest.mark.parametrize(("kernel", "outer", "loop"), HELD, ids=ids)
def test_at_once_while_another_loop_stands_still(kernel, outer, loop):
    sizes = [{"M": m, "N": n} for m, n in [(7, 9), (1, 1), (2, 17), (12, 3), (23, 24)]]
    for act in ("vectorize", "parallel"):
        s = schedule(kernel)
        if kernel is product and outer == "x":
            s["f.update"].reorder("x", "y")
        before = len(s.state.reassociations)
        getattr(s["f.update"], act)(loop, 4)
        assert len(s.state.reassociations) == before and set(s.state.funcs) == {"f"}
        good(s)
    s = schedule(kernel)
    if kernel is product and outer == "x":
        s["f.update"].reorder("x", "y")
    s["f.update"].split(loop, "far", "near", 8).parallel("far").vectorize("near")
    natively(s, *sizes, mode="contract" if kernel is product and outer == "x" else "strict")


def test_they_stay_inside_of_that_loop():
    s = schedule(wavefront)
    s["f.update"].split("t", "to", "ti", 4).vectorize("j", 4)
    refused(s, "reduction-order", lambda: s["f.update"].reorder("j", "to"))
    refused(s, "reduction-order", lambda: s["f.update"].reorder("j_v", "ti"))
    refused(s, "not-associative", lambda: s["f.update"].parallel("to"))
    s = schedule(product)  # a sum: its loops may change places, but not where one of them runs at once
    s["f.update"].parallel("x", 4)
    refused(s, "reduction-order", lambda: s["f.update"].reorder("x", "y"), "can't run at once", "outside of x")
    s["f.update"].serial("x").reorder("x", "y")
    refused(s, "name-twice", lambda: s["f.update"].parallel("x", 4))
    good(s)


@tw.kernel
def crossing(A: tw.f32[M, N]):
    """Reads on the own diagonal: two to the left and two up is a point of another iteration of j."""
    i, j = tw.vars("i j")
    r = tw.rdom(t=M + N - 1, j=N)
    r.where(tw.inside(r.t - r.j, 0, M))
    f = tw.func("f")
    f[i, j] = A[tw.clamp(i, 0, M - 1), tw.clamp(j, 0, N - 1)]
    y, x = r.t - r.j, r.j
    f[y, x] = f[y + 2, x - 2] * 0.5 + f[y, x]
    return f[:M, :N]


def test_not_where_they_read_each_other():
    s = schedule(crossing)
    refused(s, "not-associative", lambda: s["f.update"].parallel("j"))
    refused(s, "not-associative", lambda: s["f.update"].vectorize("j", 4))


def test_two_that_depend_keep_their_order():
    s = schedule(colliding)
    refused(s, "reduction-order", lambda: s["f.update"].reorder("x", "y"), "elements of their own")
    t = schedule(upwards)
    t["f.update"].reorder("x", "y").parallel("x")
    good(t)
    natively(t, *SIZES)


def test_tiles_inside_of_threads_may_share_elements():
    s = schedule(spread)
    s["f.update"].split("y", "yo", "yi", 4)
    s.cache_write("f", at="f.update.yo", memory="main")
    refused(s, "tile-race", lambda: s["f.update"].parallel("yo"), "f_tile", "run yo serially")
    natively(s, *SIZES)

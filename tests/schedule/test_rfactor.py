"""rfactor: partial results of every kind of reduction; what is refused."""

from __future__ import annotations

from tests.schedule.algorithms import M, N, convolution, histogram, largest, made, matmul, prefix_sum, triangle
from tests.schedule.helpers import good, refused
from tilewright.lang import expr
from tilewright.lang.func import func
from tilewright.lang.symbols import rdom
from tilewright.lang.symbols import vars as variables
from tilewright.lang.types import i32
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2).rfactor("ki", "part")
    golden(f"{s}\n\n{good(s)}")


def test_every_reduction():
    for make, stage, loop in (
        (matmul, "C.update", "k"), (histogram, "hist.update", "y"), (histogram, "hist.update", "x"),
        (largest, "arg.update", "j"), (convolution, "conv.update", "dy"), (convolution, "conv.update", "dx"),
        (triangle, "t.update", "x"),
    ):  # fmt: skip
        s = Schedule(make())
        s[stage].rfactor(loop, "part")
        good(s)


def test_partials_can_be_scheduled():
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2).rfactor("ki", "part")
    s["part"].compute_root()
    s["part.update[0]"].parallel("i")
    good(s)


def test_errors():
    s = Schedule(matmul())
    refused(s, "rfactor-pure", lambda: s["C.update"].rfactor("i", "part"))
    refused(s, "name-twice", lambda: s["C.update"].rfactor("k", "C"))
    u = Schedule(triangle())
    refused(
        u, "rfactor-scatter", lambda: u["t.update"].rfactor("y", "part"), "elements of its own", "parallel it as it is"
    )
    t = Schedule(prefix_sum())
    refused(t, "not-associative", lambda: t["s.update"].rfactor("k", "part"))


def test_prefetches_go_with_their_loops():
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2)
    s.prefetch("A", at="C.update.ko")
    s["C.update"].rfactor("ki", "P")
    assert [(m.tensor, m.loop) for m in s.state.stages[("P", 0)].prefetches] == [("A", "ko")]
    good(s)
    s = Schedule(matmul())
    s.prefetch("C", at="C.update.k")
    refused(s, "prefetch-lost", lambda: s["C.update"].parallel("k"), "the loop k, which goes")


def test_several_parts_of_a_variable_inside():
    """A variable of which one part stays outside runs whole in the partials, by one loop."""
    s = Schedule(matmul())
    C = s["C.update"].split("j", "j", "t", 4).split("j", "jo", "ji", 2).split("t", "to", "ti", 2)
    C.reorder("i", "jo", "to", "k", "ji", "ti").split("k", "ko", "ki", 2).vectorize("ki")
    good(s)


def test_threads_stay():
    """A parallel loop over a variable of its own is one in the partial results and in their merge as well."""

    def bins(A: i32[M, N]):
        y, b = variables("y b")
        h = func("h")
        h[y, b] = 0
        r = rdom(x=N)
        h[y, expr.clamp(A[y, r.x], 0, 3)] += 1
        return h[:M, :4]

    s = Schedule(made(bins))
    s["h.update"].parallel("y").split("x", "xo", "lane", 4).rfactor("lane", "turn")
    modes = {s.state.address(k): {x.name: x.mode for x in st.loops} for k, st in s.state.stages.items()}
    assert modes["h.update"]["y"] == modes["turn.update[0]"]["y"] == "parallel"
    good(s)
    t = Schedule(made(bins))
    t["h.update"].split("y", "y", "yi", 2).parallel("y").rfactor("x", "turn")
    good(t)


def test_partials_stand_where_their_func_stands():
    """What is placed in a loop stays there: its producers in that loop are still read inside of it only."""

    def counted(A: i32[M, N]):
        i, j, b = variables("i j b")
        p, h, out = func("p"), func("h"), func("out")
        p[i, j] = A[i, j] * 3
        h[i, b] = p[i, 0]
        r = rdom(x=N)
        h[i, expr.clamp(A[i, r.x], 0, 3)] += p[i, r.x]
        out[i, j] = h[i, expr.clamp(j, 0, 3)]
        return out[:M, :N]

    s = Schedule(made(counted))
    s["h"].compute_at("out.i")
    s["p"].compute_at("out.i")
    s["h.update"].rfactor("x", "part")
    assert s.state.funcs["part"].compute == s.state.funcs["h"].compute
    good(s)


def test_elements_of_their_own_are_no_partial_results():
    def rows(A: i32[M, N]):
        i, j = variables("i j")
        f = func("f")
        f[i, j] = A[i, j]
        k = rdom(k=N).k
        f[i, k] += A[i, 0]
        return f[:M, :N]

    s = Schedule(made(rows))
    s["f.update"].split("k", "ko", "ki", 4)
    for loop in ("ko", "ki"):
        refused(s, "rfactor-scatter", lambda loop=loop: s["f.update"].rfactor(loop, "part"))

"""Exact counts of evaluations, loads, stores and allocations, as the oracle of what directives do.

The cases follow those that other implementations got wrong: sliding windows in one and two dimensions, backwards, by
two, over several stages, in reductions; predicates that shrink what is computed; folding; partial results; forms;
shared loops; tails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kernels import matmul
from tilewright.codegen.count import Counts, UnknownCountError
from tilewright.schedule.schedule import Schedule

N, M, K = tw.sizes("N M K")


def counted(k: Any, arrange: Callable[[Schedule], Any] = lambda s: None, inputs: Any = None, **sizes: int) -> Counts:
    """The counts of a schedule."""
    s = k.schedule()
    arrange(s)
    return k.count(s, sizes=sizes, inputs=inputs)


# Sliding windows ------------------------------------------------------------------------------------------------


@tw.kernel
def line(a: tw.i32[N]):
    """Three neighbours of a Func."""
    x = tw.vars("x")
    pixel = tw.repeat_edge(a)
    f, g = tw.func("f"), tw.func("g")
    f[x] = pixel[x] * 3
    g[x] = f[x - 1] + f[x] + f[x + 1]
    return g[:N]


def at(place: str, *more: Callable[[Schedule], Any], root: bool = True) -> Callable[[Schedule], None]:
    """f is computed at a place and stored at the root, the rest as it is."""

    def arrange(s: Schedule) -> None:
        s["g"].unscheduled()
        s["f"].compute_at(place)
        if root:
            s["f"].store_root()
        for m in more:
            m(s)

    return arrange


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_each_point_of_a_window_once(n):
    assert counted(line, at("g.x"), N=n).evaluations["f"] == (n + 2 if n else 0)
    assert counted(line, at("g.x", root=False), N=n).evaluations["f"] == 3 * n
    assert counted(line, lambda s: s["f"].compute_root(), N=n).evaluations["f"] == (n + 2 if n else 0)


def test_what_is_inlined_has_no_entry():
    got = counted(line, lambda s: s["f"].compute_inline(), N=10)
    assert set(got.evaluations) == {"g"} and got.loads["a"] == 30
    with pytest.raises(UnknownCountError, match="is inlined is a part of"):
        got.evaluations["f"]
    with pytest.raises(KeyError):
        got.stores["nothing"]


@tw.kernel
def plane(a: tw.i32[M, N]):
    y, x = tw.vars("y x")
    pixel = tw.repeat_edge(a)
    f, g = tw.func("f"), tw.func("g")
    f[y, x] = pixel[y, x] * 3
    g[y, x] = f[y - 1, x - 1] + f[y, x] + f[y + 1, x + 1]
    return g[:M, :N]


def test_two_dimensions():
    """Along y every row once; along x every point of a row of windows once."""
    m, n = 13, 9
    assert counted(plane, at("g.y"), M=m, N=n).evaluations["f"] == (m + 2) * (n + 2)
    assert counted(plane, at("g.x", lambda s: s["f"].store_at("g.y")), M=m, N=n).evaluations["f"] == 3 * m * (n + 2)
    # along both: but for the first row of windows, and the first window of each row, one point an iteration
    assert counted(plane, at("g.x"), M=m, N=n).evaluations["f"] == (m + 2) * (n + 2)
    assert counted(plane, at("g.y", root=False), M=m, N=n).evaluations["f"] == 3 * m * (n + 2)
    assert counted(plane, at("g.x", root=False), M=m, N=n).evaluations["f"] == 9 * m * n


def test_vectors_slide_as_well():
    def wide(s: Schedule) -> None:
        s["f"].vectorize("x", 4).compute_at("g.y").store_root()
        s["g"].vectorize("x", 8)

    got = counted(plane, wide, M=12, N=16)
    assert got.evaluations == {"f": 14 * 18, "g": 12 * 16}
    assert got.stages["f"].spare == 0  # lanes beyond the edge are off
    assert got.stores == {"f": 14 * 18, "g": 12 * 16}


@tw.kernel
def backwards(a: tw.i32[N]):
    x = tw.vars("x")
    f, g = tw.func("f"), tw.func("g")
    f[x] = tw.repeat_edge(a)[x]
    g[x] = f[N - x] + f[N - x + 1]
    return g[:N]


def test_a_consumer_that_walks_down():
    assert counted(backwards, at("g.x"), N=10).evaluations["f"] == 11
    assert counted(backwards, at("g.x", root=False), N=10).evaluations["f"] == 20


@tw.kernel
def by_two(a: tw.i32[K]):
    x = tw.vars("x")
    f, g = tw.func("f"), tw.func("g")
    f[x] = tw.repeat_edge(a)[x]
    g[x] = f[2 * x - 1] + f[2 * x] + f[2 * x + 1]
    return g[:N]


def test_windows_that_move_by_two_or_stand_still():
    assert counted(by_two, at("g.x"), N=10, K=4).evaluations["f"] == 21

    @tw.kernel
    def upsampled(a: tw.i32[K]):
        x = tw.vars("x")
        f, g = tw.func("f"), tw.func("g")
        f[x] = tw.repeat_edge(a)[x]
        g[x] = f[x // 2] + f[(x + 1) // 2]
        return g[:N]

    assert counted(upsampled, at("g.x"), N=10, K=4).evaluations["f"] == 6


def test_a_diagonal_computes_again():
    """No axis slides where two move with one loop; values and counts are those of whole windows."""

    @tw.kernel
    def diagonal(a: tw.i32[N]):
        x, y = tw.vars("x y")
        f, g = tw.func("f"), tw.func("g")
        f[x, y] = tw.repeat_edge(a)[x + y]
        g[x] = f[x, x] + f[x + 1, x + 1]
        return g[:N]

    assert counted(diagonal, at("g.x"), N=10).evaluations["f"] == 40


@tw.kernel
def cascade(a: tw.i32[M, N]):
    y, x = tw.vars("y x")
    e, f, g = tw.func("e"), tw.func("f"), tw.func("g")
    e[y, x] = tw.repeat_edge(a)[y, x] + 1
    f[y, x] = e[y - 1, x] + e[y + 1, x]
    g[y, x] = f[y - 1, x] + f[y, x] + f[y + 1, x]
    return g[:M, :N]


def test_a_cascade_of_windows():
    def slides(s: Schedule) -> None:
        s["f"].compute_at("g.y").store_root()
        s["e"].compute_at("g.y").store_root()

    got = counted(cascade, slides, M=20, N=5)
    assert got.evaluations == {"e": 24 * 5, "f": 22 * 5, "g": 20 * 5}
    got = counted(
        cascade,
        lambda s: (slides(s), s["g"].split("y", "t", "y", 4), s["f"].store_at("g.t"), s["e"].store_at("g.t")),
        M=20,
        N=5,
    )
    assert got.evaluations == {"e": 5 * 8 * 5, "f": 5 * 6 * 5, "g": 20 * 5}


def test_a_window_below_a_reduction():
    """A producer of an update slides along the update's own loop."""

    @tw.kernel
    def summed(a: tw.i32[N]):
        x = tw.vars("x")
        f, g = tw.func("f"), tw.func("g")
        f[x] = tw.repeat_edge(a)[x]
        k = tw.rdom(k=N)
        g[()] = 0
        g[()] += f[k] * f[k + 1]
        return g[()]

    def slides(s: Schedule) -> None:
        s["g.update"].unscheduled()
        s["f"].compute_at("g.update.k").store_root()

    assert counted(summed, slides, N=30).evaluations == {"f": 31, "g.init": 1, "g.update": 30}


def test_an_update_that_scatters_does_not_slide():
    @tw.kernel
    def scattered(a: tw.i32[N]):
        x = tw.vars("x")
        f, g = tw.func("f"), tw.func("g")
        f[x] = tw.repeat_edge(a)[x]
        r = tw.rdom(r=2)
        f[tw.clamp(r, 0, 1)] += 1
        g[x] = f[x] + f[x + 1]
        return g[:N]

    def arrange(s: Schedule) -> None:
        s["f.update"].unscheduled()
        s["f"].compute_at("g.x").store_root()

    got = counted(scattered, arrange, N=10)
    assert got.evaluations == {"f.init": sum(x + 2 for x in range(10)), "f.update": 2 * 10, "g": 10}


# Folding ----------------------------------------------------------------------------------------------------------


def test_folded_buffers_are_as_small_as_asked():
    n = 9
    got = counted(plane, at("g.y"), M=13, N=n)
    assert got.allocations["f"].bytes == 4 * 15 * (n + 2)
    got = counted(plane, at("g.y", lambda s: s["f"].fold_storage("y", 3)), M=13, N=n)
    assert got.allocations["f"].bytes == 4 * 3 * (n + 2) and got.allocations["f"].count == 1
    assert got.evaluations["f"] == 15 * (n + 2)
    got = counted(line, at("g.x", lambda s: s["f"].fold_storage("x", 4)), N=n)
    assert got.allocations["f"].bytes == 16 and got.peak == {"main": 16}


def test_allocations_by_place():
    """A buffer is made once an iteration of the place where it is stored, or where it is hoisted to."""
    got = counted(plane, at("g.y", root=False), M=13, N=9)
    assert (got.allocations["f"].count, got.allocations["f"].bytes) == (13, 4 * 3 * 11)
    got = counted(plane, at("g.y", lambda s: s["f"].hoist_storage(), root=False), M=13, N=9)
    assert (got.allocations["f"].count, got.allocations["f"].bytes) == (1, 4 * 3 * 11)

    def ring(s: Schedule) -> None:
        s["g"].split("y", "t", "y", 4)
        s.cache_read("a", at="g.t")
        s["a_g"].double_buffer(3)

    got = counted(copies, ring, M=13, N=9)
    assert (got.allocations["a_g"].count, got.allocations["a_g"].bytes) == (1, 3 * 4 * 4 * 9)
    assert got.loads["a"] == 13 * 9 and got.stores["a_g"] == 13 * 9


@tw.kernel
def copies(a: tw.i32[M, N]):
    y, x = tw.vars("y x")
    g = tw.func("g")
    g[y, x] = a[y, x] + a[y, x] * 2
    return g[:M, :N]


# Predicates -------------------------------------------------------------------------------------------------------


def reduced(where: Callable[[Any, Any], Any]) -> Any:
    """A sum of f over 0..N x 0..N where a condition holds, f at the root."""

    @tw.kernel
    def reduced(a: tw.i32[N], flag: tw.i32):
        x, y = tw.vars("x y")
        f, g = tw.func("f"), tw.func("g")
        f[x, y] = tw.repeat_edge(a)[x + y]
        d = tw.rdom(x=N, y=N)
        d.where(where(d, flag))
        g[()] = 0
        g[()] += f[d.x, d.y]
        return g[()]

    return reduced


def root(s: Schedule) -> None:
    s["f"].compute_root()
    s["g.update"].unscheduled()


def test_a_triangle():
    assert counted(reduced(lambda d, flag: d.x < d.y), root, N=200).evaluations["g.update"] == 200 * 199 // 2
    got = counted(
        reduced(lambda d, flag: d.x < d.y),
        lambda s: (s["f"].compute_at("g.update.y"), s["g.update"].unscheduled()),
        N=200,
    )
    assert got.evaluations["f"] == 200 * 199 // 2


def test_predicates_shrink_what_is_computed():
    got = counted(reduced(lambda d, flag: (3 * d.x < 100) & (3 * d.y < 100)), root, N=100)
    assert got.evaluations == {"f": 34 * 34, "g.init": 1, "g.update": 34 * 34}


def test_a_circle_keeps_its_guard():
    inside = sum(x * x + y * y < 900 for x in range(40) for y in range(40))
    got = counted(reduced(lambda d, flag: d.x * d.x + d.y * d.y < 900), root, N=40)
    assert got.evaluations["g.update"] == inside


@pytest.mark.parametrize("flag", [0, 1])
def test_a_parameter_in_a_predicate(flag):
    got = counted(reduced(lambda d, flag: flag == 1), root, inputs={"flag": flag}, N=100)
    assert got.evaluations["g.update"] == flag * 100 * 100


def test_ragged_lengths():
    """Data says how far a reduction runs: no more is evaluated, nor loaded."""

    @tw.kernel
    def ragged(a: tw.f32[M, N], length: tw.i64[M]):
        i = tw.vars("i")
        d = tw.rdom(k=N)
        d.where(d.k < length[i])
        s = tw.func("s")
        s[i] = 0.0
        s[i] += a[i, d.k]
        return s[:M]

    lengths = np.array([3, 0, 7, 7, 1])
    got = counted(ragged, lambda s: s["s.update"].unscheduled(), inputs={"length": lengths}, M=5, N=7)
    assert got.evaluations["s.update"] == lengths.sum() and got.loads["a"] == lengths.sum()


# Reductions -------------------------------------------------------------------------------------------------------


@tw.kernel
def total(a: tw.i32[N]):
    k = tw.rdom(k=N)
    c = tw.func("c")
    c[()] = 5
    c[()] += a[k]
    return c[()]


def test_partial_results():
    """Every point of the domain goes into one partial result, every partial result into the sum once."""

    def parts(s: Schedule) -> None:
        s["c.update"].split("k", "ko", "ki", 8).rfactor("ki", "p")

    for n in (0, 1, 8, 29):
        got = counted(total, parts, N=n)
        updates = [v for k, v in got.evaluations.items() if k.startswith("p.update")]
        assert updates[0] == n and got.loads["a"] == n
        assert got.evaluations["c.init"] == got.evaluations["c.update"] == 1
        assert (got.allocations["p"].count, got.allocations["p"].bytes) == (1, 8 * 4)


# Forms, shared loops ----------------------------------------------------------------------------------------------


def test_only_the_form_of_the_branch_runs():
    def forms(s: Schedule) -> None:
        s["f"].compute_root()
        s["g"].specialize("N < 8", "small")
        s["g"].specialize("N % 4 == 0", "even")

    for n, form in ((5, "g{small}"), (4, "g{small}"), (12, "g{even}"), (13, "g")):
        got = counted(line, forms, N=n)
        ran = {k: v for k, v in got.evaluations.items() if v}
        assert ran == {"f": n + 2, form: n}


@tw.kernel
def yuv(a: tw.i32[M, N]):
    """One picture in full size, two of half the height and width, from the same pixels."""
    y, x = tw.vars("y x")
    luma, u, v = tw.func("luma"), tw.func("u"), tw.func("v")
    luma[y, x] = a[y, x] * 3
    u[y, x] = a[2 * y, 2 * x] + 1
    v[y, x] = a[2 * y, 2 * x] - 1
    return luma[:M, :N], u[: M // 2, : N // 2], v[: M // 2, : N // 2]


@pytest.mark.parametrize("m, n", [(8, 12), (7, 9)])
def test_shared_loops_store_each_element_once(m, n):
    def shared(s: Schedule) -> None:
        s["luma"].tile("y", "x", "y", "x", "yi", "xi", 2, 2).unroll("yi").unroll("xi")
        s["u"].compute_with("luma.x")
        s["v"].compute_with("luma.x")

    got = counted(yuv, shared, M=m, N=n)
    assert got.stores == {"luma": m * n, "u": m // 2 * (n // 2), "v": m // 2 * (n // 2)}
    assert got.evaluations == got.stores


def test_shared_loops_load_once():
    """Two results of the same elements: apart each loads them, in shared loops they are in registers."""

    @tw.kernel
    def twins(a: tw.i32[M, N], b: tw.i32[M, N]):
        y, x = tw.vars("y x")
        u, v = tw.func("u"), tw.func("v")
        u[y, x] = a[y, x] + b[y, x]
        v[y, x] = a[y, x] * b[y, x]
        return u[:M, :N], v[:M, :N]

    apart = counted(twins, M=5, N=19)
    together = counted(twins, lambda s: s["v"].compute_with("u.x"), M=5, N=19)
    assert apart.loads == {"a": 2 * 95, "b": 2 * 95} and together.loads == {"a": 95, "b": 95}
    assert apart.stores == together.stores == {"u": 95, "v": 95}


# Tails and tiles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["guard", "shift"])
@pytest.mark.parametrize("n", [3, 8, 13])
def test_tails_of_an_output(tail, n):
    got = counted(copies, lambda s: s["g"].split("x", "x", "xi", 8, tail=tail).vectorize("xi"), M=3, N=n)
    again = 3 * (-(-n // 8) * 8 - n) if tail == "shift" and n > 8 else 0
    assert got.evaluations["g"] == 3 * n + again and got.stages["g"].spare == again


def test_whole_tiles_are_told_apart():
    def whole(s: Schedule) -> None:
        s["f"].compute_root().split("x", "x", "xi", 8, tail="round_up").vectorize("xi")

    got = counted(line, whole, N=12)
    assert got.evaluations["f"] == 16 and got.stages["f"].spare == 2


def register_tile(s: Schedule) -> None:
    C = s["C.update"]
    C.split("i", "io", "ii", 6).split("j", "jo", "ji", 16)
    C.reorder("jo", "io", "k", "ii", "ji").unroll("ii").vectorize("ji")
    s.cache_write("C", at="C.update.io", memory="reg")


@pytest.mark.parametrize("m, n, k", [(12, 32, 5), (13, 35, 7), (0, 5, 3), (5, 7, 0)])
def test_a_register_tile(m, n, k):
    """Operands are loaded once a tile, not once a row; C is stored once; of the tile only what is needed counts."""
    got = counted(matmul, register_tile, M=m, N=n, K=k)
    update, init = got.stages["C.update"], got.stages["C.init"]
    assert update.evaluations - update.spare == m * n * k
    assert init.evaluations - init.spare == m * n
    assert got.stores["C"] == m * n
    if m % 6 == n % 16 == 0 and k:
        assert update.evaluations == m * n * k and update.spare == init.spare == 0
        assert got.loads["A"] == m * k * (n // 16) and got.loads["B"] == k * n * (m // 6)
        assert got.allocations["C_tile"].bytes == 6 * 16 * 4


def test_packed_panels_are_filled_once():
    def packed(s: Schedule) -> None:
        register_tile(s)
        s.cache_read("B", at="C.update.jo", layout="k j -> j//16 k j%16")

    got = counted(matmul, packed, M=13, N=35, K=7)
    assert got.loads["B"] == 7 * 35 and got.stores["B_C"] == 7 * 35
    assert got.allocations["B_C"].count == 3


# The report -------------------------------------------------------------------------------------------------------


def test_threads_and_the_default_schedule_count_the_same():
    default = line.count(sizes={"N": 50})
    threads = counted(line, lambda s: s["g"].split("x", "t", "x", 8).parallel("t"), N=50)
    assert default.evaluations["g"] == threads.evaluations["g"] == 50


def test_the_report(golden):
    got = counted(matmul, register_tile, M=13, N=35, K=7)
    golden(str(got))
    data = json.loads(got.to_json())
    assert data["stages"]["C.update"]["evaluations"] == got.evaluations["C.update"]
    assert data["allocations"]["C_tile"] == {"count": 9, "bytes": 384}


def test_an_output_with_a_buffer_of_its_own():
    got = counted(matmul, lambda s: (s["C"].layout("i j -> j i"), s["C.update"].unscheduled()), M=4, N=5, K=3)
    assert got.stores["out.C"] == 20 and got.stores["C"] == 20 + 60
    assert got.allocations["C"].bytes == 80

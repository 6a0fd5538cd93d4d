"""Updates where a Var is an index by itself and stands in another index as well: every value of it has its own cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright.lang.errors import DefinitionError
from tilewright.lang.text import parse_kernel, print_kernel
from tilewright.schedule.schedule import Schedule

M, N, K = tw.sizes("M N K")


@tw.kernel
def cells(a: tw.i32[M, N, K]):
    """A scatter into a cell that the data choose, of two components."""
    y, z, x = tw.vars("y z x")
    k = tw.rdom(k=K)
    g, out = tw.func("g"), tw.func("out")
    g[y, z, x] = (0, 1)
    at = (y, tw.clamp(tw.cast(tw.i64, a[y, x, k]), 0, 4), x)
    g[at] = (g[at][0] + tw.cast(tw.i64, a[y, x, k]), 3 * g[at][1] + k)
    out[y, z, x] = g[y, z, x][0] + 7 * g[y, z, x][1]
    return out[:M, :5, :N]


@tw.kernel
def shifted(a: tw.i32[M, N]):
    """A recursion along rows that is shifted by the row; it reads other places of its row."""
    y, x = tw.vars("y x")
    k = tw.rdom(k=N)
    g = tw.func("g", tw.i64)
    g[y, x] = 0
    g[y, k + y] = 3 * g[y, k] + g[y, 2 * k - y] + tw.cast(tw.i64, a[y, k])
    return g[:M, :N]


def cells_by_loops(a: np.ndarray) -> np.ndarray:
    rows, columns, depth = a.shape
    sums, chains = np.zeros((2, rows, 5, columns), np.int64)
    chains += 1
    for y, x, k in np.ndindex(rows, columns, depth):
        z = min(max(a[y, x, k], 0), 4)
        sums[y, z, x] += a[y, x, k]
        chains[y, z, x] = 3 * chains[y, z, x] + k
    return sums + 7 * chains


def shifted_by_loops(a: np.ndarray) -> np.ndarray:
    rows, columns = a.shape
    g = dict.fromkeys(((y, x) for y in range(rows) for x in range(-rows - columns, 2 * columns + rows)), 0)
    for y, k in np.ndindex(rows, columns):
        g[y, k + y] = 3 * g[y, k] + g[y, 2 * k - y] + int(a[y, k])
    return np.array([[g[y, x] for x in range(columns)] for y in range(rows)], np.int64).reshape(rows, columns)


def plain(s: Schedule) -> None:
    s["g.init"].serial("y")


def lanes(s: Schedule) -> None:
    s["g.update"].reorder("k", "y", "x").parallel("y").vectorize("x", 4)


def lanes_of_rows(s: Schedule) -> None:
    s["g.update"].reorder("k", "y").vectorize("y", 2)


def tiles(s: Schedule) -> None:
    s["g.update"].split("y", "yo", "yi", 2).parallel("yo")
    s.cache_write("g", at="g.update.yo", memory="main")


def strips(s: Schedule) -> None:
    s["out"].split("y", "yo", "yi", 3).split("x", "xo", "xi", 4).reorder("yo", "xo", "yi", "z", "xi")
    s["g"].compute_at("out.xo")


def rows(s: Schedule) -> None:
    s["out"].split("y", "yo", "yi", 3, tail="shift").parallel("yo")
    s["g"].compute_at("out.yi").layout("y z x -> y x z")


CASES = [(cells, a) for a in (plain, lanes, lanes_of_rows, tiles, strips, rows)]
CASES += [(shifted, a) for a in (plain, lanes_of_rows, tiles)]


@pytest.mark.parametrize(("kernel", "act"), CASES, ids=lambda v: v.__name__)
def test_schedules(kernel: tw.Kernel, act: Callable[[Schedule], None]) -> None:
    s = kernel.schedule()
    act(s)
    assert tw.parse_schedule(str(s), kernel) == s
    fast = kernel.compile(s)
    loops = cells_by_loops if kernel is cells else shifted_by_loops
    rng = np.random.default_rng(1)
    for shape in [(3, 5, 4), (1, 1, 1), (0, 2, 3), (5, 9, 7), (2, 3, 0)][: 5 if kernel is cells else 3]:
        a = rng.integers(-2, 7, shape if kernel is cells else shape[:2]).astype(np.int32)
        np.testing.assert_array_equal(fast(a), loops(a))
        np.testing.assert_array_equal(kernel.reference(a), loops(a))


@pytest.mark.parametrize("kernel", [cells, shifted], ids=lambda v: v.__name__)
def test_as_text(kernel: tw.Kernel) -> None:
    p = kernel.pipeline()
    assert parse_kernel(print_kernel(p)).digest == p.digest


def test_elements_that_several_values_share_are_refused() -> None:
    with pytest.raises(DefinitionError, match="an index by itself") as caught:

        @tw.kernel
        def doubled(a: tw.f32[N]):
            i = tw.vars("i")
            f = tw.func("f")
            f[i] = 0.0
            f[2 * i] = a[i]
            return f[:N]

    assert caught.value.code == "definition.update-lhs"


def test_other_rows_are_not_read() -> None:
    with pytest.raises(DefinitionError) as caught:

        @tw.kernel
        def mixed(a: tw.i32[M, N]):
            y, x = tw.vars("y x")
            k = tw.rdom(k=N)
            g = tw.func("g", tw.i32)
            g[y, x] = 0
            g[y, k + y] = g[k, y] + a[y, k]
            return g[:M, :N]

    assert caught.value.code == "definition.update-self"

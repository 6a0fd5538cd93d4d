"""Lesson 19: copies of a Func for those that read it. For one, for several, for all; of inputs; of results."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

N = tw.sizes("N")


@tw.kernel
def shared():
    """A table that three others read."""
    y, x = tw.vars("y x")
    table = tw.func("table", tw.i32)
    rows, columns, both = tw.func("rows", tw.i32), tw.func("columns", tw.i32), tw.func("both", tw.i32)
    table[y, x] = tw.cast(tw.i32, 10 * y + x)
    rows[y, x] = 2 * table[y, x]
    columns[y, x] = 3 + table[x, y]
    both[y, x] = table[y, x] + table[x, y]
    return rows[:16, :16], columns[:16, :16], both[:16, :16]


def by_numpy():
    y, x = np.mgrid[:16, :16]
    table = 10 * y + x
    return 2 * table, 3 + table.T, table + table.T


def for_one(s):
    s["table"].compute_root()
    s.cache_read("table", consumers="rows")


def for_two(s):
    s["table"].compute_root()
    s.cache_read("table", consumers=["columns", "both"], layout="y x -> x y", name="turned")


def for_all(s):
    s["table"].compute_root()
    s.cache_read("table", name="copy")


def one_each(s):
    """The same Func placed three times: by each of those that read it, where it suits it."""
    s["table"].compute_root()
    s.cache_read("table", at="rows.y")
    s.cache_read("table", at="columns.x")
    s.cache_read("table", consumers="both")


def a_copy_of_a_copy(s):
    """From memory to memory in two steps: whole rows, of which parts of 4 go on."""
    s["table"].compute_root()
    s["rows"].split("x", "xo", "xi", 4)
    s.cache_read("table", at="rows.y", name="row")
    s.cache_read("row", at="rows.xo", name="part")


COPIES = (for_one, for_two, for_all, one_each, a_copy_of_a_copy)


@pytest.mark.parametrize("act", COPIES, ids=lambda f: f.__name__)
def test_who_reads_the_copy(act, golden):
    s = shared.schedule()
    act(s)
    golden(f"{s}\n\n{s.loops()}")
    for got, expected in zip(shared.compile(s)(), by_numpy(), strict=True):
        np.testing.assert_array_equal(got, expected)


@tw.kernel
def transposed(picture: tw.i32[N, N]):
    y, x = tw.vars("y x")
    out = tw.func("out")
    out[y, x] = picture[x, y]
    return out[:N, :N]


def test_loads_of_an_input_are_staged(golden):
    """Blocks of 8 x 8 are read row by row in vectors and written row by row in vectors: the turn is in the buffer."""
    s = transposed.schedule()
    s["out"].tile("y", "x", "yo", "xo", "yi", "xi", 8, 8).vectorize("xi").unroll("yi")
    block = s.cache_read("picture", at="out.xo", name="block")
    block.vectorize(block.loops[1], 8).unroll(block.loops[0], 8)
    golden(f"{s}\n\n{s.loops()}")
    fast = transposed.compile(s)
    for n in (0, 1, 7, 16, 37):
        picture = np.arange(n * n, dtype=np.int32).reshape(n, n)
        np.testing.assert_array_equal(fast(picture), picture.T)
        np.testing.assert_array_equal(fast(picture.T), picture)


@tw.kernel
def powers(a: tw.i32[N]):
    """A result that three definitions go over."""
    i = tw.vars("i")
    f = tw.func("f", tw.i32)
    f[i] = a[i]
    f[i] = f[i] * a[i] + 1
    f[i] = f[i] * a[i] + 2
    return f[:N]


def test_a_result_is_made_in_a_part_of_its_own(golden):
    """The last update has a tile of eight elements, which goes to the result when it is done."""
    s = powers.schedule()
    s["f.update[1]"].split("i", "io", "ii", 8)
    s.cache_write("f", at="f.update[1].io", memory="main", name="tile")
    golden(f"{s}\n\n{s.loops()}")
    a = np.arange(-9, 20, dtype=np.int32)
    np.testing.assert_array_equal(powers.compile(s)(a), (a * a + 1) * a + 2)


def test_a_copy_for_who_does_not_read_is_refused():
    s = shared.schedule()
    s["table"].compute_root()
    s.cache_read("table", consumers="rows")
    with pytest.raises(tw.ScheduleError) as refused:
        s.cache_read("table", consumers="rows", name="again")  # it reads the copy now
    assert refused.value.code == "schedule.not-read" and "table_rows" in str(refused.value)

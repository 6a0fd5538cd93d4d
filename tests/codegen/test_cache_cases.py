"""Published cache counts through kernels and schedules: a stencil's layer conditions, a matrix product's closed form,
streaming stores; and cachegrind on a traced program (opt-in)."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilewright as tw
from tests.codegen.recorded_accesses import machine
from tests.codegen.test_cpu_caches import cache
from tilewright.hw import load_machine
from tilewright.hw.cache_counts import CacheCounts, Level

H, W, N, D = tw.sizes("H W N D")

# pycachesim's hierarchy: stores to a line that is there don't make it younger.
SANDY_BRIDGE = replace(
    load_machine("sandybridge-ep"),
    caches=tuple(replace(c, store_touches_lru=False) for c in load_machine("sandybridge-ep").caches),
)


@tw.kernel
def five_points(a: tw.f64[H, W]):
    y, x = tw.vars("y x")
    b = tw.func("b")
    b[y, x] = a[y - 1, x] + a[y, x - 1] + a[y, x + 1] + a[y + 1, x] + a[y, x]
    return b[1 : H - 1, 8 : W - 8]


def counts(schedule, h: int, w: int, on=SANDY_BRIDGE) -> list[CacheCounts]:
    levels: tuple[Level, ...] = five_points.simulate(
        schedule, machine=on, sizes={"H": h, "W": w}, caches=True
    ).account.caches
    return [level.total for level in levels]


def a_row(schedule, h: int, w: int) -> list[dict[str, int]]:
    """What one more row does in the steady state (the lines that are left at the end are the same)."""
    names = ("reads", "writes", "read_hits", "read_misses", "write_misses", "write_backs")
    fewer, more = counts(schedule, h, w), counts(schedule, h + 1, w)
    return [{n: getattr(y, n) - getattr(x, n) for n in names} for x, y in zip(fewer, more, strict=True)]


# pycachesim's tests/test.py, for a line (8 points): where three rows fit into L1 it has 40 loads and one for the store,
# 39 hits, 2 misses, 8 stores, 1 line written back; where they fit into L2 only, 37 hits and 4 misses, L2 4 loads, 2 hits
# and 2 misses. A row of n lines has two lines of `a` more, at its ends.
@pytest.mark.parametrize(("width", "rows", "misses"), [(1024, 40, [2, 2, 2]), (4096, 80, [4, 2, 2])])
def test_a_stencil_by_lines(width, rows, misses):
    s = five_points.schedule()
    s["b"].unscheduled()
    l1, l2, l3, memory = a_row(s, rows, width)
    n = width // 8 - 2
    assert (l1["reads"], l1["writes"]) == (40 * n, 8 * n)
    assert l1["read_hits"] == 40 * n - l1["read_misses"]
    assert l1["read_misses"] + l1["write_misses"] == misses[0] * n + 2
    assert l1["write_misses"] == n
    assert l2["reads"] == misses[0] * n + 2 and l2["read_misses"] == misses[1] * n + 2
    assert l3["reads"] == misses[1] * n + 2 and l3["read_misses"] == misses[2] * n + 2
    assert memory["reads"] == misses[2] * n + 2 and memory["writes"] == n
    assert l1["write_backs"] == l2["write_backs"] == l3["write_backs"] == n


def test_tiles_restore_a_layer_condition():
    """Rows of 4096 points don't fit three at a time into L1; strips of 512 points do."""
    plain, strips = five_points.schedule(), five_points.schedule()
    plain["b"].unscheduled()
    strips["b"].split("x", "xo", "xi", 510).reorder("xo", "y", "xi")
    plain_l1, strip_l1 = (counts(s, 60, 4096)[0] for s in (plain, strips))
    lines = 58 * (4096 - 16) // 8  # of b
    assert plain_l1.misses == pytest.approx(4 * lines, rel=0.05)
    assert strip_l1.misses == pytest.approx(2 * lines, rel=0.05)
    assert plain_l1.reads == strip_l1.reads


def test_a_layer_condition_is_a_threshold():
    """With LRU a row more or less of capacity decides: lines of `a` are loaded once a sweep, or once a row."""
    s = five_points.schedule()
    s["b"].unscheduled()
    w = 64 * 8  # rows of 64 lines
    lines = {}
    for ways in (128, 180, 192, 200, 260, 300):
        on = machine(cache("L1", 64 * ways, ways, store_touches_lru=False))
        lines[ways] = a_row_on(s, w, on)
    # between two uses of a line lie two rows of a and two of b, less what the sweep has not reached
    assert lines[128] == lines[180] and lines[260] == lines[300] == 64
    assert lines[180] >= 2 * 64 > lines[260]


def a_row_on(s, w: int, on) -> int:
    fewer, more = (
        five_points.simulate(s, machine=on, sizes={"H": h, "W": w}, caches=True).account.caches[0].tensors["a"].misses
        for h in (30, 31)
    )
    return more - fewer


@tw.kernel
def filled():
    x = tw.vars("x")
    f = tw.func("f", tw.f64)
    f[x] = 1.0
    return f[:N]


def test_streaming_stores_load_and_write_back_every_line():
    """20 MiB stored: 327,680 lines loaded and written back in every level."""
    s = filled.schedule()
    s["f"].unscheduled()
    levels = filled.simulate(s, machine=SANDY_BRIDGE, sizes={"N": (20 << 20) // 8}, caches=True).account.caches
    l1, l2, l3, memory = (level.total for level in levels)
    assert l1.write_misses == l2.read_misses == l3.read_misses == memory.reads == 327_680
    assert l1.write_backs == l2.write_backs == l3.write_backs == memory.writes == 327_680


@tw.kernel
def gemm(A: tw.f32[D, D], B: tw.f32[D, D], C: tw.inout(tw.f32[D, D]), beta: tw.f32):
    i, j = tw.vars("i j")
    k = tw.rdom(k=D)
    C[i, j] *= beta
    C[i, j] += A[i, k] * B[k, j]
    return ()


@pytest.mark.parametrize("d", [64, 96])
def test_a_matrix_product_has_the_misses_of_its_closed_form(d):
    """Haystack's example, i-k-j over f32 in fully associative caches that hold some rows but not a matrix.

    2 D^2 + 4 D^3 accesses (4,297,064,448 at D = 1024), 3 D^2 / 16 compulsory misses (196,608), D L - L capacity misses
    with L = D^2 / 16 lines of B (67,043,328), in both caches. There C is scaled row by row within i; ours scales all of
    it first, so C is loaded once more.
    """
    s = gemm.schedule()
    s["C.update[0]"].unscheduled()
    s["C.update[1]"].unscheduled().reorder("i", "k", "j")
    on = machine(cache("L1", 2048, 32), cache("L2", 8192, 128))
    l1, l2, memory = gemm.simulate(s, machine=on, sizes={"D": d}, caches=True).account.caches
    assert l1.total.reads + l1.total.writes == 2 * d**2 + 4 * d**3
    lines = d * d // 16
    for level in (l1, l2):
        by_tensor = {t: c.read_misses for t, c in level.tensors.items()}
        assert by_tensor == {"A": lines, "B": d * lines, "C": 2 * lines}
        compulsory, capacity = 3 * lines, d * lines - lines
        assert level.total.read_misses == compulsory + capacity + lines
    assert memory.total.reads == l2.total.misses


def test_tiles_of_a_matrix_product():
    """Tiles of T x T of all three matrices fit: A and B are loaded D/T times, C once a block of k."""
    d, t = 96, 16
    s = gemm.schedule()
    s["C.update[0]"].unscheduled()
    u = s["C.update[1]"].tile("i", "j", "io", "jo", "ii", "ji", t, t).split("k", "ko", "ki", t)
    u.reorder("io", "jo", "ko", "ii", "ki", "ji")
    on = machine(cache("L1", 64 * 64, 64))  # 64 lines: three tiles of 16
    (l1, _) = gemm.simulate(s, machine=on, sizes={"D": d}, caches=True).account.caches
    lines, n = d * d // 16, d // t
    assert {x: c.misses for x, c in l1.tensors.items()} == {"A": n * lines, "B": n * lines, "C": 2 * lines}

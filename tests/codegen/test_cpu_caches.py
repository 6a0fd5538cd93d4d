"""The cache hierarchy: against a naive one, against published counts and closed forms."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.naive_caches import naive
from tilewright.codegen.cpu_caches import Hierarchy
from tilewright.hw import Cache
from tilewright.hw.cache_counts import CacheCounts
from tilewright.lang.errors import CompileError


def cache(name: str, size: int, ways: int, line: int = 64, **policies) -> Cache:
    return Cache(name, size, line, ways, 64.0, 4.0, **policies)


def stream(rng: np.random.Generator, n: int, span: int, tensors: int):
    """Accesses that come back, walk on, or go anywhere."""
    places = np.cumsum(rng.choice([8, 8, 8, 16, -64, 640], n)) + rng.choice([0, 0, span // 3], n)
    addresses = np.where(rng.random(n) < 0.3, rng.integers(0, span, n), places % span)
    return addresses, rng.choice([1, 4, 8, 32, 64, 100], n), rng.random(n) < 0.3, rng.integers(0, tensors, n)


@st.composite
def hierarchies(draw) -> list[Cache]:
    """One to three small caches with all kinds of policies. Inclusive or exclusive are only levels below others."""
    out, size = [], 256
    for k in range(draw(st.integers(1, 3))):
        line = 32 if k == 0 and draw(st.booleans()) else 64
        ways = draw(st.sampled_from([1, 2, 4, 8]))
        sets = draw(st.sampled_from([1, 2, 3, 4, 8]))
        size = line * ways * sets
        policies = {
            "replacement": draw(st.sampled_from(["lru", "fifo", "plru"])),
            "write": draw(st.sampled_from(["back", "back", "through"])),
            "write_allocate": draw(st.booleans()),
            "store_touches_lru": draw(st.booleans()),
            "inclusion": draw(st.sampled_from(["neither", "inclusive", "exclusive"])) if k else "neither",
        }
        if policies["inclusion"] == "exclusive" and out[-1].line != line:
            policies["inclusion"] = "neither"  # a victim has the size of a line above
        out.append(cache(f"L{k + 1}", size, ways, line, **policies))
    return out


@given(hierarchies(), st.integers(0, 2**32 - 1), st.sampled_from([500, 3000, 20000]))
@settings(max_examples=40, deadline=None)
def test_counts_are_those_of_a_naive_hierarchy(caches, seed, span):
    tensors = 3
    addresses, sizes, writes, of = stream(np.random.default_rng(seed), 400, span, tensors)
    fast, slow = Hierarchy(caches, ["a", "b", "c"]), naive(caches)
    fast.replay(addresses, sizes, writes, of)
    for a, n, w, t in zip(addresses.tolist(), sizes.tolist(), writes.tolist(), of.tolist(), strict=True):
        slow[0].access(a, n, "write" if w else "read", t)
    for flushed in (False, True):
        if flushed:
            fast.flush()
            for level in slow[:-1]:
                level.flush()
        for got, want in zip(fast.levels, slow, strict=True):
            for k, tensor in enumerate("abc"):
                names = [f.name for f in fields(CacheCounts)]
                assert got.tensors[tensor] == CacheCounts(*(want.counts[k, n] for n in names)), (got.name, tensor)


def sandy_bridge(**policies) -> list[Cache]:
    return [
        cache("L1", 64 * 8 * 64, 8, **policies),
        cache("L2", 512 * 8 * 64, 8, **policies),
        cache("L3", 20480 * 16 * 64, 16, **policies),
    ]


def replayed(h: Hierarchy, addresses, writes, size: int = 8) -> None:
    n = len(addresses)
    h.replay(np.asarray(addresses), np.full(n, size), np.asarray(writes), np.zeros(n, int))


def five_points(h: Hierarchy, rows: int, width: int) -> None:
    """The rows of a 5-point stencil over f64, then one line of the last row; the counts are those of that line."""
    b = 1 << 32

    def line(y: int, x0: int, x1: int) -> None:
        here = 8 * (y * width + np.arange(x0, x1))
        at = np.stack([here - 8 * width, here - 8, here + 8, here + 8 * width, here, b + here], -1)
        replayed(h, at.ravel(), np.tile([False] * 5 + [True], x1 - x0))

    for y in range(1, rows):
        line(y, 8, width - 8)
    line(rows, 8, width // 2)
    h.forget()
    line(rows, width // 2, width // 2 + 8)


# pycachesim's own tests, by the numbers: stores don't refresh a line's age; LOAD counts what fills a line for a store.
@pytest.mark.parametrize(("width", "rows", "expected"), [
    (1024, 1400, [(39, 2, 8), (0, 2, 1), (0, 2, 1), (2, 1)]),  # three rows fit into L1
    (4096, 350, [(37, 4, 8), (2, 2, 1), (0, 2, 1), (2, 1)]),  # into L2
])  # fmt: skip
def test_a_stencil_by_lines(width, rows, expected):
    h = Hierarchy(sandy_bridge(store_touches_lru=False))
    five_points(h, rows, width)
    *caches, memory = h.levels
    for level, (hits, misses, stores) in zip(caches, expected[:-1], strict=True):
        t = level.total
        assert (t.read_hits, t.misses, t.writes) == (hits, misses, stores), level
    assert (memory.total.reads, memory.total.writes) == expected[-1]


def test_streaming_stores_load_and_write_back_every_line():
    h = Hierarchy(sandy_bridge())
    n = 20 << 20
    replayed(h, np.arange(0, n, 8), np.ones(n // 8, bool))
    h.flush()
    for level in h.levels[:-1]:
        t = level.total
        assert t.write_misses == n // 64 if level.name == "L1" else t.read_misses == n // 64
        assert t.write_backs == n // 64
    memory = h.levels[-1].total
    assert (memory.reads, memory.writes) == (327_680, 327_680)


def test_loaded_then_stored():
    h = Hierarchy(sandy_bridge())
    at = np.arange(0, 200 << 10, 8)
    replayed(h, at, np.zeros(len(at), bool))
    assert h.levels[0].total.read_misses == 3_200
    replayed(h, at, np.ones(len(at), bool))
    assert h.levels[0].total.write_backs == 2_688
    h.flush()
    assert h.levels[0].total.write_backs == 3_200


def test_a_load_a_store_and_a_load():
    h = Hierarchy(sandy_bridge())
    h.read(2342, 1)
    h.write(512, 8)
    h.read(512, 8)
    h.flush()
    l1, l2, l3, memory = (x.total for x in h.levels)
    assert (l1.read_hits, l1.misses, l1.reads + l1.write_misses, l1.writes) == (1, 2, 3, 1)
    for t in (l2, l3):
        assert (t.reads, t.read_misses, t.writes) == (2, 2, 1)
    assert (memory.reads, memory.writes) == (2, 1)


def test_a_matrix_product_has_the_misses_of_its_closed_form():
    """Haystack's example: i-k-j over f32 in fully associative caches that hold a matrix's row but not the matrix."""
    d = 64
    lines = d * d * 4 // 64
    i, k, j = np.meshgrid(*[np.arange(d)] * 3, indexing="ij")
    a, b, c = 0, 4 * d * d, 8 * d * d
    at = np.stack([c + 4 * (i * d + j), a + 4 * (i * d + k), b + 4 * (k * d + j), c + 4 * (i * d + j)], -1).ravel()
    w = np.zeros(4 * d**3, bool)
    w[3::4] = True
    for size in (2048, 8192):
        h = Hierarchy([cache("L1", size, size // 64)])
        start = np.arange(c, c + 4 * d * d, 4)
        replayed(h, np.repeat(start, 2), np.tile([False, True], d * d), 4)  # C is scaled first
        h.forget()
        replayed(h, at, w, 4)
        t = h.levels[0].total
        assert t.reads + t.writes == 4 * d**3
        # every sweep over k reads all of B anew; A and C once
        assert t.misses == pytest.approx(d * lines + 2 * lines, abs=size // 64)


def test_lru_is_no_worse_with_more_ways_of_one_set():
    rng = np.random.default_rng(0)
    addresses, sizes, writes, of = stream(rng, 5000, 20_000, 1)
    misses = []
    for ways in (1, 2, 4, 8, 16, 32):
        h = Hierarchy([cache("L1", 64 * ways, ways)])
        h.replay(addresses, sizes, writes, of)
        misses.append(h.levels[0].total.misses)
    assert misses == sorted(misses, reverse=True)


def test_random_replacement_is_repeatable_and_full_sets_stay_full():
    rng = np.random.default_rng(1)
    addresses, sizes, writes, of = stream(rng, 3000, 20_000, 1)
    caches = [cache("L1", 64 * 4 * 4, 4, replacement="random")]
    both = [Hierarchy(caches) for _ in range(2)]
    for h in both:
        h.replay(addresses, sizes, writes, of)
    assert both[0].levels == both[1].levels
    t = both[0].levels[0].total
    assert t.misses - t.evictions == 16


def test_too_many_tensors():
    with pytest.raises(CompileError) as e:
        Hierarchy([cache("L1", 1024, 2)], [str(k) for k in range(257)])
    assert e.value.code == "caches.tensors" and "256" in str(e.value)

"""`tw.assume`: bounds for indices that come from data, believed by native code and checked by the reference path and
in debug mode, against loops in Python that know which promises are reached."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.codegen.loops_oracle import run_program
from tests.kernels import same
from tilewright.codegen.lower import Request, lower
from tilewright.lang.errors import Location
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import integer
from tilewright.lang.text import parse_kernel, print_kernel

M, N = tw.sizes("M N")
i = tw.vars("i")
HERE = __file__


class Broken(Exception):
    """A promise that Python's loop found broken."""


def held(x: int, low: int, high: int) -> int:
    if not low <= x < high:
        raise Broken
    return x


@tw.kernel
def gather(A: tw.i32[N], x: tw.i32[M], y: tw.u8[N]):
    f = tw.func("f")
    at = tw.assume(x[i], 0, N)
    f[i] = A[tw.assume(y[at], 0, N)] * 10 + at
    return f[:M]


def gather_loop(A, x, y):
    out = np.zeros(len(x), np.int32)
    for k in range(len(x)):
        at = held(x[k], 0, len(A))
        out[k] = A[held(y[at], 0, len(A))] * 10 + at
    return out


@tw.kernel
def chosen(A: tw.i32[N], x: tw.i32[M], y: tw.u8[N]):
    """Both arms of the inner select rest on one promise each, and the outer one on neither."""
    f = tw.func("f")
    g = tw.func("g")
    g[i] = x[i] * 2
    left = A[tw.assume(g[i], 0, N)]
    right = A[tw.assume(x[i] + 1, 0, N)]
    f[i] = tw.select(x[i] < 0, -1, tw.select(x[i] % 2 == 0, left, right + left * 0 * x[i]))
    return f[:M]


def chosen_loop(A, x, y):
    out = np.zeros(len(x), np.int32)
    for k, v in enumerate(x.tolist()):
        if v < 0:
            out[k] = -1
        elif v % 2 == 0:
            out[k] = A[held(2 * v, 0, len(A))]
        else:
            out[k] = A[held(v + 1, 0, len(A))] + 0 * A[held(2 * v, 0, len(A))]
    return out


@tw.kernel
def counted(A: tw.i32[N], x: tw.i32[M], y: tw.u8[N]):
    """A scatter, at points that a predicate leaves."""
    r = tw.rdom(r=M)
    r = r.where(x[r] >= 0)
    h = tw.func("h", tw.i32)
    h[i] = 0
    h[tw.assume(x[r], 0, N)] += A[x[r] % N]
    return h[:N]


def counted_loop(A, x, y):
    out = np.zeros(len(A), np.int32)
    for v in x.tolist():
        if v >= 0:
            out[held(v, 0, len(A))] += A[v % len(A)]
    return out


@tw.kernel
def ragged(A: tw.i32[N], x: tw.i32[M], y: tw.u8[N]):
    """A reduction as long as the data says."""
    r = tw.rdom(r=64)
    r = r.where(r < tw.assume(x[i], 0, N + 1))
    s = tw.func("s", tw.i32)
    s[i] = 0
    s[i] += A[tw.assume(r, 0, N)]
    return s[:M]


def ragged_loop(A, x, y):
    return np.array([A[: held(v, 0, len(A) + 1)].sum() for v in x.tolist()], np.int32)


@tw.kernel
def chased(A: tw.i32[N], x: tw.i32[M], y: tw.u8[N]):
    """Every step follows the one before it."""
    r = tw.rdom(r=(1, M))
    p = tw.func("p", tw.i32)
    p[i] = 0
    p[r] = A[tw.assume(p[r - 1] + x[r], 0, N)]
    return p[:M]


def chased_loop(A, x, y):
    out = np.zeros(len(x), np.int32)
    for k in range(1, len(x)):
        out[k] = A[held(int(out[k - 1]) + int(x[k]), 0, len(A))]
    return out


CASES: list[tuple[tw.Kernel, Callable]] = [
    (gather, gather_loop), (chosen, chosen_loop), (counted, counted_loop), (ragged, ragged_loop), (chased, chased_loop),
]  # fmt: skip
NAMES = [k.__name__ for k, _ in CASES]


def by_hand(k: tw.Kernel):
    s = k.schedule()
    if k in (gather, chosen):
        s["f"].split("i", "io", "ii", 4).vectorize("ii").parallel("io")
    elif k is ragged:
        s["s.update"].split("i", "io", "ii", 4).reorder("io", "r", "ii").vectorize("ii")
    else:
        s["h.init" if k is counted else "p.init"].split("i", "io", "ii", 4).vectorize("ii")
    return s


@pytest.fixture(scope="module")
def debug():
    """Every kernel compiled with its promises checked: with the default schedule and with one by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_DEBUG", "1")
        return {k: [k.compile(), k.compile(by_hand(k))] for k, _ in CASES}


@st.composite
def data(draw):
    n = draw(st.integers(1, 6))
    count = draw(st.integers(0, 9))
    mostly = st.one_of(st.integers(0, n - 1), st.integers(0, n // 2), st.integers(-2, n + 1))
    x = draw(st.lists(mostly, min_size=count, max_size=count))
    y = draw(st.lists(st.integers(0, n if draw(st.booleans()) else n - 1), min_size=n, max_size=n))
    A = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    return np.array(A, np.int32), np.array(x, np.int32).reshape(count), np.array(y, np.uint8)


@pytest.mark.parametrize(("kernel", "loop"), CASES, ids=NAMES)
@given(arrays=data())
def test_broken_exactly_where_it_is_reached(debug, kernel, loop, arrays):
    try:
        want = loop(*arrays)
    except Broken:
        want = None
    for run in (kernel.reference, *debug[kernel]):
        if want is None:
            with pytest.raises(tw.AssumptionError) as e:
                run(*arrays)
            assert e.value.code == "kernel.assumption" and e.value.where[0].file == HERE
        else:
            assert same(run(*arrays), want)
    if want is not None:
        assert same(kernel(*arrays), want) and same(kernel.compile(by_hand(kernel))(*arrays), want)


def line(e: tw.TilewrightError) -> str:
    """The line of this file that an error names first."""
    return linecache.getline(HERE, e.where[0].line)


def test_the_place_and_the_value(debug):
    A, y = np.zeros(3, np.int32), np.array([0, 3, 1], np.uint8)
    for x, text in (([0, 3], "at = tw.assume(x[i], 0, N)"), ([0, 1], "f[i] = A[tw.assume(y[at], 0, N)]")):
        for run in (gather.reference, *debug[gather]):
            with pytest.raises(tw.AssumptionError) as e:
                run(A, np.array(x, np.int32), y)
            assert text in line(e.value)
            assert "tw.clamp" in str(e.value)
    with pytest.raises(tw.AssumptionError, match=r"0 <= x\[i\] < N, which does not hold: there is 3"):
        gather.reference(A, np.array([0, 3], np.int32), y)


def test_threads_and_out(debug):
    A, y = np.arange(4, dtype=np.int32), np.array([3, 2, 1, 0], np.uint8)
    x = np.arange(40, dtype=np.int32) % 4
    out = np.zeros(40, np.int32)
    for run in debug[gather]:
        assert run(A, x, y, out=out, threads=2) is out and same(out, gather_loop(A, x, y))


def test_inlined_promises_keep_their_place(monkeypatch):
    @tw.kernel
    def twice(A: tw.i32[N], x: tw.i32[M]):
        f, g = tw.func("f"), tw.func("g")
        f[i] = A[tw.assume(x[i], 0, N)]
        g[i] = f[i] + f[i + 1]
        return g[: M - 1]

    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    s = twice.schedule()
    s["f"].compute_inline()
    run = twice.compile(s)
    assert run(np.array([5, 7], np.int32), np.array([0, 1, 0], np.int32)).tolist() == [12, 12]
    with pytest.raises(tw.AssumptionError) as e:
        run(np.array([5, 7], np.int32), np.array([0, 1, 2], np.int32))
    assert "f[i] = A[tw.assume" in line(e.value)


def test_debug_mode_is_decided_when_compiling(monkeypatch):
    plain = gather.compile()
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    checked = gather.compile()
    assert "out.broken" in checked.source and "out.broken" not in plain.source
    assert "assume" not in plain.source

    @tw.kernel
    def nothing(A: tw.i32[N]):
        f = tw.func("f")
        f[i] = A[i]
        return f[:N]

    assert "broken" not in nothing.compile().source


# Bounds ---------------------------------------------------------------------------------------------------------


@given(st.integers(-9, 9), st.integers(0, 5), st.integers(-9, 9), st.integers(1, 9))
def test_ranges_are_believed(start, length, low, size):
    """Every value that keeps the promise lies in the interval, which is no wider than the promise says."""
    e = tw.assume(i, low, low + size)
    for f, at in ((e, lambda v: v), (e * 2 + 1, lambda v: 2 * v + 1), (tw.maximum(e, 0), lambda v: max(v, 0))):
        r = bounds(f.node, {i.node: Interval(integer(start), integer(start + length))})
        assert r.lo is not None and r.hi is not None
        kept = [at(v) for v in range(start, start + length + 1) if low <= v < low + size]
        assert all(r.lo.attr <= v <= r.hi.attr for v in kept)
        if length:
            assert at(max(start, low)) <= r.lo.attr and r.hi.attr <= at(low + size - 1)


def test_typed_values_keep_symbolic_bounds():
    A = tw.func("A", tw.i8)
    A[i] = tw.cast(tw.i8, i)
    r = bounds(tw.assume(A[i], 1, N).node, {})
    assert (r.lo, r.hi) == (integer(1), tw.minimum(N - 1, 127).node)


def test_equal_wherever_it_is_written():
    first = tw.assume(i, 0, N)
    second = tw.assume(i, 0, N)
    assert first.node is not second.node and first.node.digest == second.node.digest
    assert isinstance(first.node.attr, Location) and first.node.attr.line + 1 == second.node.attr.line
    assert repr(first) == "assume(i, 0, N)"


@pytest.mark.parametrize("kernel", [k for k, _ in CASES], ids=NAMES)
def test_text(kernel):
    p = kernel.pipeline()
    text = print_kernel(p)
    assert "assume(" in text and parse_kernel(text).digest == p.digest


# Points that nobody needs -----------------------------------------------------------------------------------------


@tw.kernel
def windows(A: tw.i32[N], w: tw.i32[M]):
    """Sums over windows that are promised to lie inside."""
    k = tw.rdom(k=M)
    c = tw.func("c")
    c[i] = 0
    c[i] += A[tw.assume(i + k, 0, N)] * w[k]
    return c[: N - M + 1]


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("memory", ["reg", "main"])
def test_tiles_do_not_go_beyond_what_is_promised(lanes, memory):
    """A tile of its own may compute too much, but not where a promise is all that keeps a read inside."""
    s = windows.schedule()
    s["c.update"].split("i", "io", "ii", 8).reorder("io", "k", "ii").split("ii", "ii", "lane", lanes)
    if lanes > 1:
        s["c.update"].vectorize("lane")
    s.cache_write("c", at="c.update.io", memory=memory)
    program = lower(Request(s.state, "strict", "tw_windows", ("contiguous",) * 3)).program
    for n, m in ((9, 3), (5, 5), (18, 2)):
        a, w, out = np.arange(n, dtype=np.int32), np.arange(m, dtype=np.int32), np.empty(n - m + 1, np.int32)
        failed, _ = run_program(program, [a, w, out], [{"M": m, "N": n}[x] for x in program.sizes])
        assert failed is None
        assert np.array_equal(out, np.correlate(a, w, "valid"))


@pytest.mark.parametrize("how", ["round_up", "align", "bound", "producer"])
def test_more_than_is_needed_is_refused(how):
    @tw.kernel
    def pairs(A: tw.i32[N], x: tw.i32[M]):
        p, q, out = tw.func("p"), tw.func("q"), tw.func("out")
        p[i] = A[tw.assume(x[i], 0, N)]
        q[i] = p[i] * 2
        out[i] = q[i] + p[i + 1]
        return out[: M - 9]

    s = pairs.schedule()
    f = s["q" if how == "producer" else "p"].compute_root()
    acts = {"align": lambda: f.align("i", 8), "bound": lambda: f.bound("i", 0, 16)}
    with pytest.raises(tw.ScheduleError) as e:
        acts.get(how, lambda: f.split("i", "io", "ii", 8, tail="round_up"))()
    assert e.value.code == "schedule.bound-assumed" and any(w.file == HERE for w in e.value.where)


# Mistakes -------------------------------------------------------------------------------------------------------


def test_what_can_not_be_assumed():
    A = tw.func("A", tw.f32)
    A[i] = 0.0
    with pytest.raises(tw.TypeRuleError, match="assume of f32") as e:
        tw.assume(A[i], 0, N)
    assert e.value.code == "type.assume" and e.value.where[0].file == HERE
    with pytest.raises(tw.TypeRuleError, match="a bound of assume is f64"):
        tw.assume(i, 0.5, N)
    with pytest.raises(tw.DefinitionError, match="the range of k"):
        tw.rdom(k=tw.assume(N, 0, M))
    with pytest.raises(tw.DefinitionError, match="output-slice"):
        A[: tw.assume(N, 0, M)]


def test_unbounded_indices_are_told_of_it():
    @tw.kernel
    def unbounded(A: tw.i32[N], x: tw.i64[M]):
        f = tw.func("f")
        f[i] = A[x[i]]
        return f[:M]

    with pytest.raises(tw.BoundsError, match=r"tw\.assume\(index, 0, n\)") as e:
        unbounded(np.zeros(3, np.int32), np.zeros(3, np.int64))
    assert e.value.code == "bounds.unbounded"

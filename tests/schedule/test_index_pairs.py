"""Updates of (value, index) pairs: which of them may run in partial results without another index for equal values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.lang import ir
from tilewright.lang.evaluate import evaluate
from tilewright.schedule import algebra

M, N = tw.sizes("M N")


def pairs(index, start=-1, value=float("-inf"), **ranges):
    """argmax as `tw.argmax` defines it, with an index, a first index and a first value of one's own."""

    @tw.kernel
    def kernel(a: tw.f32[M, N]):
        r = tw.rdom(**(ranges or {"x": N}))
        f = tw.func("f", (tw.f32, tw.i64))
        f[()] = (value, start)
        best, at = f[()]
        v = a[r.y if "y" in ranges else 0, r.x]
        wins = (at < 0) | (v > best) | ((v != v) & (best == best))
        f[()] = (tw.select(wins, v, best), tw.select(wins, tw.cast(tw.i64, index(r)), at))
        return f[()]

    return kernel


DATA = np.random.default_rng(0).integers(0, 3, (8, 101)).astype(np.float32)


@pytest.mark.parametrize(
    "kernel",
    [
        pairs(lambda r: r.x),
        pairs(lambda r: 3 * r.x + 7),
        pairs(lambda r: 100 * r.y + r.x, y=8, x=100),
        pairs(lambda r: r.x, start=5),
        pairs(lambda r: r.x, value=1.0),
        pairs(lambda r: r.x, start=-9, value=float("nan")),
    ],
    ids=["itself", "steps", "rows", "has-an-index", "has-a-value", "has-no-number"],
)
def test_growing_indices_may(kernel):
    once = kernel.schedule()
    once["f.update"].vectorize("x", 16)
    twice = kernel.schedule()
    twice["f.update"].split("x", "xo", "xi", 8).rfactor("xi", "part")
    twice["part.update[0]"].rfactor("xo", "parts")
    for s in (once, twice):
        testing.assert_bitwise(kernel.compile(s)(DATA), kernel.reference(DATA))


@pytest.mark.parametrize(
    "kernel",
    [
        pairs(lambda r: 1000 - r.x),
        pairs(lambda r: r.x // 2),
        pairs(lambda r: 99 * r.y + r.x, y=8, x=101),
        pairs(lambda r: r.x, y=8, x=100),
        pairs(lambda r: r.x - 1),
    ],
    ids=["falls", "repeats", "overlaps", "of-the-row-only", "may-count-as-none"],
)
def test_others_may_not(kernel):
    s = kernel.schedule()
    with pytest.raises(tw.ScheduleError) as refused:
        s["f.update"].vectorize("x", 16)
    assert refused.value.code == "schedule.not-associative"
    testing.assert_bitwise(kernel(DATA), kernel.reference(DATA))


# Every spelling ---------------------------------------------------------------------------------------------------------


def written(condition, dtype=tw.f32, index=tw.i64, exchanged=False, by_maximum=None, expression=lambda x: x, **ranges):
    """A kernel whose update is written with `condition(v, k, best, at)`; the initial pair is given."""

    @tw.kernel
    def kernel(a: dtype[N], value: dtype, start: index):
        r = tw.rdom(**(ranges or {"x": N}))
        f = tw.func("f", (dtype, index))
        f[()] = (value, start)
        best, at = f[()]
        v, k = a[r.x], tw.cast(index, expression(r.x))
        c = condition(v, k, best, at)
        first = tw.select(c, best, v) if exchanged else tw.select(c, v, best)
        if by_maximum is not None:
            first = by_maximum(best, v)
        f[()] = (first, tw.select(c, at, k) if exchanged else tw.select(c, k, at))
        return f[()]

    return kernel


ATOMS = {
    "v > best": lambda v, k, best, at: v > best,
    "best < v": lambda v, k, best, at: best < v,
    "v >= best": lambda v, k, best, at: v >= best,
    "best <= v": lambda v, k, best, at: best <= v,
    "v < best": lambda v, k, best, at: v < best,
    "best >= v": lambda v, k, best, at: best >= v,
    "not v <= best": lambda v, k, best, at: ~(v <= best),
    "v != v": lambda v, k, best, at: v != v,
    "first nan": lambda v, k, best, at: (v != v) & (best == best),
    "first nan again": lambda v, k, best, at: ~(best != best) & (v != v),
    "better or nan": lambda v, k, best, at: ~(v <= best) & (best == best),
    "at < 0": lambda v, k, best, at: at < 0,
    "at == -1": lambda v, k, best, at: at == -1,
    "k < at": lambda v, k, best, at: (v == best) & (k < at),
    "at < k": lambda v, k, best, at: (at < k) & (best == v),
    "best == v": lambda v, k, best, at: best == v,
    "v > 0": lambda v, k, best, at: v > 0,
}
FLOATS = np.array([np.nan, -np.inf, -0.0, 0.0, 1.0, np.inf], np.float32)
INTEGERS = np.array([-(2**31), -1, 0, 2**31 - 1], np.int32)
STARTS = np.array([-7, -1, 0, 2, 9])


def disjunction(names):
    def condition(v, k, best, at):
        out = ATOMS[names[0]](v, k, best, at)
        for n in names[1:]:
            out = out | ATOMS[n](v, k, best, at)
        return out

    return condition


def agrees(kernel, values, points=3):
    """Whether partial results give what the update gives point by point: for all values at all points, all initial
    pairs, all ways to part the points, in both orders of combining. None where it is no known reduction."""
    (d,) = kernel.pipeline().funcs[0].updates
    found = algebra.match(d)
    if found is None:
        return None
    grid = np.meshgrid(*[values] * points, values, STARTS, indexing="ij")
    *data, first, start = (g.reshape(-1) for g in grid)
    (load,) = [n for n in ir.leaves(d.values, "load") if n.attr[0] is not d.func]
    mine = tuple(algebra.self_load(d, c) for c in (0, 1))
    index = d.func.dtypes[1].np
    x = d.rdom.rvar("x")

    def step(state, k):
        return evaluate(d.values, {load: data[k], x: np.int64(k), mine[0]: state[0], mine[1]: state[1]})

    def apply(fn, *states):
        nodes = [
            tuple(ir.node("scalar", t.compute, (), f"{i}{c}") for c, t in enumerate(ts))
            for i, (ts, _) in enumerate(states)
        ]
        env = {n: v for pair, (_, values) in zip(nodes, states, strict=True) for n, v in zip(pair, values, strict=True)}
        return evaluate(fn(*nodes), {**env, N.node: np.int64(points)})

    def partial_step(state, k):
        nodes = tuple(ir.node("scalar", t.compute, (), str(c)) for c, t in enumerate(found.dtypes))
        return evaluate(found.steps(nodes), {load: data[k], x: np.int64(k), nodes[0]: state[0], nodes[1]: state[1]})

    want = (first, start.astype(index))
    for k in range(points):
        want = step(want, k)
    for parted in range(2**points):
        parts = []
        for side in (0, 1):
            state = tuple(np.broadcast_to(v, first.shape) for v in evaluate(found.identity, {}))
            for k in range(points):
                if parted >> k & 1 == side:
                    state = partial_step(state, k)
            parts.append(state)
        for a, b in (parts, parts[::-1]):
            both = apply(found.combine, (found.dtypes, a), (found.dtypes, b))
            got = apply(found.merge, (d.func.dtypes, (first, start.astype(index))), (found.dtypes, both))
            for g, w in zip(got, want, strict=True):
                same = (g == w) & (np.signbit(g) == np.signbit(w)) if g.dtype.kind == "f" else g == w
                if not (same | ((g != g) & (w != w))).all():
                    return False
    return True


KNOWN = {
    "floats": [
        ("v > best",), ("best < v",), ("v >= best",), ("best <= v",), ("v < best",), ("best >= v",),
        ("v > best", "first nan"), ("first nan again", "best < v"), ("v >= best", "v != v"), ("best >= v", "v != v"),
        ("at < 0", "v > best", "first nan"), ("at < 0", "better or nan"), ("at == -1", "v >= best", "v != v"),
        ("v > best", "k < at"), ("at < k", "best < v"), ("v < best", "k < at"),
    ],
    "integers": [
        ("v > best",), ("best < v",), ("v >= best",), ("best <= v",), ("v < best",), ("best >= v",), ("not v <= best",),
        ("at < 0", "v > best"), ("at == -1", "v >= best"), ("v < best", "at < 0"), ("v > best", "k < at"),
        ("at < k", "v > best"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind, dtype, values", [("floats", tw.f32, FLOATS), ("integers", tw.i32, INTEGERS)])
def test_all_conditions(kind, dtype, values):
    """What is taken for a reduction is one, whatever it is made of; and all common spellings are taken for one."""
    known = {frozenset(names) for names in KNOWN[kind]}
    accepted = set()
    every = [c for n in (1, 2, 3) for c in itertools.combinations(ATOMS, n)]
    for names in every:
        result = agrees(written(disjunction(names), dtype), values)
        assert result is not False, names
        if result:
            accepted.add(frozenset(names))
            assert agrees(written(disjunction(names), dtype), values, points=0), names
    assert known <= accepted, known - accepted
    assert len(accepted) < len(every) / 5


@pytest.mark.parametrize("names", [("v > best",), ("best <= v",), ("v < best",), ("not v <= best",), ("at < 0",)])
@pytest.mark.parametrize("dtype, values", [(tw.f32, FLOATS), (tw.i32, INTEGERS)])
def test_arms_exchanged(names, dtype, values):
    result = agrees(written(disjunction(names), dtype, exchanged=True), values)
    numbers = dtype is tw.f32 and names != ("not v <= best",)  # not (v > best) is no v <= best where there is a NaN
    assert result is (None if numbers or names == ("at < 0",) else True)


@pytest.mark.parametrize(
    "names, by", [(("v > best",), tw.maximum), (("best <= v",), tw.maximum), (("v < best",), tw.minimum)]
)
def test_the_value_as_a_maximum(names, by):
    assert agrees(written(disjunction(names), tw.i32, by_maximum=by), INTEGERS) is True
    assert agrees(written(disjunction(names), tw.i32, by_maximum=lambda a, b: by(b, a)), INTEGERS) is True
    other = tw.minimum if by is tw.maximum else tw.maximum
    assert agrees(written(disjunction(names), tw.i32, by_maximum=other), INTEGERS) is None
    assert agrees(written(disjunction(names), tw.f32, by_maximum=by), FLOATS) is None  # NaN


@pytest.mark.parametrize("index", [tw.i64, tw.i32, tw.i16, tw.i8, tw.u8, tw.u64])
@pytest.mark.parametrize("names", [("v > best",), ("best <= v",), ("v > best", "k < at"), ("at < 0", "v > best")])
def test_types_of_the_index(index, names):
    if index in (tw.u8, tw.u64) and "at < 0" in names:
        return
    for expression in (lambda x: x, lambda x: 100 * x + 77, lambda x: x - 2, lambda x: 3 - x, lambda x: x // 2):
        result = agrees(written(disjunction(names), tw.i32, index, expression=expression), INTEGERS)
        assert result is not False
        if "k < at" in names:
            assert result is True  # any order of the points, also where indices wrap
    constant = agrees(written(disjunction(names), tw.i32, index, x=100), INTEGERS)
    assert constant is True


@pytest.mark.parametrize(
    "condition, dtype, index",
    [
        (lambda v, k, best, at: v > best, tw.f32, tw.i32),
        (lambda v, k, best, at: best <= v, tw.f64, tw.i64),
        (lambda v, k, best, at: (v < best) | ((v != v) & (best == best)), tw.f32, tw.i64),
        (lambda v, k, best, at: (v > best) | ((v == best) & (k < at)), tw.i8, tw.i32),
        (lambda v, k, best, at: v >= best, tw.u8, tw.u32),
    ],
)
def test_schedules(condition, dtype, index):
    kernel = written(condition, dtype, index)
    plain, lanes, tasks, twice = (kernel.schedule() for _ in range(4))
    plain["f.update"].unscheduled()
    lanes["f.update"].vectorize("x", 16)
    tasks["f.update"].parallel("x", 32)
    twice["f.update"].split("x", "xo", "xi", 8).rfactor("xi", "part")
    twice["part.update[0]"].rfactor("xo", "parts")
    for n in (0, 1, 7, 16, 101):
        a = np.random.default_rng(n).integers(0, 4, n).astype(dtype.np)
        if dtype.is_float and n > 20:
            a[[3, 60]] = np.nan
            a[5] = np.inf
        for value, start in ((0, 0), (3, 9)):
            want = kernel.reference(a, value, start)
            for s in (plain, lanes, tasks, twice, None):
                testing.assert_bitwise(kernel.compile(s)(a, value, start), want)


def test_values_are_those_of_numpy():
    a = np.random.default_rng(5).integers(0, 20, 101).astype(np.float32)
    cases = [
        (lambda v, k, best, at: v > best, np.argmax(a)), (lambda v, k, best, at: best <= v, 100 - np.argmax(a[::-1])),
        (lambda v, k, best, at: best > v, np.argmin(a)), (lambda v, k, best, at: v <= best, 100 - np.argmin(a[::-1])),
        (lambda v, k, best, at: (best < v) | ((v == best) & (at > k)), np.argmax(a)),
    ]  # fmt: skip
    for condition, want in cases:
        kernel = written(condition, tw.f32, tw.i32)
        s = kernel.schedule()
        s["f.update"].vectorize("x", 16)
        assert int(kernel.compile(s)(a, a[0], 0)[1]) == want


def test_argmax_over_a_range_that_starts_below_zero():
    @tw.kernel
    def k(a: tw.f32[N]):
        x, y = tw.rdom(x=(-5, 5)), tw.rdom(y=(2 - N, 2))
        hi, lo = tw.func("hi"), tw.func("lo")
        hi[()] = tw.argmax(a[x + 5], over=x)
        lo[()] = tw.argmin(a[y + N - 2], over=y)
        return hi[()], lo[()]

    for n in (10, 12):
        a = np.random.default_rng(n).permutation(n).astype(np.float32)
        want = int(np.argmax(a[:10])) - 5, int(np.argmin(a)) + 2 - n
        assert tuple(map(int, k.reference(a))) == want == tuple(map(int, k(a)))


@tw.kernel
def largest_of_rows(a: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    f = tw.func("f")
    f[i] = tw.argmax(a[i, k], over=k)
    return f[:M]


@pytest.mark.parametrize("n", [1, 5, 64, 200])
def test_rows_without_anything_better_than_the_identity(n):
    """Nothing but -inf: the first one; after NaN, nothing counts any more."""
    a = np.full((4, n), -np.inf, np.float32)
    a[1, n // 2] = np.nan
    a[2, -1] = -1e38
    a[3] = np.nan
    np.testing.assert_array_equal(largest_of_rows(a), np.argmax(a, 1))


def test_empty_rows_have_no_largest():
    np.testing.assert_array_equal(largest_of_rows(np.empty((3, 0), np.float32)), [-1, -1, -1])

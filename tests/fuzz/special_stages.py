"""Stages that some directives are made for: dependent reductions, pyramids, chains of stencils, pairs, twins.

Each is a function of a `Maker`, registered under its name; random_pipeline draws them like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.random_pipelines import EXACT, FLOATS, STAGES, K, M, Maker, N
from tilewright.lang import expr, types
from tilewright.lang.extern import extern
from tilewright.lang.extern_stage import extern_stage
from tilewright.lang.func import func
from tilewright.lang.math import exp, exp2
from tilewright.lang.symbols import Var, rdom

Stage = Callable[[Maker], Any]


def stage(fn: Stage) -> Stage:
    STAGES[fn.__name__] = fn
    return fn


def lowest(m: Maker) -> Any:
    """What a maximum starts from."""
    return float("-inf") if m.t.is_float else m.t.low


@stage
def dependent(m: Maker) -> None:
    """A maximum, a sum that uses it, and now and then a weighted sum: softmax, log-sum-exp, attention, with masks.

    Integers have maxima of what an earlier maximum is taken from.
    """
    if m.t.is_float and m.t.is_storage_only and m.choose(2):
        m.t = types.f32
    i, j = Var("i"), Var("j")
    mask, over = m.choose(5), m.pick([K, N, N, 4])
    rank, element = m.source()

    def score(a: Any, k: Any) -> Any:
        if rank == 0:
            return m.value(element()) + m.value(expr.cast(types.i64, k))
        return m.value(element(k) if rank == 1 else element(*[a, k, k][:rank]))

    at = lambda k: score(i, k)  # noqa: E731
    if m.choose(3) == 0:  # the scores have a Func of their own
        x = func(m.name(), m.t)
        x[i, j] = score(i, j)
        at = lambda k: x[i, k]  # noqa: E731

    def domain() -> Any:
        d = rdom(k=over)
        if mask == 0:
            d.where(d.k <= i)
        elif mask == 1:
            d.where(d.k < m.lengths[expr.clamp(i, 0, M - 1)])
            if m.lengths not in m.params:
                m.params.append(m.lengths)
        return d.k

    top, k = func(m.name(), m.t), domain()
    top[i] = lowest(m)
    top[i] = expr.maximum(top[i], at(k))
    m.add(top, 1)
    if m.t.is_float:
        _exponentials(m, top, at, domain)
    else:
        k, low = domain(), func(m.name(), m.t)
        low[i] = m.t.high
        low[i] = expr.minimum(low[i], at(k) - top[i])
        m.add(low, 1)


def _exponentials(m: Maker, top: Any, at: Any, domain: Any) -> None:
    i, j = Var("i"), Var("j")
    e = m.pick([exp2, exp2, exp])
    total, k = func(m.name(), m.t), domain()
    total[i] = 0.0
    total[i] += e(at(k) - top[i])
    m.add(total, 1)
    if m.choose(2):
        out, k = func(m.name(), m.t), domain()
        out[i, j] = 0.0
        out[i, j] += e(at(k) - top[i]) * m.read([k, j])
        y = func(m.name(), m.t)
        y[i, j] = out[i, j] / total[i] if m.choose(2) else out[i, j] - total[i]
        m.add(out, 2)
        m.add(y, 2)


@stage
def independent(m: Maker) -> None:
    """Two or three reductions over one box that don't depend on each other."""
    i, over = Var("i"), m.pick([K, N, 5])
    for _ in range(2 + m.choose(2)):
        f, k = func(m.name(), m.t), rdom(k=over).k
        f[i] = m.pick([0, 1])
        term = m.read([i, k]) + m.zero(k)
        if m.choose(2):
            f[i] += term
        else:
            f[i] = expr.maximum(f[i], term)
        m.add(f, 1)


@stage
def exponential_pair(m: Maker) -> None:
    """(maximum, sum of exponentials) as a tuple; of integers (product, sum) as complex numbers."""
    if not m.t.is_float or m.t.is_storage_only:
        return complex_product(m)
    f, i, k = func(m.name(), (m.t, m.t)), Var("i"), rdom(k=m.pick([K, N, 5])).k
    f[i] = (float("-inf"), 0.0)
    top, total = f[i]
    x = m.read([i, k]) + m.zero(k)
    new = expr.maximum(top, x)
    term = expr.select(x == new, 1, exp2(x - new))
    f[i] = (new, total * expr.select(top == new, 1, exp2(top - new)) + term)
    m.add(f, 1)
    return None


@stage
def complex_product(m: Maker) -> None:
    f, i, k = func(m.name(), (m.t, m.t)), Var("i"), rdom(k=m.pick([K, N, 5])).k
    f[i] = (1, 0)
    re, im = f[i]
    c, d = m.read([i, k]) + m.zero(k), m.read([k, i])
    f[i] = (re * c - im * d, re * d + im * c)
    m.add(f, 1)
    return None


@stage
def pyramid(m: Maker) -> None:
    """One or two levels down, and up again."""
    i, j = Var("i"), Var("j")
    for _ in range(1 + m.choose(2)):
        rank, element = m.source()
        f = func(m.name(), m.t)
        a, b = ([2 * i, 2 * j, j], [2 * i + 1, 2 * j + 1, j]) if m.choose(2) else ([2 * i, j, j], [2 * i + 1, j, i])
        f[i, j] = m.combined(m.value(element(*a[:rank])), m.value(element(*b[:rank])))
        m.add(f, 2)
    for _ in range(1 + m.choose(2)):
        below = m.sources[0][1]
        f = func(m.name(), m.t)
        f[i, j] = m.combined(m.value(below(i // 2, j // 2)), m.value(below((i + 1) // 2, (j + 1) // 2)))
        m.add(f, 2)


@stage
def stencils(m: Maker) -> None:
    """A chain of stencils along one axis or both."""
    i, j = Var("i"), Var("j")
    for _ in range(1 + m.choose(3)):
        rank, element = m.sources[0]
        f, across = func(m.name(), m.t), m.choose(3)
        reach = range(-1 - m.choose(2), 1 + m.choose(3))
        total: Any = None
        for d in reach:
            at = [i + d if across != 1 else i, j + d if across else j, i + d]
            term = m.value(element(*at[:rank]))
            total = term if total is None else m.combined(total, term) if m.choose(3) == 0 else total + term
        f[i, j] = total
        m.add(f, 2)


@stage
def twins(m: Maker) -> None:
    """Two stages over the same Vars, neither of which reads the other, and one that reads both."""
    names = [Var(n) for n in ("i", "j")[: 1 + m.choose(2)]]
    found = []
    for _ in range(2):
        f = func(m.name(), m.t)
        rank, element = m.sources[-1 - m.choose(len(m.sources))]
        f[tuple(names)] = m.combined(m.value(element(*[names[k % len(names)] for k in range(rank)])), m.read(names))
        if m.choose(3) == 0:
            k = rdom(k=m.pick([K, 3])).k
            f[tuple(names)] += m.value(element(*[k, *names, k][:rank])) + m.zero(k)
        found.append(f)
    both = func(m.name(), m.t)
    both[tuple(names)] = m.combined(found[0][tuple(names)], found[1][tuple(v + m.shift() for v in names)])
    for f in (*found, both):
        m.add(f, len(names))


@stage
def converted(m: Maker) -> None:
    """A Func of another type of the same kind."""
    old = m.t
    m.t = m.pick(FLOATS if old.is_float else EXACT)
    STAGES["pure"](m)
    m.t = old


@stage
def conditions(m: Maker) -> None:
    """Whether all, or any, of some elements keep a condition."""
    f, i, k = func(m.name(), types.bool_), Var("i"), rdom(k=m.pick([K, N, 4])).k
    every = bool(m.choose(2))
    holds = (m.read([i, k]) + m.zero(k)) < m.read([i])
    f[i] = expr.wrap(expr.to_node(every, types.bool_))
    f[i] = f[i] & holds if every else f[i] | holds
    element = f
    m.sources.insert(0, (1, lambda a: expr.select(element[a], m.value(expr.cast(types.i64, a)), 1)))


@stage
def bits(m: Maker) -> None:
    """An and, or, xor of integers."""
    if m.t.is_float:
        return conditions(m)
    f, i, k = func(m.name(), m.t), Var("i"), rdom(k=m.pick([K, N, 4])).k
    f[i] = m.pick([0, 3])
    term, kind = m.read([i, k]) + m.zero(k), m.choose(3)
    f[i] = f[i] & term if kind == 0 else f[i] | term if kind == 1 else f[i] ^ term
    m.add(f, 1)
    return None


@stage
def contraction(m: Maker) -> None:
    """A product of matrices."""
    f, (i, j), k = func(m.name(), m.t), (Var("i"), Var("j")), rdom(k=m.pick([K, K, N])).k
    f[i, j] = 0
    f[i, j] += (
        m.read([i, k]) * m.read([k, j]) + m.zero(k) if m.choose(2) else (m.read([i, k]) + m.zero(k)) * m.read([k, j])
    )
    m.add(f, 2)


@stage
def attention(m: Maker) -> None:
    """Scores that are sums themselves, scaled, masked, normalised and summed up: what `online` keeps to one block."""
    if not m.t.is_float or m.t.is_storage_only:
        return contraction(m)
    i, j, over, mask = Var("i"), Var("j"), m.pick([N, K, 5]), m.choose(4)
    scores, scaled, weights, e = func(m.name(), m.t), func(m.name(), m.t), func(m.name(), m.t), rdom(e=m.pick([K, 3])).e
    scores[i, j] = 0.0
    scores[i, j] += m.read([i, e]) * m.read([j, e]) + m.zero(e)
    seen = expr.inside(j, 0, i + 1) if mask == 0 else expr.inside(j, 0, K) if mask == 1 else None
    scaled[i, j] = scores[i, j] * 0.5 if seen is None else expr.select(seen, scores[i, j], lowest(m))
    top, total, out, y = (func(m.name(), m.t) for _ in range(4))
    k = rdom(k=over).k
    top[i] = lowest(m)
    top[i] = expr.maximum(top[i], scaled[i, k])
    weights[i, j] = exp2(scaled[i, j] - top[i])
    k = rdom(k=over).k
    total[i] = 0.0
    total[i] += weights[i, k]
    k = rdom(k=over).k
    out[i, j] = 0.0
    out[i, j] += weights[i, k] * m.read([k, j])
    y[i, j] = out[i, j] / total[i] if m.choose(2) else out[i, j] - total[i]
    for f in (out, y):
        m.add(f, 2)
    return None


@stage
def wavefront(m: Maker) -> None:
    """Every element from its neighbours above and to the left, as they have become."""
    f, (i, j) = func(m.name(), m.t), (Var("i"), Var("j"))
    f[i, j] = m.expression([i, j], 1)
    d = rdom(y=(1, m.pick([M, 4, N])), x=(1, m.pick([N, 5])))
    f[d.y, d.x] = m.combined(f[d.y - 1, d.x], f[d.y, d.x - 1]) if m.choose(2) else f[d.y - 1, d.x] + f[d.y, d.x]
    m.add(f, 2)


def three_rows(out: Any, a: Any) -> None:
    """A stencil of the user's own: wraps like ours, whatever box it is asked for."""
    with np.errstate(all="ignore"):
        out[...] = a[:-2] + 2 * a[1:-1] - a[2:]


def row_ends(out: Any, a: Any, n: int) -> None:
    """The ends of whole rows, beside each other."""
    with np.errstate(all="ignore"):
        out[...] = a[:, :1] - a[:, -1:] + (np.arange(out.shape[1]) + out.origin[1] + n).astype(a.dtype)


@stage
def extern_rows(m: Maker) -> None:
    """A stage that is a Python function, of boxes of a Func."""
    if m.t.is_float:
        return STAGES["pure"](m)
    a, f, (i, j) = func(m.name(), m.t), func(m.name(), m.t), (Var("i"), Var("j"))
    a[i, j] = m.read([i, j])
    if m.choose(2):
        f[i, j] = extern_stage(three_rows)(a.box[i - 1 : i + 2, j])
    else:
        f[i, j] = extern_stage(row_ends)(a.box[i, 0:4], m.pick([M, N]))
    m.add(f, 2)
    return None


def _odd_one(x: int, y: int) -> int:
    return x - y if x % 2 else y


odd_one = extern(_odd_one, types.i64, (types.i64, types.i64))


@stage
def extern_function(m: Maker) -> None:
    """A function of the user's own, point by point."""
    f, (i, j) = func(m.name(), m.t), (Var("i"), Var("j"))
    whole = lambda x: expr.cast(types.i64, expr.clamp(x, 0, 100))  # noqa: E731
    f[i, j] = m.value(odd_one(whole(m.read([i, j])), whole(m.read([j, i]))))
    m.add(f, 2)


@stage
def moments(m: Maker) -> None:
    """Sums, and a sum of a polynomial in what they come to: variance, covariance, about the mean or another point."""
    if not m.t.is_float or m.t.is_storage_only:
        return dependent(m)
    i, over = Var("i"), m.pick([N, K, 4])
    rank, element = m.source()
    x = lambda k: m.value(element(*[i, k, k][:rank])) if rank > 1 else m.read([i, k]) + m.zero(k)  # noqa: E731
    total, other, late = (func(m.name(), m.t) for _ in range(3))
    for f in (total, other):
        k = rdom(k=over).k
        f[i] = 0.0
        f[i] += x(k)
    k, kind = rdom(k=over).k, m.choose(4)
    late[i] = m.pick([0.0, 1.0])
    a, b = x(k) - total[i] / over, x(k) - other[i] * 0.25
    late[i] += (a * a, a * b, b * x(k), x(k) * other[i] - total[i])[kind]
    for f in (total, other, late):
        m.add(f, 1)
    return None

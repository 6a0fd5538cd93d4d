"""Random producers and consumers by stencils, for tests of what is kept between iterations of a loop.

One or two axes, strides 1 to 3, consumers that walk downwards, that take every second row or each row twice; producers
that are pure, updated, scanned or sums; two consumers; chains. All is drawn by a function `choose(n)` that gives
0..n-1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.lang import boundary, expr, types
from tilewright.lang.func import Func, func
from tilewright.lang.pipeline import Pipeline, make_pipeline
from tilewright.lang.symbols import Var, rdom, sizes
from tilewright.lang.tensors import Array

Choose = Callable[[int], int]
M, N = sizes("M N")


def pick(choose: Choose, items: Any) -> Any:
    items = list(items)
    return items[choose(len(items))]


def stencils(choose: Choose) -> Pipeline:
    """A chain of one to three stages before the last one, named `p0`, `p1`, ...; the last one is `out`, its second
    consumer, if there is one, `also`."""
    rank = pick(choose, [1, 2, 2])
    a = Array("A", types.i32, (M.node, N.node)[:rank])
    edges = pick(choose, [boundary.repeat_edge, lambda x: boundary.constant_exterior(x, 3), boundary.wrap_around])
    source: Any = edges(a)
    names = ["y", "x"][:rank]
    chain = []
    for k in range(1 + choose(3)):
        f = func(f"p{k}")
        at = [Var(n) for n in names]
        f[tuple(at)] = stencil(choose, source, at, plain=k == 0)
        updated(choose, f, at, source)
        chain.append(f)
        source = f
    at = [Var(n) for n in names]
    out = func("out")
    out[tuple(at)] = stencil(choose, source, at)
    if choose(4) == 0:
        more = stencil(choose, chain[0], at)
        out[tuple(at)] += more
    results = [out[ends(choose, rank)]]
    if choose(4) == 0:
        also = func("also")
        also[tuple(at)] = stencil(choose, pick(choose, chain), at)
        results.append(also[ends(choose, rank)])
    return make_pipeline(tuple(results) if len(results) > 1 else results[0], [a], "stencils")


def ends(choose: Choose, rank: int) -> tuple[slice, ...]:
    found = []
    for n in (M, N)[:rank]:
        low = pick(choose, [0, 0, 0, -2, 1])
        found.append(slice(low, low + n))
    return tuple(found)


def stencil(choose: Choose, source: Any, at: list[Any], plain: bool = False) -> Any:
    """A weighted sum of some elements around a place that moves with the variables."""
    places = [moved(choose, v, n, plain) for v, n in zip(at, (M, N), strict=False)]
    total: Any = None
    for k in range(1 + choose(4)):
        term = source[tuple(p + (choose(4) - 1 if choose(3) else 0) for p in places)] * (k + 1)
        total = term if total is None else total + term
    return total


def moved(choose: Choose, v: Any, n: Any, plain: bool) -> Any:
    """How a consumer walks along an axis."""
    kind = 0 if plain else choose(9)
    if kind < 3:
        return v
    if kind == 3:
        return v * pick(choose, [2, 3])
    if kind == 4:
        return v // pick(choose, [2, 3])
    if kind == 5:
        return n - 1 - v
    if kind == 6:
        return pick(choose, [3, 0]) - 2 * v
    if kind == 7:
        return expr.clamp(v, 0, n - 1)
    return expr.minimum(v, pick(choose, [2, 5]))


def updated(choose: Choose, f: Func, at: list[Any], source: Any) -> None:
    """One of several kinds of updates, or none."""
    kind = choose(9)
    if kind == 0:
        f[tuple(at)] = f[tuple(at)] * 2 + at[0]
    elif kind == 1:
        r = rdom(r=pick(choose, [2, 3])).r
        f[tuple(at)] += source[(at[0] + r, *at[1:])]
    elif kind == 2:
        r = rdom(r=(1, 3)).r
        f[(r, *at[1:])] = f[(r - 1, *at[1:])] + f[(r, *at[1:])]
    elif kind == 3 and len(at) > 1:
        r = rdom(r=(0, N)).r
        f[at[0], r] = f[at[0], r] + f[at[0], expr.maximum(r - 1, 0)]


def arrays(p: Pipeline, m: int, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Small integers for the input."""
    rng = np.random.default_rng(seed)
    return {a.name: rng.integers(-9, 10, (m, n)[: a.ndim]).astype(a.dtype.np) for a in p.arrays}


def extents(p: Pipeline, m: int, n: int) -> dict[str, int]:
    return {k: v for k, v in {"M": m, "N": n}.items() if k in p.sizes}

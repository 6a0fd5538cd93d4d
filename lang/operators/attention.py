"""Attention with grouped heads, rotary positions, and caches of keys and values."""

from __future__ import annotations

import math as number
from typing import Any

from tilewright.lang import expr, math
from tilewright.lang.expr import Expr
from tilewright.lang.func import InoutFunc, automatic
from tilewright.lang.operators.shapes import reshape, split_axis
from tilewright.lang.operators.value import Operand, Value, elementwise, is_scalar, literal, same, to_f, value
from tilewright.lang.reduce import accumulate
from tilewright.lang.symbols import RDom, Var, bad, rdom

_LOG2_E = 1 / number.log(2)


def attention(
    q: Operand, k: Operand, v: Operand, *, scale: Any = None, causal: bool = False, past: Operand | None = None,
    lengths: Operand | None = None,
) -> Value:  # fmt: skip
    """softmax(scale * q k') v for every head, written out: scores, their largest, weights, sums.

    q: (B, H, M, D), k: (B, H, N, D), v: (B, H, N, E) give (B, H, M, E). Where several heads of queries share one of keys
    and values, q is (B, H, G, M, D), which gives (B, H, G, M, E), or (B, H * G, M, D), which gives (B, H * G, M, E).
    `scale` is 1 / sqrt(D) by default.

    `causal`: query i sees the keys up to i + past; `past` (a scalar, or (B,) of i64) is N - M by default, so that the
    last query sees all. `lengths` (a scalar, or (B,)): keys from there on are not seen. A query that sees none gives NaN.
    """
    x, y, z = value(q), value(k), value(v)
    if x.ndim == 4 and y.ndim == 4 and not same(x.shape[1], y.shape[1]):
        grouped = attention(split_axis(x, 1, y.shape[1]), y, z, scale=scale, causal=causal, past=past, lengths=lengths)
        return reshape(grouped, (*x.shape[:3], z.shape[3]))
    _check(x, y, z)
    b, h, i, j, e = (Var(c) for c in "bhije")
    lead = (b, h) if x.ndim == 4 else (b, h, Var("g"))
    seen = _seen(i, b, x.shape[-2], y.shape[2], causal, past, lengths)
    query, score, weight, sums, out = (automatic(n) for n in ("query", "score", "weight", "sums", "attention"))
    d = rdom(d=x.shape[-1])
    query[(*lead, i, e)] = x[(*lead, i, e)] * (_scale(x, scale) * _LOG2_E)  # exp2 of these scores is exp of the scaled
    score[(*lead, i, j)] += query[(*lead, i, d.d)] * y[b, h, j, d.d]
    largest = accumulate(automatic("largest"), "max", (*lead, i), score[(*lead, i, seen)])
    weight[(*lead, i, j)] = math.exp2(score[(*lead, i, j)] - largest[(*lead, i)])
    total = accumulate(automatic("total"), "sum", (*lead, i), weight[(*lead, i, seen)])
    sums[(*lead, i, e)] += weight[(*lead, i, seen)] * z[b, h, seen, e]
    out[(*lead, i, e)] = sums[(*lead, i, e)] / total[(*lead, i)]
    return Value(out, (*x.shape[:-1], z.shape[3]))


def _check(x: Value, y: Value, z: Value) -> None:
    fits = x.ndim in (4, 5) and y.ndim == 4 and z.ndim == 4
    pairs = [(0, 0), (1, 1), (x.ndim - 1, 3)] if fits else []
    if not fits or not all(same(x.shape[a], y.shape[c]) for a, c in pairs) or not all(map(same, y.shape[:3], z.shape)):
        raise bad(f"attention of {x!r}, {y!r}, {z!r}", "shape",
                  "q: (B, H, M, D) or, grouped, (B, H, G, M, D); k: (B, H, N, D); v: (B, H, N, E)")  # fmt: skip


def _scale(x: Value, given: Any) -> Any:
    if given is not None:
        return given
    d = literal(x.shape[-1])
    return 1 / expr.sqrt(to_f(x.shape[-1], x)) if d is None else d**-0.5


def _seen(i: Var, b: Var, queries: Expr, keys: Expr, causal: bool, past: Operand, lengths: Operand) -> RDom:
    """The keys that query `i` of sequence `b` sees."""
    k = rdom(k=keys)
    if causal:
        k = k.where(k <= i + (keys - queries if past is None else _of_sequence(past, b)))
    elif past is not None:
        raise bad("past= without causal=True", "operator-option", "it says what a query sees of a causal mask")
    return k if lengths is None else k.where(k < _of_sequence(lengths, b))


def _of_sequence(x: Operand, b: Var) -> Any:
    """A number that is given once, or for each sequence."""
    if is_scalar(x):
        return x
    v = value(x)
    return v[(b,) if v.ndim else ()]


def append(cache: InoutFunc, new: Operand, at: Operand) -> Value:
    """Write keys or values into a cache in place, and give the cache after that.

    cache: an `inout` (B, H, N, D), new: (B, H, T, D), at: where the first of the T goes (a scalar, or (B,) of i64). What
    would go beyond the end goes to the last place: nothing outside is touched.
    """
    if not isinstance(cache, InoutFunc):
        raise bad(f"append to {cache!r}", "operand", "the cache is a parameter: cache: tw.inout(tw.f32[B, H, N, D])")
    fresh, whole = value(new), value(cache)
    if whole.ndim != 4 or fresh.ndim != 4 or not all(same(fresh.shape[k], whole.shape[k]) for k in (0, 1, 3)):
        raise bad(f"append of {fresh!r} to {whole!r}", "shape", "cache: (B, H, N, D), new: (B, H, T, D)")
    b, h, e = Var("b"), Var("h"), Var("e")
    t = 0 if same(fresh.shape[2], 1) else rdom(t=fresh.shape[2])
    place = expr.clamp(_of_sequence(at, b) + t, 0, whole.shape[2] - 1)
    cache[b, h, place, e] = fresh[b, h, t, e]
    return whole


def rotary(x: Operand, cosine: Operand, sine: Operand, *, interleaved: bool = False) -> Value:
    """Pairs of numbers of x (..., T, D) turned by angles, of which cosine and sine are given: (T, D / 2).

    Pairs are the two halves of the last axis, or (`interleaved`) neighbours. `cosine` and `sine` may have axes in front,
    as x has them (or 1): positions of their own for every sequence are (B, 1, T, D / 2).
    """
    v = value(x)
    paired = split_axis(v, -1, 2) if not interleaved else reshape(v, (*v.shape[:-1], -1, 2))
    half = paired.ndim - (2 if not interleaved else 1)
    first, second = (_half(paired, half, k) for k in (0, 1))
    one = elementwise(lambda a, b, c, s: a * c - b * s, first, second, cosine, sine, name="turned_first")
    two = elementwise(lambda a, b, c, s: b * c + a * s, first, second, cosine, sine, name="turned_second")
    out = automatic("rotary")
    at = tuple(Var(f"x{k}") for k in range(v.ndim))
    n = one.shape[-1]
    if interleaved:
        pair, odd = at[-1] // 2, at[-1] % 2 != 0
        out[at] = expr.select(odd, two[(*at[:-1], pair)], one[(*at[:-1], pair)])
    else:
        out[at] = expr.select(at[-1] < n, one[at], two[(*at[:-1], at[-1] - n)])
    return Value(out, v.shape)


def _half(paired: Value, axis: int, k: int) -> Value:
    out = automatic("half")
    at = tuple(Var(f"x{j}") for j in range(paired.ndim - 1))
    out[at] = paired[(*at[:axis], k, *at[axis:])]
    return Value(out, (*paired.shape[:axis], *paired.shape[axis + 1 :]))


__all__ = ["append", "attention", "rotary"]

"""Products of matrices, with batches and transposes."""

from __future__ import annotations

from tilewright.lang.expr import Expr
from tilewright.lang.func import automatic
from tilewright.lang.operators.monomials import product
from tilewright.lang.operators.value import (
    Operand,
    Value,
    broadcast,
    elementwise,
    same,
    stretched,
    to_f,
    value,
    variables,
)
from tilewright.lang.symbols import Var, bad, rdom


def matmul(
    a: Operand, b: Operand, *, transpose_a: bool = False, transpose_b: bool = False, name: str = "matmul"
) -> Value:
    """Sums of products over the last axis of `a` and the last but one of `b`; axes before these two are batches.

    Shapes (..., M, K) and (..., K, N) give (..., M, N); batches are broadcast as in NumPy. With `transpose_a`, `a` is
    (..., K, M), with `transpose_b`, `b` is (..., N, K): nothing is moved, the sum reads it so.
    """
    left, right = value(a), value(b)
    if left.ndim < 2 or right.ndim < 2:
        raise bad(f"{name} of {left!r} and {right!r}", "shape", "both need two axes or more; reshape vectors to (1, K)")
    m, k = left.shape[-2:] if not transpose_a else left.shape[:-3:-1]
    l, n = right.shape[-2:] if not transpose_b else right.shape[:-3:-1]
    if not same(k, l):
        raise bad(f"{name} of {left!r} and {right!r}: {k!r} is not {l!r}", "shape",
                  "the extents that are summed over must be the same expression of sizes")  # fmt: skip
    lead = broadcast([left.shape[:-2], right.shape[:-2]], name)
    out, batch, i, j, r = automatic(name), variables(len(lead), "b"), Var("i"), Var("j"), rdom(k=k)
    inner = r.k
    out[(*batch, i, j)] += _element(left, batch, i, inner, transpose_a) * _element(right, batch, inner, j, transpose_b)
    return Value(out, (*lead, m, n))


def _element(v: Value, batch: tuple[Expr, ...], row: Expr, column: Expr, turned: bool) -> Expr:
    """The element at a row and column of the matrix `v` (that lies there transposed, if `turned`)."""
    own = batch[len(batch) - (v.ndim - 2) :]
    return stretched(v, (*own, *((column, row) if turned else (row, column))))


def linear(x: Operand, weight: Operand, bias: Operand | None = None, *, transpose: bool = False) -> Value:
    """x @ weight + bias. Shapes (..., K), (K, N) (with `transpose`: (N, K), as PyTorch keeps it), (N,) give (..., N)."""
    v, w = value(x), value(weight)
    if v.ndim == 0 or w.ndim != 2:
        raise bad(f"linear of {v!r} and {w!r}", "shape", "x has an axis or more, the weight has two")
    k, n = w.shape if not transpose else w.shape[::-1]
    if not same(k, v.shape[-1]):
        raise bad(f"linear of {v!r} and {w!r}: {v.shape[-1]!r} is not {k!r}", "shape",
                  "the last extent of x must be the first of the weight (the last, where it is transposed)")  # fmt: skip
    out, at, j, r = automatic("linear"), variables(v.ndim - 1), Var("j"), rdom(k=k)
    inner = r.k
    out[(*at, j)] += v[(*at, inner)] * w[(j, inner) if transpose else (inner, j)]
    made = Value(out, (*v.shape[:-1], n))
    return made if bias is None else elementwise(lambda a, b: a + b, made, bias, name="biased")


def quantized_linear(
    x: Operand, weight: Operand, scales: Operand, bias: Operand | None = None, *, transpose: bool = False
) -> Value:
    """x @ (weight * scales) + bias with weights of few bits (i8, u8) and their scales.

    x: (..., K), weight: (K, N) (with `transpose`: (N, K)), bias: (N,) give (..., N). `scales` is (N,), one for each
    column, which multiplies the sums; or (K / G, N) ((N, K / G) with `transpose`), one for every run of G weights of a
    column, which are made whole as they are read.
    """
    v, w, s = value(x), value(weight), value(scales)
    if v.ndim == 0 or w.ndim != 2 or not w.dtype.is_int:
        raise bad(f"quantized_linear of {v!r} and {w!r}", "shape", "x has an axis or more, the weight two, of integers")
    k, n = w.shape if not transpose else w.shape[::-1]
    columns = s.shape[-1] if s.ndim < 2 or not transpose else s.shape[0]
    if not same(k, v.shape[-1]) or s.ndim not in (1, 2) or not same(columns, n):
        raise bad(f"quantized_linear of {v!r} and {w!r} with scales {s!r}", "shape",
                  "x: (..., K), weight: (K, N), scales: (N,) or (K / G, N)")  # fmt: skip
    out, at, j, r = automatic("quantized_linear"), variables(v.ndim - 1), Var("j"), rdom(k=k)
    inner = r.k
    one = to_f(w[(j, inner) if transpose else (inner, j)], v)
    if s.ndim == 2:
        run = product([k]).divided(product([s.shape[1] if transpose else s.shape[0]]))
        if run is None:
            raise bad(f"scales {s!r} for {w!r}", "shape", "K must be a multiple of their number for all sizes")
        group = inner // run.expression()
        one = one * s[(j, group) if transpose else (group, j)]
    out[(*at, j)] += v[(*at, inner)] * one
    made = Value(out, (*v.shape[:-1], n))
    if s.ndim == 1:
        made = elementwise(lambda a, c: a * c, made, s, name="scaled")
    return made if bias is None else elementwise(lambda a, b: a + b, made, bias, name="biased")


__all__ = ["linear", "matmul", "quantized_linear"]

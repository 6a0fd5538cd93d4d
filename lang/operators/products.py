"""Products of matrices, with batches and transposes."""

from __future__ import annotations

from tilewright.lang.expr import Expr
from tilewright.lang.func import automatic
from tilewright.lang.operators.value import Operand, Value, broadcast, elementwise, same, stretched, value, variables
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
    product = Value(out, (*v.shape[:-1], n))
    return product if bias is None else elementwise(lambda a, b: a + b, product, bias, name="biased")


__all__ = ["linear", "matmul"]

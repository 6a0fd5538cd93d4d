"""Boundary conditions: Funcs that extend a tensor beyond its edges. Their interior costs nothing.

Each index is `select(inside, i, repaired)` with a hint (`likely`) on `inside`, so that loops are parted and the middle
part reads the tensor directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lang import expr
from tilewright.lang.expr import Expr, to_node, wrap
from tilewright.lang.func import Func, InoutFunc, automatic
from tilewright.lang.symbols import Var, bad
from tilewright.lang.tensors import Array

Range = tuple[Expr, Expr]  # start, stop


def _ranges(tensor: Any, bounds: tuple) -> list[Range | None]:
    """One (start, stop) an axis; None leaves an axis as it is."""
    if not bounds:
        if not isinstance(tensor, (Array, InoutFunc)):
            raise bad(
                "a boundary condition on a Func needs its bounds", "boundary", "tw.repeat_edge(f, (0, H), (0, W))"
            )
        return [(wrap(to_node(0)), n) for n in tensor.shape]
    rank = tensor.ndim if isinstance(tensor, (Array, InoutFunc)) else tensor.rank
    if len(bounds) != rank:
        raise bad(
            f"{len(bounds)} bounds for {rank} axes", "boundary", "one (start, stop) an axis, None to leave it alone"
        )
    out: list[Range | None] = []
    for b in bounds:
        if b is None:
            out.append(None)
        else:
            start, stop = b if isinstance(b, tuple) else (0, b)
            out.append((wrap(to_node(start)), wrap(to_node(stop))))
    return out


def _extended(
    tensor: Any, bounds: tuple, base: str, name: str | None, repair: Callable[[Expr, Expr, Expr], Expr]
) -> Func:
    ranges = _ranges(tensor, bounds)
    f = automatic(name or f"{tensor.name}_{base}")
    at = _axes(tensor, len(ranges))
    fixed = tuple(
        i if r is None else expr.select(expr.inside(i, *r), i, repair(i, *r)) for i, r in zip(at, ranges, strict=True)
    )
    f[at] = tensor[fixed]
    return f


def repeat_edge(tensor: Any, *bounds: Any, name: str | None = None) -> Func:
    """Beyond an edge, the nearest element. Bounds (start, stop) an axis; an array's own extents by default."""
    return _extended(tensor, bounds, "edge", name, lambda i, lo, hi: expr.clamp(i, lo, hi - 1))


def _axes(tensor: Any, rank: int) -> tuple[Var, ...]:
    """The variables of what is extended, so that its loops have the same names; `x0`, `x1`, ... for an array."""
    args = tensor.args if isinstance(tensor, Func) else ()
    return tuple(Var(args[k].attr if args else f"x{k}") for k in range(rank))


def wrap_around(tensor: Any, *bounds: Any, name: str | None = None) -> Func:
    """Periodic: index modulo the extent."""
    return _extended(tensor, bounds, "wrap", name, lambda i, lo, hi: lo + (i - lo) % (hi - lo))


def reflect(tensor: Any, *bounds: Any, name: str | None = None) -> Func:
    """Mirrored with the edge element repeated: c b a | a b c | c b a (NumPy's pad mode "symmetric")."""

    def repair(i: Expr, lo: Expr, hi: Expr) -> Expr:
        n = hi - lo
        k = (i - lo) % (2 * n)
        return lo + expr.minimum(k, 2 * n - 1 - k)

    return _extended(tensor, bounds, "mirror", name, repair)


def reflect_interior(tensor: Any, *bounds: Any, name: str | None = None) -> Func:
    """Mirrored without repeating the edge element: c b | a b c | b a (NumPy's pad mode "reflect")."""

    def repair(i: Expr, lo: Expr, hi: Expr) -> Expr:
        period = expr.maximum(2 * (hi - lo) - 2, 1)
        k = (i - lo) % period
        return lo + expr.minimum(k, period - k)

    return _extended(tensor, bounds, "reflect", name, repair)


def constant_exterior(tensor: Any, value: Any, *bounds: Any, name: str | None = None) -> Func:
    """Beyond an edge, `value`. Reads only inside."""
    ranges = _ranges(tensor, bounds)
    f = automatic(name or f"{tensor.name}_padded")
    at = _axes(tensor, len(ranges))
    held: Any = None
    for i, r in zip(at, ranges, strict=True):
        if r is not None:
            c = expr.inside(i, *r)
            held = c if held is None else held & c
    f[at] = tensor[at] if held is None else expr.select(held, tensor[at], value)
    return f

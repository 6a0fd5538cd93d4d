"""Inline reductions: `tw.sum(a[i, k] * b[k], over=k)` makes a Func of its own, which can be scheduled by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lang import expr, ir, simplify, types
from tilewright.lang.expr import Expr, to_node, type_name, wrap
from tilewright.lang.func import Func, automatic, func
from tilewright.lang.intervals import certainly_nonnegative
from tilewright.lang.ir import Node
from tilewright.lang.symbols import Domain, RDom, Var, bad
from tilewright.lang.types import DType, as_dtype, index


def identity(op: str, t: DType) -> int | float | bool:
    """The value that leaves `op` unchanged (sum prod min max any all) for values of type t."""
    if op in ("sum", "prod"):
        return (0.0 if t.is_float else 0) if op == "sum" else (1.0 if t.is_float else 1)
    if op in ("any", "all"):
        return op == "all"
    if t.is_float:
        return float("-inf") if op == "max" else float("inf")
    return t.low if op == "max" else t.high


_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": expr.maximum,
    "min": expr.minimum,
    "any": lambda a, b: a | b,
    "all": lambda a, b: a & b,
}


def accumulate(f: Func, op: str, where: tuple[Expr, ...], value: Expr) -> Func:
    """Define `f` as the reduction of `value` by `op` (sum prod min max any all) over the domain that it uses."""
    f[where] = _start(op, value.node.dtype)
    f[where] = _STEPS[op](f[where], value)
    return f


def _start(op: str, t: DType) -> Expr:
    return wrap(ir.const(identity(op, t), t))


def _prepare(
    value: Any, over: Any, name: str | None, base: str, dtype: Any
) -> tuple[Node, Domain, Func, tuple[Expr, ...], tuple]:
    """The value with free variables turned into the Func's own, the Func, its indices inside and at the use."""
    n = to_node(value)
    if dtype is not None:
        n = expr.cast_node(n, as_dtype(dtype))
    elif n.dtype is index:
        n = expr.cast_node(n, types.i64)
    domain = _domain(n, over)
    own: dict[Node, Node] = {}
    taken = set(domain.ranges)
    for leaf in ir.postorder((n, *domain.predicates)):
        if leaf.op == "var":
            own.setdefault(leaf, leaf)
            taken.add(leaf.attr)
    for leaf in ir.leaves((n, *domain.predicates), "rvar"):
        if leaf.attr[0] is not domain and leaf not in own:  # another domain's variable is a parameter here
            fresh = leaf.attr[1]
            while fresh in taken:
                fresh += "_"
            taken.add(fresh)
            own[leaf] = ir.var(fresh)
    moved = {k: v for k, v in own.items() if k is not v}
    if moved:
        if domain.predicates and any(k in ir.postorder(domain.predicates) for k in moved):
            raise bad("a predicate of an inline reduction uses another reduction domain", "rdom-several",
                      "one domain has several variables: tw.rdom(y=..., x=...)")  # fmt: skip
        (n,) = ir.substitute((n,), moved)
    made = func(name) if name is not None else automatic(base)
    return n, domain, made, tuple(Var(v.attr) for v in own.values()), tuple(wrap(k) for k in own)


def _domain(n: Node, over: Any) -> Domain:
    if isinstance(over, RDom):
        return over.domain
    if over is not None:
        o = to_node(over)
        if o.op == "rvar" and len(o.attr[0].ranges) == 1:
            return o.attr[0]
        raise bad(f"over={o!r}", "reduce-over", "give the reduction domain: over=tw.rdom(k=K)")
    found = list(dict.fromkeys(leaf.attr[0] for leaf in ir.leaves((n,), "rvar")))
    if len(found) != 1:
        raise bad(f"an inline reduction over {len(found)} reduction domains", "reduce-over", "say which: over=k")
    return found[0]


def _simple(op: str, doc: str) -> Callable[..., Expr]:
    def reduce(value: Any, over: Any = None, name: str | None = None, dtype: Any = None) -> Expr:
        n, domain, f, inside, outside = _prepare(value, over, name, op, dtype)
        if op in ("any", "all") and not n.dtype.is_bool:
            raise bad(f"{op} of {type_name(n.dtype)}", "reduce-type", "compare it: x != 0")
        if op not in ("any", "all") and n.dtype.is_bool:
            raise bad(f"{op} of bool values", "reduce-type", "write tw.cast(tw.i64, x)")
        accumulate(f, op, inside, wrap(n) if _uses(n, domain) else _tied(wrap(n), domain))
        return wrap(f[outside].node)

    reduce.__name__ = op
    reduce.__doc__ = doc
    return reduce


def _uses(n: Node, domain: Domain) -> bool:
    return any(leaf.attr[0] is domain for leaf in ir.leaves((n,), "rvar"))


def _tied(value: Expr, domain: Domain) -> Expr:
    """A value that does not depend on the domain is still taken once a point: name the domain in it."""
    k = domain.rvars[0]
    same = ir.node("eq", types.bool_, (k, k))
    return wrap(ir.node("select", value.node.dtype, (same, value.node, value.node)))


sum_ = _simple("sum", "Sum of `value` over a reduction domain; 0 where it is empty.")
prod_ = _simple("prod", "Product of `value`; 1 where the domain is empty.")
max_ = _simple("max", "Largest value, NaN if there is one; the type's lowest where the domain is empty.")
min_ = _simple("min", "Smallest value, NaN if there is one; the type's highest where the domain is empty.")
any_ = _simple("any", "Whether a condition holds at some point.")
all_ = _simple("all", "Whether a condition holds at every point.")


def _arg(op: str, base: str, better: Callable[[Any, Any], Expr]) -> Callable[..., Expr]:
    def reduce(value: Any, over: Any = None, name: str | None = None) -> Expr:
        n, domain, f, inside, outside = _prepare(value, over, name, base, None)
        if len(domain.ranges) != 1:
            raise bad(
                f"{base} over {len(domain.ranges)} variables", "reduce-over", "reduce over one variable at a time"
            )
        if n.dtype.is_bool:
            raise bad(f"{base} of bool values", "reduce-type", "write tw.cast(tw.i8, x)")
        v = wrap(n)
        start, _ = next(iter(domain.ranges.values()))
        counted = simplify.sub(domain.rvars[0], start)  # from 0 on: below is what nothing was seen of
        if certainly_nonnegative(start):
            start, counted = ir.integer(0), domain.rvars[0]
        f[inside] = (_start(op, n.dtype), wrap(ir.const(-1, types.i64)))
        best, at = f[inside]
        wins = (at < 0) | better(v, best)
        if n.dtype.is_float:
            wins = wins | ((v != v) & (best == best))
        f[inside] = (expr.select(wins, v, best), expr.select(wins, expr.cast(types.i64, wrap(counted)), at))
        found = f[outside].component(1)
        if start is ir.integer(0):
            return found
        return expr.select(found < 0, found, found + expr.cast(types.i64, wrap(start)))

    reduce.__name__ = base
    reduce.__doc__ = (
        f"Index (i64) of the first {op}imum over a one-variable domain, the first NaN if there is one; "
        "-1 where it is empty."
    )
    return reduce


argmax = _arg("max", "argmax", lambda v, best: v > best)
argmin = _arg("min", "argmin", lambda v, best: v < best)

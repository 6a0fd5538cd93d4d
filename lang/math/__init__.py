"""Mathematical functions, each a definition in our own language, so that every path computes the same bits.

`exp(x)` and the like build a call node. `definition` gives what stands behind a call, `expand` puts it in its place.
`ULP` states how far a result may lie from the exact value, in units of the last place of the exact value (for
subnormal values: of the smallest subnormal number), with and without fma; zeros, infinities and NaN are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tilewright.lang import ir
from tilewright.lang.contract import contract
from tilewright.lang.expr import Expr, ceil, fail, floor, round, sqrt, to_node, trunc, type_name, unify, wrap
from tilewright.lang.ir import Node
from tilewright.lang.math import exponential, logarithm, power, trigonometry
from tilewright.lang.types import DType

FUNCTIONS: tuple[str, ...] = (
    "exp", "exp2", "log", "log2", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "pow", "sqrt",
    "rsqrt", "atan2",
)  # fmt: skip
__all__ = [
    "FUNCTIONS", "ULP", "atan2", "ceil", "cos", "definition", "erf", "exp", "exp2", "expand", "expm1", "floor", "log",
    "log1p", "log2", "pow", "round", "rsqrt", "sigmoid", "sin", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip

_DEFINITIONS: dict[str, Callable[..., Expr]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "tanh": exponential.tanh,
    "sigmoid": exponential.sigmoid,
    "erf": exponential.erf,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log1p": logarithm.log1p,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": trigonometry.tan,
    "atan2": trigonometry.atan2,
    "pow": power.pow,
    "sqrt": sqrt,
    "rsqrt": power.rsqrt,
}
_BINARY = ("pow", "atan2")


def _call(name: str, *args: Node) -> Expr:
    t = args[0].dtype
    if not t.is_float:
        fail(f"{name} of {type_name(t)}", "write tw.cast(tw.f32, x) first", code="type.float-needed")
    return wrap(ir.node("call", t, args, name))


def _unary(name: str, doc: str) -> Callable[[Any], Expr]:
    def fn(x: Any) -> Expr:
        return _call(name, to_node(x))

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"{doc} of an f32 or f64, element-wise; the error is at most `ULP` says."
    return fn


exp = _unary("exp", "e to the power")
exp2 = _unary("exp2", "2 to the power (exact at integers)")
expm1 = _unary("expm1", "e to the power, less 1 (exact near 0)")
log = _unary("log", "Natural logarithm")
log2 = _unary("log2", "Logarithm to base 2 (exact at powers of two)")
log1p = _unary("log1p", "Natural logarithm of 1 plus the value (exact near 0)")
sin = _unary("sin", "Sine")
cos = _unary("cos", "Cosine")
tan = _unary("tan", "Tangent")
tanh = _unary("tanh", "Hyperbolic tangent")
sigmoid = _unary("sigmoid", "1 / (1 + e**-x)")
erf = _unary("erf", "Error function")
rsqrt = _unary("rsqrt", "1 / sqrt(x)")


def pow(x: Any, y: Any) -> Expr:
    """x to the power y, element-wise on floats, with the special values of IEEE 754."""
    return _call("pow", *unify(x, y, "pow"))


def atan2(y: Any, x: Any) -> Expr:
    """The angle of the point (x, y) in -pi..pi, element-wise on floats, with the special values of IEEE 754."""
    return _call("atan2", *unify(y, x, "atan2"))


@cache
def definition(name: str, dtype: DType) -> tuple[tuple[Node, ...], Node]:
    """Parameters (leaves `param` with attr 0, 1) and value of a function for f32 or f64, in basic operations only."""
    params = tuple(ir.node("param", dtype, (), k) for k in range(1 + (name in _BINARY)))
    return params, _DEFINITIONS[name](*map(wrap, params)).node


@cache
def _body(name: str, dtype: DType, fuse: bool) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Parameters, and the nodes of the value in postorder, the value last."""
    params, value = definition(name, dtype)
    return params, tuple(ir.postorder(contract([value]) if fuse else [value]))


def expand(roots: Sequence[Node], fuse: bool) -> tuple[Node, ...]:
    """`roots` with every call replaced by its definition; with `fuse` the definitions have their fma nodes."""

    def replace(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op != "call":
            return ir.rebuild(n, args)
        params, body = _body(n.attr, n.dtype, fuse)
        values = dict(zip(params, args, strict=True))
        for b in body:
            if b not in values:
                values[b] = ir.node(b.op, b.dtype, tuple(values[a] for a in b.args), b.attr)
        return values[body[-1]]

    return ir.transform(roots, replace)


# f32, f64: for f32 the largest error over a fifth or a 17th of all arguments, for f64 over large samples, rounded up
_STATED = {
    "exp": (0.95, 1.0), "exp2": (0.95, 1.0), "expm1": (1.2, 1.25), "log": (0.9, 0.95), "log2": (1.4, 0.9),
    "log1p": (1.0, 0.95), "sin": (0.501, 0.85), "cos": (0.501, 0.85), "tan": (0.501, 1.0), "tanh": (1.25, 1.3),
    "sigmoid": (2.1, 2.2), "erf": (1.4, 1.45), "pow": (0.51, 1.0), "atan2": (0.51, 0.8), "sqrt": (0.5, 0.5),
    "rsqrt": (1.5, 1.5),
}  # fmt: skip
ULP: dict[tuple[str, str], float] = {
    (name, t): bound for name, both in _STATED.items() for t, bound in zip(("f32", "f64"), both, strict=True)
}

"""Operators element by element: activations and the like. Each is one line over `elementwise`."""

from __future__ import annotations

import math as number
from collections.abc import Callable
from typing import Any

from tilewright.lang import expr, math
from tilewright.lang.expr import Expr
from tilewright.lang.operators.value import Operand, Value, elementwise

_TANH_GELU = number.sqrt(2 / number.pi)


def _unary(name: str, f: Callable[[Expr], Any], doc: str) -> Callable[[Operand], Value]:
    def operator(x: Operand) -> Value:
        return elementwise(f, x, name=name)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = doc
    return operator


relu = _unary("relu", lambda v: expr.maximum(v, 0), "The larger of x and 0; NaN stays.")
sigmoid = _unary("sigmoid", math.sigmoid, "1 / (1 + exp(-x)).")
tanh = _unary("tanh", math.tanh, "The hyperbolic tangent.")
exp = _unary("exp", math.exp, "e to the power of x.")
log = _unary("log", math.log, "The natural logarithm.")
sqrt = _unary("sqrt", expr.sqrt, "The square root.")
abs_ = _unary("abs", expr.abs_, "The absolute value.")
silu = _unary("silu", lambda v: v * math.sigmoid(v), "x * sigmoid(x), also called swish.")
gelu = _unary(
    "gelu", lambda v: 0.5 * v * (1 + math.erf(v * number.sqrt(0.5))), "x * (1 + erf(x / sqrt(2))) / 2 (the exact form)."
)
gelu_tanh = _unary(
    "gelu_tanh", lambda v: 0.5 * v * (1 + math.tanh(_TANH_GELU * (v + 0.044715 * (v * v * v)))),
    "GELU by its usual approximation: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.",
)  # fmt: skip
hard_swish = _unary("hard_swish", lambda v: v * expr.clamp(v + 3, 0, 6) / 6, "x * clamp(x + 3, 0, 6) / 6.")
softplus = _unary(
    "softplus", lambda v: expr.maximum(v, 0) + math.log1p(math.exp(-expr.abs_(v))), "log(1 + exp(x)), without overflow."
)


def elu(x: Operand, alpha: Any = 1.0) -> Value:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return elementwise(lambda v: expr.select(v > 0, v, alpha * math.expm1(v)), x, name="elu")


def leaky_relu(x: Operand, slope: Any = 0.01) -> Value:
    """x where it is positive, else slope * x."""
    return elementwise(lambda v: expr.select(v > 0, v, slope * v), x, name="leaky_relu")


def clamp(x: Operand, low: Any, high: Any) -> Value:
    """x limited to low..high."""
    return elementwise(lambda v: expr.clamp(v, low, high), x, name="clamp")


def maximum(x: Operand, y: Operand) -> Value:
    """The larger of both; NaN of the first stays."""
    return elementwise(expr.maximum, x, y, name="maximum")


def minimum(x: Operand, y: Operand) -> Value:
    """The smaller of both; NaN of the first stays."""
    return elementwise(expr.minimum, x, y, name="minimum")


def where(condition: Operand, x: Operand, y: Operand) -> Value:
    """x where the condition (bool) holds, else y."""
    return elementwise(expr.select, condition, x, y, name="where")


def cast(t: Any, x: Operand) -> Value:
    """x stored in the type `t`; casts are those of `tw.cast`."""
    return elementwise(lambda v: expr.cast(t, v), x, name="cast", dtype=t)


__all__ = [
    "abs_", "cast", "clamp", "elu", "exp", "gelu", "gelu_tanh", "hard_swish", "leaky_relu", "log", "maximum", "minimum",
    "relu", "sigmoid", "silu", "softplus", "sqrt", "tanh", "where",
]  # fmt: skip

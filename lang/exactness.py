"""Exact data: inputs for which no rounding happens where schedules may differ, so that all must agree bit for bit.

A shadow value is (v, inexact): the number in f64, and whether a rounding took part in it. Values that enter or leave
a sum or product over a domain must be exact, in any order of its terms; so must products that an fma may take in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.lang.binding import Bound, bind
from tilewright.lang.errors import Location, TilewrightError
from tilewright.lang.evaluate import apply
from tilewright.lang.func import Definition
from tilewright.lang.ir import COMPARISONS, Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.rounding import round_to, two_sum
from tilewright.lang.samples import draw_inputs
from tilewright.lang.shadow import Shadow, Shadows
from tilewright.lang.types import DType

_DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_ROUNDING = frozenset(["add", "sub", "mul", "div", "fma", "call", "sqrt", "mod", "floordiv"])


class NotExactError(TilewrightError):
    """Data for which a kernel does not compute exactly."""

    default_code = "testing.not-exact"


def exact_inputs(
    p: Pipeline, sizes: Mapping[str, int], seed: int = 0, given: Mapping[str, Any] | None = None, fused: bool = True
) -> dict[str, Any]:
    """Arguments by name for which every value that enters or leaves a reduction is exact, in any order.

    Small integers, thinned out as far as needed, or powers of two. `given` fixes some arguments. With `fused`
    products that an fma may take in and functions that contain one are refused too, so that mode `contract` must
    agree with the reference. Raises NotExactError, naming the definition, if nothing fits.
    """
    reason: NotExactError | None = None
    for number, kind in enumerate(_CANDIDATES):
        rng = np.random.default_rng([seed, number])
        args = draw_inputs(p, sizes, rng, partial(_values, rng, *kind), kind[0])
        if number and any(a.dtype.kind == "f" and a.size and not a.any() for a in map(np.asarray, args.values())):
            continue  # thinned out until nothing is left
        args |= given or {}
        bound = bind(p, (), args, sizes)
        try:
            check_exact(p, bound, fused)
        except NotExactError as e:
            reason = reason or e
        else:
            return args
    assert reason is not None
    raise reason


# largest magnitude (of exponents for powers of two), share of elements that are not 0, powers of two
_CANDIDATES = [
    (8, 1.0, False), (3, 1.0, False), (1, 1.0, False), (2, 1.0, True), (1, 0.5, False), (1, 1.0, True),
    (1, 0.1, False), (1, 0.02, False),
]  # fmt: skip


def _values(
    rng: np.random.Generator, largest: int, density: float, powers: bool, t: DType, shape: tuple[int, ...]
) -> np.ndarray:
    if powers:
        return 2.0 ** rng.integers(-largest, largest + 1, shape)
    return rng.integers(-largest, largest + 1, shape) * (rng.random(shape) < density)


def check_exact(p: Pipeline, bound: Bound, fused: bool = True) -> None:
    """Raise NotExactError if a rounding takes part where schedules may differ."""
    Shadows(p, bound, _Exact(fused)).run()


class _Exact:
    """The rules of exactness (see lang.shadow)."""

    def __init__(self, fused: bool):
        self.fused = fused
        self.definition: Definition | None = None

    def exact(self, value: Any) -> Shadow:
        return value, False

    def begin(self, d: Definition) -> None:
        self.definition = d

    def loaded(self, value: Shadow, where: Sequence[Shadow]) -> Shadow:
        return value

    def refuse(self, what: str) -> None:
        d = self.definition
        where: Location | None = d.location if d else None
        name = d.func.name if d else "the kernel"
        raise NotExactError(
            f"{what} in {name} is rounded for every data that was tried",
            where=where,
            hint="smaller sizes, powers of two as divisors, exp2 and log2 for exp and log, or a check by error bounds",
        )

    def apply(self, n: Node, args: Sequence[Shadow]) -> Shadow:
        v: Any
        inexact: Any = False
        for a in args:
            inexact = inexact | a[1]
        if n.op == "select":
            c, a, b = args
            return np.where(c[0], a[0], b[0]), c[1] | np.where(c[0], a[1], b[1])
        if n.op in COMPARISONS or not n.dtype.is_float:
            source = n.args[0].dtype
            value = args[0][0]
            if n.op == "bitcast" and source.is_float:
                value = np.asarray(value).astype(source.np)
            return apply(n, [value, *(a[0] for a in args[1:])]), inexact
        if n.op in ("cast", "bitcast"):
            v = apply(n, [args[0][0]]) if n.op == "bitcast" else np.asarray(args[0][0]).astype(np.float64)
            v = np.asarray(v, np.float64)
            lost = False if n.args[0].dtype.is_float else v.astype(object) != np.asarray(args[0][0]).astype(object)
        elif n.op == "call_extern":
            v, lost = apply(n, [np.asarray(a[0]).astype(m.dtype.np) for a, m in zip(args, n.args, strict=True)]), True
        elif n.op == "call":
            v, lost = _called(n, args[0][0], self.fused, self)
        else:
            v, lost = _RULES.get(n.op, _untouched)(n, *(np.asarray(a[0], np.float64) for a in args))
        if self.fused and n.op in ("add", "sub"):
            for arg, a in zip(n.args, args, strict=True):
                if arg.op == "mul" and np.any(a[1]):
                    self.refuse("a product that an fma may take in")
        t = n.attr if n.op == "round_to" else n.dtype
        return v, inexact | lost | ~_fits(v, t)

    def foreign(self, value: np.ndarray) -> Shadow:
        return value, np.full(value.shape, value.dtype.kind == "f")

    def stepped(self, step: Sequence[Node], values: Sequence[Shadow]) -> None:
        """A fold that is no sum wrote `values`: a product, say."""
        if any(n.op in _ROUNDING and n.dtype.is_float for n in step) and any(np.any(v[1]) for v in values):
            self.refuse("a reduction")

    def terms(self, value: Shadow) -> list[tuple[np.ndarray, str]]:
        v, inexact = value
        if np.any(inexact) or not np.all(np.isfinite(v)):
            self.refuse("a term of a sum")
        return [(v, "sum"), (np.abs(v), "sum"), (_grid(v), "min")]

    def total(self, d: Definition, sign: float, state: Shadow, parts: list[np.ndarray], count: np.ndarray) -> Shadow:
        v, size, grid = parts
        unit = np.minimum(grid, _grid(state[0]))
        room = np.where(np.isfinite(unit), _DIGITS[d.func.dtypes[0].name] + unit, np.inf)
        if np.any(state[1]) or np.any(np.abs(state[0]) + size > 2.0 ** np.minimum(room, 1023)):
            self.refuse("a sum")
        return state[0] + sign * v, np.zeros(len(count), bool)


def _fits(v: Any, t: DType) -> Any:
    """Whether v is a number of type t (infinities and NaN are)."""
    v = np.asarray(v)
    narrow = round_to(v, t.np).astype(np.float64) if t.is_storage_only else v.astype(t.np).astype(np.float64)
    return (narrow == v) | np.isnan(v)


def _grid(v: Any) -> np.ndarray:
    """The exponent of the lowest set bit of v; infinite for 0."""
    v = np.asarray(v, np.float64)
    fraction, exponent = np.frexp(np.where(np.isfinite(v), v, 0.0))
    whole = (np.abs(fraction) * 2.0**53).astype(np.int64)
    lowest = np.log2(np.where(whole == 0, 1, whole & -whole).astype(np.float64))
    return np.where(whole == 0, np.inf, exponent - 53 + lowest)


def _bits(v: Any) -> Any:
    """How many digits v has from its highest to its lowest set bit."""
    grid = _grid(v)
    top = np.frexp(np.where(np.isfinite(v), v, 0.0))[1]
    return np.where(np.isfinite(grid), top - np.where(np.isfinite(grid), grid, 0), 0)


def _product_is_exact(x: Any, y: Any) -> Any:
    return (_bits(x) + _bits(y) <= 53) | ~np.isfinite(x * y)


def _sum(n: Node, x: Any, y: Any) -> tuple[Any, Any]:
    v, error = two_sum(x, y if n.op == "add" else -y)
    return v, (error != 0) & np.isfinite(v)


def _product(n: Node, x: Any, y: Any) -> tuple[Any, Any]:
    return x * y, ~_product_is_exact(x, y)


def _fma(n: Node, x: Any, y: Any, z: Any) -> tuple[Any, Any]:
    v, error = two_sum(x * y, z)
    return v, ~_product_is_exact(x, y) | ((error != 0) & np.isfinite(v))


def _quotient(n: Node, x: Any, y: Any) -> tuple[Any, Any]:
    v = x / y
    return v, np.isfinite(v) & ~((v * y == x) & _product_is_exact(v, y))


def _root(n: Node, x: Any) -> tuple[Any, Any]:
    v = np.sqrt(x)
    return v, np.isfinite(v) & ~((v * v == x) & _product_is_exact(v, v))


def _untouched(n: Node, *args: Any) -> tuple[Any, Any]:
    return (args[0] if n.op == "round_to" else apply(n, args)), False


def _called(n: Node, x: Any, fused: bool, rules: _Exact) -> tuple[Any, Any]:
    """Functions are exact where their definitions promise it: exp2 at integers, log2 at powers of two, roots."""
    x = np.asarray(x, np.float64)
    if n.attr == "exp2":
        v, lost = np.exp2(x), np.isfinite(x) & (x != np.rint(x))
    elif n.attr == "log2":
        v = np.log2(x)
        lost = np.isfinite(v) & (np.exp2(np.rint(v)) != x)
    elif n.attr == "sqrt":
        v, lost = _root(n, x)
    else:
        v, lost = np.full(x.shape, 0.5), np.full(x.shape, True)
    if fused and np.any(lost) and n.attr != "sqrt":
        rules.refuse(f"{n.attr}, whose definition has fma,")
    return v, lost


_RULES = {"add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "sqrt": _root, "fma": _fma}

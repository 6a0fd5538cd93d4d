"""Whether two results are the same bits, or as near to the exact ones as their error bound says. No tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.lang.binding import Bound
from tilewright.lang.errorbound import ErrorBound, error_bound
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline

MOST_AMBIGUOUS = 0.01  # share of elements that an error could send another way
LARGEST_MEDIAN = 1e-3  # of bound / |value|
_STORAGE = {"f16": 2.0**-11, "bf16": 2.0**-8}


class MismatchError(TilewrightError, AssertionError):
    """Two results differ that must not."""

    default_code = "testing.mismatch"


class ProvesNothingError(TilewrightError, AssertionError):
    """A bound check with too many ambiguous elements or too wide a bound."""

    default_code = "testing.proves-nothing"


def leaves(result: Any, name: str = "result") -> list[tuple[str, Any]]:
    """The arrays of a tuple, list or dict of results, with names for messages."""
    if isinstance(result, dict):
        return [x for k, v in result.items() for x in leaves(v, f"{name}[{k!r}]")]
    if isinstance(result, (tuple, list)):
        return [x for k, v in enumerate(result) for x in leaves(v, f"{name}[{k}]")]
    return [] if result is None else [(name, result)]


def require_bitwise(a: Any, b: Any, zeros: bool = False) -> None:
    """Raise MismatchError unless results have the same types, shapes and bits, or both NaN.

    With `zeros`, zeros of either sign are equal (the rule for exact data).
    """
    left, right = leaves(a), leaves(b)
    if [n for n, _ in left] != [n for n, _ in right]:
        raise MismatchError(f"the results have different structures: {_names(left)} and {_names(right)}")
    for (name, x), (_, y) in zip(left, right, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype != y.dtype or x.shape != y.shape:
            raise MismatchError(f"{name}: {x.dtype.name}{list(x.shape)} and {y.dtype.name}{list(y.shape)}")
        wrong = ~_same(x, y, zeros)
        if wrong.any():
            raise _mismatch(name, x, y, wrong, "differ in their bits")


def _names(named: list[tuple[str, Any]]) -> str:
    return ", ".join(n for n, _ in named) or "nothing"


def _same(x: np.ndarray, y: np.ndarray, zeros: bool) -> np.ndarray:
    if x.dtype.kind in "biu":
        return np.asarray(x == y)
    bits = f"u{x.dtype.itemsize}"
    same = np.ascontiguousarray(x).view(bits) == np.ascontiguousarray(y).view(bits)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    same = same.reshape(x.shape) | (np.isnan(wide_x) & np.isnan(wide_y))
    return same | ((wide_x == 0) & (wide_y == 0)) if zeros else same


def _mismatch(name: str, x: np.ndarray, y: np.ndarray, wrong: np.ndarray, how: str) -> MismatchError:
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    place = f"[{', '.join(map(str, first))}]" if first else ""
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return MismatchError(f"{name}: {count} {how}; the first is {name}{place}: {x[first]!r} and {y[first]!r}")


def require_within_bound(p: Pipeline, bound: Bound, result: Any) -> list[ErrorBound]:
    """Raise MismatchError unless every unambiguous element of `result` lies within its error bound.

    Raises ProvesNothingError where more than 1% of the elements are ambiguous or the median of bound/|value| exceeds
    1e-3 (the rounding to f16 or bf16 of the result itself is not counted there). Gives the bounds back.
    """
    bounds = error_bound(p, bound)
    require_near(p, bounds, result)
    return bounds


def require_near(p: Pipeline, bounds: list[ErrorBound], result: Any) -> None:
    """The same with error bounds that are known already."""
    given = leaves(result)
    if len(given) != len(bounds):
        raise MismatchError(f"{len(given)} results for {len(bounds)} outputs")
    for (name, x), o, e in zip(given, p.outputs, bounds, strict=True):
        x = np.asarray(x)
        if x.shape != e.value.shape or x.dtype != o.dtype.np:
            raise MismatchError(f"{name}: {x.dtype.name}{list(x.shape)} for {o.dtype}{list(e.value.shape)}")
        if not x.size:
            continue
        _require_telling(name, e, _STORAGE.get(o.dtype.name, 0.0))
        wrong = ~_near(x, e) & ~e.ambiguous
        if wrong.any():
            raise _mismatch(name, x, e.value, wrong, "lie outside their error bound")


def _near(x: np.ndarray, e: ErrorBound) -> np.ndarray:
    if x.dtype.kind in "biu":
        return np.asarray(x == e.value)
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(wide - e.value) <= e.bound
    return near | (wide == e.value) | (np.isnan(wide) & np.isnan(e.value))


def _require_telling(name: str, e: ErrorBound, storage: float) -> None:
    share = float(e.ambiguous.mean())
    if share > MOST_AMBIGUOUS:
        raise ProvesNothingError(
            f"{name}: {share:.1%} of the elements are ambiguous: an error could flip a comparison or a cast",
            hint="this check proves nothing; use exact data (tilewright.testing.exact_inputs)",
        )
    size = np.abs(np.asarray(e.value, np.float64))
    counts = np.isfinite(size) & (size > 0)
    if counts.any():
        ratio = np.maximum(e.bound[counts] - storage * size[counts], 0) / size[counts]
        if float(np.median(ratio)) > LARGEST_MEDIAN:
            raise ProvesNothingError(
                f"{name}: the median of bound/|value| is {float(np.median(ratio)):.2g}, more than {LARGEST_MEDIAN:g}",
                hint="this check proves nothing; use exact data (tilewright.testing.exact_inputs)",
            )

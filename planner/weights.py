"""Weights of a plan: inputs that are packed once, into the layouts in which steps read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.codegen.physical import pack, physical_shape
from tilewright.lang.errors import user_location
from tilewright.lang.nested import is_nested, leaves, left_of
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Array
from tilewright.planner.errors import PlanError
from tilewright.planner.given import ROWS
from tilewright.planner.places import ALIGNMENT
from tilewright.schedule.layout import parse_index_map


@dataclass(frozen=True)
class Weight:
    """An input of the whole that a step reads in a layout, in which it was packed before."""

    name: str
    layout: str = ROWS


def check_weights(p: Pipeline, names: Iterable[str]) -> tuple[str, ...]:
    """The flat names of inputs that are said to be weights; a parameter that is a dict or a list stands for its parts.
    Raises PlanError `plan.weights` for what is no input."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise _no_names(names)
    names = tuple(names)
    if not all(isinstance(n, str) for n in names):
        raise _no_names(names)
    nested = {n: [leaf for _, leaf in leaves(x, (n,))] for n, x in p.signature if is_nested(x)}
    arrays = {a.name for a in p.params if isinstance(a, Array)}
    found = tuple(dict.fromkeys(leaf for n in names for leaf in nested.get(n, [n])))
    for n in found:
        if n not in arrays:
            what = "is written in place" if any(f.name == n for f in p.inouts) else "is no array that it takes"
            raise PlanError(
                f"{n!r} can't be a weight of {p.name}: it {what}", code="plan.weights", where=user_location(),
                hint=f"its arrays: {', '.join(sorted(arrays))}" if arrays else "it takes no arrays",
            )  # fmt: skip
    return found


def _no_names(given: object) -> PlanError:
    return PlanError(
        f"weights= is {given!r:.60}", code="plan.weights", where=user_location(), hint='give names: weights=["w"]'
    )


def packed(array: np.ndarray, layout: str) -> np.ndarray:
    """A copy of an array in a layout, aligned to cache lines and read-only."""
    shape = array.shape if layout == ROWS else physical_shape(parse_index_map(layout), array.shape)
    out = aligned(shape, array.dtype)
    out[...] = array if layout == ROWS else pack(array, parse_index_map(layout))
    out.flags.writeable = False
    return out


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that begins at a cache line."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    block = np.empty(size + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, block, -block.ctypes.data % ALIGNMENT)


def without(p: Pipeline, names: Mapping[str, object]) -> Pipeline:
    """A pipeline as its callers see it who do not pass some arrays."""
    left = tuple(q for q in p.params if q.name not in names)
    return replace(p, params=left, signature=left_of(p.signature, names))


__all__ = ["Weight", "aligned", "check_weights", "packed", "without"]

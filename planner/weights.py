"""Weights of a plan: inputs that are packed once, into the layouts in which steps read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.codegen.physical import pack, physical_shape
from tilewright.lang.pipeline import Pipeline
from tilewright.planner.given import ROWS
from tilewright.planner.places import ALIGNMENT
from tilewright.schedule.layout import parse_index_map


@dataclass(frozen=True)
class Weight:
    """An input of the whole that a step reads in a layout, in which it was packed before."""

    name: str
    layout: str = ROWS


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
    return replace(p, params=tuple(q for q in p.params if q.name not in names))


__all__ = ["Weight", "aligned", "packed", "without"]

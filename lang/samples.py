"""Arguments for tests: arrays and scalars of a pipeline's parameters, from a seeded generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.func import InoutFunc
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Array
from tilewright.lang.types import DType
from tilewright.lang.values import index_values

Floats = Callable[[DType, tuple[int, ...]], np.ndarray]


def random_inputs(p: Pipeline, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Arguments by name: floats from the standard normal distribution, integers up to 100, indices up to the largest
    size."""
    rng = np.random.default_rng(seed)
    return draw_inputs(p, sizes, rng, lambda t, shape: rng.standard_normal(shape), 100)


def draw_inputs(
    p: Pipeline, sizes: Mapping[str, int], rng: np.random.Generator, floats: Floats, largest: int
) -> dict[str, Any]:
    """Arguments by name: `floats(type, shape)` draws the floats, integers reach up to `largest` (indices: any size)."""
    indexing = _indexing(p)
    out: dict[str, Any] = {}
    for q in p.params:
        a = q.inout if isinstance(q, InoutFunc) else q
        shape = tuple(index_values(a.extents, sizes)) if isinstance(a, Array) else ()
        t = q.dtype
        if t.is_bool:
            drawn: Any = rng.random(shape) < 0.5
        elif t.is_int:
            is_index = a in indexing
            top = min(t.high, max([largest, *sizes.values()]) if is_index else largest)
            drawn = rng.integers(0 if is_index else max(t.low, -largest), top + 1, shape)
        else:
            drawn = floats(t, shape)
        drawn = np.asarray(drawn).astype(t.np)
        out[q.name] = drawn if isinstance(a, Array) else drawn[()]
    return out


def _indexing(p: Pipeline) -> set[Any]:
    """Arrays whose elements are used in indices."""
    indices = [a for n in ir.leaves(p.roots(), "load") for a in n.args] + [i for d in p.definitions() for i in d.lhs]
    return {n.attr[0] for n in ir.leaves(indices, "load")}

"""Arguments in a layout of the schedule's (`layout B given ...`): what the caller passes, how it is packed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.lang.errors import ArgumentError
from tilewright.lang.ir import integer
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.lang.tensors import Array
from tilewright.lang.values import index_value
from tilewright.schedule.layout import IndexMap

Given = Mapping[str, IndexMap]  # by the name of the input, or of the output's Func


def interface(p: Pipeline, given: Given, outputs: bool = True) -> Pipeline:
    """The pipeline with the parameters (and `outputs`) that the caller sees. Its definitions stay logical."""
    if not given:
        return p

    def parameter(q: Any) -> Any:
        if isinstance(q, Array) and q.name in given:
            return Array(q.name, q.dtype, given[q.name].extents(q.extents))
        return q

    def output(o: Output) -> Output:
        if o.func.name not in given or not outputs:
            return o
        stops = given[o.func.name].extents(o.extents)
        return Output(o.name, o.func, o.component, (integer(0),) * len(stops), stops)

    return replace(p, params=tuple(map(parameter, p.params)), outputs=tuple(map(output, p.outputs)))


def explained(e: ArgumentError, p: Pipeline, given: Given) -> ArgumentError:
    """The error of a call with the logical and the physical shape of what it is about."""
    texts = []
    for q in p.params:
        if isinstance(q, Array) and q.name in given and q.name in e.message:
            texts.append(_shapes(q.name, q.extents, given[q.name]))
    for o in p.outputs:
        if o.func.name in given and o.name in e.message:
            texts.append(_shapes(o.name, o.extents, given[o.func.name]))
    if not texts:
        return e
    hint = "; ".join([*([e.hint] if e.hint else []), *texts])
    return ArgumentError(e.message, code=e.code, where=e.where, hint=hint)


def _shapes(name: str, extents: tuple, layout: IndexMap) -> str:
    logical, physical = (", ".join(map(repr, x)) for x in (extents, layout.extents(extents)))
    return f"{name} is [{logical}] and is given as {layout}, so its array has the shape [{physical}]"


def physical_shape(layout: IndexMap, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the array that holds a logical array of a shape."""
    return tuple(index_value(e, {}) for e in layout.extents(tuple(map(integer, shape))))


def _places(layout: IndexMap, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The physical index of every element, one array an axis (each depends on one logical axis, so they are small)."""
    grid = np.ogrid[tuple(slice(n) for n in shape)]
    return tuple(np.asarray(a) for a in layout.places(grid))


def pack(array: np.ndarray, layout: IndexMap) -> np.ndarray:
    """A logical array in a layout; places that hold no element are 0."""
    out = np.zeros(physical_shape(layout, array.shape), array.dtype)
    if array.size:
        out[_places(layout, array.shape)] = array
    return out


def unpack(array: np.ndarray, layout: IndexMap, shape: tuple[int, ...]) -> np.ndarray:
    """The logical array of a shape that lies in a physical one."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    return np.ascontiguousarray(np.broadcast_to(array[_places(layout, shape)], shape))


__all__ = ["Given", "explained", "interface", "pack", "physical_shape", "unpack"]

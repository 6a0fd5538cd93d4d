"""The reference path: a pipeline evaluated with NumPy alone, nothing fused, every Func whole and in order.

It defines what is right: native code in mode `strict` must give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.binding import Bound
from tilewright.lang.buffers import Buffer
from tilewright.lang.extents import Span, may_run, spans
from tilewright.lang.extern_stage import made_view
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.lang.stepping import Machine, run_definition
from tilewright.lang.values import index_values


def _kept(b: Buffer) -> Any:
    arrays = [made_view(data, b.origin, True) for data in b.data]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def run(p: Pipeline, bound: Bound, keep: Sequence[str] = ()) -> Any:
    """Evaluate a pipeline: new arrays in the structure that the kernel returns; `inout` arrays are written.

    With `keep` (names of Funcs) the result is a pair: that structure, and a dict of intermediates by name, as arrays
    that know their `origin` (a tuple of arrays for a Func of tuples).
    """
    for name in keep:
        p.func(name)
    buffers = compute(p, bound)
    results = [output(o, buffers.get(o.func), bound) for o in p.outputs]
    for f in p.inouts:
        if f.updates:
            bound.arrays[f.name][...] = buffers[f].data[0]
    value = structured(p.structure, results)
    if not keep:
        return value
    return value, {f.name: _kept(buffers[f]) for f in p.funcs if f.name in keep and f in buffers}


def why(p: Pipeline, bound: Bound, out: Sequence[int] | int = (), output: int = 0) -> str:
    """One element's expression with the values that went into it (see lang.story)."""
    from tilewright.lang import story  # which evaluates the pipeline with the functions here

    return story.why(p, bound, out, output)


def compute(p: Pipeline, bound: Bound) -> dict[Any, Buffer]:
    """The values of every array, table and Func of a pipeline, by tensor. Funcs that nothing needs are left out."""
    buffers: dict[Any, Buffer] = {}
    for a in p.arrays:
        buffers[a] = Buffer((bound.arrays[a.name],), (0,) * a.ndim)
    for t in p.tables:
        buffers[t] = Buffer((t.values,), (0,) * t.ndim)
    machine = Machine(buffers, constants(p, bound))
    regions = spans(p, bound.env)
    for f in p.funcs:
        if f in regions:
            buffers[f] = allocate(f, regions[f], bound)
            for d in f.definitions:
                if may_run(d, regions):
                    run_definition(d, regions[f], machine)
    return buffers


def constants(p: Pipeline, bound: Bound) -> dict[ir.Node, Any]:
    """Values of the size and scalar nodes."""
    out: dict[ir.Node, Any] = {ir.size(name): np.int64(v) for name, v in bound.sizes.items()}
    for s in p.scalars:
        out[s.node] = s.dtype.compute.np.type(bound.scalars[s.name])
    return out


def allocate(f: Func, span: Span, bound: Bound) -> Buffer:
    """Room for the region of a Func; an `inout` starts as a copy of the caller's array."""
    if isinstance(f, InoutFunc):
        return Buffer((np.array(bound.arrays[f.name], order="C", copy=True),), (0,) * f.rank)
    shape = tuple(b - a for a, b in span)
    return Buffer(tuple(np.zeros(shape, t.np) for t in f.dtypes), tuple(a for a, _ in span))


def output(o: Output, buffer: Buffer | None, bound: Bound) -> np.ndarray:
    """The array of one output, cut out of its Func's region."""
    starts, stops = index_values(o.starts, bound.env), index_values(o.stops, bound.env)
    shape = tuple(b - a for a, b in zip(starts, stops, strict=True))
    if buffer is None or 0 in shape:
        return np.zeros(shape, o.dtype.np)
    cut = tuple(slice(a - c, b - c) for a, b, c in zip(starts, stops, buffer.origin, strict=True))
    return np.array(buffer.data[o.component][(*cut, ...)], order="C", copy=True)


def structured(structure: Any, results: Sequence[Any]) -> Any:
    """Results in the structure that a kernel returns."""
    if isinstance(structure, dict):
        return {k: structured(v, results) for k, v in structure.items()}
    if isinstance(structure, (tuple, list)):
        return type(structure)(structured(v, results) for v in structure)
    return None if structure is None else results[structure]

"""Regions at actual sizes: the boxes that are computed and read, as numbers, and whether the inputs hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.lang import ir
from tilewright.lang.errors import BoundsError
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.lang.regions import Box, Regions, Use, required
from tilewright.lang.tensors import Array
from tilewright.lang.values import Env, index_values

Span = tuple[tuple[int, int], ...]  # (start, stop) an axis; start == stop where the axis is empty


def spans(p: Pipeline, env: Env) -> dict[Func, Span]:
    """The region of every Func that runs at the sizes (and index scalars) in `env`, by name, in order."""
    found, memo = required(p), {}
    runs = [f for f in p.funcs if index_values([found.guards[f]], env, memo)[0]]
    return {f: numbers(found.funcs[f], env, memo) for f in runs}


def may_run(d: Definition, regions: Mapping[Func, Span]) -> bool:
    """Whether some point of a definition may be executed: not where a Func that it reads is needed by nobody."""
    read = (n.attr[0] for n in ir.leaves(d.roots, "load"))
    return all(t in regions for t in read if isinstance(t, Func))


def numbers(box: Box, env: Env, memo: dict[Node, Any] | None = None) -> Span:
    """A bounded box as (start, stop) an axis; an empty axis gives (start, start)."""
    values = index_values([b for r in box for b in (r.lo, r.hi) if b is not None], env, memo)
    return tuple((lo, max(lo, hi + 1)) for lo, hi in zip(values[::2], values[1::2], strict=True))


def required_inputs(p: Pipeline, sizes: Env) -> dict[str, Span]:
    """What is read of every input array: name -> (start, stop) an axis; (0, 0) where nothing is."""
    out: dict[str, Span] = {a.name: ((0, 0),) * a.ndim for a in p.arrays}
    for u, span in _input_spans(p, sizes):
        old = out.get(u.tensor.name)
        if old is None:
            continue  # a table, which is always whole
        if _empty(old):
            out[u.tensor.name] = span
        else:
            out[u.tensor.name] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(old, span, strict=True))
    return out


def _empty(span: Span) -> bool:
    return any(a >= b for a, b in span)


def _input_spans(p: Pipeline, env: Env) -> list[tuple[Use, Span]]:
    """The uses of inputs that do happen, with what they need."""
    found: Regions = required(p)
    memo: dict[Node, Any] = {}
    out = []
    for u in found.uses:
        if isinstance(u.tensor, (Array, InoutFunc)) and index_values([u.guard], env, memo)[0]:
            span = numbers(u.box, env, memo)
            if not _empty(span) or not span:
                out.append((u, span))
    return out


def check_outputs(p: Pipeline, env: Env) -> None:
    """Raise BoundsError for an output slice whose stop lies before its start."""
    for o in p.outputs:
        for k, (a, b) in enumerate(zip(index_values(o.starts, env), index_values(o.stops, env), strict=True)):
            if b < a:
                raise BoundsError(
                    f"axis {k} of the output {o.name} stops at {b}, before its start {a}",
                    code="bounds.output", where=p.location, hint="an output slice needs start <= stop",
                )  # fmt: skip


def check_inputs(p: Pipeline, env: Env) -> None:
    """Raise BoundsError if an input is too small for what is read of it at these sizes.

    The declared extents are what counts: a call's arrays have been found to have them.
    """
    memo: dict[Node, Any] = {}
    for u, span in _input_spans(p, env):
        array = u.tensor.inout if isinstance(u.tensor, InoutFunc) else u.tensor
        assert isinstance(array, Array)
        extents = index_values(array.extents, env, memo)
        for k, ((start, stop), n) in enumerate(zip(span, extents, strict=True)):
            if start < 0 or stop > n:
                raise _too_small(u, array, k, (start, stop), n)


def _too_small(u: Use, array: Array, axis: int, needed: tuple[int, int], n: int) -> BoundsError:
    if isinstance(u.consumer, Output):
        reader, place = "the output slice", None
    else:
        what = "writes" if u.load is None else "reads"
        reader, place = f"{u.consumer.func.name}, which {what} it", u.consumer.location
    given = f"there are {n} elements (0..{n - 1})" if n else "there are no elements"
    repair = "return a smaller region, give a larger array, or extend it: tw.repeat_edge, tw.constant_exterior"
    if needed[1] - needed[0] > 1 << 30:  # the range of an element type, not of a region
        repair = "limit the index: tw.clamp(index, 0, n - 1)"
    return BoundsError(
        f"axis {axis} of {array.name}: elements {needed[0]}..{needed[1] - 1} are needed by {reader}, {given}",
        code="bounds.input",
        where=place,
        hint=repair,
    )

"""Arguments with which a plan is tried: data as a model has them, at sizes at which its tiles have tails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.codegen.judge import default_sizes, takes
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.samples import draw_inputs
from tilewright.lang.tensors import Array
from tilewright.lang.types import DType
from tilewright.planner.measure import measure
from tilewright.planner.plan import Plan, buffer_shape

_MOST_POINTS = 2e7  # of all definitions together: what the reference takes some seconds for


def likely_inputs(
    p: Pipeline, sizes: Mapping[str, int], seed: int = 0, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Arguments by name: floats from the normal distribution, matrices as weights are begun with (so that values neither
    grow nor vanish from layer to layer), integers from 0 to just beyond the largest size (positions, lengths, tokens)."""
    rng = np.random.default_rng(seed)

    def floats(t: DType, shape: tuple[int, ...]) -> np.ndarray:
        return rng.standard_normal(shape) / math.sqrt(max(1, shape[-2]) if len(shape) > 1 else 1)

    drawn = draw_inputs(p, sizes, rng, floats, 100)
    most = max(sizes.values(), default=8) + 1
    for q in p.params:
        if q.dtype.is_int and not q.dtype.is_bool:
            old = np.asarray(drawn[q.name])
            new = rng.integers(0, min(most, q.dtype.high) + 1, old.shape).astype(q.dtype.np)
            drawn[q.name] = new if isinstance(q, Array) or old.shape else new[()]
    return drawn | dict(given or {})


def sizes_to_try(plan: Plan, given: Mapping[str, Any]) -> tuple[dict[str, int], ...]:
    """Small odd sizes; and sizes just past the plan's tiles, where those are larger and that is not too much work."""
    p = plan.pipeline
    small = default_sizes(p, given)
    past = dict(small)
    for step in plan.steps:
        tile, group = step.region.tile, step.region.group
        for axis, width in tile.cuts if step.part.outputs else ():
            _raise(past, buffer_shape(p, step.part.outputs[0])[axis], width + 3)
        if group is not None and tile.block:
            (update,) = group.members[0].updates
            assert update.rdom is not None
            # two blocks and a bit: in one of three points alone hardly anything is found that has to be repaired
            _raise(past, update.rdom.ranges[group.over][1], 2 * tile.block + 3)
    if past == small or not takes(p, past, given) or points(p, past, given) > _MOST_POINTS:
        return (small,)
    return small, past


def _raise(sizes: dict[str, int], extent: Node, least: int) -> None:
    if extent.op == "size":
        sizes[extent.attr] = max(sizes[extent.attr], least)


def points(p: Pipeline, sizes: Mapping[str, int], given: Mapping[str, Any]) -> float:
    """The points of all definitions at these sizes."""
    scalars = {q.name: 1 for q in p.scalars} | dict(given)
    return sum(sum(w.points) for w in measure(p, {**scalars, **sizes}).values())


__all__ = ["likely_inputs", "points", "sizes_to_try"]

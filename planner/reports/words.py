"""What parts of a plan are called in its reports."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilewright.hw import humane
from tilewright.planner.metrics import StepFigures
from tilewright.planner.plan import Plan
from tilewright.planner.regions import Region


def title(plan: Plan) -> str:
    """`block on host, T=128, for latency`"""
    said = " ".join(f"{n}={v}" for n, v in plan.sizes.items())
    phase = f" ({plan.goal.phase})" if plan.goal.phase else ""
    return f"{plan.pipeline.name} on {plan.machine.name}{f', {said}' if said else ''}, for {plan.goal.objective}{phase}"


def tile_words(region: Region) -> str:
    """How the root of a region is cut: `h alone, i by 112, k in blocks of 512`."""
    tile, names = region.tile, axis_names(region)
    if tile.whole:
        return "whole"
    parts = [f"{', '.join(names[: tile.alone])} alone"] if tile.alone else []
    if tile.axis is not None:
        parts.append(f"{names[tile.axis]} by {tile.width}")
    if tile.block and region.group is not None:
        parts.append(f"{region.group.over} in blocks of {tile.block}")
    return ", ".join(parts)


def axis_names(region: Region) -> list[str]:
    """The variables of a region's root."""
    definition = region.root.definitions[0]
    return [str(n.attr) if n.op in ("var", "rvar") else f"axis {k}" for k, n in enumerate(definition.lhs)]


def count(x: float) -> str:
    return "-" if math.isinf(x) or math.isnan(x) else humane.count(x)


def listed(names: Iterable[str], most: int = 4) -> str:
    """Some names, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def side(s: StepFigures) -> str:
    """The side of the roofline that a step is on: `compute`, or the memory that its bytes come from."""
    return s.limit


__all__ = ["axis_names", "count", "listed", "side", "tile_words", "title"]

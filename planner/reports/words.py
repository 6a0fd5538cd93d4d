"""What parts of a plan are called in its reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.hw import humane
from tilewright.planner.boxes import BLOCKS
from tilewright.planner.plan import Plan, Step
from tilewright.planner.region import Region


def title(plan: Plan) -> str:
    """`block on host, T=128, for latency`"""
    said = " ".join(f"{n}={v}" for n, v in plan.sizes.items())
    phase = f" ({plan.goal.phase})" if plan.goal.phase else ""
    return f"{plan.pipeline.name} on {plan.machine.name}{f', {said}' if said else ''}, for {plan.goal.objective}{phase}"


def tile_words(step: Step) -> str:
    """How a step is cut: `h alone, i by 112, k in blocks of 512`."""
    return tile_text(tile_data(step))


def tile_text(tile: Mapping[str, Any]) -> str:
    """The same of a tile as data."""
    parts = [f"{axis} alone" if width == 1 else f"{axis} by {width}" for axis, width in tile["cuts"]]
    if tile["block"]:
        parts.append(f"{tile['over']} in blocks of {tile['block']}")
    if tile["ahead"]:
        parts.append("copies run ahead")
    return ", ".join(parts) or "whole"


def tile_data(step: Step) -> dict[str, Any]:
    """How a step is cut: axes of its root, and reductions, with the width of their parts (outermost first); the blocks of
    dependent reductions; and whether copies run ahead."""
    region, names = step.region, axis_names(step.region)
    over = None if region.group is None else region.group.over
    if step.staged is None:
        tile = region.tile
        cuts = [[names[a], w] for a, w in tile.cuts]
        return {"cuts": cuts, "block": tile.block, "over": over if tile.block else None, "ahead": False}
    tiling = step.staged.tiling
    widths = {} if tiling is None else tiling.widths
    cuts = [[names[a] if isinstance(a, int) else f"{a[0]}.{a[2]}", w] for a, w in widths.items() if a != BLOCKS]
    block = widths.get(BLOCKS, 0)
    return {"cuts": cuts, "block": block, "over": over if block else None, "ahead": tiling is not None and tiling.ring}


def axis_names(region: Region) -> list[str]:
    """The variables of a region's root."""
    definition = region.root.definitions[0]
    return [str(n.attr) if n.op in ("var", "rvar") else f"axis {k}" for k, n in enumerate(definition.lhs)]


def count(x: float) -> str:
    return "-" if math.isinf(x) or math.isnan(x) else humane.count(x)


def seconds(s: float) -> str:
    """A time as people read it: `3.57 ms`."""
    unit, scale = next((u, x) for u, x in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6), ("ns", 0.0)) if s >= x)
    return f"{s / (scale or 1e-9):.3g} {unit}"


def listed(names: Iterable[str], most: int = 4) -> str:
    """Some names, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def limit_class(limit: str) -> str:
    """The class of what limits a step, by which it has its colour."""
    return "compute" if limit == "compute" else "memory"


__all__ = ["axis_names", "count", "limit_class", "listed", "seconds", "tile_data", "tile_text", "tile_words", "title"]

"""What parts of a plan are called in its reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.hw import humane
from tilewright.planner.plan import Plan
from tilewright.planner.regions import Region


def title(plan: Plan) -> str:
    """`block on host, T=128, for latency`"""
    said = " ".join(f"{n}={v}" for n, v in plan.sizes.items())
    phase = f" ({plan.goal.phase})" if plan.goal.phase else ""
    return f"{plan.pipeline.name} on {plan.machine.name}{f', {said}' if said else ''}, for {plan.goal.objective}{phase}"


def tile_words(region: Region) -> str:
    """How the root of a region is cut: `h alone, i by 112, k in blocks of 512`."""
    return tile_text(tile_data(region))


def tile_text(tile: Mapping[str, Any]) -> str:
    """How the root of a region is cut: `h alone, i by 112, k in blocks of 512`."""
    parts = [f"{', '.join(tile['alone'])} alone"] if tile["alone"] else []
    if tile["axis"] is not None:
        parts.append(f"{tile['axis']} by {tile['width']}")
    if tile["block"]:
        parts.append(f"{tile['over']} in blocks of {tile['block']}")
    return ", ".join(parts) or "whole"


def tile_data(region: Region) -> dict[str, Any]:
    """How the root of a region is cut, by the names of its axes."""
    tile, names = region.tile, axis_names(region)
    return {
        "alone": names[: tile.alone], "axis": None if tile.axis is None else names[tile.axis], "width": tile.width,
        "block": tile.block, "over": region.group.over if region.group is not None and tile.block else None,
    }  # fmt: skip


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


def limit_class(limit: str) -> str:
    """The class of what limits a step, by which it has its colour."""
    return "compute" if limit == "compute" else "memory"


__all__ = ["axis_names", "count", "limit_class", "listed", "tile_data", "tile_text", "tile_words", "title"]

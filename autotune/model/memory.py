"""Cycles that data take to come near: misses by level (see codegen.cache_estimate), and pages."""

from __future__ import annotations

from tilewright.codegen.cache_estimate.estimate import levels
from tilewright.codegen.cache_estimate.model import Footprints
from tilewright.codegen.cache_estimate.model import Model as CacheModel
from tilewright.codegen.cache_estimate.tree import Branch
from tilewright.hw import Machine

_PAGE = 4096
_PAGES = 72  # whose places a core has at hand
_FIND = 7.0  # cycles to find another one's


def moved(root: Branch, machine: Machine) -> dict[str, float]:
    """By level that data come from (below the first one, main memory last): bytes that come from it and go to it."""
    found = levels(root, machine.caches)
    out: dict[str, float] = {}
    for level in found[1:]:
        total = level.total
        line = machine.caches[0].line
        out[level.name] = float((total.reads + total.writes) * line)
    return out


def pages(root: Branch) -> float:
    """Accesses to pages whose places are not at hand."""
    return sum(m.total for m in CacheModel(Footprints(root, _PAGE), 1, _PAGES).misses(root).values())


def moving(root: Branch, machine: Machine) -> dict[str, float]:
    """Cycles by level."""
    found = moved(root, machine)
    rates = {c.name: c.bandwidth for c in machine.caches}
    rates["memory"] = 2 / (1 / machine.main.read_bandwidth + 1 / machine.main.write_bandwidth)
    return {name: size / rates[name] for name, size in found.items()} | {"pages": pages(root) * _FIND}

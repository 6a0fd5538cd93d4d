"""Cycles that data take to come near: misses by level (see codegen.cache_estimate), and pages.

Lines that follow each other are fetched ahead of their use and take a level's bandwidth; those that lie apart are
waited for, a few at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.codegen.cache_estimate.estimate import levels
from tilewright.codegen.cache_estimate.model import Footprints
from tilewright.codegen.cache_estimate.model import Model as CacheModel
from tilewright.codegen.cache_estimate.tree import Access, Branch, Loop, accesses
from tilewright.hw import Machine

_PAGE = 4096
_PAGES = 72  # whose places a core has at hand
_FIND = 7.0  # cycles to find another one's
_APART = 3.0  # times as long as lines that follow each other those take that lie apart, from the second cache
_NEAR = 4  # lines apart, up to which they are foreseen
_FURTHER = 1.5  # and from further away, where more of them are on the way


def moving(root: Branch, machine: Machine) -> dict[str, float]:
    """Cycles by the level that data come from (below the first one, main memory last), and for pages."""
    apart = _apart(root, machine.caches[0].line)
    found = levels(root, machine.caches)
    out: dict[str, float] = {}
    for k, level in enumerate(found[1:]):
        rate = _main(machine) if k + 1 == len(machine.caches) else machine.caches[k + 1].bandwidth
        line = machine.caches[k].line
        total = 0.0
        for tensor, counts in level.tensors.items():
            share = apart.get(tensor, 0.0)
            slower = 1 + share * ((_FURTHER if k else _APART) - 1)
            total += (counts.reads * slower + counts.writes) * line / rate
        out[level.name] = total
    out["pages"] = _FIND * sum(m.total for m in CacheModel(Footprints(root, _PAGE), 1, _PAGES).misses(root).values())
    return out


def _main(machine: Machine) -> float:
    return 2 / (1 / machine.main.read_bandwidth + 1 / machine.main.write_bandwidth)


def _apart(root: Branch, line: int) -> Mapping[str, float]:
    """By tensor, the part of its accesses that the innermost loop moves further than a line."""
    far: dict[str, float] = {}
    every: dict[str, float] = {}
    for a, around in accesses(root):
        n = a.share * math.prod(float(loop.trips) for loop in around)
        every[a.tensor] = every.get(a.tensor, 0.0) + n
        if a.data or _scattered(a, around, line):
            far[a.tensor] = far.get(a.tensor, 0.0) + n
    return {t: far.get(t, 0.0) / n for t, n in every.items() if n}


def _scattered(a: Access, around: tuple[Loop, ...], line: int) -> bool:
    """Whether the innermost loop that stays one, of those that move it, leaves out most lines in between."""
    covered = a.size
    for loop in reversed(around):
        step = abs(a.steps.get(loop.var, 0))
        if step and loop.trips > 1:
            if not loop.straight:
                return step > _NEAR * line and 2 * covered < step
            covered *= loop.trips
    return False


__all__ = ["moving"]

"""What a region costs in a tile: its arithmetic and its traffic, with what is computed or read again for every tile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.lang.func import Func
from tilewright.lang.tensors import Tensor
from tilewright.planner.graph import Graph
from tilewright.planner.meeting import Met
from tilewright.planner.model import Level, Model

LAUNCH = 2000.0  # cycles that a region takes besides its work: a call, threads that start, caches that warm up
_START = 20.0  # cycles that a member takes for each tile besides its work: loops that begin and end
_ROW = 25.0  # cycles that a row (along the last axis) takes besides its work: its first and last vectors
_ASIDE = 1e-3  # what cycles count beside bytes, where a plan is for bytes

BLOCKS = -1  # stands among the root's axes for the domain of a group of dependent reductions

Runs = Mapping[int, Met]  # axes of the root, and BLOCKS -> how a tensor meets them


@dataclass(frozen=True)
class Tile:
    """How the root is cut: some of its axes, the outermost loop first, each in parts of a width (1: an index at a time).

    With `block`, dependent reductions go over their domain in blocks of so many points, in one pass (`online`).
    """

    cuts: tuple[tuple[int, int], ...] = ()
    block: int = 0

    @property
    def whole(self) -> bool:
        return not self.cuts

    def parts(self, extents: Sequence[int]) -> dict[int, int]:
        """In how many parts each axis that is cut is cut, where the root has so many points on each."""
        return {a: max(1, -(-extents[a] // w)) for a, w in self.cuts}

    def depth(self, runs: Runs) -> int:
        """How many of the loops over parts are around what runs so, from the outermost to the last that it runs with."""
        return next((k + 1 for k in range(len(self.cuts) - 1, -1, -1) if self.cuts[k][0] in runs), 0)


class Shape(NamedTuple):
    """What is known of a tensor of a region: its bytes (of an input those that are read), its points on each axis, how
    it runs with the root, the cycles to compute it, and which of the region's tensors (by number) read it."""

    bytes: int
    extents: tuple[int, ...]
    runs: tuple[tuple[int, Met], ...]
    computing: float
    readers: tuple[int, ...]


class Shapes(NamedTuple):
    """All that the cost of a region goes by: members from the root backwards, then what is read from outside."""

    tensors: tuple[Shape, ...]
    members: int
    domain: int | None

    @staticmethod
    def of(g: Graph, members: tuple[Func, ...], runs: Mapping[Tensor, Runs], domain: int | None) -> Shapes:
        inside = set(members)
        order: list[Tensor] = [*reversed(members), *(t for t in runs if t not in inside)]
        number = {t: k for k, t in enumerate(order)}
        readers: dict[Tensor, list[int]] = {t: [] for t in order}
        for f in members:
            for t in g.sources(f):
                readers[t].append(number[f])
        return Shapes(
            tuple(
                Shape(
                    g.works[t].bytes if t in inside else g.read(t),  # type: ignore[index]
                    g.extents(t),
                    tuple(runs[t].items()),
                    g.computing[t] if t in inside else 0.0,  # type: ignore[index]
                    tuple(sorted(readers[t])),
                )
                for t in order
            ),
            len(members),
            domain,
        )


@dataclass(frozen=True)
class Cost:
    """`cycles` of computing, moving and starting; `computing` of these; `bytes` to and from main memory; `near`: the
    bytes that a tile keeps near; `stored`: those that the region leaves in memory."""

    cycles: float
    computing: float
    bytes: float
    near: float
    stored: float

    @staticmethod
    def never() -> Cost:
        return Cost(*[math.inf] * 5)

    @property
    def possible(self) -> bool:
        return math.isfinite(self.cycles)

    def of(self, model: Model) -> float:
        """What the plan's objective counts."""
        main = model.levels[-1].bandwidth
        if model.goal.objective == "traffic":
            return self.bytes / main + _ASIDE * self.cycles
        if model.goal.objective == "memory":
            near = 0.0 if model.staged else self.near  # a scratchpad is there to be filled
            return (self.stored + near) / main + _ASIDE * self.cycles
        return self.cycles


def staged_cost(s: Shapes, cycles: float, moved: float, near: float) -> Cost:
    """The cost of a region on a machine with a scratchpad, of which it takes `near`, and moves so many bytes from main
    memory and to it."""
    computing = sum(t.computing for t in s.tensors[: s.members])
    return Cost(cycles + LAUNCH, computing, moved, near, s.tensors[0].bytes)


def sum_of(costs: Iterable[Cost]) -> Cost:
    """What regions cost one after the other."""
    found = list(costs)
    return Cost(
        sum(c.cycles for c in found),
        sum(c.computing for c in found),
        sum(c.bytes for c in found),
        max((c.near for c in found), default=0.0),
        sum(c.stored for c in found),
    )


def depths(s: Shapes, tile: Tile) -> list[int]:
    """In how many of the loops around a tile each tensor is computed or read: a member not deeper than what reads it."""
    found: list[int] = []
    for k, t in enumerate(s.tensors):
        around = [found[r] for r in t.readers]
        found.append(min([tile.depth(dict(t.runs)), *around]) if k < s.members else max(around, default=0))
    return found


def cost(s: Shapes, model: Model, tile: Tile) -> Cost:
    """The cost of a region in a tile; never, if a tile does not stay near or computes a member whole each time."""
    loops = [(a, w, -(-s.tensors[0].extents[a] // w)) for a, w in tile.cuts]
    blocks = -(-s.domain // tile.block) if tile.block and s.domain is not None else 1
    parts: list[float] = []  # the share of each tensor that is of one tile
    times: list[float] = []  # how often each tensor is computed or read, in whole
    rows = 0.0
    in_blocks = [bool(tile.block) and any(a == BLOCKS for a, _ in t.runs) for t in s.tensors]
    for k, (t, depth) in enumerate(zip(s.tensors, depths(s, tile), strict=True)):
        share = again = 1.0
        runs, tiles = dict(t.runs), 1
        for a, w, n in loops[:depth]:
            tiles *= n
            if a in runs:
                full = max(1, t.extents[runs[a].axis])
                share *= min(1.0, runs[a].extent(w) / full)
                again *= max(1.0, min(n, runs[a].together(s.tensors[0].extents[a], n, w) / full))
            else:
                again *= n
        if 0 < k < s.members and loops and (depth == 0 or (share > 0.999 and tiles > 1)):
            return Cost.never()
        parts.append(share / blocks if in_blocks[k] else share)
        rows += _rows(t, runs, again, loops[:depth]) if k < s.members else 0.0
        times.append(again)
    return _total(s, model, tile, parts, times, in_blocks, math.prod(n for *_, n in loops), blocks, rows)


def _rows(t: Shape, runs: Mapping[int, Met], again: float, loops: Sequence[tuple[int, int, int]]) -> float:
    """How many rows of a member are gone through, those that are cut more than once."""
    last = len(t.extents) - 1
    parted = math.prod(n for a, _, n in loops if a in runs and runs[a].axis == last)
    return again * math.prod(t.extents[:-1]) * parted


def _total(
    s: Shapes, model: Model, tile: Tile, parts: list[float], times: list[float], in_blocks: list[bool], tiles: int,
    blocks: int, rows: float,
) -> Cost:  # fmt: skip
    near, main = model.near, model.levels[-1]
    kept = sum(t.bytes * p for t, p in zip(s.tensors[: s.members], parts, strict=False))
    if kept > near.capacity and (s.members > 1 or not tile.whole):
        return Cost.never()
    stays = sum(t.bytes * p for t, p in zip(s.tensors, parts, strict=True)) <= near.capacity
    between = model.levels[0] if kept <= model.levels[0].capacity else near  # where members find what they pass on
    moving = moved = 0.0

    def count(size: float, level: Level) -> None:
        nonlocal moving, moved
        moving += size / level.bandwidth
        if level is main:
            moved += size

    for k, t in enumerate(s.tensors):
        # what is kept up from block to block is gone through in each
        visits = times[k] * (1 if in_blocks[k] else blocks)
        if 0 < k < s.members:
            count(2 * t.bytes * visits, model.holding(t.bytes) if tile.whole and not tile.block else between)
            continue
        count(t.bytes, model.holding(t.bytes))
        part = t.bytes * parts[k]
        if visits > 1:
            again = near if stays and not in_blocks[k] else model.holding(part * (blocks if in_blocks[k] else 1))
            count(t.bytes * (visits - 1), again)
        if k >= s.members and len(t.readers) > 1:  # one member after the other
            count(t.bytes * visits * (len(t.readers) - 1), near if stays else model.holding(part))
    computing = sum(t.computing * n for t, n in zip(s.tensors[: s.members], times, strict=False))
    starts = _START * tiles * blocks * s.members + _ROW * rows + LAUNCH
    return Cost(computing + moving + starts, computing, moved, kept, s.tensors[0].bytes)


__all__ = ["BLOCKS", "LAUNCH", "Cost", "Runs", "Shapes", "Tile", "cost", "depths", "staged_cost", "sum_of"]

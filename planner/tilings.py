"""Ways to cut a part into tiles for a scratchpad, and a model in closed form of each.

What copies move, what is computed again, what lives in the scratchpad at once: all follows from the widths of the cuts, so
that thousands of ways are looked at together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.hw import Dma, Machine, Memory
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Array, Tensor
from tilewright.lang.values import Env
from tilewright.planner.boxes import BLOCKS, Axis, Box, Reach, Read, axes_of, reach
from tilewright.planner.budget import Budget
from tilewright.planner.goal import Goal
from tilewright.planner.pads import Members, Tiling, copies_of, levels

_WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
Numbers = Any  # an integer or float of NumPy, or an array of them: of one way, or of many at once

_COMBINATIONS = 20_000  # ways to cut a part that are looked at, before the choice of widths gets coarser
_LEAST_BLOCK = 8  # points of a reduction between two copies
_BLOCKED = 2  # reductions that go in blocks of their own at once
_GRAIN = 4  # elements of an axis that a core takes together
_CARRIED = 2.0  # operations on an element that goes from block to block: it is loaded and stored
_REPAIRED = 5.0  # the same where it is repaired too
_EXPOSED = 0.05  # of the shorter of copying and computing, where copies run ahead
_LOOP = 10.0  # cycles of what begins and ends with every tile, for each Func in it


@dataclass(frozen=True)
class Estimate:
    """What the model says of a way to cut a part: cycles, bytes from and to main memory, bytes in the scratchpad at once,
    and those by what they hold."""

    cycles: float
    traffic: float
    peak: int
    holds: Mapping[str, int]

    def rank(self, goal: Goal) -> tuple[float, ...]:
        """What a goal goes by, the least being best. Memory that is to be spared is main memory, not the scratchpad."""
        return (self.traffic, self.cycles) if goal.objective == "traffic" else (self.cycles, self.traffic)


def pad_of(machine: Machine) -> Memory | None:
    """The scratchpad that tiles are staged in: the largest of those that an engine fills from main memory."""
    pads = [m for m in machine.memories if m.kind == "scratchpad" and m.per == "machine"]
    joined = [m for m in pads if machine.dma(machine.main.name, m.name) is not None]
    return max(joined or pads, key=lambda m: m.capacity or math.inf, default=None)


@dataclass(frozen=True)
class Pad:
    """A scratchpad with what joins it to main memory, as far as estimates go."""

    machine: Machine
    memory: Memory

    @property
    def capacity(self) -> float:
        return self.memory.capacity or math.inf

    @cached_property
    def engine(self) -> Dma | None:
        return self.machine.dma(self.machine.main.name, self.memory.name)

    def copying(self, shape: Sequence[Numbers], whole: tuple[int, ...], times: Numbers, size: Numbers) -> Numbers:
        """Cycles of so many copies of a box of a tensor, of `size` bytes in all."""
        e = self.engine
        if e is None:
            return size / min(self.machine.main.read_bandwidth, self.memory.write_bandwidth)
        return size / e.bandwidth + times * (e.latency + e.issue * _descriptors(shape, whole, e.dims))

    def aligned(self, size: Numbers) -> Numbers:
        return -(-size // self.memory.alignment) * self.memory.alignment

    def elementwise(self, dtype: str) -> float:
        """Cycles of one operation on an element, on all cores."""
        return 1 / (self.machine.compute.rate(dtype) or 1.0)


def _descriptors(shape: Sequence[Numbers], whole: tuple[int, ...], dims: int) -> Numbers:
    """How many an engine needs that walks so many dimensions: those that lie side by side count as one."""
    number: Numbers = np.int64(1)
    run: Numbers = np.int64(0)
    joined: Numbers = np.bool_(True)
    for n, all_ in zip(reversed(shape), reversed(whole), strict=True):
        run = run + np.where(joined | (n == 1), 0, 1)
        number = number * np.where(run >= dims, n, 1)
        joined = n == all_
    return number


class Way:
    """What can be said of cutting a part along some axes in one order, whatever the widths are."""

    def __init__(self, space: Space, order: tuple[int, ...], cut: Iterable[Axis]):
        self.space = space
        self.tiling = Tiling(order, dict.fromkeys(cut, 1))
        self.copies = copies_of(space.reach, self.tiling, space.left)
        self.places = levels(space.m, space.reach, self.tiling)
        self.blocked = frozenset(f for f, at in self.places.items() if at == BLOCKS)

    def around(self, at: Axis | None) -> list[Axis]:
        """The loops over tiles and blocks from the outermost one down to `at`."""
        if at is None:
            return []
        if isinstance(at, int):
            return list(self.tiling.order[: self.tiling.order.index(at) + 1])
        blocks = BLOCKS in self.tiling.widths and (at == BLOCKS or at[0] in (*self.blocked, *self.space.m.group))
        return [*self.tiling.order, *([BLOCKS] if blocks else []), *([at] if at != BLOCKS else [])]

    def figures(self, widths: Mapping[Axis, Numbers]) -> tuple[Figures, Figures]:
        """Cycles and bytes for widths along the axes that are cut, numbers or arrays of them: as copies are waited for, and
        where they run ahead."""
        space, r, pad = self.space, self.space.reach, self.space.pad
        along = {a: np.minimum(widths[a], n) if a in widths else np.int64(n) for a, n in r.along.items()}
        trips = {a: np.maximum(1, -(-np.int64(r.along[a]) // np.maximum(1, w))) for a, w in widths.items()}
        held: list[dict[Axis | None, Numbers]] = [{}, {}]
        holds: dict[str, Numbers] = {}
        computing: Numbers = np.float64(0)
        copying: Numbers = np.float64(0)
        exposed: Numbers = np.float64(0)  # of that the first and last of each loop, which nothing runs beside
        traffic: Numbers = np.float64(0)
        site = self.tiling.order[-1] if self.tiling.order else None

        def times(at: Axis | None) -> Numbers:
            return _product([trips[a] for a in self.around(at)])

        def hold(name: str, at: Axis | None, size: Numbers, ahead: bool) -> None:
            taken = pad.aligned(size)
            held[0][at] = held[0].get(at, 0) + taken
            held[1][at] = held[1].get(at, 0) + (2 * taken if ahead else taken)
            holds[name] = holds.get(name, 0) + taken

        for f in space.stored:
            shape, whole = r.shape(f, r.boxes[f], along), r.extents[f]
            at = site if f is r.root else self.places[f.name]
            elements, runs = _product(shape), times(at)
            total = self.total(r.boxes[f], whole, at, along, trips)
            share = np.float64(1.0) if f is r.root else np.maximum(1.0, total / max(1, math.prod(whole)))
            computing = computing + space.computing.get(f.name, 0.0) * share * space.idle(shape) + _LOOP * runs
            blocks = [a for a in widths if (isinstance(a, tuple) and a[0] == f.name)]
            in_group = f.name in space.m.group and BLOCKS in widths
            for a in [*blocks, *([BLOCKS] if in_group else [])]:
                each = (_REPAIRED if a == BLOCKS else _CARRIED) * pad.elementwise(f.dtypes[0].name)
                computing = computing + times(a) * elements * each
            if f is not r.root:
                hold(f.name, at, elements * _bytes(f), False)
                if in_group:  # what it was before, and what it is repaired by
                    hold(f.name, BLOCKS, 2 * elements * _bytes(f) // np.maximum(1, shape[-1]), False)
            elif site is not None and not isinstance(f, InoutFunc):
                hold(f.name, at, elements * _bytes(f), True)
                traffic = traffic + total * _bytes(f)
                taken = pad.copying(shape, whole, runs, total * _bytes(f))
                copying, exposed = copying + taken, exposed + taken / trips[site]
            else:
                traffic = traffic + 2 * elements * _bytes(f)
        for c in self.copies:
            shape, whole = r.shape(c.tensor, c.box, along), r.extents[c.tensor]
            size = _product(shape) * _bytes(c.tensor)
            hold(c.tensor.name, c.at, size, c.at is not None)
            moved = self.total(c.box, whole, c.at, along, trips) * _bytes(c.tensor)
            traffic = traffic + moved
            taken = pad.copying(shape, whole, times(c.at), moved)
            copying, exposed = copying + taken, exposed + (taken if c.at is None else taken / trips[c.at])
        more, less = np.maximum(computing, copying), np.minimum(computing, copying)
        return (
            Figures(more + less, traffic, self.most(held[0], widths), holds),
            Figures(
                more + np.maximum(_EXPOSED * less, np.minimum(exposed, less)),
                traffic,
                self.most(held[1], widths),
                holds,
            ),
        )

    def total(
        self, box: Box, whole: tuple[int, ...], at: Axis | None, along: Mapping[Axis, Numbers], trips: Mapping[Axis, Numbers]
    ) -> Numbers:  # fmt: skip
        """The elements of all boxes of a tensor that a run goes through: the last tiles may be smaller, others overlap."""
        found: Numbers = np.float64(1.0)
        moving: set[Axis] = set()
        for r, n in zip(box, whole, strict=True):
            rates = [] if r is None else [(x, abs(k)) for x, k in r.rates if x in trips]
            one = np.int64(n) if r is None else np.minimum(n, r.count(along))
            moving.update(x for x, _ in rates)
            if len(rates) == 1:
                ((x, rate),) = rates
                overlap = np.maximum(0, one - float(rate) * along[x])
                found = found * np.minimum(one * trips[x], n + (trips[x] - 1) * overlap)
            else:
                found = found * one * _product([trips[x] for x, _ in rates])
        return found * _product([trips[a] for a in self.around(at) if a not in moving])

    def most(self, held: Mapping[Axis | None, Numbers], axes: Iterable[Axis]) -> Numbers:
        """The most that lives at once, of what is held at each loop."""
        peak: Numbers = np.int64(0)
        for at in (None, *axes):
            peak = np.maximum(peak, held.get(None, 0) + sum(held.get(a, 0) for a in self.around(at)))
        return peak


@dataclass(frozen=True)
class Figures:
    """An estimate of several ways at once."""

    cycles: Numbers
    traffic: Numbers
    peak: Numbers
    holds: Mapping[str, Numbers]


class Space:
    """The ways to cut one part, and what the model says of each."""

    def __init__(self, m: Members, sizes: Env, computing: Mapping[str, float], pad: Pad):
        self.m, self.pad, self.computing, self.sizes = m, pad, computing, sizes
        self.reach: Reach = reach(m.pipeline, sizes, m.group, m.over)
        self.stored = tuple(f for f in self.reach.boxes if f.name in m.stored)
        # in main memory stays that of which data say which elements are read, and inputs of which any tile may need more
        # than there is room for, from both ends for instance (`%` in an index)
        large = {
            r.tensor for r in self.reach.reads if isinstance(r.tensor, Array) and self._unbounded(r) > pad.capacity
        }
        self.left: frozenset[Tensor] = self.reach.scattered | large

    def _unbounded(self, r: Read) -> int:
        """The bytes that the smallest tile takes of what a definition reads."""
        axes = zip(r.box, self.reach.extents[r.tensor], strict=True)
        return math.prod(n for moved, n in axes if moved is None) * _bytes(r.tensor)

    def without(self, t: Tensor) -> Space:
        """The same with a tensor left in main memory."""
        made = copy(self)
        made.left = self.left | {t}
        return made

    @cached_property
    def _blocked(self) -> frozenset[Axis]:
        """Reduction variables in whose blocks something is copied, or computed: other blocks would save nothing."""
        moved = [axes_of(r.box) for r in self.reach.reads if r.reader.name in self.m.stored]
        return frozenset(a for axes in moved for a in axes if isinstance(a, tuple) and a[0] in self.m.stored)

    def idle(self, shape: Sequence[Numbers]) -> Numbers:
        """How much longer a tile of this shape takes because some cores have nothing of it."""
        cores = self.pad.machine.compute.cores
        if cores == 1 or not shape:
            return np.float64(1.0)
        shared: Numbers = np.int64(1)
        for n in shape:
            shared = np.maximum(shared, -(-n // _GRAIN))
        return -(-shared // cores) * cores / shared

    def widths(self) -> dict[Axis, list[int]]:
        """For each axis the widths that are looked at, the whole first."""
        cut: dict[Axis, list[int]] = {}
        for a, n in self.reach.along.items():
            if a == BLOCKS or isinstance(a, tuple):
                own = a == BLOCKS or a in self._blocked
                cut[a] = [n, *(w for w in reversed(_WIDTHS) if own and _LEAST_BLOCK <= w < n)]
            else:
                fixed = isinstance(self.m.root, InoutFunc)
                cut[a] = [n, *(w for w in reversed(_WIDTHS) if not fixed and w < n)]
        while math.prod(map(len, cut.values())) > _COMBINATIONS:
            longest = max(cut, key=lambda a: len(cut[a]))
            cut[longest] = [cut[longest][0], *cut[longest][2::2]] if len(cut[longest]) > 2 else cut[longest][:1]
        return cut

    def ways(self, rough: bool = False) -> Iterator[tuple[Way, dict[Axis, np.ndarray]]]:
        """The ways to cut the part, each with all of its widths; `rough`: in one order, with one reduction in blocks."""
        choices = {a: c for a, c in self.widths().items() if len(c) > 1}
        blocks = [a for a in choices if isinstance(a, tuple)]
        outer = [a for a in choices if isinstance(a, int)]
        for some in (x for n in range(len(outer) + 1) for x in itertools.combinations(outer, n)):
            for ahead in ((), (BLOCKS,)) if BLOCKS in choices else ((),):
                for n in range(2 if rough else _BLOCKED + 1):
                    for reduced in itertools.combinations(blocks, n):
                        cut = {a: choices[a][1:] for a in (*some, *ahead, *reduced)}
                        axes = list(some)
                        if not axes and self.reach.extents[self.reach.root]:
                            axes, cut = [0], {0: [max(1, self.reach.along[0])], **cut}  # one tile
                        grid = np.meshgrid(*(np.array(w, np.int64) for w in cut.values()), indexing="ij")
                        widths = {a: w.reshape(-1) for a, w in zip(cut, grid, strict=True)}
                        for order in itertools.islice(_orders(axes), 1 if rough else None):
                            yield Way(self, order, cut), widths

    def ranked(self, goal: Goal, budget: Budget, most: int, rough: bool = False) -> list[tuple[Estimate, Tiling]]:
        """The ways that fit by the model, best first; of equals the one with fewer and wider cuts."""
        found: list[tuple[tuple, Way, dict[Axis, int], bool]] = []
        for way, widths in self.ways(rough):
            number = max((len(w) for w in widths.values()), default=1)
            if not budget.spend("staging") and found:
                break
            for ring, f in zip((False, True), way.figures(widths), strict=True):
                cycles, traffic, peak = (np.broadcast_to(x, number) for x in (f.cycles, f.traffic, f.peak))
                keys = (traffic, cycles) if goal.objective == "traffic" else (cycles, traffic)
                best = np.lexsort((keys[1], keys[0]))
                for k in best[peak[best] <= self.pad.capacity][:most]:
                    own = {a: int(w[k]) for a, w in widths.items()}
                    key = (float(keys[0][k]), float(keys[1][k]), ring, len(own), tuple(-w for w in own.values()))
                    found.append((key, way, own, ring))
        found.sort(key=lambda x: x[0])
        seen: set[tuple] = set()
        out = []
        for _, way, own, ring in found:
            if (cut := (frozenset(own.items()), ring)) not in seen:  # of several orders the best one
                seen.add(cut)
                out.append(self.one(way, own, ring))
        return out[:most]

    def one(self, way: Way, widths: dict[Axis, int], ring: bool) -> tuple[Estimate, Tiling]:
        f = way.figures({a: np.int64(w) for a, w in widths.items()})[ring]
        holds = {n: int(x) for n, x in f.holds.items()}
        return Estimate(float(f.cycles), float(f.traffic), int(f.peak), holds), Tiling(way.tiling.order, widths, ring)

    def estimate(self, t: Tiling) -> Estimate:
        return self.one(Way(self, t.order, t.widths), dict(t.widths), t.ring)[0]

    def least(self) -> tuple[Estimate, Tiling]:
        """The way that takes least of the scratchpad."""
        best: tuple[int, Way, dict[Axis, int]] | None = None
        for way, widths in self.ways():
            peak = np.atleast_1d(way.figures(widths)[0].peak)
            k = int(np.argmin(peak))
            if best is None or peak[k] < best[0]:
                best = int(peak[k]), way, {a: int(w[k]) for a, w in widths.items()}
        assert best is not None
        return self.one(best[1], best[2], False)


def _product(numbers: Sequence[Numbers]) -> Numbers:
    out: Numbers = np.int64(1)
    for n in numbers:
        out = out * n
    return out


def _orders(axes: list[int]) -> Iterator[tuple[int, ...]]:
    """Orders of the loops over tiles: as the axes are, and each of them innermost."""
    yield tuple(axes)
    for a in axes[:-1]:
        yield (*(x for x in axes if x != a), a)


def _bytes(t: Tensor) -> int:
    return sum(x.bytes for x in t.dtypes) if isinstance(t, Func) else t.dtype.bytes  # type: ignore[attr-defined]


__all__ = ["Estimate", "Figures", "Pad", "Space", "Way", "pad_of"]

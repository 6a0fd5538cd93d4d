"""Straight code: the statements between loops that stay loops, with all that is unrolled or runs in lanes inside of them.

What is the same in all copies of an unrolled loop is computed once, what does not change in the loop around is computed
before it, sums that it does not move stay in registers (or on the stack, where there are too many).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.autotune.model.core import LATENCY, WEIGHT, Core, Work
from tilewright.autotune.model.samples import Samples
from tilewright.codegen import loops as L
from tilewright.codegen.operations import CLASS_OF
from tilewright.codegen.single import at_most_once
from tilewright.lang import ir
from tilewright.lang.ir import Node
from tilewright.lang.types import index

Axes = tuple[tuple[Node, int], ...]
_NEAR = 4  # elements apart, up to which lanes are loaded as whole vectors and shuffled
_FAR = 512  # bytes
_THROUGH = 12.0  # cycles of a value that is stored and loaded again
_SPILL = 1.7  # times as long as to load it takes to keep a sum on the stack
_COLLISION = 5.0  # cycles of a load that is taken to need an earlier store
_GRID = 1 << 12  # elements whose places are looked at, at most


def straight(s: L.Stmt) -> bool:
    """Whether no loop is left of a statement."""
    if isinstance(s, L.For) and s.mode not in (L.UNROLL, L.VECTORIZE) and not at_most_once(s.start, s.stop):
        return False
    return not isinstance(s, L.Call) and all(map(straight, L.children(s)))


@dataclass
class Straight:
    """The work of straight code: of each turn of the loop `around` (None: there is none) and before the first one."""

    core: Core
    samples: Samples
    around: Node | None = None
    turn: Work = field(default_factory=Work)
    before: Work = field(default_factory=Work)
    chain: float = 0.0  # cycles from one turn to the next that results are waited for
    stalls: float = 0.0  # cycles of a turn in which loads wait for stores
    held: float = 0.0  # registers of sums
    width: float = 0.0  # bytes of each
    operands: float = 0.0  # registers of what sums are made of
    updates: float = 1.0  # of each sum in a turn
    placed: frozenset[Node] = frozenset()  # variables of where the present statement stores
    seen: set[tuple[Node, Axes]] = field(default_factory=set)
    written: set[L.Buffer] = field(default_factory=set)

    def run(self, statements: Sequence[L.Stmt]) -> Straight:
        self.written = {b for s in statements for t in L.walk(s) if isinstance(t, L.Store) for b, _ in t.targets}
        for s in statements:
            self._statement(s, (), None, 1.0)
        self._spills()
        return self

    def _statement(self, s: L.Stmt, unrolled: Axes, lanes: tuple[Node, int] | None, share: float) -> None:
        match s:
            case L.For(var, start, stop, mode, body) if mode not in (L.UNROLL, L.VECTORIZE):
                outer, trips = self.samples.enter(var, start, stop)
                self._statement(body, unrolled, lanes, share * trips)
                self.samples.leave(var, outer)
            case L.For(var, start, stop, mode, body):
                ends = self.samples.values((start, stop))
                n = 1 if ends is None else max(0, int(np.max(ends[1] - ends[0])))
                if not n:
                    return
                if mode == L.VECTORIZE:
                    self._statement(body, unrolled, (var, n), share)
                else:
                    self._statement(body, (*unrolled, (var, n)), lanes, share)
            case L.If(condition, then, otherwise, versions):
                held = self._share(condition, unrolled, lanes)
                if versions:
                    held = 1.0 if held > 0 else 0.0
                if held > 0:
                    self._statement(then, unrolled, lanes, share * held)
                if otherwise is not None and held < 1:
                    self._statement(otherwise, unrolled, lanes, share * (1 - held))
            case L.Store():
                self._store(s, unrolled, lanes, share)
            case L.Prefetch():
                self.turn.others += share * math.prod(n for _, n in unrolled)
            case _:
                for t in L.children(s):
                    self._statement(t, unrolled, lanes, share)

    def _share(self, condition: Node, unrolled: Axes, lanes: tuple[Node, int] | None) -> float:
        """In how many of the points a condition holds; lanes that it switches off take as long as others."""
        axes = tuple(a for a in unrolled if a[0] in ir.variables(condition))
        if lanes is not None and lanes[0] in ir.variables(condition):
            found = self.samples.at((condition,), (*axes, lanes))
            return 0.5 if found is None else float(found[0].any(axis=-1).mean())
        if axes:
            found = self.samples.at((condition,), axes)
            return 0.5 if found is None else float(found[0].mean())
        weight = self.samples.weight
        held = self.samples.holds(condition)
        return float((held * weight).sum() / weight.sum()) if weight.sum() else 0.0

    # One store ----------------------------------------------------------------------------------------------------

    def _store(self, s: L.Store, unrolled: Axes, lanes: tuple[Node, int] | None, share: float) -> None:
        self.placed = frozenset[Node]().union(*(ir.variables(i) for _, i in s.targets))
        for n in ir.postorder([*s.values, *(i for _, i in s.targets)]):
            if n.dtype is index and n.op not in ("load", "load_if"):
                continue
            self._node(n, unrolled, lanes, share)
        for (b, place), value in zip(s.targets, s.values, strict=True):
            self._target(b, place, value, unrolled, lanes, share)

    def _copies(self, n: Node, unrolled: Axes) -> tuple[float, Axes]:
        """How often a node is computed in unrolled copies of it, and the loops that make the copies."""
        moving = tuple(a for a in unrolled if a[0] in ir.variables(n))
        return float(math.prod(k for _, k in moving)), moving

    def _work(self, n: Node) -> Work:
        """Where it is done: before the loop, if that does not move it and nothing inside writes what it loads."""
        if self.around is None or self.around in ir.variables(n) or self._reads(n):
            return self.turn
        return self.before

    def _reads(self, n: Node) -> bool:
        return any(m.op in ("load", "load_if") and m.attr[0] in self.written for m in ir.postorder((n,)))

    def _node(self, n: Node, unrolled: Axes, lanes: tuple[Node, int] | None, share: float) -> None:
        times, moving = self._copies(n, unrolled)
        if (n, moving) in self.seen:
            return
        self.seen.add((n, moving))
        over = lanes if lanes is not None and lanes[0] in ir.variables(n) else None
        if n.op in ("load", "load_if"):
            b = n.attr[0]
            if b.memory != "reg":
                self._load(n, b, moving, over, times * share, lanes)
            return
        kind = CLASS_OF.get(n.op)
        if kind is None and n.op not in ("select", "cast"):
            return
        registers, size = self._vectors(n, over)
        self._work(n).arithmetic(times * share * registers * WEIGHT.get(kind or "", 1.0), size)

    def _vectors(self, n: Node, over: tuple[Node, int] | None) -> tuple[float, float]:
        """How many operations a node takes, and of how many bytes: registers of its widest type."""
        width = max(t.dtype.bytes for t in (n, *n.args) if t.dtype is not index) if not n.dtype.is_bool else 4
        return self._registers(width, over)

    def _registers(self, width: int, over: tuple[Node, int] | None) -> tuple[float, float]:
        if over is None:
            return 1.0, float(width)
        size = over[1] * width
        n = max(1, -(-size // self.core.registers.width))
        return float(n), size / n

    def _load(
        self, n: Node, b: L.Buffer, moving: Axes, over: tuple[Node, int] | None, times: float,
        lanes: tuple[Node, int] | None = None,
    ) -> None:  # fmt: skip
        work = self._work(n)
        width = b.dtype.bytes
        if over is None:  # all lanes of a register have it
            work.load(times, min(width * lanes[1], self.core.registers.width) if lanes else width)
            return
        pieces, whole, spread = self._pattern(n.args[-1], b, moving, over)
        registers, size = self._registers(width, over)
        if spread:
            work.load(times * registers, size)
            work.arithmetic(times * registers * spread, size)
        elif whole:
            work.load(times * registers * pieces, size)
            work.arithmetic(times * registers * (pieces - 1), size)
        else:
            work.load(times * pieces, width)
            work.arithmetic(times * pieces, size)
        if b.dtype.bytes < n.dtype.bytes:  # widened as it is loaded
            work.arithmetic(times * registers, size)
        if work is self.turn:
            wide, _ = self._registers(n.dtype.bytes, over)
            self.operands += wide * min(times, math.prod(k for v, k in moving if v in self.placed))

    def _pattern(self, place: Node, b: L.Buffer, moving: Axes, over: tuple[Node, int]) -> tuple[float, bool, float]:
        """How lanes lie: (loads of each register, whether they are of whole vectors, shuffles of each register)."""
        lanes = over[1]
        found = self.samples.at((place,), (over,))
        if found is None:
            return float(lanes), False, 0.0
        steps = np.diff(found[0])
        if not len(steps) or (steps == 1).all():
            return 1.0, True, 0.0
        if not steps.any():
            return 1.0, True, 0.0
        breaks = int((steps != 1).sum())
        if (breaks + 1) * 4 <= lanes:
            return 1.0 + breaks / max(1.0, self._registers(b.dtype.bytes, over)[0]), True, 0.0
        apart = int(np.abs(steps).max())
        if (steps == steps[0]).all() and apart <= _NEAR:
            return float(apart), True, 0.0
        around = self._cut(moving, lanes)
        if around:  # lanes of unrolled copies may fill whole lines together: vectors are transposed in registers
            grid = self.samples.at((place,), (*around, over))
            if grid is not None:
                touched = len(np.unique(grid[0] * b.dtype.bytes // 64)) * 64
                if touched <= 2 * len(np.unique(grid[0])) * b.dtype.bytes:
                    return 1.0, True, math.log2(lanes)
        return float(lanes), False, 0.0

    @staticmethod
    def _cut(moving: Axes, lanes: int) -> Axes:
        kept: list[tuple[Node, int]] = []
        total = lanes
        for v, n in reversed(moving):
            if total * n > _GRID:
                break
            kept.append((v, n))
            total *= n
        return tuple(kept)

    # What is stored -----------------------------------------------------------------------------------------------

    def _target(
        self, b: L.Buffer, place: Node, value: Node, unrolled: Axes, lanes: tuple[Node, int] | None, share: float
    ) -> None:
        times, moving = self._copies(place, unrolled)
        over = lanes if lanes is not None and lanes[0] in ir.variables(place) else None
        registers, size = self._registers(b.dtype.bytes, over)
        fixed = self.around is not None and self.around not in ir.variables(place)
        own = next(
            (
                m
                for m in ir.postorder((value,))
                if m.op in ("load", "load_if") and m.attr[0] is b and m.args[-1] is place
            ),
            None,
        )
        updates = math.prod(k for v, k in unrolled if v not in dict(moving)) if own is not None else 1
        rows = self._rows(place, b, (*moving, *((over,) if over else ()))) if own is not None else 1
        apart = own is not None and b.argument is not None and rows > 1
        if own is not None and not apart:
            if fixed or b.memory == "reg":
                wide, self.width = self._registers(value.dtype.bytes, over)
                self.held = max(self.held, times * wide)
                self.updates = max(self.updates, updates)
            if fixed:
                self.chain = max(self.chain, updates * _depth(value, own) * (share > 0))
        elif own is not None:  # strides are not known when it is compiled: each update goes through memory
            waits = updates * share * (_COLLISION * self._colliding(place, b, (*moving, *((over,) if over else ()))))
            self.stalls = max(self.stalls, waits)
            if fixed:
                self.chain = max(self.chain, updates * share * (_THROUGH + _depth(value, own)))
            times, fixed = times * updates, False
            self._load(own, b, moving, over, (times - times / updates) * share)
        if b.memory == "reg":
            return
        work = self.before if fixed else self.turn
        if over is None:
            work.store(times * share, b.dtype.bytes)
            return
        pieces, whole, spread = self._pattern(place, b, moving, over)
        if spread:
            work.store(times * share * registers, size)
            work.arithmetic(times * share * registers * spread, size)
        elif whole:
            work.store(times * share * registers * pieces, size)
            work.arithmetic(times * share * registers * (pieces - 1), size)
        else:
            work.store(times * share * pieces, b.dtype.bytes)
            work.arithmetic(times * share * pieces, size)
        if value.dtype.bytes > b.dtype.bytes:
            work.arithmetic(times * share * registers, size)

    def _rows(self, place: Node, b: L.Buffer, axes: Axes) -> int:
        """In how many places that lie far apart copies of a statement store."""
        found = self.samples.at((place,), self._cut(axes, 1))
        if found is None:
            return 1
        at = np.unique(found[0]) * b.dtype.bytes
        return 1 + int((np.diff(at) > _FAR).sum())

    def _colliding(self, place: Node, b: L.Buffer, axes: Axes) -> int:
        """Of these, how many lie alike in their pages, so that loads of one are taken to need stores to another."""
        found = self.samples.at((place,), self._cut(axes, 1))
        if found is None:
            return 0
        lines = np.unique(found[0] * b.dtype.bytes // 64)
        most = int(np.bincount(lines % 64).max())
        return most if most > 1 else 0

    def _spills(self) -> None:
        """Sums that find no register are loaded and stored at each update."""
        extra = self.held + min(self.operands, 8.0) + 1 - self.core.registers.count
        if self.held and extra > 0:
            self.stalls += _SPILL * min(extra, self.held) * self.updates * self.width / self.core.loaded


def _depth(root: Node, leaf: Node) -> float:
    """Cycles from a leaf to the root."""
    found: dict[Node, float] = {leaf: 0.0}
    for n in ir.postorder((root,)):
        if n is leaf:
            continue
        below = [found[a] for a in n.args if a in found]
        if below:
            found[n] = max(below) + LATENCY.get(CLASS_OF.get(n.op, ""), 1.0)
    return found.get(root, 0.0)


__all__ = ["Straight", "straight"]

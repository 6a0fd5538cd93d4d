"""The cliff past a scratchpad's capacity: what a region takes as a function of the width of its tiles.

Wider tiles copy less, until they do not fit any more. Then a smaller one has to be taken, or what does not fit stays in main
memory, where the cores read it as often as they use it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.planner.boxes import Axis
from tilewright.planner.pads import Tiling
from tilewright.planner.staging import Staged, accounted, main_traffic, peak_of, write
from tilewright.planner.tilings import Space

if TYPE_CHECKING:
    from tilewright.planner.plan import Plan

_POINTS = 8  # widths that are looked at
_BEYOND = 2  # of them, how many are too wide


@dataclass(frozen=True)
class Point:
    """Tiles of one width: bytes that they take of the scratchpad (`peak`), whether these `fit`, and what the region takes.

    Where they do not, `cycles` and `traffic` are those of a run in which the largest tensor is `spilled`: it stays in main
    memory. They are None where that has no account.
    """

    width: int
    peak: int
    fits: bool
    cycles: float | None
    traffic: int | None
    spilled: str | None = None


@dataclass(frozen=True)
class Cliff:
    """Points by width along one axis of a region, those of its plan otherwise; `chosen` is the plan's width."""

    region: str
    axis: str
    memory: str
    capacity: int
    chosen: int
    points: tuple[Point, ...]

    @property
    def edge(self) -> int | None:
        """The widest tile that fits."""
        return max((p.width for p in self.points if p.fits), default=None)

    @property
    def drop(self) -> float | None:
        """How many times as many cycles a tile takes that is just too wide as the widest one that fits."""
        edge = next((p for p in reversed(self.points) if p.fits and p.cycles), None)
        past = next((p for p in self.points if not p.fits and p.cycles), None)
        return None if edge is None or past is None or not edge.cycles or not past.cycles else past.cycles / edge.cycles


def cliffs(plan: Plan) -> tuple[Cliff, ...]:
    """The cliff of each region of a plan that is cut into tiles, equal ones once."""
    found: dict[str, Cliff | None] = {}
    for s in plan.steps:
        if s.staged is not None and s.schedule.hash not in found:
            found[s.schedule.hash] = cliff_of(s.staged)
    return tuple(c for c in found.values() if c is not None)


def cliff_of(staged: Staged) -> Cliff | None:
    """What a region takes with tiles around the capacity, along the axis of its plan whose width matters most for what is
    copied; None where it is not cut."""
    t, space = staged.tiling, staged.space
    if t is None or space is None or not t.order:
        return None
    axis = max(t.order, key=lambda a: (_saved(space, t, a), -t.order.index(a)))
    points: list[Point] = []
    for width in _around(t.widths[axis], space.reach.along[axis]):
        p = _point(space, replace(t, widths={**t.widths, axis: width}), width)
        if p is not None:
            points.append(p)
        if sum(not x.fits for x in points) == _BEYOND:
            break
    variable = space.m.root.definitions[-1].lhs[axis].attr
    memory, name = space.pad.memory, space.m.shown(space.m.root.name)
    return Cliff(name, variable, memory.name, memory.capacity or 0, t.widths[axis], tuple(points))


def _saved(space: Space, t: Tiling, axis: Axis) -> float:
    """How many bytes fewer a tile of twice the width copies."""
    wider = replace(t, widths={**t.widths, axis: min(2 * t.widths[axis], space.reach.along[axis])})
    return space.estimate(t).traffic - space.estimate(wider).traffic


def _around(chosen: int, extent: int) -> list[int]:
    """Widths from some halvings below the chosen one to the whole, each twice as wide."""
    widths = [chosen]
    while widths[0] > 1 and len(widths) < _POINTS // 2:
        widths.insert(0, max(1, widths[0] // 2))
    while widths[-1] < extent and len(widths) < _POINTS:
        widths.append(min(extent, 2 * widths[-1]))
    return widths


def _point(space: Space, t: Tiling, width: int) -> Point | None:
    """What tiles of one width take; where they do not fit, with the largest copies left out until they do."""
    made = write(space, t)
    if made is None:
        return None
    sizes = space.sizes
    peak = peak_of(made.schedule, space.pad, sizes)
    spilled: list[str] = []
    while peak_of(made.schedule, space.pad, sizes) > space.pad.capacity:
        holds = space.estimate(t).holds
        copied = {r.tensor for r in space.reach.reads} - set(space.reach.boxes) - space.left
        largest = max((x for x in copied if x.name in holds), key=lambda x: (holds[x.name], x.name), default=None)
        if largest is None:
            return Point(width, peak, False, None, None)
        spilled.append(space.m.shown(largest.name))
        space = space.without(largest)
        again = write(space, t)
        if again is None:
            return Point(width, peak, False, None, None, ", ".join(spilled))
        made = again
    found = accounted(made, sizes).account
    cycles = None if found is None or found.time is None else found.time.cycles
    moved = None if found is None else main_traffic(found, space.pad.machine)
    return Point(width, peak, not spilled, cycles, moved, ", ".join(spilled) or None)


__all__ = ["Cliff", "Point", "cliff_of", "cliffs"]

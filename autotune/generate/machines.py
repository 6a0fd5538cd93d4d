"""Spaces for simulated machines: tiles in a scratchpad under its capacity, copies that run ahead, loops for cores and units.

What a tile needs, where it is copied and how its loops are written is the planner's knowledge (`planner/tilings`, `pads`,
`tile_loops`), for any pipeline of one result: products, stencils, reductions, chains of them. The planner follows a model in
closed form; here everything that it decides is a choice, and accounts decide.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from tilewright.autotune.generate.extents import Extents
from tilewright.autotune.generate.units import Way, write_unit
from tilewright.autotune.generate.units import ways as unit_ways
from tilewright.autotune.space import Choose, Dead, Point, by_name, draw
from tilewright.codegen.accounts.prepared import registers_of
from tilewright.hw import Machine, load_machine
from tilewright.hw.machine import parse_machine
from tilewright.lang.errors import TilewrightError
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.pipeline import Pipeline
from tilewright.planner.boxes import Axis
from tilewright.planner.budget import Budget
from tilewright.planner.goal import Goal
from tilewright.planner.graph import Graph, make_graph
from tilewright.planner.model import Model
from tilewright.planner.online import find_group
from tilewright.planner.pads import Members, Tiling
from tilewright.planner.staging import computing_in, space_of, stageable, write
from tilewright.planner.tilings import Space as Tilings
from tilewright.planner.tilings import Way as Cuts
from tilewright.planner.tilings import pad_of
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

USUAL, PLANNED, TILES, RULES = "usual", "planned", "tiles", "in caches"
_INLINED = 6  # Funcs of which may be chosen whether they are stored; of more the planner's choice stands
_NARROW = 4  # narrower tiles are only offered where wider ones don't fit
_ORDERS = 6  # of the loops over tiles


def machine_of(given: object) -> Machine | None:
    """A machine that is given as such, by its name, or by the text of its file."""
    if given is None or isinstance(given, Machine):
        return given
    return parse_machine(given) if isinstance(given, str) and "\n" in given else load_machine(str(given))


class MachineSpace:
    """Schedules of a pipeline at these sizes on a machine with a scratchpad that all of it shares.

    The usual point is the default schedule; another one is what the planner makes of the pipeline, where it has one result.
    Of a tiling may be chosen: which Funcs are stored, whether an input
    is left in main memory, the widths of tiles and of blocks of
    reductions as far as the scratchpad holds them, the order of the loops over tiles, whether copies run ahead and which,
    which loop the cores share, and tiles of registers. What fits exactly the account of a schedule says: it is infinitely
    bad where buffers are too large.
    """

    def __init__(self, pipeline: Pipeline, sizes: Mapping[str, int], machine: Machine, mode: str = "contract"):
        self.pipeline, self.sizes, self.machine, self.mode = pipeline, dict(sizes), machine, mode
        self._best: dict[Any, Tiling | None] = {}
        self.name = f"generated for {machine.name}"

    def starts(self) -> list[Point]:
        """Points to begin with: the default schedule, and each other form with its usual choices."""
        found = [draw(self, by_name({"form": form})) for form in (USUAL, TILES, *self._units, PLANNED)]
        return list({p.hash: p for p in found if p is not None}.values())

    @cached_property
    def _tiled(self) -> bool:
        """Whether there is a scratchpad, and one result that is computed in tiles."""
        outputs = {o.func for o in self.pipeline.outputs}
        one = len(outputs) == 1 and self.pipeline.funcs[-1] in outputs and pad_of(self.machine) is not None
        return one and stageable(self._members(tuple(f.name for f in self.pipeline.funcs)))

    def build(self, choose: Choose, rules: Callable[[Choose], Schedule] | None = None) -> Schedule:
        """A schedule. `rules` writes those of machines without a scratchpad, a form where there are caches too."""
        cached = [RULES] if rules is not None and self.machine.caches else []
        form = choose("form", [USUAL, *([TILES] if self._tiled else []), *self._units, PLANNED, *cached])
        if rules is not None and form == RULES:
            return rules(choose)
        if form == TILES:
            return self._tiles(choose)
        if form == PLANNED:
            if self._plan is None:
                raise Dead
            return self._plan
        s = Schedule(self.pipeline, self.machine)
        if form in self._units:
            write_unit(s, self._units[str(form)], self._extents, self.machine, choose)
        return complete(s, self.mode, registers_of(self.machine))

    @cached_property
    def _units(self) -> dict[str, Way]:
        """What units of the machine can do, by name."""
        return {w.name: w for w in unit_ways(self.pipeline, self.machine)}

    @cached_property
    def _extents(self) -> Extents:
        return Extents(self.pipeline, self.sizes)

    # What there is to choose from -----------------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> Graph:
        return make_graph(self.pipeline, self.sizes, Model(self.machine))

    @cached_property
    def _plan(self) -> Schedule | None:
        """What the planner makes of the pipeline; None where it has no schedule for the whole of it."""
        from tilewright.planner.plan import make_plan

        try:
            made = make_plan(self.pipeline, self.machine, self.sizes, Goal())
            return Schedule.recorded(self.pipeline, made.schedule.directives, made.schedule.hash, machine=self.machine)
        except TilewrightError:
            return None

    def _members(self, stored: tuple[str, ...], group: tuple[str, ...] = (), over: str = "") -> Members:
        return Members(self.pipeline, stored, group, over)

    def _tilings(self, stored: tuple[str, ...], one_pass: bool) -> Tilings:
        """What a tile needs when these Funcs are stored."""
        found = find_group(self._graph, tuple(self.pipeline.func(n) for n in stored)) if one_pass else None
        own = ((), "") if found is None else (tuple(f.name for f in found.members), found.over)
        return space_of(self._members(stored, *own), self.sizes, self._computing, self.machine)

    @cached_property
    def _computing(self) -> dict[str, float]:
        return computing_in(self._graph, {f.name: f.name for f in self.pipeline.funcs}, Model(self.machine))

    @cached_property
    def _known(self) -> Callable[[tuple[str, ...], bool], Tilings]:
        return lru_cache(maxsize=256)(self._tilings)

    def _usual(self, space: Tilings) -> Tiling | None:
        """The way to cut a part that is best by the planner's model; None where nothing fits."""
        key = space.m.stored, space.m.group, tuple(sorted(t.name for t in space.left))
        if key not in self._best:
            found = space.ranked(Goal(), Budget(Goal()), 1)
            self._best[key] = found[0][1] if found else None
        return self._best[key]

    # Choices ------------------------------------------------------------------------------------------------------

    def _tiles(self, choose: Choose) -> Schedule:
        stored = self._stored(choose)
        grouped = self._groups(stored) and bool(choose("one pass", (True, False)))
        space = self._known(stored, grouped)
        inputs = {t.name: t for t in _readable(space)}
        left = str(choose("left in main memory", ("", *inputs)))
        if left:
            space = space.without(inputs[left])
        best = self._usual(space)
        if best is None:
            raise Dead
        tiling = _tiling(space, best, choose)
        made = write(space, tiling, choose)
        if made is None:
            raise Dead
        return made.schedule

    def _stored(self, choose: Choose) -> tuple[str, ...]:
        """The Funcs that are stored, the root last: as the planner would have it first."""
        kept = {f.name for f in self._graph.kept}
        free = [f for f in self.pipeline.funcs[:-1] if _may_be_inlined(f)]
        open_ = {f.name for f in free} if len(free) <= _INLINED else set()
        stored = []
        for f in self.pipeline.funcs[:-1]:
            usual = f.name in kept
            if bool(choose(f"{f.name}.stored", (usual, not usual))) if f.name in open_ else usual:
                stored.append(f.name)
        return (*stored, self.pipeline.funcs[-1].name)

    def _groups(self, stored: tuple[str, ...]) -> bool:
        members = tuple(self.pipeline.func(n) for n in stored)
        return set(members) <= set(self._graph.kept) and find_group(self._graph, members) is not None


def _may_be_inlined(f: Func) -> bool:
    return f.init is not None and not f.updates and not isinstance(f, InoutFunc)


def _readable(space: Tilings) -> list[Any]:
    """Inputs that tiles read, those aside which stay in main memory anyway."""
    seen = {r.tensor: None for r in space.reach.reads if r.tensor not in space.reach.boxes}
    return [t for t in seen if t not in space.left and not isinstance(t, Func)]


def _tiling(space: Tilings, best: Tiling, choose: Choose) -> Tiling:
    """How a part is cut, first as `best` is: widths one axis after the other, such that it fits when all later axes are as
    narrow as they may be; then whether copies run ahead, and the order of the loops over tiles."""
    widths = space.widths()
    taken: dict[Axis, int] = {}
    for k, (axis, among) in enumerate(widths.items()):
        rest = {a: w[-1] for a, w in list(widths.items())[k + 1 :]}
        usual = best.widths.get(axis, among[0])
        fitting = [w for w in dict.fromkeys((usual, *among)) if _fits(space, {**taken, axis: w, **rest})]
        chosen = choose(f"tile {_said(space, axis)}", [w for w in fitting if w >= _NARROW] or fitting)
        assert isinstance(chosen, int)
        taken[axis] = chosen
    cut = _cut(space, taken)
    ring = _fits(space, taken, ring=True) and bool(choose("ahead", (best.ring, not best.ring)))
    orders = list(itertools.islice(itertools.permutations(a for a in cut if isinstance(a, int)), _ORDERS))
    said = {_said_all(space, o): o for o in (*([best.order] if set(best.order) == set(orders[0]) else []), *orders)}
    return Tiling(said[str(choose("order", tuple(said)))], cut, ring)


def _cut(space: Tilings, widths: Mapping[Axis, int]) -> dict[Axis, int]:
    """Of the widths those that cut something; a tile there is in any case."""
    cut = {a: w for a, w in widths.items() if w < space.reach.along[a]}
    outer = any(isinstance(a, int) for a in cut)
    if not outer and space.reach.extents[space.reach.root]:
        return {0: max(1, space.reach.along[0]), **cut}
    return cut


def _fits(space: Tilings, widths: Mapping[Axis, int], ring: bool = False) -> bool:
    cut = _cut(space, widths)
    order = tuple(a for a in cut if isinstance(a, int))
    return space.one(Cuts(space, order, cut), cut, ring)[0].peak <= space.pad.capacity


def _said(space: Tilings, a: Axis) -> str:
    """What an axis is called in choices."""
    if isinstance(a, int):
        lhs = space.reach.root.definitions[-1].lhs
        return str(lhs[a].attr)
    return str(a) if isinstance(a, str) else f"{a[0]}.{a[2]}"


def _said_all(space: Tilings, order: Sequence[int]) -> str:
    return " ".join(_said(space, a) for a in order)


__all__ = ["MachineSpace", "machine_of"]

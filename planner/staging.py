"""Tiling under capacity: the best way to compute a region in a machine's scratchpad.

Ways to cut it are ranked by a model (`tilings`). The best few that fit are written down as schedules (`pads`), and their
accounts decide. What does not fit is not taken: capacity is a bound, not a cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tilewright.codegen.accounts.prepared import registers_of
from tilewright.codegen.operations import operations
from tilewright.hw import Account, CapacityError, Footprint, Machine, SimulationError, footprints
from tilewright.lang.contract import contract
from tilewright.lang.errors import BoundsError, ScheduleError, user_location
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.values import Env
from tilewright.planner.budget import Budget
from tilewright.planner.cut import Part, cut
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.graph import Graph
from tilewright.planner.model import Model
from tilewright.planner.online import Group
from tilewright.planner.pads import Members, Passes, Tiling, schedule_part
from tilewright.planner.tile_loops import Pick, first
from tilewright.planner.tilings import Estimate, Pad, Space, pad_of
from tilewright.planner.worst import most
from tilewright.schedule.build import build_nest
from tilewright.schedule.default import complete
from tilewright.schedule.live import live_points
from tilewright.schedule.schedule import Schedule

_RANKED = 400  # ways that the model ranks
_WRITTEN = 16  # of those that the model ranks highest, how many may be written down
_ACCOUNTED = 4  # of those that fit, how many are accounted


@dataclass(frozen=True)
class Staged:
    """A part on a machine with a scratchpad: how it is cut (None: not at all, nothing is staged), its schedule with the pass
    that wrote each directive, what the model said of it, and its account at the sizes that it was made for (None where
    that needs data)."""

    tiling: Tiling | None
    schedule: Schedule
    passes: Passes
    estimate: Estimate | None = None
    account: Account | None = None
    space: Space | None = field(default=None, repr=False, compare=False)  # the ways that there were to cut it

    def rank(self, goal: Goal) -> tuple[float, ...]:
        """What a goal goes by, the least being best."""
        if self.account is None or self.account.time is None:
            assert self.estimate is not None
            return self.estimate.rank(goal)
        peak = sum(f.peak for f in self.account.footprint)
        moved = main_traffic(self.account, self.schedule.machine)
        return Estimate(self.account.time.cycles, float(moved), peak, {}).rank(goal)


def main_traffic(a: Account, machine: Machine | None) -> int:
    """Bytes that were read from main memory and written to it."""
    assert machine is not None
    row = a.of(machine.main.name)
    return row.bytes_read + row.bytes_written


def stage(
    m: Members, sizes: Env, computing: Mapping[str, float], machine: Machine, goal: Goal, budget: Budget
) -> Staged:  # fmt: skip
    """The best way to compute a part on a machine with a scratchpad, at sizes that are known.

    `computing` are cycles of each Func's arithmetic, by name. Raises PlanError `plan.capacity` where no tile fits.
    """
    if not stageable(m):
        return accounted(plain(m, machine), sizes)
    space = space_of(m, sizes, computing, machine)
    best: Staged | None = None
    written = tried = 0
    excess = 1.0
    for e, t in _candidates(space, goal, budget):
        if tried == _ACCOUNTED or written == _WRITTEN or (best is not None and e.rank(goal) > best.rank(goal)):
            break  # estimates leave things out: what is thought to take longer than that does
        if e.peak * excess > space.pad.capacity:
            continue
        if not budget.spend("accounts") and best is not None:
            break
        made = write(space, t)
        written += 1
        if made is None:
            continue
        peak = peak_of(made.schedule, space.pad, sizes)
        if peak > space.pad.capacity or not fits(made.schedule, machine, sizes):
            excess = max(excess, peak / max(1, e.peak))  # what the model leaves out, such as rounding inside a tile
            continue
        found = accounted(replace(made, estimate=e), sizes)
        if best is None or found.rank(goal) < best.rank(goal):
            best = found
        tried += 1
    if best is None and _too_small(space):
        raise too_small(space, sizes)
    return best or accounted(plain(m, machine), sizes)


def _too_small(space: Space) -> bool:
    """Whether it is the scratchpad that keeps a part from being cut into tiles, and not a rule of schedules."""
    e, t = space.least()
    made = write(space, t)
    return e.peak > space.pad.capacity or (
        made is not None and peak_of(made.schedule, space.pad, space.sizes) > space.pad.capacity
    )


def _candidates(space: Space, goal: Goal, budget: Budget) -> Iterator[tuple[Estimate, Tiling]]:
    """The ways that are worth writing down, in the order of the model; the smallest last, in case it alone fits."""
    yield from space.ranked(goal, budget, _RANKED)
    e, t = space.least()
    if e.peak <= space.pad.capacity:
        yield e, t


def stageable(m: Members) -> bool:
    """Whether a part can be computed in tiles: what is written in place, or by functions of the user's, is not."""
    opaque = any(f.init is not None and of_definition(f.init) is not None for f in m.pipeline.funcs)
    last = m.root.definitions[-1]
    return not opaque and not isinstance(m.root, InoutFunc) and all(i.op == "var" for i in last.lhs)


def plain(m: Members, machine: Machine) -> Staged:
    """The default schedule of a part, in main memory."""
    s = Schedule(m.pipeline, machine)
    for f in m.pipeline.funcs:
        if f.name not in m.stored:
            s[f.name].compute_inline()
        elif f is not m.root:
            s[f.name].compute_root()
    full = complete(s, registers=registers_of(machine))
    return Staged(None, full, (("inline", len(s)), ("default", len(full))))


def space_of(m: Members, sizes: Env, computing: Mapping[str, float], machine: Machine) -> Space:
    """The ways to cut a part for the scratchpad of a machine that has one."""
    memory = pad_of(machine)
    assert memory is not None
    return Space(m, sizes, computing, Pad(machine, memory))


def best_estimate(
    m: Members, sizes: Env, computing: Mapping[str, float], machine: Machine, goal: Goal, budget: Budget
) -> Estimate | None:  # fmt: skip
    """What the model says that a part takes in the scratchpad, at best; None where no tile fits."""
    if not stageable(m):
        return Estimate(sum(computing.values()), 0.0, 0, {})
    found = space_of(m, sizes, computing, machine).ranked(goal, budget, 1, rough=True)
    return found[0][0] if found else None


def write(space: Space, t: Tiling, pick: Pick = first) -> Staged | None:
    """A way to cut a part as a schedule; None where that is not legal. `pick` chooses what the tiling leaves open."""
    try:
        made = schedule_part(space.m, space.reach, t, space.pad.machine, space.pad.memory.name, space.left, pick)
        made[0].check(capacity=False)
    except (ScheduleError, BoundsError):
        return None
    return Staged(t, *made, space=space)


def taken(s: Schedule, machine: Machine, sizes: Env) -> tuple[Footprint, ...]:
    """What a complete schedule takes of each memory at these sizes."""
    return footprints(machine, live_points(build_nest(s.state), sizes))  # type: ignore[arg-type]


def fits(s: Schedule, machine: Machine, sizes: Env) -> bool:
    return all(f.capacity is None or f.peak <= f.capacity for f in taken(s, machine, sizes))


def peak_of(s: Schedule, pad: Pad, sizes: Env) -> int:
    """What a complete schedule takes of the scratchpad at these sizes."""
    return next((f.peak for f in taken(s, pad.machine, sizes) if f.memory == pad.memory.name), 0)


def accounted(s: Staged, sizes: Env) -> Staged:
    """The same with its account, where it fits and there is one without data."""
    assert s.schedule.machine is not None
    with suppress(SimulationError, CapacityError):
        return replace(s, account=most(s.schedule, s.schedule.machine, sizes))
    return s


def too_small(space: Space, sizes: Env) -> PlanError:
    """That no tile fits: what the smallest takes, and which tensor takes most of it."""
    e, t = space.least()
    name, of_it = max(e.holds.items(), key=lambda x: x[1])
    pad = space.pad.memory
    made = write(space, t)
    peak = max(e.peak, 0 if made is None else peak_of(made.schedule, space.pad, sizes))
    return PlanError(
        f"no tile of {space.m.shown(space.m.root.name)} fits {pad.name} of {space.pad.machine.name}, which has "
        f"{pad.capacity or 0:,} bytes: the smallest takes {peak:,}, {of_it:,} of them for {space.m.shown(name)}",
        code="plan.capacity", where=user_location(),
        hint=f"{pad.name} would have to have {peak:,} bytes; or plan for smaller sizes",
    )  # fmt: skip


# Regions ----------------------------------------------------------------------------------------------------------


def members_of(part: Part, members: Sequence[Func], group: Group | None) -> Members:
    """The Funcs of a region as its part names them."""
    names = {whole: own for own, whole in part.names.items()}
    stored = tuple(names[f.name] for f in members)
    own = () if group is None else tuple(names[f.name] for f in group.members)
    return Members(part.pipeline, stored, own, "" if group is None else group.over, part.names)


def stage_region(
    g: Graph, part: Part, members: Sequence[Func], group: Group | None, model: Model, budget: Budget
) -> Staged:
    """The best way to compute a region on a machine with a scratchpad; equal ones are looked at once.

    Raises PlanError `plan.capacity` where no tile fits.
    """
    m = members_of(part, members, group)
    key = "staged", part.pipeline.digest, m.stored, m.group
    if key not in g.tried:
        g.tried[key] = stage(m, _sizes(g, part), computing_in(g, part.names, model), model.machine, model.goal, budget)
    return g.tried[key]


def region_estimate(
    g: Graph, members: Sequence[Func], group: Group | None, model: Model, budget: Budget
) -> Estimate | None:  # fmt: skip
    """What a region of these Funcs takes at best, as the model says; None where no tile fits."""
    part = cut(g.pipeline, g.with_inlined(members), [members[-1]])
    m = members_of(part, members, group)
    key = "estimate", part.pipeline.digest, m.stored, m.group
    if key not in g.tried:
        g.tried[key] = best_estimate(
            m, _sizes(g, part), computing_in(g, part.names, model), model.machine, model.goal, budget
        )
    return g.tried[key]


def _sizes(g: Graph, part: Part) -> dict[str, int]:
    """Sizes, and scalars as the part names them."""
    return {**g.sizes, **{own: g.sizes[whole] for own, whole in part.names.items() if whole in g.sizes}}  # type: ignore[dict-item]


def computing_in(g: Graph, part: Mapping[str, str], model: Model) -> dict[str, float]:
    """Cycles of each Func of a part, counted as accounts count: a mathematical function is one operation. `part` has the
    names of the Funcs in it, with those in the whole."""
    names = {whole: own for own, whole in part.items()}
    found = {}
    for f, w in g.works.items():
        if f.name in names:
            pairs = zip(f.definitions, w.points, strict=True)
            found[names[f.name]] = sum(
                points * model.computing({(kind, name): float(n) for kind, name, n in operations(contract(d.values))})
                for d, points in pairs
            )
    return found


__all__ = [
    "Staged", "accounted", "best_estimate", "computing_in", "main_traffic", "members_of", "peak_of", "plain",
    "region_estimate", "space_of", "stage", "stage_region", "stageable", "taken", "too_small", "write",
]  # fmt: skip

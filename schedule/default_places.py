"""The default schedule: where Funcs are computed."""

from __future__ import annotations

from contextlib import suppress

from tilewright.lang import ir, simplify
from tilewright.lang.errors import BoundsError, ScheduleError
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.schedule.build import Builder
from tilewright.schedule.default_loops import CHEAP, apply, cost, repeated, shape, strip_of
from tilewright.schedule.externs import in_memory
from tilewright.schedule.online import between
from tilewright.schedule.ranges import constant_extent
from tilewright.schedule.registers import Registers
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.sites import legal_sites
from tilewright.schedule.state import Stage, State, find_loop
from tilewright.schedule.transposes import crossing_axis


def place(s: Schedule, registers: Registers) -> None:
    """Producers first: what is cheap is inlined. Consumers first: the others are computed where they are needed."""
    kept, _ = in_memory_by_default(s)
    strips: dict[str, int] = {}  # loops over strips that were made here, and their widths
    uses = _uses(s.state)
    # what is not decided yet is at the root here: inlined into each other, they would grow without end
    ahead = s.copy()
    for name in kept:
        if between(s.state, name) is None:
            with suppress(ScheduleError):
                apply(ahead, "compute_root", "", (name,))
    for name in reversed(kept):
        f = s.state.funcs[name].func
        block = between(s.state, name)
        if block is not None:  # in the block loop of its group, or inlined: it can stand nowhere else
            if block in legal_sites(s.state, f):
                for x in (s, ahead):
                    apply(x, "compute_at", "", (name,), at=block)
            continue
        opaque = f.init is not None and of_definition(f.init) is not None
        site = _outermost_site(s.state, f) if _may_be_separate(uses[f]) and not opaque else None
        axis = None if site is None else _separate(ahead, name, site, strips.get(site, 1))
        if site is not None and axis is not None and site not in strips:
            width = _strip(s.state, f, axis, registers)
            if width:
                site = _cut(s, ahead, site, width)
                if site is not None:
                    strips[site] = width
        if site is not None and axis is not None:
            for x in (s, ahead):
                apply(x, "compute_at", "", (name,), at=site)
        else:
            with suppress(ScheduleError):  # a prefetch may ask for what it reads where it is used: it stays there
                apply(s, "compute_root", "", (name,))


def in_memory_by_default(s: Schedule) -> tuple[list[str], dict[str, int]]:
    """The Funcs, producers first, whose place is open and that are not inlined; and those that are, with what an element
    of each costs."""
    kept: list[str] = []
    costs: dict[str, int] = {}
    uses = _uses(s.state)
    views = in_memory(s.state)
    for name in s.state.order:
        fs = s.state.funcs[name]
        f = fs.func
        touched = fs.placed or any(x.scheduled for x in s.state.stages_of(name))
        if touched or name in s.state.outputs or not uses.get(f):
            continue
        if not f.updates and name not in views and _worth_inlining(f, uses[f], costs):
            costs[name] = cost(f, costs)
        else:
            kept.append(name)
    return kept, costs


def _strip(state: State, f: Func, axis: int, registers: Registers) -> int:
    """How wide a part of a Func along an axis is at least that is worth being computed for itself (0: a single index).

    What reads operands again and again, or runs in vectors, along that axis alone needs more than a point of it.
    """
    widest = 0
    for stage in state.stages_of(f.name):
        d = stage.definition
        var = d.lhs[axis]
        if (len(f.definitions) > 1 and d.rdom is None) or var.op != "var" or (d.rdom is None and len(d.lhs) == 1):
            continue
        before, after = shape(d, set()), shape(d, {var})
        if before.vector is var or (before.reused is not None and after.reused is None):
            widest = max(widest, strip_of(d, before, var, registers))
    return widest


def _cut(s: Schedule, ahead: Schedule, site: str, width: int) -> str | None:
    """Cut a loop into strips, where no directive names its stage, and give the loop over them."""
    stage, loop = find_loop(s.state, site)
    if stage.definition.rdom is not None or stage.scheduled:
        return None
    address = s.state.address(stage.key)
    for x in (s, ahead):
        apply(x, "split", address, (loop,), results=(f"{loop}_s", loop), by=width)
    return f"{address}.{loop}_s"


Uses = dict[object, list[tuple[Stage, Node]]]


def _uses(state: State) -> Uses:
    """For every tensor the stages of other Funcs that read it, with each load."""
    out: Uses = {}
    for stage in state.stages.values():
        for n in ir.leaves(stage.definition.roots, "load"):
            if n.attr[0] is not stage.definition.func:
                out.setdefault(n.attr[0], []).append((stage, n))
    return out


def _worth_inlining(f: Func, uses: list[tuple[Stage, Node]], costs: dict[str, int]) -> bool:
    """Cheap, or evaluated once for each element: then a buffer costs more than it saves.

    What transposes is cheap for what is cheap itself, which is transposed in tiles then; else it is done once for all.
    Nothing but a plain load is cheap for a product that reads it for every row of its tiles.
    """
    if any(_read_by_tiles(f, stage.definition, load) for stage, load in uses):
        return False
    if cost(f, costs) <= CHEAP:
        return not _turns(f) or all(_turned_in_tiles(stage.definition, costs) for stage, _ in uses)
    return len(uses) == 1 and not repeated(uses[0][0].definition, uses[0][1])


def _turns(f: Func) -> bool:
    """Whether it reads along one axis and writes along another."""
    d = f.init
    return d is not None and len(d.lhs) > 1 and crossing_axis(d.lhs, d.values) is not None


def _read_by_tiles(f: Func, d: Definition, load: Node) -> bool:
    """Whether a definition with a register tile reads elements of `f` again and again that have to be computed."""
    computed = f.init is not None and any(v.op != "load" for v in f.init.values)
    return computed and d.rdom is not None and shape(d, set()).reused is not None and repeated(d, load)


def _turned_in_tiles(d: Definition, costs: dict[str, int]) -> bool:
    return d.number < 0 and cost(d.func, costs) <= CHEAP


def _may_be_separate(uses: list[tuple[Stage, Node]]) -> bool:
    """Whether some axis is read with a variable alone wherever it is read: else no loop can part it."""
    return any(all(n.args[k].op == "var" for _, n in uses) for k in range(len(uses[0][1].args)))


def _outermost_site(state: State, f: Func) -> str | None:
    """The outermost loop around all uses, where one stage holds them."""
    sites = legal_sites(state, f)
    return sites[0] if sites else None


def _separate(s: Schedule, name: str, site: str, width: int) -> int | None:
    """The axis along which every iteration of the loop (over strips of `width`) needs a part of the Func of its own, so
    that nothing is computed twice; None where that is not so."""
    trial = s.copy()
    try:
        apply(trial, "compute_at", "", (name,), at=site)
        b = Builder(trial.state, "strict")
        b.infer()
    except (ScheduleError, BoundsError):
        return None
    at = trial.state.funcs[name].compute
    if at.stage is None or trial.state.stages[at.stage].loop(at.loop or "").reduction:
        return None
    built = b.funcs.get(name)
    if built is None:  # nothing that is computed needs it
        return None
    var = built.site[-1].var
    tied = [k for k, r in enumerate(built.region) if r.lo is not None and var in ir.leaves((r.lo,), "var")]
    if len(tied) != 1:
        return None
    r = built.region[tied[0]]
    assert r.lo is not None
    whole = r.lo is r.hi if width == 1 else r.bounded and (constant_extent(r) or width + 1) <= width
    return tied[0] if whole and simplify.linear(r.lo)[0] == {var: width} else None

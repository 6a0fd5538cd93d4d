"""Groups of dependent reductions that run together in one pass over blocks of their domain: what a state knows of them.

A group has a Func of its own without values, whose one update has the loop over the blocks. The updates of its members
run over the block at hand, inside that loop; their pure definitions stand before it. A member that follows others has
one stage more, `l.repair`, which runs before its update in a block where one of those has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from tilewright.lang import ir, simplify
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node, integer
from tilewright.lang.symbols import Domain
from tilewright.schedule import online_algebra as rule
from tilewright.schedule.inline import Body, effective
from tilewright.schedule.online_shift import Places, Shift, moves, running, shift
from tilewright.schedule.online_terms import NoSplitError
from tilewright.schedule.state import (
    REPAIR,
    FuncState,
    Group,
    Key,
    Loop,
    Place,
    Stage,
    State,
    make_stage,
    refuse,
)

_UPDATE = 0


def group(state: State, members: tuple[str, ...], over: str, block: int, name: str) -> State:
    """The state in which the reductions `members` are one pass over blocks of `block` points of `over`."""
    for n in members:
        _check_member(state, n, over)
    _check_together(state, members)
    bodies = effective(state, "strict")
    domain = _domain(state, bodies, members)
    found: dict[Func, rule.Member] = {}
    repairs: dict[str, list[rule.Repair]] = {}
    shifts: dict[str, Shift] = {}
    for n in members:
        try:
            late = rule.member(bodies[(n, _UPDATE)], bodies[(n, -1)])
            _check_first(state, bodies[(n, -1)], members)
            _check_reads(state, late, n, members, found)
            repairs[n], polynomial = _followed(late, found)
        except NoSplitError as e:
            where = state.stages[(n, _UPDATE)].definition.location
            hint = "its terms must be products of something and of exponentials, exp(x - r), or polynomials in r"
            raise refuse(f"{n} can't be kept up in a single pass: {e}", "online-split", hint, where) from None
        if polynomial is not None:
            shifts[n] = polynomial
        _check_domain(late, shifts[n].sources if n in shifts else [r.source for r in repairs[n]], found, n)
        found[late.body.func] = late
    return _install(state, members, over, block, name, domain, found, repairs, shifts)


def _followed(late: rule.Member, found: Mapping[Func, rule.Member]) -> tuple[list[rule.Repair], Shift | None]:
    """How a reduction follows the others: by factors, else as a polynomial."""
    try:
        return rule.repairs(late, found), None
    except NoSplitError as first:
        try:
            return [], shift(late, found)
        except NoSplitError as second:
            raise NoSplitError(f"{first}; {second}") from None


# Legality -------------------------------------------------------------------------------------------------------


def _check_member(state: State, name: str, over: str) -> None:
    fs = state.funcs[name]
    keys = [s.key[1] for s in state.stages_of(name)]
    if state.group_of(name) is not None:
        raise refuse(f"{name} is in a group already", "online-twice", "say the whole group in one directive")
    if keys != [-1, _UPDATE]:
        raise refuse(f"{name} is no reduction of one pure definition and one update", "online-form",
                     "other Funcs that the group uses are computed in its block loop, or before it")  # fmt: skip
    stage = state.stages[(name, _UPDATE)]
    d = stage.definition
    if d.rdom is None or over not in d.rdom.ranges:
        has = ", ".join(d.rdom.ranges) if d.rdom is not None else "none"
        raise refuse(f"{state.address(stage.key)} has no reduction variable {over}", "online-variable",
                     f"its reduction variables: {has}; a reduction in lanes or parts is made after online")  # fmt: skip
    if not all(i.op == "var" for i in d.lhs):
        raise refuse(f"{name} is not updated at its own Vars", "online-form", "write name[i, j] += ...", d.location)
    if fs.compute.kind == "inline" or fs.store is not None or fs.folds or fs.slots > 1:
        raise refuse(f"{name} is inlined or its storage is scheduled", "online-storage", "say online first")
    if stage.write_caches or any(x.name == over and x.mode != "serial" for x in stage.loops):
        raise refuse(f"{state.address(stage.key)} has a tile, or its loop {over} is no ordinary one", "online-loops",
                     "say online first: later directives are about the block")  # fmt: skip
    if stage.branches:
        raise refuse(f"{state.address(stage.key)} has several forms ({', '.join(b.name for b in stage.branches)})",
                     "online-loops", "members of a group have one form: leave specialize out")  # fmt: skip


def _check_together(state: State, members: tuple[str, ...]) -> None:
    if len(set(members)) != len(members):
        raise refuse("a reduction is named twice", "online-twice", "name each once, in the order of their uses")
    places = {n: state.funcs[n].compute for n in members}
    if len(set(places.values())) != 1:
        raise refuse(f"{', '.join(members)} are not computed at the same place", "online-place",
                     "compute_at the same loop for all of them, or compute_root")  # fmt: skip


def _check_reads(
    state: State, late: rule.Member, name: str, members: tuple[str, ...], found: Mapping[Func, rule.Member]
) -> None:
    """Members use earlier ones directly (through what is inlined), at points that do not run with the reduction."""
    for n in ir.leaves(late.body.roots, "load"):
        f = n.attr[0]
        if f is late.body.func:
            continue
        if f in found:
            if ir.leaves(n.args, "rvar") or n in ir.leaves(late.body.predicates, "load"):
                raise NoSplitError(f"it uses {f.name} at a point that runs with the reduction, or in its where()")
        elif isinstance(f, Func) and f.name in state.funcs:
            used = [m for m in members if m in _reaching(state, f.name)]
            if used:
                how = "name the members in the order of their uses" if f.name in members else f"inline {f.name} first"
                raise NoSplitError(f"it reads {f.name}, which uses {used[0]}: {how}")


def _check_first(state: State, first: Body, members: tuple[str, ...]) -> None:
    """First values are there before the first block: none of them follows from what a member is in the end."""
    for n in ir.leaves(first.values, "load"):
        f = n.attr[0]
        used = _reaching(state, f.name) & set(members) if isinstance(f, Func) and f.name in state.funcs else set()
        if used:
            raise NoSplitError(f"its first value uses {sorted(used)[0]}")


def _reaching(state: State, name: str) -> set[str]:
    """All Funcs that a Func is made from, itself included."""
    found, todo = {name}, [name]
    while todo:
        for p in state.producers(todo.pop()):
            if p not in found:
                found.add(p)
                todo.append(p)
    return found


def _check_domain(late: rule.Member, sources: Iterable[Node], found: Mapping[Func, rule.Member], name: str) -> None:
    """The reductions run over the same points: the same conditions, at the points of the earlier one that are used."""
    own = {rule.named(p) for c in late.body.predicates for p in ir.spread(c, "and")}
    for source in sources:
        early = found[source.attr[0]]
        at = dict(zip(early.body.lhs, source.args, strict=True))
        moved = ir.substitute(early.body.predicates, at)
        if {rule.named(p) for c in moved for p in ir.spread(c, "and")} != own:
            raise refuse(f"{name} and {early.body.func.name} do not run over the same points", "online-domain",
                         "give their reduction domains the same where()", late.body.location)  # fmt: skip


def _domain(state: State, bodies: Mapping[Key, Body], members: tuple[str, ...]) -> dict[str, tuple[Node, Node]]:
    """The ranges of the members' reduction variables, which are the same."""
    first = bodies[(members[0], _UPDATE)].rdom
    assert first is not None
    for n in members[1:]:
        d = bodies[(n, _UPDATE)].rdom
        assert d is not None
        if dict(d.ranges) != dict(first.ranges):
            raise refuse(f"{n} and {members[0]} do not run over the same box", "online-domain",
                         "their reduction domains must have the same ranges")  # fmt: skip
    return dict(first.ranges)


def check_groups(state: State) -> None:
    """Raise ScheduleError where later directives took a group apart."""
    from tilewright.schedule.sites import Sites

    for g in state.groups:
        s = state.stages[g.key]
        loops = tuple(replace(x, part="auto") for x in s.loops)  # how much code it becomes is free
        if loops != (Loop(g.loop, True),) or s.transforms or s.write_caches:
            address = state.loop_address(g.key, g.loop)
            raise refuse(f"the block loop {address} runs in order, as a whole", "online-blocks",
                         "change the loops of the stages inside it")  # fmt: skip
        if not _untouched(state.funcs[g.name]):
            raise refuse(f"{g.name} has no values, so that there is nothing to store", "online-storage",
                         f"say it of {', '.join(g.members)}")  # fmt: skip
        places = {n: state.funcs[n].compute for n in (*g.members, g.name)}
        if len(set(places.values())) != 1:
            raise refuse(f"{', '.join(g.members)} are computed together", "online-place",
                         "compute_at moves all of them")  # fmt: skip
        _check_old_values(state, g)
        _check_shared(state, g)
        sites = Sites(state)
        var = ir.var(state.loop_address(g.key, g.loop))
        for key, stage in state.stages.items():
            if _runs_over(stage.definition, var) and (g.key, g.loop) not in sites.chain(stage):
                raise refuse(f"{state.address(key)} runs over a block and stands outside of the block loop",
                             "online-blocks", f"compute it at {var.attr}, or further in")  # fmt: skip
        for name, fs in state.funcs.items():
            if name in g.members or fs.compute.kind == "inline" or not _between(state, g, name):
                continue
            if (g.key, g.loop) not in sites.around(name):
                raise refuse(
                    f"{name} stands between the reductions {', '.join(g.members)}: it uses one and another uses it",
                    "online-between", f"compute it at {state.loop_address(g.key, g.loop)}, or inline it",
                )  # fmt: skip


def _check_old_values(state: State, g: Group) -> None:
    """What a member was before a block is kept first thing in the block, and repairs read that."""
    here = Place("at", g.key, g.loop)
    members = {state.funcs[n].func for n in g.members}
    for name in g.before:
        (value,) = state.stages[(name, -1)].definition.values
        if state.funcs[name].compute != here or value.attr[0] not in members:
            raise refuse(f"{name} keeps what was before a block: it is computed at {state.loop_address(g.key, g.loop)}",
                         "online-before", "its loops and its storage can be scheduled")  # fmt: skip
    for name, fs in state.funcs.items():
        if fs.origin == "clone" and _copies(state, name, members):
            readers = state.consumers(fs.func)
            users = [s for s in readers if s.key[1] == REPAIR or state.funcs[s.key[0]].origin == "online"]
            if users:
                raise refuse(f"{state.address(users[0].key)} reads what was before a block, not a clone of it",
                             "online-before", "cache_read copies it")  # fmt: skip


def _check_shared(state: State, g: Group) -> None:
    """Stages of a block run one after the other."""
    here = Place("at", g.key, g.loop)
    for s in state.stages.values():
        if s.fused_with is not None:
            for key in (s.key, s.fused_with[0]):
                if key[0] in (*g.members, g.name) or state.funcs[key[0]].compute == here:
                    raise refuse(f"{state.address(key)} is a part of the blocks of {g.name} and shares no loops",
                                 "online-blocks", "leave compute_with out")  # fmt: skip


def _copies(state: State, name: str, members: set[Func]) -> bool:
    values = [n for s in state.stages_of(name) for n in s.definition.values]
    return any(n.op == "load" and n.attr[0] in members for n in values)


def _untouched(fs: FuncState) -> bool:
    """Whether no directive but those that place it spoke of a Func."""
    free = ("func", "compute", "origin", "placed")
    return all(getattr(fs, f.name) == f.default for f in fields(fs) if f.name not in free)


def _runs_over(d: Definition, var: Node) -> bool:
    ends = () if d.rdom is None else (n for r in d.rdom.ranges.values() for n in r)
    return var in ir.leaves((*ends, *d.roots), "var")


def between(state: State, name: str) -> str | None:
    """The block loop where a Func must be computed unless it is inlined: it uses one member, and another uses it."""
    g = next((g for g in state.groups if name not in (*g.members, g.name) and _between(state, g, name)), None)
    return None if g is None else state.loop_address(g.key, g.loop)


def _between(state: State, g: Group, name: str) -> bool:
    if not set(g.members) & _reaching(state, name):
        return False
    return any(name in _reaching(state, m) for m in g.members)


# The new state --------------------------------------------------------------------------------------------------


def _install(
    state: State, members: tuple[str, ...], over: str, block: int, name: str, ranges: dict[str, tuple[Node, Node]],
    found: Mapping[Func, rule.Member], repairs: Mapping[str, list[rule.Repair]], shifts: Mapping[str, Shift],
) -> State:  # fmt: skip
    start, stop = ranges[over]
    loop = f"{over}_b"
    count = simplify.floordiv(simplify.add(simplify.sub(stop, start), integer(block - 1)), integer(block))
    driver = Func(name, ())
    blocks = Domain({loop: (integer(0), count)})
    blocks.frozen = True
    driver.init = Definition(driver, -1, (), (), None, None)  # nothing: it has a rank, and no stage
    driver.updates.append(Definition(driver, 0, (), (), blocks, None))
    g = Group(name, members, over, loop, block, tuple(state.stages[(n, _UPDATE)].definition for n in members))
    place = state.funcs[members[0]].compute
    state = state.with_func(FuncState(driver, place, origin="online", placed=True))
    state = state.with_stage(replace(make_stage(driver.updates[0]), scheduled=True))
    var = ir.var(state.loop_address(g.key, loop))
    low = simplify.add(start, simplify.mul(var, integer(block)))
    high = simplify.minimum(stop, simplify.add(low, integer(block)))
    here = Place("at", g.key, loop)
    taken = _Names(state)
    places = Places(simplify.sub(stop, start), simplify.sub(low, start), simplify.sub(high, start), found)
    whole: list[Definition] = []  # of all members, as they are without blocks
    companions: dict[str, list[Func]] = {}
    for n in members:
        stage = state.stages[(n, _UPDATE)]
        d = stage.definition
        whole.append(d)
        if n in shifts:
            d, more = running(found[d.func], d, shifts[n], places, taken)
            companions[n] = [c.func for c in more]
            for c in more:
                whole.append(replace(stage.definition, func=c.func))
                state = _add(state, c.func, place).with_stage(make_stage(_in_block(c, over, (low, high))))
        state = state.with_stage(replace(stage, definition=_in_block(d, over, (low, high))))
        state = state.with_func(replace(state.funcs[n], placed=True))
    g = replace(g, members=tuple(d.func.name for d in whole), definitions=tuple(whole))
    before: dict[Func, Func] = {}
    for n in members:
        sources = shifts[n].sources if n in shifts else [r.source for r in repairs[n]]
        for source in (load.attr[0] for load in sources):
            if source not in before:
                before[source] = _copy(source, taken(f"{source.name}_before"))
                state = _add(state, before[source], here)
        if repairs[n]:
            state = _with_repair(state, n, found, repairs[n], before, here, taken)
        if n in shifts:
            for d in moves(found[state.funcs[n].func], shifts[n], places, before, companions[n]):
                state = state.with_stage(make_stage(d))
    g = replace(g, before=tuple(f.name for f in before.values()))
    state = replace(state, groups=(*state.groups, g))
    if any(repairs.values()) or shifts or _reorders(g):
        state = replace(state, reassociations=(*state.reassociations, f"online {' '.join(members)}"))
    return state


def _reorders(g: Group) -> bool:
    """Whether blocks change the order of a float reduction: they go outside of the variables before theirs."""
    for d in g.definitions:
        outer = next(iter(d.rdom.ranges)) if d.rdom is not None else g.over
        if outer != g.over and any(t.is_float for t in d.func.dtypes):
            return True
    return False


class _Names:
    """Names for Funcs of ours that nothing else has."""

    def __init__(self, state: State):
        self.used = {p.name for p in state.pipeline.params} | set(state.funcs)

    def __call__(self, base: str) -> str:
        name, k = base, 1
        while name in self.used:
            name, k = f"{base}_{k}", k + 1
        self.used.add(name)
        return name


def _in_block(d: Definition, over: str, ends: tuple[Node, Node]) -> Definition:
    """The update over the points of one block."""
    assert d.rdom is not None
    domain = Domain({**d.rdom.ranges, over: ends}, d.rdom.location)
    moved = {d.rdom.rvar(n): domain.rvar(n) for n in d.rdom.ranges}
    domain.predicates = tuple(ir.substitute(d.predicates, moved))
    domain.frozen = True
    values = tuple(ir.substitute(d.values, moved))
    return Definition(d.func, d.number, d.lhs, values, domain, d.location)


def _copy(source: Func, name: str) -> Func:
    """The value that a reduction had before the block."""
    f = Func(name, source.dtypes)
    t = source.dtypes[0].compute
    f.init = Definition(f, -1, source.args, (ir.node("load", t, source.args, (source, 0)),), None, None)
    f.frozen_by = "online"
    return f


def _add(state: State, f: Func, place: Place) -> State:
    assert f.init is not None
    return state.with_func(FuncState(f, place, origin="online", placed=True)).with_stage(make_stage(f.init))


def _with_repair(
    state: State, name: str, found: Mapping[Func, rule.Member], repairs: list[rule.Repair],
    before: Mapping[Func, Func], here: Place, taken: _Names,
) -> State:  # fmt: skip
    """The stage `name.repair`, and a Func for what it multiplies by where that is the same for several elements."""
    late = found[state.funcs[name].func]
    old, changes, moved = {}, {}, []
    for r in repairs:
        old[r.source] = ir.node("load", r.source.dtype, r.source.args, (before[r.source.attr[0]], 0))
        moved.append(rule.changed(r, old[r.source]))
        change = r.change(old[r.source], r.source)
        axes = tuple(v for v in late.body.lhs if v in ir.leaves((change,), "var"))
        if len(axes) < len(late.body.lhs):
            ratio = Func(taken(f"{name}_change"), (change.dtype,))
            ratio.init = Definition(ratio, -1, axes, (change,), None, None)
            ratio.frozen_by = "online"
            state = _add(state, ratio, here)
            change = ir.node("load", change.dtype, axes, (ratio, 0))
        changes[r.source] = change
    condition = moved[0]
    for c in moved[1:]:
        condition = ir.node("or", c.dtype, (condition, c))
    domain = Domain({})
    domain.predicates = (condition,)
    domain.frozen = True
    value = rule.repaired(late, repairs, old, changes)
    d = Definition(late.body.func, REPAIR, late.body.lhs, (value,), domain, late.body.location)
    return state.with_stage(make_stage(d))


def moved(state: State, fs: FuncState, place: Place) -> State:
    """A Func computed at another place, with the whole group if it is in one."""
    g = state.group_of(fs.func.name)
    for n in (*g.members, g.name) if g is not None else (fs.func.name,):
        state = state.with_func(replace(state.funcs[n], compute=place, placed=True))
    return state


def emitted(state: State, g: Group) -> Iterator[Stage]:
    """The members' stages in a block, in order."""
    for n in g.members:
        yield from (state.stages[k] for k in ((n, REPAIR), (n, _UPDATE)) if k in state.stages)

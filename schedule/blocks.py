"""The nest of a group of reductions that run in one pass over blocks (online).

produce m, l: first values
for k_b
  what the members use of other Funcs, where it is computed in this loop
  produce m_before
  update m over the block
  repair l where m has changed
  update l over the block
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval, union
from tilewright.lang.ir import Node, integer
from tilewright.lang.regions import domain, executed
from tilewright.schedule import fusing
from tilewright.schedule.nest import Allocation, Guard, LoopNode, NestNode, Produce, sequence
from tilewright.schedule.online import emitted
from tilewright.schedule.points import stage_points
from tilewright.schedule.ranges import ONE, Range, ended_by_data
from tilewright.schedule.state import REPAIR, Group, Key, Stage

if TYPE_CHECKING:
    from tilewright.schedule.build import Builder, Built


def sites(b: Builder, built: Built, stages: Iterable[Stage]) -> dict[Key, tuple[Range, ...]]:
    """The loops around those stages of a Func that stand in a block loop; makes the loop known."""
    out = {}
    for s in stages:
        g = b.state.block_of(s.key)
        if g is not None:
            out[s.key] = (*built.site, *_block_loop(b, g, built).stages[g.key].loops)
    return out


def _block_loop(b: Builder, g: Group, first: Built) -> Built:
    """The Func that has the block loop, as built for the member that is looked at first."""
    found = b.funcs.get(g.name)
    if found is None:
        found = type(first)(b.state.funcs[g.name], (), (), first.site)
        found.stages[g.key] = b.ranges(b.state.stages[g.key], ())
        b.funcs[g.name] = found
    return found


def produce_all(b: Builder, names: Iterable[str]) -> list[NestNode]:
    """The computation of Funcs at one place (producers first), groups in one piece each."""
    names = [n for n in names if n in b.funcs]
    out: list[NestNode] = []
    for g in b.state.groups:
        members = [n for n in names if n in g.members]
        if not members:
            continue
        later = _users(b, names, members)
        before = [n for n in names if n not in later and n not in members and n != g.name]
        out += fusing.produce_all(b, before) if not _grouped(b, before) else produce_all(b, before)
        out += _group(b, g, members)
        names = [n for n in names if n in later]
    return out + fusing.produce_all(b, names)


def _grouped(b: Builder, names: Sequence[str]) -> bool:
    return any(n in g.members for g in b.state.groups for n in names)


def _users(b: Builder, names: Sequence[str], members: Sequence[str]) -> set[str]:
    """Those of `names` that are made from a member, or share loops with what is."""
    found = set(members)
    pairs = [{s.key[0], s.fused_with[0][0]} for s in b.state.stages.values() if s.fused_with is not None]
    before = 0
    while before < len(found):
        before = len(found)
        for n in b.state.order:  # producers first
            if found & set(b.state.producers(n)):
                found.add(n)
        for pair in pairs:
            found |= pair if found & pair else set()
    group = b.state.group_of(members[0])
    return {n for n in names if n in found and b.state.group_of(n) is not group}


def _group(b: Builder, g: Group, members: Sequence[str]) -> list[NestNode]:
    out = [b.produce(n, ((n, -1),)) for n in members]
    driver, place = b.state.stages[g.key], (g.key, g.loop)
    ranges = b.funcs[g.name].stages[g.key]
    x = ranges.loops[0]
    start, stop = _needed_blocks(b, g, x, members)
    body = sequence(*_block(b, g, b.computed_at.get(place, ())))
    stored = tuple(st for n in b.stored_at.get(place, ()) for st in b.storages(n))
    if stored:
        body = Allocation(stored, body)
    loop = LoopNode(b.state.loop_address(*place), x.name, x.var, start, stop, x.mode, x.reduction, body, x.part)
    return [*out, b.with_rings(driver, ranges, 0, loop)]


def _needed_blocks(b: Builder, g: Group, x: Range, members: Sequence[str]) -> tuple[Node, Node]:
    """The blocks in which some point of some member's domain is executed, as far as conditions say."""
    whole: Interval | None = None
    for d in g.definitions:
        if d.func.name in members:
            assert d.rdom is not None
            env, over = domain(d, b.funcs[d.func.name].region), d.rdom.rvar(g.over)
            found = executed(d, env)[over]
            for c in (c for p in d.predicates for c in ir.spread(p, "and")):
                found = ended_by_data(c, over, found, env)
            whole = found if whole is None else union(whole, found)
    if whole is None or whole.lo is None or whole.hi is None:
        return x.start, x.stop
    size, (low, _) = integer(g.block), g.definitions[0].rdom.ranges[g.over]  # type: ignore[union-attr]
    first = simplify.floordiv(simplify.sub(whole.lo, low), size)
    last = simplify.floordiv(simplify.sub(whole.hi, low), size)
    return simplify.maximum(x.start, first), simplify.minimum(x.stop, simplify.add(last, ONE))


def _block(b: Builder, g: Group, names: Sequence[str]) -> list[NestNode]:
    """One block: each stage of the members after what it reads of the Funcs computed here."""
    out: list[NestNode] = []
    waiting = [n for n in names if n in b.funcs]
    out += fusing.produce_all(b, [n for n in waiting if n in g.before])
    waiting = [n for n in waiting if n not in g.before]
    for s in emitted(b.state, g):
        if s.key[0] not in b.funcs:
            continue
        now = _reached(b, s, waiting)
        out += produce_all(b, [n for n in waiting if n in now])
        waiting = [n for n in waiting if n not in now]
        out.append(_part(b, s))
    return out


def _reached(b: Builder, s: Stage, waiting: Sequence[str]) -> set[str]:
    """Those of `waiting` that a stage is made from, through one another too."""
    found: set[str] = set()
    todo = [n for n in waiting if n in fusing.needed(b.state, s.key)]
    while todo:
        n = todo.pop()
        if n not in found:
            found.add(n)
            needs = {x for k in b.state.stages_of(n) for x in fusing.needed(b.state, k.key)}
            todo += [m for m in waiting if m in needs]
    return found


def _part(b: Builder, s: Stage) -> NestNode:
    built = b.funcs[s.key[0]]
    label = "repair" if s.key[1] == REPAIR else "update"
    made = Produce(label, s.key[0], built.state.func, built.region, b.stage(s), points=stage_points(b, (s,)))
    return Guard(built.guard, made) if built.guard is not ir.TRUE and s.key[0] in b.exposed else made

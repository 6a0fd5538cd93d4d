"""Loop nests that several stages share (compute_with): which stages may, and the nest that comes of it.

    for y                         for y in the union of both ranges
      for x: U[y, x] = ..           if y in U's range
    for y                    =>       for x: U[y, x] = ..
      for x: V[y, x] = ..           if y in V's range
                                      for x: V[y, x] = ..

One stage (the base) is named by the others, which follow it. The loop variables of the followers are those of the
base. What is computed in a shared loop is placed at the base's loop and is there for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node
from tilewright.schedule.nest import Allocation, Guard, NestNode, Produce, sequence
from tilewright.schedule.peeling import loop_node
from tilewright.schedule.points import stage_points
from tilewright.schedule.prefetching import prefetched
from tilewright.schedule.ranges import Range, StageRanges
from tilewright.schedule.state import SHIFT, Key, Loop, Place, Split, Stage, State, refuse

if TYPE_CHECKING:
    from tilewright.schedule.build import Builder

Box = tuple[Interval, ...]


# Who shares -----------------------------------------------------------------------------------------------------


def followers(state: State, base: Key) -> tuple[Stage, ...]:
    """The stages that share loops of a stage, in the order of the program."""
    return tuple(s for s in state.stages.values() if s.fused_with is not None and s.fused_with[0] == base)


def shared_loops(s: Stage) -> tuple[Loop, ...]:
    """The outer loops that a follower shares with its base."""
    return () if s.fused_with is None else s.loops[: s.depth(s.fused_with[1]) + 1]


def shares(state: State, key: Key, place: Place) -> bool:
    """Whether a place at a base's loop stands in a loop that the stage `key` shares."""
    s = state.stages[key]
    if s.fused_with is None or place.kind != "at" or place.stage != s.fused_with[0]:
        return False
    return any(x.name == place.loop for x in shared_loops(s))


# Legality -------------------------------------------------------------------------------------------------------


def check_fused(state: State) -> None:
    """Raise ScheduleError where stages can't share the loops that they are said to."""
    fused = [s for s in state.stages.values() if s.fused_with is not None]
    used = _used(state) if fused else frozenset()
    for s in fused:
        _check_pair(state, s)
        base = s.fused_with[0] if s.fused_with is not None else s.key
        if base[0] not in used and s.key[0] in used:
            raise refuse(f"nothing needs {base[0]} any more, whose loops {state.address(s.key)} shares",
                         "compute-with-unused", "share the loops of a stage that is computed")  # fmt: skip
    for place in {state.funcs[s.key[0]].compute for s in fused}:
        order_units(state, [n for n, fs in state.funcs.items() if fs.compute == place])


def _used(state: State) -> frozenset[str]:
    """Names of the Funcs that outputs depend on."""
    found, todo = set(state.outputs), list(state.outputs)
    while todo:
        new = [n for n in state.producers(todo.pop()) if n not in found]
        found.update(new)
        todo += new
    return frozenset(found)


def _check_pair(state: State, s: Stage) -> None:
    assert s.fused_with is not None
    base, name = state.stages.get(s.fused_with[0]), s.fused_with[1]
    me, hint = state.address(s.key), "do it before compute_with, in the same way on both"
    if base is None:
        raise refuse(f"{me} shares loops with a stage that is no more", "compute-with-loops", hint)
    other = state.address(base.key)
    for x in (s, base):
        if len(x.key) > 2 or x.branches:
            raise refuse(f"{me} is computed with {other}, and {state.address(x.key)} is a form of a stage or has forms",
                         "compute-with-forms", "share loops of stages that are not specialized")  # fmt: skip
    for a, b in ((s, me), (base, other)):
        if not any(x.name == name for x in a.loops):
            raise refuse(f"{me} is computed with {other} down to {name}, and {b} has no loop {name}",
                         "compute-with-loops", f"its loops: {', '.join(x.name for x in a.loops)}; {hint}")  # fmt: skip
    here, there = (state.funcs[a.key[0]].compute for a in (s, base))
    if here != there or here.kind == "inline":
        places = f"{me} is computed {_where(state, here)} and {other} {_where(state, there)}"
        raise refuse(f"{places}: loops can be shared at one place only", "compute-with-place",
                     f"s[{s.key[0]!r}].compute_root() and so on")  # fmt: skip
    _check_loops(state, s, base)
    for a in (s, base):
        _check_parts(state, a, name)


def _check_loops(state: State, s: Stage, base: Stage) -> None:
    me, other = state.address(s.key), state.address(base.key)
    mine = shared_loops(s)
    theirs = base.loops[: base.depth(mine[-1].name) + 1]
    if [x.name for x in mine] != [x.name for x in theirs]:
        raise refuse(
            f"the loops of {me} are {', '.join(x.name for x in mine)} and those of {other} are "
            f"{', '.join(x.name for x in theirs)}",
            "compute-with-loops", "shared loops have the same names, in one order",
        )  # fmt: skip
    for x, y in zip(mine, theirs, strict=True):
        if x.mode != y.mode:
            raise refuse(f"{me}.{x.name} is {x.mode} and {other}.{y.name} is {y.mode}", "compute-with-loops",
                         "make them alike")  # fmt: skip
        if x.axis != y.axis:
            raise refuse(f"{me}.{x.name} lies along {x.axis} and {other}.{y.name} along {y.axis}", "compute-with-loops",
                         "make them alike")  # fmt: skip
        if (x.peel, x.part) != (y.peel, y.part):
            raise refuse(f"{me}.{x.name} and {other}.{y.name} are peeled or parted in two ways", "compute-with-loops",
                         "make them alike")  # fmt: skip
        if x.reduction != y.reduction:
            raise refuse(f"of {me}.{x.name} and {other}.{y.name} only one is a reduction loop", "compute-with-loops",
                         "share loops that are further out")  # fmt: skip


def _check_parts(state: State, s: Stage, name: str) -> None:
    """Tiles and rings stand inside the shared loops; tails that shift have two forms, of which there can be one."""
    held = next((c.name for c in s.tiles if s.depth(c.loop) < s.depth(name)), None)
    if held is not None:
        raise refuse(f"the tile {held} would hold more than one iteration of {name}", "compute-with-tile",
                     f"cache_write at {name} or further in")  # fmt: skip
    if state.funcs[s.key[0]].slots > 1 or any(c.slots > 1 for c in s.tiles):
        raise refuse(f"{s.key[0]} has several slots, and its copies run ahead", "compute-with-tile", "leave one out")
    if any(isinstance(t, Split) and t.tail == SHIFT for t in s.transforms):
        raise refuse(f"{state.address(s.key)} has a tail that shifts", "compute-with-tail", "use guard")


def _where(state: State, p: Place) -> str:
    if p.kind == "at":
        assert p.stage is not None and p.loop is not None
        return f"at {state.loop_address(p.stage, p.loop)}"
    return "at the root" if p.kind == "root" else "inline"


# Order ----------------------------------------------------------------------------------------------------------


def order_units(state: State, names: Sequence[str]) -> list[list[Key]]:
    """The stages of Funcs at one place (given producers first) in units that run one after the other.

    A unit is a stage, or a base with its followers. Raises ScheduleError where a stage would have to run before and
    after another one that shares its loops.
    """
    unit: dict[Key, list[Key]] = {}
    for n in names:
        for s in state.stages_of(n):
            if s.fused_with is None:
                unit[s.key] = [s.key, *(f.key for f in followers(state, s.key))]
    for keys in list(unit.values()):
        for k in keys[1:]:
            unit[k] = keys
    position = {k: i for i, k in enumerate(k for n in names for k in (s.key for s in state.stages_of(n)))}
    before: dict[Key, dict[Key, Key]] = {keys[0]: {} for keys in unit.values()}  # unit -> unit before, and by whom
    last = {n: state.stages_of(n)[-1].key for n in names}
    for base in before:
        _check_inside(state, unit[base])
    for key in unit:
        needs = [last[n] for n in last if n != key[0] and n in needed(state, key)]
        needs += [k for k in unit if k[0] == key[0] and k[1] < key[1]]
        for k in needs:
            if unit[k] is unit[key]:
                raise _dependent(state, key, k)
            before[unit[key][0]][unit[k][0]] = k
    done: dict[Key, None] = {}
    while len(done) < len(before):
        ready = [u for u, b in before.items() if u not in done and all(x in done for x in b)]
        if not ready:
            stuck = next(u for u in before if u not in done and len(unit[u]) > 1)
            raise _dependent(state, unit[stuck][1], unit[stuck][0])
        done[min(ready, key=lambda u: position[u])] = None
    return [unit[u] for u in done]


def _check_inside(state: State, unit: Sequence[Key]) -> None:
    """What is computed in shared loops runs before the stages that share them: it must need none of these."""
    if len(unit) == 1:
        return
    mine = {k[0]: k for k in reversed(unit)}
    for n, fs in state.funcs.items():
        if fs.compute.kind == "at" and fs.compute.stage == unit[0]:
            for s in state.variants_of(n):
                for found in needed(state, s.key) & set(mine):
                    raise _dependent(state, unit[1] if mine[found] == unit[0] else mine[found], unit[0])


def needed(state: State, key: Key) -> set[str]:
    """Names of the Funcs that a stage reads, by itself, by inlined Funcs, or by what is computed in its loops."""
    todo: list[Key] = [k for k in state.stages if k[: len(key)] == key]
    found: set[str] = set()
    seen = set(todo)
    while todo:
        k = todo.pop()
        inside = [n for n, fs in state.funcs.items() if fs.compute.kind == "at" and fs.compute.stage == k]
        for t in {n.attr[0] for n in ir.leaves(state.stages[k].definition.roots, "load")}:
            if isinstance(t, Func) and t.name in state.funcs:
                found.add(t.name)
                if state.funcs[t.name].compute.kind == "inline":
                    inside.append(t.name)
        for n in inside:
            new = [s.key for s in state.variants_of(n) if s.key not in seen]
            seen.update(new)
            todo += new
    return found


def _dependent(state: State, key: Key, other: Key) -> Exception:
    a, b = state.address(key), state.address(other)
    return refuse(f"{a} and {b} can't share loops: one depends on what the other computes", "compute-with-dependence",
                  "share loops of independent stages; compute_at puts a producer into a consumer's loops")  # fmt: skip


# The nest -------------------------------------------------------------------------------------------------------


def shared_vars(state: State, s: Stage) -> Mapping[str, Node]:
    """The loop variables of a follower that are its base's."""
    if s.fused_with is None:
        return {}
    base = state.address(s.fused_with[0])
    return {x.name: ir.var(f"{base}.{x.name}") for x in shared_loops(s)}


def union_loops(b: Builder, base: Key) -> tuple[Range, ...]:
    """The loops of a stage, those that it shares running over the union of the ranges."""
    own = b.funcs[base[0]].stages[base].loops
    for s in followers(b.state, base):
        if s.key[0] not in b.funcs:
            continue  # nothing needs it
        theirs = b.funcs[s.key[0]].stages[s.key].loops
        depth = len(shared_loops(s))
        own = (*(_union(x, y) for x, y in zip(own[:depth], theirs[:depth], strict=True)), *own[depth:])
    return own


def _union(x: Range, y: Range) -> Range:
    start, stop = simplify.minimum(x.start, y.start), simplify.maximum(x.stop, y.stop)
    return replace(x, start=start, stop=stop, guards=x.guards if x.guards == y.guards else ())


def site_loops(b: Builder, key: Key, loop: str) -> tuple[Range, ...]:
    """The loops of a stage down to one of them: what stands in a shared loop is there for all that share it."""
    depth = b.state.stages[key].depth(loop) + 1
    shared = any(depth <= len(shared_loops(s)) for s in followers(b.state, key))
    return (union_loops(b, key) if shared else b.funcs[key[0]].stages[key].loops)[:depth]


def read_env(b: Builder, key: Key, ranges: StageRanges, depth: int) -> dict[Node, Interval]:
    """`ranges.env(depth)`, where the loops may run beyond the stage's own range because they are shared."""
    env = ranges.env(depth)
    s = b.state.stages[key]
    base = s.fused_with[0] if s.fused_with is not None else key
    if depth == 0 or (s.fused_with is None and not followers(b.state, key)):
        return env
    pairs = list(zip(ranges.loops, union_loops(b, base), strict=False))
    early = {x.var for x, u in pairs if x.start is not u.start}
    late = {x.var for x, u in pairs if x.stop is not u.stop}
    for root, value in ranges.values.items():
        around, r, own = set(ir.leaves((value,), "var")), env[root], ranges.domain[root]
        # outside its own points a stage needs nothing: these ranges are empty there
        lo = simplify.maximum(r.lo, own.lo) if early & around and r.lo is not None and own.lo is not None else r.lo
        hi = simplify.minimum(r.hi, own.hi) if late & around and r.hi is not None and own.hi is not None else r.hi
        env[root] = Interval(lo, hi)
    return env


def produce_all(b: Builder, names: Iterable[str]) -> list[NestNode]:
    """The computation of Funcs at one place, producers first."""
    names = [n for n in names if n in b.funcs]
    if not any(s.fused_with is not None for n in names for s in b.state.stages_of(n)):
        return [b.produce(n) for n in names]
    out: list[NestNode] = []
    run: list[Key] = []  # stages of one Func, one after the other

    def flush() -> None:
        if run:
            out.append(b.produce(run[0][0], tuple(run)))
            run.clear()

    for unit in order_units(b.state, names):
        unit = [k for k in unit if k[0] in b.funcs]
        if run and (len(unit) > 1 or unit[0][0] != run[0][0]):
            flush()
        if len(unit) == 1:
            run.append(unit[0])
        elif unit:
            out.append(_named(b, unit, _nest(b, unit)))
    flush()
    return out


def _named(b: Builder, unit: Sequence[Key], body: NestNode) -> NestNode:
    for key in reversed(unit):
        built = b.funcs[key[0]]
        promised = stage_points(b, (b.state.stages[key],), alone=False)
        body = Produce("produce", key[0], built.state.func, built.region, body, points=promised)
    return body


class _Member:
    """A stage in a shared nest: its loops, how many it shares, and when its own part of an iteration runs."""

    def __init__(self, b: Builder, key: Key):
        self.stage = b.state.stages[key]
        built = b.funcs[key[0]]
        self.ranges = built.stages[key]
        self.shared = len(shared_loops(self.stage))
        self.before = list(self.ranges.guards)
        if built.guard is not ir.TRUE and key[0] in b.exposed:
            self.before.append(built.guard)

    def condition(self, loops: Sequence[Range], depth: int) -> Node:
        """When the body of the first `depth` loops is the stage's own."""
        out: Node = ir.TRUE
        conditions = list(self.before)
        for x, u in zip(self.ranges.loops[:depth], loops, strict=False):
            if x.start is not u.start:
                conditions.append(simplify.compare("ge", x.var, x.start))
            if x.stop is not u.stop:
                conditions.append(simplify.compare("lt", x.var, x.stop))
            conditions += x.guards
        for c in conditions:
            out = simplify.conjunction(out, c)
        return out


def _nest(b: Builder, unit: Sequence[Key]) -> NestNode:
    members = [_Member(b, k) for k in unit]
    base = members[0]
    base.shared = max(m.shared for m in members[1:])
    loops = union_loops(b, unit[0])
    for m in members:
        _check_vectors(b.state, m, loops)

    def own_part(m: _Member, depth: int) -> NestNode:
        """What one iteration of the innermost shared loop runs of a stage."""
        return b.held(m.stage, m.ranges, depth, b.bodies[m.stage.key].func, b.entry(m.stage, m.ranges))

    def enter(depth: int) -> NestNode:
        x = loops[depth]
        here = (unit[0], x.name)
        items: list[NestNode] = []
        for m in members:
            if m.shared > depth:
                marks = [prefetched(b, m.stage, m.ranges, depth, p) for p in m.stage.prefetches if p.loop == x.name]
                items += [_guarded(m.condition(loops, depth + 1), p) for p in marks]
        items += b.made_at(here)
        if depth + 1 < base.shared:
            items.append(enter(depth + 1))
        items += [_guarded(m.condition(loops, depth + 1), own_part(m, depth)) for m in members if m.shared == depth + 1]
        body = sequence(*items)
        stored = tuple(st for n in b.stored_at.get(here, ()) for st in b.storages(n))
        if stored:
            body = Allocation(stored, body)
        loop = loop_node(b.state.loop_address(*here), x, body, b.funcs[here[0][0]].site + loops[:depth])
        return b.with_rings(base.stage, base.ranges, depth, loop)

    return enter(0)


def _guarded(c: Node, n: NestNode) -> NestNode:
    return n if c is ir.TRUE else Guard(c, n)


def _check_vectors(state: State, m: _Member, loops: Sequence[Range]) -> None:
    for x, u in zip(m.ranges.loops[: m.shared], loops, strict=False):
        if x.mode == "vectorize" and (x.start, x.stop) != (u.start, u.stop):
            raise refuse(
                f"{state.loop_address(m.stage.key, x.name)} is a vector loop of another length than the one it shares",
                "compute-with-loops", "split both by one factor, or share the loops outside of it only",
            )  # fmt: skip

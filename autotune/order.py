"""In which order a schedule adds up: a description of how results are combined, such that equal ones mean equal bits.

`reduction_order(schedule)` looks at the whole schedule (with what the default adds) and says of every reduction whose bits
depend on it

* which partial results there are, one for each value of a part of a reduction variable: `k mod 64` for lanes, `k div 4096`
  for blocks, whether they are lanes of vectors, tasks of threads or were written as `rfactor`; what is computed first comes
  last. How they are merged follows from their number.
* in which order a partial result takes its points, where that is not the algorithm's (a reduction loop was reordered).
* which reductions run together over blocks (`online`), of how many points.

Nothing else changes bits, by the numerics contract: tiles, placement, vectors of pure loops, threads, storage and tails are
not in it, and neither are sizes. So two schedules with equal descriptions give the same bits for the same arguments at any
sizes; and a row of a batch has the same bits in any batch and on any number of threads, where the row's own reductions do
not run over the batch. The converse does not hold: where it is not certain that two orders are the same they count as
different, and in mode `fast`, and where stages of the user's own are called (`tw.extern_stage`), only equal schedules are
equal.

A reduction that has all its bits in any order (of integers, an argmax with the first of equal values) is not in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.lang import extern_stage, ir
from tilewright.lang.func import Definition
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule import algebra
from tilewright.schedule.default import complete
from tilewright.schedule.directives.loops import in_any_order
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import REPAIR, Fuse, Group, Key, Split, Stage, State, Steps, loaded, root_name, versioned

if TYPE_CHECKING:
    from tilewright.schedule.registers import Registers

Part = tuple[Any, int, int | None]  # (variable // stride) % extent, with no end where that is None


@dataclass(frozen=True, slots=True)
class Run:
    """Points one after the other: in the algorithm's order, or by these parts of its variables, outermost first."""

    parts: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"by {', '.join(map(_told, self.parts))}" if self.parts else "in the algorithm's order"


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial results, one for each value of a part of a variable; `count` where it is a constant. `inside`: how one of
    them is computed."""

    part: Any
    count: int | None
    inside: Run | Partial

    def __str__(self) -> str:
        many = "" if self.count is None else f"{self.count} "
        return f"{many}partial results by {_told(self.part)}, each {self.inside}"


@dataclass(frozen=True, slots=True)
class Together:
    """Reductions in one pass over blocks. `terms` is a digest of how one follows the other."""

    members: tuple[str, ...]
    over: str
    block: int
    terms: str

    def __str__(self) -> str:
        return f"{', '.join(self.members)} together over blocks of {self.block} of {self.over}"


@dataclass(frozen=True, slots=True)
class Order:
    """The orders of a schedule's reductions by stage, where they are not the algorithm's, and its `groups`. `exactly` is
    the schedule's hash where nothing less says what comes out."""

    algorithm: str
    mode: str
    stages: tuple[tuple[str, Any], ...]
    groups: tuple[Together, ...] = ()
    exactly: str = ""

    def __str__(self) -> str:
        lines = [f"{name}: {order}" for name, order in self.stages] + list(map(str, self.groups))
        if self.exactly:
            lines.append(f"as only schedule {self.exactly[:12]} does")
        return "\n".join(lines) or "all reductions in the algorithm's order"


def _told(part: Any) -> str:
    if len(part) == 3 and isinstance(part[1], int):
        name, stride, extent = part
        text = f"{name} div {stride}" if stride > 1 else str(name)
        return text if extent is None else f"{text} mod {extent}"
    return repr(part)


def reduction_order(schedule: Schedule, mode: str = "contract", registers: Registers | None = None) -> Order:
    """How the schedule, with what the default adds for `registers` (by default this computer's), combines results.

    Raises ScheduleError where it is not legal as a whole.
    """
    full = complete(schedule, mode, registers)
    return order_of(full, mode)


def pinned(p: Pipeline, mode: str = "contract") -> Order:
    """The order that `order="fixed"` means: the default schedule's, the same on all machines. It is the algorithm's own,
    but where a reduction runs along contiguous data, which it adds up in lanes and blocks."""
    kept: dict[str, Order] = p.__dict__.setdefault("_pinned", {})
    if mode not in kept:
        kept[mode] = reduction_order(Schedule(p), mode)
    return kept[mode]


def order_of(full: Schedule, mode: str) -> Order:
    """The order of a schedule that nothing is added to."""
    state = full.state
    own = any(extern_stage.of_definition(d) is not None for d in state.pipeline.definitions())
    if mode == "fast" or own:
        return Order(state.pipeline.digest, mode, (), (), full.hash)
    try:
        stages = tuple(_stages(state))
        groups = tuple(_group(state, g) for g in state.groups)
    except _UnsureError:
        return Order(state.pipeline.digest, mode, (), (), full.hash)
    return Order(state.pipeline.digest, mode, stages, groups)


class _UnsureError(Exception):
    """There is a form that this module does not know."""


# Stages -----------------------------------------------------------------------------------------------------------


def _stages(state: State) -> Iterator[tuple[str, Any]]:
    """The orders of all updates that are not the algorithm's."""
    for f in state.pipeline.funcs:
        copies = [n for n, fs in state.funcs.items() if fs.origin == "clone" and _original(state, n) == f.name]
        for d in f.updates:
            found = algebra.match(d)
            if found is not None and found.exact:
                continue
            different = {o for n in (f.name, *copies) if (o := _of_definition(state, n, d)) is not None}
            name = f.name if len(f.updates) == 1 else f"{f.name}[{d.number}]"
            if len(different) == 1:
                different.discard(Run())
                yield from ((name, o) for o in different)
            else:  # who reads which clone is then a part of the order
                raise _UnsureError


def _original(state: State, name: str) -> str:
    """The Func of the algorithm that a clone has the definitions of."""
    while state.funcs[name].clone_of:
        name = state.funcs[name].clone_of
    return name


def _of_definition(state: State, func: str, d: Definition) -> Run | Partial | None:
    """The order of a definition of a Func, as it was made, in all its forms; None where it is computed nowhere."""
    orders = {_of_stage(state, k, d) for k in state.stages if k[:2] == (func, d.number)}
    if len(orders) > 1:
        raise _UnsureError  # conditions say which form runs
    return orders.pop() if orders else None


def _of_stage(state: State, key: Key, made: Definition) -> Run | Partial:
    now = state.stages[key].definition
    of = {
        n: fs.partials for n, fs in state.funcs.items() if fs.partials is not None and fs.partials.stage[:2] == key[:2]
    }
    read = [n for n in of if n in _read(state, now)]
    if not read and (now.rdom is not None or made.rdom is None):
        return Run(_parts(state, state.stages[key]))
    if len(read) != 1:
        raise _UnsureError  # it was factored, and where its partial results went can't be seen
    (name,) = read
    kept = of[name]
    assert kept is not None
    part = _canonical(*_resolved(state, kept.stage[0], kept.root, kept.steps))
    inside = _of_definition(state, name, state.funcs[name].func.updates[0])
    if inside is None:
        raise _UnsureError
    return Partial(part, kept.count.attr if kept.count.op == "const" else None, inside)


def _read(state: State, d: Definition) -> set[str]:
    """The Funcs that a definition reads, through copies of them."""
    found: set[str] = set()
    todo = [t.name for t in loaded(d)]
    while todo:
        name = todo.pop()
        if name in state.funcs and name not in found:
            found.add(name)
            if state.funcs[name].origin in ("cache_read", "clone"):
                todo += state.producers(name)
    return found


# Parts of variables -----------------------------------------------------------------------------------------------


def _resolved(state: State, func: str, root: str, steps: Steps) -> tuple[str, Steps]:
    """A part of a reduction variable of a Func's stage as one of the algorithm's variable."""
    kept = state.funcs[func].partials
    while kept is not None:
        own = dict(kept.parts)
        if root in own:
            root, steps = kept.root, (*own[root], *steps)
        kept = state.funcs[kept.stage[0]].partials
    return root, steps


def _canonical(root: Any, steps: Steps) -> Any:
    """(root, stride, extent) where the part is (root // stride) % extent; else the steps as they are."""
    stride, extent = 1, None
    for how, n in steps:
        if extent is not None and extent % n and n < extent:
            return (root, *steps, None)  # parts of unequal length
        if how == "mod":
            extent = n if extent is None else min(n, extent)
        else:
            stride, extent = stride * n, None if extent is None else max(1, extent // n)
    return (root, stride, extent) if extent != 1 else (root, 1, 1)


def _plain(part: Any) -> bool:
    return len(part) == 3 and isinstance(part[1], int)


def _parts(state: State, stage: Stage) -> tuple[Any, ...]:
    """The parts of reduction variables that the loops of a stage run over, outermost first: () for the algorithm's order."""
    d = stage.definition
    if d.rdom is None or not d.rdom.ranges:
        return ()
    if state.funcs[stage.key[0]].partials is None and _as_written(stage):
        return ()
    raw = _raw_parts(stage)
    parts = _merged([_canonical(*_resolved(state, stage.key[0], root, steps)) for root, steps in raw])
    return () if _ascending(parts, _variables(state, stage)) else tuple(parts)


def _variables(state: State, stage: Stage) -> list[str]:
    """The algorithm's reduction variables in its order, of the stage that partial results are of."""
    key = stage.key
    kept = state.funcs[key[0]].partials
    while kept is not None:
        key = kept.stage
        kept = state.funcs[key[0]].partials
    group = state.block_of(key)
    definitions = state.pipeline.definitions() if group is None else group.definitions
    for d in definitions:
        if (d.func.name, d.number) == key[:2] and d.rdom is not None:
            return list(d.rdom.ranges)
    raise _UnsureError


def _ordered(stage: Stage) -> set[str]:
    """The loops over reduction variables whose order counts."""
    return {x.name for x in stage.loops if x.reduction and not in_any_order(stage, x.name)}


def _as_written(stage: Stage) -> bool:
    """Whether loops over reduction variables stand in the order of the variables, each one's parts from the outermost to
    the innermost: then points come as the algorithm has them, whatever the factors."""
    unique, shown = versioned(stage)
    order = [root_name(r) for r in unique.roots if r.op == "rvar"]
    for t in unique.transforms:
        if isinstance(t, Split):
            if t.parent in order:
                k = order.index(t.parent)
                order[k : k + 1] = [t.outer, t.inner]
        elif t.outer in order and t.inner in order:
            k = order.index(t.outer)
            if order[k + 1 : k + 2] != [t.inner]:
                return False
            order[k : k + 2] = [t.fused]
        elif t.outer in order or t.inner in order:
            order[order.index(t.outer if t.outer in order else t.inner)] = t.fused
    counted = _ordered(stage)
    now = [x.name for x in unique.loops if shown[x.name] in counted]
    return [n for n in order if n in now] == now


def _raw_parts(stage: Stage) -> list[tuple[Any, Steps]]:
    """(variable, steps to the part) of the loops whose order counts."""
    unique, shown = versioned(stage)
    parts: dict[str, list[tuple[Any, Steps]]] = {root_name(r): [(root_name(r), ())] for r in unique.roots}
    pure = {root_name(r) for r in unique.roots if r.op != "rvar"}
    for t in unique.transforms:
        if isinstance(t, Fuse):
            parts[t.fused] = parts[t.outer] + parts[t.inner]
            continue
        whole = parts[t.parent]
        if len(whole) != 1:  # a part of several variables at once
            raise _UnsureError
        ((root, steps),) = whole
        parts[t.outer] = [(root, (*steps, ("div", t.factor)))]
        parts[t.inner] = [(root, (*steps, ("mod", t.factor)))]
    counted = _ordered(stage)
    found = [p for x in unique.loops if shown[x.name] in counted for p in parts[x.name]]
    return [p for p in found if p[0] not in pure]


def _merged(parts: Sequence[Any]) -> list[Any]:
    """Parts of which neighbours that are one are written as one, and those that have a single value are left out."""
    found: list[Any] = []
    for p in parts:
        if _plain(p) and p[2] == 1:
            continue
        if found and _plain(p) and _plain(found[-1]):
            root, stride, extent = found[-1]
            if root == p[0] and p[2] is not None and stride == p[1] * p[2]:
                found[-1] = (root, p[1], None if extent is None else extent * p[2])
                continue
        found.append(p)
    return found


def _ascending(parts: Sequence[Any], variables: Sequence[str]) -> bool:
    """Whether parts enumerate points in the order of the variables."""
    if not all(_plain(p) and p[0] in variables for p in parts):
        return False
    keys = [(variables.index(root), -stride) for root, stride, _ in parts]
    return keys == sorted(set(keys))


# Groups -----------------------------------------------------------------------------------------------------------


def _group(state: State, g: Group) -> Together:
    """A group by what its stages compute, under names that do not depend on the group's own.

    Where sums are kept about what was seen so far (members of ours beside the algorithm's) all that is computed counts, as
    it is scheduled: the terms themselves differ then.
    """
    named = {f.name for f in state.pipeline.funcs}
    moved = any(n not in named for n in g.members)
    h = hashlib.blake2b(digest_size=16)
    var, block = ir.var(state.loop_address(g.key, g.loop)), ir.var("block")
    for name, fs in sorted(state.funcs.items()):
        partial = fs.partials is not None and fs.partials.stage[0] in g.members
        for s in state.variants_of(name) if name in g.members or fs.origin == "online" or (partial and moved) else ():
            if moved or fs.origin == "online" or s.key[1] == REPAIR:
                for n in ir.substitute(s.definition.roots, {var: block}):
                    h.update(n.digest)
            if moved:
                h.update(repr(([x.name for x in s.loops], s.transforms)).encode())
    return Together(g.members, g.over, g.block, h.hexdigest())


__all__ = ["Order", "Partial", "Run", "Together", "order_of", "pinned", "reduction_order"]

"""Reductions that depend on each other, in one pass over blocks of what they reduce, for a strip of a consumer at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.autotune.generate.draft import Draft, Form
from tilewright.lang import ir
from tilewright.lang.errors import TilewrightError
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.schedule.build import Builder
from tilewright.schedule.default_loops import apply, shape
from tilewright.schedule.default_places import in_memory_by_default
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.sites import legal_sites
from tilewright.schedule.state import State

_BLOCK = 16  # for a trial


@dataclass(frozen=True)
class Pass:
    """Reductions `members` over a variable, each of which follows from those before it. `head` is the pure Func that reads
    them, `axes` its variables by which every member is read, in the order of its loops."""

    members: tuple[str, ...]
    over: str
    head: str
    axes: tuple[str, ...]


def one_pass(d: Draft, name: str) -> Sequence[Form]:
    """Rule: dependent reductions in one pass."""
    if name or not d.at.reorders:
        return ()
    return tuple(Form(f"online {' '.join(p.members)}", _writer(p)) for p in passes(d.s))


def passes(s: Schedule) -> list[Pass]:
    """The groups of reductions that the directive takes, those of most members first."""
    domains: dict[tuple, list[str]] = {}
    for name in s.state.order:
        stages = s.state.stages_of(name)
        update = stages[-1].definition
        if len(stages) == 2 and update.rdom is not None and name not in s.state.outputs:
            for over, ends in update.rdom.ranges.items():
                domains.setdefault((over, *ends), []).append(name)
    found = []
    for (over, *_), names in domains.items():
        members = _following(s.state, names)
        head = _head(s.state, members) if len(members) > 1 else None
        if head is not None and _allowed(s, members, over):
            found.append(Pass(members, over, *head))
    return sorted(found, key=lambda p: -len(p.members))


def _reached(state: State, name: str) -> set[str]:
    """A Func and all that it is made from."""
    found, todo = {name}, [name]
    while todo:
        new = set(state.producers(todo.pop())) - found
        found |= new
        todo += new
    return found


def _following(state: State, names: Sequence[str]) -> tuple[str, ...]:
    """The first of some reductions, and those that need one of them."""
    chosen = list(names[:1])
    for n in names[1:]:
        if _reached(state, n) & set(chosen):
            chosen.append(n)
    return tuple(chosen)


def _head(state: State, members: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The one Func that reads the members when they are done (through what is inlined), and the axes by which it does."""
    needed = {n for m in members for n in _reached(state, m)}
    readers = {k.key for m in members for k in state.consumers(state.funcs[m].func) if k.key[0] not in needed}
    while any(state.funcs[key[0]].compute.kind == "inline" for key in readers):
        some = next(key for key in sorted(readers) if state.funcs[key[0]].compute.kind == "inline")
        readers |= {k.key for k in state.consumers(state.funcs[some[0]].func)}
        readers.discard(some)
    if len(readers) != 1:
        return None
    (key,) = readers
    d = state.stages[key].definition
    if d.rdom is not None or key[1] >= 0:
        return None
    axes = tuple(v.attr for v in d.pure_vars if all(_read_by(d, state.funcs[m].func, v) for m in members))
    return (key[0], axes) if axes else None


def _read_by(d: Definition, f: Func, v: Node) -> bool:
    """Whether a definition reads a Func at a variable alone, or not directly."""
    loads = [n for n in ir.leaves(d.values, "load") if n.attr[0] is f]
    return all(any(a is v for a in n.args) for n in loads)


def _allowed(s: Schedule, members: tuple[str, ...], over: str) -> bool:
    try:
        s.copy().online(members, over=over, block=_BLOCK)
    except TilewrightError:
        return False
    return True


def _writer(p: Pass) -> Callable[[Draft], None]:
    return lambda d: _write(d, p)


def _write(d: Draft, p: Pass) -> None:
    head = d.stages(p.head)[0].definition
    address = d.s.state.address(d.stages(p.head)[0].key)
    axis = str(d.choose("online.strips of", p.axes[::-1]))
    var = next(v for v in head.pure_vars if v.attr == axis)
    tiles = any(shape(d.stages(m)[-1].definition, set()).kind == "tile" for m in p.members)
    n = d.extent(head, var)
    usual = (64, 32, 128, 256, 16) if tiles else (1, 4, 8, 16)
    strip = d.number("online.strip", [x for x in usual if x < n] or [1])
    site = f"{address}.{axis}"
    if strip > 1:
        apply(d.s, "split", address, (axis,), results=(f"{axis}_s", axis), by=strip)
        site = f"{address}.{axis}_s"
    for m in reversed(p.members):
        apply(d.s, "compute_at", "", (m,), at=site)
    update = d.stages(p.members[0])[-1].definition
    rvar = next(x for x in update.rdom.rvars if x.attr[1] == p.over)  # type: ignore[union-attr]
    points = d.extent(update, rvar)
    blocks = [x for x in (512, 256, 1024, 128, 2048, 64) if x < points] or [max(1, points)]
    apply(d.s, "online", "", p.members, over=p.over, by=d.number("online.block", blocks[:5]))
    group = d.s.state.groups[-1]
    _place(d, site, d.s.state.loop_address(group.key, group.loop), _reads(d.s.state, p.members))


def _reads(state: State, members: Sequence[str]) -> set[str]:
    return {n for m in members for n in _reached(state, m)} - set(members)


def _place(d: Draft, strip: str, block: str, needed: set[str]) -> None:
    """Places of what the members are made from: for a block what differs from block to block, else for a strip."""
    kept, _ = in_memory_by_default(d.s)
    for name in reversed(kept):
        legal = legal_sites(d.s.state, d.func(name)) if name in needed else []
        inside = [x for x in (block, strip) if x in legal and _parted(d, name, x)]
        if not inside:
            continue
        labels: Mapping[str, str] = {("block" if x == block else "strip"): x for x in inside}
        chosen = str(d.choose(f"{name}.within", (*labels, "whole")))
        if chosen in labels:
            apply(d.s, "compute_at", "", (name,), at=labels[chosen])


def _parted(d: Draft, name: str, site: str) -> bool:
    """Whether iterations of a loop need parts of their own of a Func."""
    trial = d.s.copy()
    try:
        apply(trial, "compute_at", "", (name,), at=site)
        b = Builder(trial.state, "strict")
        b.infer()
        built = b.funcs[name]
    except (TilewrightError, KeyError):
        return False
    var = built.site[-1].var
    return any(r.lo is not None and var in ir.leaves((r.lo,), "var") for r in built.region)


__all__ = ["Pass", "one_pass", "passes"]

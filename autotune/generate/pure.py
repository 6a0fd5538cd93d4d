"""Loops of pure definitions: strips for threads, tiles for caches, rows that are computed together, vectors, tiles in
registers of what transposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tilewright.autotune.generate.draft import Draft, Form
from tilewright.lang import ir, simplify
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.schedule.default_loops import CHEAP, apply, cost, lanes_of
from tilewright.schedule.state import Stage
from tilewright.schedule.transposes import crossing_axis, tile_size

TOGETHER = (1, 2, 4, 6, 8)  # rows that are computed at once
VECTORS = (1, 2, 4)  # registers' worth of a row at once
STRIPS = (1, 4, 8, 16, 32, 64, 128)
CHUNKS = (1 << 15, 1 << 14, 1 << 16, 1 << 17)  # elements a task of a single row
_MOST = 256  # operations on vectors one after the other, without a loop: more take long to compile and gain nothing
TILES = (0, 256, 512, 1024, 2048)
_BLOCKS = (16, 0, 4)  # tiles each way of a block of those that transpose


def pure_forms(d: Draft, name: str) -> Sequence[Form]:
    """Rule: the loops of a pure definition that no other Func is computed in."""
    stage = _pure_stage(d, name)
    if stage is None:
        return ()
    if d.s.state.funcs[name].compute.kind == "root":
        return (Form("strips", lambda d: _strips(d, name)),)
    return (Form("rows", lambda d: rows(d, name, stage)),)


def _pure_stage(d: Draft, name: str) -> Stage | None:
    """The one stage of a Func that has no updates, vectors along its last axis, and no loops written yet."""
    stages = d.stages(name)
    if len(stages) != 1 or not d.free(name) or stages[0].scheduled:
        return None
    f, (stage,) = stages[0].definition, stages
    plain = f.rdom is None and f.number < 0 and bool(f.lhs) and all(i.op == "var" for i in f.lhs)
    return stage if plain and len(stage.loops) == len(f.lhs) and d.extent(f, f.lhs[-1]) > 1 else None


def is_pure(d: Draft, name: str) -> bool:
    return _pure_stage(d, name) is not None


# At the root ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Levels:
    """Loops of a Func in which others can be computed, by what one of their iterations is: a strip, a tile, a row (or some
    that are computed together), a column (of vectors); and how many points of each axis an iteration of a column has."""

    sites: Mapping[str, str]
    points: tuple[int, ...]


def _strips(d: Draft, name: str) -> None:
    strips(d, name)


def strips(d: Draft, name: str) -> Levels:
    """Write the loops of a pure Func at the root."""
    stage = d.stages(name)[0]
    f = stage.definition
    d.written(d.stages(name)[0].key)
    last = f.lhs[-1]
    rows = [v for v in f.pure_vars if v is not last and d.extent(f, v) > 1]
    if not rows:
        return _line(d, name, f, [v for v in f.pure_vars if v is not last])
    crossing = crossing_axis(f.lhs, f.values) if cost(f.func, {}) <= CHEAP else None
    if crossing in rows:
        return _transposing(d, name, f, crossing)
    return _rows_at_root(d, name, f, rows)


def _line(d: Draft, name: str, f: Definition, others: Sequence[Node]) -> Levels:
    """Chunks of a single row."""
    s, address, x, n = d.s, d.s.state.address(d.stages(name)[0].key), f.lhs[-1].attr, d.extent(f, f.lhs[-1])
    chunk = d.number(f"{name}.chunk", [c for c in CHUNKS if c * d.at.threads <= n] or [CHUNKS[0]])
    lanes = lanes_of(f, d.at.registers) * d.number(f"{name}.vectors", VECTORS)
    apply(s, "split", address, (x,), results=(f"{x}_s", x), by=chunk)
    if others:
        apply(s, "reorder", address, (f"{x}_s", *(v.attr for v in others), x))
    apply(s, "parallel", address, (f"{x}_s",))
    apply(s, "vectorize", address, (x,), by=lanes)
    _past_caches(d, name, f)
    return Levels({"strip": f"{address}.{x}_s", "column": f"{address}.{x}"}, (*(1 for _ in others), lanes))


def _rows_at_root(d: Draft, name: str, f: Definition, rows: Sequence[Node]) -> Levels:
    s, address, last = d.s, d.s.state.address(d.stages(name)[0].key), f.lhs[-1]
    x, lanes = last.attr, lanes_of(f, d.at.registers)
    p = _shared_out(d, name, f, rows)
    u = rows[-1]
    across, before = overlaps(f, u), _second(d, name, f, rows)
    most = max(1, _MOST // max(1, d.work(name)))  # vectors that are computed at once
    usual = 1 if not across else 4 if before is None else 2
    together = d.number(f"{name}.together", _upto(_first(TOGETHER, usual), min(d.extent(f, u), most)))
    n = d.extent(f, p)
    high = [h for h in STRIPS if h * d.at.threads <= n] or [1]
    high = d.number(f"{name}.strip", _first(high, 64 if across else 16))
    step = together if u is p else 2 if p is before else 1
    if high > 1 or step > 1:
        high = -(-high // step) * step
    wide = d.number(f"{name}.tile", [b for b in TILES if b < d.extent(f, last)])
    vectors = d.number(
        f"{name}.vectors",
        _upto(_first(VECTORS, 1 if across else 2), min(-(-d.extent(f, last) // lanes), most // together)),
    )
    outer = [v.attr for v in f.pure_vars if v is not last]
    first = p.attr
    if high > 1:
        first = f"{p.attr}_s"
        apply(s, "split", address, (p.attr,), results=(first, p.attr), by=high)
        outer = [first, *outer]
    else:
        outer = [first, *(v for v in outer if v != first)]
    inner = []
    for v, by in ((before, 2), (u, together)):
        if v is not None and by > 1:
            apply(s, "split", address, (v.attr,), results=(v.attr, f"{v.attr}_t"), by=by)
            inner.append(f"{v.attr}_t")
    levels = {"strip": first} if high > 1 else {}
    if wide:
        apply(s, "split", address, (x,), results=(f"{x}_b", x), by=wide)
        outer.insert(1, f"{x}_b")
        levels["tile"] = f"{x}_b"
    apply(s, "split", address, (x,), results=(x, f"{x}_v"), by=lanes * vectors)
    apply(s, "reorder", address, (*outer, x, *inner, f"{x}_v"))
    apply(s, "parallel", address, (first,))
    for v in inner:
        apply(s, "unroll", address, (v,))
    apply(s, "vectorize", address, (f"{x}_v",))
    levels |= {"row": u.attr, "column": x}
    _past_caches(d, name, f)
    points = {u: together, last: lanes * vectors} | ({before: 2} if before is not None else {})
    return Levels({k: f"{address}.{v}" for k, v in levels.items()}, tuple(points.get(v, 1) for v in f.lhs))


def _shared_out(d: Draft, name: str, f: Definition, rows: Sequence[Node]) -> Node:
    """The axis whose strips run on threads: one of the first two, first the one with iterations enough."""
    among = list(rows[:2])
    if len(among) == 1:
        return among[0]
    enough = 8 * d.at.threads
    among.sort(key=lambda v: d.extent(f, v) < enough)
    chosen = d.choose(f"{name}.strips_of", [v.attr for v in among])
    return next(v for v in among if v.attr == chosen)


def _second(d: Draft, name: str, f: Definition, rows: Sequence[Node]) -> Node | None:
    """Another axis of which two points are computed together: where neighbours along it read the same elements."""
    if len(rows) < 2 or not overlaps(f, rows[-2]) or not d.flag(f"{name}.by_two", overlaps(f, rows[-1])):
        return None
    return rows[-2]


def overlaps(f: Definition, v: Node) -> bool:
    """Whether neighbours along a variable read some of the same elements."""
    seen: dict[tuple, set[int]] = {}
    for n in ir.leaves(f.values, "load"):
        for k, i in enumerate(n.args):
            coefs, c = simplify.linear(i)
            if v in coefs:
                seen.setdefault((n.attr[0].name, k), set()).add(c)
    return any(len(c) > 1 for c in seen.values())


def _first(choices: Sequence[int], usual: int) -> list[int]:
    """Choices, of which the usual one comes first where it is among them."""
    return sorted(choices, key=lambda c: c != usual)


def _upto(choices: Sequence[int], most: int) -> list[int]:
    return [c for c in choices if c <= most] or [1]


def _past_caches(d: Draft, name: str, f: Definition) -> None:
    """Results that fill the last cache may be stored past all of them."""
    size = sum(t.bytes for t in f.func.dtypes)
    for v in f.lhs:
        size *= d.extent(f, v)
    if name in d.s.state.outputs and size > d.at.cache(2) and d.flag(f"{name}.past_caches"):
        apply(d.s, "stream_stores", "", (name,))


def _transposing(d: Draft, name: str, f: Definition, crossing: Node) -> Levels:
    """Square tiles, which are turned in registers, in blocks of tiles."""
    s, address, last = d.s, d.s.state.address(d.stages(name)[0].key), f.lhs[-1]
    u, v = crossing.attr, last.attr
    n = tile_size(d.at.registers.width, max(t.bytes for t in f.func.dtypes))
    n = d.number(f"{name}.turned", (n, n // 2) if n > 4 else (n,))
    block = d.number(f"{name}.block", [b for b in _BLOCKS if b * n < min(d.extent(f, crossing), d.extent(f, last))])
    outer = [x.attr for x in f.pure_vars if x not in (crossing, last)]
    inner = [u, v] if d.choose(f"{name}.first", (u, v)) == u else [v, u]
    if block:
        for x in (u, v):
            apply(s, "split", address, (x,), results=(f"{x}_b", x), by=block * n)
        outer += [f"{u}_b", f"{v}_b"]
    for x in (u, v):
        apply(s, "split", address, (x,), results=(x, f"{x}_t"), by=n)
    order = [*outer, *inner, f"{u}_t", f"{v}_t"]
    apply(s, "reorder", address, tuple(order))
    apply(s, "parallel", address, (order[0],))
    apply(s, "unroll", address, (f"{u}_t",))
    apply(s, "vectorize", address, (f"{v}_t",))
    return Levels({"strip": f"{address}.{order[0]}"}, ())


# In the loops of others -------------------------------------------------------------------------------------------


def rows(d: Draft, name: str, stage: Stage) -> None:
    """The loops of a pure Func that is computed in a loop of another one: vectors, some rows of them at once."""
    f, s, address = stage.definition, d.s, d.s.state.address(stage.key)
    d.written(d.stages(name)[0].key)
    x = f.lhs[-1].attr
    u = f.lhs[-2] if len(f.lhs) > 1 else None
    twin = _twin(d, name)
    tail, together, width = d.shapes[twin] if twin is not None else _row_shape(d, name, f)
    d.shapes[name] = tail, together, width
    apply(s, "split", address, (x,), results=(x, f"{x}_v"), by=width, tail=tail)
    if u is not None and together > 1:
        apply(s, "split", address, (u.attr,), results=(u.attr, f"{u.attr}_t"), by=together)
        apply(s, "reorder", address, (u.attr, x, f"{u.attr}_t", f"{x}_v"))
        apply(s, "unroll", address, (f"{u.attr}_t",))
    apply(s, "vectorize", address, (f"{x}_v",))
    if twin is not None:
        with suppress(ScheduleError):
            apply(s, "compute_with", address, (), at=f"{d.s.state.address(d.stages(twin)[0].key)}.{x}")
        return
    target = _written_along(d, name, f)
    if target is not None and d.flag(f"{name}.prefetch"):
        with suppress(ScheduleError):
            apply(s, "prefetch", "", (target,), at=f"{address}.{x}", offset=0)


def _row_shape(d: Draft, name: str, f: Definition) -> tuple[str, int, int]:
    """How rows end, how many are computed at once, and the lanes of a vector."""
    tail, together, lanes, n = d.tail(name), 1, lanes_of(f, d.at.registers), d.extent(f, f.lhs[-1])
    most = max(1, _MOST // max(1, d.work(name)))
    u = f.lhs[-2] if len(f.lhs) > 1 else None
    if u is not None and name not in d.lines and overlaps(f, u):
        together = d.number(f"{name}.together", _upto(_first(TOGETHER, 4), min(d.extent(f, u), most)))
    vectors = _upto(VECTORS, min(-(-n // lanes), most // together))
    return tail, together, lanes * d.number(f"{name}.vectors", vectors)


def _twin(d: Draft, name: str) -> str | None:
    """Another Func, written before, whose loops it shares: at the same place, with the same variables, and neither needs
    the other one."""
    state, f = d.s.state, d.func(name)
    here = (state.funcs[name].compute, state.funcs[name].stored)
    for other in d.shapes:
        g = state.funcs[other]
        if (g.compute, g.stored) != here or [v.attr for v in g.func.args] != [v.attr for v in f.args]:
            continue
        if name in _all_producers(d, other) or other in _all_producers(d, name):
            continue
        if (
            f.dtypes == g.func.dtypes
            and state.stages_of(other)[0].fused_with is None
            and d.flag(f"{name}.with_{other}")
        ):
            return other
    return None


def _all_producers(d: Draft, name: str) -> set[str]:
    found, todo = set[str](), [name]
    while todo:
        more = [n for n in d.s.state.producers(todo.pop()) if n not in found]
        found.update(more)
        todo += more
    return found


def _written_along(d: Draft, name: str, f: Definition) -> str | None:
    """The output in whose rows a Func is computed, if an element of the one is like one of the other."""
    place = d.s.state.funcs[name].compute
    if place.stage is None or place.stage[0] not in d.s.state.outputs:
        return None
    g = d.s.state.stages[place.stage].definition
    same = len(g.lhs) == len(f.lhs) and all(d.extent(f, a) == d.extent(g, b) for a, b in zip(f.lhs, g.lhs, strict=True))
    return place.stage[0] if same and len(f.lhs) > 1 else None


def in_registers(d: Draft, name: str, whole: bool) -> None:
    """The loops of a pure Func that is computed in registers: all unrolled, vectors along the last axis. `whole`: what is
    needed of a row is a single vector."""
    f, s, address = d.stages(name)[0].definition, d.s, d.s.state.address(d.stages(name)[0].key)
    d.written(d.stages(name)[0].key)
    s.store_in(name, "reg")
    x, lanes = f.lhs[-1].attr, lanes_of(f, d.at.registers)
    for v in f.pure_vars[:-1]:
        apply(s, "unroll", address, (v.attr,))
    tail = d.tail(name, ask=False) if whole else "guard"
    apply(s, "split", address, (x,), results=(x, f"{x}_v"), by=lanes, tail=tail)
    apply(s, "vectorize", address, (f"{x}_v",))


__all__ = ["Levels", "in_registers", "is_pure", "overlaps", "pure_forms", "rows", "strips"]

"""Random directives beyond those of tests/schedule/random_schedules.py: combinations that people write.

Register tiles with packed operands, staged copies of staged copies, partial results that are split again, padded
layouts, big factors, storage further out.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.schedule import random_schedules as base
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Array
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.directives.staging import tensors_of
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Stage

Choose = Callable[[int], int]
LAYOUTS = {
    1: ["a -> a", "a -> a//4 a%4", "a -> a//3 a%3", "a -> a//2 a%2"],
    2: ["a b -> b a", "a b -> b//4 a b%4", "a b -> a//2 b//4 a%2 b%4", "a b -> b a//3 a%3", "a b -> a//5 b a%5"],
    3: ["a b c -> c a b", "a b c -> b//2 a c b%2"],
}


def pick(choose: Choose, items):
    items = list(items)
    return items[choose(len(items))]


def stage(s: Schedule, choose: Choose, where: Callable[[Stage], bool] = lambda x: True) -> Stage | None:
    placed = {n for n, f in s.state.funcs.items() if f.compute.kind != "inline"}
    found = [x for x in s.state.stages.values() if x.loops and x.key[0] in placed and where(x)]
    return pick(choose, found) if found else None


def _rank(t) -> int:
    return t.ndim if isinstance(t, Array) else t.rank


def staged(s: Schedule, choose: Choose, k: int) -> None:
    """A copy of something that a stage really reads, at one of its loops, often with a layout."""
    x = stage(s, choose)
    if x is None:
        return
    found = tensors_of((*x.definition.lhs, *x.definition.values))
    found.pop(x.key[0], None)
    if not found:
        return
    t = pick(choose, found.values())
    layout = pick(choose, LAYOUTS[_rank(t)]) if _rank(t) in LAYOUTS and choose(2) else None
    s.cache_read(t.name, at=s.state.loop_address(x.key, pick(choose, x.loops).name), layout=layout)


def tile_of(s: Schedule, choose: Choose, k: int) -> None:
    """A register tile of a stage: split, reorder, unroll, vectorize, hold, at random places."""
    x = stage(s, choose, lambda y: y.write_cache is None and any(not z.reduction for z in y.loops))
    if x is None:
        return
    h = s[s.state.address(x.key)]
    inner = []
    for y in [y for y in x.loops if not y.reduction][-2:]:
        if choose(4):
            tail = pick(choose, ["guard", "guard", "guard", "shift"])
            h.split(y.name, f"{y.name}_o{k}", f"{y.name}_i{k}", 1 + choose(6), tail)
            inner.append(f"{y.name}_i{k}")
    now = next(z for z in s.state.stages.values() if z.key == x.key)
    outer = [z.name for z in now.loops if not z.reduction and z.name not in inner]
    reductions = [z.name for z in now.loops if z.reduction]
    h.reorder(*outer, *reductions, *inner)
    for name in inner[:-1]:
        if choose(2):
            h.unroll(name)
    if inner and choose(3):
        (h.vectorize if choose(3) else h.unroll)(inner[-1])
    sites = [*outer, *reductions]
    if sites and choose(4):
        at = pick(choose, sites) if choose(2) else sites[max(0, len(outer) - 1)]
        rank = s.state.funcs[x.key[0]].func.rank
        memory = pick(choose, ["reg", "reg", "main"])
        layout = pick(choose, LAYOUTS[rank]) if rank in LAYOUTS and not choose(4) else None
        s.cache_write(x.key[0], at=s.state.loop_address(x.key, at), memory=memory, layout=layout)


def partial(s: Schedule, choose: Choose, k: int) -> None:
    """Partial results over a reduction loop or a part of it, by one of the three ways."""
    x = stage(s, choose, lambda y: any(z.reduction for z in y.loops))
    if x is None:
        return
    h = s[s.state.address(x.key)]
    loop = pick(choose, [z.name for z in x.loops if z.reduction])
    if choose(3):
        h.split(loop, f"ro{k}", f"ri{k}", 1 + choose(5))
        loop = pick(choose, [f"ro{k}", f"ri{k}"])
    kind = choose(4)
    if kind < 2:
        h.rfactor(loop, f"P{k}")
    elif kind == 2:
        h.vectorize(loop)
    else:
        h.parallel(loop)


def marks(s: Schedule, choose: Choose, k: int) -> None:
    """Two adjacent pure loops as one, in vectors or threads; or the outermost loop in threads."""
    x = stage(s, choose)
    if x is None:
        return
    h = s[s.state.address(x.key)]
    pure = [i for i in range(len(x.loops) - 1) if not x.loops[i].reduction and not x.loops[i + 1].reduction]
    if pure and choose(2):
        i = pick(choose, pure)
        h.fuse(x.loops[i].name, x.loops[i + 1].name, f"fu{k}")
        (h.parallel if choose(2) else h.vectorize)(f"fu{k}", 1 + choose(6))
    else:
        h.parallel(x.loops[0].name)


def vectors(s: Schedule, choose: Choose, k: int) -> None:
    """Vectors along the last pure loop."""
    x = stage(s, choose, lambda y: any(not z.reduction for z in y.loops))
    if x is None:
        return
    s[s.state.address(x.key)].vectorize([z.name for z in x.loops if not z.reduction][-1], pick(choose, [2, 3, 4, 8, 5]))


def near(s: Schedule, choose: Choose, k: int) -> None:
    """A producer computed at a loop of a consumer, now and then stored further out."""
    made = [n for n in s.state.funcs if s.state.consumers(s.state.funcs[n].func) and n not in s.state.outputs]
    if not made:
        return
    name = pick(choose, made)
    users = [x for x in s.state.consumers(s.state.funcs[name].func) if x.loops]
    if not users:
        return
    x = pick(choose, users)
    loops = [z.name for z in x.loops]
    i = choose(len(loops))
    if s.state.funcs[x.key[0]].compute.kind == "inline":
        s[x.key[0]].compute_root()
    s[name].compute_at(s.state.loop_address(x.key, loops[i]))
    if i and not choose(3):
        s[name].store_at(s.state.loop_address(x.key, loops[choose(i)]))


def padded(s: Schedule, choose: Choose, k: int) -> None:
    """A layout for the buffer of a Func."""
    found = [n for n, f in s.state.funcs.items() if f.compute.kind != "inline" and f.func.rank in LAYOUTS]
    if found:
        name = pick(choose, found)
        s[name].layout(pick(choose, LAYOUTS[s.state.funcs[name].func.rank]))


def region(s: Schedule, choose: Choose, k: int) -> None:
    """More of a Func than is needed."""
    base.region(s, choose, k)


def ring(s: Schedule, choose: Choose, k: int) -> None:
    """Slots for a copy or a tile."""
    s[pick(choose, s.state.funcs)].double_buffer(2 + choose(2))


def window(s: Schedule, choose: Choose, k: int) -> None:
    """A producer in a loop of its consumer and stored further out, folded now and then."""
    made = [n for n in s.state.funcs if n not in s.state.outputs and s.state.consumers(s.state.funcs[n].func)]
    if not made:
        return
    name = pick(choose, made)
    x = pick(choose, s.state.consumers(s.state.funcs[name].func))
    loops = [z.name for z in x.loops]
    if not loops:
        return
    if s.state.funcs[x.key[0]].compute.kind == "inline":
        s[x.key[0]].compute_root()
    i = choose(len(loops))
    s[name].compute_at(s.state.loop_address(x.key, loops[i]))
    if i and choose(2):
        s[name].store_at(s.state.loop_address(x.key, loops[choose(i)]))
    elif choose(4):
        s[name].store_root()
    else:
        s[name].hoist_storage()
    axes = [v.attr for v in s.state.funcs[name].func.args]
    if axes and choose(2):
        s[name].fold_storage(pick(choose, axes), 1 + choose(5))


MOVES = [
    region, *[ring] * 2, *[window] * 3, base.clone, base.parts, base.specialize, base.stream,
    *[base.split] * 2, base.fuse, *[base.reorder] * 2, base.tile, base.mark, base.place, base.store, base.cache_read,
    base.cache_write, base.prefetch, *[staged] * 2, *[tile_of] * 3, *[partial] * 2, marks, vectors, *[near] * 3, padded,
]  # fmt: skip


def grow(p: Pipeline, choose: Choose, steps: int) -> Schedule:
    """A schedule of what was legal of `steps` random directives; every refusal is a clear error."""
    s = Schedule(p)
    for k in range(steps):
        try:
            pick(choose, MOVES)(s, choose, k)
        except ScheduleError as e:
            assert e.code.startswith("schedule."), e
    return s

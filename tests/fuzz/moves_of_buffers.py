"""Random directives about Funcs: where they are computed and stored, copies, tiles, rings, layouts, regions."""

from __future__ import annotations

from collections.abc import Iterable

from tests.fuzz.places import (
    LAYOUTS,
    Choose,
    a_layout,
    a_stage,
    handle,
    made,
    materialised,
    move,
    now,
    pick,
    pure_loops,
    reads,
    site,
    stages,
    tensors,
)
from tilewright.lang.tensors import Array
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Stage

# Placement ----------------------------------------------------------------------------------------------------------


@move("compute_root")
def compute_root(s: Schedule, choose: Choose, k: int) -> None:
    s[pick(choose, made(s))].compute_root()


@move("compute_inline")
def compute_inline(s: Schedule, choose: Choose, k: int) -> None:
    s[pick(choose, [n for n in made(s) if len(s.state.stages_of(n)) == 1])].compute_inline()


def placed_at(s: Schedule, choose: Choose) -> tuple[str, Stage, int]:
    """A Func computed at a loop of one of its consumers: it, the consumer, the loop's depth."""
    name = pick(choose, made(s))
    x = pick(choose, [y for y in s.state.consumers(s.state.funcs[name].func) if y.loops])
    materialised(s, x.key[0])
    i = choose(len(x.loops))
    s[name].compute_at(s.state.loop_address(x.key, x.loops[i].name))
    return name, x, i


@move("compute_at", 3)
def near(s: Schedule, choose: Choose, k: int) -> None:
    placed_at(s, choose)


@move("compute_at")
def compute_at(s: Schedule, choose: Choose, k: int) -> None:
    s[pick(choose, s.state.funcs)].compute_at(site(s, choose))


@move("store_at", 3)
def store_near(s: Schedule, choose: Choose, k: int) -> None:
    name, x, i = placed_at(s, choose)
    s[name].store_at(s.state.loop_address(x.key, x.loops[choose(i + 1)].name))


@move("store_at")
def store_at(s: Schedule, choose: Choose, k: int) -> None:
    s[pick(choose, s.state.funcs)].store_at(site(s, choose))


@move("store_root")
def store_root(s: Schedule, choose: Choose, k: int) -> None:
    name = placed_at(s, choose)[0] if choose(4) else pick(choose, s.state.funcs)
    s[name].store_root()


@move("hoist_storage")
def hoist_storage(s: Schedule, choose: Choose, k: int) -> None:
    if choose(5) == 0:
        s[pick(choose, s.state.funcs)].hoist_storage(site(s, choose) if choose(2) else None)
        return
    name, x, i = placed_at(s, choose)
    s[name].hoist_storage(s.state.loop_address(x.key, x.loops[choose(i)].name) if i and choose(2) else None)


@move("fold_storage")
def fold_storage(s: Schedule, choose: Choose, k: int) -> None:
    name, x, i = placed_at(s, choose)
    if i and choose(2):
        s[name].store_at(s.state.loop_address(x.key, x.loops[choose(i)].name))
    else:
        s[name].store_root()
    axes = [v.attr for v in s.state.funcs[name].func.args]
    s[name].fold_storage(pick(choose, axes), 1 + choose(7))


@move("clone")
def clone(s: Schedule, choose: Choose, k: int) -> None:
    name = pick(choose, made(s))
    users = s.state.consumers(s.state.funcs[name].func)
    chosen = [s.state.address(x.key) for x in users if choose(2)] or [s.state.address(users[0].key)]
    copy = s.clone(name, chosen, f"cl{k}" if choose(2) else None).func
    if choose(2):
        s[copy].compute_root()


@move("compute_with")
def compute_with(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose)
    names = {y.name for y in x.loops}
    others = stages(s, lambda y: y.key[0] != x.key[0] and y.loops[0].name in names)
    base = pick(choose, others)
    shared = [y.name for y in base.loops if y.name in names]
    handle(s, x).compute_with(s.state.loop_address(base.key, pick(choose, shared)))


# Buffers ------------------------------------------------------------------------------------------------------------


@move("cache_read", 3)
def staged(s: Schedule, choose: Choose, k: int) -> None:
    """A copy of something that a stage really reads, at one of its loops, often with a layout."""
    x = a_stage(s, choose, lambda y: bool(reads(y)))
    t = pick(choose, reads(x).values())
    rank = t.ndim if isinstance(t, Array) else t.rank
    layout = pick(choose, LAYOUTS[rank]) if rank in LAYOUTS and choose(2) else None
    s.cache_read(t.name, at=s.state.loop_address(x.key, pick(choose, x.loops).name), layout=layout)


@move("cache_read")
def staged_for_some(s: Schedule, choose: Choose, k: int) -> None:
    """A copy at the root, or at a loop, for chosen consumers only."""
    name = pick(choose, tensors(s))
    users = [x for x in s.state.stages.values() if name in reads(x)]
    chosen = [s.state.address(x.key) for x in users if choose(2)] or [s.state.address(pick(choose, users).key)]
    layout = a_layout(s, choose, name) if choose(2) else None
    at = site(s, choose) if choose(3) == 0 else None
    s.cache_read(name, at=at, layout=layout, consumers=chosen if choose(4) else None, name=f"cr{k}")


@move("cache_write")
def cache_write(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: len(y.write_caches) < 2)
    layout = a_layout(s, choose, x.key[0]) if choose(4) == 0 else None
    at = s.state.loop_address(x.key, pick(choose, x.loops).name) if choose(4) else None
    s.cache_write(x.key[0], at=at, memory=pick(choose, ["main", "reg", "main"]), layout=layout)


@move("cache_write", 2)
def register_tile(s: Schedule, choose: Choose, k: int) -> None:
    """A register tile of a stage: split, reorder, unroll, vectorize, hold, at random places."""
    x = a_stage(s, choose, lambda y: bool(pure_loops(y)))
    h = handle(s, x)
    inner = []
    for name in pure_loops(x)[-2:]:
        if choose(4):
            h.split(
                name, f"{name}_o{k}", f"{name}_i{k}", 1 + choose(6), pick(choose, ["guard", "guard", "guard", "shift"])
            )
            inner.append(f"{name}_i{k}")
    outer = [n for n in pure_loops(now(s, x)) if n not in inner]
    reductions = [z.name for z in now(s, x).loops if z.reduction]
    h.reorder(*outer, *reductions, *inner)
    for name in inner[:-1]:
        if choose(2):
            h.unroll(name)
    if inner and choose(3):
        (h.vectorize if choose(3) else h.unroll)(inner[-1])
    sites = [*outer, *reductions]
    if sites and choose(6):
        at = pick(choose, sites) if choose(2) else sites[max(0, len(outer) - 1)]
        layout = a_layout(s, choose, x.key[0]) if not choose(4) else None
        memory = pick(choose, ["reg", "reg", "main"])
        s.cache_write(x.key[0], at=s.state.loop_address(x.key, at), memory=memory, layout=layout)


@move("double_buffer", 2)
def filled_ring(s: Schedule, choose: Choose, k: int) -> None:
    """Slots for a copy at a loop."""
    before = set(s.state.funcs)
    staged(s, choose, k)
    s[next(n for n in s.state.funcs if n not in before)].double_buffer(2 + choose(3))


@move("double_buffer")
def drained_ring(s: Schedule, choose: Choose, k: int) -> None:
    """Slots for a tile."""
    x = a_stage(s, choose, lambda y: len(y.write_caches) < 2)
    s.cache_write(x.key[0], at=s.state.loop_address(x.key, pick(choose, x.loops).name), memory="main")
    s[x.key[0]].double_buffer(2 + choose(2))


@move("double_buffer")
def ring(s: Schedule, choose: Choose, k: int) -> None:
    s[pick(choose, s.state.funcs)].double_buffer(2 + choose(2))


@move("store_in")
def store_in(s: Schedule, choose: Choose, k: int) -> None:
    s[pick(choose, s.state.funcs)].store_in(pick(choose, ["spm", "main", "reg", "vmem"]))


@move("layout", 2)
def layout_of_a_func(s: Schedule, choose: Choose, k: int) -> None:
    name = pick(choose, [n for n, f in s.state.funcs.items() if f.compute.kind != "inline"])
    s[name].layout(a_layout(s, choose, name))


@move("layout")
def layout_of_an_input(s: Schedule, choose: Choose, k: int) -> None:
    name = pick(choose, s.pipeline.arrays).name
    s.layout(name, a_layout(s, choose, name))


@move("layout", 2)
def layout_given(s: Schedule, choose: Choose, k: int) -> None:
    """An input or output that the caller has in a layout of ours."""
    name = pick(choose, [a.name for a in s.pipeline.arrays] + [o.func.name for o in s.pipeline.outputs])
    s.layout(name, a_layout(s, choose, name), given=True)


@move("prefetch")
def prefetch(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: bool(reads(y)))
    at = s.state.loop_address(x.key, pick(choose, x.loops).name)
    s.prefetch(pick(choose, reads(x)), at=at, distance=choose(4))


@move("stream_stores")
def stream_stores(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose)
    if choose(3) and x.key[1] < 0 and x.loops[-1].mode == "serial":
        handle(s, x).vectorize(x.loops[-1].name, pick(choose, [2, 4, 8, 16]))
    s[x.key[0]].stream_stores()


# Regions --------------------------------------------------------------------------------------------------------------


def func_and_axis(s: Schedule, choose: Choose, names: Iterable[str]) -> tuple[str, str]:
    name = pick(choose, names)
    return name, pick(choose, [v.attr for v in s.state.funcs[name].func.args])


def stored(s: Schedule) -> list[str]:
    return [n for n, f in s.state.funcs.items() if f.compute.kind != "inline"]


@move("bound")
def bound(s: Schedule, choose: Choose, k: int) -> None:
    """A promise; where it is one about the sizes, the call may be refused."""
    name, axis = func_and_axis(s, choose, stored(s))
    s[name].bound(axis, choose(4) - 2, 1 + choose(12))


@move("align")
def align(s: Schedule, choose: Choose, k: int) -> None:
    name, axis = func_and_axis(s, choose, [n for n in stored(s) if n not in s.state.outputs])
    s[name].align(axis, 1 + choose(4), choose(4) - 1)


@move("pad")
def pad(s: Schedule, choose: Choose, k: int) -> None:
    name, axis = func_and_axis(s, choose, [n for n in stored(s) if n not in s.state.outputs])
    s[name].pad(axis, 1 + choose(6))

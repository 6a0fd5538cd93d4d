"""Random directives, one function a kind: what people write, legal or not, drawn by `choose(n)` (which gives 0..n-1).

Every move tries one directive (or the few that belong together) somewhere in a schedule. It raises ScheduleError where
that is refused. `MOVES` has them by kind; `attempt` tries a kind at several places, `grow` any kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Array
from tilewright.schedule.directives.kinds import KINDS
from tilewright.schedule.directives.staging import tensors_of
from tilewright.schedule.handle import Handle
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Stage

Choose = Callable[[int], int]
Move = Callable[[Schedule, Choose, int], None]
LAYOUTS = {
    1: ["a -> a", "a -> a//4 a%4", "a -> a//3 a%3", "a -> a//2 a%2"],
    2: ["a b -> b a", "a b -> b//4 a b%4", "a b -> a//2 b//4 a%2 b%4", "a b -> b a//3 a%3", "a b -> a//5 b a%5"],
    3: ["a b c -> c a b", "a b c -> b//2 a c b%2", "a b c -> a b//3 c//2 b%3 c%2"],
}
TAILS = ("guard", "shift", "round_up")
CONDITIONS = [
    "N % 2 == 0", "N >= 4", "(M % 4 == 0) & (N > 2)", "M == N", "N == 5", "contiguous(A0)", "K < 3", "stride(A0, 0) == 1",
    "K % 2 == 1", "M > N", "alpha >= 1", "contiguous(out0)", "stride(out0, 0) == 1", "N % 4 == 1",
]  # fmt: skip
MOVES: dict[str, list[Move]] = {}


def move(kind: str, weight: int = 1) -> Callable[[Move], Move]:
    """Register a move of a kind of directive; `weight` times as likely as another one of that kind."""

    def register(fn: Move) -> Move:
        MOVES.setdefault(kind, []).extend([fn] * weight)
        return fn

    return register


# Where --------------------------------------------------------------------------------------------------------------


def pick(choose: Choose, items: Iterable[Any]) -> Any:
    """One of the items. Raises ScheduleError (nothing was drawn) where there is none."""
    items = list(items)
    if not items:
        raise ScheduleError("there is nothing to choose from", code="schedule.nothing-drawn")
    return items[choose(len(items))]


def stages(s: Schedule, where: Callable[[Stage], bool] = lambda x: True) -> list[Stage]:
    """Stages with loops that are not inlined."""
    placed = {n for n, f in s.state.funcs.items() if f.compute.kind != "inline"}
    return [x for x in s.state.stages.values() if x.loops and x.key[0] in placed and where(x)]


def a_stage(s: Schedule, choose: Choose, where: Callable[[Stage], bool] = lambda x: True) -> Stage:
    return pick(choose, stages(s, where))


def handle(s: Schedule, x: Stage) -> Handle:
    return s[s.state.address(x.key)]


def now(s: Schedule, x: Stage) -> Stage:
    """A stage as later directives have left it."""
    return s.state.stages[x.key]


def a_loop(s: Schedule, choose: Choose) -> tuple[Handle, str]:
    x = a_stage(s, choose)
    return handle(s, x), pick(choose, x.loops).name


def site(s: Schedule, choose: Choose) -> str:
    x = a_stage(s, choose)
    return s.state.loop_address(x.key, pick(choose, x.loops).name)


def pure_loops(x: Stage) -> list[str]:
    return [y.name for y in x.loops if not y.reduction]


def made(s: Schedule) -> list[str]:
    """Funcs that others read."""
    return [n for n, f in s.state.funcs.items() if n not in s.state.outputs and s.state.consumers(f.func)]


def tensors(s: Schedule) -> list[str]:
    return [a.name for a in s.pipeline.arrays] + list(s.state.funcs)


def rank_of(s: Schedule, name: str) -> int:
    f = s.state.funcs.get(name)
    return f.func.rank if f is not None else next(a.ndim for a in s.pipeline.arrays if a.name == name)


def a_layout(s: Schedule, choose: Choose, name: str) -> str:
    return pick(choose, LAYOUTS.get(rank_of(s, name), []))


def materialised(s: Schedule, name: str) -> None:
    if s.state.funcs[name].compute.kind == "inline":
        s[name].compute_root()


# Loops --------------------------------------------------------------------------------------------------------------


@move("split", 2)
def split(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    outer = loop if choose(3) == 0 else f"o{k}"
    h.split(loop, outer, f"i{k}", 1 + choose(6), pick(choose, ("guard", *TAILS)))


def split_with(s: Schedule, choose: Choose, k: int, tail: str, names: Sequence[str] = ()) -> None:
    """A split with a tail, of a stage of the Funcs in `names` where there are some."""

    def fits(x: Stage) -> bool:
        name, n = x.key[0], x.key[1]
        if names and name not in names:
            return False
        if tail == "round_up":
            return len(s.state.stages_of(name)) == 1 and name not in s.state.outputs and not x.transforms
        return tail == "guard" or n < 0

    if tail == "round_up" and not stages(s, fits):
        pure = [n for n in made(s) if len(s.state.stages_of(n)) == 1 and (not names or n in names)]
        materialised(s, pick(choose, pure))
    x = a_stage(s, choose, fits)
    loop = pick(choose, x.loops if tail == "guard" else [y for y in x.loops if not y.reduction]).name
    handle(s, x).split(loop, f"o{k}", f"i{k}", 2 + choose(5), tail)


@move("split")
def split_a_reduction(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: any(z.reduction for z in y.loops))
    handle(s, x).split(pick(choose, [z.name for z in x.loops if z.reduction]), f"ro{k}", f"ri{k}", 1 + choose(6))


@move("fuse")
def fuse(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(
        s, choose, lambda y: any(a.reduction == b.reduction for a, b in zip(y.loops, y.loops[1:], strict=False))
    )
    at = pick(choose, [i for i in range(len(x.loops) - 1) if x.loops[i].reduction == x.loops[i + 1].reduction])
    handle(s, x).fuse(x.loops[at].name, x.loops[at + 1].name, f"f{k}")


@move("fuse")
def fused_and_marked(s: Schedule, choose: Choose, k: int) -> None:
    """Two adjacent pure loops as one, in vectors or threads."""
    fuse(s, choose, k)
    x = next(y for y in stages(s) if any(z.name == f"f{k}" for z in y.loops))
    (handle(s, x).parallel if choose(2) else handle(s, x).vectorize)(f"f{k}", 1 + choose(6))


@move("reorder")
def reorder(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: len(y.loops) > 1)
    names, order = [y.name for y in x.loops], []
    while names:
        order.append(names.pop(choose(len(names))))
    handle(s, x).reorder(*order[: 2 + choose(len(order) - 1)])


@move("tile")
def tile(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: len(y.loops) > 1)
    names = [y.name for y in x.loops]
    chosen = sorted({names[choose(len(names))] for _ in range(2 + choose(2))}, key=names.index)
    new = [(f"a{k}_{n}", f"b{k}_{n}", 1 + choose(5)) for n in range(len(chosen))]
    outer, inner, factors = zip(*new, strict=True)
    handle(s, x).tile(tuple(chosen), outer, inner, factors, tail=pick(choose, ("guard", *TAILS)))


@move("unroll")
def unroll(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.unroll(loop, 1 + choose(5) if choose(4) else None)


@move("vectorize")
def vectorize(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.vectorize(loop, 1 + choose(8) if choose(4) else None)


@move("vectorize", 2)
def vectors(s: Schedule, choose: Choose, k: int) -> None:
    """Vectors along the last pure loop."""
    x = a_stage(s, choose, lambda y: bool(pure_loops(y)))
    handle(s, x).vectorize(pure_loops(x)[-1], pick(choose, [2, 3, 4, 8, 5, 16, 32]))


@move("parallel")
def parallel(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.parallel(loop, 1 + choose(4) if choose(2) else None)


@move("parallel")
def outermost_parallel(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose)
    handle(s, x).parallel(x.loops[0].name)


@move("serial")
def serial(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: any(z.mode != "serial" for z in y.loops) or choose(8) == 0)
    marked = [z.name for z in x.loops if z.mode != "serial"]
    handle(s, x).serial(pick(choose, marked or [z.name for z in x.loops]))


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


def reads(x: Stage) -> dict[str, Any]:
    found = tensors_of((*x.definition.lhs, *x.definition.values))
    found.pop(x.key[0], None)
    return found


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
    x = a_stage(s, choose, lambda y: y.write_cache is None)
    layout = a_layout(s, choose, x.key[0]) if choose(4) == 0 else None
    at = s.state.loop_address(x.key, pick(choose, x.loops).name)
    s.cache_write(x.key[0], at=at, memory=pick(choose, ["main", "reg", "main"]), layout=layout)


@move("cache_write", 2)
def register_tile(s: Schedule, choose: Choose, k: int) -> None:
    """A register tile of a stage: split, reorder, unroll, vectorize, hold, at random places."""
    x = a_stage(s, choose, lambda y: y.write_cache is None and bool(pure_loops(y)))
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
    x = a_stage(s, choose, lambda y: y.write_cache is None)
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


# Regions, parts, forms ----------------------------------------------------------------------------------------------


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


@move("peel")
def peel(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.peel(loop, choose(3), choose(3))


@move("partition")
def partition(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.partition(loop, pick(choose, ["auto", "never", "never", "always"]))


@move("specialize")
def specialize(s: Schedule, choose: Choose, k: int) -> None:
    """A form of a stage; now and then one of a form, and other loops in the form or in the fallback."""
    x = a_stage(s, choose)
    form = s.specialize(s.state.address(x.key), pick(choose, CONDITIONS), f"s{k}")
    for h in (form, handle(s, x)):
        if choose(2):
            loop = pick(choose, now(s, x).loops).name
            pick(choose, [h.vectorize, h.parallel, h.unroll])(loop, 1 + choose(5))


# Reductions ---------------------------------------------------------------------------------------------------------


def a_reduction_loop(s: Schedule, choose: Choose, k: int) -> tuple[Handle, str]:
    """A reduction loop or a part of one."""
    x = a_stage(s, choose, lambda y: any(z.reduction for z in y.loops))
    h = handle(s, x)
    loop = pick(choose, [z.name for z in x.loops if z.reduction])
    if choose(3):
        h.split(loop, f"ro{k}", f"ri{k}", 1 + choose(6))
        loop = pick(choose, [f"ro{k}", f"ri{k}"])
    return h, loop


@move("rfactor")
def rfactor(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_reduction_loop(s, choose, k)
    h.rfactor(loop, f"P{k}")


@move("vectorize")
def vector_reduction(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: any(z.reduction for z in y.loops))
    handle(s, x).vectorize(pick(choose, [z.name for z in x.loops if z.reduction]), 2 + choose(7))


@move("parallel")
def parallel_reduction(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_reduction_loop(s, choose, k)
    h.parallel(loop)


@move("online")
def online(s: Schedule, choose: Choose, k: int) -> None:
    """Reductions of one box together, dependent or not."""
    names = [n for n in s.state.order if [x.key[1] for x in s.state.stages_of(n)] == [-1, 0]]
    first = pick(choose, names)
    d = s.state.stages[(first, 0)].definition
    over = pick(choose, d.rdom.ranges if d.rdom is not None else ())
    same = [n for n in names if _ranges(s, n) == _ranges(s, first)]
    chosen = [n for n in same if n == first or choose(4)]
    g = s.online(chosen, over, 1 + choose(6))
    if choose(2):
        between = [n for n in made(s) if n not in chosen and len(s.state.stages_of(n)) == 1]
        if between:
            s[pick(choose, between)].compute_at(s.state.loop_address((g.func, 0), f"{over}_b"))


def _ranges(s: Schedule, name: str) -> dict | None:
    d = s.state.stages[(name, 0)].definition
    return None if d.rdom is None else dict(d.rdom.ranges)


# Knobs and the rest -------------------------------------------------------------------------------------------------


@move("knob")
def knob(s: Schedule, choose: Choose, k: int) -> None:
    """A factor left open, and a loop that is split by it."""
    value = 1 + choose(6)
    t = s.knob(f"t{k}", value, [value, 1 + choose(6), 8] if choose(2) else None)
    if choose(8):
        x = a_stage(s, choose)
        kind, loop = choose(4), pick(choose, x.loops).name
        if kind == 0:
            handle(s, x).vectorize(loop, t)
        elif kind == 1:
            handle(s, x).parallel(loop, t)
        else:
            tail = pick(choose, ("guard", *TAILS)) if x.key[1] < 0 else "guard"
            handle(s, x).split(loop, f"o{k}", f"i{k}", t, tail)


@move("constrain")
def constrain(s: Schedule, choose: Choose, k: int) -> None:
    if not s.knobs or choose(2):
        knob(s, choose, k)
    name = pick(choose, s.knobs)
    s.constrain(pick(choose, [f"{name} <= {5 + choose(4)}", f"{name} % {1 + choose(2)} == 0", f"{name} * 2 >= 2",
                              " + ".join(s.knobs) + " <= 40"]))  # fmt: skip


@move("unscheduled")
def unscheduled(s: Schedule, choose: Choose, k: int) -> None:
    handle(s, a_stage(s, choose)).unscheduled()


# Several ------------------------------------------------------------------------------------------------------------


def tried(s: Schedule, choose: Choose, k: int, fn: Move) -> bool:
    """Whether a move was legal; what was not has left the last legal state."""
    before = (s.directives, s.state)
    try:
        fn(s, choose, k)
    except ScheduleError as e:
        assert e.code.startswith("schedule."), e
        if e.code == "schedule.nothing-drawn":
            return False
        assert s.directives[: len(before[0])] == before[0], "a refused directive has left the schedule changed"
        if len(s.directives) == len(before[0]):
            assert s.state is before[1], "a refused directive has left the state changed"
        return False
    return len(s.directives) > len(before[0])


def attempt(s: Schedule, choose: Choose, k: int, kind: str, times: int = 6) -> bool:
    """Try directives of a kind at several places. Whether one was legal."""
    return any(tried(s, choose, 100 * k + n, pick(choose, MOVES[kind])) for n in range(times))


# How often a kind is drawn among others: those that shape loops and place Funcs make the ground for all else.
_COMMON = {"split": 4, "tile": 2, "reorder": 2, "compute_at": 4, "vectorize": 3, "compute_root": 3, "cache_read": 2}
_DRAWN = [kind for kind in KINDS for _ in range(_COMMON.get(kind, 1))]


def grow(s: Schedule, choose: Choose, steps: int, first: int = 0) -> None:
    """What is legal of `steps` random directives. `first`: the number of the first one, for new names."""
    for k in range(first, first + steps):
        tried(s, choose, 100 * k, pick(choose, MOVES[pick(choose, _DRAWN)]))

"""Random schedules: directives that may or may not be legal, drawn by a function `choose(n)` that gives 0..n-1."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.lang.errors import ScheduleError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Stage

Choose = Callable[[int], int]
LAYOUTS = {1: ["a -> a", "a -> a//4 a%4"], 2: ["a b -> b a", "a b -> b//4 a b%4", "a b -> a//2 b//4 a%2 b%4"]}
TAILS = ["guard", "guard", "shift", "round_up"]


def grow(p: Pipeline, choose: Choose, steps: int, s: Schedule | None = None) -> tuple[Schedule, int]:
    """A schedule (`s` or a new one) of what was legal of `steps` random directives; the number that were refused."""
    s = Schedule(p) if s is None else s
    refused = 0
    for k in range(steps):
        before = (s.directives, s.state)
        try:
            _MOVES[choose(len(_MOVES))](s, choose, k)
        except ScheduleError as e:
            refused += 1
            assert e.code.startswith("schedule."), e
            assert (s.directives, s.state) == before
    return s, refused


def _pick(choose: Choose, items):
    items = list(items)
    return items[choose(len(items))]


def _stage(s: Schedule, choose: Choose) -> Stage:
    placed = [x for x in s.state.stages.values() if x.loops and s.state.funcs[x.key[0]].compute.kind != "inline"]
    return _pick(choose, placed or [x for x in s.state.stages.values() if x.loops])


def _loop(s: Schedule, choose: Choose):
    x = _stage(s, choose)
    return s[s.state.address(x.key)], _pick(choose, x.loops).name


def _site(s: Schedule, choose: Choose) -> str:
    x = _stage(s, choose)
    return s.state.loop_address(x.key, _pick(choose, x.loops).name)


def _func(s: Schedule, choose: Choose) -> str:
    return _pick(choose, s.state.funcs)


def split(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = _loop(s, choose)
    outer = loop if choose(3) == 0 else f"o{k}"
    h.split(loop, outer, f"i{k}", 1 + choose(5), _pick(choose, TAILS))


def fuse(s: Schedule, choose: Choose, k: int) -> None:
    x = _stage(s, choose)
    if len(x.loops) > 1:
        at = choose(len(x.loops) - 1)
        s[s.state.address(x.key)].fuse(x.loops[at].name, x.loops[at + 1].name, f"f{k}")


def reorder(s: Schedule, choose: Choose, k: int) -> None:
    x = _stage(s, choose)
    names = [y.name for y in x.loops]
    order = []
    while names:
        order.append(names.pop(choose(len(names))))
    s[s.state.address(x.key)].reorder(*order[: 1 + choose(len(order))])


def tile(s: Schedule, choose: Choose, k: int) -> None:
    x = _stage(s, choose)
    a, b = (_pick(choose, x.loops).name for _ in range(2))
    factors = (1 + choose(4), 1 + choose(4))
    s[s.state.address(x.key)].tile((a, b), (f"a{k}", f"b{k}"), (f"c{k}", f"d{k}"), factors, tail=_pick(choose, TAILS))


def mark(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = _loop(s, choose)
    kind = _pick(choose, ["unroll", "vectorize", "parallel", "spatial", "tensorize"])
    factor = 1 + choose(4) if choose(3) else None
    if kind == "spatial":
        h.spatial(loop, _pick(choose, ["x", "y"]))
    elif kind == "tensorize":
        h.tensorize(loop, "mma")
    else:
        getattr(h, kind)(loop, factor)


def serial(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = _loop(s, choose)
    h.serial(loop)


def place(s: Schedule, choose: Choose, k: int) -> None:
    name = _func(s, choose)
    kind = choose(6)
    if kind == 0:
        s[name].compute_root()
    elif kind == 1:
        s[name].compute_inline()
    else:
        s[name].compute_at(_site(s, choose))


def store(s: Schedule, choose: Choose, k: int) -> None:
    name = _func(s, choose)
    kind = choose(5)
    if kind == 4 and s.pipeline.arrays:
        a = _pick(choose, s.pipeline.arrays)
        if a.ndim in LAYOUTS:
            s.layout(a.name, _pick(choose, LAYOUTS[a.ndim]))
    elif kind == 0:
        s[name].store_root()
    elif kind == 1:
        s[name].store_in("spm")
    elif kind == 2:
        rank = s.state.funcs[name].func.rank
        if rank in LAYOUTS:
            s[name].layout(_pick(choose, LAYOUTS[rank]))
    else:
        s[name].store_at(_site(s, choose))


def cache_read(s: Schedule, choose: Choose, k: int) -> None:
    tensors = [a.name for a in s.pipeline.arrays] + list(s.state.funcs)
    t = _pick(choose, tensors)
    f = s.state.funcs.get(t)
    rank = f.func.rank if f is not None else next(a.ndim for a in s.pipeline.arrays if a.name == t)
    layout = _pick(choose, LAYOUTS[rank]) if rank in LAYOUTS and choose(2) else None
    at = _site(s, choose) if choose(4) else None
    s.cache_read(t, at=at, layout=layout, consumers=_consumers(s, choose) if choose(3) == 0 else None)


def _consumers(s: Schedule, choose: Choose) -> list[str]:
    stages = list(s.state.stages)
    return [s.state.address(_pick(choose, stages)) for _ in range(1 + choose(2))]


def clone(s: Schedule, choose: Choose, k: int) -> None:
    s.clone(_func(s, choose), _consumers(s, choose))


def cache_write(s: Schedule, choose: Choose, k: int) -> None:
    x = _stage(s, choose)
    at = s.state.loop_address(x.key, _pick(choose, x.loops).name) if choose(4) else None
    s.cache_write(x.key[0], at=at, memory=_pick(choose, ["main", "reg"]))


def prefetch(s: Schedule, choose: Choose, k: int) -> None:
    tensors = [a.name for a in s.pipeline.arrays] + list(s.state.funcs)
    s.prefetch(_pick(choose, tensors), at=_site(s, choose), distance=1 + choose(3))


def region(s: Schedule, choose: Choose, k: int) -> None:
    name = _func(s, choose)
    axis = _pick(choose, [v.attr for v in s.state.funcs[name].func.args] or ["none"])
    kind = choose(5)
    if kind == 0:
        s[name].bound(axis, choose(4) - 2, 1 + choose(9))
    elif kind < 3:
        s[name].align(axis, 1 + choose(4), choose(4) - 1)
    else:
        s[name].pad(axis, 1 + choose(5))


def online(s: Schedule, choose: Choose, k: int) -> None:
    reductions = [n for n, fs in s.state.funcs.items() if len(s.state.stages_of(n)) == 2]
    first = choose(len(reductions) or 1)
    members = reductions[first : first + 1 + choose(4)]
    rdom = s.state.stages[(members[0], 0)].definition.rdom if members else None
    over = _pick(choose, rdom.ranges) if rdom is not None and rdom.ranges else "k"
    s.online(members or ["none"], over, 1 + choose(5))


def compute_with(s: Schedule, choose: Choose, k: int) -> None:
    h, _ = _loop(s, choose)
    h.compute_with(_site(s, choose))


def parts(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = _loop(s, choose)
    if choose(3):
        h.peel(loop, choose(3), choose(3))
    else:
        h.partition(loop, _pick(choose, ["auto", "never"]))


CONDITIONS = ["N % 2 == 0", "N >= 4", "(M % 4 == 0) & (N > 2)", "M == N", "N == 5", "contiguous(A)", "K < 3"]


def specialize(s: Schedule, choose: Choose, k: int) -> None:
    x = _stage(s, choose)
    s.specialize(s.state.address(x.key), _pick(choose, CONDITIONS), f"s{k}")


def stream(s: Schedule, choose: Choose, k: int) -> None:
    s.stream_stores(_func(s, choose))


_MOVES = [
    split, split, split, fuse, reorder, reorder, tile, mark, mark, serial, place, place, place, store, cache_read,
    cache_read, clone, compute_with, cache_write, cache_write, prefetch, region, parts, specialize, stream, online,
]  # fmt: skip

"""Random directives about the loops of a stage: their shape and modes, parts, forms, reductions, knobs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.places import (
    CONDITIONS,
    TAILS,
    Choose,
    a_loop,
    a_stage,
    handle,
    made,
    materialised,
    move,
    now,
    pick,
    pure_loops,
    stages,
)
from tilewright.schedule.handle import Handle
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Stage

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


@move("spatial")
def spatial(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.spatial(loop, pick(choose, ["x", "y"]))


@move("spatial")
def an_array(s: Schedule, choose: Choose, k: int) -> None:
    """A part of each of two loops along an axis of its own."""
    x = a_stage(s, choose, lambda y: len(y.loops) > 1)
    names = [y.name for y in x.loops]
    at = choose(len(names) - 1)
    for axis, name in (("x", names[at]), ("y", names[at + 1])):
        handle(s, x).split(name, f"o{k}{axis}", f"i{k}{axis}", 1 + choose(5))
        handle(s, x).spatial(f"i{k}{axis}", axis)


@move("tensorize")
def tensorize(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    h.tensorize(loop, "mma")


@move("tensorize", 2)
def a_block(s: Schedule, choose: Choose, k: int) -> None:
    """The last loops of a reduction, parts of them, as a call of a unit."""
    x = a_stage(s, choose, lambda y: any(z.reduction for z in y.loops) and len(y.loops) > 1)
    h = handle(s, x)
    names = [y.name for y in x.loops][-2 - choose(2) :]
    for n, name in enumerate(names):
        h.split(name, f"o{k}_{n}", f"i{k}_{n}", 1 + choose(4))
    h.reorder(*(f"o{k}_{n}" for n in range(len(names))), *(f"i{k}_{n}" for n in range(len(names))))
    h.tensorize(f"i{k}_0", "mma")


@move("serial")
def serial(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: any(z.mode != "serial" for z in y.loops) or choose(8) == 0)
    marked = [z.name for z in x.loops if z.mode != "serial"]
    handle(s, x).serial(pick(choose, marked or [z.name for z in x.loops]))


# Parts and forms --------------------------------------------------------------------------------------------------------


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

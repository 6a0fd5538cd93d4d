"""Directed draws: for a kind of directive, pipelines in which it may be legal and the directives that make it so.

A recipe runs somewhere in the draw of a trial; random directives come before and after it. `STAGE_KINDS` says which
stages (of random_pipelines and special_stages) give a directive something to do.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import moves, moves_of_loops
from tests.fuzz.places import (
    CONDITIONS,
    TAILS,
    Choose,
    a_stage,
    handle,
    made,
    materialised,
    now,
    pick,
    pure_loops,
    reads,
    stages,
)
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.handle import Handle
from tilewright.schedule.schedule import Schedule

Recipe = Callable[[Schedule, Choose, int], None]
REDUCTIONS = ("reduction", "inline_sum", "independent", "exponential_pair", "complex_product", "bits", "conditions",
              "contraction", "argument", "dependent")  # fmt: skip
STAGE_KINDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "online": (("dependent",), ("attention",), ("independent",), ("pure", "dependent"), ("attention",), ("moments",)),
    "rfactor": tuple((n,) for n in REDUCTIONS),
    "compute_with": (("twins",), ("twins",), ("pyramid", "twins"), ("stencils", "twins")),
    "fold_storage": (("stencils",), ("pure", "stencils"), ("pyramid",), ("stencils", "stencils")),
    "store_at": (("stencils",), ("pyramid",), ("pure", "reduction"), ("stencils", "contraction")),
    "store_root": (("stencils",), ("pyramid",), ("pure", "pure"), ("stencils", "reduction")),
    "hoist_storage": (("stencils",), ("pure", "reduction"), ("stencils", "pyramid")),
    "clone": (("twins",), ("stencils", "twins"), ("pure", "pair", "pure"), ("reduction", "stencils")),
    "cache_write": tuple((n,) for n in (*REDUCTIONS, "pure", "scan", "inout", "several")),
    "double_buffer": (("contraction",), ("stencils",), ("reduction",), ("pure", "pure")),
    "align": (("pure", "pure"), ("stencils",), ("pyramid",)),
    "pad": (("pure", "pure"), ("stencils",), ("reduction", "pure")),
    "bound": (("pure", "pure"), ("stencils",), ("reduction", "pure")),
    "compute_inline": (("pure", "pure"), ("stencils",), ("pyramid",)),
}
RECIPES: dict[str, list[Recipe]] = {}


def recipe(kind: str) -> Callable[[Recipe], Recipe]:
    def register(fn: Recipe) -> Recipe:
        RECIPES.setdefault(kind, []).append(fn)
        return fn

    return register


def cook(s: Schedule, choose: Choose, k: int, kind: str) -> bool:
    """Try to have a legal directive of a kind, by a recipe or at random places. Whether there is one."""
    if kind in RECIPES and choose(4):
        for n in range(3):
            before = len(s.directives)
            moves.tried(s, choose, 100 * k + 10 * n + 50, pick(choose, RECIPES[kind]))
            if any(d.kind == kind for d in s.directives[before:]):
                return True
    return moves.attempt(s, choose, k, kind)


def with_tail(s: Schedule, choose: Choose, k: int, tail: str, kind: str | None = None) -> None:
    """A split with a tail somewhere, more often than not of a Func that a directive of that kind speaks of."""
    names: list[str] = []
    if kind is not None and choose(4):
        for d in s.directives:
            if d.kind == kind:
                said = (d.stage, *d.operands, *(str(v).rpartition(".")[0] for key, v in d.options if key == "at"))
                names += [n for n in s.state.funcs if any(n == w.partition(".")[0].partition("{")[0] for w in said)]
        near = [n for name in names for n in s.state.producers(name)]
        names = near if tail == "round_up" or choose(4) == 0 else names
    for n in range(3):
        place = names if n == 0 else ()
        if moves.tried(s, choose, 100 * k + n, lambda s, c, j, p=place: moves_of_loops.split_with(s, c, j, tail, p)):
            return


# Recipes ------------------------------------------------------------------------------------------------------------


@recipe("online")
def dependent_reductions(s: Schedule, choose: Choose, k: int) -> None:
    """All reductions over one box, or some, in the order of their uses; what they share in the blocks."""
    names = [n for n in s.state.order if [x.key[1] for x in s.state.stages_of(n)] == [-1, 0]]
    first = pick(choose, names)
    d = s.state.stages[(first, 0)].definition
    over = pick(choose, d.rdom.ranges if d.rdom is not None else ())
    chosen = [n for n in names if _box(s, n) == _box(s, first) and (n == first or choose(8))]
    place = None
    outputs = [x for x in stages(s) if x.key[0] not in chosen and pure_loops(x)]
    if outputs and choose(3) == 0:  # a tile of the consumer's rows at a time
        x = pick(choose, outputs)
        place = s.state.loop_address(x.key, pure_loops(x)[0])
        for n in reversed(chosen):
            if n not in s.state.outputs:
                moves.tried(s, choose, k, lambda s, c, j, n=n: _computed_at(s, n, place))
    g = s.online(chosen, over, 1 + choose(7)).func
    block = s.state.loop_address((g, 0), f"{over}_b")
    for n in made(s):
        if n not in chosen and choose(3) == 0:
            moves.tried(s, choose, k, lambda s, c, j, n=n: _computed_at(s, n, block))
    for n in chosen:
        if choose(3) == 0:
            h = s[f"{n}.update"]
            loop = pick(choose, h.loops)
            moves.tried(s, choose, k, lambda s, c, j, h=h, o=loop: _marked(h, o, c))


def _computed_at(s: Schedule, name: str, place: str | None) -> None:
    s[name].compute_at(str(place))


def _marked(h: Handle, loop: str, choose: Choose) -> None:
    (h.vectorize, h.unroll, h.parallel)[choose(3)](loop, 2 + choose(3))


def _box(s: Schedule, name: str) -> dict | None:
    d = s.state.stages[(name, 0)].definition
    return None if d.rdom is None else dict(d.rdom.ranges)


@recipe("compute_with")
def twins(s: Schedule, choose: Choose, k: int) -> None:
    """Two Funcs at the root, both split alike now and then."""
    pair = [n for n in made(s) if s.state.funcs[n].func.rank and len(s.state.stages_of(n)) == 1]
    first = pick(choose, pair)
    second = pick(choose, [n for n in pair if n != first and n not in s.state.producers(first)])
    for n in (first, second):
        materialised(s, n)
    if choose(3) == 0:
        loop, factor, tail = pick(choose, s[first].loops), 2 + choose(4), pick(choose, ["guard", "guard", "shift"])
        if loop in s[second].loops:
            for n in (first, second):
                s[n].split(loop, f"o{k}", f"i{k}", factor, tail)
    shared = [n for n in s[first].loops if n in s[second].loops]
    s[second].compute_with(f"{first}.{pick(choose, shared)}")


@recipe("fold_storage")
def line_buffer(s: Schedule, choose: Choose, k: int) -> None:
    """A window that slides along the outer loops of a consumer, in a buffer that wraps around."""
    name = pick(choose, made(s))
    x = pick(choose, [y for y in s.state.consumers(s.state.funcs[name].func) if pure_loops(y)])
    materialised(s, x.key[0])
    loop = pick(choose, pure_loops(x)[:2])
    s[name].compute_at(s.state.loop_address(x.key, loop))
    if loop != x.loops[0].name and choose(2):
        s[name].store_at(s.state.loop_address(x.key, x.loops[0].name))
    else:
        s[name].store_root()
    axes = [v.attr for v in s.state.funcs[name].func.args]
    for extent in (choose(3) + 2, 5, 8):
        if moves.tried(s, choose, k, lambda s, c, j, e=extent: _folded(s, name, pick(c, axes[:2]), e)):
            return


def _folded(s: Schedule, name: str, axis: str, extent: int) -> None:
    s[name].fold_storage(axis, extent)


@recipe("hoist_storage")
def hoisted(s: Schedule, choose: Choose, k: int) -> None:
    """A producer in the inner loops of a consumer, its buffer outside of some."""
    name = pick(choose, made(s))
    x = pick(choose, [y for y in s.state.consumers(s.state.funcs[name].func) if y.loops])
    materialised(s, x.key[0])
    depth = choose(len(x.loops))
    s[name].compute_at(s.state.loop_address(x.key, x.loops[depth].name))
    s[name].hoist_storage(s.state.loop_address(x.key, x.loops[choose(depth)].name) if depth and choose(2) else None)


@recipe("double_buffer")
def ring_of_a_copy(s: Schedule, choose: Choose, k: int) -> None:
    """A loop in parts, and a copy of what each part reads, in slots."""
    x = a_stage(s, choose, lambda y: bool(reads(y)))
    loop = pick(choose, x.loops).name
    if choose(2):
        handle(s, x).split(loop, f"o{k}", f"i{k}", 2 + choose(4))
        loop = f"o{k}"
    at = s.state.loop_address(x.key, loop)
    copy = s.cache_read(pick(choose, reads(x)), at=at, name=f"db{k}").func
    s[copy].double_buffer(2 + choose(3))


@recipe("stream_stores")
def streamed(s: Schedule, choose: Choose, k: int) -> None:
    """A Func of one definition whose last axis is in vectors."""
    names = [n for n in s.state.funcs if len(s.state.stages_of(n)) == 1 and s.state.funcs[n].func.rank]
    name = pick(choose, names)
    materialised(s, name)
    x = s.state.stages_of(name)[0]
    if x.loops and all(y.mode != "vectorize" for y in x.loops):
        handle(s, x).vectorize(x.loops[-1].name, pick(choose, [2, 4, 8]))
    s[name].stream_stores()


@recipe("specialize")
def nested_forms(s: Schedule, choose: Choose, k: int) -> None:
    """Several forms, forms of forms, each with loops of its own."""
    x = a_stage(s, choose)
    address = s.state.address(x.key)
    for n in range(1 + choose(3)):
        s.specialize(address, pick(choose, CONDITIONS), f"s{k}_{n}")
        form = f"{address}{{s{k}_{n}}}"
        if choose(2):
            moves.tried(s, choose, k, lambda s, c, j, f=form: _marked(s[f], pick(c, s[f].loops), c))
        if choose(3) == 0:
            address = form


@recipe("peel")
def peeled(s: Schedule, choose: Choose, k: int) -> None:
    """Loops outside of vectors and windows."""
    if choose(2):
        moves.tried(
            s, choose, k, pick(choose, moves.MOVES[pick(choose, ["fold_storage", "store_root", "cache_write"])])
        )
    x = a_stage(s, choose, lambda y: any(z.mode in ("serial", "parallel") for z in y.loops))
    for loop in [z.name for z in x.loops if z.mode in ("serial", "parallel")][: 1 + choose(2)]:
        handle(s, x).peel(loop, choose(3), choose(3) or 1)


@recipe("knob")
@recipe("constrain")
def tile_by_knobs(s: Schedule, choose: Choose, k: int) -> None:
    """Factors of a tile that are bound together."""
    x = a_stage(s, choose)
    values = [1 + choose(6), 1 + choose(6)]
    knobs = [s.knob(f"t{k}_{n}", v, [v, 4, 1 + choose(8)]) for n, v in enumerate(values)]
    product, total = values[0] * values[1], sum(values)
    names = [f"t{k}_0", f"t{k}_1"]
    s.constrain(pick(choose, [f"{names[0]} * {names[1]} <= {product + choose(20)}",
                              f"{names[0]} + {names[1]} <= {total + choose(4)}"]))  # fmt: skip
    for n, t in enumerate(knobs):
        tail = pick(choose, TAILS[:2] if x.key[1] < 0 else TAILS[:1])
        loops = [y for y in now(s, x).loops if y.mode == "serial" and (tail == "guard" or not y.reduction)]
        handle(s, x).split(pick(choose, loops).name, f"o{k}_{n}", f"i{k}_{n}", t, tail)


@recipe("bound")
def bound_by_the_output(s: Schedule, choose: Choose, k: int) -> None:
    """The range that an output of constant extent has, or a wide one for a Func inside."""
    known = [(o.func, axis, a.attr, b.attr) for o in s.pipeline.outputs
             for axis, (a, b) in enumerate(zip(o.starts, o.stops, strict=True)) if a.op == b.op == "const"]  # fmt: skip
    if known and choose(2):
        f, axis, start, stop = pick(choose, known)
        s[f.name].bound(f.args[axis].attr, start, stop - start)
        return
    raise ScheduleError("no output has a constant extent", code="schedule.nothing-drawn")


@recipe("compute_inline")
def inlined_again(s: Schedule, choose: Choose, k: int) -> None:
    """A Func that had a place before, and one that never had."""
    name = pick(choose, [n for n in made(s) if len(s.state.stages_of(n)) == 1])
    if choose(2):
        s[name].compute_root()
    s[name].compute_inline()


@recipe("serial")
def serial_again(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose)
    loop = pick(choose, [y.name for y in x.loops if y.mode == "serial"])
    handle(s, x).parallel(loop)
    handle(s, x).serial(loop)


@recipe("unroll")
def unrolled_part(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose)
    handle(s, x).unroll(pick(choose, [y.name for y in x.loops if y.mode == "serial"]), 2 + choose(5))

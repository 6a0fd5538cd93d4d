"""Directives that shape the loops of one stage: split, tile, fuse, reorder, unroll, vectorize, parallel, serial.

None of them changes a value. Loops keep their lineage: what was attached to a loop (a Func computed or stored there,
a tile, a prefetch) is attached to the inner loop after a split and to the fused loop after a fuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.lang.ir import Node
from tilewright.schedule import algebra
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.directives.reductions import parallel_reduction, vectorize_reduction
from tilewright.schedule.extents import surely_symbolic
from tilewright.schedule.state import (
    GUARD,
    ROUND_UP,
    SHIFT,
    Fuse,
    Loop,
    Place,
    Split,
    Stage,
    State,
    find_stage,
    refuse,
    roots_of_loops,
    versioned,
)

_BY = Option("by", "factor")
_TAIL = Option("tail", "tail", default=GUARD)


@directive("split", "loop", results=2, options=(Option("by", "factor", required=True), _TAIL))
def split(state: State, d: Directive) -> State:
    """One loop becomes two: `split i -> io, ii by 8`.

        for i in 0..N          for io in 0..(N + 7) // 8
          ...             =>     for ii in 0..min(8, N - 8*io)
                                   ...

    Where the factor need not divide the extent, the tail says what happens. `guard`: points outside are not executed.
    `shift`: the last tile moves back and computes some points again; only for loops of a pure definition.
    `round_up`: the region grows to whole tiles; only for the first split of a variable of a Func without updates that
    is no output. One of the new names may be the old one.
    Errors: schedule.name-twice, schedule.factor, schedule.tail, schedule.loop-mode.
    """
    s = find_stage(state, d.stage)
    outer, inner = d.results
    return split_loop(state, s, d.operands[0], outer, inner, _int(d, "by"), _text(d, "tail", GUARD))


@directive("tile", "loop", operands=-1, results=-1, options=(Option("by", "factors", required=True), _TAIL))
def tile(state: State, d: Directive) -> State:
    """Splits of several loops, then the outer ones outside the inner ones: `tile i, j -> io, jo, ii, ji by 8, 16`.

        for i                  for io
          for j           =>     for jo
            ...                    for ii
                                     for ji

    The new names are all outer loops, then all inner loops. Errors: those of split and reorder, schedule.arity.
    """
    n = len(d.operands)
    factors = d.option("by")
    assert isinstance(factors, tuple)
    if len(d.results) != 2 * n or len(factors) != n:
        raise refuse(
            f"tile of {n} loops is given {len(d.results)} new names and {len(factors)} factors", "arity",
            f"give {n} outer names, {n} inner names and {n} factors",
        )  # fmt: skip
    _require_distinct(d.operands)
    outers, inners = d.results[:n], d.results[n:]
    for loop, outer, inner, factor in zip(d.operands, outers, inners, factors, strict=True):
        assert isinstance(factor, int)
        s = find_stage(state, d.stage)
        state = split_loop(state, s, loop, outer, inner, factor, _text(d, "tail", GUARD))
    return reorder_loops(state, find_stage(state, d.stage), (*outers, *inners))


@directive("fuse", "loop", operands=2, results=1)
def fuse(state: State, d: Directive) -> State:
    """Two loops, one right inside the other, become one: `fuse io, jo -> t`. The order of points stays.

        for io in 0..I
          for jo in 0..J  =>   for t in 0..I*J
            ...                  ...

    Errors: schedule.not-adjacent, schedule.fuse-mixed (a reduction loop with a pure one), schedule.loop-mode,
    schedule.name-twice.
    """
    s = find_stage(state, d.stage)
    outer, inner = (s.loop(n) for n in d.operands)
    (fused,) = d.results
    names = [x.name for x in s.loops]
    k = names.index(outer.name)
    if outer is inner or names[k + 1 : k + 2] != [inner.name]:
        raise refuse(
            f"{inner.name} does not stand right inside {outer.name}: the loops of {d.stage} are {', '.join(names)}",
            "not-adjacent", "reorder them first, or give them outermost first",
        )  # fmt: skip
    if outer.reduction != inner.reduction:
        r = outer if outer.reduction else inner
        raise refuse(f"{outer.name} and {inner.name} can't be fused: only {r.name} is a reduction loop", "fuse-mixed",
                     "fuse pure loops with pure ones, reduction loops with reduction loops")  # fmt: skip
    for x in (outer, inner):
        require_serial(d.stage, x, "fused")
    check_new_names(state, s, (fused,), (outer.name, inner.name))
    loops = (*s.loops[:k], Loop(fused, outer.reduction), *s.loops[k + 2 :])
    made = replace(s, loops=loops, transforms=(*s.transforms, Fuse(outer.name, inner.name, fused)), scheduled=True)
    return moved(state, made, {outer.name: fused, inner.name: fused})


@directive("reorder", "loop", operands=-1)
def reorder(state: State, d: Directive) -> State:
    """The named loops, outermost first; they share out the positions that they occupy, others keep their place.

        for i                  for j
          for j           =>     for i            (reorder j i)
            ...                    ...

    Pure loops move freely, and so do reduction loops each of whose iterations updates elements of its own and reads no
    others of the Func. The others change places among each other only where the reduction is associative and
    commutative. Errors: schedule.name-twice, schedule.reduction-order.
    """
    return reorder_loops(state, find_stage(state, d.stage), d.operands)


@directive("unroll", "loop", options=(_BY,))
def unroll(state: State, d: Directive) -> State:
    """The body once an iteration instead of a loop. `unroll i by 4` splits `i` first: the inner loop is `i_u`.

        for i unrolled in 0..3   =>   (i = 0) ... (i = 1) ... (i = 2) ...

    The extent must be a constant, which is checked at once where that is possible, else by check() and compile. So is
    the budget: more than 4096 stores of one nest after unrolling are refused.
    Errors: schedule.extent, schedule.unroll-budget, those of split.
    """
    state, loop = _split_first(state, d, "u", inner=True)
    s = find_stage(state, d.stage)
    _require_constant(state, s, loop, "unrolled")
    require_serial(d.stage, s.loop(loop), "unrolled", allowed=("unroll",))
    return state.with_stage(replace(s.with_loop(loop, mode="unroll"), scheduled=True))


@directive("vectorize", "loop", options=(_BY,))
def vectorize(state: State, d: Directive) -> State:
    """All iterations at once, in a vector. `vectorize j by 8` splits `j` first: the inner loop is `j_v`.

        for j in 0..N            for j in 0..(N + 7) // 8
          ...             =>       for j_v in 0..min(8, ...) vectorize
                                     ...

    The extent must be a constant. One vector loop a stage, nothing may be computed inside it. A reduction loop each of
    whose iterations updates elements of its own and reads no others of the Func (while the loops around it stand
    still) is like a pure one; any other needs an associative reduction, which then has one partial result a lane.
    Errors: schedule.vector-twice, schedule.vector-inside, schedule.extent, schedule.not-associative, those of split.
    """
    state, loop = _split_first(state, d, "v", inner=True)
    s = find_stage(state, d.stage)
    if s.loop(loop).reduction and not in_any_order(s, loop, here=True):
        return vectorize_reduction(state, s, loop)
    return make_vector(state, s, loop)


@directive("parallel", "loop", options=(_BY,))
def parallel(state: State, d: Directive) -> State:
    """Iterations run on several threads. `parallel i by 4` splits `i` first and runs the outer loop in parallel:
    it keeps the name, the inner loop is `i_p`.

        for i in 0..N     =>   for i in 0..N parallel

    A reduction loop each of whose iterations updates elements of its own and reads no others of the Func (while the
    loops around it stand still) is like a pure one; any other needs an associative reduction, which then has one
    partial result a task. Of parallel loops inside each other one is shared out, by their numbers of iterations at the
    call: the outer one, unless it has few.
    Errors: schedule.not-associative, schedule.store-race where something is stored outside and computed inside,
    schedule.tile-race, schedule.vector-inside.
    """
    state, loop = _split_first(state, d, "p", inner=False)
    s = find_stage(state, d.stage)
    if s.loop(loop).reduction and not in_any_order(s, loop, here=True):
        return parallel_reduction(state, s, loop)
    return make_parallel(state, s, loop)


@directive("serial", "loop")
def serial(state: State, d: Directive) -> State:
    """An ordinary loop again, after unroll, vectorize, parallel, spatial or tensorize."""
    s = find_stage(state, d.stage)
    return state.with_stage(replace(s.with_loop(d.operands[0], mode="serial", axis="", unit=""), scheduled=True))


# What the directives are made of --------------------------------------------------------------------------------


def _int(d: Directive, key: str) -> int:
    value = d.option(key)
    assert isinstance(value, int)
    return value


def _text(d: Directive, key: str, default: str) -> str:
    return str(d.option(key, default))


def in_any_order(s: Stage, loop: str, here: bool = False) -> bool:
    """Whether the iterations of a loop over (parts of) reduction variables depend on no others of the same loop.

    With `here`, while the loops around it stand still: it may then run at once, but not move outside of them.
    """
    unique, _ = versioned(s)
    over = roots_of_loops(unique)
    names, depth = [x.name for x in unique.loops], s.depth(loop)
    moving = frozenset[Node]().union(*(over[n] for n in names[depth:]))
    held = frozenset(r for r in unique.roots if r.op == "rvar" and r not in moving) if here else frozenset()
    return all(r.op == "var" or algebra.free(s.definition, r, held) for r in over[names[depth]])


def check_order(state: State) -> None:
    """Raise ScheduleError where a reduction loop runs at once that depends on itself where it stands now."""
    for s in state.stages.values():
        if state.funcs[s.key[0]].origin == "rfactor" and s.key[1] > 0:
            continue  # partial results that meet: each half is apart from the other
        for x in s.loops:
            if x.reduction and x.mode in ("vectorize", "parallel") and not in_any_order(s, x.name, here=True):
                raise refuse(
                    f"iterations of {state.loop_address(s.key, x.name)} can't run at once: where the loop stands now "
                    f"they depend on each other{algebra.conflict(s.definition)}", "reduction-order",
                    f"keep the loops outside of {x.name} that stood there when it was written", s.definition.location,
                )  # fmt: skip


def check_new_names(state: State, s: Stage, names: tuple[str, ...], reused: tuple[str, ...] = ()) -> None:
    """New loops have names that the stage has not used before; those in `reused` go away and may return."""
    used = {x.name for x in s.loops} - set(reused)
    for t in s.transforms:
        used |= ({t.parent, t.outer, t.inner} if isinstance(t, Split) else {t.outer, t.inner, t.fused}) - set(reused)
    for k, n in enumerate(names):
        if n in used or n in names[:k]:
            raise refuse(
                f"{state.address(s.key)} has a loop {n} already" if n not in names[:k] else f"{n} is named twice",
                "name-twice", f"names in use: {', '.join(sorted(used))}",
            )  # fmt: skip


def moved(state: State, s: Stage, names: Mapping[str, str]) -> State:
    """`state` with the stage `s` in it, and what was attached to its loops moved along (old name -> new name)."""
    s = replace(s, write_caches=tuple(replace(c, loop=names.get(c.loop or "", c.loop)) for c in s.write_caches))
    s = replace(s, prefetches=tuple(replace(p, loop=names.get(p.loop, p.loop)) for p in s.prefetches))
    state = state.with_stage(s)

    def place(p: Place | None) -> Place | None:
        if p is None or p.stage != s.key or p.loop is None or p.loop not in names:
            return p
        return Place("at", p.stage, names[p.loop])

    for fs in list(state.funcs.values()):
        compute, store = place(fs.compute), place(fs.store)
        if compute is not fs.compute or store is not fs.store:
            assert compute is not None
            state = state.with_func(replace(fs, compute=compute, store=store))
    return state


def split_loop(state: State, s: Stage, loop: str, outer: str, inner: str, factor: int, tail: str = GUARD) -> State:
    """The state after a split; see `split` for what is legal."""
    address = state.address(s.key)
    x = s.loop(loop)
    require_serial(address, x, "split")
    check_new_names(state, s, (outer, inner), (loop,))
    _check_tail(state, s, x, tail)
    _check_reach(s, loop, factor)
    k = s.depth(loop)
    loops = (*s.loops[:k], Loop(outer, x.reduction), Loop(inner, x.reduction), *s.loops[k + 1 :])
    step = Split(loop, outer, inner, factor, tail)
    return moved(state, replace(s, loops=loops, transforms=(*s.transforms, step), scheduled=True), {loop: inner})


def _check_reach(s: Stage, loop: str, factor: int) -> None:
    """Indices are 64 bits wide: the steps of nested splits multiply, unless it is within one step that is split again."""
    reach, name = factor, loop
    for t in reversed(s.transforms):
        if isinstance(t, Split) and name in (t.outer, t.inner):
            reach, name = reach * t.factor if name == t.outer else max(reach, t.factor), t.parent
    if reach > _FARTHEST:
        raise refuse(f"the factors of nested splits of {name} multiply to {reach}", "factor",
                     f"together they may be at most {_FARTHEST}")  # fmt: skip


_FARTHEST = 1 << 40
_MOST_LANES = 1024


def _check_tail(state: State, s: Stage, x: Loop, tail: str) -> None:
    name = s.key[0]
    if tail == SHIFT and (s.key[1] >= 0 or x.reduction):
        raise refuse(f"tail shift computes points again, which {state.address(s.key)} is not made for: it is an update",
                     "tail", "use tail guard (the default)")  # fmt: skip
    if tail == ROUND_UP:
        if len(s.key) > 2 or s.branches:
            raise refuse(f"tail round_up changes the region, which all forms of {name} share", "tail", "use guard")
        if len(state.stages_of(name)) > 1 or s.key[1] >= 0 or name in state.outputs:
            what = "an output" if name in state.outputs else "a Func with updates"
            raise refuse(f"tail round_up computes more than {name} needs, and it is {what}", "tail",
                         "use tail guard (the default), or shift on a pure definition")  # fmt: skip
        if any(x.name in (t.outer, t.inner) if isinstance(t, Split) else x.name == t.fused for t in s.transforms):
            raise refuse(f"tail round_up is for the first split of a variable, and {x.name} comes from another", "tail",
                         "use tail guard, or round up the first split")  # fmt: skip


def require_serial(address: str, x: Loop, what: str, allowed: tuple[str, ...] = ()) -> None:
    """Refuse to shape or run a loop in another way than it already is."""
    if what != "parallel" and (any(x.peel) or x.part != "auto"):
        word = "peeled" if any(x.peel) else "parted"
        raise refuse(f"{address}.{x.name} is {word} already and can't be {what}", "loop-mode", "write that first")
    if x.unit and what != "tensorized":
        raise refuse(f"{address}.{x.name} is done by {x.unit} already and can't be {what}", "loop-mode",
                     f"write that first, or make it an ordinary loop again: serial({x.name!r})")  # fmt: skip
    if x.mode != "serial" and x.mode not in allowed:
        word = {"vectorize": "vectorized", "unroll": "unrolled"}.get(x.mode, x.mode)
        raise refuse(f"{address}.{x.name} is {word} already and can't be {what}", "loop-mode",
                     f"write that first, or make it serial again: serial({x.name!r})")  # fmt: skip


def reorder_loops(state: State, s: Stage, names: tuple[str, ...]) -> State:
    """The state after a reorder; see `reorder` for what is legal."""
    _require_distinct(names)
    order: Iterator[str] = iter(names)
    loops = tuple(s.loop(next(order)) if x.name in names else x for x in s.loops)
    ordered = {x.name for x in s.loops if x.reduction and not in_any_order(s, x.name)}
    before, after = [x.name for x in s.loops if x.name in ordered], [x.name for x in loops if x.name in ordered]
    state = state.with_stage(replace(s, loops=loops, scheduled=True))
    return state if before == after else _reassociated(state, s, before)


def _require_distinct(names: tuple[str, ...]) -> None:
    for k, n in enumerate(names):
        if n in names[:k]:
            raise refuse(f"{n} is named twice", "name-twice", "name every loop once")


def _reassociated(state: State, s: Stage, order: list[str]) -> State:
    """`state` with the mark that reduction loops of `s` (which were in `order`) have changed places, if they may."""
    address = state.address(s.key)
    found = algebra.match(s.definition)
    if found is None or found.ordered:
        why = "is not known to be associative and commutative" if found is None else "takes the first of equal values"
        raise refuse(
            f"the reduction loops of {address} must keep their order ({', '.join(order)}): its update {why}"
            f"{algebra.conflict(s.definition)}", "reduction-order",
            "move pure loops between them instead, or loops whose iterations update elements of their own and read no "
            "others", s.definition.location,
        )  # fmt: skip
    if found.exact:
        return state
    return replace(state, reassociations=(*state.reassociations, f"{address} reorder"))


def _split_first(state: State, d: Directive, suffix: str, inner: bool) -> tuple[State, str]:
    """Carry out the `by` of unroll, vectorize and parallel; the loop that is meant afterwards."""
    (loop,) = d.operands
    if d.option("by") is None:
        return state, loop
    new = f"{loop}_{suffix}"
    state = split_loop(state, find_stage(state, d.stage), loop, loop, new, _int(d, "by"))
    return state, new if inner else loop


def attached(state: State, s: Stage, loop: str) -> list[str]:
    """Names of what is computed, stored or held at `loop` or further in."""
    inside = {x.name for x in s.loops[s.depth(loop) :]}
    found = [
        fs.func.name
        for fs in state.funcs.values()
        for p in (fs.compute, fs.store)
        if p is not None and p.kind == "at" and p.stage == s.key and p.loop in inside
    ]
    found += [c.name for c in s.tiles if c.loop in inside]
    return list(dict.fromkeys(found))


def make_vector(state: State, s: Stage, loop: str) -> State:
    """The state in which a loop is the vector loop of its stage."""
    address = state.address(s.key)
    x = s.loop(loop)
    require_serial(address, x, "vectorized", allowed=("vectorize",))
    other = next((y.name for y in s.loops if y.mode == "vectorize" and y is not x), None)
    if other is not None:
        raise refuse(f"{address} has a vector loop already: {other}", "vector-twice",
                     f"make it serial first: serial({other!r})")  # fmt: skip
    inside = attached(state, s, loop)
    if inside:
        raise refuse(f"{', '.join(inside)} would stand inside the vector loop {address}.{loop}", "vector-inside",
                     "compute it further out, or split the loop and vectorize the part inside")  # fmt: skip
    apart = next((y for y in s.loops[s.depth(loop) :] if y.mode in ("parallel", "spatial")), None)
    if apart is not None:
        raise refuse(f"the {apart.mode} loop {apart.name} stands inside {address}.{loop}", "vector-inside",
                     f"reorder: {apart.mode} loops stand outside vector loops")  # fmt: skip
    _require_constant(state, s, loop, "vectorized")
    made = next((t for t in reversed(s.transforms) if isinstance(t, Split) and loop in (t.outer, t.inner)), None)
    if made is not None and made.inner == loop and made.factor > _MOST_LANES:
        raise refuse(f"a vector of {made.factor} lanes in {address}.{loop}", "vector-length",
                     f"at most {_MOST_LANES} lanes: split the loop and vectorize the part inside")  # fmt: skip
    return state.with_stage(replace(s.with_loop(loop, mode="vectorize"), scheduled=True))


def make_parallel(state: State, s: Stage, loop: str) -> State:
    """The state in which the iterations of a loop run on several threads."""
    address = state.address(s.key)
    x = s.loop(loop)
    require_serial(address, x, "parallel", allowed=("parallel",))
    depth = s.depth(loop)
    if any(y.mode == "vectorize" for y in s.loops[:depth]):
        raise refuse(f"{address}.{loop} stands inside a vector loop", "vector-inside",
                     "reorder: parallel loops stand outside vector loops")  # fmt: skip
    cache = next((c for c in s.tiles if c.memory == "reg" and s.depth(c.loop) < depth), None)
    if cache is not None:
        raise refuse(f"{address}.{loop} stands inside {cache.loop or address}, whose tile {cache.name} is in registers",
                     "tile-race", "run a loop further out in parallel, or keep the tile in main")  # fmt: skip
    return state.with_stage(replace(s.with_loop(loop, mode="parallel"), scheduled=True))


def _require_constant(state: State, s: Stage, loop: str, what: str) -> None:
    """Refuse at once where the extent can't become a constant any more."""
    if surely_symbolic(state, s, loop):
        verb = {"vectorized": "vectorize", "unrolled": "unroll"}[what]
        raise refuse(
            f"{state.loop_address(s.key, loop)} can't be {what}: its extent is known only at the call", "extent",
            f"split it first: {verb}({loop!r}, 8) does both",
        )  # fmt: skip

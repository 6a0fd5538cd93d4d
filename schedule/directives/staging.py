"""Directives about buffers: staged copies of what is read, tiles of what is written, memories, layouts, prefetches."""

from __future__ import annotations

from dataclasses import replace

from tilewright.lang import ir
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.tensors import Array, Tensor
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.layout import IndexMap, parse_index_map
from tilewright.schedule.state import (
    ROOT,
    FuncState,
    Place,
    PrefetchMark,
    Stage,
    State,
    WriteCache,
    find_func,
    find_loop,
    find_stage,
    make_stage,
    refuse,
    with_loops_of_ours,
)

_AT = Option("at", "loop", required=True)
_LAYOUT = Option("layout", "layout")  # the last one: it runs to the end of the line
_NAME = Option("name", "name")


@directive(
    "cache_read", "tensor",
    options=(Option("at", "loop"), Option("in", "memory", default="main"), Option("for", "stages"), _NAME, _LAYOUT),
)  # fmt: skip
def cache_read(state: State, d: Directive) -> State:
    """A copy of what one iteration of a loop reads of a tensor: `cache_read B at C.update.jo`.

        for jo                             for jo
          for k                     =>       B_C[k, j] = B[k, j] over what the loops inside read
            C[i, j] += A[i, k] * B[k, j]     for k
                                               C[i, j] += A[i, k] * B_C[k, j]

    It is for the stage that the loop belongs to. With `for C.update D` it is for the stages that are named, all of them
    inside that loop, and for no others. Without `at` the copy is made once, at the root, for the stages that are named
    or for all that read the tensor.

    The copy is a Func of its own (`name`, by default `{tensor}_{Func}`) and can be scheduled as such, its loops having
    the names of the index map; a Func that is inlined is computed into it. Errors: schedule.not-read,
    schedule.inlined, schedule.illegal-place (a vector loop, a consumer outside of the loop), schedule.layout,
    schedule.name-twice.
    """
    at, place = d.option("at"), ROOT
    owner: Stage | None = None
    if at is not None:
        owner, loop = find_loop(state, str(at))
        if state.funcs[owner.key[0]].compute.kind == "inline":
            raise refuse(f"{owner.key[0]} is inlined and has no loop to stage anything at", "inlined",
                         "compute it somewhere first")  # fmt: skip
        place = Place("at", owner.key, loop)
    readers = _readers(state, d, owner)
    source = _read_by(state, readers[0], d.operands[0])
    for s in readers[1:]:
        _read_by(state, s, d.operands[0])
    rank = source.ndim if isinstance(source, Array) else source.rank
    name = new_name(state, d, f"{source.name}_{(owner or readers[0]).key[0]}")
    layout = _layout(d, rank, source.name)
    copy = _copy_of(source, name, rank, layout)
    for s in readers:
        state = state.with_stage(replace(s, definition=reading(s.definition, source, copy)))
    if owner is not None:
        state = state.with_stage(replace(state.stages[owner.key], scheduled=True))
    memory = str(d.option("in", "main"))
    made = FuncState(copy, place, None, memory, layout, "cache_read", placed=True)
    assert copy.init is not None
    if not state.consumers(copy):
        _refuse_condition(state, readers[0], source.name)
    return state.with_func(made).with_stage(make_stage(copy.init))


def _readers(state: State, d: Directive, owner: Stage | None) -> list[Stage]:
    """The stages that a copy is for."""
    named = d.option("for")
    if named is not None:
        return [find_stage(state, str(a)) for a in (named if isinstance(named, tuple) else (named,))]
    if owner is not None:
        return [owner]
    name = d.operands[0]
    found = [
        s for s in state.stages.values()
        if s.key[0] != name and name in tensors_of((*s.definition.lhs, *s.definition.values))
    ]  # fmt: skip
    if not found:
        for s in state.stages.values():
            _refuse_condition(state, s, name)
        raise refuse(f"nothing reads {name}", "not-read", "name an array or a Func that a stage reads")
    return found


def _refuse_condition(state: State, s: Stage, name: str) -> None:
    """Raise ScheduleError if a stage reads the tensor `name` in its where() only, for the original is read there."""
    if name in tensors_of(s.definition.predicates):
        raise refuse(f"{state.address(s.key)} reads {name} only in its where(), which is not staged", "not-read",
                     f"stage {name} for stages whose values read it; a where() reads the original")  # fmt: skip


@directive(
    "cache_write", "func",
    options=(Option("at", "loop"), Option("in", "memory", default="reg", shown=True), _NAME, _LAYOUT),
)  # fmt: skip
def cache_write(state: State, d: Directive) -> State:
    """A tile that holds what one iteration of a loop writes of the Func: `cache_write C at C.update.io in reg`.

        for io                              for io
          for k                      =>       C_tile = first values (or C, where k has begun)
            for ii: C[io*8+ii] += ...         for k
                                                for ii: C_tile[..] += ...
                                              C = C_tile

    The loop belongs to a stage of the Func itself. Without `at` the tile is all that is computed of the Func at its
    place: its only stage, or its only update, runs in that memory as a whole. A stage may have tiles within tiles,
    at one loop in different memories (the later one is inside): each is loaded from and stored to the next one
    further out, and the first values are computed into the innermost. Memory is `reg` where nothing is said.
    Nothing else runs while a tile lives, so there are no consumers to choose from: what reads the Func reads what
    was stored. To let some read the values where they were computed and others a copy, keep the Func itself in that
    memory and copy it for the others: `store_in C in spm`, `cache_read C at E.i for E`. To let one read a tile
    while it lives, compute the Func (or a clone for that consumer) at its loop.
    Errors: schedule.foreign-loop, schedule.tile-twice, schedule.vector-inside, schedule.tile-race, schedule.layout,
    schedule.ambiguous-stage (several updates, and no loop is named), schedule.stage-loops.
    """
    fs = find_func(state, d.operands[0])
    at = d.option("at")
    s, loop = (_whole(state, fs), None) if at is None else find_loop(state, str(at))
    name, address = fs.func.name, state.loop_address(s.key, loop)
    if s.key[0] != name:
        own = ", ".join(state.loop_address(k.key, x.name) for k in state.stages_of(name) for x in k.loops)
        raise refuse(f"{address} is no loop of {name}", "foreign-loop", f"its loops: {own}")
    if fs.compute.kind == "inline":
        raise refuse(f"{name} is inlined and has no loops", "inlined", "compute it somewhere first")
    memory = str(d.option("in", "reg"))
    twice = next((c for c in s.write_caches if c.loop == loop and c.memory == memory), None)
    if twice is not None:
        where = "" if loop is None else f" at {loop}"
        raise refuse(f"{state.address(s.key)} has the tile {twice.name}{where} already, in {memory} too", "tile-twice",
                     "tiles in one memory are held at different loops")  # fmt: skip
    depth = s.depth(loop)
    vector = next((x.name for x in s.loops[: depth + 1] if x.mode == "vectorize"), None)
    if vector is not None:
        raise refuse(f"a tile at {address} would stand inside the vector loop {vector}", "vector-inside",
                     "hold it at a loop further out")  # fmt: skip
    threads = next((x.name for x in s.loops[depth + 1 :] if x.mode == "parallel"), None)
    if memory == "reg" and threads is not None:
        raise refuse(f"the parallel loop {threads} stands inside {address}: its threads can't share registers",
                     "tile-race", "hold the tile at a loop inside it, or in main")  # fmt: skip
    cache = WriteCache(loop, new_name(state, d, f"{name}_tile"), memory, _layout(d, fs.func.rank, name), d.location)
    return state.with_stage(replace(s, write_caches=(*s.write_caches, cache), scheduled=True))


def _whole(state: State, fs: FuncState) -> Stage:
    """The stage that computes all of a Func: its only one, or its only update."""
    name = fs.func.name
    stages = state.stages_of(name)
    updates = [s for s in stages if s.key[1] >= 0]
    if len(updates) > 1:
        raise refuse(
            f"{name} has several updates, and a tile of all of it belongs to one", "ambiguous-stage",
            "hold tiles at loops: " + ", ".join(state.loop_address(s.key, x.name) for s in updates for x in s.loops[:1]),
        )  # fmt: skip
    return with_loops_of_ours(state, (updates or stages)[0])


@directive("store_in", "func", options=(Option("in", "memory", required=True),))
def store_in(state: State, d: Directive) -> State:
    """The memory that a Func's buffer lives in: `store_in P in spm`.

    An output is then copied to its array at the end. Errors: schedule.inlined, schedule.inout-storage, schedule.memory.
    """
    fs = _with_storage(state, d.operands[0])
    return state.with_func(replace(fs, memory=str(d.option("in")), placed=True))


@directive("layout", "tensor", options=(Option("given", "flag"), Option("layout", "layout", required=True)))
def layout(state: State, d: Directive) -> State:
    """How a Func's elements lie in its buffer: `layout P layout i j -> j i` (column-major).

    An output is computed in a buffer of that layout and copied to its array at the end. An input is copied at the root,
    for all that read it, to a Func `{input}_packed` of that layout, which can be scheduled as such.

    With `given`, an input or output is in that layout already where the caller has it: `layout B given layout k j ->
    j//16 k j%16` makes the kernel take an array of the shape [(N + 15)//16, K, 16]. Elements that only fill up blocks
    are neither read nor written. Numerics: none.
    Errors: schedule.layout (wrong number of axes, not one-to-one), schedule.layout-given (no argument, or said twice),
    schedule.inlined, schedule.inout-storage, schedule.not-read.
    """
    name = d.operands[0]
    array = next((a for a in (*state.pipeline.arrays, *state.pipeline.tables) if a.name == name), None)
    inputs = {q.name for q in state.pipeline.params if isinstance(q, Array)}
    if d.option("given"):
        return _given(state, d, array if name in inputs else None)
    if array is not None and name not in state.funcs:
        if f"{name}_packed" in state.funcs:
            raise refuse(f"{name} is converted to another layout already", "layout-given",
                         f"the copy is {name}_packed: s.cache_read stages parts of it")  # fmt: skip
        found = new_name(state, replace(d, options=()), f"{name}_packed")
        options = (("name", found), ("layout", str(d.option("layout"))))
        return cache_read(state, Directive("cache_read", operands=(name,), options=options, location=d.location))
    fs = _with_storage(state, name)
    if name in state.given:
        raise refuse(f"{name} is given in the layout {state.given[name]}", "layout-given", "leave one out")
    return state.with_func(replace(fs, layout=_layout(d, fs.func.rank, fs.func.name), placed=True))


def _given(state: State, d: Directive, array: Array | None) -> State:
    name = d.operands[0]
    if array is not None:
        rank = array.ndim
    else:
        fs = _with_storage(state, name)
        rank = fs.func.rank
        if name not in state.outputs:
            raise refuse(f"{name} is no argument of the kernel, nobody gives it", "layout-given",
                         f"its buffer is ours: s[{name!r}].layout(...)")  # fmt: skip
        if fs.layout is not None:
            raise refuse(f"{name} is computed in a buffer of the layout {fs.layout}", "layout-given", "leave one out")
    if name in state.given:
        raise refuse(f"{name} is given in the layout {state.given[name]} already", "layout-given", "say it once")
    made = _layout(d, rank, name)
    assert made is not None
    return replace(state, given={**state.given, name: made})


@directive("prefetch", "tensor", options=(_AT, Option("offset", "count", default=1)))
def prefetch(state: State, d: Directive) -> State:
    """Touch what a tensor is needed for some iterations of a loop later: `prefetch A at C.update.k offset 4`.

    What is computed inside that loop counts too. Past the loop's end it goes on in memory: to the next row. A Func in
    whose loops this one stands and that isn't read is fetched to be written: of the row that is made around, every
    iteration touches its share (`prefetch Y at E.j offset 0`, E being computed at Y.i).
    A hint to the caches; values don't depend on it. Errors: schedule.not-read, schedule.prefetch-twice.
    """
    s, loop = find_loop(state, str(d.option("at")))
    tensor = _touched(state, s, loop, d.operands[0])
    if any(m.tensor == tensor.name and m.loop == loop for m in s.prefetches):
        raise refuse(f"{tensor.name} is prefetched at {state.loop_address(s.key, loop)} already", "prefetch-twice",
                     "say it once a loop, with the offset that is wanted")  # fmt: skip
    vector = next((x.name for x in s.loops[: s.depth(loop) + 1] if x.mode == "vectorize"), None)
    if vector is not None:
        raise refuse(f"a prefetch would stand inside the vector loop {vector}", "vector-inside", "put it further out")
    distance = d.option("offset", 1)
    assert isinstance(distance, int)
    marks = (*s.prefetches, PrefetchMark(tensor.name, loop, distance))
    return state.with_stage(replace(s, prefetches=marks, scheduled=True))


# What they are made of ------------------------------------------------------------------------------------------


def tensors_of(roots: tuple[Node, ...]) -> dict[str, Tensor]:
    """What expressions load from, by name."""
    return {n.attr[0].name: n.attr[0] for n in ir.leaves(roots, "load")}


def _read_by(state: State, s: Stage, name: str) -> Array | Func:
    """The tensor `name` that a stage itself reads."""
    found = tensors_of((*s.definition.lhs, *s.definition.values))
    t = found.pop(name, None)
    found.pop(s.key[0], None)
    if isinstance(t, (Array, Func)) and t is not s.definition.func:
        return t
    if t is None:
        _refuse_condition(state, s, name)
    address = state.address(s.key)
    own = [(n, f) for n, f in found.items() if isinstance(f, Func) and n in state.funcs]
    deeper = [n for n, f in own if name in _reaching(state, f)]
    hint = f"it reads {', '.join(found)}" if found else "it reads nothing"
    if deeper:
        hint = f"{', '.join(deeper)} reads it and is inlined here: stage that one, or compute it at the loop"
    why = "is what it updates: cache_write holds that" if t is s.definition.func else f"is not read by {address}"
    raise refuse(f"{name} {why}", "not-read", hint)


def _reaching(state: State, f: Func) -> dict[str, Tensor]:
    """All that an inlined Func reads, through other inlined ones too."""
    out: dict[str, Tensor] = {}
    todo, seen = [f], {f.name}
    while todo:
        g = todo.pop()
        if state.funcs[g.name].compute.kind != "inline":
            continue
        for s in state.stages_of(g.name):
            for n, t in tensors_of(s.definition.roots).items():
                out[n] = t
                if isinstance(t, Func) and n in state.funcs and n not in seen:
                    seen.add(n)
                    todo.append(t)
    return out


def _inside(state: State, s: Stage, loop: str) -> list[Stage]:
    """A stage and all that is computed in one iteration of one of its loops."""
    out, depth = [s], s.depth(loop)
    for at in out:  # it grows on the way
        for fs in state.funcs.values():
            place = fs.compute
            if place.kind == "at" and place.stage == at.key and (at is not s or s.depth(str(place.loop)) >= depth):
                out.extend(state.stages_of(fs.func.name))
    return out


def _read_inside(state: State, s: Stage, loop: str, name: str) -> Tensor:
    """The tensor `name` that one iteration of a loop reads once inlined Funcs are substituted."""
    found: dict[str, Tensor] = {}
    for n, t in [x for at in _inside(state, s, loop) for x in tensors_of(at.definition.roots).items()]:
        if isinstance(t, Func) and n in state.funcs and state.funcs[n].compute.kind == "inline":
            found.update(_reaching(state, t))
        else:
            found[n] = t
    found = {n: t for n, t in found.items() if n not in state.funcs or state.funcs[n].compute.kind != "inline"}
    if name not in found:
        mark = next((m for m in s.prefetches if m.tensor == name), None)
        what = f", where it is prefetched (at {mark.loop})" if mark is not None else ""
        raise refuse(f"{name} is not read by {state.address(s.key)}{what}", "not-read",
                     f"it reads {', '.join(found)}" if found else "it reads nothing")  # fmt: skip
    return found[name]


def check_prefetches(state: State) -> None:
    """Raise ScheduleError if a stage does not read any more what is prefetched for it."""
    for s in state.stages.values():
        for mark in s.prefetches:
            _touched(state, s, mark.loop, mark.tensor)


def _touched(state: State, s: Stage, loop: str, name: str) -> Tensor:
    """The tensor `name`: a Func in whose loops a stage stands, or what one iteration of its loop reads."""
    outer = _around(state, s)
    return outer[name] if name in outer else _read_inside(state, s, loop, name)


def _around(state: State, s: Stage) -> dict[str, Func]:
    """The Funcs in whose loops a stage stands."""
    out: dict[str, Func] = {}
    place = state.funcs[s.key[0]].compute
    while place.kind == "at" and place.stage is not None:
        fs = state.funcs[place.stage[0]]
        out[fs.func.name], place = fs.func, fs.compute
    return out


def _copy_of(source: Array | Func, name: str, rank: int, layout: IndexMap | None) -> Func:
    """A Func that copies a tensor: `name[x] = source[x]` for every component.

    Its loops have the names of the index map, else those of the Func that is copied, else x0, x1, ...
    """
    types = source.dtypes if isinstance(source, Func) else (source.dtype,)
    if layout is not None:
        at = tuple(map(ir.var, layout.names))
    elif isinstance(source, Func) and not isinstance(source, InoutFunc):
        at = source.args
    else:
        at = tuple(ir.var(f"x{k}") for k in range(rank))
    copy = Func(name, types)
    values = tuple(ir.node("load", t.compute, at, (source, k)) for k, t in enumerate(types))
    where = source.init.location if isinstance(source, Func) and source.init is not None else None
    copy.init = Definition(copy, -1, at, values, None, where)
    copy.frozen_by = "cache_read"
    return copy


def reading(d: Definition, source: Tensor, copy: Func) -> Definition:
    """The definition with its loads of `source` (where() apart) taken from `copy`. Both have the same axes."""

    def fn(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op == "load" and n.attr[0] is source:
            return ir.node("load", n.dtype, args, (copy, n.attr[1]))
        return ir.rebuild(n, args)

    roots = ir.transform((*d.lhs, *d.values), fn)
    return replace(d, lhs=roots[: len(d.lhs)], values=roots[len(d.lhs) :])


def names_in_use(state: State) -> set[str]:
    """Names of parameters, tables, Funcs and tiles."""
    taken = {p.name for p in state.pipeline.params} | set(state.funcs) | {t.name for t in state.pipeline.tables}
    return taken | {c.name for s in state.stages.values() for c in s.write_caches}


def new_name(state: State, d: Directive, default: str) -> str:
    """The name that a directive gives to what it makes, or `default` (made unique); refused where it is taken."""
    taken = names_in_use(state)
    given = d.option("name")
    if given is not None:
        if given in taken:
            raise refuse(f"the name {given} is taken", "name-twice", f"names in use: {', '.join(sorted(taken))}")
        return str(given)
    name, k = default, 1
    while name in taken:
        name, k = f"{default}_{k}", k + 1
    return name


def _layout(d: Directive, rank: int, what: str) -> IndexMap | None:
    text = d.option("layout")
    if text is None:
        return None
    made = parse_index_map(str(text))
    if len(made.names) != rank:
        raise refuse(f"layout {text!r} has {len(made.names)} axes and {what} has {rank}", "layout",
                     "name every axis on the left, outermost first")  # fmt: skip
    return made


def _with_storage(state: State, name: str) -> FuncState:
    fs = find_func(state, name)
    if isinstance(fs.func, InoutFunc):
        raise refuse(f"{name} lives in the caller's array", "inout-storage", "cache_write holds a part of it elsewhere")
    if fs.compute.kind == "inline":
        raise refuse(f"{name} is inlined and has no buffer", "inlined",
                     f"compute it somewhere first: s[{name!r}].compute_root()")  # fmt: skip
    return fs

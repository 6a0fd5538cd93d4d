"""The default schedule: the loops of a stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.lang import ir, simplify
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.tensors import Tensor
from tilewright.lang.types import index
from tilewright.schedule import algebra
from tilewright.schedule.build import Builder
from tilewright.schedule.directive import Directive
from tilewright.schedule.layout import IndexMap
from tilewright.schedule.ranges import constant_extent
from tilewright.schedule.registers import Registers
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import REPAIR, Split, Stage, State
from tilewright.schedule.transposes import crossing_axis, tile_size

_LANES_BYTES = 256  # of a vectorised reduction: 64 lanes of f32
_BLOCK = 4096  # points of a reduction between two levels of pairwise combination
CHEAP = 4
_CHUNK = 1 << 15  # elements a task of a one-dimensional loop
_ROWS = 128  # that are added up one by one, between two levels of pairwise combination
_STRIP = 1024  # elements of a row that are added up together, row by row
_PRODUCT_STRIP = 512  # the same where rows are multiplied first: a matrix from the left with a vector
_PRODUCT_ROWS = 12  # of these at once: as many streams keep the memory busy
_VECTORS = 2  # of a row of a register tile
_TOGETHER = 4  # points of a pure definition whose loads serve each other
_ALONE = 4  # of a tile that is a single row


@dataclass(frozen=True)
class Shape:
    """How the loops of a definition are to run.

    `kind`: vectors along a pure axis of a pure definition (pure), of an update that is no reduction or reads the Func
    elsewhere (plain), in a register tile (tile) or in strips of rows that are added up (rows); lanes along a reduction
    (lanes); or as it stands (scalar). `vector` is the axis of the vectors, `reused` the one along which a tile has rows.
    """

    kind: str
    vector: Node | None = None
    reused: Node | None = None


def shape(d: Definition, single: set[Node], strict: bool = False) -> Shape:
    """What suits a definition of which the variables `single` have one index at a time."""
    last = d.lhs[-1] if d.lhs and d.lhs[-1].op == "var" and d.lhs[-1] not in single else None
    if d.rdom is None:
        return Shape("pure", last)
    rvar = _reduction_axis(d)
    along = 0 if last is None else _runs_along(d, last)
    bare = all(i.op == "var" for i in d.lhs)
    reads_itself_elsewhere = any(n.attr[0] is d.func and n.args != d.lhs for n in ir.leaves(d.roots, "load"))
    tiles = bare and not reads_itself_elsewhere and not isinstance(d.func, InoutFunc)
    others = [u for u in reversed(d.pure_vars) if u is not last and u not in single]
    reused = None if last is None else next((u for u in others if is_reused(d, u, last)), None)
    # without loads but of itself it counts points
    reads = any(n.attr[0] is not d.func or n.args != d.lhs for n in ir.leaves(d.values, "load"))
    if last is not None and (along > 0 or rvar is None or (reads and along >= _runs_along(d, rvar))):
        if not tiles:
            return Shape("plain", last)
        if reused is None and _read_once(d, last, single) and not d.predicates:
            return Shape("rows", last)
        return Shape("tile", last, reused)
    if last is not None and tiles and reused is not None and is_reused(d, last) and _across(d, last) is not None:
        return Shape("tile", last, reused)
    lanes = rvar is not None and not algebra.own_elements(d, rvar) and not strict and _by_index(d)
    return Shape("lanes" if lanes and algebra.match(d) is not None else "scalar")


def _by_index(d: Definition) -> bool:
    """Whether the conditions of a reduction say which points it has, and no data that lie along them do."""
    reduced = set() if d.rdom is None else set(d.rdom.rvars)
    return not any(reduced & set(ir.postorder((n,))) for n in ir.leaves(d.predicates, "load"))


def _across(d: Definition, vector: Node) -> dict[Tensor, tuple[Node, int]] | None:
    """Tensors that do not lie along the vectors: a load of each, and the axis that does. None where some can't be packed."""
    found: dict[Tensor, tuple[Node, int]] = {}
    for n in ir.leaves(d.values, "load"):
        t = n.attr[0]
        inside = [k for k, a in enumerate(n.args) if vector in ir.postorder((a,))]
        if t is d.func or not inside:
            continue
        if inside == [len(n.args) - 1] and simplify.linear(n.args[-1])[0].get(vector) == 1:
            if t in found:
                return None
            continue
        if len(inside) > 1 or n.args[inside[0]] is not vector or inside[0] == len(n.args) - 1:
            return None
        if found.setdefault(t, (n, inside[0]))[1] != inside[0]:
            return None
    return found


def as_it_lies(d: Definition, state: State) -> Definition:
    """A definition with its indices in the order in which axes lie in memory, of arguments that are given in layouts and
    of copies of what is read.

    Only loops are chosen by it. The parts of an axis that is cut into blocks are all where the innermost one is.
    """
    layouts = _layouts(state)
    if not layouts:
        return d

    def turned(name: str, indices: Sequence[Node]) -> tuple[Node, ...]:
        order = _order(state, layouts, name)
        return tuple(indices) if order is None else tuple(indices[k] for k in order)

    def placed(n: Node, args: tuple[Node, ...]) -> Node:
        return ir.rebuild(n, turned(n.attr[0].name, args) if n.op == "load" else args)

    return replace(d, lhs=turned(d.func.name, d.lhs), values=ir.transform(d.values, placed, {}))


def _layouts(state: State) -> Mapping[str, IndexMap]:
    copies = {n: f.layout for n, f in state.funcs.items() if f.origin == "cache_read" and f.layout is not None}
    return {**state.given, **copies}


def _order(state: State, layouts: Mapping[str, IndexMap], name: str) -> tuple[int, ...] | None:
    """The axes of a tensor from the outermost to the innermost; None where it lies row-major. What is inlined lies as the
    first tensor with a layout does that it reads."""
    if name in layouts:
        return layouts[name].order
    fs = state.funcs.get(name)
    if fs is None or fs.compute.kind != "inline" or fs.func.updates:
        return None
    (stage,) = state.stages_of(name)
    d = stage.definition
    for n in ir.leaves(d.values, "load"):
        order = _order(state, layouts, n.attr[0].name)
        if order is not None:
            found = [d.lhs.index(v) for k in order for v in _by_step(n.args[k]) if v in d.lhs]
            last = {a: k for k, a in enumerate(found)}
            return tuple(sorted(range(len(d.lhs)), key=lambda a: last.get(a, -1)))
    return None


def _by_step(i: Node) -> list[Node]:
    """The variables of an index, those with large steps first."""
    terms = sorted(simplify.linear(i)[0].items(), key=lambda t: -abs(t[1]))
    return [v for a, _ in terms for v in ir.leaves((a,), "var")]


def single_axes(b: Builder, d: Definition) -> set[Node]:
    """The variables of a definition along which its Func is computed for a single index at a time."""
    built = b.funcs.get(d.func.name)
    return {v for v, r in zip(d.lhs, built.region, strict=True) if r.lo is r.hi} if built else set()


def loops(
    s: Schedule, stage: Stage, mode: str, registers: Registers, b: Builder, alone: Collection[str] = ()
) -> None:  # fmt: skip
    """Write the directives of a stage that has none. `alone`: variables that are known to have a single index."""
    d = stage.definition
    address = s.state.address(stage.key)
    group = s.state.block_of(stage.key)
    at_root = s.state.funcs[stage.key[0]].compute.kind == "root" and group is None
    if not stage.loops:
        return
    busy = _attached(s.state, stage)
    around = stage.loops[: 1 + max((k for k, x in enumerate(stage.loops) if x.name in busy), default=-1)]
    first = tuple(x.name for x in around)  # the loops in which others are computed, and those around them
    single = single_axes(b, d) | {v for v in d.pure_vars if v.attr in alone or v.attr in first}
    threads = Threads(at_root, at_root or (group is None and is_outermost(s.state, stage)), frozenset(single), first)
    inner = bool(d.lhs) and d.rdom is not None and not any(x.reduction for x in around) and d.lhs[-1] not in single
    if busy and not inner:
        _around_others(s, address, stage, threads, busy, registers, b)
        return
    d = as_it_lies(d, s.state)
    if d.pure_vars != stage.definition.pure_vars:
        apply(s, "reorder", address, tuple(v.attr for v in d.pure_vars))
    if stage.key[1] == REPAIR:
        if d.lhs and d.lhs[-1] not in single:
            _pure(s, address, d, Threads(), registers)
        return
    form = shape(d, single, mode == "strict")
    if form.kind == "pure":
        crossing = _crossing(d, b, registers) if cost(d.func, {}) <= CHEAP else None
        if crossing is not None:
            _transposing(s, address, d, crossing, threads, registers)
        elif form.vector is not None:
            _pure(s, address, d, threads, registers)
    elif form.kind == "plain":
        _plain(s, address, d, form, threads, registers)
    elif form.kind == "rows" and _columns(stage.definition, form.vector, b, registers):
        _tile(s, address, d, form, threads, registers, b)
    elif form.kind == "rows":
        add_rows(s, address, d, form, threads, registers, mode == "strict" or group is not None)
    elif form.kind == "tile":
        _tile(s, address, d, form, threads, registers, b)
    elif form.kind == "lanes":
        _lanes(s, address, d, threads, group.block if group is not None else _BLOCK, registers)
    else:
        threads.share(s, address, [v.attr for v in d.pure_vars])


@dataclass(frozen=True)
class Threads:
    """Which loops of a stage run on threads.

    Of a stage `at_root` the first two: where the first one has few iterations, the other one is shared out (which of them
    is decided by every call). Of a stage that is computed in the `outer` loop of one, its first loop that has more than
    one iteration, for the same reason. Loops in which others are computed come `first`.
    """

    at_root: bool = False
    outer: bool = False
    single: frozenset[Node] = frozenset()
    first: tuple[str, ...] = ()

    def ordered(self, loops: Sequence[str]) -> tuple[str, ...]:
        """`loops`, of which those come first that have to."""
        return (*(x for x in self.first if x in loops), *(x for x in loops if x not in self.first))

    def share(self, s: Schedule, address: str, loops: Sequence[str]) -> None:
        """`loops`: those that may be shared out, outermost first."""
        loops = (*self.first, *(x for x in loops if x not in self.first))
        alone = {v.attr for v in self.single}
        some = loops[:2] if self.at_root else [x for x in loops if x not in alone][:1] if self.outer else []
        for k, x in enumerate(some):
            try:
                apply(s, "parallel", address, (x,))
            except ScheduleError:
                if k == 0:
                    raise


def is_outermost(state: State, stage: Stage) -> bool:
    """Whether a stage is computed in the outermost loop of one at the root."""
    place = state.funcs[stage.key[0]].compute
    if place.kind != "at" or place.stage is None or state.funcs[place.stage[0]].compute.kind != "root":
        return False
    around = state.stages[place.stage]
    return around.loops[0].name == place.loop and not around.loops[0].reduction


def _attached(state: State, stage: Stage) -> set[str]:
    """Loops of the stage in which other Funcs are computed."""
    places = (f.compute for f in state.funcs.values())
    return {p.loop for p in places if p.stage == stage.key and p.loop is not None}


def _around_others(
    s: Schedule, address: str, stage: Stage, threads: Threads, busy: set[str], registers: Registers, b: Builder
) -> None:
    """A stage that others are computed in: threads over its first loops, vectors along its last one where that is free."""
    d, loops = stage.definition, [x.name for x in stage.loops if not x.reduction]
    if not loops:
        return
    threads.share(s, address, loops[: max(1, len(loops) - 1)])
    if d.rdom is not None or loops[-1] in busy or len(loops) < 2:
        return
    crossing, last = _crossing(d, b, registers), loops[-1]
    if crossing is not None and crossing.attr in loops[1:-1] and last == d.lhs[-1].attr and not busy & set(loops[1:]):
        n, u = tile_size(registers.width, _bytes(d)), crossing.attr
        rest = [x for x in loops[1:-1] if x != u]
        strip = any(isinstance(x, Split) and x.inner == u and x.factor == n for x in stage.transforms)
        if strip:
            apply(s, "split", address, (last,), results=(f"{last}_o", f"{last}_t"), by=n)
            order = (loops[0], *rest, f"{last}_o", u, f"{last}_t")
        else:
            apply(s, "tile", address, (u, last), results=(f"{u}_o", f"{last}_o", f"{u}_t", f"{last}_t"), by=(n, n))
            order = (loops[0], *rest, f"{u}_o", f"{last}_o", f"{u}_t", f"{last}_t")
        apply(s, "reorder", address, order)
        apply(s, "unroll", address, (order[-2],))
        apply(s, "vectorize", address, (order[-1],))
        return
    apply(s, "vectorize", address, (last,), by=lanes_of(d, registers))


def _bytes(d: Definition, vector: Node | None = None) -> int:
    """The largest element that a definition computes with (that varies along `vector`)."""
    nodes = list(ir.postorder(d.values))
    if vector is not None:
        varies = {vector}
        for n in nodes:
            if not varies.isdisjoint(n.args):
                varies.add(n)
        nodes = [n for n in nodes if n in varies]
    made = [n.dtype for n in nodes if n.dtype.name not in ("index", "bool")]
    return max(t.bytes for t in (*made, *d.func.dtypes))


def lanes_of(d: Definition, registers: Registers) -> int:
    """Elements of a vector along the last axis."""
    last = d.lhs[-1] if d.lhs and d.lhs[-1].op == "var" else None
    return max(4, registers.width // _bytes(d, last))


def _pure(s: Schedule, address: str, d: Definition, threads: Threads, registers: Registers) -> None:
    """Vectors along the last axis, threads over the first (of those that have loops: an update may fix an index); some
    points of the axis before it at once, where many vectors serve all of them."""
    loops = [v.attr for v in d.pure_vars]
    last = d.lhs[-1].attr if d.lhs[-1].op == "var" else None
    if threads.at_root and last is not None and loops == [last]:
        apply(s, "parallel", address, (last,), by=_CHUNK)
        apply(s, "vectorize", address, (f"{last}_p",), by=lanes_of(d, registers))
        return
    others = [v for v in d.pure_vars if v.attr != last]
    served = others[-1] if last is not None and len(others) > 1 and _serving(d, others[-1], d.lhs[-1]) else None
    threads.share(s, address, [v.attr for v in others if v is not served])
    if last is None:
        return
    if served is None or served in threads.single:
        apply(s, "vectorize", address, (last,), by=lanes_of(d, registers))
        return
    u = served.attr
    apply(s, "split", address, (u,), results=(f"{u}_o", f"{u}_t"), by=_TOGETHER)
    apply(s, "split", address, (last,), results=(last, f"{last}_v"), by=lanes_of(d, registers))
    apply(s, "reorder", address, (f"{u}_o", last, f"{u}_t", f"{last}_v"))
    apply(s, "unroll", address, (f"{u}_t",))
    apply(s, "vectorize", address, (f"{last}_v",))


def _serving(d: Definition, u: Node, vector: Node) -> bool:
    """Whether enough of what is loaded in vectors is the same for all points along `u` to be worth keeping in registers."""
    inside = [set(ir.postorder(n.args)) for n in ir.leaves(d.values, "load")]
    return sum(vector in i and u not in i for i in inside) >= _TOGETHER


def _crossing(d: Definition, b: Builder, registers: Registers) -> Node | None:
    """The axis to tile together with the last one where the definition transposes; both fill a tile."""
    built = b.funcs.get(d.func.name)
    if built is None or len(d.lhs) < 2 or d.number >= 0:
        return None
    body = b.bodies[(d.func.name, d.number)]
    u = crossing_axis(d.lhs, as_it_lies(replace(d, values=body.values), b.state).values)
    if u is None:
        return None
    for v, r in zip(body.lhs, built.region, strict=True):
        n = constant_extent(r) if r.bounded else None
        if v in (u, d.lhs[-1]) and n is not None and n < tile_size(registers.width, _bytes(d)):
            return None
    return u


def _transposing(
    s: Schedule, address: str, d: Definition, crossing: Node, threads: Threads, registers: Registers
) -> None:  # fmt: skip
    """Square tiles, whose elements are transposed in registers; threads over the first axis."""
    u, v, n = crossing.attr, d.lhs[-1].attr, tile_size(registers.width, _bytes(d))
    apply(s, "tile", address, (u, v), results=(f"{u}_o", f"{v}_o", f"{u}_t", f"{v}_t"), by=(n, n))
    outer = [x.attr for x in d.pure_vars if x not in (crossing, d.lhs[-1])]
    apply(s, "reorder", address, (*outer, f"{u}_o", f"{v}_o", f"{u}_t", f"{v}_t"))
    threads.share(s, address, [*outer, f"{u}_o"])
    apply(s, "unroll", address, (f"{u}_t",))
    apply(s, "vectorize", address, (f"{v}_t",))


def _reduction_axis(d: Definition) -> Node | None:
    """The innermost reduction variable."""
    return d.rdom.rvars[-1] if d.rdom is not None and d.rdom.rvars else None


def _runs_along(d: Definition, var: Node) -> int:
    """How well loads suit vectors along `var`: contiguous ones count for it, strided ones against it."""
    score = 0
    for n in ir.leaves(d.values, "load"):
        if n.attr[0] is d.func:
            continue
        inside = [var in ir.postorder((a,)) for a in n.args]
        if not any(inside):
            continue
        step = simplify.linear(n.args[-1])[0].get(var, 0)
        score += 1 if inside[-1] and not any(inside[:-1]) and step == 1 else -4
    return score


def is_reused(d: Definition, var: Node, vector: Node | None = None) -> bool:
    """Whether some operand (of those that vary along `vector`) does not depend on a variable: what is loaded of it serves
    several of its points."""
    loads = [n for n in ir.leaves(d.values, "load") if n.attr[0] is not d.func]
    inside = [set(ir.postorder(n.args)) for n in loads]
    return any(var not in i and (vector is None or vector in i) for i in inside)


def _read_once(d: Definition, vector: Node, single: Collection[Node]) -> bool:
    """Whether each point reads elements of its own of what varies along `vector`."""
    loads = [n for n in ir.leaves(d.values, "load") if n.attr[0] is not d.func]
    return not any(repeated(d, n, single) for n in loads if vector in ir.postorder(n.args))


def repeated(d: Definition, load: Node, single: Collection[Node] = ()) -> bool:
    """Whether the loops of a definition may read the same element several times: unless each of their variables has an
    axis of the load for itself. Where data say which element is meant, nothing else is known of it."""
    apart: set[Node] = set()
    for a in load.args:
        terms = list(simplify.linear(a)[0])
        if len(terms) == 1:
            apart.add(terms[0])
    turning = [v for v in (*d.pure_vars, *(d.rdom.rvars if d.rdom is not None else ())) if v not in single]
    return any(v not in apart for v in turning)


def _plain(s: Schedule, address: str, d: Definition, form: Shape, threads: Threads, registers: Registers) -> None:
    """Vectors along a pure axis, which stands innermost."""
    assert form.vector is not None
    others = [v.attr for v in d.pure_vars if v is not form.vector]
    threads.share(s, address, others)
    order = [*threads.ordered(others), *(d.rdom.ranges if d.rdom is not None else ()), form.vector.attr]
    if len(order) > 1:
        apply(s, "reorder", address, tuple(order))
    apply(s, "vectorize", address, (form.vector.attr,), by=lanes_of(d, registers))


def _tile(
    s: Schedule, address: str, d: Definition, form: Shape, threads: Threads, registers: Registers, b: Builder
) -> None:
    """Vectors along a pure axis; a register tile where operands are reused along another one, packed if they lie across."""
    assert form.vector is not None and d.rdom is not None
    lanes, vectors = lanes_of(d, registers), _VECTORS if form.reused is not None else _ALONE
    v, rows = form.vector.attr, form.reused
    others = [x for x in d.pure_vars if x is not form.vector]
    apply(s, "split", address, (v,), results=(f"{v}_o", f"{v}_t"), by=lanes * vectors)
    apply(s, "split", address, (f"{v}_t",), results=(f"{v}_m", f"{v}_v"), by=lanes)
    outer, inner = [x.attr for x in others if x is not rows], [f"{v}_m", f"{v}_v"]
    if rows is not None:
        r = rows.attr
        apply(s, "split", address, (r,), results=(f"{r}_o", f"{r}_t"), by=_height(d, rows, registers, b))
        inner = [f"{r}_t", *inner]
        tile_at, around = f"{r}_o", [*outer, f"{v}_o", f"{r}_o"]
    else:
        tile_at, around = f"{v}_o", [*outer, f"{v}_o"]
    apply(s, "reorder", address, (*threads.ordered(around), *d.rdom.ranges, *inner))
    threads.share(s, address, around)
    for x in inner[:-1]:
        apply(s, "unroll", address, (x,))
    apply(s, "vectorize", address, (inner[-1],))
    _hold(s, d.func, f"{address}.{tile_at}")
    if rows is not None:
        for load, axis in (_across(d, form.vector) or {}).values():
            _pack(s, load, axis, f"{address}.{v}_o", registers)


def _columns(d: Definition, axis: Node | None, b: Builder, registers: Registers) -> bool:
    """Whether a product of rows that are read once goes column by column: where few of them are all there are, or what is
    read lies in panels."""
    assert axis is not None
    return is_reused(d, axis) and (_few(d, axis, b, registers) or _in_panels(d, axis, b.state))


def _in_panels(d: Definition, axis: Node, state: State) -> bool:
    """Whether what varies along an axis lies in blocks of it."""
    layouts = _layouts(state)
    for n in ir.leaves(d.values, "load"):
        m = layouts.get(n.attr[0].name)
        for name, i in zip(m.names if m is not None else (), n.args, strict=False):
            if axis in ir.postorder((i,)) and sum(ir.var(name) in ir.postorder((a,)) for a in m.axes) > 1:  # type: ignore[union-attr]
                return True
    return False


def _few(d: Definition, axis: Node, b: Builder, registers: Registers) -> bool:
    """Whether an axis is known to fit a few vectors, which stay in registers."""
    built = b.funcs.get(d.func.name)
    region = None if built is None else built.region[b.bodies[(d.func.name, d.number)].lhs.index(axis)]
    known = constant_extent(region) if region is not None and region.bounded else None
    return known is not None and known <= _ALONE * lanes_of(d, registers)


def _hold(s: Schedule, f: Func, at: str) -> None:
    """A tile of a Func in registers, in which elements lie as they do in the Func."""
    order = _order(s.state, _layouts(s.state), f.name)
    if order is None or order == tuple(range(f.rank)):
        apply(s, "cache_write", "", (f.name,), at=at)
        return
    names = [f"a{k}" for k in range(f.rank)]
    turned = " ".join(names[k] for k in order)
    apply(s, "cache_write", "", (f.name,), at=at, layout=f"{' '.join(names)} -> {turned}")


def strip_of(d: Definition, form: Shape, axis: Node, registers: Registers) -> int:
    """How wide a strip along an axis is at least."""
    if form.kind == "rows":
        return _STRIP
    if form.vector is not axis:
        return 4 * tile_rows(registers)
    return lanes_of(d, registers) * (4 * _VECTORS if form.kind == "tile" else 1)


def tile_rows(registers: Registers) -> int:
    """Rows of a register tile: its accumulators leave room for a row of operands and what they are multiplied with."""
    return (registers.count - _VECTORS - 2) // _VECTORS


def _height(d: Definition, rows: Node, registers: Registers, b: Builder) -> int:
    """Rows of a register tile, no more than there are."""
    built = b.funcs.get(d.func.name)
    region = None if built is None else built.region[b.bodies[(d.func.name, d.number)].lhs.index(rows)]
    known = constant_extent(region) if region is not None and region.bounded else None
    return max(1, min(tile_rows(registers), known or tile_rows(registers)))


def _pack(s: Schedule, load: Node, axis: int, at: str, registers: Registers) -> None:
    """A copy of what a column of tiles reads, such that it lies along the vectors; transposed in registers."""
    order = _order(s.state, _layouts(s.state), load.attr[0].name)
    axis, last = (axis, len(load.args) - 1) if order is None else (order[axis], order[-1])
    names = [f"a{k}" for k in range(len(load.args))]
    turned = [*(n for k, n in enumerate(names) if k != axis), names[axis]]
    before = set(s.state.funcs)
    apply(s, "cache_read", "", (load.attr[0].name,), at=at, layout=f"{' '.join(names)} -> {' '.join(turned)}")
    (copy,) = set(s.state.funcs) - before
    u, v, n = names[last], names[axis], tile_size(registers.width, load.dtype.bytes)
    apply(s, "tile", copy, (v, u), results=(f"{v}_o", f"{u}_o", f"{v}_t", f"{u}_t"), by=(n, n))
    outer = [x for x in names if x not in (u, v)]
    apply(s, "reorder", copy, (*outer, f"{v}_o", f"{u}_o", f"{u}_t", f"{v}_t"))
    apply(s, "unroll", copy, (f"{u}_t",))
    apply(s, "vectorize", copy, (f"{v}_t",))


@dataclass(frozen=True)
class RowsBy:
    """How rows are added up: vectors of a row and rows at once, elements of a strip of a row (for threads), and rows that
    are added up one by one (0: all of them)."""

    vectors: int
    together: int
    strip: int
    block: int = _ROWS


def add_rows(
    s: Schedule, address: str, d: Definition, form: Shape, threads: Threads, registers: Registers, keeps_order: bool,
    by: RowsBy | None = None,
) -> None:  # fmt: skip
    """Rows of data are added up in the order in which they lie in memory, a strip of them at a time, some at once.

    Sums of floats are in blocks of rows, whose partial sums combine pairwise.
    """
    assert form.vector is not None and d.rdom is not None
    v, lanes = form.vector.attr, lanes_of(d, registers)
    reductions = list(d.rdom.ranges)
    k = reductions[-1]
    outer = list(threads.ordered([x.attr for x in d.pure_vars if x is not form.vector]))
    found = algebra.match(d)
    product = is_reused(d, form.vector)  # with something that is the same for a whole row
    by = by or (RowsBy(1, _PRODUCT_ROWS, _PRODUCT_STRIP) if product else RowsBy(_VECTORS, 4, _STRIP))
    if (
        found is not None
        and found.operator == "add"
        and not found.exact
        and not product
        and not keeps_order
        and by.block
    ):
        apply(s, "split", address, (k,), results=(f"{k}_b", f"{k}_i"), by=by.block)
        reductions[-1] = f"{k}_i"
        apply(s, "reorder", address, (*outer, f"{k}_b", *reductions, v))
        before = set(s.state.funcs)
        apply(s, "rfactor", address, (f"{k}_b",), results=(f"{d.func.name}_{k}_b",))
        (partial,) = set(s.state.funcs) - before
        axes = [x.attr for x in s.state.funcs[partial].func.args]
        apply(s, "layout", "", (partial,), layout=f"{' '.join(axes)} -> {axes[-1]} {' '.join(axes[:-1])}")
        apply(s, "vectorize", f"{partial}.init", (v,), by=lanes)
        for combining in s.state.stages_of(partial)[2:]:
            order = [*outer, *(combining.definition.rdom.ranges if combining.definition.rdom is not None else ()), v]
            apply(s, "reorder", s.state.address(combining.key), tuple(order))
            apply(s, "vectorize", s.state.address(combining.key), (v,), by=lanes)
        apply(s, "vectorize", address, (v,), by=lanes)
        address, k, outer = f"{partial}.update[0]", f"{k}_i", [*outer, f"{k}_b"]
    if threads.outer:
        apply(s, "split", address, (v,), results=(f"{v}_s", v), by=by.strip)
        outer = [*outer, f"{v}_s"]
    apply(s, "split", address, (v,), results=(f"{v}_o", f"{v}_t"), by=lanes * by.vectors)
    apply(s, "split", address, (f"{v}_t",), results=(f"{v}_m", f"{v}_v"), by=lanes)
    apply(s, "split", address, (k,), results=(f"{k}_o", f"{k}_u"), by=by.together)
    apply(s, "reorder", address, (*outer, *reductions[:-1], f"{k}_o", f"{v}_o", f"{k}_u", f"{v}_m", f"{v}_v"))
    if threads.at_root and not threads.single:
        apply(s, "parallel", address, (outer[0],))
    else:
        threads.share(s, address, outer)
    apply(s, "unroll", address, (f"{k}_u",))
    apply(s, "unroll", address, (f"{v}_m",))
    apply(s, "vectorize", address, (f"{v}_v",))
    _hold(s, s.state.funcs[address.split(".")[0]].func, f"{address}.{v}_o")


def _lanes(s: Schedule, address: str, d: Definition, threads: Threads, points: int, registers: Registers) -> None:
    """A reduction along contiguous data: in lanes, and for sums in blocks that combine pairwise.

    `points`: a block that it is limited to (online), which is not divided further.
    """
    rvar, reduction = _reduction_axis(d), algebra.match(d)
    assert rvar is not None and reduction is not None
    k = rvar.attr[1]
    threads.share(s, address, [v.attr for v in d.pure_vars])
    lanes = _LANES_BYTES // _bytes(d)
    state = sum(t.bytes for t in reduction.dtypes)
    if state and reduction.exact and 2 * lanes * state <= registers.count * registers.width // 2:
        lanes *= 2  # pairs with an index: the bits are the same for any number
    known = _points(d, k)
    lanes = min(lanes, points, lanes if known is None else 1 << max(known, 4).bit_length() - 1)
    if reduction.operator == "add" and not reduction.exact and points >= _BLOCK and (known or _BLOCK + 1) > _BLOCK:
        apply(s, "split", address, (k,), results=(f"{k}_b", f"{k}_i"), by=_BLOCK)
        before = set(s.state.funcs)
        kind = "parallel" if threads.at_root and not d.pure_vars else "rfactor"
        if kind == "parallel":
            apply(s, "parallel", address, (f"{k}_b",))
        else:
            apply(s, "rfactor", address, (f"{k}_b",), results=(f"{d.func.name}_{k}_b",))
        partial = next(n for n in s.state.funcs if n not in before)
        address, k = f"{partial}.update[0]", f"{k}_i"
    apply(s, "vectorize", address, (k,), by=lanes)


def _points(d: Definition, k: str) -> int | None:
    """How many values a reduction variable has, where that is a constant."""
    assert d.rdom is not None
    lo, hi = d.rdom.ranges[k]
    n = simplify.sub(hi, lo)
    return n.attr if n.op == "const" else None


def apply(
    s: Schedule, kind: str, stage: str, operands: tuple[str, ...], results: tuple[str, ...] = (), **options: object
) -> None:
    s.apply(Directive(kind, stage, operands, results, tuple(options.items())))  # type: ignore[arg-type]


_WEIGHTS = {"call": 12, "call_extern": 24, "div": 4, "sqrt": 4, "floordiv": 4, "mod": 4}
_FREE = frozenset({"const", "scalar", "likely", "assume", "select", "cast", "and", "or", "not"})
_MOST = 1000


def cost(f: Func, inlined: dict[str, int]) -> int:
    """Operations of one element, those of the Funcs inlined into it included (`inlined` has theirs)."""
    total = 0
    for n in ir.postorder(f.init.values if f.init else ()):
        if n.op == "load":
            total += inlined.get(n.attr[0].name, 0) if isinstance(n.attr[0], Func) else 0
        elif n.op not in _FREE and n.dtype is not index and (not n.dtype.is_bool or n.args[0].dtype is not index):
            total += _WEIGHTS.get(n.op, 1)
    return min(total, _MOST)

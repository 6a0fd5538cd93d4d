"""The default schedule: directives for the stages that no directive names. It is everyone's first impression.

General rules, none keyed to an operator's name:

* a Func that is cheap, or used once for each of its elements, is inlined; else it is computed in the outermost loop
  of its consumer where that loop's iterations need separate parts of it, else as a whole;
* the vector axis is the last axis of what is stored, or the reduction variable where the loads run along that;
* a cheap pure definition that reads along one axis and writes along another has tiles, transposed in registers;
* a reduction whose operands are reused gets a register tile;
* a reduction along the vector axis runs in lanes, and in blocks whose partial sums combine pairwise;
* the outermost loop of a stage at the root is parallel.

What reassociates depends on the algorithm alone (never on the processor), and nothing does in mode `strict`.
"""

from __future__ import annotations

from contextlib import suppress

from tilewright.lang import ir, simplify
from tilewright.lang.errors import BoundsError, ScheduleError
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.types import index
from tilewright.schedule import algebra
from tilewright.schedule.build import Builder
from tilewright.schedule.directive import Directive
from tilewright.schedule.externs import in_memory
from tilewright.schedule.online import between
from tilewright.schedule.ranges import constant_extent
from tilewright.schedule.registers import Registers, host_registers
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.sites import legal_sites
from tilewright.schedule.state import REPAIR, Stage, State
from tilewright.schedule.transposes import crossing_axis, tile_size

_LANES_BYTES = 256  # of a vectorised reduction: 64 lanes of f32
_BLOCK = 4096  # points of a reduction between two levels of pairwise combination
_CHEAP = 4
_CHUNK = 1 << 15  # elements a task of a one-dimensional loop


def complete(schedule: Schedule, mode: str = "contract", registers: Registers | None = None) -> Schedule:
    """A copy of `schedule` in which every stage that no directive names has the default schedule."""
    full = schedule.copy()
    untouched = [s.key for s in full.state.stages.values() if not s.scheduled]
    _place(full)
    b = Builder(full.state, "strict")
    b.infer()
    for key in untouched:
        if key in full.state.stages and full.state.funcs[key[0]].compute.kind != "inline":
            before = full.directives, full.state
            try:
                _loops(full, full.state.stages[key], mode, registers or host_registers(), b)
            except ScheduleError:  # against what the user said: then the stage stays plain
                full.directives, full.state = before
    full.added = len(full) - len(schedule)
    return full


def _single(b: Builder, d: Definition) -> set[Node]:
    """The variables of a definition along which its Func is computed for a single index at a time."""
    built = b.funcs.get(d.func.name)
    return {v for v, r in zip(d.lhs, built.region, strict=True) if r.lo is r.hi} if built else set()


# Placement ------------------------------------------------------------------------------------------------------


def _place(s: Schedule) -> None:
    """Producers first: what is cheap is inlined. Consumers first: the others are computed where they are needed."""
    kept: list[str] = []
    costs: dict[str, int] = {}
    uses = _uses(s.state)
    views = in_memory(s.state)
    for name in s.state.order:
        fs = s.state.funcs[name]
        f = fs.func
        touched = fs.placed or any(x.scheduled for x in s.state.stages_of(name))
        if touched or name in s.state.outputs or not uses.get(f):
            continue
        if not f.updates and name not in views and _worth_inlining(f, uses[f], costs):
            costs[name] = _cost(f, costs)
        else:
            kept.append(name)
    # what is not decided yet is at the root here: inlined into each other, they would grow without end
    ahead = s.copy()
    for name in kept:
        if between(s.state, name) is None:
            with suppress(ScheduleError):
                _apply(ahead, "compute_root", "", (name,))
    for name in reversed(kept):
        f = s.state.funcs[name].func
        block = between(s.state, name)
        if block is not None:  # in the block loop of its group, or inlined: it can stand nowhere else
            if block in legal_sites(s.state, f):
                for x in (s, ahead):
                    _apply(x, "compute_at", "", (name,), at=block)
            continue
        opaque = f.init is not None and of_definition(f.init) is not None
        site = _outermost_site(s.state, f) if _may_be_separate(uses[f]) and not opaque else None
        if site is not None and _separate(ahead, name, site):
            for x in (s, ahead):
                _apply(x, "compute_at", "", (name,), at=site)
        else:
            with suppress(ScheduleError):  # a prefetch may ask for what it reads where it is used: it stays there
                _apply(s, "compute_root", "", (name,))


Uses = dict[object, list[tuple[Stage, Node]]]


def _uses(state: State) -> Uses:
    """For every tensor the stages of other Funcs that read it, with each load."""
    out: Uses = {}
    for stage in state.stages.values():
        for n in ir.leaves(stage.definition.roots, "load"):
            if n.attr[0] is not stage.definition.func:
                out.setdefault(n.attr[0], []).append((stage, n))
    return out


def _worth_inlining(f: Func, uses: list[tuple[Stage, Node]], costs: dict[str, int]) -> bool:
    """Cheap, or evaluated once for each element: then a buffer costs more than it saves."""
    if _cost(f, costs) <= _CHEAP:
        return True
    return len(uses) == 1 and not _repeated(*uses[0])


def _may_be_separate(uses: list[tuple[Stage, Node]]) -> bool:
    """Whether some axis is read with a variable alone wherever it is read: else no loop can part it."""
    return any(all(n.args[k].op == "var" for _, n in uses) for k in range(len(uses[0][1].args)))


def _repeated(consumer: Stage, load: Node) -> bool:
    """Whether the consumer's loops may evaluate the same element several times: unless each of their variables has an
    axis of the load for itself. Where data say which element is meant, nothing else is known of it."""
    apart: set[Node] = set()
    for a in load.args:
        terms = list(simplify.linear(a)[0])
        if len(terms) == 1:
            apart.add(terms[0])
    return any(r not in apart for r in consumer.roots)


_WEIGHTS = {"call": 12, "call_extern": 24, "div": 4, "sqrt": 4, "floordiv": 4, "mod": 4}
_FREE = frozenset({"const", "scalar", "likely", "assume", "select", "cast", "and", "or", "not"})
_MOST = 1000


def _cost(f: Func, inlined: dict[str, int]) -> int:
    """Operations of one element, those of the Funcs inlined into it included (`inlined` has theirs)."""
    total = 0
    for n in ir.postorder(f.init.values if f.init else ()):
        if n.op == "load":
            total += inlined.get(n.attr[0].name, 0) if isinstance(n.attr[0], Func) else 0
        elif n.op not in _FREE and n.dtype is not index and (not n.dtype.is_bool or n.args[0].dtype is not index):
            total += _WEIGHTS.get(n.op, 1)
    return min(total, _MOST)


def _outermost_site(state: State, f: Func) -> str | None:
    """The outermost loop around all uses, where one stage holds them."""
    sites = legal_sites(state, f)
    return sites[0] if sites else None


def _separate(s: Schedule, name: str, site: str) -> bool:
    """Whether every iteration of the loop needs a part of the Func of its own: nothing is computed twice."""
    trial = s.copy()
    try:
        _apply(trial, "compute_at", "", (name,), at=site)
        b = Builder(trial.state, "strict")
        b.infer()
    except (ScheduleError, BoundsError):
        return False
    place = trial.state.funcs[name].compute
    if place.stage is None or trial.state.stages[place.stage].loop(place.loop or "").reduction:
        return False
    built = b.funcs.get(name)
    if built is None:  # nothing that is computed needs it
        return False
    var = built.site[-1].var
    tied = [r for r in built.region if r.lo is not None and var in ir.leaves((r.lo,), "var")]
    apart = any(r.lo is r.hi and r.lo is not None and simplify.linear(r.lo)[0] == {var: 1} for r in tied)
    return apart and len(tied) == 1


# Loops ----------------------------------------------------------------------------------------------------------


def _loops(s: Schedule, stage: Stage, mode: str, registers: Registers, b: Builder) -> None:
    d = stage.definition
    address = s.state.address(stage.key)
    group = s.state.block_of(stage.key)
    at_root = s.state.funcs[stage.key[0]].compute.kind == "root" and group is None
    if not stage.loops:
        return
    single = _single(b, d)
    busy = _attached(s.state, stage)
    if busy:
        _around_others(s, address, d, at_root, busy, registers)
        return
    if stage.key[1] == REPAIR:
        if d.lhs and d.lhs[-1] not in single:
            _pure(s, address, d, False, registers)
        return
    if d.rdom is None:
        crossing = _crossing(d, b, registers) if _cost(d.func, {}) <= _CHEAP else None
        if crossing is not None:
            _transposing(s, address, d, crossing, at_root, registers)
        elif d.lhs[-1] not in single:
            _pure(s, address, d, at_root, registers)
        return
    rvar = _reduction_axis(d)
    reduction = None if rvar is None or algebra.own_elements(d, rvar) else algebra.match(d)
    vector = d.lhs[-1] if d.lhs and d.lhs[-1].op == "var" and d.lhs[-1] not in single else None
    along = 0 if vector is None else _runs_along(d, vector)
    if vector is not None and (along > 0 or rvar is None or along >= _runs_along(d, rvar)):
        _tile(s, address, d, vector, at_root, registers)
    elif rvar is not None and reduction is not None and mode != "strict" and not d.predicates:
        _lanes(s, address, d, rvar, reduction, at_root, group.block if group is not None else _BLOCK)
    elif at_root:
        _parallel(s, address, d)


def _attached(state: State, stage: Stage) -> set[str]:
    """Loops of the stage in which other Funcs are computed."""
    places = (f.compute for f in state.funcs.values())
    return {p.loop for p in places if p.stage == stage.key and p.loop is not None}


def _around_others(
    s: Schedule, address: str, d: Definition, at_root: bool, busy: set[str], registers: Registers
) -> None:
    """A stage that others are computed in: threads over its first loop, vectors along its last one where that is free."""
    loops = [v.attr for v in d.pure_vars]
    if not loops:
        return
    if at_root:
        _apply(s, "parallel", address, (loops[0],))
    if d.rdom is None and loops[-1] not in busy and len(loops) > 1:
        _apply(s, "vectorize", address, (loops[-1],), by=max(4, registers.width // _bytes(d)))


def _bytes(d: Definition) -> int:
    sizes = [n.dtype.bytes for n in ir.postorder(d.values) if n.dtype.name not in ("index", "bool")]
    return max(sizes, default=1)


def _pure(s: Schedule, address: str, d: Definition, at_root: bool, registers: Registers) -> None:
    """Vectors along the last axis, threads over the first (of those that have loops: an update may fix an index)."""
    loops = [v.attr for v in d.pure_vars]
    last = d.lhs[-1].attr if d.lhs[-1].op == "var" else None
    if at_root and last is not None and loops == [last]:
        _apply(s, "parallel", address, (last,), by=_CHUNK)
        last = f"{last}_p"
    elif at_root:
        _apply(s, "parallel", address, (loops[0],))
    if last is not None:
        _apply(s, "vectorize", address, (last,), by=max(4, registers.width // _bytes(d)))


def _crossing(d: Definition, b: Builder, registers: Registers) -> Node | None:
    """The axis to tile together with the last one where the definition transposes; both fill a tile."""
    built = b.funcs.get(d.func.name)
    if built is None or len(d.lhs) < 2 or d.number >= 0:
        return None
    u = crossing_axis(d.lhs, b.bodies[(d.func.name, d.number)].values)
    if u is None:
        return None
    for v, r in zip(d.lhs, built.region, strict=True):
        n = constant_extent(r) if r.bounded else None
        if v in (u, d.lhs[-1]) and n is not None and n < tile_size(registers.width, _bytes(d)):
            return None
    return u


def _transposing(s: Schedule, address: str, d: Definition, crossing: Node, at_root: bool, registers: Registers) -> None:
    """Square tiles, whose elements are transposed in registers; threads over the first axis."""
    u, v, n = crossing.attr, d.lhs[-1].attr, tile_size(registers.width, _bytes(d))
    _apply(s, "tile", address, (u, v), results=(f"{u}_o", f"{v}_o", f"{u}_t", f"{v}_t"), by=(n, n))
    outer = [x.attr for x in d.pure_vars if x not in (crossing, d.lhs[-1])]
    _apply(s, "reorder", address, (*outer, f"{u}_o", f"{v}_o", f"{u}_t", f"{v}_t"))
    if at_root:
        _apply(s, "parallel", address, (outer[0] if outer else f"{u}_o",))
    _apply(s, "unroll", address, (f"{u}_t",))
    _apply(s, "vectorize", address, (f"{v}_t",))


def _parallel(s: Schedule, address: str, d: Definition) -> None:
    if d.pure_vars:
        first = d.pure_vars[0].attr
        _apply(s, "parallel", address, (first,))


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


def _reused(d: Definition, var: Node) -> bool:
    """Whether some operand does not depend on a pure variable: several of its points share what is loaded."""
    loads = [n for n in ir.leaves(d.values, "load") if n.attr[0] is not d.func]
    return any(var not in ir.postorder(n.args) for n in loads)


def _tile(s: Schedule, address: str, d: Definition, vector: Node, at_root: bool, registers: Registers) -> None:
    """Vectors along a pure axis; a register tile where operands are reused along another one."""
    lanes = max(4, registers.width // _bytes(d))
    others = [v for v in d.pure_vars if v is not vector]
    reads_itself_elsewhere = any(n.attr[0] is d.func and n.args != d.lhs for n in ir.leaves(d.roots, "load"))
    bare = all(i.op == "var" for i in d.lhs)
    plain = bare and not reads_itself_elsewhere and not isinstance(d.func, InoutFunc)
    reductions = list(d.rdom.ranges) if d.rdom is not None else []
    v = vector.attr
    rows = next((u for u in reversed(others) if _reused(d, u)), None)
    if not plain:
        if at_root and others:
            _apply(s, "parallel", address, (others[0].attr,))
        order = [x.attr for x in others] + reductions + [v]
        if len(order) > 1:
            _apply(s, "reorder", address, tuple(order))
        _apply(s, "vectorize", address, (v,), by=lanes)
        return
    vectors = 2
    _apply(s, "split", address, (v,), results=(f"{v}_o", f"{v}_t"), by=lanes * vectors)
    _apply(s, "split", address, (f"{v}_t",), results=(f"{v}_m", f"{v}_v"), by=lanes)
    outer, inner = [x.attr for x in others if x is not rows], [f"{v}_m", f"{v}_v"]
    if rows is not None:
        r = rows.attr
        count = (registers.count - vectors - 2) // vectors
        _apply(s, "split", address, (r,), results=(f"{r}_o", f"{r}_t"), by=count)
        inner = [f"{r}_t", *inner]
        tile_at, around = f"{r}_o", [*outer, f"{v}_o", f"{r}_o"]
    else:
        tile_at, around = f"{v}_o", [*outer, f"{v}_o"]
    _apply(s, "reorder", address, (*around, *reductions, *inner))
    if at_root:
        _apply(s, "parallel", address, (around[0],))
    for x in inner[:-1]:
        _apply(s, "unroll", address, (x,))
    _apply(s, "vectorize", address, (inner[-1],))
    _apply(s, "cache_write", "", (d.func.name,), at=f"{address}.{tile_at}")


def _lanes(
    s: Schedule, address: str, d: Definition, rvar: Node, reduction: algebra.Reduction, at_root: bool, points: int
) -> None:
    """A reduction along contiguous data: in lanes, and for sums in blocks that combine pairwise.

    `points`: a block that it is limited to (online), which is not divided further.
    """
    k = rvar.attr[1]
    if at_root and d.pure_vars:
        _parallel(s, address, d)
    lanes = min(_LANES_BYTES // _bytes(d), points)
    if reduction.operator == "add" and not reduction.exact and points >= _BLOCK:
        _apply(s, "split", address, (k,), results=(f"{k}_b", f"{k}_i"), by=_BLOCK)
        before = set(s.state.funcs)
        kind = "parallel" if at_root and not d.pure_vars else "rfactor"
        if kind == "parallel":
            _apply(s, "parallel", address, (f"{k}_b",))
        else:
            _apply(s, "rfactor", address, (f"{k}_b",), results=(f"{d.func.name}_{k}_b",))
        partial = next(n for n in s.state.funcs if n not in before)
        address, k = f"{partial}.update[0]", f"{k}_i"
    _apply(s, "vectorize", address, (k,), by=lanes)


def _apply(
    s: Schedule, kind: str, stage: str, operands: tuple[str, ...], results: tuple[str, ...] = (), **options: object
) -> None:
    s.apply(Directive(kind, stage, operands, results, tuple(options.items())))  # type: ignore[arg-type]

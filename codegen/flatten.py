"""From the Nest to the loop IR: tensors become buffers, logical indices become flat offsets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen import loops as L
from tilewright.codegen.beyond import Beyond
from tilewright.codegen.extents import ranges_of, span
from tilewright.codegen.needs import ALWAYS, Need, Needs
from tilewright.codegen.operations import operations
from tilewright.codegen.places import (
    ONE,
    Key,
    Place,
    argument_strides,
    one_slot,
    physical_index,
    row_major,
    strides_of,
)
from tilewright.codegen.transfers import copied
from tilewright.lang import ir, simplify
from tilewright.lang.assumptions import assumptions, broken
from tilewright.lang.errors import CompileError, Location
from tilewright.lang.func import Func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Tensor
from tilewright.lang.types import bool_, i64, index
from tilewright.schedule.nest import (
    Allocation,
    Assign,
    Box,
    Call,
    Guard,
    LoopNode,
    Nest,
    NestNode,
    PrefetchNode,
    Produce,
    Sequence,
    Storage,
    UnitCall,
    children,
)
from tilewright.schedule.prove import Facts
from tilewright.schedule.tiles import OutputArray


def turned(var: Node, body: L.Stmt, scope: Mapping[Key, Place]) -> L.Stmt:
    """The body of a loop, with the slots that its iterations use of the rings which turn with it."""
    rings = {p.buffer: p.storage.turn for p in scope.values() if p.storage.turn is not None}
    for b, turn in reversed(rings.items()):
        if var in ir.leaves((turn,), "var"):
            body = L.Turn(b, turn, body)
    return body


Spreading = tuple[tuple[L.Spread, ...], tuple[int | None, ...]]  # loops, and how much of each axis an element uses


def spread_of(tensor: Tensor, component: int, body: NestNode, seen: frozenset[Key] = frozenset()) -> Spreading:
    """The spatial loops inside of which a buffer is used, where it lives around them, and the reach of an element.
    Nothing where that is not the same for all uses, or not constant. A buffer that is not used there, but copied to or from
    one that is, is spread like that one."""
    key, seen = (tensor, component), seen | {(tensor, component)}
    found: set[tuple[L.Spread, ...] | None] = set()
    used: list[tuple[list[dict[Node, int]], tuple[LoopNode, ...]]] = []
    filled: set[Node] = set()  # variables of the loops in which copies of all parts together stand
    partners: dict[Key, None] = {}
    stack: list[tuple[NestNode, tuple[LoopNode, ...], Mapping[Node, Node]]] = [(body, (), {})]
    while stack:
        n, loops, moved = stack.pop()
        array = tuple(x for x in loops if x.mode == "spatial")
        if isinstance(n, LoopNode):
            if array:  # a loop of a copy starts where its box does
                moved = {**moved, n.var: simplify.add(n.var, ir.substitute((n.start,), moved)[0])}
            loops = (*loops, n)
        if isinstance(n, Assign):
            loads = [m for m in ir.leaves((*n.indices, *n.values), "load") if m.attr == key]
            uses = [m.args for m in loads] + ([n.indices] if n.tensor is tensor else [])
            if array:
                for at in uses:
                    forms = [simplify.linear(i)[0] for i in ir.substitute(at, moved)]
                    found.add(_moves(forms, array))
                    used.append((forms, loops))
                continue
            if uses:
                filled |= {x.var for x in loops}
            if any(m in n.values and m.args == n.indices for m in loads):
                partners[(n.tensor, component)] = None
            elif n.tensor is tensor and len(n.values) > component and n.values[component].op == "load":
                partners.update({n.values[component].attr: None} if n.values[component].args == n.indices else {})
        stack.extend((c, loops, moved) for c in children(n))
    if not found:
        others = {x for k in partners if k not in seen and (x := spread_of(*k, body, seen))[0]}
        return others.pop() if len(others) == 1 else ((), ())
    spread = (found.pop() or ()) if len(found) == 1 else ()
    if not spread:
        return (), ()
    reaches = [[_reach(f, tuple(x for x in loops if x.var not in filled)) for f in forms] for forms, loops in used]
    return spread, tuple(None if None in r else max(x for x in r if x is not None) for r in zip(*reaches, strict=True))


def _moves(forms: list[dict[Node, int]], array: tuple[LoopNode, ...]) -> tuple[L.Spread, ...] | None:
    if any(x.var in ir.leaves((atom,), "var") for f in forms for atom in f if atom.op != "var" for x in array):
        return None
    out = []
    for x in array:
        n = _trips(x)
        if n is None:
            return None
        out.append(L.Spread(x.axis or "", n, tuple(f.get(x.var, 0) for f in forms)))
    return tuple(out)


def _reach(form: Mapping[Node, int], loops: tuple[LoopNode, ...]) -> int | None:
    """How many points an index runs over with the loops around that are not spatial, at most."""
    total, known = 1, ranges_of(loops)
    for x in loops:
        c = form.get(x.var, 0)
        if c and x.mode == "vectorize":
            return None  # lanes of a copy, of which some may be off
        if c and x.mode != "spatial":
            n, found = _trips(x), span(simplify.sub(x.stop, x.start), known)
            if found is not None:
                n = found[1] if n is None else min(n, found[1])
            if n is None:
                return None
            total += abs(c) * max(0, n - 1)
    around = {x.var for x in loops}
    return None if any(atom.op != "var" and around & set(ir.leaves((atom,), "var")) for atom in form) else total


def _trips(x: LoopNode) -> int | None:
    """The iterations of a loop at most, if that is a constant."""
    ends = [e.attr for e in ir.spread(simplify.sub(x.stop, x.start), "min") if e.op == "const"]
    return min(ends) if ends else None


def decided(condition: Node) -> Node:
    """A conjunction without the parts that hold; FALSE where one never does."""
    out: Node = ir.TRUE
    for c in ir.spread(condition, "and"):
        out = simplify.conjunction(out, c)
    return out


def flatten(
    nest: Nest, pipeline: Pipeline, symbol: str, classes: tuple[str, ...], debug: bool = False, origins: bool = False,
    staging: bool = False, repairs: bool = False,
) -> L.Program:  # fmt: skip
    """The loop IR of a Nest. `classes` gives the stride class of every argument (inputs, tables, outputs). With
    `origins` every store says what it computes; with `staging` copies between memories are sections; with `repairs`
    register tiles are computed whole (see `beyond`).

    With `debug`, promises (`tw.assume`) are checked: the kernel has one argument more at the end, an i64 that gets the
    number of a broken promise, counted from 1 in the order of `lang.assumptions`. Statements that rest on a broken
    promise are not executed.
    """
    scope: dict[Key, Place] = {}
    outputs: dict[int, Place] = {}
    buffers = []
    for k, s in enumerate(nest.arguments):
        b = L.Buffer(s.name if s.role != "output" else f"out.{s.name}", s.dtype, None, "main", k, s.role != "input")
        place = Place(s, b, argument_strides(s, k, classes[k]))
        buffers.append(b)
        if s.role == "output":
            assert s.slot is not None
            outputs[s.slot] = place
            scope.setdefault((s.tensor, s.component), place)
        else:
            scope[(s.tensor, s.component)] = place
    ranks = tuple(len(s.layout.axes if s.layout else s.extents) for s in nest.arguments)
    promises = None
    if debug:
        numbers = {place: k for k, place in enumerate(assumptions(pipeline), 1)}
        promises = Promises(L.Buffer("out.broken", i64, None, "main", len(buffers)), numbers)
        buffers.append(promises.broken)
        ranks += (0,)
    flattener = _Flattener(outputs, promises, origins, staging, repairs)
    for p in (*outputs.values(), *(q for q in scope.values() if q.storage.role != "output")):
        flattener.strides.update({(p.storage.name, k): n for k, n in enumerate(p.strides)})
    body = flattener.of(nest.body, scope, Facts())
    return L.Program(
        symbol, tuple(buffers), ranks, pipeline.sizes, pipeline.scalars,
        tuple(c for c, _ in nest.requirements), body,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Promises:
    """Where the number of a broken promise is put, and the number of each by the place where it was written."""

    broken: L.Buffer
    numbers: Mapping[Location | None, int]


class _Flattener:
    def __init__(
        self,
        outputs: Mapping[int, Place],
        promises: Promises | None = None,
        origins: bool = False,
        staging: bool = False,
        repairs: bool = False,
    ):
        self.outputs, self.promises, self.origins, self.staging = outputs, promises, origins, staging
        self.repairs = repairs and promises is None
        self.modes: dict[Node, str] = {}  # of the loops that were entered, by variable
        self.names: dict[str, int] = {}
        self.strides: dict[tuple[str, int], Node] = {}  # (array, axis) -> stride, for conditions

    def of(self, n: NestNode, scope: Mapping[Key, Place], facts: Facts) -> L.Stmt:
        match n:
            case Sequence(items):
                return L.block(*(self.of(i, scope, facts) for i in items))
            case Produce(body=body):
                return self.staged(n, self.of(body, scope, facts), scope, facts)
            case LoopNode(var=var, start=start, stop=stop, mode=mode, body=body):
                inner = facts.entering(var, Interval(start, simplify.sub(stop, ONE)))
                ends = self.values((start, stop), scope, facts)
                self.modes[var] = mode
                made = self.of(body, scope, inner)
                if self.staging:
                    made = turned(var, made, scope)
                if mode == L.VECTORIZE and self.checks(made):
                    mode = L.SERIAL  # lanes can't report on their own
                if mode == "spatial":
                    mode = L.SERIAL
                axis = n.axis if self.origins else ""
                stage = n.address.rpartition(".")[0]
                loop = L.For(
                    var, ends[0], ends[1], mode, made, part="never" if axis else n.part, axis=axis, stage=stage
                )
                made = self.checked((start, stop), loop, scope, facts)
                return made if n.call is None or not self.staging else self.unit(n.address, n.call, made, scope, facts)
            case Guard(condition, then, None, True) if self.private(then, scope, facts):
                return self.of(then, scope, facts)
            case Guard(condition, then, None, True) if (
                self.repairs and (whole := Beyond(scope, self.modes, _holds).of(condition, then, facts)) is not None
            ):
                return self.of(whole, scope, facts)
            case Guard(condition, then, otherwise):
                (c,) = self.values((condition,), scope, facts)
                inside = scope
                if ir.leaves((condition,), "stride"):
                    c = decided(c)
                    if c.op == "const":
                        return self.of(then if c is ir.TRUE else otherwise or Sequence(()), scope, facts)
                    inside = {k: p.where(c) for k, p in scope.items()}
                yes = self.of(then, inside, facts.where(condition))
                no = None if otherwise is None else self.of(otherwise, scope, facts)
                return self.checked((condition,), L.If(c, yes, no), scope, facts)
            case Allocation(storages, body):
                return self.allocate(storages, body, scope, facts)
            case Assign(indices=indices, values=values):
                return self.checked((*indices, *values), self.assign(n, scope, facts), scope, facts)
            case Call():
                return self.call(n, scope, facts)
            case PrefetchNode(tensor, region, write):
                return self.prefetch(tensor, region, write, scope)
        raise TypeError(n)

    def unit(self, address: str, call: UnitCall, s: L.Stmt, scope: Mapping[Key, Place], facts: Facts) -> L.Stmt:
        """`s`, which a unit of the machine does as one call."""
        views = []
        for tensor, component, box in call.operands:
            place = scope[(tensor, component)]
            ends = [(r.lo, r.hi) for r in box if r.lo is not None and r.hi is not None]
            starts = tuple(lo for lo, _ in ends)
            extents = tuple(simplify.maximum(simplify.add(simplify.sub(hi, lo), ONE), integer(0)) for lo, hi in ends)
            apart = strides_of(place, len(ends)) or (integer(0),) * len(ends)  # in blocks: they have no strides
            view = L.View(place.buffer, place.offset(starts), starts, extents, apart)
            views.append(view.replaced(self.values(view.nodes, scope, facts)))
        roles = self.values(call.extents, scope, facts)
        return L.Section(L.UNIT, address.rpartition(".")[0], s, unit=call.unit, operands=tuple(views), roles=roles)

    def staged(self, n: Produce, s: L.Stmt, scope: Mapping[Key, Place], facts: Facts) -> L.Stmt:
        """`s`, which computes `n`; if that is a copy between two memories, as a section that says so."""
        if not self.staging:
            return s

        def find(tensor: Tensor, component: int) -> Place | None:
            if isinstance(tensor, OutputArray):
                return self.outputs[tensor.slot]
            return scope.get((tensor, component))

        found = copied(n, find)
        if found is None:
            return s
        moved = tuple(t.replaced(self.values(t.nodes, scope, facts)) for t in found.transfers)
        return L.Section(L.COPY, found.name, s, moved, asynchronous=n.asynchronous, reason=found.reason)

    def checked(self, roots: tuple[Node, ...], s: L.Stmt, scope: Mapping[Key, Place], facts: Facts) -> L.Stmt:
        """`s`, which evaluates `roots`; in debug mode only where all promises below them are kept."""
        code = None if self.promises is None else broken(roots, self.promises.numbers)
        if self.promises is None or code is None:
            return s
        (code,) = self.values((code,), scope, facts)
        report = L.Store(((self.promises.broken, integer(0)),), (code,))
        return L.If(ir.node("ne", bool_, (code, ir.const(0, i64))), report, s)

    def checks(self, s: L.Stmt) -> bool:
        """Whether `s` reports broken promises."""
        if self.promises is None:
            return False
        stores = (t for t in L.walk(s) if isinstance(t, L.Store))
        return any(b is self.promises.broken for t in stores for b, _ in t.targets)

    def private(self, n: NestNode, scope: Mapping[Key, Place], facts: Facts) -> bool:
        """Whether everything that `n` touches lies inside its buffers even without the guard around it, and what it
        writes is a temporary. Values that it computes too much are never read (see `Guard.optional`)."""
        match n:
            case Sequence(items):
                return all(self.private(i, scope, facts) for i in items)
            case Produce(body=body):
                return self.private(body, scope, facts)
            case LoopNode(var=var, start=start, stop=stop, body=body):
                inside = facts.entering(var, Interval(start, simplify.sub(stop, ONE)))
                return self.reads_inside((start, stop), scope, facts) and self.private(body, scope, inside)
            case Guard(condition, then, otherwise, optional):
                inner = facts if optional else facts.where(condition)
                return (
                    otherwise is None
                    and (optional or self.reads_inside((condition,), scope, facts))
                    and self.private(then, scope, inner)
                )
            case Assign(tensor=tensor, indices=indices, values=values):
                mine = scope.get((tensor, 0))
                if mine is None or mine.storage.role != "temporary" or not _holds(mine.storage, indices, facts):
                    return False
                return self.reads_inside((*indices, *values), scope, facts)
        return False

    def reads_inside(self, roots: tuple[Node, ...], scope: Mapping[Key, Place], facts: Facts) -> bool:
        """Whether everything that these load lies inside its buffer."""
        for load in ir.leaves(roots, "load"):
            place = scope.get(load.attr)
            if place is None or any(n.op in ("load", "assume") for n in ir.postorder(load.args)):
                return False  # promises say nothing of points that nobody needs
            if not _holds(place.storage, load.args, facts):
                return False
        return True

    def allocate(
        self, storages: tuple[Storage, ...], body: NestNode, scope: Mapping[Key, Place], facts: Facts
    ) -> L.Stmt:
        inner = dict(scope)
        made = []
        for s in storages:
            extents = s.layout.extents(s.extents) if s.layout else s.extents
            strides = row_major(extents)
            size = simplify.mul(one_slot(s), integer(s.slots))
            spread, reach = spread_of(s.tensor, s.component, body) if self.staging else ((), ())
            box = s.extents if spread else ()
            b = L.Buffer(self.fresh(s.name), s.dtype, size, s.memory, None, True, s.slots, spread, box, reach)
            inner[(s.tensor, s.component)] = Place(s, b, strides)
            made.append(b)
        out = self.of(body, inner, facts)
        for b in reversed(made):
            out = L.Allocate(b, out)
        return out

    def fresh(self, name: str) -> str:
        k = self.names.get(name, 0)
        self.names[name] = k + 1
        return name if k == 0 else f"{name}~{k}"

    def assign(self, n: Assign, scope: Mapping[Key, Place], facts: Facts) -> L.Stmt:
        roots = self.values((*n.indices, *n.values), scope, facts)
        rank = len(n.indices)
        indices, values = roots[:rank], roots[rank:]
        targets, stream = [], False
        for k in range(len(values)):
            p = self.outputs[n.tensor.slot] if isinstance(n.tensor, OutputArray) else scope[(n.tensor, k)]
            targets.append((p.buffer, p.offset(indices)))
            stream = stream or p.storage.stream
        values = tuple(ir.node("cast", i64, (v,)) if v.dtype is index else v for v in values)
        did = operations(n.values) if self.staging else ()
        origin = L.Origin(n.stage, n.point, n.spare, did) if self.origins else None
        return L.Store(tuple(targets), values, stream, origin)

    def call(self, n: Call, scope: Mapping[Key, Place], facts: Facts) -> L.Stmt:
        """A function of the user's, on views; nothing is called where nothing is asked for."""

        def view(tensor: Tensor, component: int, box: Box) -> L.View:
            place = scope[(tensor, component)]
            ends = [
                (r.lo, r.hi) for r in box if r.lo is not None and r.hi is not None
            ]  # both are there: see externs.call
            starts = tuple(lo for lo, _ in ends)
            extents = tuple(simplify.maximum(simplify.add(simplify.sub(hi, lo), ONE), integer(0)) for lo, hi in ends)
            apart = strides_of(place, len(box))
            assert apart is not None  # see externs.check_stages
            made = L.View(place.buffer, place.offset(starts), starts, extents, apart)
            return made.replaced(self.values(made.nodes, scope, facts))

        assert isinstance(n.tensor, Func)
        out = tuple(view(n.tensor, k, n.region) for k in range(len(n.tensor.dtypes)))
        given = tuple(
            self.values((a,), scope, facts)[0]
            if isinstance(a, Node)
            else tuple(view(a[0], k, box) for k, box in enumerate(a[1]))
            for a in n.arguments
        )
        some: Node = ir.TRUE
        for e in out[0].extents:
            some = simplify.conjunction(some, simplify.compare("ge", e, ONE))
        called = L.Call(n.stage, n.number, n.called, out, given)
        return called if some is ir.TRUE else L.If(some, called)

    def values(self, roots: tuple[Node, ...], scope: Mapping[Key, Place], facts: Facts) -> tuple[Node, ...]:
        """Expressions with flat loads; a load that only a select's condition keeps inside becomes conditional."""
        needs = Needs()
        conditions: dict[tuple[Node, Need], Node] = {}

        def flat(roots: tuple[Node, ...], base: Need) -> tuple[Node, ...]:
            found = needs.of_loads(roots, base)

            def one(n: Node, args: tuple[Node, ...]) -> Node:
                if n.op == "stride":
                    return self.strides.get(n.attr, n)
                if n.op == "select" and args[1].op == "load_if" and args[1].args[0] is args[0] and _is_zero(args[2]):
                    return args[1]  # which is zero where its condition does not hold
                if n.op != "load":
                    return ir.rebuild(n, args)
                p = scope.get(n.attr)
                if p is None:
                    raise CompileError(f"{n.attr[0].name} is read outside of where it is stored", code="compile.scope")
                load = ir.node("load", n.dtype, (p.offset(args),), (p.buffer, 0))
                if found[n] is ALWAYS or _within(n, p.storage, facts):
                    return load
                mask = needs.mask(found[n], condition)
                return load if mask is ir.TRUE else ir.node("load_if", n.dtype, (mask, *load.args), load.attr)

            return ir.transform(roots, one)

        def condition(c: Node, outer: Need) -> Node:
            key = (c, outer)
            if key not in conditions:
                (conditions[key],) = flat((c,), outer)
            return conditions[key]

        return flat(roots, ALWAYS)

    def prefetch(self, tensor: Tensor, region: tuple[Interval, ...], write: bool, scope: Mapping[Key, Place]) -> L.Stmt:
        """One hint a cache line of every row of the region, in the array of every component."""
        places = [p for (t, _), p in scope.items() if t is tensor]
        return L.block(*(self.hints(p, tensor, region, write) for p in places))

    def hints(self, p: Place, tensor: Tensor, region: tuple[Interval, ...], write: bool) -> L.Stmt:
        line = max(1, 64 // p.buffer.dtype.bytes)
        at: list[Node] = []
        wraps = []
        for k, r in enumerate(region):
            assert r.lo is not None and r.hi is not None
            v = ir.var(f"prefetch.{tensor.name}.{k}")
            n = simplify.add(simplify.sub(r.hi, r.lo), ONE)
            if k == len(region) - 1:
                at.append(simplify.add(r.lo, simplify.mul(v, integer(line))))
                n = simplify.floordiv(simplify.add(n, integer(line - 1)), integer(line))
            else:
                at.append(simplify.add(r.lo, v))
            wraps.append((v, n))
        out: L.Stmt = L.Prefetch(p.buffer, p.offset(tuple(at)), write)
        for v, n in reversed(wraps):
            out = L.For(v, integer(0), n, L.UNROLL if n.op == "const" and n.attr <= 16 else L.SERIAL, out)
        return out


def _is_zero(n: Node) -> bool:
    return n.op == "const" and not n.attr and math.copysign(1.0, n.attr) > 0


def _within(n: Node, s: Storage, facts: Facts) -> bool:
    """Whether a load certainly stays inside its storage, whatever a select around it says."""
    if s.folds:
        return _holds(s, n.args, facts)
    for i, o, e in zip(n.args, s.origin, s.extents, strict=True):
        if not facts.nonnegative(simplify.sub(i, o)):
            return False
        if not facts.nonnegative(simplify.sub(simplify.sub(simplify.add(o, e), ONE), i)):
            return False
    return True


def _holds(s: Storage, indices: tuple[Node, ...], facts: Facts) -> bool:
    """Whether a place certainly lies inside the memory of a storage, padding included."""
    physical = physical_index(s, indices)
    extents = s.layout.extents(s.extents) if s.layout else s.extents
    return all(
        facts.nonnegative(i) and facts.nonnegative(simplify.sub(simplify.sub(e, ONE), i))
        for i, e in zip(physical, extents, strict=True)
    )

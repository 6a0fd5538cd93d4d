"""Whether the loops that are emitted compute what the Nest promises: each point once, none left out, none besides.

`check(program, nest, pipeline, trials)` runs through the loops of a lowered program without computing values, at a few
sizes, and lists which points of which definition every store computes. Beside it stands what is promised: for every
place where a stage is computed, the box of its region and of its reduction domain, less what its predicates exclude
(`schedule.nest.Points`, which comes from the algorithm and bounds inference, not from the loops). Besides, the stages
of an output compute all of the array that is returned, windows that slide have computed what is needed of them, and
iterations whose copies may be under way together use different slots of a ring.

What it proves, for the sizes that it looks at: splits, tails, fusing, guards, parted, peeled, shared and specialised
loops, tiles and their copies lose no point, double none, and add none but those that a tail or a private tile may
compute in vain. It proves nothing about other sizes: these are chosen around the constants in loop bounds and
conditions, where loops change their form. It does not look at values, indices of memory or the order of iterations.
Where a bound or a condition depends on values that the kernel computes itself, the stages inside are not judged.

Columns of NumPy arrays stand for all iterations at once: a small call takes a millisecond or two, a million points
about a second.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tilewright.codegen import loops as L
from tilewright.codegen.iterations import Rows, Situation, TooManyError, UnknownValueError
from tilewright.lang import ir, simplify
from tilewright.lang.errors import CoverageError
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Array
from tilewright.lang.values import index_value
from tilewright.schedule import nest as N

POINTS = 200_000  # of one call: larger ones are not looked at
ONE = integer(1)

Table = np.ndarray  # points as rows


@dataclass(frozen=True, eq=False)
class Subject:
    """What is checked, with what is worked out once for all calls."""

    program: L.Program
    nest: N.Nest
    pipeline: Pipeline
    most: int = POINTS
    orders: dict[tuple[Node, ...], list[Node]] = field(default_factory=dict)

    @cached_property
    def points(self) -> dict[str, N.Points]:
        """One of the promises of every stage."""
        return {p.stage: p for m in N.walk(self.nest.body) if isinstance(m, N.Produce) for p in m.points}

    @cached_property
    def producing(self) -> set[N.NestNode]:
        """The nodes in which something is promised."""
        found: set[N.NestNode] = set()
        for m in reversed(list(N.walk(self.nest.body))):
            if isinstance(m, N.Produce) or any(c in found for c in N.children(m)):
                found.add(m)
        return found


@dataclass(frozen=True, eq=False)
class Call:
    """One call: its sizes, and its arguments where a bound or condition depends on them."""

    pipeline: Pipeline
    sizes: Mapping[str, int]
    seed: int

    @cached_property
    def inputs(self) -> dict[str, Any]:
        from tilewright.lang.samples import random_inputs

        return random_inputs(self.pipeline, self.sizes, self.seed)

    def array(self, name: str) -> np.ndarray | None:
        table = next((t.values for t in self.pipeline.tables if t.name == name), None)
        return table if table is not None else self.inputs.get(name)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.sizes.items())


# What is promised and what is computed ----------------------------------------------------------------------------


@dataclass(eq=False)
class Found:
    """Points by stage, and those that are computed in vain; `unknown` are the stages that can't be judged. `windows`
    has what is there and what is needed of a Func, `reused` the iterations that use a slot of a ring too early."""

    points: dict[str, list[Table]] = field(default_factory=dict)
    spare: dict[str, list[Table]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    windows: dict[str, list[tuple[Table, Table]]] = field(default_factory=dict)
    reused: dict[str, list[Table]] = field(default_factory=dict)

    def add(self, stage: str, table: Table, spare: Table | None = None) -> None:
        self.points.setdefault(stage, []).append(table)
        if spare is not None and len(spare):
            self.spare.setdefault(stage, []).append(spare)


def promised(subject: Subject, at: Situation) -> Found:
    """Every point that some place of the Nest promises to compute."""
    out = Found()
    stack: list[tuple[N.NestNode, Rows]] = [(subject.nest.body, Rows(at))]
    while stack:
        n, rows = stack.pop()
        if n not in subject.producing or not rows.n:
            continue
        try:
            match n:
                case N.LoopNode(var=var, start=start, stop=stop, body=body):
                    stack.append((body, rows.over(var, start, stop)))
                case N.Allocation(storages, N.LoopNode() as loop):
                    _rings(storages, loop, rows, out)
                    stack.append((loop, rows))
                case N.Guard(condition, then, otherwise):
                    yes, no = rows.parted(condition)
                    stack.append((then, yes))
                    if otherwise is not None:
                        stack.append((otherwise, no))
                case _:
                    if isinstance(n, N.Produce):
                        _promise(n, rows, out)
                    stack.extend((c, rows) for c in N.children(n))
        except UnknownValueError:
            out.unknown |= {p.stage for m in N.walk(n) if isinstance(m, N.Produce) for p in m.points}
    return out


def _promise(n: N.Produce, rows: Rows, out: Found) -> None:
    for p in n.points:
        try:
            inside = rows.where(p.condition).over_box(p.roots, p.box)
            for c in p.predicates:
                inside = inside.where(c)
        except UnknownValueError:
            out.unknown.add(p.stage)
            continue
        out.add(p.stage, inside.table(p.roots))
    if n.needed is not None:
        axes = _axes(len(n.needed))
        there, needed = (rows.over_box(axes, box).table((*n.kept, *axes)) for box in (n.region, n.needed))
        out.windows.setdefault(n.name, []).append((there, needed))


def _rings(storages: Sequence[N.Storage], loop: N.LoopNode, rows: Rows, out: Found) -> None:
    """Iterations whose copies may be under way at once must use different slots: as many in a row as there are."""
    entry = ir.var("entry")
    inside = Rows(rows.at, rows.n, {**rows.columns, entry: np.arange(rows.n)}).over(loop.var, loop.start, loop.stop)
    for s in storages:
        if s.turn is not None:
            table = inside.table((entry, loop.var, s.turn))
            for d in range(1, s.slots):
                same = (table[d:, 0] == table[:-d, 0]) & (table[d:, 2] == table[:-d, 2])
                out.reused.setdefault(s.name, []).append(table[d:][same][:, 1:])


def computed(program: L.Program, at: Situation) -> Found:
    """Every point that some store of a program computes."""
    out = Found()
    stack: list[tuple[L.Stmt, Rows]] = [(program.body, Rows(at))]
    while stack:
        s, rows = stack.pop()
        if not rows.n:
            continue
        try:
            match s:
                case L.For(var, start, stop, _, body):
                    stack.append((body, rows.over(var, start, stop)))
                case L.If(_, then, otherwise) if otherwise is not None and not any(_stages(then)):
                    stack.append((otherwise, rows))  # `then` reports a broken promise (`tw.assume`): they are kept
                case L.If(condition, then, otherwise):
                    yes, no = rows.parted(condition)
                    stack.append((then, yes))
                    if otherwise is not None:
                        stack.append((otherwise, no))
                case L.Store(origin=L.Origin(stage, point, spare)):
                    vain = np.zeros(rows.n, bool) if spare is ir.FALSE else rows.values((spare,))[0]
                    table = rows.table(point)
                    out.add(stage, table[~vain], table[vain])
                case L.Call(stage, out=(first, *_)):
                    axes = _axes(len(first.origin))
                    ends = (simplify.add(o, e) for o, e in zip(first.origin, first.extents, strict=True))
                    box = [Interval(o, simplify.sub(e, ONE)) for o, e in zip(first.origin, ends, strict=True)]
                    out.add(stage, rows.over_box(axes, box).table(axes))
                case _:
                    stack.extend((c, rows) for c in L.children(s))
        except UnknownValueError:
            out.unknown |= set(_stages(s))
    return out


def _axes(rank: int) -> tuple[Node, ...]:
    return tuple(ir.var(f"axis {k}") for k in range(rank))


def _stages(s: L.Stmt) -> Iterator[str]:
    for t in L.walk(s):
        if isinstance(t, L.Store) and t.origin is not None:
            yield t.origin.stage
        elif isinstance(t, L.Call):
            yield t.stage


# Comparison -----------------------------------------------------------------------------------------------------


def check(
    program: L.Program, nest: N.Nest, pipeline: Pipeline, trials: int, most: int = POINTS
) -> tuple[int, frozenset[str]]:
    """Look at `trials` calls; the number of those that are legal and small enough, and the stages not judged in all.

    Raises CoverageError: `coverage.missing`, `coverage.twice`, `coverage.beyond`, `coverage.slot`.
    """
    looked, unknown = 0, frozenset[str]()
    subject = Subject(program, nest, pipeline, most)
    for call in _calls(subject, trials):
        try:
            found = check_call(subject, call)
        except TooManyError:
            continue
        if found is not None:
            looked, unknown = looked + 1, unknown | found
    return looked, unknown


def check_call(subject: Subject, call: Call) -> frozenset[str] | None:
    """The same for one call; the stages that are not judged, or None where the call is not legal."""
    inner, outer = _situations(subject, call)
    for c in subject.program.requirements:
        if not np.all(Rows(inner).values((c,))[0]):
            return None
    want, have = promised(subject, outer), computed(subject.program, inner)
    unknown = want.unknown | have.unknown
    for stage in dict.fromkeys((*want.points, *have.points)):
        if stage not in unknown:
            tables = (t.get(stage, []) for t in (want.points, have.points, have.spare))
            _compare(subject, call, stage, subject.points.get(stage), *tables)
    for o in subject.pipeline.outputs:
        stages = [s for s in want.points if _plain(s) in (o.func.name, f"{o.func.name}.init")]
        if stages and not unknown.intersection(stages):
            place = subject.points[stages[0]]
            box = [Interval(a, simplify.sub(b, ONE)) for a, b in zip(o.starts, o.stops, strict=True)]
            whole = Rows(outer).over_box(place.roots, box).table(place.roots)
            _compare(subject, call, stages[0], place, [whole], [], [t for s in stages for t in want.points[s]])
    for name, pairs in want.windows.items():
        there, needed = ([p[k] for p in pairs] for k in (0, 1))
        what = f"what is needed of {name} in a sliding window"
        _compare(subject, call, what, None, [_distinct(np.concatenate(needed))], [], there)
    for name, reused in want.reused.items():
        if any(len(t) for t in reused):
            what = f"a slot of the ring {name} at iteration, slot"
            raise _error(subject, call, what, None, "slot", np.concatenate(reused))
    return frozenset(unknown)


def _plain(stage: str) -> str:
    """The stage that a form is one of."""
    return re.sub(r"\{[^{}]*\}", "", stage)


def _compare(
    subject: Subject, call: Call, stage: str, place: N.Points | None,
    want: list[Table], have: list[Table], spare: list[Table],
) -> None:  # fmt: skip
    """Every wanted point is there; it may be a spare one. What is not spare is there as often as wanted."""
    tables = [np.concatenate(t) if t else None for t in (want, have, spare)]
    some = [t for t in tables if t is not None]
    points, (e, a, s) = _counted(np.concatenate(some), [0 if t is None else len(t) for t in tables])
    for code, wrong in (("missing", e > a + s), ("twice", (a > e) & (e > 0)), ("beyond", (a > 0) & (e == 0))):
        if wrong.any():
            raise _error(subject, call, stage, place, code, points[wrong])


def _counted(rows: Table, lengths: list[int]) -> tuple[Table, list[np.ndarray]]:
    """The different rows, and how often each is in the first, second, ... of the tables that were joined."""
    code = np.zeros(len(rows), np.int64)
    if len(rows):
        low = rows.min(axis=0)
        for k, n in enumerate(rows.max(axis=0) - low + 1):
            code = code * n + (rows[:, k] - low[k])
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    ends = np.cumsum([0, *lengths])
    return rows[first], [np.bincount(which[a:b], minlength=len(first)) for a, b in pairwise(ends)]


def _distinct(rows: Table) -> Table:
    return _counted(rows, [])[0]


_WORDS = {
    "missing": "is not computed",
    "twice": "is computed more than once",
    "beyond": "is computed and is no point of it",
    "slot": "is used again while its copy may still be under way",
}


def _error(subject: Subject, call: Call, stage: str, place: N.Points | None, code: str, wrong: Table) -> CoverageError:
    names = [] if place is None else [str(r.attr if r.op == "var" else r.attr[-1]) for r in place.roots]
    names += [f"axis {k}" for k in range(len(names), wrong.shape[1])]
    shown = ", ".join(f"{n}={v}" for n, v in zip(names, wrong[0], strict=True)) or "its only point"
    more = f" (and {len(wrong) - 1:,} other points)" if len(wrong) > 1 else ""
    around = next(_loops_around(subject.program, stage), ())
    inside = f", in the loops {' '.join(around)}" if around else ""
    return CoverageError(
        f"{stage}: {shown} {_WORDS[code]}{more}{inside}{f', with {call}' if call.sizes else ''}",
        code=f"coverage.{code}", where=None if place is None else place.location,
        stage=stage, points=tuple(map(tuple, wrong.tolist())),
        hint="the loops that were made of a legal schedule are wrong: this is a mistake of tilewright's, please report it "
        "with the kernel and its schedule",
    )  # fmt: skip


def _loops_around(program: L.Program, stage: str) -> Iterator[tuple[str, ...]]:
    """The loops around each store of a stage, outermost first."""
    stack: list[tuple[L.Stmt, tuple[str, ...]]] = [(program.body, ())]
    while stack:
        s, around = stack.pop()
        if isinstance(s, L.Store) and s.origin is not None and s.origin.stage == stage:
            yield around
        inner = (*around, s.var.attr.rpartition(".")[2]) if isinstance(s, L.For) else around
        stack.extend((c, inner) for c in reversed(L.children(s)))


# Calls to look at -----------------------------------------------------------------------------------------------

_SMALL = (0, 1, 2, 3, 5, 7, 13)
_LARGEST = 4096


def _calls(subject: Subject, trials: int) -> Iterator[Call]:
    """Calls around the constants of the program's loops: as a rule one size near a constant, the others small."""
    p = subject.pipeline
    near = sorted({m for c in _constants(subject.program) for m in (c - 1, c, c + 1, 2 * c + 1)}) or [17]
    rnd = random.Random(0)
    for k in range(trials if p.sizes else 1):
        sizes = {n: rnd.choice(_SMALL[(2 - k) % 3 :]) for n in p.sizes}
        for n in rnd.sample(list(sizes), min(len(sizes), 2 if k % 4 == 3 else 1)):
            sizes[n] = rnd.choice(near)
        if all(index_value(e, sizes) >= 0 for a in p.arrays for e in a.extents):
            yield Call(p, sizes, k)


def _constants(program: L.Program) -> set[int]:
    """Where loops change their form: the constants of bounds and conditions."""
    roots: list[Node] = []
    for s in L.walk(program.body):
        if isinstance(s, L.For):
            roots += (s.start, s.stop)
        elif isinstance(s, L.If):
            roots.append(s.condition)
    found = {abs(n.attr) for n in ir.postorder(roots) if n.op == "const" and n.dtype.is_int}
    return {c for c in found if 2 <= c <= _LARGEST}


def _situations(subject: Subject, call: Call) -> tuple[Situation, Situation]:
    """A call as the loop IR and as the Nest see it: arrays and their strides have other names there."""
    p, index = subject.pipeline, ONE.dtype
    known: dict[Node, Any] = {ir.size(n): np.int64(v) for n, v in call.sizes.items()}
    known |= {s.node: s.node.dtype.np.type(call.inputs[s.name]) for s in p.scalars}
    flat, named = dict(known), dict(known)
    env = {**call.sizes, **{s.name: call.inputs[s.name] for s in p.scalars}}
    extents = {a.name: a.extents for a in (*p.arrays, *p.tables)} | {f"out.{o.name}": o.extents for o in p.outputs}
    for k, b in enumerate(subject.program.arguments):
        step = 1
        for axis, e in reversed(list(enumerate(extents.get(b.name, ())))):
            flat[ir.node("stride", index, (), (k, axis))] = np.int64(step)
            named[ir.node("stride", index, (), (b.name.removeprefix("out."), axis))] = np.int64(step)
            step *= max(index_value(e, env), 1)

    def of_buffer(n: Node) -> np.ndarray | None:
        b: L.Buffer = n.attr[0]
        return None if b.argument is None or b.writable else call.array(b.name)

    def of_tensor(n: Node) -> np.ndarray | None:
        return call.array(n.attr[0].name) if isinstance(n.attr[0], Array) else None

    make = (subject.most, subject.orders)
    return Situation(flat, of_buffer, *make), Situation(named, of_tensor, *make)


__all__ = ["POINTS", "check", "check_call"]

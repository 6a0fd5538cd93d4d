"""What a plan comes to at the sizes that it was made for, and beside it what the same pipeline takes op by op.

Everything is counted from the algorithm and the plan, and times are the planner's model of the machine; nothing runs. The
naive plan stores every Func whole and reads it back: no Func is inlined, none is computed in tiles of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.pipeline import Pipeline, ScalarParam, array_of
from tilewright.lang.tensors import Array, Tensor
from tilewright.lang.values import Env, index_values
from tilewright.planner.cut import Buffer
from tilewright.planner.measure import Traffic, Work, measure, together
from tilewright.planner.model import Model
from tilewright.planner.places import Lifetime, lowest

if TYPE_CHECKING:
    from tilewright.planner.plan import Plan, Step

_LAUNCH = 2000.0  # cycles that an operation takes besides its work when it runs by itself


@dataclass(frozen=True)
class StepFigures:
    """One step. `funcs` are all that it computes, `inlined` and `tiled` those of them that it never stores whole.

    `read` and `written` are bytes, of each element from outside once (where a step has an account, those of main memory
    in it); `computing` and `moving` cycles of the arithmetic and
    of these bytes from where they fit; `cycles` is what the planner thought that the region takes, tiles that read again
    included. `peak` and `ridge` are the machine's for this mix of operations: operations a cycle at most, and the operations
    a byte of main memory from which on the arithmetic is the limit. `kernel` numbers the kernels: equal ones are one.
    """

    name: str
    kernel: int
    funcs: tuple[str, ...]
    inlined: tuple[str, ...]
    tiled: tuple[str, ...]
    flops: float
    read: int
    written: int
    computing: float
    moving: float
    cycles: float
    level: str
    peak: float
    ridge: float

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else math.inf

    @property
    def limit(self) -> str:
        """What takes longer: `compute`, or the memory that most of its bytes come from."""
        return "compute" if self.computing >= self.moving else self.level


@dataclass(frozen=True)
class Memory:
    """Bytes that live: `weights` are inputs whose shape no size changes (or that were said to be weights), `inputs` the
    others, `caches` what is updated in place, `buffers` the block that holds what passes between steps, and `peak` all of
    it together: what a call has in use at most."""

    weights: int
    inputs: int
    caches: int
    outputs: int
    buffers: int

    @property
    def peak(self) -> int:
        return self.weights + self.inputs + self.caches + self.outputs + self.buffers


@dataclass(frozen=True)
class Totals:
    """A plan as a whole. `stored` of the `funcs` pass through memory whole; `computing` are the cycles of the arithmetic;
    `conversions` is how often a tensor is brought into another layout."""

    funcs: int
    stored: int
    steps: int
    kernels: int
    read: int
    written: int
    flops: float
    computing: float
    cycles: float
    memory: Memory
    conversions: int = 0

    @property
    def fusion_rate(self) -> float:
        """The share of all Funcs that are never stored whole."""
        return 1 - self.stored / self.funcs if self.funcs else 0.0

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes if self.bytes else math.inf

    @property
    def utilisation(self) -> float:
        """The share of the time in which the machine computes at its full rate."""
        return min(1.0, self.computing / self.cycles) if self.cycles else 0.0


@dataclass(frozen=True)
class Metrics:
    """The figures of a plan and of the `naive` one, at `sizes` on a machine of `clock_ghz`.

    `tokens` is the size that counts tokens, where one was named. `roofs` are the bandwidths of the machine's levels in
    bytes a cycle, main memory last.
    """

    machine: str
    clock_ghz: float
    sizes: Mapping[str, int]
    tokens: str | None
    plan: Totals
    naive: Totals
    steps: tuple[StepFigures, ...]
    roofs: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """What the plan is thought to take."""
        return self.plan.cycles / (self.clock_ghz * 1e9)

    @property
    def bytes_per_token(self) -> float | None:
        if self.tokens is None:
            return None
        return self.plan.bytes / max(1, self.sizes[self.tokens])

    def __str__(self) -> str:
        from tilewright.planner.reports.text import metrics_text

        return metrics_text(self)


def metrics_of(plan: Plan) -> Metrics:
    """The figures of a plan at the sizes that it was made for."""
    model, p = Model(plan.machine, plan.goal), plan.pipeline
    works = measure(p, plan.sizes)
    steps = _steps(plan, works, model)
    memory = _arrays(p, plan.sizes, plan.weights)
    stored = {b.func for s in plan.steps for b in s.part.outputs}
    stored |= {s.region.root for s in plan.steps if isinstance(s.region.root, InoutFunc)}
    totals = _totals(
        len(works), len(stored), len({s.kernel for s in steps}), steps, _with(memory, plan.places(plan.sizes).size),
        len(plan.layouts.chosen.conversions),
    )  # fmt: skip
    naive = _naive(p, works, model, memory, plan.sizes)
    roofs = {x.name: x.bandwidth for x in model.levels}
    return Metrics(
        plan.machine.name, plan.machine.clock_ghz, dict(plan.sizes), plan.tokens, totals, naive, steps, roofs
    )


def _totals(
    funcs: int, stored: int, kernels: int, steps: tuple[StepFigures, ...], memory: Memory, conversions: int = 0
) -> Totals:
    def total(name: str) -> float:
        return sum(getattr(s, name) for s in steps)

    return Totals(
        funcs, stored, len(steps), kernels, int(total("read")), int(total("written")), total("flops"),
        total("computing"), total("cycles"), memory, conversions,
    )  # fmt: skip


# Steps ------------------------------------------------------------------------------------------------------------


def _steps(plan: Plan, works: Mapping[Func, Work], model: Model) -> tuple[StepFigures, ...]:
    numbers: dict[tuple[str, str], int] = {}
    by_name = {f.name: f for f in works}
    found = []
    for s in plan.steps:
        key = s.part.pipeline.digest, str(s.schedule)
        kernel = numbers.setdefault(key, len(numbers))
        funcs = [by_name[n] for n in dict.fromkeys(s.part.names.values()) if n in by_name]
        found.append(_figures(s, kernel, _computed(s, funcs), works, model))
    return tuple(found)


def _computed(s: Step, funcs: list[Func]) -> list[Func]:
    """Those of the Funcs named in a part that it computes: not what comes from outside."""
    outside = {x.func if isinstance(x, Buffer) else x for x in s.part.inputs}
    return [f for f in funcs if f not in outside or f in s.region.members]


def _figures(s: Step, kernel: int, funcs: list[Func], works: Mapping[Func, Work], model: Model) -> StepFigures:
    members = set(s.region.members)
    results = list(dict.fromkeys(b.func for b in s.part.outputs)) or [s.region.root]
    t = together(works, funcs, [f for f in results if not isinstance(f, InoutFunc)])
    written = t.written + sum(_updated(works[f]) for f in funcs if isinstance(f, InoutFunc))
    stored = {*results, s.region.root}
    made = _made(s.name, kernel, Traffic(t.operations, t.read, written), _sources(works, funcs), model)
    made = replace(
        made,
        funcs=tuple(f.name for f in funcs),
        inlined=tuple(f.name for f in funcs if f not in members and f not in stored),
        tiled=tuple(f.name for f in funcs if f in members and f not in stored),
        cycles=s.region.cycles,
    )
    return _accounted(s, made)


def _accounted(s: Step, made: StepFigures) -> StepFigures:
    """What the planner thinks that a step takes: by its account where there is one, which knows what tiles read again."""
    account = s.staged.account if s.staged is not None else None
    if account is None or account.time is None:
        return made
    assert s.schedule.machine is not None
    main = account.of(s.schedule.machine.main.name)
    return replace(made, cycles=account.time.cycles, read=main.bytes_read, written=main.bytes_written)


def _updated(w: Work) -> int:
    """The bytes that are written in place: no more than there are, and no more than its updates write."""
    return int(min(w.bytes, sum(w.points) * sum(t.bytes for t in w.func.dtypes)))


def _sources(works: Mapping[Func, Work], funcs: Iterable[Func]) -> dict[Tensor, int]:
    inside, found = set(funcs), {}
    for f in inside:
        for t, n in works[f].reads.items():
            if t not in inside:
                found[t] = max(found.get(t, 0), n)
    return found


def _made(name: str, kernel: int, t: Traffic, sources: Mapping[Tensor, int], model: Model) -> StepFigures:
    """The figures of anything that runs by itself."""
    computing = model.computing(t.operations)
    by_level: dict[str, float] = {}
    for n in (*sources.values(), t.written):
        level = model.holding(n)
        by_level[level.name] = by_level.get(level.name, 0.0) + n / level.bandwidth
    moving = sum(by_level.values())
    peak = t.flops / computing if computing else 0.0
    return StepFigures(
        name, kernel, (name,), (), (), t.flops, t.read, t.written, computing, moving, computing + moving + _LAUNCH,
        max(by_level, key=lambda k: by_level[k]), peak, peak / model.levels[-1].bandwidth,
    )  # fmt: skip


# Op by op ---------------------------------------------------------------------------------------------------------


def _naive(p: Pipeline, works: Mapping[Func, Work], model: Model, memory: Memory, sizes: Env) -> Totals:
    """Every Func in turn, stored whole, with the memory of its buffer given back after its last reader."""
    outputs = {o.func for o in p.outputs}
    steps, lifetimes, last = [], [], {}
    for k, (f, w) in enumerate(works.items()):
        last.update(dict.fromkeys((t for t in (*w.reads, f) if isinstance(t, Func)), k))
        t = together(works, [f], [f])
        written = _updated(w) if isinstance(f, InoutFunc) else t.written
        steps.append(_made(f.name, k, Traffic(t.operations, t.read, written), w.reads, model))
    for k, (f, w) in enumerate(works.items()):
        if f not in outputs and not isinstance(f, InoutFunc):
            lifetimes.append(Lifetime(f.name, w.bytes, k, last[f]))
    return _totals(len(works), len(works), len(works), tuple(steps), _with(memory, lowest(lifetimes)))


# Memory -----------------------------------------------------------------------------------------------------------


def _arrays(p: Pipeline, sizes: Env, weights: tuple[str, ...]) -> Memory:
    """The bytes of what a call is given and gives, without buffers. Where no weights are named, inputs of one shape are."""
    fixed = given = caches = 0
    for q in p.params:
        if isinstance(q, ScalarParam):
            continue
        a = array_of(q)
        if isinstance(q, InoutFunc):
            caches += _bytes_of(a, sizes)
        elif a.name in weights if weights else all(e.op == "const" for e in a.extents):
            fixed += _bytes_of(a, sizes)
        else:
            given += _bytes_of(a, sizes)
    outputs = 0
    for o in p.outputs:
        if not isinstance(o.func, InoutFunc):
            outputs += math.prod(max(0, n) for n in index_values(o.extents, sizes)) * o.dtype.bytes
    return Memory(fixed, given, caches, outputs, 0)


def _bytes_of(a: Array, sizes: Env) -> int:
    return math.prod(max(0, n) for n in index_values(a.extents, sizes)) * a.dtype.bytes


def _with(m: Memory, buffers: int) -> Memory:
    return Memory(m.weights, m.inputs, m.caches, m.outputs, buffers)


__all__ = ["Memory", "Metrics", "StepFigures", "Totals", "metrics_of"]

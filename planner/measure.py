"""Measuring first: what every Func of a pipeline takes at given sizes, before anything is decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.codegen.operations import operations
from tilewright.lang import ir
from tilewright.lang.contract import contract
from tilewright.lang.evaluate import evaluate
from tilewright.lang.func import Definition, Func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node
from tilewright.lang.math import expand
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.regions import Box, domain, hull, reads, required
from tilewright.lang.tensors import Array, Tensor
from tilewright.lang.values import Env, index_values

_SAMPLES = 4096  # points at which conditions are tried, to know for how many of all they hold

_OPEN = ("var", "rvar", "size", "scalar")  # what a condition may go by

Operations = Mapping[tuple[str, str], float]  # (class as in machine files, element type) -> how many


@dataclass(frozen=True)
class Work:
    """What a Func takes when it is computed once, over the region that the pipeline needs of it.

    `points` are those of each definition (the pure one, then the updates), and `operations` those of all of them, with
    functions (exp and the like) written out; points that a condition on data rules out are counted. `loads` are bytes that
    are loaded of a tensor one after the other along the last axis: "row" where they lie so (of pure definitions, as sums
    keep their operands in registers), "spaced" where they lie apart at one distance, "scattered" else. `reads` and `bytes`
    are of each element once: of every tensor that it reads (its own values aside), and of itself.
    """

    func: Func
    region: Box
    extents: tuple[int, ...]
    bytes: int
    points: tuple[float, ...]
    operations: Operations
    loads: Mapping[tuple[Tensor, str], float]
    reads: Mapping[Tensor, int]

    @property
    def elements(self) -> int:
        return math.prod(self.extents)


def measure(p: Pipeline, sizes: Env) -> dict[Func, Work]:
    """The work of every Func of a pipeline, producers first. `sizes` has all sizes, and scalars that indices go by."""
    regions, memo = required(p).funcs, {}
    return {f: _work(f, regions[f], sizes, memo) for f in p.funcs}


def _work(f: Func, region: Box, sizes: Env, memo: dict[Node, int]) -> Work:
    done: dict[tuple[str, str], float] = {}
    found: dict[Tensor, list[Box]] = {}
    loads: dict[tuple[Tensor, str], float] = {}
    most: dict[Tensor, float] = {}  # bytes of all loads: where data say which elements, no more of them are read
    run = []
    for d in f.definitions:
        env = domain(d, region)
        every = math.prod(map(len, _ranges(env.values(), sizes, memo)))
        points = every * _share(d, env, sizes, memo)
        for kind, name, times in operations(expand(contract(d.values), True)):
            done[kind, name] = done.get((kind, name), 0.0) + times * points
        for t, kind, width in _loads(d):
            loads[t, kind] = loads.get((t, kind), 0.0) + width * points
        run.append(points)
        for r in reads(d, env):
            if r.tensor is not f:
                found.setdefault(r.tensor, []).append(r.box)
                one = math.inf if any(i.op == "span" for i in r.load.args) else _width(r.tensor)
                most[r.tensor] = most.get(r.tensor, 0) + one * every if every else most.get(r.tensor, 0)
    extents = tuple(map(len, _ranges(region, sizes, memo)))
    width = sum(t.bytes for t in f.dtypes)
    moved = {t: int(min(most[t], _bytes(t, hull(boxes), sizes, memo))) for t, boxes in found.items()}
    return Work(f, region, extents, math.prod(extents) * width, tuple(run), done, loads, moved)


def _loads(d: Definition) -> Iterator[tuple[Tensor, str, int]]:
    """The loads of one point that differ along the last axis, by how they lie along it, with their bytes."""
    along = d.lhs[-1] if d.lhs else None
    if along is None or along.op != "var":
        return
    for n in ir.leaves(d.values, "load"):
        index = next((k for k in range(len(n.args) - 1, -1, -1) if along in ir.leaves((n.args[k],), "var")), None)
        if index is None:
            continue
        kind = _spacing(n.args[index], along)
        if kind == "row" and d.rdom is None and index == len(n.args) - 1:
            yield n.attr[0], "row", n.dtype.bytes
        elif kind != "row" and index == len(n.args) - 1:
            yield n.attr[0], kind, n.dtype.bytes


def _spacing(i: Node, along: Node) -> str:
    """How an index moves with a variable: by one ("row"; at the edges it may stand still), by a number ("spaced"), or not
    evenly."""
    if i is along or along not in ir.leaves((i,), "var"):
        return "row"
    if i.op == "select" and i.args[0].op == "likely":
        return _spacing(i.args[1], along)  # the middle, of which loops are parted
    kinds = {_spacing(a, along) for a in i.args}
    if i.op in ("add", "sub", "min", "max", "cast", "assume", "clamp", "neg") and len(kinds - {"row"}) <= 1:
        return next(iter(kinds - {"row"}), "row")
    return "spaced" if i.op == "mul" and kinds <= {"row", "spaced"} else "scattered"


def _ranges(box: Iterable[Interval], sizes: Env, memo: dict[Node, int]) -> list[range]:
    """The indices in bounded intervals."""
    ends = index_values([n for r in box for n in (r.lo, r.hi) if n is not None], sizes, memo)
    return [range(lo, max(lo, hi + 1)) for lo, hi in zip(ends[::2], ends[1::2], strict=True)]


def _bytes(t: Tensor, box: Box, sizes: Env, memo: dict[Node, int]) -> int:
    """The bytes of a box of a tensor; of an input no more than it has."""
    spans = _ranges(box, sizes, memo)
    if isinstance(t, Array):
        whole = index_values(t.extents, sizes, memo)
        spans = [range(max(r.start, 0), max(0, min(r.stop, n))) for r, n in zip(spans, whole, strict=True)]
    return math.prod(map(len, spans)) * _width(t)


def _width(t: Tensor) -> int:
    """The bytes of an element."""
    types = t.dtypes if isinstance(t, Func) else (t.dtype,)  # type: ignore[attr-defined]
    return sum(x.bytes for x in types)


def _share(d: Definition, env: Mapping[Node, Interval], sizes: Env, memo: dict[Node, int]) -> float:
    """For how many of the points the conditions hold that depend on indices alone, from a sample that is always the same."""
    asked = [c for c in d.predicates if not ir.leaves((c,), "load")]
    spans = _ranges(env.values(), sizes, memo)
    if not asked or not all(map(len, spans)):
        return 1.0
    total = math.prod(map(len, spans))
    places = np.arange(total) if total <= _SAMPLES else np.random.default_rng(0).integers(0, total, _SAMPLES)
    at: dict[Node, np.ndarray] = {}
    for v, r in reversed(list(zip(env, spans, strict=True))):
        at[v], places = r.start + places % len(r), places // len(r)
    known = {
        n: sizes[n.attr] for c in asked for n in ir.postorder((c,)) if n.op in ("size", "scalar") and n.attr in sizes
    }
    answered = [c for c in asked if all(n in at or n in known for n in ir.postorder((c,)) if n.op in _OPEN)]
    holds = evaluate(answered, {**at, **known})
    return float(np.mean(np.logical_and.reduce(np.broadcast_arrays(True, *holds))))


# Regions: Funcs that are computed together ------------------------------------------------------------------------


@dataclass(frozen=True)
class Traffic:
    """What Funcs take that are computed together: operations, and bytes in (each element of each tensor from outside
    once) and out (results that others need)."""

    operations: Operations
    read: int
    written: int

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def flops(self) -> float:
        """Operations, a fused multiply-add as two."""
        return sum(n * (2 if kind == "fma" else 1) for (kind, _), n in self.operations.items())

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else math.inf


def together(works: Mapping[Func, Work], funcs: Sequence[Func], results: Iterable[Func]) -> Traffic:
    """The traffic of `funcs` as one region, of which `results` leave it."""
    inside = set(funcs)
    done: dict[tuple[str, str], float] = {}
    read: dict[Tensor, int] = {}
    for f in funcs:
        for kind, n in works[f].operations.items():
            done[kind] = done.get(kind, 0.0) + n
        for t, n in works[f].reads.items():
            if t not in inside:
                read[t] = max(read.get(t, 0), n)
    return Traffic(done, sum(read.values()), sum(works[f].bytes for f in results))


__all__ = ["Operations", "Traffic", "Work", "measure", "together"]

"""Which Funcs are computed where they are used: those that cost less to compute again than to store near and to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tilewright.lang import ir
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.func import Definition, Func
from tilewright.lang.pipeline import Pipeline
from tilewright.planner.measure import Work
from tilewright.planner.model import Model

_REPAIR = (
    0.1  # cycles for an index that is not affine, or a choice by index: at the edges of a picture, where axes are split
)


class Point(NamedTuple):
    """The cycles of one point of a Func: in a vector of its points; as one value that all lanes of its reader share, for
    which it does not matter how what it loads lies along them; and within a sum, which loads operands once for many."""

    lanes: float
    shared: float
    summed: float

    def by(self, use: str) -> float:
        return getattr(self, use)


def _point(w: Work, model: Model, inlined: Collection[Func] = ()) -> Point:
    """A point of a Func, without what is inlined into it: that is loaded of nowhere."""
    done, n = model.computing(w.operations), max(1, w.elements)
    loads = [(kind, size) for (t, kind), size in w.loads.items() if t not in inlined]
    lanes = sum(model.loading(size, kind) for kind, size in loads)
    shared = sum(model.loading(size, "row") for _, size in loads)
    repaired = _REPAIR * sum(_repaired(d) for d in w.func.definitions)
    return Point((done + lanes) / n, (done + shared) / n, done / n + repaired)


def _repaired(d: Definition) -> int:
    """How many loads of a definition have an index that is not affine, and how often it chooses by index."""
    indices = [n.args for n in ir.leaves(d.values, "load")]
    choices = [n.args[:1] for n in ir.postorder(d.values) if n.op == "select"]
    edges = sum(any(m.op in ("select", "min", "max", "floordiv", "mod") for m in ir.postorder(i)) for i in indices)
    return edges + sum(not ir.leaves(c, "load") for c in choices)


def choose_inlined(
    p: Pipeline, works: Mapping[Func, Work], model: Model, far: Collection[Func] = ()
) -> tuple[Func, ...]:
    """Funcs whose values are computed where they are used, producers first.

    Computing them again is held against storing them near, as a member of a region, and reading them; those that are `far`
    against storing them in memory.
    """
    outputs = {o.func for o in p.outputs}
    evaluations = {f: dict.fromkeys(Point._fields, 0.0) for f in p.funcs}  # were a Func inlined, by how it is used
    readers: dict[Func, set[Func]] = {f: set() for f in p.funcs}
    found = []
    for f in reversed(p.funcs):
        w, times = works[f], evaluations[f]
        inlined = f.init is not None and not f.updates and f not in outputs and of_definition(f.init) is None
        if inlined:
            own = _point(w, model)
            again = sum(n * own.by(use) for use, n in times.items()) - w.elements * own.lanes
            if f in far:
                again += (len(readers[f]) - 1) * sum(model.moving(n, n) for n in w.reads.values())
                inlined = again <= model.moving((2 + len(readers[f])) * w.bytes, w.bytes)  # a store reads first
            else:
                loaded = times["lanes"] + times["shared"]
                more = max(
                    0.0, times["lanes"] / max(1, w.elements) - 1
                )  # how often what it reads comes from near again
                again += more * sum(w.reads.values()) / model.near.bandwidth
                inlined = again <= (w.elements + loaded) * (w.bytes / max(1, w.elements)) / model.near.bandwidth
        if inlined:
            found.append(f)
        for d, points in zip(f.definitions, w.points, strict=True):
            for read, use in _uses(d):
                if read is not f:
                    readers[read] |= readers[f] if inlined else {f}
                    for way, n in (times if inlined else {"lanes": points}).items():
                        evaluations[read][_through(way, use)] += n
    return tuple(reversed(found))


def _uses(d: Definition) -> Iterator[tuple[Func, str]]:
    """The Funcs that a definition loads of, a load each, and how: what differs along its last axis is for its lanes."""
    along = d.lhs[-1] if d.lhs else None
    for n in ir.leaves(d.roots, "load"):
        if isinstance(n.attr[0], Func):
            in_lanes = along is not None and along in ir.leaves(n.args, "var")
            yield n.attr[0], "summed" if d.rdom is not None else "lanes" if in_lanes else "shared"


def _through(way: str, use: str) -> str:
    """How something is used by what is itself used in a way: a sum's operands are its operands' too."""
    return "summed" if "summed" in (way, use) else "shared" if "shared" in (way, use) else "lanes"


def computing_of(works: Mapping[Func, Work], inlined: Collection[Func], model: Model) -> dict[Func, float]:
    """The cycles of Funcs with those of what they compute at each of their points."""
    points: dict[Func, Point] = {}  # of what is inlined, with all that it computes
    found: dict[Func, float] = {}
    for f, w in works.items():
        more = dict.fromkeys(Point._fields, 0.0)
        for d, n in zip(f.definitions, w.points, strict=True):
            for read, use in _uses(d):
                if read in points and read is not f:
                    for way in more:
                        more[way] += n * points[read].by(_through(way, use))
        own, n = _point(w, model, points), max(1, w.elements)
        found[f] = own.lanes * n + more["lanes"]
        if f in inlined:
            points[f] = Point(*(own.by(way) + more[way] / n for way in Point._fields))
    return found


__all__ = ["Point", "choose_inlined", "computing_of"]

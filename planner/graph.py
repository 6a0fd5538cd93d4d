"""The graph that regions are made of: Funcs that are kept, with what is inlined into them, and how their axes meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tilewright.lang import ir
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Tensor
from tilewright.lang.values import Env
from tilewright.planner.measure import Work, measure
from tilewright.planner.model import Model
from tilewright.schedule.inline import Body, written_out

# Axes of a tensor -> axes (or, by name, reduction variables) of a Func that reads it, which run with them.
Axes = Mapping[int, int | str]


@dataclass(frozen=True)
class Graph:
    """A pipeline at given sizes. `kept` are the Funcs that are stored somewhere, producers first; `inlined` are computed
    where they are used, in the `bodies` of those. `computing` has the cycles of each Func's operations."""

    pipeline: Pipeline
    sizes: Env
    works: Mapping[Func, Work]
    computing: Mapping[Func, float]
    kept: tuple[Func, ...]
    inlined: tuple[Func, ...]
    bodies: Mapping[Func, tuple[Body, ...]]
    tried: dict[Any, Any] = field(default_factory=dict, compare=False)  # what was found out about Funcs together

    @cached_property
    def _sources(self) -> dict[Func, dict[Tensor, Axes]]:
        return {f: _met_by(f, self.bodies[f]) for f in self.kept}

    @cached_property
    def _readers(self) -> dict[Func, tuple[Func, ...]]:
        found: dict[Func, tuple[Func, ...]] = dict.fromkeys(self.kept, ())
        for f in self.kept:
            for t in self.sources(f):
                if isinstance(t, Func):
                    found[t] = (*found[t], f)
        return found

    @cached_property
    def _read(self) -> dict[Tensor, int]:
        found: dict[Tensor, int] = {}
        for w in self.works.values():
            for t, n in w.reads.items():
                found[t] = max(found.get(t, 0), n)
        return found

    def sources(self, f: Func) -> dict[Tensor, Axes]:
        """What a kept Func reads, itself aside, and which axes of that run with which of its own."""
        return self._sources[f]

    def readers(self, f: Func) -> tuple[Func, ...]:
        """The kept Funcs that read a kept one."""
        return self._readers[f]

    def read(self, t: Tensor) -> int:
        """The bytes of what is read of a tensor."""
        return self._read[t]

    @cached_property
    def _number(self) -> dict[Func, int]:
        return {f: k for k, f in enumerate(self.pipeline.funcs)}

    def with_inlined(self, funcs: Iterable[Func]) -> list[Func]:
        """Kept Funcs with what is inlined into them, producers first."""
        needed, todo = set(funcs), list(funcs)
        while todo:
            for d in todo.pop().definitions:
                for n in ir.leaves(d.roots, "load"):
                    if n.attr[0] not in needed and n.attr[0] in self._number and n.attr[0] not in self.bodies:
                        needed.add(n.attr[0])
                        todo.append(n.attr[0])
        return sorted(needed, key=self._number.__getitem__)

    @property
    def results(self) -> frozenset[Func]:
        """What has to be stored whole: outputs, and what is updated in place."""
        outputs = {o.func for o in self.pipeline.outputs}
        return frozenset(f for f in self.kept if f in outputs or isinstance(f, InoutFunc))


def _met_by(f: Func, bodies: tuple[Body, ...]) -> dict[Tensor, Axes]:
    found: dict[Tensor, list[Axes]] = {}
    for body in bodies:
        for n in ir.leaves(body.roots, "load"):
            if n.attr[0] is not f:
                found.setdefault(n.attr[0], []).append(_met(n, body))
    return {t: {k: a for k, a in met[0].items() if all(m.get(k) == a for m in met)} for t, met in found.items()}


def _met(load: Node, body: Body) -> Axes:
    """Which indices of a load are a variable alone: an axis of the Func, or the name of a reduction variable."""
    found: dict[int, int | str] = {}
    for k, i in enumerate(load.args):
        if i.op == "var" and i in body.lhs:
            found[k] = body.lhs.index(i)
        elif i.op == "rvar":
            found[k] = i.attr[1]
    return found


def make_graph(p: Pipeline, sizes: Env, model: Model, inlined: tuple[Func, ...] | None = None) -> Graph:
    """Inline what costs less to compute again than to store and to read (or what is said to be inlined, producers first),
    and look at the rest."""
    works = measure(p, sizes)
    computing = {f: model.computing(w.operations) for f, w in works.items()}
    if inlined is None:
        inlined = _inlined(p, works, computing, model)
    part: dict[Func, Body] = dict.fromkeys(inlined)  # type: ignore[arg-type]
    bodies: dict[Func, tuple[Body, ...]] = {}
    for f in p.funcs:
        found = tuple(written_out(d, part) for d in f.definitions)
        if f in part:
            (part[f],) = found
        else:
            bodies[f] = found
    return Graph(p, sizes, works, computing, tuple(bodies), inlined, bodies)


def _inlined(
    p: Pipeline, works: Mapping[Func, Work], computing: Mapping[Func, float], model: Model
) -> tuple[Func, ...]:
    """Funcs whose values are computed where they are used, producers first.

    Computing them again, and reading what they read, is held against storing and reading them.
    """
    outputs = {o.func for o in p.outputs}
    evaluations = dict.fromkeys(p.funcs, 0.0)  # of a Func, were it inlined into its consumers as these are
    found = []
    for f in reversed(p.funcs):
        work = works[f]
        inlined = f.init is not None and not f.updates and f not in outputs and of_definition(f.init) is None
        if inlined:
            times, read = evaluations[f] / max(1, work.elements), sum(work.reads.values())
            again = (times - 1) * (computing[f] + model.moving(read, work.bytes))
            kept = (2 + times) * work.bytes  # stored, which reads a line first, and read
            inlined = again <= model.moving(kept, work.bytes)
        if inlined:
            found.append(f)
        for d, points in zip(f.definitions, work.points, strict=True):
            for n in ir.leaves(d.roots, "load"):
                if isinstance(n.attr[0], Func) and n.attr[0] is not f:
                    evaluations[n.attr[0]] += evaluations[f] if inlined else points
    return tuple(reversed(found))


__all__ = ["Axes", "Graph", "make_graph"]

"""The graph that regions are made of: Funcs that are kept, with what is inlined into them, and how their axes meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tilewright.lang import ir
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Array, Tensor
from tilewright.lang.values import Env, index_values
from tilewright.planner.inlining import choose_inlined, computing_of
from tilewright.planner.measure import Work, measure
from tilewright.planner.meeting import Axes, met_by
from tilewright.planner.model import Model
from tilewright.schedule.inline import Body, written_out


@dataclass(frozen=True)
class Graph:
    """A pipeline at given sizes. `kept` are the Funcs that are stored somewhere, producers first; `inlined` are computed
    where they are used, in the `bodies` of those. `computing` has the cycles of each Func's operations, and of what is
    inlined into it."""

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
        return {f: met_by(f, self.bodies[f], self.works[f].region, self.sizes) for f in self.kept}

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
        """What a kept Func reads, itself aside, and how the axes of that run with its own."""
        return self._sources[f]

    def readers(self, f: Func) -> tuple[Func, ...]:
        """The kept Funcs that read a kept one."""
        return self._readers[f]

    def read(self, t: Tensor) -> int:
        """The bytes of what is read of a tensor: none of what is only written."""
        return self._read.get(t, 0)

    @cached_property
    def inputs(self) -> int:
        """The bytes of what is read of all inputs together."""
        return sum(n for t, n in self._read.items() if isinstance(t, Array))

    @cached_property
    def _number(self) -> dict[Func, int]:
        return {f: k for k, f in enumerate(self.pipeline.funcs)}

    def extents(self, t: Tensor) -> tuple[int, ...]:
        """The points on each axis of what is stored of a tensor."""
        if isinstance(t, InoutFunc) or not isinstance(t, Func):
            array = t.inout if isinstance(t, InoutFunc) else t
            return tuple(index_values(array.extents, self.sizes))  # type: ignore[union-attr]
        return self.works[t].extents

    def free(self, f: Func) -> tuple[int, ...]:
        """The axes of a kept Func along which a part of it is made of a part of its work."""
        return self._free[f]

    @cached_property
    def _free(self) -> dict[Func, tuple[int, ...]]:
        return {
            f: tuple(k for k in range(f.rank) if all(d.lhs[k].op == "var" for d in f.definitions)) for f in self.kept
        }

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

    @cached_property
    def results(self) -> frozenset[Func]:
        """What has to be stored whole: outputs, and what is updated in place."""
        outputs = {o.func for o in self.pipeline.outputs}
        return frozenset(f for f in self.kept if f in outputs or isinstance(f, InoutFunc))


def make_graph(p: Pipeline, sizes: Env, model: Model, inlined: tuple[Func, ...] | None = None) -> Graph:
    """Inline what costs less to compute again than to store and to read (or what is said to be inlined, producers first),
    and look at the rest."""
    works = measure(p, sizes)
    if inlined is None:
        inlined = choose_inlined(p, works, model)
    part: dict[Func, Body] = dict.fromkeys(inlined)  # type: ignore[arg-type]
    bodies: dict[Func, tuple[Body, ...]] = {}
    for f in p.funcs:
        found = tuple(written_out(d, part) for d in f.definitions)
        if f in part:
            (part[f],) = found
        else:
            bodies[f] = found
    return Graph(p, sizes, works, computing_of(works, frozenset(part), model), tuple(bodies), inlined, bodies)


__all__ = ["Graph", "make_graph"]

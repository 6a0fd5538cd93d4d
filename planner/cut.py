"""Cut a part out of a pipeline: some of its Funcs as a pipeline of their own, with what they read as inputs.

Funcs of a part are named as in the whole, without numbers, and inputs by their kind alone, so that the layers of a
model, which differ in these, are one algorithm (with one digest): it is planned and compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func, InoutFunc, OutputSlice
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline, ScalarParam, make_pipeline
from tilewright.lang.regions import Box, required
from tilewright.lang.tensors import Array, Table, Tensor
from tilewright.lang.values import Env
from tilewright.planner.rebuild import Rebuilder


@dataclass(frozen=True)
class Buffer:
    """What passes between parts: a component of a Func of the whole, over the region that the whole needs of it."""

    func: Func
    component: int = 0

    @property
    def name(self) -> str:
        return self.func.name if len(self.func.dtypes) == 1 else f"{self.func.name}.{self.component}"


Source = Buffer | Array | InoutFunc | ScalarParam


@dataclass(frozen=True)
class Part:
    """A pipeline that was cut out of another.

    `inputs` says, for each of its parameters in order, what that is in the whole; `outputs` the same of its outputs.
    `names` leads from its names of Funcs, arrays and scalars to those of the whole (of a tuple, the Func's).
    """

    pipeline: Pipeline
    inputs: tuple[Source, ...]
    outputs: tuple[Buffer, ...]
    names: Mapping[str, str]

    def env(self, env: Env) -> dict[str, Any]:
        """Sizes and scalars of the whole, as the part names them: sizes alike, scalars by their kind."""
        scalars = {s.name: self.names[s.name] for s in self.pipeline.scalars}
        return {**env, **{own: env[whole] for own, whole in scalars.items() if whole in env}}


def cut(whole: Pipeline, funcs: Iterable[Func], wanted: Sequence[Func]) -> Part:
    """The `funcs` (producers first) as a pipeline that computes those of `wanted`, each over the region that the whole
    needs of it.

    What they read of other Funcs is an input. An `inout` among them is a parameter that is written in place; one that
    is only read is an input. A Func may belong to several parts, which then compute it each.
    """
    return _Cutter(whole, funcs).part(wanted)


class _Cutter(Rebuilder):
    """Rebuilds definitions over the tensors that stand for those of the whole."""

    def __init__(self, whole: Pipeline, funcs: Iterable[Func]):
        super().__init__()
        self.whole, self.regions = whole, required(whole).funcs
        self.names: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.sources: dict[Source, Array | InoutFunc | ScalarParam] = {}  # parameters, in the order of their first use
        self.funcs = {f: self._standing_for(f) for f in funcs}

    def part(self, wanted: Sequence[Func]) -> Part:
        for f, new in self.funcs.items():
            self._define(f, new)
        results = [f for f in wanted if not isinstance(f, InoutFunc)]
        returned = tuple(map(self._whole_region, results))
        made = make_pipeline(
            returned[0] if len(returned) == 1 else returned or None,
            tuple(self.sources.values()),
            _plain(wanted[-1].name),
            self.whole.location,
        )
        outputs = tuple(Buffer(f, k) for f in results for k in range(len(f.dtypes)))
        return Part(made, tuple(self.sources), outputs, self.names)

    # Tensors ----------------------------------------------------------------------------------------------------

    def _named(self, name: str, base: str) -> str:
        """A name like `base` for what is called `name` in the whole."""
        found = base
        while found in self.names:
            self.numbers[base] = k = self.numbers.get(base, 0) + 1
            found = f"{base}_{k}"
        self.names[found] = name
        return found

    def _standing_for(self, f: Func) -> Func:
        if isinstance(f, InoutFunc):
            assert f.inout is not None
            made: Func = InoutFunc(self._array(f.inout))
            self.sources[f] = made  # type: ignore[assignment]
            return made
        return Func(self._named(f.name, _plain(f.name)), f.dtypes)

    def _array(self, a: Array) -> Array:
        return Array(self._named(a.name, "input"), a.dtype, a.extents)

    def _input(self, t: Tensor, component: int) -> tuple[Array, Box | None]:
        """The array that stands for a tensor from outside, and the region of which it holds the elements."""
        if isinstance(t, Array) or (isinstance(t, InoutFunc) and t not in self.funcs):
            source: Source = t  # type: ignore[assignment]
            if source not in self.sources:
                self.sources[source] = self._array(t if isinstance(t, Array) else t.inout)  # type: ignore[arg-type]
            return self.sources[source], None  # type: ignore[return-value]
        assert isinstance(t, Func)
        region, source = self._region(t), Buffer(t, component)
        if source not in self.sources:
            extents = tuple(simplify.add(simplify.sub(hi, lo), integer(1)) for lo, hi in map(_bounds, region))
            self.sources[source] = Array(self._named(t.name, "input"), t.dtypes[component], extents)
        return self.sources[source], region  # type: ignore[return-value]

    def _whole_region(self, f: Func) -> OutputSlice:
        ends = [_bounds(r) for r in self._region(f)]
        starts, stops = tuple(lo for lo, _ in ends), tuple(simplify.add(hi, integer(1)) for _, hi in ends)
        return OutputSlice(self.funcs[f], starts, stops)

    def _region(self, f: Func) -> Box:
        """The region of a Func of the whole, in the part's own scalars."""
        ends = self._moved(tuple(n for r in self.regions[f] for n in _bounds(r)))
        return tuple(map(Interval, ends[::2], ends[1::2]))

    # Definitions ------------------------------------------------------------------------------------------------

    def _rebuilt(self, n: Node, args: tuple[Node, ...]) -> Node:
        if n.op == "rvar":
            return self.rvars[n]
        if n.op == "scalar":
            return self._scalar(n)
        if n.op != "load" or isinstance(n.attr[0], Table):
            return ir.rebuild(n, args)
        tensor, component = n.attr
        if tensor in self.funcs:
            return ir.node("load", n.dtype, args, (self.funcs[tensor], component))
        array, region = self._input(tensor, component)
        moved = args if region is None else tuple(_less(i, r.lo) for i, r in zip(args, region, strict=True))
        return ir.node("load", n.dtype, moved, (array, 0))

    def _scalar(self, n: Node) -> Node:
        source = next(s for s in self.whole.scalars if s.name == n.attr)
        if source not in self.sources:
            self.sources[source] = ScalarParam(self._named(source.name, "scalar"), source.dtype)
        return self.sources[source].node  # type: ignore[union-attr]


def _bounds(r: Interval) -> tuple[Node, Node]:
    """The ends of a region, which the pipeline was found to have."""
    assert r.lo is not None
    assert r.hi is not None
    return r.lo, r.hi


def _plain(name: str) -> str:
    """A name without its numbers."""
    return re.sub(r"_+", "_", re.sub(r"\d+", "", name)).strip("_") or "x"


def _less(i: Node, lo: Node | None) -> Node:
    assert lo is not None
    if i.op == "span":
        return ir.node("span", i.dtype, tuple(simplify.sub(a, lo) for a in i.args))
    return simplify.sub(i, lo)


__all__ = ["Buffer", "Part", "Source", "cut"]

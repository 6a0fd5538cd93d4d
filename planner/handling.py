"""What the loops of a step take to read and to write tensors as they lie: vectors that are not contiguous, rows of which
every vector is on another page, packing inside the step.

Constants were measured with products of 384 to 2048 columns (Zen 4): a product that reads rows of B in tiles of 32 columns
takes 2 cycles a piece of a row more than one that reads panels, 4 if rows are a multiple of a page apart, and 16 where a
piece is read once from memory far away; rows of A that are a multiple of a page apart take 0.7 for each element that
is read of them; a register transpose takes half a cycle an element, a gather 1.5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Array, Tensor
from tilewright.lang.values import index_values
from tilewright.planner.cost import BLOCKS, Tile
from tilewright.planner.cut import Part
from tilewright.planner.graph import Graph
from tilewright.planner.model import Model
from tilewright.planner.region import Region
from tilewright.schedule.inline import Body, effective
from tilewright.schedule.layout import IndexMap, identity_map
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Split, Stage, State, root_name, roots_of_loops, versioned

_GATHER = 1.5  # cycles an element
_TURNED = 0.5  # cycles an element that is transposed in registers
_COPIED = 0.1  # cycles an element that is copied as it lies
_PIECE = 2.0  # cycles for the next piece of a row, where that lies on another page
_CONFLICT = 4.0  # ... and pieces share a set of the cache
_FAR = 16.0  # ... and the first time it is read, where no cache holds the tensor
_STREAMS = (
    4.0  # cycles a vector, the first time, of rows that are read side by side, where no cache holds all that is read
)
_LONGEST = 4096  # elements in a row after which it does not matter how many more there are
_SHARED = 0.7  # cycles an element of rows that share a set of the cache
_PAGE = 4096  # bytes
_WAYS = 8  # lines of the innermost cache that may be a multiple of a page apart
_PAGES = 64  # that a core knows at once

Layouts = Mapping[str, IndexMap]  # of arrays and of the result of a part, by its own names


@dataclass
class Handling:
    """Cycles by tensor (a part's own name) that come from how it lies, and those that its arithmetic takes more because
    vectors are not full; `packed` are the bytes of it that are packed inside the step. `axes`: for what is read along
    vectors or across them, the axis that runs along them, and the elements that a tile has along it. `apart` is what has
    rows a multiple of a page apart that are read together."""

    cycles: dict[str, float] = field(default_factory=dict)
    packed: dict[str, int] = field(default_factory=dict)
    axes: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    own: float = 0.0

    @property
    def total(self) -> float:
        return self.own + sum(self.cycles.values())


def handling(g: Graph, model: Model, region: Region, part: Part, s: Schedule, layouts: Layouts) -> Handling:
    """What the schedule of a part takes for tensors from outside, and for its result, in these layouts (row-major where
    none is said)."""
    return _Reader(g, model, region, part, s.state, layouts).read()


def conversion(model: Model, before: IndexMap | None, after: IndexMap | None, elements: int, size: int) -> float:
    """Cycles to copy a tensor from one layout to another."""
    orders = {m.order if m is not None else None for m in (before, after)}
    plain = [o is None or o == tuple(range(len(o))) for o in orders]
    turned = not (len(orders) == 1 or all(plain))
    return 2 * model.moving(elements * size, 2 * elements * size) + elements * (_TURNED if turned else _COPIED)


def _offsets(m: IndexMap, shape: tuple[int, ...], indices: Sequence[Any]) -> Any:
    """The places of elements, counted in elements from the first."""
    out: Any = 0
    for place, extent in zip(m.places(indices), _extents(m, shape), strict=True):
        out = out * max(1, extent) + place
    return out


@functools.lru_cache(maxsize=4096)
def _extents(m: IndexMap, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(index_values(m.extents(tuple(map(integer, shape))), {}))


@functools.lru_cache(maxsize=4096)
def _run(m: IndexMap, shape: tuple[int, ...], step: tuple[int, ...], most: int) -> int:
    """How many elements, each a `step` from the one before, lie side by side."""
    at = np.arange(max(1, most))
    apart = np.flatnonzero(_offsets(m, shape, [s * at for s in step]) != at)
    return int(apart[0]) if len(apart) else most


@dataclass(frozen=True)
class _Loops:
    """The loops of a stage: their extents, the variables that each runs over, what is in vectors and what unrolled."""

    names: tuple[str, ...]
    extents: Mapping[str, int]
    over: Mapping[str, frozenset[Node]]
    modes: Mapping[str, str]

    @property
    def vector(self) -> str | None:
        return next((n for n in self.names if self.modes[n] == "vectorize"), None)

    def inner(self) -> Iterator[str]:
        """From the innermost loop outwards, without the vectors."""
        yield from (n for n in reversed(self.names) if self.modes[n] != "vectorize")


def _loops(stage: Stage, extents: Mapping[str, int]) -> _Loops:
    unique, _ = versioned(stage)
    found = {root_name(r): extents.get(root_name(r), 1 << 16) for r in unique.roots}
    for t in unique.transforms:
        if isinstance(t, Split):
            n = found[t.parent]
            found[t.inner], found[t.outer] = min(t.factor, n), -(-n // t.factor)
        else:
            found[t.fused] = found[t.outer] * found[t.inner]
    return _Loops(
        tuple(x.name for x in unique.loops), found, roots_of_loops(unique), {x.name: x.mode for x in unique.loops}
    )


class _Reader:
    """Goes through the stages of a scheduled part."""

    def __init__(self, g: Graph, model: Model, region: Region, part: Part, state: State, layouts: Layouts):
        self.g, self.model, self.region, self.part, self.state = g, model, region, part, state
        by_name = {f.name: f for f in region.members}
        self.members = {own: by_name[whole] for own, whole in part.names.items() if whole in by_name}
        self.arrays = {a.name: a for a in part.pipeline.arrays}
        sizes = part.env(g.sizes)
        self.shapes = {n: tuple(index_values(a.extents, sizes)) for n, a in self.arrays.items()}
        self.root = next(own for own, f in self.members.items() if f is region.root)
        self.shapes[self.root] = g.works[region.root].extents
        self.maps = {n: layouts.get(n) or identity_map(len(shape)) for n, shape in self.shapes.items()}
        self.sources: dict[str, Tensor] = {}
        for own, source in zip((q.name for q in part.pipeline.params), part.inputs, strict=True):
            self.sources[own] = source.func if hasattr(source, "func") else source  # type: ignore[assignment]
        self.extents = {root_name(v): n for f in self.members.values() for v, n in self._variables(f)}
        self.out = Handling()

    def _variables(self, f: Func) -> Iterator[tuple[Node, int]]:
        for d in f.definitions:
            for v, n in zip(d.lhs, self.g.works[f].extents, strict=True):
                if v.op == "var":
                    yield v, n
            if d.rdom is not None:
                ends = index_values([e for r in d.rdom.ranges.values() for e in r], self.g.sizes)
                for v, lo, hi in zip(d.rdom.rvars, ends[::2], ends[1::2], strict=True):
                    yield v, max(1, hi - lo)

    def read(self) -> Handling:
        copies = {n for n, f in self.state.funcs.items() if f.origin == "cache_read"}
        bodies = effective(self.state, "contract")
        for key, body in bodies.items():
            if key[0] in copies:
                self._copy(key[0], body)
                continue
            loops = _loops(self.state.stages[key], self.extents)
            points = self._points(key[0], body)
            self._lanes(key[0], body, loops, points)
            for n in ir.leaves(body.values, "load"):
                if n.attr[0].name in self.arrays and isinstance(n.attr[0], Array):
                    self._access(key[0], n.attr[0].name, n.args, loops, points, n.dtype.bytes)
            if key[0] == self.root:
                held = bool(self.state.stages[key].write_caches)
                stored = self.g.works[self.region.root].elements if held else points
                self._access(key[0], self.root, body.lhs, loops, stored, sum(t.bytes for t in body.func.dtypes))
        return self.out

    def _repeats(self, f: Func) -> int:
        """How often a member is computed, in whole."""
        return self._times(self.region.runs[f], self.region.depths.get(f))

    def _times(self, runs: Iterable[int], depth: int | None = None) -> int:
        """How often what runs so is gone through in loops around tiles, of which so many are around it (None: all)."""
        around, extents = Tile(self.region.tile.cuts[:depth]), self.g.works[self.region.root].extents
        return math.prod(n for a, n in around.parts(extents).items() if a not in runs and a != BLOCKS)

    def _points(self, name: str, body: Body) -> float:
        """How often a definition is evaluated. What a directive made (partial results) stands for a member's reduction."""
        f = self.members.get(name)
        if f is not None:
            points = self.g.works[f].points  # a repair has a number beyond those of updates
            return points[min(body.number + (f.init is not None), len(points) - 1)] * self._repeats(f)
        tensors = {n.attr[0].name for n in ir.leaves(body.values, "load")}
        found = [
            self.g.works[f].points[-1] * self._repeats(f)
            for own, f in self.members.items()
            if own.partition("_")[0] == name.partition("_")[0] or own in tensors
        ]
        return max(found, default=0.0)

    def _lanes(self, name: str, body: Body, loops: _Loops, points: float) -> None:
        """What arithmetic takes more because the last vectors are not full, or because there are none."""
        f = self.members.get(name)
        if f is None or not points:
            return
        share = points / max(1.0, sum(self.g.works[f].points))
        cycles = self.g.computing[f] * share
        vector = loops.vector
        if vector is None:
            lanes = self.model.machine.compute.vector_bytes // max(t.bytes for t in body.func.dtypes)
            self.out.own += cycles * (max(1, lanes) - 1)
            return
        tile, whole = self._tile(loops, loops.over[vector]), math.prod(
            self.extents.get(root_name(r), 1) for r in loops.over[vector]
        )  # fmt: skip
        self.out.own += cycles * (-(-whole // tile) * tile / whole - 1) if whole else 0.0

    def _tile(self, loops: _Loops, roots: frozenset[Node]) -> int:
        """The elements along the vectors that are computed at once: lanes, times vectors that are unrolled."""
        found = [n for n in loops.names if loops.modes[n] in ("vectorize", "unroll") and loops.over[n] == roots]
        return math.prod(loops.extents[n] for n in found)

    def _copy(self, name: str, body: Body) -> None:
        """A copy that the step makes of what it reads."""
        for n in ir.leaves(body.values, "load"):
            own = n.attr[0].name
            if own not in self.arrays:
                continue
            tensor = self.sources[own]
            times = self._times(self.region.runs.get(tensor, {}))
            place, layout = self.state.funcs[name].compute, self.state.funcs[name].layout
            if place.kind == "at" and place.stage is not None:
                times *= self._around(place.stage, place.loop, name)
            order = None if layout is None else layout.order
            elements = self.g.read(tensor) // max(1, n.dtype.bytes)
            each = _COPIED if order is None or order == self.maps[own].order else _TURNED
            self._add(own, times * elements * each)
            self.out.packed[own] = self.out.packed.get(own, 0) + times * elements * n.dtype.bytes
            readers = [k for k in self.state.stages if k == place.stage]
            for key in readers:
                loops = _loops(self.state.stages[key], self.extents)
                self._remember(own, n.args, body, key, loops)

    def _remember(self, own: str, source: tuple[Node, ...], copy: Body, key: tuple, loops: _Loops) -> None:
        """Along which axis of a tensor the vectors run that read a copy of it."""
        if loops.vector is None:
            return
        roots = loops.over[loops.vector]
        for n in ir.leaves(self.state.stages[key].definition.values, "load"):
            if n.attr[0] is copy.func:
                for v, i in zip(copy.lhs, n.args, strict=True):
                    step = _step(source, v) if i in roots else None
                    if step is not None and sum(map(bool, step)) == 1 and max(step) == 1:
                        self.out.axes.setdefault(own, set()).add((step.index(1), self._tile(loops, roots)))

    def _around(self, key: tuple, loop: str | None, copy: str) -> int:
        """How often a copy at a loop is made in whole: iterations around it that its elements don't depend on."""
        stage = self.state.stages[key]  # type: ignore[index]
        loops = _loops(stage, self.extents)
        shown = [x.name for x in stage.loops]
        outside = loops.names[: shown.index(loop) + 1] if loop in shown else ()
        used: set[Node] = set()
        for n in ir.leaves(stage.definition.values, "load"):
            if n.attr[0].name == copy:
                used.update(ir.postorder(n.args))
        return math.prod(loops.extents[n] for n in outside if not loops.over[n] & used)

    # One access ---------------------------------------------------------------------------------------------

    def _access(self, name: str, own: str, indices: tuple[Node, ...], loops: _Loops, points: float, size: int) -> None:
        vector = loops.vector
        if vector is None or len(loops.over[vector]) != 1 or not points:
            return
        (v,) = loops.over[vector]
        shape, m = self.shapes[own], self.maps[own]
        inside = [v in ir.postorder((i,)) for i in indices]
        if 0 in shape:
            return
        if not any(inside):
            self._rows(own, indices, loops, points / self._tile(loops, loops.over[vector]), size)
            return
        tile, lanes = self._tile(loops, loops.over[vector]), loops.extents[vector]
        step = _step(indices, v)
        if step is not None and sum(map(bool, step)) == 1 and max(step) == 1:
            self.out.axes.setdefault(own, set()).add((step.index(1), tile))
        reused = math.prod(loops.extents[n] for n in self._unrolled(loops) if not _varies(indices, loops.over[n]))
        count = points / reused
        whole = shape[step.index(1)] if step is not None and 1 in step else 1
        run = _run(m, shape, step, min(whole, _LONGEST)) if step is not None else 0
        if run < min(lanes, whole) or (run < min(whole, _LONGEST) and not self._aligned(name, v, run, tile)):
            turned = any(self._contiguous(own, indices, loops, n) for n in self._unrolled(loops))
            self._add(own, count * (_TURNED if turned else _GATHER))
            return
        far, near = self._steps(own, indices, loops, v, run, tile, count, size)
        self._add(own, far + near)

    def _rows(self, own: str, indices: tuple[Node, ...], loops: _Loops, count: float, size: int) -> None:
        """What it takes that rows of a tile, of each of which an element is read at once, share a set of the cache."""
        for n in self._unrolled(loops):
            step = _step(indices, next(iter(loops.over[n]))) if len(loops.over[n]) == 1 else None
            if step is not None and any(step) and loops.extents[n] > _WAYS:
                apart = _offsets(self.maps[own], self.shapes[own], [abs(s) for s in step]) * size
                if apart and apart % _PAGE == 0:
                    self._add(own, count * _SHARED)
                    self.out.apart.add(own)

    def _unrolled(self, loops: _Loops) -> list[str]:
        return [n for n in loops.names if loops.modes[n] == "unroll"]

    def _aligned(self, name: str, v: Node, run: int, tile: int) -> bool:
        """Whether tiles of the loops over a variable begin where blocks of a layout do."""
        widths, f = [tile], self.members.get(name)
        if f is not None:
            own = {a for a, i in enumerate(f.definitions[0].lhs) if i.attr == v.attr}
            runs, block = self.region.runs[f], self.region.tile.block
            widths += [w for a, w in self.region.tile.cuts if a in runs and runs[a].axis in own]
            widths += [block] if block and BLOCKS in runs else []
        return all(w % run == 0 for w in widths if w > 1)

    def _contiguous(self, own: str, indices: tuple[Node, ...], loops: _Loops, loop: str) -> bool:
        (u,) = loops.over[loop] if len(loops.over[loop]) == 1 else (None,)
        step = None if u is None else _step(indices, u)
        if step is None or not any(step):
            return False
        n = min(4, self.shapes[own][max(range(len(step)), key=lambda k: abs(step[k]))])
        return n > 1 and loops.extents[loop] >= 4 and _run(self.maps[own], self.shapes[own], step, n) == n

    def _steps(
        self, own: str, indices: tuple[Node, ...], loops: _Loops, v: Node, run: int, tile: int, count: float, size: int
    ) -> tuple[float, float]:
        """Cycles for going from one piece of contiguous elements to the next: the first time, and each time."""
        shape, m = self.shapes[own], self.maps[own]
        loop = next((n for n in loops.inner() if loops.modes[n] != "unroll" and loops.extents[n] > 1), None)
        if loop is None or len(loops.over[loop]) != 1:
            return 0.0, 0.0
        (x,) = loops.over[loop]
        step = _step(indices, x)
        if step is None or not any(step):
            return 0.0, 0.0
        if x == v:
            piece = run
            if loops.vector and self._streams(own, indices, loops, v):
                return count / loops.extents[loops.vector] * _STREAMS, 0.0
            if run >= shape[step.index(max(step))]:
                return 0.0, 0.0
            apart = _offsets(m, shape, [run * s for s in step])
        else:
            piece, apart = tile, _offsets(m, shape, [abs(s) for s in step])
        if apart <= piece:
            return 0.0, 0.0
        pieces, apart = count / piece, apart * size
        pages = min(1.0, apart / _PAGE)
        each = _PIECE * pages if loops.extents[loop] * pages > _PAGES else 0.0
        if apart % _PAGE == 0 and loops.extents[loop] > _WAYS:
            each = _CONFLICT
        whole = math.prod(shape) * size
        if count * size < 2 * whole:  # read once, it is fetched ahead, and no line is wanted again
            each = 0.0
        far = self.model.holding(whole) is self.model.levels[-1] and apart >= 8 * piece * size
        first = math.prod(shape) / piece if far else 0.0
        return min(first, pieces) * _FAR, pieces * each

    def _streams(self, own: str, indices: tuple[Node, ...], loops: _Loops, v: Node) -> bool:
        """Whether several rows are read side by side, each element once, from memory far away: an input of the whole, all
        of which no cache holds from call to call."""
        return (
            isinstance(self.sources.get(own), Array)
            and self.model.holding(self.g.inputs) is self.model.levels[-1]
            and all(_varies(indices, loops.over[n]) or loops.extents[n] == 1 for n in loops.names)
            and any(loops.over[n] != frozenset((v,)) for n in self._unrolled(loops))
        )

    def _add(self, own: str, cycles: float) -> None:
        self.out.cycles[own] = self.out.cycles.get(own, 0.0) + cycles


def _step(indices: tuple[Node, ...], v: Node) -> tuple[int, ...] | None:
    """By how much each index grows with a variable; None where it does not do so evenly."""
    out = []
    for i in indices:
        coefs, _ = simplify.linear(i)
        if any(v in ir.postorder((a,)) for a in coefs if a is not v):
            return None
        out.append(coefs.get(v, 0))
    return tuple(out)


def _varies(indices: tuple[Node, ...], variables: frozenset[Node]) -> bool:
    return not variables.isdisjoint(ir.postorder(indices))


__all__ = ["Handling", "Layouts", "conversion", "handling"]

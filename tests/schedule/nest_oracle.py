"""An interpreter of the Nest in plain Python, as an oracle of bounds inference and placement.

Every storage is a dictionary of places. It is an error to read or write outside a storage's region, to compute with an
element that nothing has written or that another one has overwritten (in a folded axis, in a ring's slot), to map two
elements to one place of a layout, and to let iterations of a parallel or vector loop depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.binding import bind, index_value
from tilewright.lang.evaluate import apply
from tilewright.lang.func import InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.reference import structured
from tilewright.lang.types import index
from tilewright.lang.values import _BOOL, _INDEX
from tilewright.schedule.build import build_nest
from tilewright.schedule.nest import (
    Allocation,
    Assign,
    Guard,
    LoopNode,
    NestNode,
    PrefetchNode,
    Produce,
    Sequence,
    Storage,
)
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.tiles import OutputArray

Point = tuple[int, ...]
UNDEFINED = object()


class NestError(AssertionError):
    """The nest does what no nest may do."""


@dataclass(eq=False)
class Memory:
    """A storage that lives: values by physical place, `depth` loops around it.

    Each is kept with the element that it is of, and the iteration that a ring's slot is filled for.
    """

    storage: Storage
    origin: Point | None  # None: it moves with loops further in (hoisted)
    extents: Point
    depth: int
    number: int
    values: dict[Point, tuple[Any, Point, Any]] = field(default_factory=dict)
    owner: dict[Point, Point] = field(default_factory=dict)

    def place(self, at: Point, origin: Point) -> Point:
        """The physical place of a logical element where the storage starts at `origin`."""
        folds = dict(self.storage.folds)
        inside = tuple(i % folds[k] if k in folds else i - o for k, (i, o) in enumerate(zip(at, origin, strict=True)))
        if any(not 0 <= i < e for i, e in zip(inside, self.extents, strict=True)):
            raise NestError(f"{self.storage.name}{list(at)} is outside {list(origin)} + {list(self.extents)}")
        layout = self.storage.layout
        if layout is None:
            return inside
        out = tuple(n.attr for n in layout.apply([ir.integer(i) for i in inside]))
        bounds = tuple(n.attr for n in layout.extents([ir.integer(e) for e in self.extents]))
        if any(not 0 <= i < e for i, e in zip(out, bounds, strict=True)):
            raise NestError(f"{self.storage.name}{list(at)} has the place {out} in a layout of {bounds}")
        if self.owner.setdefault(out, inside) != inside:
            raise NestError(f"{self.storage.name}: {inside} and {self.owner[out]} share a place")
        return out


@dataclass
class Frame:
    """One concurrent loop that is running: which iteration touched what."""

    depth: int
    name: str
    iteration: int = 0
    writes: dict[tuple[int, Point], int] = field(default_factory=dict)
    reads: dict[tuple[int, Point], int] = field(default_factory=dict)


class Interpreter:
    def __init__(self, constants: dict[Node, Any], rewrites: bool):
        self.env: dict[Node, Any] = dict(constants)
        self.memories: dict[Any, list[Memory]] = {}
        self.frames: list[Frame] = []
        self.depth = 0
        self.rewrites = rewrites  # shifted tails may write the same value twice
        self.numbers = count()
        self.copying = False
        self.assignments = 0

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, n: Node, memo: dict[Node, Any]) -> Any:
        """The value of a node; arms of a select that are not taken are not looked at."""
        if n in memo:
            return memo[n]
        if n in self.env:
            out = self.env[n]
        elif n.op == "select":
            out = self.value(n.args[1 if self.value(n.args[0], memo) else 2], memo)
        elif n.op == "and" and n.dtype.is_bool:
            out = self.value(n.args[0], memo) and self.value(n.args[1], memo)
        else:
            args = [self.value(a, memo) for a in n.args]
            out = self._one(n, args)
        memo[n] = out
        return out

    def _one(self, n: Node, args: list[Any]) -> Any:
        if n.op == "load":
            return self.read(n, tuple(int(a) for a in args))
        if any(a is UNDEFINED for a in args):
            raise NestError(f"an undefined element goes into {n.op}")
        if n.dtype is index:
            return n.attr if n.op == "const" else int(_INDEX[n.op](*args))
        if n.op in _BOOL and n.args[0].dtype is index:
            return _BOOL[n.op](*args)
        with np.errstate(all="ignore"):
            typed = [np.int64(a) if m.dtype is index else a for m, a in zip(n.args, args, strict=True)]
            return np.asarray(apply(n, typed))[()]

    def integer(self, n: Node) -> int:
        out = self.value(n, {})
        assert out is not UNDEFINED
        return int(out)

    def read(self, n: Node, at: Point) -> Any:
        m = self.memory(*n.attr)
        p = self.place(m, at)
        for f in self.frames:
            if f.depth >= m.depth:
                key = (m.number, p)
                if f.writes.get(key, f.iteration) != f.iteration:
                    raise NestError(f"iterations of {f.name} race: {m.storage.name}{list(at)} is read, not its own")
                f.reads[key] = f.iteration
        out, element, turn = m.values.get(p, (UNDEFINED, at, None))
        if out is UNDEFINED or element != at or turn != self.turn(m):
            return UNDEFINED
        return n.dtype.np.type(out)

    def place(self, m: Memory, at: Point) -> Point:
        """The physical place of an element now, the slot of a ring first."""
        origin = m.origin if m.origin is not None else tuple(map(self.integer, m.storage.origin))
        p = m.place(at, origin)
        return p if m.storage.turn is None else (self.integer(m.storage.turn), *p)

    def turn(self, m: Memory) -> Any:
        """The iteration that a ring's slot belongs to; None for other storages."""
        t = m.storage.turn
        return None if t is None else tuple(self.env[v] for v in ir.leaves((t,), "var"))

    def memory(self, tensor: Any, component: int) -> Memory:
        found = self.memories.get((tensor, component))
        if not found:
            raise NestError(f"{tensor.name} has no storage here")
        return found[-1]

    def write(self, tensor: Any, component: int, at: Point, value: Any) -> None:
        m = self.memory(tensor, component)
        p = self.place(m, at)
        for f in self.frames:
            if f.depth >= m.depth:
                key = (m.number, p)
                same = self.rewrites and p in m.values and bool(m.values[p][0] == value)
                if f.writes.setdefault(key, f.iteration) != f.iteration and not same:
                    raise NestError(f"iterations of {f.name} race: two write {m.storage.name}{list(at)}")
                if f.reads.get(key, f.iteration) != f.iteration:
                    raise NestError(f"iterations of {f.name} race: {m.storage.name}{list(at)} is written, another read")
        kept = value if value is UNDEFINED else np.asarray(value).astype(m.storage.dtype.np)[()]
        m.values[p] = (kept, at, self.turn(m))

    # Nodes ------------------------------------------------------------------------------------------------------

    def run(self, n: NestNode) -> None:
        match n:
            case Sequence(items):
                for i in items:
                    self.run(i)
            case LoopNode():
                self.loop(n)
            case Guard(condition, then, otherwise):
                if self.value(condition, {}):
                    self.run(then)
                elif otherwise is not None:
                    self.run(otherwise)
            case Allocation(storages, body):
                for s in storages:
                    self.allocate(s)
                self.run(body)
                for s in storages:
                    self.memories[(s.tensor, s.component)].pop()
            case Produce(label=label, body=body):
                outer, self.copying = self.copying, label in ("load", "pass", "relay", "store", "copy")
                self.run(body)
                self.copying = outer
            case Assign():
                self.assign(n)
            case PrefetchNode(region=region):
                for r in region:
                    assert r.lo is not None and r.hi is not None
                    self.integer(r.lo), self.integer(r.hi)

    def loop(self, n: LoopNode) -> None:
        start, stop = self.integer(n.start), self.integer(n.stop)
        self.depth += 1
        frame = None
        if n.mode in ("parallel", "vectorize") or (n.mode == "spatial" and not n.reduction):
            frame = Frame(self.depth, n.address)
            self.frames.append(frame)
        for k in range(start, stop):
            if frame is not None:
                frame.iteration = k
            self.env[n.var] = k
            self.run(n.body)
        self.env.pop(n.var, None)
        self.depth -= 1
        if frame is not None:
            self.frames.pop()

    def allocate(self, s: Storage) -> Memory:
        moves = any(v not in self.env for v in ir.leaves(s.origin, "var"))
        origin = None if moves else tuple(map(self.integer, s.origin))
        extents = tuple(map(self.integer, s.extents))
        if any(e < 0 for e in extents):
            raise NestError(f"{s.name} has the extents {extents}")
        m = Memory(s, origin, extents, self.depth + 1, next(self.numbers))
        self.memories.setdefault((s.tensor, s.component), []).append(m)
        return m

    def assign(self, n: Assign) -> None:
        memo: dict[Node, Any] = {}
        at = tuple(int(self.value(i, memo)) for i in n.indices)
        values = [self.value(v, memo) for v in n.values]
        self.assignments += 1
        for k, v in enumerate(values):
            if v is UNDEFINED and not (self.copying and n.values[k].op == "load"):
                raise NestError(f"{n.stage} assigns an undefined element of {n.values[k]!r}")
            self.write(n.tensor, k, at, v)


def _points(a: np.ndarray) -> Iterator[tuple[Point, Any]]:
    for at in np.ndindex(a.shape):
        yield at, a[at]


def run_nest(s: Schedule, *args: Any, sizes: dict[str, int] | None = None, **kwargs: Any) -> Any:
    """What the nest of a schedule gives for a call, in the structure that the kernel returns; `inout` is written."""
    p = s.pipeline
    bound = bind(p, args, kwargs, sizes)
    nest = build_nest(s.state, "strict")
    constants: dict[Node, Any] = {ir.size(name): v for name, v in bound.sizes.items()}
    for q in p.scalars:
        constants[q.node] = q.dtype.compute.np.type(bound.scalars[q.name])
    for name, a in bound.arrays.items():
        for axis, step in enumerate(a.strides):
            constants[ir.node("stride", index, (), (name, axis))] = step // a.itemsize
    for o in p.outputs:  # which are contiguous here
        if o.name not in bound.arrays:
            shape = [index_value(e, bound.env) for e in o.extents]
            for axis in range(len(shape)):
                step = int(np.prod(shape[axis + 1 :], dtype=np.int64))
                constants[ir.node("stride", index, (), (o.name, axis))] = step
    shifted = any(d.option("tail") == "shift" for d in s.directives)
    m = Interpreter(constants, shifted)
    for condition, meaning in nest.requirements:
        if not m.value(condition, {}):
            raise NestError(f"required: {meaning}")
    outputs: dict[int, Memory] = {}
    written: list[tuple[np.ndarray, Memory]] = []
    for st in nest.arguments:
        if st.role == "output":
            assert st.slot is not None
            outputs[st.slot] = m.allocate(st)
            m.memories[(f"output {st.slot}", 0)] = [outputs[st.slot]]
            continue
        array = st.tensor.inout if isinstance(st.tensor, InoutFunc) else st.tensor
        data = bound.arrays.get(array.name, getattr(array, "values", None))
        assert data is not None
        memory = m.allocate(st)
        memory.values.update((m.place(memory, at), (v, at, None)) for at, v in _points(data))
        if isinstance(st.tensor, InoutFunc):
            written.append((data, memory))
    _redirect(m, outputs)
    m.run(nest.body)
    for data, memory in written:
        for v, at, _ in memory.values.values():
            data[at] = v
    results = [_array(m, outputs[k]) for k in range(len(p.outputs))]
    return structured(p.structure, results)


def _redirect(m: Interpreter, outputs: dict[int, Memory]) -> None:
    """Copies to output arrays name the array by its slot."""
    find = m.memory

    def memory(tensor: Any, component: int) -> Memory:
        return outputs[tensor.slot] if isinstance(tensor, OutputArray) else find(tensor, component)

    m.memory = memory  # type: ignore[method-assign]


def _array(i: Interpreter, m: Memory) -> np.ndarray:
    assert m.origin is not None
    out = np.zeros(m.extents, m.storage.dtype.np)
    for at in np.ndindex(out.shape):
        found = m.values.get(i.place(m, tuple(k + o for k, o in zip(at, m.origin, strict=True))))
        if found is None or found[0] is UNDEFINED:
            raise NestError(f"the output {m.storage.name} has no value at {at}")
        out[at] = found[0]
    return out


__all__ = ["NestError", "run_nest"]

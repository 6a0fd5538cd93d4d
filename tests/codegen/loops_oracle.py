"""An interpreter of the loop IR in plain Python, as an oracle of lowering: `run_program(p, arrays, ...)`.

Every load and store is checked against the bounds of its buffer, arms of a select that are not taken included (native
code evaluates them too). An element of a temporary that nothing has written is UNDEFINED: it may be copied about, but
an argument never receives it, and no condition, index or bound is made of it. Iterations of parallel and vector loops
must not touch what another one writes. Stores are counted by buffer and element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen import loops as L
from tilewright.lang import ir
from tilewright.lang.errors import CompileError
from tilewright.lang.evaluate import apply
from tilewright.lang.ir import Node
from tilewright.lang.types import index
from tilewright.lang.values import _BOOL, _INDEX


class Undefined:
    """What memory holds that was never written."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


class LoopError(AssertionError):
    """The program does what no program may do."""


@dataclass(eq=False)
class Memory:
    """One live buffer. `valid` are the offsets of an argument's elements (None: 0..size-1)."""

    buffer: L.Buffer
    values: dict[int, Any]
    size: int
    valid: frozenset[int] | None
    depth: int
    number: int

    def check(self, at: int, what: str) -> None:
        if (self.valid is not None and at not in self.valid) or (self.valid is None and not 0 <= at < self.size):
            raise LoopError(f"{self.buffer.name}[{at}] is {what} outside of its {self.size} elements")


@dataclass
class Frame:
    """One concurrent loop that is running: which iteration touched what."""

    depth: int
    name: str
    iteration: int = 0
    writes: dict[tuple[int, int], int] = field(default_factory=dict)
    reads: dict[tuple[int, int], int] = field(default_factory=dict)


class _Machine:
    def __init__(self, env: dict[Node, Any], rewrites: bool):
        self.env = env
        self.rewrites = rewrites  # shifted tails may write the same value twice
        self.memories: dict[L.Buffer, Memory] = {}
        self.frames: list[Frame] = []
        self.depth = 0
        self.made = 0
        self.stores: Counter[tuple[str, int]] = Counter()

    # Values -----------------------------------------------------------------------------------------------------

    def values(self, roots: Sequence[Node]) -> list[Any]:
        memo: dict[Node, Any] = {}
        for n in ir.postorder(roots):  # arguments first, so that the recursion below stays flat
            self.value(n, memo)
        return [memo[r] for r in roots]

    def value(self, n: Node, memo: dict[Node, Any]) -> Any:
        if n in memo:
            return memo[n]
        if n in self.env:
            out = self.env[n]
        elif n.op == "load_if":
            mask = self.value(n.args[0], memo)
            at = self.value(n.args[1], memo)
            if mask is UNDEFINED:
                raise LoopError("a mask is undefined")
            out = self.load(n, at) if mask else n.dtype.compute.np.type(0)
        elif n.op == "load":
            out = self.load(n, self.value(n.args[0], memo))
        else:
            out = self.operation(n, [self.value(a, memo) for a in n.args])
        memo[n] = out
        return out

    def operation(self, n: Node, args: list[Any]) -> Any:
        if n.op == "const":
            return n.attr if n.dtype is index else n.dtype.compute.np.type(n.attr)
        if n.op == "select" and args[0] is not UNDEFINED:
            return args[1] if args[0] else args[2]
        if any(a is UNDEFINED for a in args):
            return UNDEFINED
        if n.dtype is index:
            return int(_INDEX[n.op](*args))
        if n.op in _BOOL and n.args[0].dtype is index:
            return _BOOL[n.op](*args)
        with np.errstate(all="ignore"):
            typed = [np.int64(a) if m.dtype is index else a for m, a in zip(n.args, args, strict=True)]
            return np.asarray(apply(n, typed))[()]

    def integer(self, n: Node) -> int:
        (out,) = self.values((n,))
        if out is UNDEFINED:
            raise LoopError(f"{n!r} is undefined")
        return int(out)

    # Memory -----------------------------------------------------------------------------------------------------

    def load(self, n: Node, at: Any) -> Any:
        if at is UNDEFINED:
            raise LoopError(f"{n.attr[0].name} is read at an undefined place")
        m = self.memories[n.attr[0]]
        m.check(at, "read")
        for f in self.frames:
            if f.depth >= m.depth:
                key = (m.number, at)
                if f.writes.get(key, f.iteration) != f.iteration and not self.rewrites:
                    raise LoopError(f"iterations of {f.name} race: {m.buffer.name}[{at}] is read, another wrote it")
                f.reads[key] = f.iteration
        out = m.values.get(at, UNDEFINED)
        return out if out is UNDEFINED else n.dtype.compute.np.type(out)

    def store(self, b: L.Buffer, at: Any, value: Any) -> None:
        m = self.memories[b]
        if at is UNDEFINED:
            raise LoopError(f"{b.name} is written at an undefined place")
        m.check(at, "written")
        if b.argument is not None:
            if not b.writable:
                raise LoopError(f"the input {b.name} is written")
            if value is UNDEFINED:
                raise LoopError(f"{b.name}[{at}] becomes undefined")
        for f in self.frames:
            if f.depth >= m.depth:
                key = (m.number, at)
                same = self.rewrites and at in m.values and value is not UNDEFINED and bool(m.values[at] == value)
                if f.writes.setdefault(key, f.iteration) != f.iteration and not same:
                    raise LoopError(f"iterations of {f.name} race: two write {b.name}[{at}]")
                if f.reads.get(key, f.iteration) != f.iteration and not same:
                    raise LoopError(f"iterations of {f.name} race: {b.name}[{at}] is written, another read it")
        self.stores[(b.name, at)] += 1
        if value is not UNDEFINED:
            with np.errstate(all="ignore"):
                value = np.asarray(value).astype(b.dtype.np)[()]
        m.values[at] = value

    # Statements -------------------------------------------------------------------------------------------------

    def run(self, s: L.Stmt) -> None:
        match s:
            case L.Block(statements):
                for t in statements:
                    self.run(t)
            case L.For():
                self.loop(s)
            case L.If(condition, then, otherwise):
                (c,) = self.values((condition,))
                if c is UNDEFINED:
                    raise LoopError("a condition is undefined")
                if c:
                    self.run(then)
                elif otherwise is not None:
                    self.run(otherwise)
            case L.Store(targets, values):
                found = self.values((*(i for _, i in targets), *values))
                for (b, _), at, v in zip(targets, found[: len(targets)], found[len(targets) :], strict=True):
                    self.store(b, at, v)
            case L.Allocate(buffer, body):
                assert buffer.size is not None
                self.made += 1
                size = self.integer(buffer.size)
                outer = self.memories.get(buffer)
                self.memories[buffer] = Memory(buffer, {}, size, None, self.depth + 1, self.made)
                self.run(body)
                del self.memories[buffer]
                if outer is not None:
                    self.memories[buffer] = outer
            case L.Fence():
                pass
            case L.Prefetch(_, at, _):
                self.integer(at)
            case _:
                raise TypeError(s)

    def loop(self, s: L.For) -> None:
        start, stop = self.integer(s.start), self.integer(s.stop)
        if s.mode == L.VECTORIZE and (s.start.op, s.stop.op) != ("const", "const"):
            raise CompileError(f"the vector loop {s.var!r} has no constant bounds", code="vectorize.extent")
        self.depth += 1
        frame = None
        if s.mode in (L.PARALLEL, L.VECTORIZE):
            frame = Frame(self.depth, str(s.var.attr))
            self.frames.append(frame)
        outer = self.env.get(s.var)
        for k in range(start, stop):
            if frame is not None:
                frame.iteration = k
            self.env[s.var] = k
            self.run(s.body)
        if outer is None:
            self.env.pop(s.var, None)
        else:
            self.env[s.var] = outer
        self.depth -= 1
        if frame is not None:
            self.frames.pop()


def run_program(
    p: L.Program,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int],
    scalars: Mapping[Node, Any] | None = None,
    rewrites: bool = False,
) -> tuple[int | None, Counter[tuple[str, int]]]:
    """Run a program on arrays (inputs, tables, outputs in order; outputs are written). `rewrites`: shifted tails.

    The number of the first requirement that fails (None: it has run), and how often each element was stored to.
    """
    env: dict[Node, Any] = {ir.size(n): v for n, v in zip(p.sizes, sizes, strict=True)}
    env.update(scalars or {})
    for k, a in enumerate(arrays):
        for axis, step in enumerate(a.strides):
            env[ir.node("stride", index, (), (k, axis))] = step // a.itemsize
    m = _Machine(env, rewrites)
    for b, a in zip(p.arguments, arrays, strict=True):
        places = {_place(a, at): a[at] for at in np.ndindex(a.shape)}
        assert len(places) == a.size or not b.writable
        values = {} if b.name.startswith("out.") else places
        m.memories[b] = Memory(b, values, a.size, frozenset(places), 0, -1 - len(m.memories))
    for k, c in enumerate(p.requirements):
        if not m.values((c,))[0]:
            return k, m.stores
    m.run(p.body)
    for b, a in zip(p.arguments, arrays, strict=True):
        if b.writable:
            for at in np.ndindex(a.shape):
                place = _place(a, at)
                if place not in m.memories[b].values:
                    raise LoopError(f"{b.name}{list(at)} is never written")
                a[at] = m.memories[b].values[place]
    return None, m.stores


def _place(a: np.ndarray, at: tuple[int, ...]) -> int:
    """The offset of an element, in elements."""
    return sum(i * s // a.itemsize for i, s in zip(at, a.strides, strict=True))


__all__ = ["LoopError", "run_program"]

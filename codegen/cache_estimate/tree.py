"""A program at given sizes as a tree of loops over accesses with constant steps: what an estimate looks at.

A loop has the number of iterations that it has in the middle of those around it; every address is a constant plus a
step for each loop around it, plus, where an index is not linear, terms that are evaluated where they are needed. A
condition that differs from point to point is a fraction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.codegen import loops as L
from tilewright.codegen.cpu_caches.driving import bases, main_buffers
from tilewright.codegen.emit.driven import ALIGNMENT
from tilewright.hw import Machine, SimulationError
from tilewright.hw.parts import align_up
from tilewright.lang import ir, simplify
from tilewright.lang.evaluate import evaluate
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import index
from tilewright.lang.values import index_value

_POINTS = 256  # of a condition or an index that is not linear


@dataclass(eq=False)
class Access:
    """`size` bytes of a tensor at `start` + the sum of step * iteration over `steps` (by loop variable) + `terms`
    (factor, expression); a box adds `axes` (step, extent). `share` is the part of the iterations in which it happens.
    `data`: where it goes is not known before it runs; somewhere in `span` bytes."""

    tensor: str
    write: bool
    size: int
    start: int
    steps: Mapping[Node, int]
    terms: tuple[tuple[int, Node], ...] = ()
    axes: tuple[tuple[int, int], ...] = ()
    share: float = 1.0
    data: bool = False
    span: int = 0


@dataclass(eq=False)
class Loop:
    """`straight`: unrolled or in vectors, so that what is the same in all iterations is loaded once."""

    var: Node
    trips: int
    mode: str
    body: Branch | Loop | Access

    @property
    def straight(self) -> bool:
        return self.mode in (L.UNROLL, L.VECTORIZE)

    @property
    def middle(self) -> int:
        return max(0, (self.trips - 1) // 2)


@dataclass(eq=False)
class Branch:
    """Parts in order."""

    parts: tuple[Branch | Loop | Access, ...]


Part = Branch | Loop | Access


def accesses(part: Part) -> Iterator[tuple[Access, tuple[Loop, ...]]]:
    """Every access below, with the loops from `part` on around it."""
    if isinstance(part, Access):
        yield part, ()
    elif isinstance(part, Loop):
        for a, around in accesses(part.body):
            yield a, (part, *around)
    else:
        for p in part.parts:
            yield from accesses(p)


def tree(program: L.Program, machine: Machine, env: Mapping[str, Any], extents: list[int]) -> Branch:
    """The accesses of a program to main memory. `env` has all sizes and the scalars that are known, `extents` the elements
    of the arguments.

    Raises SimulationError `estimate.data` where a loop ends where data say.
    """
    return _Builder(program, machine, env, extents).made()


@dataclass
class _Builder:
    program: L.Program
    machine: Machine
    env: Mapping[str, Any]
    extents: list[int]
    bases: dict[L.Buffer, int] = field(default_factory=dict)
    spans: dict[L.Buffer, int] = field(default_factory=dict)
    known: dict[Node, Node] = field(default_factory=dict)  # sizes, and loop variables as start + iteration
    middles: dict[Node, int] = field(default_factory=dict)
    trips: dict[Node, int] = field(default_factory=dict)
    share: float = 1.0

    def made(self) -> Branch:
        arguments = self.program.arguments
        self.spans = {b: n * b.dtype.bytes for b, n in zip(arguments, self.extents, strict=True)}
        *starts, temporaries = bases(self.spans.values()).tolist()
        self.bases = dict(zip(arguments, starts, strict=True))
        self.driven = set(main_buffers(self.program, self.machine))
        return Branch(tuple(self.parts(self.program.body, temporaries)))

    # Expressions ------------------------------------------------------------------------------------------------

    def put_in(self, *roots: Node) -> tuple[Node, ...]:
        """Sizes and scalars as numbers, loop variables as their start plus the iteration."""
        for leaf in ir.postorder(roots):
            if leaf.op in ("size", "scalar") and leaf.attr in self.env and leaf not in self.known:
                value = self.env[leaf.attr]
                self.known[leaf] = integer(int(value)) if leaf.dtype is index else ir.const(value, leaf.dtype)
        return ir.substitute(roots, self.known)

    def number(self, n: Node, what: str) -> int:
        (n,) = self.put_in(n)
        if _unknown([n]):
            raise _data(what)
        return int(index_value(n, self.middles))

    def points(self) -> dict[Node, np.ndarray]:
        """Some points of all loops around, as iterations; the same ones every time."""
        rng = np.random.default_rng(0)
        return {v: rng.integers(0, max(1, n), _POINTS) for v, n in self.trips.items()}

    def fraction(self, condition: Node) -> float:
        (c,) = self.put_in(condition)
        if c.op == "const":
            return float(c.attr)
        if _unknown([c]):
            return 0.5
        (held,) = evaluate([c], self.points())
        return float(np.mean(held))

    # Statements -------------------------------------------------------------------------------------------------

    def parts(self, s: L.Stmt, arena: int) -> list[Part]:
        match s:
            case L.For():
                return self.loop(s, arena)
            case L.If(condition, then, otherwise):
                outer, held = self.share, self.fraction(condition)
                out = []
                for share, branch in ((held, then), (1 - held, otherwise)):
                    if share > 0 and branch is not None:
                        self.share = outer * share
                        out += self.parts(branch, arena)
                self.share = outer
                return out
            case L.Allocate(buffer, body):
                assert buffer.size is not None
                size = max(0, self.number(buffer.size, f"the size of {buffer.name} depends on data"))
                self.bases[buffer], self.spans[buffer] = arena, size * buffer.dtype.bytes
                if buffer in self.driven:
                    arena += align_up(self.spans[buffer], ALIGNMENT)
                return self.parts(body, arena)
            case L.Store():
                return self.store(s)
            case L.Call():
                reads = [self.box(v, False) for v in s.views[len(s.out) :]]
                return [a for a in (*reads, *(self.box(v, True) for v in s.out)) if a is not None]
        return [p for t in L.children(s) for p in self.parts(t, arena)]

    def loop(self, s: L.For, arena: int) -> list[Part]:
        (start,) = self.put_in(s.start)
        trips = self.number(simplify.sub(s.stop, s.start), f"the loop {s.var.attr} ends where data say")
        if trips <= 0:
            return []
        outer = self.known.get(s.var)
        self.known[s.var] = simplify.add(start, s.var)
        self.middles[s.var], self.trips[s.var] = max(0, (trips - 1) // 2), trips
        body = Branch(tuple(self.parts(s.body, arena)))
        del self.middles[s.var], self.trips[s.var], self.known[s.var]
        if outer is not None:
            self.known[s.var] = outer
        return [Loop(s.var, trips, s.mode, body)] if body.parts else []

    def store(self, s: L.Store) -> list[Part]:
        loads = [n for n in ir.postorder([*s.values, *(i for _, i in s.targets)]) if n.op in ("load", "load_if")]
        reads = [(n.attr[0], n.args[-1]) for n in loads if n.attr[0] in self.driven]
        writes = [(b, i) for b, i in s.targets if b in self.driven]
        places = self.put_in(*(i for _, i in reads), *(i for _, i in writes))
        out: dict[Any, Access] = {}
        for (b, _), at in zip(reads, places, strict=False):
            a = self.access(b, at, False)
            out.setdefault((a.tensor, a.start, tuple(a.steps.items()), a.terms), a)
        return [
            *out.values(), *(self.access(b, at, True) for (b, _), at in zip(writes, places[len(reads) :], strict=True))
        ]  # fmt: skip

    def access(self, b: L.Buffer, at: Node, write: bool) -> Access:
        """An access at an index that has been put in."""
        size = b.dtype.bytes
        coefs, const = simplify.linear(at)
        start = self.bases[b] + const * size
        steps = {v: c * size for v, c in coefs.items() if v in self.trips}
        terms = tuple((c * size, n) for n, c in coefs.items() if n not in self.trips)
        data = _unknown([n for _, n in terms])
        name = b.name.removeprefix("out.")
        return Access(name, write, size, start, steps, () if data else terms, (), self.share, data, self.spans[b])

    def box(self, v: L.View, write: bool) -> Access | None:
        if v.buffer not in self.driven:
            return None
        (first,) = self.put_in(v.first)
        a = self.access(v.buffer, first, write)
        n = [self.number(e, f"a box of {v.buffer.name} depends on data") for e in v.extents]
        steps = [self.number(e, f"a box of {v.buffer.name} depends on data") * a.size for e in v.steps]
        return replace(a, axes=tuple(zip(steps, n, strict=True)))


def _unknown(nodes: Sequence[Node]) -> bool:
    """Whether only a run says what these are."""
    return any(n.op in ("load", "load_if", "scalar") for n in ir.postorder(nodes))


def _data(reason: str) -> SimulationError:
    return SimulationError(
        f"there is no estimate of the caches: {reason}", code="estimate.data",
        hint="run it: kernel.simulate(..., caches=True)",
    )  # fmt: skip

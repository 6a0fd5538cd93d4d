"""What a simulated machine does as one thing: copies by its engines, and all that cores compute between them.

Staging copies (see `transfers`) that an engine of the machine can do become loops over their box, element by element:
what the machine moves is what the program moves, so that values say whether a transfer is right. The others are done by
the cores, and are parts of what is computed. Every maximal run of statements without a copy by an engine is one section;
loops, conditions and buffers around copies stay outside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from tilewright.codegen import loops as L
from tilewright.codegen.partition import in_versions
from tilewright.hw.errors import SimulationError
from tilewright.hw.machine import Machine
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer


def sections(p: L.Program, machine: Machine) -> L.Program:
    """The program in numbered sections. Raises SimulationError `dma.none` and `dma.by-hand`: an asynchronous copy that
    cores would have to do."""
    return replace(p, body=_numbered(_Wrapper().of(_decided(p.body, machine), ()), itertools.count()))


def parted(s: L.Stmt) -> L.Stmt:
    """A program in sections, the loops inside of what is computed parted."""
    if isinstance(s, L.Section):
        return replace(s, body=in_versions(s.body)) if s.kind == L.COMPUTE else s
    return rebuilt(s, [parted(t) for t in L.children(s)])


def rebuilt(s: L.Stmt, inner: list[L.Stmt]) -> L.Stmt:
    """A statement with other statements directly below."""
    match s:
        case L.Block():
            return L.block(*inner)
        case L.For() | L.Allocate() | L.Section() | L.Turn():
            return replace(s, body=inner[0])
        case L.If():
            return replace(s, then=inner[0], otherwise=inner[1] if len(inner) > 1 else None)
    return s


def _numbered(s: L.Stmt, numbers: Iterator[int]) -> L.Stmt:
    """The loops in text order, so that their parts are known as one."""
    if isinstance(s, L.For):
        s = replace(s, number=next(numbers))
    return rebuilt(s, [_numbered(t, numbers) for t in L.children(s)])


# Copies ---------------------------------------------------------------------------------------------------------


def _decided(s: L.Stmt, machine: Machine) -> L.Stmt:
    """Who does each copy: an engine, or the cores by hand."""
    if isinstance(s, L.Section) and s.kind == L.UNIT:
        return _turned(s, machine)
    if not isinstance(s, L.Section) or s.kind != L.COPY:
        return rebuilt(s, [_decided(t, machine) for t in L.children(s)])
    reason = s.reason or _reason(s.transfers, machine)
    if not reason:
        return L.block(*_by_engine(s, machine))
    if s.asynchronous:
        raise SimulationError(
            f"{s.name} is copied asynchronously, which no engine of {machine.name} can do: {reason}",
            code="dma.none" if not s.reason and _engineless(s.transfers, machine) else "dma.by-hand",
            hint="leave double_buffer out: then the cores copy it, and wait for it",
        )
    return replace(s, kind=L.HAND, reason=reason)


def _turned(s: L.Section, machine: Machine) -> L.Section:
    """A call of a unit the way round that the unit can do: a and b may change places, and m and n with them."""
    unit = next(u for u in machine.units if u.name == s.unit)
    a, b, c = s.operands
    m, n, k = s.roles

    def fits(x: L.View, y: L.View, rows: Node, columns: Node) -> bool:
        views = zip("abc", (x, y, c), strict=True)
        extents = zip("mn", (rows, columns), strict=True)
        return all(
            v.buffer.dtype.name == unit.types[o] and machine.memory(v.buffer.memory) == machine.memory(unit.memories[o])
            for o, v in views
        ) and all((unit.shape.get(r, 1) or _FAR) >= _most(e) for r, e in extents)

    if fits(a, b, m, n) or not fits(b, a, n, m):
        return s
    return replace(s, operands=(b, a, c), roles=(n, m, k))


_FAR = 1 << 40


def _most(e: Node) -> int:
    """What an extent is at most, as far as it says so itself."""
    factors = [
        min([x.attr for x in ir.spread(f, "min") if x.op == "const"] or [_FAR])
        for g in ir.spread(e, "mul") for f in (ir.spread(g, "max")[0],)
    ]  # fmt: skip
    return math.prod(factors)


def _engineless(transfers: tuple[L.Transfer, ...], machine: Machine) -> bool:
    return any(machine.dma(t.source.buffer.memory, t.target.buffer.memory) is None for t in transfers)


def _reason(transfers: tuple[L.Transfer, ...], machine: Machine) -> str:
    """Why an engine can't do these; nothing if it can."""
    for t in transfers:
        a, b = t.source.buffer, t.target.buffer
        engine = machine.dma(a.memory, b.memory)
        if engine is None:
            one, other = machine.memory(a.memory).name, machine.memory(b.memory).name
            return f"no engine joins {one} and {other}" if one != other else f"it stays in {one}"
        if a.dtype is not b.dtype and not engine.convert:
            return f"{engine.name} does not convert {a.dtype} to {b.dtype}"
    return ""


def _by_engine(s: L.Section, machine: Machine) -> Iterator[L.Stmt]:
    """A section a transfer; the first one of a stage says which points it computes."""
    several = len(s.transfers) > 1
    for k, t in enumerate(s.transfers):
        engine = machine.dma(t.source.buffer.memory, t.target.buffer.memory)
        assert engine is not None
        store = _store_to(s.body, t)
        name = s.name if store.origin is None else store.origin.stage
        first = not any(
            u.target.buffer is not t.target.buffer for u in s.transfers[:k] if _store_to(s.body, u) is store
        )
        made = L.Section(
            L.COPY, name, _element_by_element(t, store, name, first), (t,), t.asynchronous, engine.name
        )  # fmt: skip
        some: Node = ir.TRUE
        for e in t.source.extents if several else ():
            some = simplify.conjunction(some, simplify.compare("ge", e, integer(1)))
        yield made if some is ir.TRUE else L.If(some, made)


def _store_to(s: L.Stmt, t: L.Transfer) -> L.Store:
    """The store by which a copy was written before."""
    return next(
        u for u in L.walk(s)
        if isinstance(u, L.Store) and any(b is t.target.buffer for b, _ in u.targets)
        and any(n.attr[0] is t.source.buffer for n in ir.leaves(u.values, "load"))
    )  # fmt: skip


def _element_by_element(t: L.Transfer, store: L.Store, name: str, first: bool) -> L.Stmt:
    """The loops of a transfer. The values are those of the store that it stands for, types included."""
    variables = [ir.var(f"{name}.{k}") for k in range(len(t.source.extents))]

    def at(v: L.View) -> Node:
        index = v.first
        for x, step in zip(variables, v.steps, strict=True):
            index = simplify.add(index, simplify.mul(x, step))
        return index

    k = next(k for k, (b, _) in enumerate(store.targets) if b is t.target.buffer)
    (load,) = ir.leaves((store.values[k],), "load")
    here = ir.node("load", load.dtype, (at(t.source),), load.attr)
    (value,) = ir.substitute((store.values[k],), {load: here})
    point = tuple(simplify.add(o, x) for o, x in zip(t.target.origin, variables, strict=True))
    origin = L.Origin(store.origin.stage, point) if first and store.origin is not None else None
    out: L.Stmt = L.Store(((t.target.buffer, at(t.target)),), (value,), origin=origin)
    for x, e in zip(reversed(variables), reversed(t.source.extents), strict=True):
        out = L.For(x, L.ZERO, e, L.SERIAL, out)
    return out


# Sections -------------------------------------------------------------------------------------------------------


class _Wrapper:
    """Numbers sections in text order."""

    def __init__(self) -> None:
        self.number = 0
        self.copying: dict[L.Stmt, bool] = {}

    def of(self, s: L.Stmt, turns: tuple[tuple[L.Buffer, Node], ...]) -> L.Stmt:
        """`turns`: the slots in use, of the rings around."""
        if isinstance(s, L.Section) and s.kind == L.COPY:
            return replace(s, number=self.next())
        if not self.copies(s):
            return self.computed(s, turns)
        if isinstance(s, L.Turn):
            turns = (*turns, (s.buffer, s.slot))
        if not isinstance(s, L.Block):
            return rebuilt(s, [self.of(t, turns) for t in L.children(s)])
        out: list[L.Stmt] = []
        plain: list[L.Stmt] = []
        for t in s.statements:
            if not self.copies(t):
                plain.append(t)
                continue
            if plain:
                out.append(self.computed(L.block(*plain), turns))
                plain = []
            out.append(self.of(t, turns))
        if plain:
            out.append(self.computed(L.block(*plain), turns))
        return L.block(*out)

    def next(self) -> int:
        self.number += 1
        return self.number - 1

    def copies(self, s: L.Stmt) -> bool:
        """Whether an engine copies something inside."""
        found = self.copying.get(s)
        if found is None:
            mine = isinstance(s, L.Section) and s.kind == L.COPY
            found = self.copying[s] = mine or any(self.copies(t) for t in L.children(s))
        return found

    def computed(self, s: L.Stmt, turns: tuple[tuple[L.Buffer, Node], ...]) -> L.Stmt:
        """What the cores do; nothing where that is nothing."""
        found = list(L.walk(s))
        stages = dict.fromkeys(
            t.origin.stage for t in found if isinstance(t, L.Store) and t.origin is not None
        ) | dict.fromkeys(t.stage for t in found if isinstance(t, L.Call))  # fmt: skip
        if not any(isinstance(t, (L.Store, L.Call)) for t in found):
            return s
        used = {b for group in touched(s) for b in group}
        mine = tuple((b, slot) for b, slot in turns if b in used)
        return L.Section(L.COMPUTE, ", ".join(stages), s, number=self.next(), turns=mine)


def touched(s: L.Stmt) -> tuple[set[L.Buffer], set[L.Buffer]]:
    """The buffers that statements read, and those that they write."""
    reads: set[L.Buffer] = set()
    writes: set[L.Buffer] = set()
    roots: list[Node] = []
    for t in L.walk(s):
        if isinstance(t, L.Store):
            writes |= {b for b, _ in t.targets}
            roots += (*t.values, *(i for _, i in t.targets))
        elif isinstance(t, L.For):
            roots += (t.start, t.stop)
        elif isinstance(t, L.If):
            roots.append(t.condition)
        elif isinstance(t, L.Call):
            writes |= {v.buffer for v in t.out}
            reads |= {v.buffer for v in t.views[len(t.out) :]}
            roots += (n for v in t.views for n in v.nodes)
    reads |= {n.attr[0] for n in ir.postorder(roots) if n.op in ("load", "load_if")}
    return reads, writes


__all__ = ["parted", "rebuilt", "sections", "touched"]

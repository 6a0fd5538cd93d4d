"""The engine's table of a program on a machine: the tree that emission wrote down, and what each count costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tilewright.codegen import loops as L
from tilewright.codegen.emit.ledger import (
    ACCESSES,
    CONFLICTS,
    LOADS,
    POINTS,
    SHARED_LOADS,
    SHARED_STORES,
    STORES,
    Key,
    Ledger,
    order,
    renumbered,
)
from tilewright.codegen.operations import Operations
from tilewright.codegen.skeleton import tree as T
from tilewright.codegen.skeleton.parameters import engine_of, ticks
from tilewright.hw.checks import ROLES
from tilewright.hw.formulas import Formula, Tree
from tilewright.hw.machine import Machine
from tilewright.hw.parts import Compute, Memory
from tilewright.hw.timing import TICKS
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import as_dtype

FMA = 2  # operations, where a machine says nothing else


def table_of(ledger: Ledger) -> T.Table:
    """The table of an emitted program."""
    keys = order(ledger)
    place = {k: i for i, k in enumerate(keys)}
    tree = renumbered(ledger.tree(), [place[k] for k in ledger.keys])
    copies = frozenset(number for number, s in ledger.sections.items() if s.kind == L.COPY)
    found = _Resources(ledger.machine, copies)
    counters = tuple(T.Counter(k, k.section, tuple(found.weights(k))) for k in keys)
    units = tuple(found.unit(name) for name in ledger.units)
    compute = ledger.machine.compute
    names = {s.number: s.name for s in L.walk(ledger.program.body) if isinstance(s, L.Section) and s.kind != L.HAND}
    buffers = tuple(T.Buffer(b.name, ledger.machine.memory(b.memory).name, b.slots) for b in ledger.buffers)
    return T.Table(
        tree, counters, tuple(found.resources), tuple(names.get(k, "") for k in range(max(names, default=-1) + 1)), buffers,
        tuple(map(engine_of, ledger.machine.dmas)), units, compute.cores, compute.sync, ticks(compute.barrier),
        ticks(compute.latency),
    )  # fmt: skip


def weight(compute: Compute, kind: str) -> Fraction:
    """For how many operations one of a class counts."""
    return Fraction((compute.classes or {}).get(kind, FMA if kind == "fma" else 1))


@dataclass
class _Resources:
    """Resources in the order in which they are first needed."""

    machine: Machine
    copies: frozenset[int]

    def __post_init__(self) -> None:
        self.resources: list[T.Resource] = []
        self.numbers: dict[str, int] = {}

    def number(self, name: str, scope: str = T.MACHINE, kind: str = T.BUSY) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.resources)
            self.resources.append(T.Resource(name, scope, kind))
        return self.numbers[name]

    def weights(self, k: Key) -> Iterator[tuple[int, int]]:
        """What one count of a computation costs. Copies by engines cost what the engine takes."""
        if k.section is None or k.section in self.copies:
            return
        if k.kind == POINTS:
            cost = math.ceil(cycles(self.machine.compute, k.operations, k.lanes, k.spatial) * TICKS)
            if cost:
                yield self.number("array" if k.spatial else "compute", T.ELEMENT if k.spatial else T.CORE), cost
        elif k.buffer is not None:
            memory = self.machine.memory(k.buffer.memory)
            if k.kind == CONFLICTS:
                yield self.number(f"{memory.name}.banks", memory.per, T.CONFLICT), TICKS
            elif k.kind == ACCESSES:
                yield self.number(f"{memory.name}.latency", T.CORE), ticks(memory.wait)
            elif k.kind in (LOADS, STORES):
                yield self.port(memory, k.kind), self.cost(memory, k.kind, k.buffer.dtype.bytes)
            elif k.kind in (SHARED_LOADS, SHARED_STORES):
                kind = LOADS if k.kind == SHARED_LOADS else STORES
                cost = self.cost(memory, kind, k.buffer.dtype.bytes)
                yield self.port(memory, kind), cost if k.again else -cost

    def unit(self, name: str) -> T.UnitCost:
        """What a call of a unit takes. Each core has its own."""
        unit = next(u for u in self.machine.units if u.name == name)
        roles = tuple(ir.var(f"role.{r}") for r in ROLES)
        if isinstance(unit.interval, Formula):
            calls = simplify.mul(integer(TICKS), as_node(unit.interval, dict(zip(ROLES, roles, strict=True))))
        else:
            calls = integer(ticks(unit.interval))
        return T.UnitCost(name, self.number(name, T.CORE), roles, calls, ticks(unit.latency))

    def port(self, memory: Memory, kind: str) -> int:
        name = memory.name if memory.ports == "shared" else f"{memory.name}.{'read' if kind == LOADS else 'write'}"
        return self.number(name, memory.per)

    @staticmethod
    def cost(memory: Memory, kind: str, size: int) -> int:
        bandwidth = memory.read_bandwidth if kind == LOADS else memory.write_bandwidth
        return math.ceil(size * TICKS / Fraction(bandwidth))


_NODES = {
    "+": simplify.add, "-": simplify.sub, "*": simplify.mul, "//": simplify.floordiv, "min": simplify.minimum,
    "max": simplify.maximum,
}  # fmt: skip


def as_node(formula: Formula, roles: Mapping[str, Node]) -> Node:
    """A formula of a machine file as an expression."""

    def of(t: Tree) -> Node:
        if t[0] == "number":
            return integer(t[1])
        return roles[t[1]] if t[0] == "name" else _NODES[t[0]](of(t[1]), of(t[2]))

    return of(formula.tree)


def cycles(compute: Compute, did: Operations, lanes: int, spatial: bool) -> Fraction:
    """The cycles of one evaluation on one core, or on one element of the array.

    Rates are of the whole machine. Scalar code takes a vector's turn for each operation; a vector of n lanes takes as many
    turns as registers hold it, and each lane has its part of them.
    """
    total = Fraction(0)
    for kind, name, n in did:
        rate = compute.rate(name)
        if rate is None:
            continue
        width = compute.lanes(as_dtype(name).bytes)
        part = (
            Fraction(1) if spatial else Fraction(width) if lanes == 1 else Fraction(-(-lanes // width) * width, lanes)
        )
        total += n * weight(compute, kind) * part / Fraction(rate)
    return total * (math.prod((compute.axes or {}).values()) if spatial else 1) * compute.cores


__all__ = ["cycles", "table_of", "weight"]

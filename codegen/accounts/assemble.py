"""From counters to the account: what each of them says, by tensor, by memory and by section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.codegen import loops as L
from tilewright.codegen.accounts.table import weight
from tilewright.codegen.emit.ledger import (
    ACCESSES,
    CALLS,
    DONE,
    HANDS,
    LOADS,
    MOVED,
    POINTS,
    SHARED_LOADS,
    SHARED_STORES,
    STORES,
    Key,
    Ledger,
    order,
)
from tilewright.hw import CopyStream, Machine, Region, Tensor, Traffic
from tilewright.hw.formulas import Formula
from tilewright.lang.extents import required_inputs
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import index_value


@dataclass(frozen=True)
class Counted:
    """What the counters of a program say, by key."""

    ledger: Ledger
    counts: Sequence[int]

    @property
    def machine(self) -> Machine:
        return self.ledger.machine

    def of(self, *kinds: str) -> Iterator[tuple[Key, int]]:
        """The counters of some kinds that are not 0."""
        for key, n in zip(order(self.ledger), self.counts, strict=True):
            if n and key.kind in kinds:
                yield key, n

    def section(self, key: Key) -> L.Section | None:
        return None if key.section is None else self.ledger.sections.get(key.section)

    def outward(self, s: L.Section) -> bool:
        """Whether a copy goes to a memory further out."""
        assert s.transfer is not None
        return self.depth(s.transfer.target.buffer) < self.depth(s.transfer.source.buffer)

    def depth(self, b: L.Buffer) -> int:
        return self.machine.memories.index(self.machine.memory(b.memory))


# What a count of each kind adds to reads or writes.
ELEMENTS = {LOADS: 1, STORES: 1, SHARED_LOADS: -1, SHARED_STORES: -1}


def tensor_name(b: L.Buffer) -> str:
    """What a buffer is called in an account."""
    return b.name.removeprefix("out.").partition("~")[0]


def staged(program: L.Program, machine: Machine) -> dict[str, str]:
    """The tensor of which each buffer holds a part: where its copies come from, or go to, furthest out."""
    found: dict[str, L.Buffer] = {}

    def depth(b: L.Buffer) -> int:
        return machine.memories.index(machine.memory(b.memory))

    for s in L.walk(program.body):
        for t in s.transfers if isinstance(s, L.Section) else ():
            inner, outer = sorted((t.source.buffer, t.target.buffer), key=depth, reverse=True)
            if depth(inner) > depth(outer) or inner.argument is None:
                found.setdefault(inner.name, outer)
    out: dict[str, str] = {}
    for name, b in found.items():
        seen = {name}
        while b.name in found and b.name not in seen:
            seen.add(b.name)
            b = found[b.name]
        out[name] = tensor_name(b)
    return out


def traffic(c: Counted, of: Mapping[str, str]) -> tuple[Traffic, ...]:
    """A row for each memory and tensor: memories from the outermost inwards, tensors in the order of their first use.

    Elements of an array that want the same at once read it once, and what they add to at once is written once.
    """
    rows: dict[tuple[str, str], Traffic] = {}
    for key, n in c.of(*ELEMENTS):
        b, s = key.buffer, c.section(key)
        assert b is not None
        n *= ELEMENTS[key.kind] * (-1 if key.again else 1)
        memory, name, size = c.machine.memory(b.memory).name, tensor_name(b), n * b.dtype.bytes
        way = key.hand if s is None or s.kind != L.COPY else -1 if c.outward(s) else 1
        if key.kind in (LOADS, SHARED_LOADS):
            drains = n if way < 0 else 0
            row = Traffic(memory, name, reads=n, bytes_read=size, drains=drains, requests=n if key.kind == LOADS else 0)
        else:
            fills = n if way > 0 and not key.first else 0
            row = Traffic(memory, name, writes=n, bytes_written=size, fills=fills, first=n if key.first else 0)
        row = replace(row, of=of.get(b.name, name))
        rows[memory, name] = rows[memory, name] + row if (memory, name) in rows else row
    memories = [m.name for m in c.machine.memories]
    return tuple(sorted(rows.values(), key=lambda row: memories.index(row.memory)))


def by_hand(c: Counted, of: Mapping[str, str]) -> Iterator[CopyStream]:
    """The copies that cores did where an engine might have, and why; what goes to registers or comes from them is none."""
    begun = {(k.section, k.name): n for k, n in c.of(HANDS)}
    moved = {(k.section, k.name): n for k, n in c.of(MOVED)}
    seen: set[tuple[int | None, str]] = set()
    computed = (s for s in L.walk(c.ledger.program.body) if isinstance(s, L.Section) and s.kind == L.COMPUTE)
    for s in computed:
        for h in L.walk(s.body):
            if not isinstance(h, L.Section) or h.kind != L.HAND:
                continue
            at, buffers = (s.number, h.name), _ends(h)
            source, target = (c.machine.memory(b.memory) for b in buffers)
            if at in begun and at not in seen and "registers" not in (source.kind, target.kind):
                seen.add(at)
                yield CopyStream(
                    h.name, of.get(buffers[1].name, tensor_name(buffers[1])), source.name, target.name, copies=begun[at],
                    bytes=moved.get(at, 0) * buffers[1].dtype.bytes, reason=h.reason,
                )  # fmt: skip


def _ends(h: L.Section) -> tuple[L.Buffer, L.Buffer]:
    """Source and target of a copy by hand; the same where it reads nothing."""
    if h.transfers:
        return h.transfers[0].source.buffer, h.transfers[0].target.buffer
    from tilewright.codegen.sections import touched

    reads, writes = (sorted(group, key=lambda b: b.name) for group in touched(h.body))
    target = writes[0]
    return next((b for b in reads if b.memory != target.memory), target), target


def regions(c: Counted) -> tuple[Region, ...]:
    """What the sections did, those of the same name together."""
    made: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for key, n in c.of(*ELEMENTS, ACCESSES, POINTS, CALLS, DONE):
        if key.section is None:
            continue
        s = c.ledger.sections[key.section]
        place = (s.name, "copy" if s.kind == L.COPY else "compute")
        row = made.setdefault(place, {"operations": {}, "units": {}, "read": {}, "written": {}, "accesses": {}})
        if key.kind == POINTS:
            for kind, name, many in key.operations:
                ops = row["operations"]
                ops[name] = ops.get(name, 0) + n * many * weight(c.machine.compute, kind)
        elif key.kind == DONE:
            row["operations"][key.name] = row["operations"].get(key.name, 0) + 2 * n
        elif key.kind == CALLS:
            interval = next(u.interval for u in c.machine.units if u.name == key.name)
            if not isinstance(interval, Formula):
                row["units"][key.name] = row["units"].get(key.name, 0.0) + n * interval
        elif key.buffer is not None and key.kind == ACCESSES:
            memory = c.machine.memory(key.buffer.memory).name
            row["accesses"][memory] = row["accesses"].get(memory, 0) + n
        elif key.buffer is not None:
            n *= ELEMENTS[key.kind] * (-1 if key.again else 1)
            into = row["read" if key.kind in (LOADS, SHARED_LOADS) else "written"]
            memory = c.machine.memory(key.buffer.memory).name
            into[memory] = into.get(memory, 0) + n * key.buffer.dtype.bytes
    return tuple(
        Region(
            name,
            kind,
            {t: round(n) for t, n in row["operations"].items()},
            row["units"],
            read=row["read"],
            written=row["written"],
            accesses=row["accesses"],
        )
        for (name, kind), row in made.items()
    )


def operations(found: Sequence[Region]) -> dict[str, int]:
    """The operations of all sections together."""
    out: dict[str, int] = {}
    for r in found:
        for name, n in r.operations.items():
            out[name] = out.get(name, 0) + n
    return out


def tensors(p: Pipeline, sizes: Mapping[str, int]) -> tuple[Tensor, ...]:
    """The arguments of a kernel with the bytes that must be read and written of them."""
    out: dict[str, Tensor] = {}
    needed = required_inputs(p, sizes)
    for a in p.arrays:
        n = a.dtype.bytes
        for start, stop in needed.get(a.name, ()):
            n *= max(0, stop - start)
        out[a.name] = Tensor(a.name, reads=n)
    for t in p.tables:
        out[t.name] = Tensor(t.name, reads=t.values.nbytes)
    for o in p.outputs:
        n = o.dtype.bytes
        for e in o.extents:
            n *= max(0, index_value(e, sizes))
        out[o.name] = Tensor(o.name, out[o.name].reads if o.name in out else 0, n)
    return tuple(out.values())


def energy(rows: Sequence[Traffic], done: Mapping[str, int], machine: Machine) -> dict[str, float]:
    """Picojoules by memory, and of the arithmetic: figures are of a byte and of an operation. What has no figure is left
    out."""
    out: dict[str, float] = {}
    for m in machine.memories:
        if m.read_energy is None and m.write_energy is None:
            continue
        mine = [r for r in rows if r.memory == m.name]
        spent = sum(r.bytes_read * (m.read_energy or 0) + r.bytes_written * (m.write_energy or 0) for r in mine)
        if mine:
            out[m.name] = float(spent)
    each = machine.compute.energy or {}
    arithmetic = [n * each[name] for name, n in done.items() if name in each]
    if arithmetic:
        out["compute"] = float(sum(arithmetic))
    return out


def notes(hands: Sequence[CopyStream]) -> tuple[str, ...]:
    """What a reader of the counts must know."""
    out = [f"{h.name} is copied by the cores from {h.source} to {h.target}: {h.reason}" for h in hands]
    return tuple(dict.fromkeys(out))

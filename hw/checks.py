"""What the parts of a machine must satisfy together: every rule is one function that reports what breaks it.

Rules see the parts that could be read. What depends on all parts of a sort is only checked where all could be.

* Memories run from the outermost inwards; the first and only the first is `main`, one at most is the `registers`.
* A name means one thing: memories, engines, caches, units and axes have different names.
* Engines join memories to a tree that grows from `main` inwards: one way to each memory, and several engines only on
  one pair. Registers are loaded and stored by cores, never by engines.
* Where there are engines, every scratchpad must be reached: by engines from main, as the memory of a unit's operand, or
  by what has it of its own (`per`). Where there are none, the cores copy by hand, and reach all.
* Caches grow from the core outwards, and no more cores share one than there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .fields import show_bytes
from .formulas import Formula
from .parts import Cache, Compute, Dma, Memory, Unit
from .reader import Source, closest

MAIN = "main"
REGISTERS = "reg"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a file that could be read, by their number in it."""

    compute: Compute | None
    memories: Mapping[int, Memory]
    dmas: Mapping[int, Dma]
    caches: Mapping[int, Cache]
    units: Mapping[int, Unit]


def check(source: Source, parts: Parts) -> None:
    """Report every rule that is broken."""
    _kinds_of_memories(source, parts)
    _names(source, parts)
    _sizes_of_memories(source, parts)
    _references(source, parts)
    if not source.broken & {"memory", "dma"}:
        _tree(source, parts)
    _caches(source, parts)
    if parts.compute is not None:
        _compute(source, parts.compute, parts)


def _kinds_of_memories(source: Source, parts: Parts) -> None:
    if not source.tables.get("memory"):
        source.report("missing", "there is no [[memory]]", 'the first one must have kind = "main"')
    registers = [index for index, memory in parts.memories.items() if memory.kind == "registers"]
    for index, memory in parts.memories.items():
        if (memory.kind == "main") != (index == 0):
            source.report(
                "bad-value", f'kind = "{memory.kind}" in [[memory]] number {index + 1}',
                'memories run from the outermost inwards: the first and only the first has kind = "main"',
                table="memory", index=index, key="kind",
            )  # fmt: skip
        reserved = {MAIN: "main", REGISTERS: "registers"}.get(memory.name, memory.kind)
        if reserved != memory.kind:
            source.report(
                "bad-value", f"the name {memory.name!r} for a memory of kind {memory.kind!r}",
                f"{memory.name!r} always means the {reserved} of a machine",
                table="memory", index=index, key="name",
            )  # fmt: skip
        if memory.kind == "main" and memory.per != "machine":
            source.report(
                "bad-value", f'[[memory]] {memory.name} is the main memory and has per = "{memory.per}"',
                "all of the machine has one main memory", table="memory", index=index, key="per",
            )  # fmt: skip
    for index in registers[1:]:
        source.report(
            "duplicate", "a second memory of kind registers", "at most one", table="memory", index=index, key="kind"
        )


def _names(source: Source, parts: Parts) -> None:
    """Accounts and schedules speak of parts by their names alone, so a name is given once."""
    taken: dict[str, str] = {}

    def take(name: str, what: str, table: str, index: int, key: str) -> None:
        if name in taken:
            source.report(
                "duplicate", f"{name!r} is the name of {taken[name]} and of {what}",
                "memories, engines, caches, units and axes have different names", table=table, index=index, key=key,
            )  # fmt: skip
        taken.setdefault(name, what)

    listed: list[tuple[str, str, Mapping[int, Any]]] = [
        ("memory", "a memory", parts.memories), ("dma", "an engine", parts.dmas),
        ("cache", "a cache", parts.caches), ("unit", "a unit", parts.units),
    ]  # fmt: skip
    for table, what, found in listed:
        for index, part in found.items():
            take(part.name, what, table, index, "name")
    for axis in (parts.compute.axes if parts.compute else None) or {}:
        take(axis, "an axis", "compute", 0, "axes")


def _sizes_of_memories(source: Source, parts: Parts) -> None:
    for index, memory in parts.memories.items():
        if memory.capacity is not None and memory.capacity < memory.alignment:
            size, alignment = show_bytes(memory.capacity), show_bytes(memory.alignment)
            source.report(
                "bad-value", f"[[memory]] {memory.name} has {size} and an alignment of {alignment}",
                "room for at least one buffer of the alignment's size", table="memory", index=index, key="alignment",
            )  # fmt: skip


def _references(source: Source, parts: Parts) -> None:
    given = source.tables.get("memory")
    names = [entry["name"] for entry in (given if isinstance(given, list) else ()) if isinstance(entry, dict)
             and isinstance(entry.get("name"), str)]  # fmt: skip

    def known(name: str, label: str, table: str, index: int, key: str) -> None:
        if name not in names:
            source.report(
                "bad-value", f"{label}: {key} has a memory {name!r} that is not there",
                f"the memories are {', '.join(names)}{closest(name, names)}", table=table, index=index, key=key,
            )  # fmt: skip

    for index, dma in parts.dmas.items():
        for name in dict.fromkeys(name for pair in dma.joins for name in pair):
            known(name, f"[[dma]] {dma.name}", "dma", index, "joins")
    for index, unit in parts.units.items():
        for name in dict.fromkeys(unit.memories.values()):
            known(name, f"[[unit]] {unit.name}", "unit", index, "memories")
        if set(unit.memories) != set(unit.types):
            types, memories = ", ".join(unit.types), ", ".join(unit.memories)
            source.report(
                "bad-value", f"[[unit]] {unit.name}: types speaks of {types}, and memories of {memories}",
                "both name the same operands", table="unit", index=index, key="memories",
            )  # fmt: skip
        _unit(source, unit, index)


ROLES, OPERANDS = ("m", "n", "k"), ("a", "b", "c")


def _unit(source: Source, unit: Unit, index: int) -> None:
    """A unit does a block of a matrix product, and its interval is a formula over its roles, above 0."""

    def report(key: str, problem: str, legal: str) -> None:
        source.report("bad-value", f"[[unit]] {unit.name}: {problem}", legal, table="unit", index=index, key=key)

    for role in unit.shape:
        if role not in ROLES:
            report("shape", f"shape has a role {role!r}", "c[m, n] += a[m, k] b[k, n]: its roles are m, n and k")
    for operand in unit.types:
        if operand not in OPERANDS:
            report("types", f"types speaks of {operand!r}", "c[m, n] += a[m, k] b[k, n]: its operands are a, b and c")
    if set(unit.types) < set(OPERANDS):
        report("types", f"types speaks of {', '.join(unit.types)}", "a, b and c have types, and memories")
    if not isinstance(unit.interval, Formula):
        return
    unknown = sorted(unit.interval.names - set(unit.shape))
    if unknown:
        report("interval", f"interval speaks of {unknown[0]!r}", f"roles of its shape: {', '.join(unit.shape)}")
        return
    for extents in (dict.fromkeys(unit.shape, 1), {r: n or 1 << 20 for r, n in unit.shape.items()}):
        try:
            value = unit.interval.value(extents)
        except ZeroDivisionError:
            value = 0
        if not 0 < value <= 1 << 40:
            at = ", ".join(f"{r} = {n}" for r, n in extents.items())
            report("interval", f"interval is {value} at {at}", "a formula that is above 0 (and up to 2**40)")
            return


# Engines --------------------------------------------------------------------------------------------------------


def _tree(source: Source, parts: Parts) -> None:
    """Joins must make a tree of memories from main inwards, which reaches every scratchpad that needs it."""
    memories = {memory.name: memory for memory in parts.memories.values()}
    if not memories or any(name not in memories for dma in parts.dmas.values() for pair in dma.joins for name in pair):
        return
    main = next(iter(memories))
    joined: dict[str, list[str]] = {}
    for index, dma in parts.dmas.items():

        def wrong(code: str, problem: str, legal: str, index: int = index, dma: Dma = dma) -> None:
            source.report(code, f"[[dma]] {dma.name}: {problem}", legal, table="dma", index=index, key="joins")

        for number, (one, other) in enumerate(dma.joins):
            if {one, other} in [set(pair) for pair in dma.joins[:number]]:
                wrong("duplicate", f"joins has {one} and {other} twice", "each pair once; it is joined both ways")
            registers = [name for name in (one, other) if memories[name].kind == "registers"]
            if registers:
                wrong("bad-value", f"joins has the registers {registers[0]!r}",
                      "engines join memories; cores load and store registers")  # fmt: skip
            way = _way(one, other, joined)
            if not way:
                joined.setdefault(one, []).append(other)
                joined.setdefault(other, []).append(one)
            elif len(way) > 2:
                wrong("cycle", f"joins has {one} and {other}, which are joined already: {' - '.join(way)}",
                      "engines join memories to a tree, with one way between any two; several may join one pair",
                      )  # fmt: skip
    for index, dma in parts.dmas.items():
        far = [name for pair in dma.joins for name in pair if not _way(main, name, joined)]
        if far:
            source.report(
                "unreached", f"[[dma]] {dma.name} joins {far[0]}, and no engine joins that with the main memory {main}",
                f"a way by engines from {main} to every memory that is joined", table="dma", index=index, key="joins",
            )  # fmt: skip
    _order(source, parts, main, joined)
    if parts.dmas and "unit" not in source.broken:
        _reached(source, parts, joined)


def _way(start: str, end: str, joined: Mapping[str, list[str]]) -> list[str]:
    """The memories on the way between two of them; nothing where engines do not join them."""
    ways = [[start]]
    seen = {start}
    for way in ways:  # grows while it is walked
        if way[-1] == end:
            return way
        further = [name for name in joined.get(way[-1], ()) if name not in seen]
        seen.update(further)
        ways += [[*way, name] for name in further]
    return []


def _order(source: Source, parts: Parts, main: str, joined: Mapping[str, list[str]]) -> None:
    """A memory that is filled from another one is listed after it."""
    order = [memory.name for memory in parts.memories.values()]
    for index, memory in parts.memories.items():
        way = _way(main, memory.name, joined)
        if len(way) > 1 and order.index(way[-2]) > order.index(memory.name):
            source.report(
                "bad-value", f"[[memory]] {memory.name} stands before {way[-2]}, through which it is filled",
                f"memories run from the outermost inwards: {', '.join(way)}", table="memory", index=index, key="name",
            )  # fmt: skip


def _reached(source: Source, parts: Parts, joined: Mapping[str, list[str]]) -> None:
    operands = {name for unit in parts.units.values() for name in unit.memories.values()}
    for index, memory in parts.memories.items():
        alone = memory.kind == "scratchpad" and memory.per == "machine"
        if alone and memory.name not in operands | set(joined):
            source.report(
                "unreached", f"nothing reaches the memory {memory.name!r}",
                'an engine that joins it, a unit with an operand in it, or per = "core", "element" or an axis',
                table="memory", index=index, key="name",
            )  # fmt: skip


# Caches and compute ---------------------------------------------------------------------------------------------


def _caches(source: Source, parts: Parts) -> None:
    for index, cache in parts.caches.items():

        def wrong(key: str, problem: str, legal: str, index: int = index, name: str = cache.name) -> None:
            source.report("bad-value", f"[[cache]] {name}: {problem}", legal, table="cache", index=index, key=key)

        if cache.size < cache.line:
            wrong("size", f"size {cache.size} is smaller than a line of {cache.line}", "at least one line")
        elif cache.size % (cache.line * cache.ways):
            wrong("size", f"size {cache.size} is no multiple of line x ways = {cache.line * cache.ways}",
                  "size = line x ways x a whole number of sets")  # fmt: skip
        if cache.replacement == "plru" and (cache.ways > 32 or cache.ways & (cache.ways - 1)):
            wrong("replacement", f"replacement plru with {cache.ways} ways",
                  "a tree of bits has 1, 2, 4, 8, 16 or 32 ways; lru, fifo and random have any number")  # fmt: skip
        if parts.compute is not None and cache.shared_by > parts.compute.cores:
            wrong("shared_by", f"shared_by {cache.shared_by}, and the machine has cores = {parts.compute.cores}",
                  "at most as many cores as [compute] says")  # fmt: skip
        if index == 0 or index - 1 not in parts.caches:
            continue
        inner = parts.caches[index - 1]
        if cache.size < inner.size:
            wrong("size", f"size {cache.size} is less than that of {inner.name}, {inner.size}",
                  "caches run from the core outwards, and do not shrink")  # fmt: skip
        if cache.line < inner.line:
            wrong("line", f"line {cache.line} is less than that of {inner.name}, {inner.line}",
                  "lines do not shrink from the core outwards")  # fmt: skip
        if cache.shared_by < inner.shared_by:
            wrong("shared_by", f"shared_by {cache.shared_by} is less than that of {inner.name}, {inner.shared_by}",
                  "what is further out is shared by as many or more")  # fmt: skip


def _compute(source: Source, compute: Compute, parts: Parts) -> None:
    foreign = [name for name in compute.energy or {} if name not in compute.ops]
    if foreign:
        source.report(
            "bad-value", f"[compute], `energy` has the type {foreign[0]}, of which `ops` says no rate",
            f"types of `ops`: {', '.join(compute.ops)}", table="compute", key="energy",
        )  # fmt: skip
    for index, memory in parts.memories.items():
        foreign = sorted(memory.axes(compute.axes or {}) - set(compute.axes or {}))
        if foreign:
            source.report(
                "bad-value", f'[[memory]] {memory.name} has per = "{memory.per}", and [compute] has no axis {foreign[0]!r}',
                f"machine, core, element, or axes of [compute]: {', '.join(compute.axes or {}) or 'there are none'}",
                table="memory", index=index, key="per",
            )  # fmt: skip
        if memory.per == "element" and not compute.axes:
            source.report(
                "bad-value", f'[[memory]] {memory.name} has per = "element", and [compute] says no axes',
                "axes = { x = 16, y = 16 } in [compute], or another `per`", table="memory", index=index, key="per",
            )  # fmt: skip

"""A machine: its memories, engines, caches and compute, read from a TOML file with every rule checked.

`load_machine("toy")` gives a preset, `load_machine("my.toml")` a file, `parse_machine(text, origin)` a text;
`machine_text(machine)` prints one so that it can be read back.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.lang.errors import user_location

from . import fields as f
from .errors import MachineError
from .parts import Cache, Compute, Dma, Memory, Provenance, Unit
from .reader import Source, closest, write_table

PRESETS = Path(__file__).parent / "machines"
FORMAT = 1
MAIN = "main"
REGISTERS = "reg"

_PARTS = {"memory": Memory, "dma": Dma, "cache": Cache, "unit": Unit}


@dataclass(frozen=True, slots=True)
class Header:
    """The keys at the top of a machine file."""

    name: str = f.spec(f.IDENTIFIER)
    about: str = f.spec(f.TEXT)
    clock_ghz: float = f.figure(f.POSITIVE)
    source: str = f.spec(f.TEXT)
    confidence: str = f.spec(f.CONFIDENCE)
    format: int = f.spec(f.COUNT, FORMAT)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine. `memories` run from the outermost inwards, `caches` from the core outwards.

    `provenance` maps the figures that have an origin of their own (`"memory.spm.latency"`, `"compute.ops"`)
    to it; the others come from `default_provenance`.
    """

    name: str
    about: str
    clock_ghz: float
    memories: tuple[Memory, ...]
    compute: Compute
    dmas: tuple[Dma, ...]
    caches: tuple[Cache, ...]
    units: tuple[Unit, ...]
    provenance: Mapping[str, Provenance]
    default_provenance: Provenance

    def __hash__(self) -> int:
        return hash((self.name, self.clock_ghz, self.memories, self.dmas, self.caches))

    @property
    def main(self) -> Memory:
        """The outermost memory, where inputs and outputs live; schedules may call it `main`."""
        return self.memories[0]

    def memory(self, name: str) -> Memory:
        """The memory that a schedule means by `name`: its own name, `main`, or `reg`.

        Raises MachineError `machine.unknown-memory`, which lists the legal names.
        """
        for memory in self.memories:
            if name in memory_names(memory):
                return memory
        legal = [legal_name for memory in self.memories for legal_name in memory_names(memory)]
        raise MachineError(
            f"machine {self.name} has no memory called {name!r}",
            code="machine.unknown-memory",
            hint=f"its memories: {', '.join(dict.fromkeys(legal))}{closest(name, legal)}",
        )

    def dma(self, one: str, other: str) -> Dma | None:
        """The first engine that copies between two memories (as schedules name them), or None."""
        names = self.memory(one).name, self.memory(other).name
        return next((dma for dma in self.dmas if dma.connects(*names)), None)

    def origin(self, figure: str) -> Provenance:
        """Where a figure comes from, such as `"memory.spm.latency"`."""
        return self.provenance.get(figure, self.default_provenance)


def memory_names(memory: Memory) -> tuple[str, ...]:
    """The names under which schedules may speak of a memory."""
    if memory.kind == "main":
        return (MAIN, memory.name)
    return (REGISTERS, memory.name) if memory.kind == "registers" else (memory.name,)


def machine_names() -> list[str]:
    """The presets that come with the library."""
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def load_machine(name_or_path: str | Path) -> Machine:
    """A preset by its name, or a machine file by its path (anything with a separator or ending in .toml).

    Raises MachineError: `machine.unknown`, `machine.no-file`, or what `parse_machine` finds.
    """
    if not isinstance(name_or_path, (str, Path)):
        raise MachineError(
            f"{name_or_path!r} is no machine", code="machine.unknown", where=user_location(),
            hint=f"give a preset ({', '.join(machine_names())}), the path of a .toml file, or a Machine",
        )  # fmt: skip
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        path = Path(name_or_path)
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
            raise MachineError(f"can't read the machine file {path}: {reason}", code="machine.no-file") from error
        return parse_machine(content, str(path))
    return _preset(text)


@functools.cache
def _preset(name: str) -> Machine:
    names = machine_names()
    if name not in names:
        raise MachineError(
            f"there is no machine called {name!r}",
            code="machine.unknown",
            where=user_location(),
            hint=f"presets: {', '.join(names)}{closest(name, names)}; or give the path of a .toml file",
        )
    file = PRESETS / f"{name}.toml"
    return parse_machine(file.read_text(encoding="utf-8"), str(file))


def parse_machine(text: str, origin: str = "<machine>") -> Machine:
    """The machine that a text describes; `origin` names it in errors.

    Raises MachineError with the file, line, table and key, what was given and what is legal.
    """
    source = Source(text, origin)
    header = source.read_top(Header, tables=("compute", *_PARTS))
    if header.format != FORMAT:
        raise source.error(
            "format", f"format {header.format} is not known", f"this version reads {FORMAT}", key="format"
        )
    source.default = Provenance(header.source, header.confidence)
    memories: tuple[Memory, ...] = source.read_list("memory", Memory)
    machine = Machine(
        name=header.name,
        about=header.about,
        clock_ghz=header.clock_ghz,
        memories=memories,
        compute=source.read_one("compute", Compute),
        dmas=source.read_list("dma", Dma),
        caches=source.read_list("cache", Cache),
        units=source.read_list("unit", Unit),
        provenance=dict(source.provenance),
        default_provenance=source.default,
    )
    _check_memories(source, machine)
    _check_references(source, machine)
    return machine


def _check_memories(source: Source, machine: Machine) -> None:
    if not machine.memories:
        raise source.error("missing", "there is no [[memory]]", 'the first one must have kind = "main"')
    for index, memory in enumerate(machine.memories):
        if (memory.kind == "main") != (index == 0):
            raise source.error(
                "bad-value",
                f'kind = "{memory.kind}" in [[memory]] number {index + 1}',
                'memories run from the outermost inwards: the first and only the first has kind = "main"',
                table="memory",
                index=index,
                key="kind",
            )
        reserved = {MAIN: "main", REGISTERS: "registers"}.get(memory.name, memory.kind)
        if reserved != memory.kind:
            raise source.error(
                "bad-value",
                f"the name {memory.name!r} for a memory of kind {memory.kind!r}",
                f"{memory.name!r} always means the {reserved} of a machine",
                table="memory",
                index=index,
                key="name",
            )
    registers = [index for index, memory in enumerate(machine.memories) if memory.kind == "registers"]
    if len(registers) > 1:
        raise source.error(
            "duplicate",
            "a second memory of kind registers",
            "at most one",
            table="memory",
            index=registers[1],
            key="kind",
        )


def _check_references(source: Source, machine: Machine) -> None:
    names = [memory.name for memory in machine.memories]

    def known(name: str, table: str, index: int, key: str) -> None:
        if name not in names:
            raise source.error(
                "bad-value",
                f"{key} names a memory {name!r} that is not there",
                f"the memories are {', '.join(names)}{closest(name, names)}",
                table=table,
                index=index,
                key=key,
            )

    for index, dma in enumerate(machine.dmas):
        for pair in dma.joins:
            for name in pair:
                known(name, "dma", index, "joins")
    for index, unit in enumerate(machine.units):
        for name in unit.memories.values():
            known(name, "unit", index, "memories")
        if set(unit.memories) != set(unit.types):
            raise source.error(
                "bad-value",
                f"types speaks of {', '.join(unit.types)} and memories of {', '.join(unit.memories)}",
                "both name the same operands",
                table="unit",
                index=index,
                key="memories",
            )
    for index, cache in enumerate(machine.caches):
        if cache.size % (cache.line * cache.ways):
            raise source.error(
                "bad-value",
                f"size {cache.size} is no multiple of line x ways = {cache.line * cache.ways}",
                "size = line x ways x a whole number of sets",
                table="cache",
                index=index,
                key="size",
            )
        if cache.replacement == "plru" and (cache.ways > 32 or cache.ways & (cache.ways - 1)):
            raise source.error(
                "bad-value",
                f"replacement plru with {cache.ways} ways",
                "a tree of bits has 1, 2, 4, 8, 16 or 32 ways; lru, fifo and random have any number",
                table="cache",
                index=index,
                key="replacement",
            )


def machine_text(machine: Machine) -> str:
    """The machine as a file: `parse_machine(machine_text(m)) == m`."""
    default = machine.default_provenance
    header = Header(machine.name, machine.about, machine.clock_ghz, default.source, default.confidence)
    blocks = [write_table("", "", header, machine.provenance)]
    blocks += [write_table("[compute]", "compute", machine.compute, machine.provenance)]
    parts = {"memory": machine.memories, "dma": machine.dmas, "cache": machine.caches, "unit": machine.units}
    blocks += [
        write_table(f"[[{table}]]", f"{table}.{part.name}", part, machine.provenance)
        for table, listed in parts.items()
        for part in listed
    ]
    return "\n".join(blocks)

"""A machine: its memories, engines, caches and compute, read from a TOML file with every rule checked.

`load_machine("toy")` gives a preset, `load_machine("my.toml")` a file, `parse_machine(text, origin)` a text;
`machine_text(machine)` prints one so that it can be read back.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.lang.errors import user_location

from . import fields as f
from .checks import MAIN, REGISTERS, Parts, check
from .errors import MachineError
from .parts import Cache, Compute, Dma, Memory, Provenance, Unit
from .reader import Source, closest, write_table

PRESETS = Path(__file__).parent / "machines"
FORMAT = 1

LISTS = {"memory": "memories", "dma": "dmas", "cache": "caches", "unit": "units"}  # [[table]] -> field of Machine


@dataclass(frozen=True, slots=True)
class Header:
    """The keys at the top of a machine file."""

    name: str = f.spec(f.IDENTIFIER, about="what the machine is called")
    about: str = f.spec(f.TEXT, about="a line that says what it is")
    clock_ghz: float = f.figure(f.GIGAHERTZ, about="the clock that all cycles are of")
    source: str = f.spec(f.TEXT, about="where figures come from that say nothing of their own")
    confidence: str = f.spec(f.CONFIDENCE, about="how far to trust them")
    format: int = f.spec(f.COUNT, FORMAT, about="version of this format")


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
    def header(self) -> Header:
        """The keys at the top of its file."""
        default = self.default_provenance
        return Header(self.name, self.about, self.clock_ghz, default.source, default.confidence)

    @property
    def tables(self) -> dict[str, tuple[Any, ...]]:
        """Its memories, engines, caches and units by the name of their tables in a file."""
        return {table: getattr(self, field) for table, field in LISTS.items()}

    @property
    def parts(self) -> dict[str, Any]:
        """Its parts by the path with which figures of theirs are named: `compute`, `memory.spm`."""
        listed = {f"{table}.{part.name}": part for table, parts in self.tables.items() for part in parts}
        return {"compute": self.compute} | listed

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

    @property
    def remarks(self) -> list[str]:
        """What is legal, and may not be meant: scratchpads that are filled by hand because no engine joins them."""
        joined = {name for dma in self.dmas for pair in dma.joins for name in pair}
        alone = [m.name for m in self.memories if m.kind == "scratchpad" and m.name not in joined]
        return [f"no engine joins {name}: the cores copy to it and from it by hand" for name in alone]

    def __str__(self) -> str:
        from .render.machine_tables import machine_heading, machine_tables

        return "\n\n".join([machine_heading(self), *map(str, machine_tables(self))])

    def _repr_html_(self) -> str:
        from .render.html import page
        from .render.machine_tables import figure_table, machine_heading, machine_tables

        return page(machine_heading(self), [*machine_tables(self), figure_table(self)])

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
        return parse_machine(read_machine_file(name_or_path), str(name_or_path))
    return _preset(text)


def read_machine_file(path: str | Path) -> str:
    """The text of a file. Raises MachineError `machine.no-file`."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except (OSError, UnicodeDecodeError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or (
            "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        )
        preset = f"{path} is a preset: tilewright machine show {path}" if str(path) in machine_names() else None
        raise MachineError(
            f"can't read the machine file {path}: {reason}", code="machine.no-file", hint=preset
        ) from error


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

    Raises MachineError (the first problem in the text) with file, line, table and key, what was given and what is legal.
    """
    source, machine = _read(text, origin)
    problem = source.first_problem()
    if problem is not None or machine is None:
        assert problem is not None
        raise problem
    return machine


def machine_problems(text: str, origin: str = "<machine>") -> list[MachineError]:
    """Everything that is wrong with a text, in the order of its lines; nothing where it describes a machine."""
    try:
        source, _ = _read(text, origin)
    except MachineError as error:  # no TOML text at all
        return [error]
    return sorted(source.problems, key=lambda problem: problem.where[0].line)


def _read(text: str, origin: str) -> tuple[Source, Machine | None]:
    source = Source(text, origin)
    header = source.read_top(Header, tables=("compute", *LISTS))
    if header is not None:
        source.default = Provenance(header.source, header.confidence)
        if header.format != FORMAT:
            source.report(
                "format", f"format {header.format} is not known", f"this version reads {FORMAT}", key="format"
            )
    parts = Parts(
        source.read_one("compute", Compute),
        source.read_list("memory", Memory),
        source.read_list("dma", Dma),
        source.read_list("cache", Cache),
        source.read_list("unit", Unit),
    )
    check(source, parts)
    if source.problems or header is None or parts.compute is None or source.default is None:
        return source, None
    return source, Machine(
        name=header.name,
        about=header.about,
        clock_ghz=header.clock_ghz,
        memories=tuple(parts.memories.values()),
        compute=parts.compute,
        dmas=tuple(parts.dmas.values()),
        caches=tuple(parts.caches.values()),
        units=tuple(parts.units.values()),
        provenance=dict(source.provenance),
        default_provenance=source.default,
    )


def machine_text(machine: Machine) -> str:
    """The machine as a file: `parse_machine(machine_text(m)) == m`."""
    blocks = [write_table("", "", machine.header, machine.provenance)]
    for path, part in machine.parts.items():
        table, of_several, _ = path.partition(".")
        blocks.append(write_table(f"[[{table}]]" if of_several else f"[{table}]", path, part, machine.provenance))
    return "\n".join(blocks)

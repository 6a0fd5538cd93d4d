"""A machine as tables: its parts, and where each of their figures comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.hw.formulas import Formula
from tilewright.hw.reader import field_kinds

from .tables import Table, table

if TYPE_CHECKING:
    from tilewright.hw.machine import Machine

_SHORT = {"read_bandwidth": "read B/cy", "write_bandwidth": "write B/cy", "bandwidth": "B/cy"}


def machine_heading(machine: Machine) -> str:
    """`toy: a tiny accelerator... (1 GHz)`"""
    return f"{machine.name}: {machine.about} ({machine.clock_ghz:g} GHz)"


def machine_tables(machine: Machine) -> list[Table]:
    """A table for each sort of part, without columns in which every part has the default."""
    listed: list[tuple[str, Sequence[Any]]] = [
        ("memory", machine.memories), ("engine", machine.dmas), ("cache", machine.caches), ("unit", machine.units),
    ]  # fmt: skip
    return [_compute(machine), *(_parts(title, parts) for title, parts in listed if parts)]


def figure_table(machine: Machine) -> Table:
    """Every figure that the machine's file gives, with its value, its confidence and its source."""
    default = machine.default_provenance

    def row(path: str, value: str) -> tuple[str, ...]:
        origin = machine.provenance.get(path)
        return (path, value, "", "") if origin is None else (path, value, origin.confidence, origin.source)

    rows: list[tuple[str, ...]] = [("(others)", "", default.confidence, default.source)]
    rows.append(row("clock_ghz", f"{machine.clock_ghz:g}"))
    rows += [row(path, field.metadata["kind"].write(value)) for path, field, value in figures(machine)]
    return Table("figures and where they come from", ("figure", "value", "confidence", "source"), tuple(rows), 4)


def figures(machine: Machine) -> Iterator[tuple[str, dataclasses.Field[Any], Any]]:
    """(path such as `memory.spm.latency`, field, value) of all figures that are not defaults, in the file's order."""
    parts: list[tuple[str, Any]] = [("compute", machine.compute)]
    parts += [(f"memory.{memory.name}", memory) for memory in machine.memories]
    parts += [(f"dma.{dma.name}", dma) for dma in machine.dmas]
    parts += [(f"cache.{cache.name}", cache) for cache in machine.caches]
    parts += [(f"unit.{unit.name}", unit) for unit in machine.units]
    for path, part in parts:
        for key, field in field_kinds(type(part)).items():
            value = getattr(part, key)
            if field.metadata["figure"] and (value != field.default or f"{path}.{key}" in machine.provenance):
                yield f"{path}.{key}", field, value


def _compute(machine: Machine) -> Table:
    fields = field_kinds(type(machine.compute))
    given = {key: getattr(machine.compute, key) for key in fields}
    rows = tuple((key, _cell(fields[key], value)) for key, value in given.items() if value != fields[key].default)
    return Table("", ("compute", ""), rows, 2)


def _parts(title: str, parts: Sequence[Any]) -> Table:
    fields = field_kinds(type(parts[0]))
    words = [key for key, field in fields.items() if not field.metadata["figure"]]
    order = [*words, *(key for key in fields if key not in words)]
    rows = [
        ["" if getattr(part, key) == fields[key].default else _cell(fields[key], getattr(part, key)) for key in order]
        for part in parts
    ]
    return table("", [title, *(_SHORT.get(key, key) for key in order[1:])], rows, len(words))


def _cell(field: dataclasses.Field[Any], value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(part)}" for key, part in value.items())
    if isinstance(value, tuple):
        return ", ".join("-".join(pair) for pair in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return field.metadata["kind"].write(value).strip('"')


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def machine_data(machine: Machine) -> dict[str, Any]:
    """A machine for JSON: the tables of its file with every default filled in, and under `figures` what each figure that the
    file gives is based on. Sizes are bytes, an unbounded capacity and what is not known are null."""

    def part(value: Any) -> dict[str, Any]:
        return {key: _data(getattr(value, key)) for key in field_kinds(type(value))}

    default = machine.default_provenance
    paths = ["clock_ghz", *(path for path, _, _ in figures(machine))]
    return {
        "name": machine.name, "about": machine.about, "clock_ghz": machine.clock_ghz,
        "compute": part(machine.compute), "memory": [part(x) for x in machine.memories],
        "dma": [part(x) for x in machine.dmas], "cache": [part(x) for x in machine.caches],
        "unit": [part(x) for x in machine.units],
        "figures": {path: dataclasses.asdict(machine.provenance.get(path, default)) for path in paths},
    }  # fmt: skip


def _data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Formula):
        return str(value)
    return [list(pair) for pair in value] if isinstance(value, tuple) else value

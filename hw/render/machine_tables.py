"""A machine as tables: its parts, and where each of their figures comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.hw.formulas import Formula
from tilewright.hw.reader import field_kinds, left_out

from .tables import Table, table

if TYPE_CHECKING:
    from tilewright.hw.machine import Machine

_SHORT = {"read_bandwidth": "read B/cy", "write_bandwidth": "write B/cy", "bandwidth": "B/cy"}


def machine_heading(machine: Machine) -> str:
    """`toy: a tiny accelerator... (1 GHz)`"""
    return f"{machine.name}: {machine.about} ({machine.clock_ghz:g} GHz)"


def machine_tables(machine: Machine) -> list[Table]:
    """A table for each sort of part, without columns in which every part has the default."""
    listed = ((("engine" if table == "dma" else table), parts) for table, parts in machine.tables.items())
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
    for path, part in machine.parts.items():
        for key, field in field_kinds(type(part)).items():
            value, figure = getattr(part, key), f"{path}.{key}"
            if field.metadata["figure"] and not left_out(field, value, figure, machine.provenance):
                yield figure, field, value


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
        "compute": part(machine.compute),
        **{table: [part(x) for x in parts] for table, parts in machine.tables.items()},
        "figures": {path: dataclasses.asdict(machine.provenance.get(path, default)) for path in paths},
    }  # fmt: skip


def _data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Formula):
        return str(value)
    return [list(pair) for pair in value] if isinstance(value, tuple) else value

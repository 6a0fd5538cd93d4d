"""Machine files as a person wants to find them: every key with what it means, and those left out as comments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import fields as f
from .machine import Header, Machine
from .parts import Cache, Compute, Dma, Memory, Provenance, Unit
from .reader import field_kinds, figure_text

_HEAD = """\
# Sizes are bytes (or "64 KiB"), times are cycles, bandwidths bytes a cycle, energies picojoules.
# Any figure may say where it comes from, { value = 64, source = "data sheet, page 3", confidence = "published" }, and
# so may a table, for all of its figures. Confidence: measured, published, derived (computed from such), or assumed.
# `tilewright machine check FILE` finds what is wrong; docs/machines.md explains the format.
"""
_ABOUT = {
    Memory: "Memories run from the outermost inwards.",
    Dma: "Engines join memories to a tree, with one way from the main memory to each.",
    Cache: "Caches run from the core outwards; schedules can't name them, simulated runs count their hits and misses.",
    Unit: "Block operations that `tensorize` names.",
}
_COLUMN = 40  # where remarks stand, if the line leaves room


def commented_text(machine: Machine, heading: str = "") -> str:
    """The machine as a file with remarks; `heading` becomes its first lines. It reads back as the same machine."""
    default = machine.default_provenance
    header = Header(machine.name, machine.about, machine.clock_ghz, default.source, default.confidence)
    blocks = [_table("", "", header, machine.provenance, True)]
    blocks.append(_table("[compute]", "compute", machine.compute, machine.provenance, True))
    listed: list[tuple[str, type, Sequence[Any]]] = [
        ("memory", Memory, machine.memories), ("dma", Dma, machine.dmas), ("cache", Cache, machine.caches),
        ("unit", Unit, machine.units),
    ]  # fmt: skip
    for table, cls, parts in listed:
        for index, part in enumerate(parts):
            text = _table(f"[[{table}]]", f"{table}.{part.name}", part, machine.provenance, index == 0)
            blocks.append(f"# {_ABOUT[cls]}\n{text}" if index == 0 else text)
    top = "".join(f"# {line}\n" for line in heading.splitlines())
    return top + _HEAD + "\n" + "\n".join(blocks)


def _table(header: str, path: str, part: Any, origins: Mapping[str, Provenance], remarks: bool) -> str:
    """One table. With `remarks` each key says what it means, and those left at their default stand there as comments."""
    lines = [header] if header else []
    for key, field in field_kinds(type(part)).items():
        value = getattr(part, key)
        figure = f"{path}.{key}" if path else key
        left_out = figure not in origins and field.default is not dataclasses.MISSING and value == field.default
        if left_out and not remarks:
            continue
        text = _example(part, field) if left_out else f"{key} = {figure_text(field, value, origins.get(figure))}"
        lines += _remarked(text, field.metadata["about"]) if remarks else [text]
    return "\n".join(lines) + "\n"


def _example(part: Any, field: dataclasses.Field[Any]) -> str:
    """A key that is left out, as a comment: with its default, or with something legal where there is none."""
    examples = {"axes": {"x": 4, "y": 4}, "classes": {"div": 8.0}, "read_energy": 1.0, "write_energy": 1.0}
    value = field.default
    if value is None:
        value = (
            {next(iter(part.ops)): 1.0}
            if isinstance(part, Compute) and field.name == "energy"
            else examples.get(field.name, 1.0)
        )
    kind: f.Kind = field.metadata["kind"]
    return f"# {field.name} = {kind.write(value)}"


def _remarked(text: str, about: str) -> Iterator[str]:
    if len(text) < _COLUMN and "\n" not in text:
        yield f"{text:<{_COLUMN}}# {about}"
    else:
        yield f"# {about}"
        yield text

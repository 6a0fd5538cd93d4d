"""Machine files as a person wants to find them: every key with what it means, and those left out as comments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from . import fields as f
from .machine import Machine
from .parts import Compute, Provenance
from .reader import field_kinds, figure_text, left_out, write_table

_HEAD = """\
# Sizes are bytes (or "64 KiB"), times are cycles, bandwidths bytes a cycle, energies picojoules.
# Any figure may say where it comes from, { value = 64, source = "data sheet, page 3", confidence = "published" }, and
# so may a table, for all of its figures. Confidence: measured, published, derived (computed from such), or assumed.
# `tilewright machine check FILE` finds what is wrong; docs/machines.md explains the format.
"""
_ABOUT = {
    "memory": "Memories run from the outermost inwards.",
    "dma": "Engines join memories to a tree, with one way from the main memory to each.",
    "cache": "Caches run from the core outwards; schedules can't name them, simulated runs count their hits and misses.",
    "unit": "Block operations that `tensorize` names.",
}
_COLUMN = 40  # where remarks stand, if the line leaves room


def commented_text(machine: Machine, heading: str = "") -> str:
    """The machine as a file with remarks; `heading` becomes its first lines. It reads back as the same machine."""
    origins = machine.provenance
    blocks = [_table("", "", machine.header, origins), _table("[compute]", "compute", machine.compute, origins)]
    for table, (first, *others) in ((table, parts) for table, parts in machine.tables.items() if parts):
        head = f"[[{table}]]"
        blocks.append(f"# {_ABOUT[table]}\n{_table(head, f'{table}.{first.name}', first, origins)}")
        blocks += [write_table(head, f"{table}.{part.name}", part, origins) for part in others]
    top = "".join(f"# {line}\n" for line in heading.splitlines())
    return top + _HEAD + "\n" + "\n".join(blocks)


def _table(header: str, path: str, part: Any, origins: Mapping[str, Provenance]) -> str:
    """One table in which each key says what it means, and those left at their default stand as comments."""
    lines = [header] if header else []
    for key, field in field_kinds(type(part)).items():
        value = getattr(part, key)
        figure = f"{path}.{key}" if path else key
        usual = left_out(field, value, figure, origins)
        text = _example(part, field) if usual else f"{key} = {figure_text(field, value, origins.get(figure))}"
        lines += _remarked(text, field.metadata["about"])
    return "\n".join(lines) + "\n"


def _example(part: Any, field: dataclasses.Field[Any]) -> str:
    """A key that is left out, as a comment: with its default, or with something legal where there is none."""
    examples = {"axes": {"x": 4, "y": 4}, "classes": {"div": 8.0}, "outstanding": 4}
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

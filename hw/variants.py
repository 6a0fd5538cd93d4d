"""A machine with other figures: `changed(machine, {"memory.tcdm.capacity": "64 KiB", "compute.ops.f32": 64})`.

Figures are named as accounts of provenance name them: the table, the part's name and the key, `compute.cores`,
`clock_ghz`, and one entry further in where the figure is a table (`compute.axes.x`, `unit.gemm.shape.m`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.lang.errors import user_location

from .errors import MachineError
from .fields import show_value
from .machine import LISTS, Header, Machine, machine_text, parse_machine
from .parts import Compute, Provenance
from .reader import closest, field_kinds


def figure_names(machine: Machine) -> tuple[str, ...]:
    """Every figure of a machine that can be changed."""
    return tuple(_figures("", Header, machine)) + tuple(
        name for path, part in machine.parts.items() for name in _figures(f"{path}.", type(part), part)
    )


def figure(machine: Machine, name: str) -> Any:
    """The value of a figure. Raises MachineError `machine.unknown-figure`."""
    part, key, entry = _find(machine, name)
    value = getattr(part, key)
    return value[entry] if entry else value


def figure_text(machine: Machine, name: str) -> str:
    """The value of a figure as a machine file writes it. Raises MachineError `machine.unknown-figure`."""
    part, key, entry = _find(machine, name)
    value = getattr(part, key)
    if entry:
        return show_value(value[entry]).removesuffix(".0")
    field = _fields(machine, part)[key]
    return "not said" if value is None and field.default is None else field.metadata["kind"].write(value)


def changed(machine: Machine, values: Mapping[str, Any]) -> Machine:
    """The machine with other values of the named figures, given as in a machine file (65536 or "64 KiB").

    Every rule of machine files is checked. Raises MachineError: `machine.unknown-figure`, or what the rules say.
    """
    made = machine
    for name, raw in values.items():
        made = _with(made, name, raw)
    said = ", ".join(f"{name} = {show_value(raw)}" for name, raw in values.items())
    try:
        return parse_machine(machine_text(made), machine.name)
    except MachineError as e:
        raise MachineError(
            f"{machine.name} with {said}: {e.message}", code=e.code, where=user_location(), hint=e.hint
        ) from None


def _figures(prefix: str, cls: type, part: Any) -> Iterator[str]:
    for key, field in field_kinds(cls).items():
        if field.metadata["figure"]:
            value = getattr(part, key)
            yield from (f"{prefix}{key}.{entry}" for entry in value) if isinstance(value, Mapping) else [prefix + key]


def _find(machine: Machine, name: str) -> tuple[Any, str, str]:
    """The part that has a figure, its key, and the entry in it where the figure is a table."""
    for path, part in [*machine.parts.items(), ("", machine)]:
        prefix = f"{path}." if path else ""
        if name.startswith(prefix):
            key, _, entry = name.removeprefix(prefix).partition(".")
            field = _fields(machine, part).get(key)
            if field is not None and field.metadata["figure"]:
                value = getattr(part, key)
                if not entry or (isinstance(value, Mapping) and entry in value):
                    return part, key, entry
    raise MachineError(
        f"{machine.name} has no figure {name!r}", code="machine.unknown-figure", where=user_location(),
        hint=_legal(figure_names(machine), name),
    )  # fmt: skip


def _legal(names: tuple[str, ...], given: str) -> str:
    """The figures of the part that is meant, if there is one, else the parts."""
    part = given.rpartition(".")[0]
    keys = [key for n in names for owner, _, key in [n.rpartition(".")] if owner == part and part]
    if keys:
        return f"{part} has {', '.join(keys)}{closest(given, names)}"
    parts = dict.fromkeys(n.rpartition(".")[0] or n for n in names)
    return f"it has {', '.join(f'{p}.*' if p not in names else p for p in parts)}{closest(given, names)}"


def _fields(machine: Machine, part: Any) -> dict[str, dataclasses.Field[Any]]:
    return field_kinds(Header if part is machine else type(part))


def _with(machine: Machine, name: str, raw: Any) -> Machine:
    part, key, entry = _find(machine, name)
    kind = _fields(machine, part)[key].metadata["kind"]
    try:
        value = kind.read(dict(getattr(part, key)) | {entry: raw} if entry else raw)
    except ValueError as e:
        inside = f", and has {e}" if str(e) else ""
        raise MachineError(
            f"{name} is {show_value(raw)}{inside}", code="machine.bad-value", where=user_location(),
            hint=f"legal: {kind.legal}",
        ) from None  # fmt: skip
    figure = name.removesuffix(f".{entry}") if entry else name
    origin = Provenance(f"changed from {show_value(getattr(part, key))}"[:120], "assumed")
    provenance = {**machine.provenance, figure: origin}
    if part is machine:
        return dataclasses.replace(machine, **{key: value}, provenance=provenance)
    other = dataclasses.replace(part, **{key: value})
    if isinstance(part, Compute):
        return dataclasses.replace(machine, compute=other, provenance=provenance)
    listed = LISTS[name.partition(".")[0]]
    return dataclasses.replace(
        machine,
        **{listed: tuple(other if p is part else p for p in getattr(machine, listed))},
        provenance=provenance,
    )


__all__ = ["changed", "figure", "figure_names", "figure_text"]

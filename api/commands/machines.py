"""`machines`: the machines that a simulated run can be made on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.hw import Machine


def machines() -> list[Machine]:
    """The machines that come with the library, by name."""
    from tilewright.hw import load_machine, machine_names

    return [load_machine(name) for name in machine_names()]


def machine_table(found: Iterable[Machine]) -> str:
    """A few lines a machine: what it is, and its memories with their capacities."""
    from tilewright.hw.fields import show_bytes

    lines = []
    for m in found:
        memories = ", ".join(
            f"{x.name} ({'unbounded' if x.capacity is None else show_bytes(x.capacity)})" for x in m.memories
        )
        lines.append(f"{m.name}\n  {m.about}\n  memories: {memories}; {m.clock_ghz:g} GHz")
    return "\n".join(lines)

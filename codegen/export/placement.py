"""Where temporaries lie in their memories: where accounts and simulated runs have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen import loops as L
from tilewright.codegen.accounts.footprint import footprints_at, live_points
from tilewright.hw import Machine
from tilewright.hw.checks import REGISTERS
from tilewright.hw.machine import memory_names

LEAST = 16  # bytes: compilers and the C library expect that much of a block


@dataclass(frozen=True)
class Room:
    """A memory in which buffers are placed: the bytes that they need, and where such a block may start."""

    bytes: int
    alignment: int


@dataclass(frozen=True)
class Placement:
    """By name: bytes of the buffers whose size is bounded, offsets of those that are placed, and the memories where."""

    machine: Machine
    bytes: Mapping[str, int]
    offsets: Mapping[str, int]
    rooms: Mapping[str, Room]

    def memory(self, name: str) -> str:
        """The one name of a memory in a document: `main`, `reg`, or its own."""
        return _memory(self.machine, name)


def place(program: L.Program, machine: Machine, sizes: Mapping[str, int]) -> Placement:
    """The buffers of a program, before its loops are parted, whose size has a bound at these sizes.

    One that is spread over the elements of an array is placed as a whole. Those in registers get no place.
    """
    points = list(live_points(program, machine, sizes, whole=True, bounded=True))
    made = [live[-1] for _, live in points]
    placed = {b.name: b.offset or 0 for b in made if _memory(machine, b.memory) != REGISTERS}
    arenas = {_memory(machine, f.memory): f for f in footprints_at(points, machine)}
    rooms = {m: Room(f.arena or 0, max(f.alignment, LEAST)) for m, f in arenas.items() if m != REGISTERS}
    return Placement(machine, {b.name: b.size * b.slots for b in made}, placed, rooms)


def _memory(machine: Machine, name: str) -> str:
    return memory_names(machine.memory(name))[0]


__all__ = ["Placement", "Room", "place"]

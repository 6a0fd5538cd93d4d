"""The parts of a machine as values: memories, DMA engines, caches, units and compute.

Units everywhere: bytes, cycles of the machine's clock, bytes per cycle, picojoules. Every class says how its
table in a machine file is read, through the kinds of `fields.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import fields as f


def align_up(size: int, multiple: int) -> int:
    """`size` rounded up to a multiple."""
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a figure comes from, and how far to trust it.

    `confidence`: measured (by us, on the thing), published (by its maker or in a paper), derived (computed
    from such figures), assumed (a plausible value and no more).
    """

    source: str = f.spec(f.TEXT)
    confidence: str = f.spec(f.CONFIDENCE)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory that a schedule can name, or the machine's registers.

    `capacity` is None where it is unbounded. `banks` of `bank_bytes` each serve one access a cycle. A
    transfer moves whole multiples of `burst`; buffers start at multiples of `alignment`.
    """

    name: str = f.spec(f.IDENTIFIER)
    kind: str = f.spec(f.choice("main", "scratchpad", "registers"))
    capacity: int | None = f.figure(f.CAPACITY)
    read_bandwidth: float = f.figure(f.POSITIVE)
    write_bandwidth: float = f.figure(f.POSITIVE)
    alignment: int = f.figure(f.POWER_OF_TWO, 1)
    burst: int = f.figure(f.POWER_OF_TWO, 1)
    banks: int = f.figure(f.COUNT, 1)
    bank_bytes: int = f.figure(f.POWER_OF_TWO, 8)
    latency: float = f.figure(f.NOT_NEGATIVE, 0.0)
    read_energy: float | None = f.figure(f.NOT_NEGATIVE, None)
    write_energy: float | None = f.figure(f.NOT_NEGATIVE, None)

    def aligned(self, size: int) -> int:
        """`size` bytes as they are taken from the memory: rounded up to its alignment."""
        return align_up(size, self.alignment)


@dataclass(frozen=True, slots=True)
class Dma:
    """An engine that copies between pairs of memories, either way.

    `issue` is the cost of one descriptor in cycles of the core that issues it; `queue` is how many
    descriptors may be waiting; `dims` is how many dimensions one descriptor can walk; `contention` says how
    transfers that are under way together use the bandwidth: one after the other (`fifo`) or in equal parts
    (`shared`).
    """

    name: str = f.spec(f.IDENTIFIER)
    joins: tuple[tuple[str, str], ...] = f.spec(f.PAIRS)
    bandwidth: float = f.figure(f.POSITIVE)
    channels: int = f.figure(f.COUNT, 1)
    issue: float = f.figure(f.NOT_NEGATIVE, 0.0)
    latency: float = f.figure(f.NOT_NEGATIVE, 0.0)
    queue: int = f.figure(f.COUNT, 1)
    burst: int = f.figure(f.POWER_OF_TWO, 1)
    alignment: int = f.figure(f.POWER_OF_TWO, 1)
    dims: int = f.figure(f.COUNT, 1)
    transpose: bool = f.figure(f.FLAG, False)
    convert: bool = f.figure(f.FLAG, False)
    contention: str = f.figure(f.choice("fifo", "shared"), "fifo")

    def connects(self, one: str, other: str) -> bool:
        """Whether a copy between the two memories (full names) is this engine's work."""
        return (one, other) in self.joins or (other, one) in self.joins


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache between a CPU and its main memory, listed from the core outwards; schedules can't name it."""

    name: str = f.spec(f.IDENTIFIER)
    size: int = f.figure(f.SIZE)
    line: int = f.figure(f.POWER_OF_TWO)
    ways: int = f.figure(f.COUNT)
    bandwidth: float = f.figure(f.POSITIVE)
    latency: float = f.figure(f.NOT_NEGATIVE)
    replacement: str = f.figure(f.choice("lru", "fifo", "plru", "random"), "lru")
    write: str = f.figure(f.choice("back", "through"), "back")
    write_allocate: bool = f.figure(f.FLAG, True)
    store_touches_lru: bool = f.figure(f.FLAG, True)
    inclusion: str = f.figure(f.choice("neither", "inclusive", "exclusive"), "neither")
    shared_by: int = f.figure(f.COUNT, 1)

    @property
    def sets(self) -> int:
        return self.size // (self.line * self.ways)


@dataclass(frozen=True, slots=True)
class Unit:
    """A block operation of the machine (a matrix unit, a dot-product instruction) that `tensorize` can name.

    `shape` gives the extent of each loop that it covers, `types` and `memories` the element type and the
    memory of each operand; a new one can start every `interval` cycles and its result is there after
    `latency`.
    """

    name: str = f.spec(f.IDENTIFIER)
    shape: Mapping[str, int] = f.figure(f.EXTENTS)
    types: Mapping[str, str] = f.spec(f.NAMES_OF_TYPES)
    memories: Mapping[str, str] = f.spec(f.NAMES_OF_MEMORIES)
    interval: float = f.figure(f.POSITIVE)
    latency: float = f.figure(f.NOT_NEGATIVE, 0.0)
    energy: float | None = f.figure(f.NOT_NEGATIVE, None)


@dataclass(frozen=True, slots=True)
class Compute:
    """The arithmetic of the machine.

    `ops` is operations per cycle of the whole machine for each element type (a fused multiply-add is two);
    `vector_bytes` is the width of one vector register; `axes` are the axes of an array of elements that
    `spatial` can bind a loop to; `energy` is picojoules per operation.
    """

    ops: Mapping[str, float] = f.figure(f.RATES)
    vector_bytes: int = f.figure(f.POWER_OF_TWO, 8)
    cores: int = f.figure(f.COUNT, 1)
    axes: Mapping[str, int] | None = f.figure(f.EXTENTS, None)
    energy: Mapping[str, float] | None = f.figure(f.RATES, None)

    def lanes(self, element_bytes: int) -> int:
        """Elements of this size in one vector register (at least one)."""
        return max(1, self.vector_bytes // element_bytes)

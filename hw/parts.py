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
    transfer moves whole multiples of `burst`; buffers start at multiples of `alignment`. `ports` says whether reads and
    writes have a port each or share one; `per` what has such a memory of its own: the whole machine, every core, or
    every element of the array (figures are those of one instance).
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
    ports: str = f.figure(f.choice("separate", "shared"), "separate")
    per: str = f.figure(f.choice("machine", "core", "element"), "machine")

    def aligned(self, size: int) -> int:
        """`size` bytes as they are taken from the memory: rounded up to its alignment."""
        return align_up(size, self.alignment)


@dataclass(frozen=True, slots=True)
class Dma:
    """An engine that copies between pairs of memories, either way.

    `bandwidth` is that of one channel; a channel is taken for `issue` cycles a descriptor and then for the data, which are
    there `latency` cycles after; `queue` is how many copies may be under way; `dims` is how many dimensions one descriptor
    can walk. `contention` says how the channels disturb each other: not at all (`independent`), data one after the other
    (`fifo`), or each with an equal part of the bandwidth (`partitioned`).
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
    contention: str = f.figure(f.choice("independent", "fifo", "partitioned"), "independent")

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
    `spatial` can bind a loop to; `energy` is picojoules per operation. `classes` says for how many operations one of a class
    counts (`add mul fma div sqrt compare bit special`; 1 where nothing is said, 2 for fma); `latency` is what the last
    operation of a piece of straight work takes beyond its turn. `sync` is how cores and copies meet: by tokens
    (`decoupled`) or all at a `barrier` that takes so many cycles.
    """

    ops: Mapping[str, float] = f.figure(f.RATES)
    vector_bytes: int = f.figure(f.POWER_OF_TWO, 8)
    cores: int = f.figure(f.COUNT, 1)
    axes: Mapping[str, int] | None = f.figure(f.EXTENTS, None)
    energy: Mapping[str, float] | None = f.figure(f.RATES, None)
    classes: Mapping[str, float] | None = f.figure(f.CLASSES, None)
    latency: float = f.figure(f.NOT_NEGATIVE, 0.0)
    sync: str = f.figure(f.choice("decoupled", "barrier"), "decoupled")
    barrier: float = f.figure(f.NOT_NEGATIVE, 0.0)

    def lanes(self, element_bytes: int) -> int:
        """Elements of this size in one vector register (at least one)."""
        return max(1, self.vector_bytes // element_bytes)

"""The parts of a machine as values: memories, DMA engines, caches, units and compute.

Units everywhere: bytes, cycles of the machine's clock, bytes per cycle, picojoules. Every class says how its
table in a machine file is read, through the kinds of `fields.py`; what each key means is said there too, so that the
documentation and the files that we write say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from . import fields as f
from .formulas import Formula


def align_up(size: int, multiple: int) -> int:
    """`size` rounded up to a multiple."""
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a figure comes from, and how far to trust it.

    `confidence`: measured (by us, on the thing), published (by its maker or in a paper), derived (computed
    from such figures), assumed (a plausible value and no more).
    """

    source: str = f.spec(f.TEXT, about="where figures come from that say nothing of their own")
    confidence: str = f.spec(f.CONFIDENCE, about="how far to trust them")


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory that a schedule can name, or the machine's registers. `capacity` is None where it is unbounded."""

    name: str = f.spec(f.IDENTIFIER, about="as schedules name it")
    kind: str = f.spec(
        f.choice("main", "scratchpad", "registers"),
        about="the first memory is `main`, where inputs and outputs live; at most one is the `registers`",
    )
    capacity: int | None = f.figure(f.CAPACITY, about="size of one instance")
    read_bandwidth: float = f.figure(f.BANDWIDTH, about="what it gives, all ports together")
    write_bandwidth: float = f.figure(f.BANDWIDTH, about="what it takes, all ports together")
    alignment: int = f.figure(f.POWER_OF_TWO, 1, about="buffers start at multiples of it and are rounded up to it")
    burst: int = f.figure(f.POWER_OF_TWO, 1, about="transfers move whole multiples of it")
    banks: int = f.figure(f.COUNT, 1, about="banks that serve one access a cycle each")
    bank_bytes: int = f.figure(f.POWER_OF_TWO, 8, about="width of a bank")
    latency: float = f.figure(f.CYCLES, 0.0, about="from an access to its data")
    outstanding: int | None = f.figure(
        f.COUNT, None, about="accesses that a core may have under way; where nothing is said, latency costs no time"
    )
    read_energy: float | None = f.figure(f.ENERGY_OF_BYTES, None, about="of reading (relative figures are enough)")
    write_energy: float | None = f.figure(f.ENERGY_OF_BYTES, None, about="of writing")
    ports: str = f.figure(
        f.choice("separate", "shared"), "separate",
        about="whether reads and writes have a port each, or share one whose time adds up",
    )  # fmt: skip
    per: str = f.figure(
        f.OWNER, "machine",
        about="what has such a memory of its own: the machine, every core, every element of the array, or, by the names "
        "of axes, all elements at one place along these (figures are those of one instance)",
    )  # fmt: skip

    @property
    def wait(self) -> float:
        """Cycles for which an access keeps a core that has as many under way as it may: Little's law."""
        return 0.0 if self.outstanding is None else self.latency / self.outstanding

    def axes(self, array: Collection[str]) -> frozenset[str]:
        """Of the axes of the array those along which there is one such memory next to the other."""
        if self.per == "element":
            return frozenset(array)
        return frozenset() if self.per in ("machine", "core") else frozenset(self.per.split(", "))

    def aligned(self, size: int) -> int:
        """`size` bytes as they are taken from the memory: rounded up to its alignment."""
        return align_up(size, self.alignment)


@dataclass(frozen=True, slots=True)
class Dma:
    """An engine that copies between pairs of memories, either way.

    A channel is taken for `issue` cycles a descriptor and then for the data, which are there `latency` cycles after.
    """

    name: str = f.spec(f.IDENTIFIER, about="as accounts name it")
    joins: tuple[tuple[str, str], ...] = f.spec(
        f.PAIRS, about="the pairs of memories between which it copies, either way"
    )
    bandwidth: float = f.figure(f.BANDWIDTH, about="of one channel")
    channels: int = f.figure(f.COUNT, 1, about="copies that can move data at the same time")
    issue: float = f.figure(f.CYCLES, 0.0, about="to start a descriptor; the channel is taken")
    latency: float = f.figure(f.CYCLES, 0.0, about="from the end of a transfer to its data being there")
    queue: int = f.figure(f.COUNT, 1, about="copies that may be under way at a time; a further one waits")
    burst: int = f.figure(f.POWER_OF_TWO, 1, about="transfers move whole multiples of it")
    alignment: int = f.figure(f.POWER_OF_TWO, 1, about="runs that do not start and end at multiples of it are split")
    dims: int = f.figure(f.COUNT, 1, about="dimensions that one descriptor walks, the contiguous run included")
    transpose: bool = f.figure(f.FLAG, False, about="whether a copy may change the order of dimensions")
    convert: bool = f.figure(f.FLAG, False, about="whether a copy may change the element type")
    contention: str = f.figure(
        f.choice("independent", "fifo", "partitioned"), "independent",
        about="how channels disturb each other: not at all, data one after the other, or an equal part of the "
        "bandwidth for each",
    )  # fmt: skip

    def connects(self, one: str, other: str) -> bool:
        """Whether a copy between the two memories (full names) is this engine's work."""
        return (one, other) in self.joins or (other, one) in self.joins


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache between a CPU and its main memory, listed from the core outwards; schedules can't name it."""

    name: str = f.spec(f.IDENTIFIER, about="as accounts name it")
    size: int = f.figure(f.SIZE, about="line x ways x a whole number of sets")
    line: int = f.figure(f.POWER_OF_TWO, about="size of a line")
    ways: int = f.figure(f.COUNT, about="lines in a set")
    bandwidth: float = f.figure(f.BANDWIDTH, about="towards the core")
    latency: float = f.figure(f.CYCLES, about="of a hit")
    replacement: str = f.figure(
        f.choice("lru", "fifo", "plru", "random"), "lru",
        about="which line of a set makes room: the least recently used, the oldest, the one that a tree of bits says, "
        "or any",
    )  # fmt: skip
    write: str = f.figure(f.choice("back", "through"), "back", about="when stores go further out")
    write_allocate: bool = f.figure(f.FLAG, True, about="whether a store that misses brings the line in")
    store_touches_lru: bool = f.figure(f.FLAG, True, about="whether a store that hits counts as a use")
    inclusion: str = f.figure(
        f.choice("neither", "inclusive", "exclusive"), "neither",
        about="whether it holds all that the levels further in hold, or only what they gave up (a victim cache)",
    )  # fmt: skip
    shared_by: int = f.figure(f.COUNT, 1, about="cores that share one instance")

    @property
    def sets(self) -> int:
        return self.size // (self.line * self.ways)


@dataclass(frozen=True, slots=True)
class Unit:
    """A block operation of the machine (a matrix unit, a dot-product instruction) that `tensorize` can name.

    It does c[m, n] += a[m, k] b[k, n] for at most so many of each; a role that is not in its shape has one.
    """

    name: str = f.spec(f.IDENTIFIER, about="as schedules name it")
    shape: Mapping[str, int | None] = f.figure(
        f.SHAPE, about='the most of each role (m, n, k) that a call covers; "any" where that does not matter'
    )
    types: Mapping[str, str] = f.spec(f.NAMES_OF_TYPES, about="the element type of each operand")
    memories: Mapping[str, str] = f.spec(f.NAMES_OF_MEMORIES, about="the memory of each operand")
    interval: float | Formula = f.figure(  # noqa: RUF009  (like all others: fields are declared by calls)
        f.INTERVAL, about="from the start of a call to the next one's; a formula over the roles' extents in that call"
    )
    latency: float = f.figure(f.CYCLES, 0.0, about="from the end of a call to its results")
    energy: float | None = f.figure(f.ENERGY_OF_CALLS, None, about="of a call")


@dataclass(frozen=True, slots=True)
class Compute:
    """The arithmetic of the machine."""

    ops: Mapping[str, float] = f.figure(
        f.RATES,
        about="operations a cycle of the whole machine for each element type (unsigned ones that are not named go as fast "
        "as signed ones); a fused multiply-add is two",
    )
    vector_bytes: int = f.figure(f.POWER_OF_TWO, 8, about="width of a vector register")
    cores: int = f.figure(f.COUNT, 1, about="cores that parallel loops are dealt to")
    axes: Mapping[str, int] | None = f.figure(
        f.EXTENTS, None, about="axes of an array of elements that `spatial` binds loops to, and their extents"
    )
    energy: Mapping[str, float] | None = f.figure(f.ENERGIES, None, about="picojoules of an operation of a type")
    classes: Mapping[str, float] | None = f.figure(
        f.CLASSES, None, about="for how many operations one of a class counts (1 where nothing is said, 2 for fma)"
    )
    latency: float = f.figure(f.CYCLES, 0.0, about="what the last operation of a piece of straight work takes")
    sync: str = f.figure(
        f.choice("decoupled", "barrier"), "decoupled",
        about="how cores and copies meet: by tokens, or all of them at a barrier",
    )  # fmt: skip
    barrier: float = f.figure(f.CYCLES, 0.0, about="what a barrier takes")

    def rate(self, dtype: str) -> float | None:
        """Operations a cycle on an element type. An unsigned type that `ops` does not name has the rate of the signed one
        of its width."""
        found = self.ops.get(dtype)
        return self.ops.get(f"i{dtype[1:]}") if found is None and dtype.startswith("u") else found

    def lanes(self, element_bytes: int) -> int:
        """Elements of this size in one vector register (at least one)."""
        return max(1, self.vector_bytes // element_bytes)

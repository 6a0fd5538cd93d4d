"""What a simulated program does, without its data: loops, copies, pieces of computation and what they cost.

A tree is made once for a program and a machine and is symbolic in the sizes. Expressions are nodes of `lang.ir` of type
index or bool over var, size and scalar leaves; loads make no sense here. Counters, sections, buffers, engines and units are
numbers: places in the tuples of the `Table`. Sections and counters are numbered in text order, those of a section in a row.

All times are int64 ticks (`hw.timing.TICKS` a cycle).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.lang.ir import Node

SERIAL, PARALLEL, SPATIAL = "serial", "parallel", "spatial"
# Which instances a resource has, and so how its costs in loops that run at once add up. Costs of iterations on different
# cores (parallel) or elements (spatial) are a sum for `machine`; a sum over elements only for `core`; never for `element`.
MACHINE, CORE, ELEMENT = "machine", "core", "element"
BUSY, CONFLICT = "busy", "conflict"  # the busiest resource takes the time; conflicts come on top of it


class Step:
    """Base of the nodes of the tree."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Charge(Step):
    """A counter grows by `amount` where `condition` holds (None: always).

    With `lane`, a variable that stands for the lanes 0 <= lane < lanes, it grows by `amount` for every lane for which the
    condition holds.
    """

    counter: int
    amount: Node
    condition: Node | None = None
    lane: Node | None = None
    lanes: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Product(Step):
    """A counter grows by the product of `factors` where `condition` holds; negative factors count as 0."""

    counter: int
    factors: tuple[Node, ...]
    condition: Node | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Loop(Step):
    """`var` runs start <= var < stop. `visits` and `trips` are counters of its own (or None): begun, and iterations.

    `ring`: the slots of rings turn with it. `axis`: of the array, along which a spatial loop lies.
    Copies inside make a parallel loop one of cores with clocks of their own.
    """

    var: Node
    start: Node
    stop: Node
    mode: str
    body: Step
    visits: int | None = None
    trips: int | None = None
    ring: bool = False
    axis: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Branch(Step):
    condition: Node
    then: Step
    otherwise: Step | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Sequence(Step):
    items: tuple[Step, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """A section touches a slot of a buffer (`slot` None: all of them, or a buffer that has only one)."""

    buffer: int
    slot: Node | None = None
    reads: bool = True
    writes: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Compute(Step):
    """A compute section: what cores do between copies. Inside are only charges, loops, branches and units.

    `uses`: the buffers that copies may write or read (those of no copy need not be said). Resources get their work from
    the counters of the section, by the weights of `Counter`.
    """

    section: int
    uses: tuple[Use, ...]
    body: Step


@dataclass(frozen=True, eq=False, slots=True)
class Unit(Step):
    """One call of a unit with the extents of its roles (in the order of `UnitCost.roles`); none where one is below 1."""

    unit: int
    extents: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """A box of a buffer: slot, flat index of its first element (slot included), strides in elements, bytes an element."""

    buffer: int
    slot: Node | None
    first: Node
    strides: tuple[Node, ...]
    bytes: int


@dataclass(frozen=True, eq=False, slots=True)
class Copy(Step):
    """A copy section: an engine moves the box `extents` from `source` to `target`; nothing where an extent is below 1.

    `inward`: the target is the memory further in (a load). `rate` is ticks a byte and `burst` bytes, both of engine and
    memories together (see `parameters.rate_of`).
    """

    section: int
    source: Side
    target: Side
    extents: tuple[Node, ...]
    asynchronous: bool
    engine: int
    inward: bool
    rate: int
    burst: int


@dataclass(frozen=True, eq=False, slots=True)
class Life(Step):
    """The life of a buffer with asynchronous copies (others need none): they start after it begins, all are done before
    it ends."""

    buffer: int
    body: Step


@dataclass(frozen=True, slots=True)
class Counter:
    """`weights`: (resource, ticks) that one count costs the section. `key` is the caller's business."""

    key: object
    section: int | None = None
    weights: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """`scope`: what has one of its own, as a machine file says it: it may be the names of axes too."""

    name: str
    scope: str = MACHINE
    kind: str = BUSY


@dataclass(frozen=True, slots=True)
class Buffer:
    """`slots` more than one: a ring."""

    name: str
    memory: str
    slots: int = 1


@dataclass(frozen=True, slots=True)
class Engine:
    """A DMA engine; issue and latency in ticks, see `hw.parts.Dma`. `dims` is how many dimensions a descriptor walks."""

    name: str
    channels: int = 1
    issue: int = 0
    latency: int = 0
    queue: int = 1
    alignment: int = 1
    dims: int = 1
    transpose: bool = False
    contention: str = "independent"


@dataclass(frozen=True, slots=True)
class UnitCost:
    """A unit: `interval` is ticks a call, an expression over `roles` (var nodes); `latency` ticks once a section."""

    name: str
    resource: int
    roles: tuple[Node, ...]
    interval: Node
    latency: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A program on a machine. `sections` are names; `latency` ticks come once to a section that computes anything."""

    tree: Step
    counters: tuple[Counter, ...]
    resources: tuple[Resource, ...]
    sections: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    engines: tuple[Engine, ...] = ()
    units: tuple[UnitCost, ...] = ()
    cores: int = 1
    sync: str = "decoupled"
    barrier: int = 0
    latency: int = 0


def children(s: Step) -> tuple[Step, ...]:
    """The steps directly below."""
    match s:
        case Sequence(items):
            return items
        case Loop(body=body) | Compute(body=body) | Life(body=body):
            return (body,)
        case Branch(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
    return ()


def walk(s: Step) -> Iterator[Step]:
    """Every step, outer ones first, in text order."""
    stack = [s]
    while stack:
        t = stack.pop()
        yield t
        stack.extend(reversed(children(t)))

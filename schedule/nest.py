"""The Nest: the whole program as it would run. Loops, guards, buffers with their regions, assignments.

Indices are still logical (a tensor's own axes); what lives where is said by `Storage`. The printer shows it, the code
generator flattens it, the simulator counts it: there is one Nest for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.lang.errors import Location
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import FALSE, TRUE, Node
from tilewright.lang.tensors import Tensor
from tilewright.lang.types import DType
from tilewright.schedule.layout import IndexMap

Box = tuple[Interval, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Storage:
    """Where the elements of one component of a tensor live.

    Where there are several `slots`, the buffer is that many times as large and `turn` says which part is meant.
    `origin` is the logical index of the first stored element, `extents` the logical extents (index nodes; constants
    where the bounds allow it). `role`: input, output or inout (arguments; `slot` is the position among the outputs),
    or temporary.
    """

    tensor: Tensor
    component: int
    name: str
    dtype: DType
    origin: tuple[Node, ...]
    extents: tuple[Node, ...]
    memory: str = "main"
    layout: IndexMap | None = None
    role: str = "temporary"
    slot: int | None = None
    folds: tuple[tuple[int, int], ...] = ()  # (axis, extent): indices wrap around
    slots: int = 1
    turn: Node | None = None  # which slot of a ring this iteration uses
    stream: bool = False  # stores go past the caches

    @property
    def constant(self) -> bool:
        return all(e.op == "const" for e in self.extents)


class NestNode:
    """Base of the Nest's nodes."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Sequence(NestNode):
    items: tuple[NestNode, ...]


@dataclass(frozen=True, eq=False, slots=True)
class UnitCall:
    """A block of c[m, n] += a[m, k] b[k, n] that a unit of the machine does as one: the extents of m, n and k, and a tensor,
    its component and a box for each of a, b and c."""

    unit: str
    extents: tuple[Node, Node, Node]
    operands: tuple[tuple[Tensor, int, Box], ...]


@dataclass(frozen=True, eq=False, slots=True)
class LoopNode(NestNode):
    """`var` runs start <= var < stop. `address` is how a schedule names it, `name` its short name. `part`: whether code
    generation may, must or must not part it where conditions inside always hold (auto | always | never). `axis`: along
    which axis of the machine's array the iterations of a spatial loop lie; `call`: what a unit does in its stead."""

    address: str
    name: str
    var: Node
    start: Node
    stop: Node
    mode: str
    reduction: bool
    body: NestNode
    part: str = "auto"
    axis: str = ""
    call: UnitCall | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Guard(NestNode):
    """`optional`: `then` may run where the condition fails as well, for what it computes there goes to private places
    that nobody reads (the back end decides, it must know that memory is not overstepped)."""

    condition: Node
    then: NestNode
    otherwise: NestNode | None = None
    optional: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Allocation(NestNode):
    """Buffers that live while `body` runs."""

    storages: tuple[Storage, ...]
    body: NestNode


@dataclass(frozen=True, eq=False, slots=True)
class Points:
    """What is promised of a stage where it is computed: every point of `box`, a range for each variable in `roots`,
    for which all `predicates` hold is computed once. Nothing is computed where `condition` fails."""

    stage: str
    roots: tuple[Node, ...]
    box: Box
    predicates: tuple[Node, ...] = ()
    condition: Node = TRUE
    location: Location | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Produce(NestNode):
    """The computation of (a stage of) `tensor` over `region`; `label` says what it is (produce, load, store...).

    `asynchronous`: a copy of a ring's slot, which may run ahead of (or behind) what stands after it.
    `points` is what the stages inside compute. Where a window slides, the whole window `needed` is there after it:
    what was computed since the loop variables `kept`, those outside of the storage, last changed is still there.
    """

    label: str
    name: str
    tensor: Tensor
    region: Box
    body: NestNode
    asynchronous: bool = False
    points: tuple[Points, ...] = ()
    needed: Box | None = None
    kept: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Assign(NestNode):
    """tensor.components[indices] = values; all values are read before any is written.

    `point`: the values of the definition's variables, in the order of `Points.roots`. Where `spare` holds, the point
    was computed before (a tail that moves back) or nobody needs it.
    """

    stage: str
    tensor: Tensor
    indices: tuple[Node, ...]
    values: tuple[Node, ...]
    point: tuple[Node, ...] = ()
    spare: Node = FALSE


@dataclass(frozen=True, eq=False, slots=True)
class Call(NestNode):
    """The user's stage `called`, number `number` of the program, fills `region` of `tensor`.

    `arguments`: for each box the tensor and, for each of its components, what is needed of it; else a scalar's node.
    """

    stage: str
    called: str
    number: int
    tensor: Tensor
    region: Box
    arguments: tuple[tuple[Tensor, tuple[Box, ...]] | Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class PrefetchNode(NestNode):
    """A hint that the elements of `tensor` in `region` are needed soon."""

    tensor: Tensor
    region: Box
    write: bool


@dataclass(frozen=True, eq=False, slots=True)
class Nest:
    """The program: its body, the storage of its arguments, and what must hold of the sizes.

    `requirements` are (condition over sizes, what it means) pairs, checked before anything runs.
    """

    body: NestNode
    arguments: tuple[Storage, ...]
    requirements: tuple[tuple[Node, str], ...] = ()


def children(n: NestNode) -> tuple[NestNode, ...]:
    match n:
        case Sequence(items):
            return items
        case LoopNode(body=body) | Allocation(body=body) | Produce(body=body):
            return (body,)
        case Guard(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
    return ()


def walk(n: NestNode) -> Iterator[NestNode]:
    """Every node, outer ones first, in text order."""
    stack = [n]
    while stack:
        m = stack.pop()
        yield m
        stack.extend(reversed(children(m)))


def sequence(*items: NestNode) -> NestNode:
    flat: list[NestNode] = []
    for i in items:
        flat.extend(i.items if isinstance(i, Sequence) else (i,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))

"""The loop IR: what the Nest becomes before machine code. Immutable statements over the nodes of `lang.ir`.

    Block(statements)                       in order
    For(var, start, stop, mode, body)       var runs start <= var < stop; mode serial | parallel | unroll | vectorize
    If(condition, then, otherwise)          bool condition
    Store(targets, values)                  all values are evaluated, then all are written (tuples read the old ones)
    Fence()                                 streaming stores before it are seen by all threads after it
    Allocate(buffer, body)                  the buffer lives while body runs; its content is undefined at first
    Prefetch(buffer, index, write)          a hint; any index is harmless
    Call(stage, number, name, out, arguments)  a function of the user's fills the views `out` (see codegen.stages)
    Section(kind, name, body, ...)          what a simulated machine does as one thing (see codegen.sections), or what is
                                            timed (see codegen.timed)
    Turn(buffer, slot, body)                while body runs, it uses this slot of a ring

Expressions here are nodes with these leaves: var (loop variables), size, scalar, const, and

    load[index](attr=(Buffer, 0))           one element; `index` is a flat offset in elements (type index)
    load_if[mask, index](attr=(Buffer, 0))  the element where mask holds, else 0, and memory is not touched
    stride(attr=(argument, axis))           a stride in elements, known at the call

Loads widen f16 and bf16 to f32; a store narrows again (the value is already rounded). bool is a byte in memory.
`call` nodes are gone (expanded), `fma` nodes are decided.

A vectorize loop has constant bounds 0..n, and its iterations are independent: the body means "all lanes at once".
Inner loops of it have uniform bounds. An If whose condition differs by lane is a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tilewright.codegen.operations import Operations
from tilewright.lang.ir import FALSE, Node, integer
from tilewright.lang.pipeline import ScalarParam
from tilewright.lang.types import DType

SERIAL, PARALLEL, UNROLL, VECTORIZE = "serial", "parallel", "unroll", "vectorize"
COPY, COMPUTE, HAND, UNIT = "copy", "compute", "hand", "unit"  # kinds of sections of programs for a machine
TIMED = "timed"  # and of kernels that are profiled
ZERO = integer(0)


@dataclass(frozen=True, slots=True)
class Spread:
    """A spatial loop inside of a buffer's life: its axis, how many elements it is laid out over, and how far an index on
    each axis of the buffer moves from one to the next."""

    axis: str
    count: int
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """A piece of memory: an argument of the kernel or a temporary. Elements are addressed by flat offsets.

    `size` is the number of elements of a temporary, all `slots` of a ring together (an index node; constant where
    the bounds allow it),
    `argument` the position in the kernel's data pointers (None for a temporary). In memories that elements of an array
    have for themselves, a buffer around spatial loops is spread over them: `spread` has these loops, `box` its extents, and
    `reach` how much of each an element uses (None: not known).
    """

    name: str
    dtype: DType
    size: Node | None = None
    memory: str = "main"
    argument: int | None = None
    writable: bool = True
    slots: int = 1
    spread: tuple[Spread, ...] = ()
    box: tuple[Node, ...] = ()
    reach: tuple[int | None, ...] = ()

    def __repr__(self) -> str:
        return f"Buffer({self.name})"


class Stmt:
    """Base of the statements."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Block(Stmt):
    statements: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class For(Stmt):
    """`work` (of a parallel loop): about how many cycles one iteration takes, an index node known before the loop; `shared`:
    how many of them in parallel loops inside (None: there are none).
    `part`: whether loop partitioning may, must or must not deal with it (auto | always | never). `axis`: along which axis
    of the machine's array its iterations lie (simulated programs only; the loop itself is serial). `number` counts the
    loops of a simulated program before they are parted. `stage`: whose loop it is, as a schedule names it ("" where no
    schedule does: hints, copies of registers)."""

    var: Node
    start: Node
    stop: Node
    mode: str
    body: Stmt
    work: Node | None = None
    shared: Node | None = None
    part: str = "auto"
    axis: str = ""
    number: int = -1
    stage: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class If(Stmt):
    """`versions`: both branches do the same, `then` is the fast form for where the condition holds."""

    condition: Node
    then: Stmt
    otherwise: Stmt | None = None
    versions: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """What a store computes: `point` of `stage`, as the values of the definition's variables in those of the loops.

    Where `spare` holds the point is not needed here, or was computed before: a tail or a private tile goes beyond.
    `operations` is the arithmetic of its values (of programs for a machine).
    """

    stage: str
    point: tuple[Node, ...] = ()
    spare: Node = FALSE
    operations: Operations = ()


@dataclass(frozen=True, eq=False, slots=True)
class Store(Stmt):
    """`stream`: whole aligned vectors go past the caches (a `Fence` follows before other threads read them).
    `origin` is for those who count and check; only instrumented and checked programs have it."""

    targets: tuple[tuple[Buffer, Node], ...]
    values: tuple[Node, ...]
    stream: bool = False
    origin: Origin | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Fence(Stmt):
    """What was stored past the caches is there for everyone before anything that follows."""


@dataclass(frozen=True, eq=False, slots=True)
class Allocate(Stmt):
    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Prefetch(Stmt):
    buffer: Buffer
    index: Node
    write: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A box of a buffer: the flat index of its first element; a coordinate, an extent and a step (in elements) an axis."""

    buffer: Buffer
    first: Node
    origin: tuple[Node, ...]
    extents: tuple[Node, ...]
    steps: tuple[Node, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.first, *self.origin, *self.extents, *self.steps)

    def replaced(self, nodes: tuple[Node, ...]) -> View:
        """The same with other `nodes`."""
        n = len(self.origin)
        return View(self.buffer, nodes[0], nodes[1 : 1 + n], nodes[1 + n : 1 + 2 * n], nodes[1 + 2 * n :])


@dataclass(frozen=True, eq=False, slots=True)
class Call(Stmt):
    """Stage number `number` of the kernel's user, a function called `name`, computes a part of `stage`. `arguments`:
    the views of a box's components, or a scalar."""

    stage: str
    number: int
    name: str
    out: tuple[View, ...]
    arguments: tuple[tuple[View, ...] | Node, ...]

    @property
    def views(self) -> tuple[View, ...]:
        """All views, those of the output first."""
        return (*self.out, *(v for a in self.arguments if isinstance(a, tuple) for v in a))


@dataclass(frozen=True, eq=False, slots=True)
class Transfer:
    """A box that is copied from one buffer to another, element by element in the order of the axes.

    Both views have the same extents; steps say how far apart neighbours along an axis are. Of a ring, the view lies in
    the slot that is said. Where a copy is made in pieces, because a buffer wraps around, the first one has the `whole` of
    it: coordinates of the first element, then extents.
    """

    source: View
    target: View
    asynchronous: bool = False
    source_slot: Node = ZERO
    target_slot: Node = ZERO
    whole: tuple[Node, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (*self.source.nodes, *self.target.nodes, self.source_slot, self.target_slot, *self.whole)

    def replaced(self, nodes: tuple[Node, ...]) -> Transfer:
        """The same with other `nodes`."""
        n = len(self.source.nodes)
        m = n + len(self.target.nodes)
        views = self.source.replaced(nodes[:n]), self.target.replaced(nodes[n:m])
        return Transfer(*views, self.asynchronous, nodes[m], nodes[m + 1], nodes[m + 2 :])


@dataclass(frozen=True, eq=False, slots=True)
class Turn(Stmt):
    """While `body` runs, the part number `slot` of the ring `buffer` is the one in use."""

    buffer: Buffer
    slot: Node
    body: Stmt


@dataclass(frozen=True, eq=False, slots=True)
class Section(Stmt):
    """What a simulated machine does as one thing; it computes what its body does. Native programs have none, but for
    what is `timed` of those that are profiled: all that stage `name` does at a time.

    `kind`: a `copy` between two memories by the DMA engine `engine`, all that cores `compute` between copies, a call of
    the machine's `unit`; inside of what is computed, a copy by `hand` that no engine can do, and `reason` says why.
    `name` is the address of what is inside ("C.update", "A_C"), `number` counts the sections in text order.
    A copy by an engine has one transfer. `turns` are the slots of the rings that a computation touches. A unit has
    `operands` (views of a, b and c) and `roles` (the extents of m, n and k).
    """

    kind: str
    name: str
    body: Stmt
    transfers: tuple[Transfer, ...] = ()
    asynchronous: bool = False
    engine: str = ""
    reason: str = ""
    unit: str = ""
    number: int = -1
    turns: tuple[tuple[Buffer, Node], ...] = ()
    operands: tuple[View, ...] = ()
    roles: tuple[Node, ...] = ()

    @property
    def transfer(self) -> Transfer | None:
        """The transfer of a copy by an engine."""
        return self.transfers[0] if len(self.transfers) == 1 else None

    @property
    def nodes(self) -> tuple[Node, ...]:
        groups = (*self.transfers, *self.operands)
        return (*(n for t in groups for n in t.nodes), *(n for _, n in self.turns), *self.roles)

    def replaced(self, body: Stmt, nodes: tuple[Node, ...]) -> Section:
        """The same with another body and other `nodes`."""
        moved, views, k = [], [], 0
        for t in self.transfers:
            moved.append(t.replaced(nodes[k : k + len(t.nodes)]))
            k += len(t.nodes)
        for v in self.operands:
            views.append(v.replaced(nodes[k : k + len(v.nodes)]))
            k += len(v.nodes)
        turns = tuple((b, n) for (b, _), n in zip(self.turns, nodes[k:], strict=False))
        roles = nodes[k + len(turns) :]
        return replace(self, body=body, transfers=tuple(moved), turns=turns, operands=tuple(views), roles=roles)


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A whole kernel in loop IR.

    `arguments` in the order of the data pointers; `ranks` the number of axes (strides) of each;
    `requirements` are bool nodes over sizes and scalars: the first that is false makes the kernel return 100 + its
    number before anything is written.
    """

    symbol: str
    arguments: tuple[Buffer, ...]
    ranks: tuple[int, ...]
    sizes: tuple[str, ...]
    scalars: tuple[ScalarParam, ...]
    requirements: tuple[Node, ...]
    body: Stmt


def children(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below."""
    match s:
        case Block(statements):
            return statements
        case For(body=body) | Allocate(body=body) | Section(body=body) | Turn(body=body):
            return (body,)
        case If(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
    return ()


def walk(s: Stmt) -> Iterator[Stmt]:
    """Every statement, outer ones first, in text order."""
    stack = [s]
    while stack:
        t = stack.pop()
        yield t
        stack.extend(reversed(children(t)))


def block(*statements: Stmt) -> Stmt:
    """The statements in order, nested blocks opened; a single one stays itself."""
    flat: list[Stmt] = []
    for s in statements:
        flat.extend(s.statements if isinstance(s, Block) else (s,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def map_values(s: Stmt, fn: Callable[[tuple[Node, ...]], tuple[Node, ...]]) -> Stmt:
    """The same statements with every group of expressions replaced by `fn` of it."""
    match s:
        case Block(statements):
            return Block(tuple(map_values(t, fn) for t in statements))
        case For(start=start, stop=stop, body=body):
            start, stop = fn((start, stop))
            return replace(s, start=start, stop=stop, body=map_values(body, fn))
        case Allocate(buffer, body):
            return Allocate(buffer, map_values(body, fn))
        case If(condition, then, otherwise, versions):
            (condition,) = fn((condition,))
            return If(
                condition, map_values(then, fn), None if otherwise is None else map_values(otherwise, fn), versions
            )
        case Store(targets, values, _, origin):
            roots = fn((*(i for _, i in targets), *values))
            n = len(targets)
            placed = tuple((b, i) for (b, _), i in zip(targets, roots[:n], strict=True))
            if origin is not None:
                *point, spare = fn((*origin.point, origin.spare))
                origin = replace(origin, point=tuple(point), spare=spare)
            return replace(s, targets=placed, values=tuple(roots[n:]), origin=origin)
        case Fence():
            return s
        case Prefetch(buffer, index, write):
            (index,) = fn((index,))
            return Prefetch(buffer, index, write)
        case Turn(buffer, slot, body):
            (slot,) = fn((slot,))
            return Turn(buffer, slot, map_values(body, fn))
        case Section(body=body):
            return s.replaced(map_values(body, fn), tuple(fn(s.nodes)))
        case Call(out=out, arguments=arguments):
            views = {v: v.replaced(fn(v.nodes)) for v in s.views}
            given = tuple(fn((a,))[0] if isinstance(a, Node) else tuple(views[v] for v in a) for a in arguments)
            return replace(s, out=tuple(views[v] for v in out), arguments=given)
    raise TypeError(s)

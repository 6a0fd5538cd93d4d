"""The state of emitting one LLVM function: what is known at this point of the text, and what comes from outside.

A region is a function made of a part of the program: the kernel's entry, its body, the body of a parallel loop.
What it needs from the region around it (buffer pointers, loop variables, sizes, ...) becomes a parameter.

Values already computed are kept in a memo. Entries made in a loop body or a branch end with it. An entry that
depends on loads carries the versions of the buffers it read and is void once one of them was written.

Index arithmetic goes before the outermost loop that it does not change in, once for all that is inside: what LLVM would
have to find and move otherwise takes it as long as all the rest of a tile's edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.codegen.emit.builder import Function, Module, value_type
from tilewright.codegen.loops import (
    UNROLL,
    VECTORIZE,
    Allocate,
    Buffer,
    Call,
    For,
    Program,
    Stmt,
    Store,
    children,
    walk,
)
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import Node, is_const, postorder
from tilewright.lang.simplify import Linear, sub

Value = tuple[str, bool]  # operand, and whether it differs by lane


@dataclass(frozen=True, slots=True)
class Info:
    """What an expression depends on: loop variables, buffers, and those variables that unrolling makes constant."""

    vars: frozenset[Node]
    buffers: frozenset[Buffer]
    unrolled: tuple[Node, ...]


_NOTHING: frozenset = frozenset()


def trip_count(s: For) -> int | None:
    """The number of iterations where it is constant."""
    d = sub(s.stop, s.start)
    return max(0, d.attr) if is_const(d) else None


def substituted(s: For) -> bool:
    """Whether the loop's variable is replaced by its values: unrolled loops, and vectors of one lane."""
    return s.mode == UNROLL or (s.mode == VECTORIZE and trip_count(s) == 1)


@dataclass(eq=False, slots=True)
class Shared:
    """What all regions of one program share."""

    program: Program
    aliases: frozenset[frozenset[str]]
    instrument: bool
    module: Module = field(default_factory=Module)
    infos: dict[Node, Info] = field(default_factory=dict)
    linears: dict[Any, Linear] = field(default_factory=dict)
    by_lane: dict[Any, tuple[int, ...] | None] = field(default_factory=dict)
    written: dict[Stmt, frozenset[Buffer]] = field(default_factory=dict)
    regions: int = 0
    # filled from the program
    unrolled: frozenset[Node] = _NOTHING
    buffers: tuple[Buffer, ...] = ()
    lanes: int = 1
    related: dict[Buffer, tuple[Buffer, ...]] = field(default_factory=dict)
    counters: dict[Any, int] = field(default_factory=dict)  # of instrumented kernels, see `counters`
    recorded: Any = None  # what is recorded of an instrumented kernel, see `recorder`
    driver: Any = None  # what its accesses go into, see `driven`
    ledger: Any = None  # what it does is written down there if it runs on a machine, see `ledger`
    clock: Any = None  # of kernels that are profiled, see `clock`

    def __post_init__(self) -> None:
        statements = list(walk(self.program.body))
        self.unrolled = frozenset(s.var for s in statements if isinstance(s, For) and substituted(s))
        counts = [trip_count(s) or 1 for s in statements if isinstance(s, For) and s.mode == VECTORIZE]
        self.lanes = max(counts, default=1)
        temporaries = (s.buffer for s in statements if isinstance(s, Allocate))
        self.buffers = tuple(dict.fromkeys((*self.program.arguments, *temporaries)))
        named: dict[str, list[Buffer]] = {}
        for b in self.buffers:
            named.setdefault(b.name, []).append(b)
        for b in self.buffers:
            near = {name for pair in self.aliases if b.name in pair for name in pair} | {b.name}
            self.related[b] = tuple(c for name in near for c in named.get(name, ()))

    @property
    def plain(self) -> bool:
        """Whether the code does nothing besides computing: then instructions may leave loops."""
        return not self.instrument and self.ledger is None and self.driver is None

    def distinct(self, b: Buffer) -> bool:
        """Whether nothing else points into the buffer."""
        return not any(b.name in pair and len(pair) > 1 for pair in self.aliases)

    def info(self, root: Node) -> Info:
        found = self.infos.get(root)
        if found is None:
            for n in postorder([root]):
                if n not in self.infos:
                    self.infos[n] = self._info(n)
            found = self.infos[root]
        return found

    def _info(self, n: Node) -> Info:
        if n.op == "var":
            alone = frozenset((n,))
            return Info(alone, _NOTHING, (n,) if n in self.unrolled else ())
        below = [self.infos[a] for a in n.args]
        if n.op in ("load", "load_if"):
            buffers = _union([i.buffers for i in below] + [frozenset((n.attr[0],))])
        else:
            buffers = _union([i.buffers for i in below])
        names = _union([i.vars for i in below])
        for i in below:
            if i.vars is names or i.vars == names:
                return i if i.buffers == buffers else Info(i.vars, buffers, i.unrolled)
        some = tuple(sorted((v for v in names if v in self.unrolled), key=lambda v: v.attr))
        return Info(names, buffers, some)

    def writes(self, s: Stmt) -> frozenset[Buffer]:
        """The buffers that a statement writes or creates."""
        if s not in self.written:
            for t in reversed(list(walk(s))):  # inner ones first
                if t not in self.written:
                    own: tuple[Buffer, ...] = ()
                    if isinstance(t, Store):
                        own = tuple(b for target, _ in t.targets for b in self.related[target])
                    elif isinstance(t, Call):
                        own = tuple(b for v in t.out for b in self.related[v.buffer])
                    elif isinstance(t, Allocate):
                        own = (t.buffer,)
                    self.written[t] = _union([frozenset(own), *(self.written[c] for c in children(t))])
        return self.written[s]


def _union(sets: Sequence[frozenset]) -> frozenset:
    """Their union, as one of them where that is possible."""
    out: frozenset = _NOTHING
    for s in sets:
        if s and s is not out:
            out = s if not out or out <= s else out if s <= out else out | s
    return out


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vectorize loop that is being emitted."""

    var: Node
    n: int


@dataclass(frozen=True, slots=True)
class Level:
    """A loop: instructions that go before it, and the keys of values that end where those do."""

    lines: list[str]
    undo: list[Any]


class Region:
    """The function being emitted; see the module's text."""

    def __init__(self, shared: Shared, parent: Region | None):
        self.shared = shared
        self.parent = parent
        self.f = Function(shared.module)
        self.captures: dict[Any, str] = {}
        self.pointers: dict[Buffer, str] = {}
        self.stacked: set[Buffer] = set()
        self.arenas: set[Buffer] = set()  # temporaries that have a place in the arena of a memory
        self.stack_bytes = 0
        self.held: list[str] = []  # labels: where an early return gives back what is held, innermost last
        self.tail: list[str] = []  # the blocks of these labels
        self.code: str | None = None  # where an early return leaves its code
        self.memo: dict[Any, tuple[str, bool, tuple | None]] = {}
        self.undo: list[Any] = []
        self.levels: list[Level] = []  # the loops around, outermost first
        self.level_of: dict[str, int] = {}  # how many of them are around what an operand was made by
        self.by_lanes: dict[Any, dict[Any, Any]] = {}  # the memo at the end of vector loops, of instrumented kernels
        self.versions: dict[Buffer, int] = dict.fromkeys(shared.buffers, 0)
        self.env: dict[Node, Any] = dict(parent.env) if parent else {}
        self.env_linear: dict[Node, Linear] = dict(parent.env_linear) if parent else {}
        self.depth: dict[Node, int] = {}
        self.lanes: Lanes | None = None
        self.mask: str | None = None
        self.stage = ""  # whose statement is being emitted
        self.accesses: dict[Any, Any] = {}
        self.meaning: dict[str, Node] = {}  # what masks stand for, see `conditions`
        self.virtual: dict[Buffer, str] = {}  # addresses of temporaries, see `driven`
        self.arena: str | None = None  # where the next one goes

    # the memo ---------------------------------------------------------------------------------------------

    def key(self, n: Node) -> Any:
        """What identifies a node's value here: under unrolled loops the node with their variables' values."""
        info = self.shared.infos.get(n) or self.shared.info(n)
        if not info.unrolled:
            return n
        return (n, *[self.env.get(v) for v in info.unrolled])

    def find(self, key: Any) -> Value | None:
        found = self.memo.get(key)
        if found is None:
            return None
        if found[2] is not None:
            versions = self.versions
            for b, v in found[2]:
                if versions[b] != v:
                    return None
        return found[:2]

    def put(self, key: Any, operand: str, varying: bool = False, buffers: Iterable[Buffer] = ()) -> Value:
        read = tuple((b, self.versions[b]) for b in buffers) if buffers else None
        self.memo[key] = (operand, varying, read)
        self.undo.append(key)
        return operand, varying

    def invariant(self, key: Any, operands: Iterable[str], make: Callable[[], str]) -> str:
        """The result of index arithmetic on scalars, which has no effects and depends on its operands alone. It goes before
        the outermost loop that none of them is made in."""
        found = self.find(key)
        if found is not None:
            return found[0]
        inside = len(self.levels)
        level = max((self.level_of.get(x, inside) for x in operands if x[0] == "%"), default=0)
        lines = self.f.lines
        mark = len(lines)
        x = make()
        if x[0] == "%" and len(lines) > mark:  # else it is one of the operands, or a constant
            self.level_of[x] = level
        if level >= inside:
            return self.put(key, x)[0]
        self.levels[level].lines.extend(lines[mark:])
        del lines[mark:]
        self.memo[key] = (x, False, None)
        self.levels[level].undo.append(key)
        return x

    def shared_op(self, text: str, *operands: str) -> str:
        """One instruction as an `invariant`."""
        return self.invariant(text, operands, lambda: self.f.op(text))

    @contextmanager
    def loop(self, i: str, lines: list[str]) -> Iterator[None]:
        """The body of a loop over `i`; `lines` go before it."""
        if not self.shared.plain:
            with self.scope():
                yield
            return
        self.levels.append(Level(lines, self.undo))
        self.level_of[i] = len(self.levels)
        with self.scope():
            yield
        self.levels.pop()

    def value(self, n: Node) -> Value:
        """The value of a node that has been computed before."""
        found = self.find(self.key(n))
        assert found is not None, f"{n.op} was not prepared"
        return found

    def buffers(self, atoms: Iterable[Node]) -> frozenset[Buffer]:
        return _union([self.shared.info(a).buffers for a in atoms])

    def touch(self, buffers: Iterable[Buffer]) -> None:
        """These may have been written."""
        for b in buffers:
            self.versions[b] += 1

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values computed inside are not known afterwards."""
        outer, self.undo = self.undo, []
        try:
            yield
        finally:
            for k in self.undo:
                self.memo.pop(k, None)
                self.by_lanes.pop(k, None)
            self.undo = outer

    @contextmanager
    def lane_scope(self, lanes: Lanes) -> Iterator[None]:
        if self.lanes is not None:
            raise CompileError(
                f"the vectorized loop {lanes.var.attr!r} stands inside the vectorized loop {self.lanes.var.attr!r}",
                code="vectorize.nested",
                hint="vectorize one of the two loops and unroll the other",
            )
        accesses, self.accesses, self.lanes = self.accesses, {}, lanes
        try:
            with self.scope():
                if self.shared.instrument:
                    self._restore(lanes)
                yield
                known = {k: self.memo[k] for k in self.undo if k in self.memo}
        finally:
            self.accesses, self.lanes = accesses, None
        if self.shared.instrument:
            self.by_lanes[lanes] = known
            self.undo.append(lanes)

    def _restore(self, lanes: Lanes) -> None:
        """What an unrolled copy of the same vector loop has loaded: machine code keeps it in a register, and counters
        are to count that once."""
        for k, v in self.by_lanes.get(lanes, {}).items():
            if k not in self.memo:
                self.memo[k] = v
                self.undo.append(k)

    # from outside -----------------------------------------------------------------------------------------

    def captured(self, key: Any) -> str:
        """The operand of something that the region around this one has: a Buffer, a leaf node, or a name."""
        found = self.captures.get(key)
        if found is None:
            found = self.captures[key] = f"%c{len(self.captures)}"
            self.level_of[found] = 0
        return found

    def leaf(self, n: Node) -> str:
        """A variable, size, stride or scalar."""
        return self.captured(n)

    def pointer(self, b: Buffer) -> str:
        return self.pointers.get(b) or self.captured(b)

    def supply(self, key: Any) -> str:
        """This region's operand for what a region inside captured."""
        if isinstance(key, Buffer):
            return self.pointer(key)
        if isinstance(key, Node):
            found = self.find(self.key(key))
            return found[0] if found else self.leaf(key)
        return self.captured(key)

    def parameter(self, key: Any) -> str:
        """Type and attributes of a captured thing as a parameter."""
        if isinstance(key, Buffer):
            return "ptr noalias" if self.shared.distinct(key) else "ptr"
        return self.captured_type(key)

    @staticmethod
    def captured_type(key: Any) -> str:
        if isinstance(key, tuple):  # a virtual address
            return "i64"
        return value_type(key.dtype) if isinstance(key, Node) else "ptr"


def bind(r: Region, var: Node, start: Linear, k: int) -> None:
    """Make an unrolled loop's variable stand for start + k."""
    coefs, c = start
    r.env_linear[var] = (coefs, c + k)
    r.env[var] = (tuple(coefs.items()), c + k) if coefs else c + k


def unbind(r: Region, var: Node) -> None:
    r.env.pop(var, None)
    r.env_linear.pop(var, None)

"""What an emitted program does, written down while it is emitted: counters in the code, and the skeleton's tree.

Both come from one walk, so that they count the same. What counts is what the emitted code does (see `counters`); it is
told apart by section. Constant amounts of a piece of straight code are added up and counted once at its end. Copies by
engines count their box, whatever loops do them in the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from tilewright.codegen import loops as L
from tilewright.codegen.emit.array import relayed, share_access, share_box
from tilewright.codegen.emit.conditions import by_data, here, meaning, sayable, some_lane
from tilewright.codegen.emit.index import Access, constant_step, window
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.emit.spread import innermost, replicas
from tilewright.codegen.emit.steps import CONCURRENT, RINGS, Steps
from tilewright.codegen.operations import Operations
from tilewright.codegen.skeleton import layout as E
from tilewright.codegen.skeleton import tree as T
from tilewright.hw.machine import Machine
from tilewright.lang import ir
from tilewright.lang.ir import FALSE, Node, integer
from tilewright.lang.types import bool_

LOADS, STORES, POINTS, CONFLICTS, VISITS, TRIPS, HANDS, MOVED = (
    "loads", "stores", "points", "conflicts", "visits", "trips", "hands", "moved",
)  # fmt: skip
SHARED_LOADS, SHARED_STORES = "shared loads", "shared stores"
CALLS, DONE = "calls", "done"
ACCESSES = "accesses"
_SHARED = {LOADS: SHARED_LOADS, STORES: SHARED_STORES}


ARENAS = "arenas"  # the memory in which the arenas of all memories lie


@dataclass(frozen=True, slots=True)
class Key:
    """What a counter counts.

    `loads` and `stores`: elements of a buffer (`first`: start values of a reduction). `points`: evaluations that do
    these `operations` each, `lanes` at a time, inside of spatial loops or not. `accesses`: instructions that access a
    buffer in a memory whose latency cores wait for. `conflicts`: cycles that accesses to a buffer wait for banks. `shared
    loads` and `shared stores`: of those to the buffer, what another element of an array makes as well (`again`: taken
    off too often). `visits` and `trips` of a loop; `hands`: copies by hand that were begun, and the elements that they
    `moved`. `hand`: accesses of such a copy inwards (1) or outwards (-1).
    """

    kind: str
    section: int | None
    buffer: L.Buffer | None = None
    loop: int = -1
    name: str = ""
    first: bool = False
    operations: Operations = ()
    lanes: int = 1
    spatial: bool = False
    hand: int = 0
    again: bool = False


@dataclass(slots=True)
class _Block:
    """A piece of straight code: its steps, what it charges under which condition, and what is still to be counted."""

    steps: list[T.Step] = field(default_factory=list)
    sums: dict[tuple[int, Node | None, Node | None, int], int] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)


def _charges(block: _Block) -> Iterator[T.Charge]:
    for (counter, condition, lane, lanes), n in block.sums.items():
        yield T.Charge(counter, integer(n), condition, lane, lanes)


class Ledger:
    """The counters of a program on a machine, and its tree. `problem` says why there is no skeleton, if so.

    `places` are the offsets of buffers, by name, in the memory that holds all arenas (of programs that run); `sync`
    is how cores and copies meet there, where not as the machine says.
    """

    def __init__(
        self, program: L.Program, machine: Machine, places: Mapping[str, int] | None = None, sync: str | None = None
    ):
        self.program, self.machine, self.places = program, machine, places or {}
        self.keys: dict[Key, int] = {}
        self.sections: dict[int, L.Section] = {}
        self.buffers: dict[L.Buffer, int] = {}
        self.problem: str | None = None
        self.steps = Steps(places is not None, (sync or machine.compute.sync) == "barrier")
        self.section: L.Section | None = None
        self.hand: L.Section | None = None
        self.called = False  # inside of what a unit does
        self.units: dict[str, int] = {}  # in the order of their first calls
        self.array: list[L.For] = []  # the spatial loops around
        self.guards: list[Node] = []  # the conditions around
        self.loops: list[L.For] = []  # all loops around
        self.within: list[L.For] = []  # the other loops around that stand inside of these
        self.outside: dict[L.Buffer, int] = {}  # how many of them are around where a buffer lives
        self.blocks = [_Block()]
        moved = [s.transfer for s in L.walk(program.body) if isinstance(s, L.Section) and s.transfer is not None]
        self.moving = {b for t in moved for b in (t.source.buffer, t.target.buffer)}
        self.ahead = {
            b for t in moved if t.asynchronous for b in (t.source.buffer, t.target.buffer) if b.size is not None
        }

    # Counting ------------------------------------------------------------------------------------------------

    @property
    def where(self) -> int | None:
        return None if self.section is None else self.section.number

    @property
    def quiet(self) -> bool:
        """Whether what the code does is counted in another way: as the box of a copy, or as a call of a unit."""
        return self.called or (self.section is not None and self.section.kind == L.COPY)

    def number(self, key: Key) -> int:
        return self.keys.setdefault(key, len(self.keys))

    def buffer(self, b: L.Buffer) -> int:
        return self.buffers.setdefault(b, len(self.buffers))

    def access(self, r: Region, b: L.Buffer, kind: str, n: int, mask: Value | None, a: Access | None) -> None:
        """An access of the emitted code to `n` elements: see `counters.count`."""
        how = relayed(r.stage)
        if self.quiet or how == "relay" or (how == "pass" and kind == LOADS):
            return
        self._instructions(r, b, kind, n, mask, a)
        first = kind == STORES and (how == "pass" or ".init" in r.stage.partition("{")[0])
        if self.hand is None or not self.hand.transfers:
            n *= replicas(self, b)
        self.charge(r, Key(kind, self.where, b, first=first, hand=self._direction()), n, mask)
        if self.hand is None or not self.hand.transfers:
            share_access(self, r, Key(_SHARED[kind], self.where, b, hand=self._direction()), n, mask, a)
        cycles = 0 if a is None else self._conflict(b, a)
        if cycles:
            self.charge(r, Key(CONFLICTS, self.where, b), cycles, _uniform(r, mask))

    def _instructions(self, r: Region, b: L.Buffer, kind: str, n: int, mask: Value | None, a: Access | None) -> None:
        """What the machine's cores would access with: a register's width at a time where elements lie together.

        Elements of an array are fed in step, by those who know the addresses long before.
        """
        if not self.machine.memory(b.memory).wait or self.array:
            return
        lanes = mask is not None and mask[1]
        vectors = None if a is None or n == 1 else [n] if constant_step(a) in (1, -1) else None
        if vectors is None and a is not None and n > 1 and kind == LOADS and not lanes:
            vectors = [length for _, length in window(a, n) or ()]
        many = sum(-(-k * b.dtype.bytes // self.machine.compute.vector_bytes) for k in vectors or ())
        self.charge(r, Key(ACCESSES, self.where, b), many or n, _uniform(r, mask) if many else mask)

    def _direction(self) -> int:
        """Of a copy by hand, whether it goes inwards (1) or outwards (-1)."""
        if self.hand is None or not self.hand.transfers:
            return 0
        t = self.hand.transfers[0]
        inner, outer = (self.machine.memories.index(self.machine.memory(v.buffer.memory)) for v in (t.target, t.source))
        return (inner > outer) - (inner < outer)

    def share(self, r: Region, t: L.Transfer) -> None:
        """Count what boxes that are copied have in common with those of other elements."""
        for kind, v in ((LOADS, t.source), (STORES, t.target)):
            key = Key(_SHARED[kind], self.where, v.buffer, hand=self._direction())
            share_box(self, r, (key, replace(key, again=True)), t.whole, innermost(self, t))

    def _conflict(self, b: L.Buffer, a: Access) -> int:
        """The cycles that a vector access waits because some of its words are in one bank (it starts at a bank's word)."""
        memory = self.machine.memory(b.memory)
        if a.offsets is None or a.strides or a.dynamic or memory.banks == 1:
            return 0
        words = {o * b.dtype.bytes // memory.bank_bytes for o in a.offsets}
        taken: dict[int, int] = {}
        for w in words:
            taken[w % memory.banks] = taken.get(w % memory.banks, 0) + 1
        return max(taken.values()) - -(-len(words) // memory.banks)

    def point(self, r: Region, did: Operations) -> None:
        """The evaluation of one point, or of one a lane."""
        if self.quiet:
            return
        n = 1 if r.lanes is None else r.lanes.n
        mask = None if r.mask is None else (r.mask, True)
        if did:
            self.charge(r, Key(POINTS, self.where, operations=did, lanes=n, spatial=bool(self.array)), n, mask)
        if self.hand is not None:
            self.charge(r, Key(MOVED, self.where, name=self.hand.name), n, mask)

    def box(self, r: Region, kind: str, b: L.Buffer, extents: Sequence[Node], operands: Sequence[str]) -> None:
        """An access of a function of the user's to all elements of a box, one after the other."""
        self.product(r, Key(kind, self.where, b), extents, operands)
        if self.machine.memory(b.memory).wait and not self.array:
            self.product(r, Key(ACCESSES, self.where, b), extents, operands)

    def charge(self, r: Region, key: Key, n: int, mask: Value | None = None) -> None:
        """Count `n`: all or none under a uniform mask, as many as hold under a mask of lanes."""
        c, block = self.number(key), self.blocks[-1]
        place: tuple[int, Node | None, Node | None, int] = (c, None, None, 0)
        if mask is None or mask[0] == "true":
            block.pending[c] = block.pending.get(c, 0) + n
        else:
            from tilewright.codegen.emit.counters import amount

            condition = self.expression(meaning(r, mask[0]))
            self.add(r, c, amount(r, n, mask))
            place = (c, condition, None, 0)
            if mask[1]:
                assert r.lanes is not None
                n, place = 1, (c, condition, r.lanes.var, r.lanes.n)
        block.sums[place] = block.sums.get(place, 0) + n

    def product(
        self, r: Region, key: Key, extents: Sequence[Node], operands: Sequence[str], mask: Value | None = None
    ) -> None:
        """Count the product of extents, none of which counts below 0; nothing where a uniform mask does not hold."""
        c, total = self.number(key), "1"
        for x in operands:
            least = r.f.intrinsic("llvm.smax", "i64", 0, [x, "0"])
            total = r.f.op(f"mul i64 {total}, {least}")
        condition = None
        if mask is not None:
            condition = self.expression(meaning(r, mask[0]))
            total = r.f.op(f"select i1 {mask[0]}, i64 {total}, i64 0")
        self.add(r, c, total)
        self.blocks[-1].steps.append(T.Product(c, tuple(self.expression(here(r, e)) for e in extents), condition))

    def add(self, r: Region, c: int, amount: str) -> None:
        """The instructions that add to a counter; its place is known when all are (see `placed`)."""
        p = r.f.op(f"getelementptr i64, ptr {r.captured('counters')}, i64 {_MARK}{c}{_MARK}")
        old = r.f.op(f"load i64, ptr {p}")
        r.f.do(f"store i64 {r.f.op(f'add i64 {old}, {amount}')}, ptr {p}")

    def expression(self, n: Node) -> Node:
        """An expression of the tree; a stand-in where there is no skeleton, which then nobody asks for."""
        if self.problem is None and not sayable(n):
            inside = "" if self.section is None else f" in {self.section.name}"
            what = "depends on data" if by_data(n) else "is more than index arithmetic"
            self.problem = f"a loop bound or condition{inside} {what}: {n!r}"
        return n if self.problem is None or sayable(n) else FALSE if n.dtype is bool_ else integer(0)

    def tree(self) -> T.Step:
        """All that the program does, counters by their numbers of first use."""
        (block,) = self.blocks
        return T.Sequence((*_charges(block), *block.steps))

    # Structure -----------------------------------------------------------------------------------------------

    @contextmanager
    def guard(self, condition: Node) -> Iterator[None]:
        """What runs only where a condition holds."""
        self.guards.append(condition)
        yield
        self.guards.pop()

    @contextmanager
    def block(self, r: Region) -> Iterator[list[T.Step]]:
        """A piece of code; gives a list that has its one step when it is done."""
        self.blocks.append(_Block())
        out: list[T.Step] = []
        yield out
        self.flush(r)
        block = self.blocks.pop()
        items = (*_charges(block), *block.steps)
        out.append(items[0] if len(items) == 1 else T.Sequence(items))

    def flush(self, r: Region) -> None:
        """Count in the code what has been added up."""
        pending = self.blocks[-1].pending
        for c, n in pending.items():
            self.add(r, c, str(n))
        pending.clear()

    def step(self, s: T.Step) -> None:
        if not isinstance(s, T.Sequence) or s.items:
            self.blocks[-1].steps.append(s)

    def branch(self, r: Region, condition: Node, then: T.Step, otherwise: T.Step | None) -> None:
        if any(not isinstance(s, T.Sequence) or s.items for s in (then, otherwise) if s is not None):
            self.step(T.Branch(self.expression(here(r, condition)), then, otherwise))

    @contextmanager
    def loop(self, r: Region, s: L.For, start: str, stop: str, trips: int | None) -> Iterator[_Loop]:
        """Before a loop is entered; `body` of what is given stands around its body."""
        visits, count = (self.number(Key(k, self.where, loop=s.number)) for k in (VISITS, TRIPS))
        if not self.quiet:
            for c, n in ((visits, 1), (count, trips)):
                if n is not None:
                    pending = self.blocks[-1].pending
                    pending[c] = pending.get(c, 0) + n
            if trips is None:
                many = r.f.op(f"sub i64 {stop}, {start}")
                self.add(r, count, r.f.intrinsic("llvm.smax", "i64", 0, [many, "0"]))
        made = _Loop(self, r, s)
        if self.quiet:
            yield made
            return
        mode = T.SPATIAL if s.axis else T.PARALLEL if s.mode == L.PARALLEL else T.SERIAL
        first, last = (self.expression(here(r, n)) for n in (s.start, s.stop))
        turns = (t for t in _turns(s.body) if self.section is None and t.buffer in self.ahead)
        ring = any(s.var in ir.leaves((t.slot,), "var") for t in turns)
        made.site = self.steps.site("loop")
        made.kinds += [RINGS] if ring and self.steps.barriers else []
        made.kinds += [CONCURRENT] if mode != T.SERIAL else []
        if made.kinds and self.steps.running:
            self.flush(r)
        with ExitStack() as opened:
            for kind in made.kinds:
                opened.enter_context(self.steps.around(r, made.site, kind, (start, stop)))
            yield made
        self.step(T.Loop(s.var, first, last, mode, made.steps[0], visits, count, ring, s.axis or ""))

    def flat_loop(self, r: Region, s: L.For, trips: int) -> None:
        """A loop that is emitted without one: unrolled, or in lanes."""
        if not self.quiet:
            self.charge(r, Key(VISITS, self.where, loop=s.number), 1)
            self.charge(r, Key(TRIPS, self.where, loop=s.number), trips)

    @contextmanager
    def life(self, r: Region, b: L.Buffer) -> Iterator[None]:
        """A temporary; rings whose copies run ahead or behind begin and end with it."""
        self.outside[b] = len(self.array)
        if b not in self.ahead:
            yield
            return
        number = self.buffer(b)
        self.steps.call(r, E.STEP_LIFE, number)
        with self.block(r) as inside:
            yield
        self.steps.call(r, E.STEP_DEATH, number)
        self.step(T.Life(number, inside[0]))

    @contextmanager
    def in_section(self, r: Region, s: L.Section) -> Iterator[None]:
        if s.kind == L.HAND:
            self.charge(r, Key(HANDS, self.where, name=s.name), 1)
            outer, self.hand = self.hand, s
            for t in s.transfers:
                self.share(r, t)
            yield
            self.hand = outer
            return
        if s.kind == L.UNIT:
            self._call(r, s)
            self.called = True
            yield
            self.called = False
            return
        self.sections[s.number] = s
        outer, self.section = self.section, s
        if s.kind == L.COPY:
            with self.block(r):
                yield
            self._copy(r, s)
        else:
            uses, slots = self._uses(r, s)
            site = self.steps.site("section")
            self.steps.call(r, E.STEP_BEGIN, site, slots)
            with self.block(r) as inside:
                yield
            self.steps.call(r, E.STEP_END, site, self._counters(r))
            self.step(T.Compute(s.number, uses, inside[0]))
        self.section = outer

    def _call(self, r: Region, s: L.Section) -> None:
        """A call of a unit: what it reads and writes, and that it is made."""
        from tilewright.codegen.emit.values import scalar

        roles = [scalar(r, e) for e in s.roles]
        self.charge(r, Key(CALLS, self.where, name=s.unit), 1)
        self.product(r, Key(DONE, self.where, name=s.unit), s.roles, roles)
        for k, v in enumerate(s.operands):
            for kind in (LOADS, STORES) if k == 2 else (LOADS,):
                self.product(r, Key(kind, self.where, v.buffer), v.extents, [scalar(r, e) for e in v.extents])
                key = Key(_SHARED[kind], self.where, v.buffer)
                share_box(self, r, (key, replace(key, again=True)), (*v.origin, *v.extents))
        number = self.units.setdefault(s.unit, len(self.units))
        self.step(T.Unit(number, tuple(self.expression(here(r, e)) for e in s.roles)))
        self.steps.call(r, E.STEP_UNIT, number, roles)

    def _counters(self, r: Region) -> str:
        return r.captured("counters") if self.steps.running else "null"

    def _uses(self, r: Region, s: L.Section) -> tuple[tuple[T.Use, ...], list[str]]:
        """The buffers of copies that a section touches, and the operands of their slots (-1: all)."""
        from tilewright.codegen.emit.values import scalar
        from tilewright.codegen.sections import touched

        slots = dict(s.turns)
        reads, writes = touched(s.body)
        uses: list[T.Use] = []
        operands: list[str] = []
        for b in dict.fromkeys((*reads, *writes)):
            if b in self.moving:
                slot = slots.get(b)
                at = None if slot is None else self.expression(here(r, slot))
                uses.append(T.Use(self.buffer(b), at, b in reads, b in writes))
                operands.append("-1" if slot is None else scalar(r, slot) if self.steps.running else "0")
        return tuple(uses), operands

    def _copy(self, r: Region, s: L.Section) -> None:
        from tilewright.codegen.emit.values import scalar

        t = s.transfer
        assert t is not None
        extents = t.source.extents
        operands = [scalar(r, e) for e in extents]
        self.product(r, Key(LOADS, s.number, t.source.buffer), extents, operands)
        self.product(r, Key(STORES, s.number, t.target.buffer), extents, operands)
        self.share(r, t)
        self.step(copy_step(self, r, s, t))
        site = self.steps.site("copy")
        if self.steps.running:
            sides = ((t.source_slot, t.source), (t.target_slot, t.target))
            nodes = [n for slot, v in sides for n in (slot, v.first, *v.steps)]
            self.steps.call(r, E.STEP_COPY, site, [scalar(r, n) for n in (*nodes, *extents)])


@dataclass
class _Loop:
    ledger: Ledger
    region: Region
    loop: L.For
    steps: list[T.Step] = field(default_factory=list)
    site: int = -1
    kinds: list[tuple[int, int, int]] = field(default_factory=list)

    @contextmanager
    def body(self) -> Iterator[None]:
        around = self.ledger.array if self.loop.axis else self.ledger.within if self.ledger.array else None
        self.ledger.loops.append(self.loop)
        if around is not None:
            around.append(self.loop)
        with self.ledger.block(self.region) as self.steps:
            yield
        for _, step, _ in reversed(self.kinds):
            self.ledger.steps.call(self.region, step, self.site, self.ledger._counters(self.region))
        self.ledger.loops.pop()
        if around is not None:
            around.pop()


def _uniform(r: Region, mask: Value | None) -> Value | None:
    """A mask as all lanes together see it: whether one is active."""
    if mask is None or not mask[1]:
        return mask
    assert r.lanes is not None
    return some_lane(r, r.f.any(mask[0], r.lanes.n), mask[0]), False


def copy_step(ledger: Ledger, r: Region, s: L.Section, t: L.Transfer) -> T.Copy:
    """A copy as the engine takes it."""
    from tilewright.codegen.skeleton.parameters import rate_of

    machine = ledger.machine
    inner, outer = (machine.memory(b.memory) for b in (t.target.buffer, t.source.buffer))
    number, engine = next((k, d) for k, d in enumerate(machine.dmas) if d.name == s.engine)
    rate, burst = rate_of(engine, outer, inner)

    def side(v: L.View, slot: Node) -> T.Side:
        ring = v.buffer.slots > 1
        nodes = [ledger.expression(here(r, n)) for n in (v.first, slot, *v.steps)]
        return T.Side(
            ledger.buffer(v.buffer), nodes[1] if ring else None, nodes[0], tuple(nodes[2:]), v.buffer.dtype.bytes
        )

    inward = machine.memories.index(inner) > machine.memories.index(outer)
    extents = tuple(ledger.expression(here(r, e)) for e in t.source.extents)
    return T.Copy(
        s.number, side(t.source, t.source_slot), side(t.target, t.target_slot), extents, t.asynchronous, number, inward,
        rate, burst,
    )  # fmt: skip


def _turns(s: L.Stmt) -> Iterator[L.Turn]:
    """The turns of a loop's own iterations."""
    if isinstance(s, L.Turn):
        yield s
    for t in L.children(s) if not isinstance(s, L.For) else ():
        yield from _turns(t)


# Places of counters -----------------------------------------------------------------------------------------------

_MARK = "#"


def order(ledger: Ledger) -> list[Key]:
    """The counters in their final order: those of no section, then section by section, each in text order."""
    return sorted(ledger.keys, key=lambda k: -1 if k.section is None else k.section)


def placed(text: str, ledger: Ledger) -> str:
    """The text of a module with the places of all counters."""
    import re

    place = {k: i for i, k in enumerate(order(ledger))}
    numbers = [str(place[k]) for k in ledger.keys]
    return re.sub(f"{_MARK}(\\d+){_MARK}", lambda m: numbers[int(m.group(1))], text)


def renumbered(s: T.Step, place: Sequence[int]) -> T.Step:
    """A tree with the counters' places for their numbers."""

    def of(c: int | None) -> int | None:
        return None if c is None else place[c]

    match s:
        case T.Charge() | T.Product():
            return replace(s, counter=place[s.counter])
        case T.Sequence(items):
            return T.Sequence(tuple(renumbered(t, place) for t in items))
        case T.Loop():
            return replace(s, body=renumbered(s.body, place), visits=of(s.visits), trips=of(s.trips))
        case T.Branch(condition, then, otherwise):
            no = None if otherwise is None else renumbered(otherwise, place)
            return T.Branch(condition, renumbered(then, place), no)
        case T.Compute() | T.Life():
            return replace(s, body=renumbered(s.body, place))
    return s


__all__ = ["Key", "Ledger", "order", "placed", "renumbered"]

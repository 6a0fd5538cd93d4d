"""A tree as the engine's memory: tables of expressions, loops, sections and copies, and a flat program over them.

The encoding depends on the table only. To run it for other sizes, copy the words and set the leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton import tree as T
from tilewright.codegen.skeleton.graph import Env, Graph
from tilewright.lang import simplify
from tilewright.lang.ir import Node, integer

_MODES = {T.SERIAL: L.MODE_SERIAL, T.PARALLEL: L.MODE_PARALLEL, T.SPATIAL: L.MODE_SPATIAL}
_SCOPES = {T.MACHINE: L.OF_MACHINE, T.CORE: L.OF_CORE, T.ELEMENT: L.OF_ELEMENT}
_CONTENTION = {"independent": L.INDEPENDENT, "fifo": L.FIFO, "partitioned": L.PARTITIONED}


@dataclass(frozen=True, slots=True)
class PathItem:
    """What a number of the path means: busy, bank, latency, drain, barrier, load, store or issue; where; of which buffer."""

    what: str
    section: int | None
    buffer: int | None


@dataclass(frozen=True, eq=False, slots=True)
class Encoded:
    """The engine's memory before a run. `leaves` are places of the values of sizes and scalars by name.

    `sites` numbers the loops, the compute sections and the copies of the tree, each kind in text order: as they are
    named when another program than the table's own drives the engine.
    """

    table: T.Table
    words: np.ndarray  # int64
    leaves: dict[str, int]
    path: tuple[PathItem, ...]
    section_sums: tuple[tuple[int, int], ...]  # section, place in the sums of its visits
    copy_sums: tuple[tuple[int, int], ...]  # section, first place in the sums
    channels: tuple[tuple[int, int], ...]  # engine and number of every channel
    copy_channels: dict[int, int]  # of a section
    sites: dict[T.Step, int]


@dataclass(eq=False, slots=True)
class _Body:
    """What a loop's body has, collected while the tree is walked."""

    number: int
    var: int
    checks: list[tuple[int, int, int, int]] = field(default_factory=list)  # kind, node, parameters
    counters: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    channels: dict[int, None] = field(default_factory=dict)
    engines: dict[int, None] = field(default_factory=dict)
    buffers: dict[int, int] = field(default_factory=dict)  # with flags: starts of copies depend on it
    inner: set[int] = field(default_factory=set)  # buffers that live inside
    copies: list[int] = field(default_factory=list)
    costs: bool = False
    events: bool = False


def encode(table: T.Table) -> Encoded:
    """The engine's memory for a table. Raises SimulationError `skeleton.data` for expressions that read data."""
    return _Encoder(table).encoded()


class _Encoder:
    def __init__(self, table: T.Table):
        self.table = table
        self.graph = Graph()
        self.words: list[int] = [0] * L.HEADER_SIZE
        self.code: list[list[int]] = []
        self.loops: list[list[int]] = []
        self.computes: list[list[int]] = []
        self.copies: list[list[int]] = []
        self.bodies: list[_Body] = []
        self.path: list[PathItem] = []
        self.sums = 0
        self.section_sums: list[tuple[int, int]] = []
        self.copy_sums: list[tuple[int, int]] = []
        self.sites: dict[T.Step, int] = {}
        self.drains: dict[int, int] = {}
        self.arguments = 4
        self.units = [self.unit(u) for u in table.units]
        steps = list(T.walk(table.tree))
        self.copy_channels = _channels(table, [s for s in steps if isinstance(s, T.Copy)])
        self.hazards = _hazards([s for s in steps if isinstance(s, T.Copy)])
        self.bases = [0]
        for e in table.engines:
            self.bases.append(self.bases[-1] + e.channels)
        self.section: _Section | None = None
        self.axes: dict[str, int] = {}  # their numbers

    # Memory -----------------------------------------------------------------------------------------------------

    def place(self, words: Iterable[int]) -> int:
        """Where these words are put."""
        at = len(self.words)
        self.words.extend(words)
        return at

    def room(self, count: int) -> int:
        return self.place([0] * count)

    # The tree ---------------------------------------------------------------------------------------------------

    def sink(self, n: Node, env: Env) -> int:
        return self.graph.sink(self.graph.of(n, env))

    def check(self, n: Node, env: Env, kind: int = L.CHECK_SAME, first: int = 0, second: int = 1) -> None:
        """All loops around have to look at an expression."""
        node = self.graph.of(n, env)
        for b in self.bodies:
            b.checks.append((kind, node, first, second))

    def same(self, n: Node, env: Env) -> int:
        """A sink whose value has to be the same in a uniform range."""
        self.check(n, env)
        return self.sink(n, env)

    def emit(self, *words: int) -> int:
        self.code.append([*words, *[0] * (L.CODE_SIZE - len(words))])
        return len(self.code) - 1

    def count(self, counter: int | None) -> int:
        if counter is None:
            return -1
        for b in self.bodies:
            b.counters.append(counter)
        if self.section is not None:
            self.section.counters.append(counter)
        return counter

    def new_path(self, *items: PathItem) -> int:
        at = len(self.path)
        self.path.extend(items)
        for b in self.bodies:
            b.path.extend(range(at, len(self.path)))
        return at

    def new_sums(self, count: int) -> int:
        at = self.sums
        self.sums += count
        for b in self.bodies:
            b.sums.extend(range(at, self.sums))
        return at

    def touches(self, buffer: int, flags: int = 0) -> None:
        for b in self.bodies:
            b.buffers[buffer] = b.buffers.get(buffer, 0) | flags

    def step(self, s: T.Step, env: Env) -> None:
        match s:
            case T.Sequence(items):
                for t in items:
                    self.step(t, env)
            case T.Charge():
                self.charge(s, env)
            case T.Product(counter, factors, condition):
                given = -1 if condition is None else self.same(condition, env)
                sinks = self.place([self.same(f, env) for f in factors])
                self.emit(L.PRODUCT, self.count(counter), given, len(factors), sinks)
            case T.Branch():
                self.branch(s, env)
            case T.Loop():
                self.loop(s, env)
            case T.Compute():
                self.compute(s, env)
            case T.Unit(unit, extents):
                sinks = self.place([self.same(e, env) for e in extents])
                for b in self.bodies:
                    b.costs = True
                self.arguments = max(self.arguments, len(extents))
                self.emit(L.UNIT, unit, sinks)
            case T.Copy():
                self.copy(s, env)
            case T.Life(buffer, body):
                self.life(buffer, body, env)
            case _:
                raise TypeError(s)

    def charge(self, s: T.Charge, env: Env) -> None:
        amount = self.same(s.amount, env)
        if s.lane is None:
            given = -1 if s.condition is None else self.same(s.condition, env)
            self.emit(L.CHARGE, self.count(s.counter), amount, given)
            return
        lane = self.graph.lane(s.lanes)
        condition = integer(1) if s.condition is None else s.condition
        given = self.same(condition, {**env, s.lane: lane})
        self.emit(L.LANES, self.count(s.counter), amount, given, lane, s.lanes)

    def branch(self, s: T.Branch, env: Env) -> None:
        at = self.emit(L.BRANCH, self.same(s.condition, env))
        self.step(s.then, env)
        if s.otherwise is None:
            self.code[at][2] = len(self.code)
            return
        end = self.emit(L.JUMP)
        self.code[at][2] = len(self.code)
        self.step(s.otherwise, env)
        self.code[end][1] = len(self.code)

    def loop(self, s: T.Loop, env: Env) -> None:
        number = len(self.loops)
        self.sites[s] = number
        record = [0] * L.LOOP_SIZE
        self.loops.append(record)
        start, stop = self.graph.of(s.start, env), self.graph.of(s.stop, env)
        self.check(simplify.sub(s.stop, s.start), env)
        record[L.L_START], record[L.L_STOP] = self.graph.sink(start), self.graph.sink(stop)
        record[L.L_START_NODE], record[L.L_STOP_NODE] = start, stop
        along = self.axes.setdefault(s.axis, len(self.axes)) if s.mode == T.SPATIAL else 0
        record[L.L_MODE], record[L.L_RING] = _MODES[s.mode] + along, int(s.ring)
        record[L.L_VISITS], record[L.L_TRIPS] = self.count(s.visits), self.count(s.trips)
        if s.mode != T.SERIAL:
            for b in self.bodies:
                b.costs = True
        body = _Body(number, self.graph.variable(number, start, stop))
        self.bodies.append(body)
        if s.ring:
            items = (PathItem(what, None, None) for what in ("barrier", "load", "store"))
            record[L.L_WAITS] = self.new_path(*items)
        self.emit(L.LOOP, number)
        record[L.L_BODY] = len(self.code)
        self.step(s.body, {**env, s.var: body.var})
        self.emit(L.NEXT, number)
        record[L.L_EXIT] = len(self.code)
        self.bodies.pop()
        self.finish_loop(record, body)

    def compute(self, s: T.Compute, env: Env) -> None:
        number = len(self.computes)
        self.sites[s] = number
        record = [0] * L.SECTION_SIZE
        self.computes.append(record)
        for b in self.bodies:
            b.events = True
        uses: list[int] = []
        for u in s.uses:
            self.touches(u.buffer)
            uses += [u.buffer, self.slot(u.buffer, u.slot, env), int(u.reads), int(u.writes)]
        record[L.C_USES], record[L.C_N_USES] = self.place(uses), len(s.uses)
        items = [PathItem(what, s.section, None) for what in ("busy", "bank", "latency")]
        items += [PathItem(what, s.section, u.buffer) for u in s.uses for what in ("load", "store", "issue")]
        record[L.C_PATH] = self.new_path(*items)
        record[L.C_SUMS], record[L.C_NAME] = self.new_sums(1), s.section
        self.section_sums.append((s.section, record[L.C_SUMS]))
        self.arguments = max(self.arguments, len(s.uses))
        self.emit(L.BEGIN, number)
        section = self.section = _Section()
        self.step(s.body, env)
        self.section = None
        self.emit(L.END, number)
        record[L.C_END] = len(self.code)
        self.finish_section(record, section, len(s.uses))

    def slot(self, buffer: int, slot: Node | None, env: Env) -> int:
        """The sink of a slot, which loops around may turn; -1 for all slots."""
        slots = self.table.buffers[buffer].slots
        if slot is None:
            return -1
        if slot.op == "mod" and slot.args[1].op == "const" and slot.args[1].attr == slots:
            slot = slot.args[0]  # the engine takes it modulo the number of slots itself
        if slots > 1:
            self.check(slot, env, L.CHECK_SLOT, buffer, slots)
        return self.sink(slot, env) if slots > 1 else self.sink(integer(0), env)

    def copy(self, s: T.Copy, env: Env) -> None:
        number = len(self.copies)
        self.sites[s] = number
        record = [0] * L.COPY_SIZE
        self.copies.append(record)
        engine = self.table.engines[s.engine]
        outer = s.source if s.inward else s.target
        channel = self.copy_channels[s.section] + self.bases[s.engine]
        unit = max(s.burst, engine.alignment)
        size = outer.bytes
        for b in self.bodies:
            b.events = True
            b.channels[channel] = b.engines[s.engine] = None
            b.copies.append(number)
        self.touches(s.source.buffer, 2 if s.asynchronous and not s.inward else 0)
        self.touches(s.target.buffer, 1 if s.asynchronous and s.inward else 0)
        sinks: list[int] = []
        for side in (s.source, s.target):
            sinks.append(self.slot(side.buffer, side.slot or integer(0), env))
            sinks.append(self.sink(side.first, env))
            sinks += [self.same(n, env) for n in side.strides]
            if side is outer and size % unit:
                self.check(side.first, env, L.CHECK_MODULO, size, unit)
        sinks += [self.same(n, env) for n in s.extents]
        record[L.D_ENGINE], record[L.D_CHANNEL] = s.engine, channel
        record[L.D_ASYNC], record[L.D_INWARD] = int(s.asynchronous), int(s.inward)
        record[L.D_RATE], record[L.D_UNIT], record[L.D_ALIGNMENT] = s.rate, unit, engine.alignment
        record[L.D_RANK], record[L.D_BYTES], record[L.D_SECTION] = len(s.extents), size, s.section
        record[L.D_SOURCE], record[L.D_TARGET] = s.source.buffer, s.target.buffer
        record[L.D_SINKS], record[L.D_BOXES] = self.place(sinks), int(outer.buffer in self.hazards)
        record[L.D_SUMS] = self.new_sums(L.SUM_SIZE)
        self.copy_sums.append((s.section, record[L.D_SUMS]))
        staged = s.target.buffer if s.inward else s.source.buffer
        wait = PathItem("load" if s.inward else "store", s.section, staged)
        record[L.D_PATH] = self.new_path(wait, PathItem("issue", s.section, staged))
        record[L.G_CONTEXT] = -1
        self.arguments = max(self.arguments, len(sinks))
        self.emit(L.COPY, number)

    def life(self, buffer: int, body: T.Step, env: Env) -> None:
        if buffer not in self.drains:
            self.drains[buffer] = self.new_path(PathItem("drain", None, buffer))
        for b in self.bodies:
            b.events = True
            b.inner.add(buffer)
            b.path.append(self.drains[buffer])
        self.emit(L.LIFE_BEGIN, buffer)
        self.step(body, env)
        self.emit(L.LIFE_END, buffer)

    def unit(self, u: T.UnitCost) -> list[int]:
        roles = self.graph.roles(len(u.roles))
        env = {role: roles + i for i, role in enumerate(u.roles)}
        return [u.resource, u.latency, len(u.roles), roles, self.sink(u.interval, env)]

    # Records ----------------------------------------------------------------------------------------------------

    def finish_loop(self, record: list[int], body: _Body) -> None:
        record[L.L_VAR] = body.var
        record[L.L_EVENTS], record[L.L_COSTS] = int(body.events), int(body.costs)
        record[L.L_CORES] = int(body.events and record[L.L_MODE] != L.MODE_SERIAL)
        record[L.L_C0], record[L.L_C1] = _span(body.counters)
        record[L.L_S0], record[L.L_S1] = _span(body.sums)
        record[L.L_P0], record[L.L_P1] = _span(body.path)
        record[L.L_KEY] = -1
        outside = [b for b in body.buffers if b not in body.inner]
        places = {b: i for i, b in enumerate([*outside, *(b for b in body.buffers if b in body.inner)])}
        record[L.L_CHANNELS], record[L.L_N_CHANNELS] = self.place(body.channels), len(body.channels)
        record[L.L_ENGINES], record[L.L_N_ENGINES] = self.place(body.engines), len(body.engines)
        record[L.L_BUFFERS] = self.place(w for b in outside for w in (b, body.buffers[b]))
        record[L.L_N_BUFFERS], record[L.L_N_TURNS] = len(outside), len(places)
        record[L.L_ROTATIONS] = self.place([-1] * len(places))
        record[L.L_COPIES], record[L.L_N_COPIES] = self.place(body.copies), len(body.copies)
        record[L.L_RANGES] = self.room(L.MAX_RANGES * (3 + len(outside)))
        affected = self.graph.affected(body.var, [node for _, node, _, _ in body.checks])
        checks: dict[tuple[int, int, int, int], None] = {}
        for kind, node, first, second in body.checks:
            if kind == L.CHECK_SLOT:
                checks[(kind, node, places[first], second)] = None
            elif node in affected:
                checks[(kind, node, first, second)] = None
        known = self.graph.below([node for _, node, _, _ in checks])
        record[L.L_KNOWN], record[L.L_N_KNOWN] = self.place(known), len(known)
        record[L.L_CHECKS] = self.place(w for c in checks for w in c)
        record[L.L_N_CHECKS] = len(checks)
        self.make_room(record, body, outside)

    def make_room(self, record: list[int], body: _Body, outside: Sequence[int]) -> None:
        resources = len(self.table.resources)
        counted = record[L.L_C1] - record[L.L_C0]
        frame = L.F_LINES + L.F_LINE_SIZE * (self.bases[-1] + len(self.table.engines))
        if not body.events:
            record[L.L_SNAP] = self.room(counted + resources)
            record[L.L_FORK] = self.room(3 * resources if record[L.L_MODE] != L.MODE_SERIAL else 0)
            return
        size = 3 + L.CHANNEL_SIZE * len(body.channels)
        size += sum(L.ENGINE_SIZE + self.table.engines[e].queue for e in body.engines)
        size += L.SLOT_SIZE * sum(self.table.buffers[b].slots for b in outside)
        size += frame if self.table.sync == "barrier" else 0
        size += counted + record[L.L_S1] - record[L.L_S0] + record[L.L_P1] - record[L.L_P0] + resources
        record[L.L_SNAP], record[L.L_SNAP_SIZE] = self.room(size), size
        record[L.L_FORK] = self.room(3 * size if record[L.L_CORES] else 0)
        record[L.L_FRAME] = self.room(frame if record[L.L_RING] else 0)

    def finish_section(self, record: list[int], section: _Section, uses: int) -> None:
        record[L.C_C0], record[L.C_C1] = _span(section.counters)
        weights = [
            (c, r, t) for c in sorted(set(section.counters)) for r, t in self.table.counters[c].weights if t != 0
        ]
        record[L.C_WEIGHTS] = self.place(w for entry in weights for w in entry)
        record[L.C_N_WEIGHTS] = len(weights)
        record[L.C_SLOTS] = self.room(uses)
        record[L.M_CONTEXT] = -1
        record[L.M_COSTS] = self.room(len(self.table.resources))
        record[L.M_COUNTS] = self.room(record[L.C_C1] - record[L.C_C0])

    def encoded(self) -> Encoded:
        t = self.table
        self.step(t.tree, {})
        self.emit(L.HALT)
        graph = self.graph
        h = self.words
        h[L.ACTIVE], h[L.FRAME], h[L.FAST] = 1, -1, 1
        h[L.CORES], h[L.SYNC], h[L.BARRIER], h[L.LATENCY] = t.cores, int(t.sync == "barrier"), t.barrier, t.latency
        h[L.N_RESOURCES], h[L.N_CHANNELS], h[L.N_ENGINES] = len(t.resources), self.bases[-1], len(t.engines)
        h[L.N_BUFFERS], h[L.N_COUNTERS], h[L.N_PATH] = len(t.buffers), len(t.counters), len(self.path)
        h[L.NODES] = self.place(w for n in graph.nodes for w in n)
        h[L.VALUES] = self.place(graph.constants())
        h[L.RANGES] = self.room(L.RANGE_SIZE * len(graph.nodes))
        h[L.CONES] = self.place(graph.cones)
        h[L.SINKS] = self.place(w for s in graph.sinks for w in s)
        first = graph.first_nodes()
        h[L.FIRST_NODES], h[L.N_FIRST] = self.place(first), len(first)
        self.place_code()
        h[L.LOOPS] = self.place(w for r in self.loops for w in r)
        h[L.SECTIONS] = self.place(w for r in self.computes for w in r)
        h[L.COPIES] = self.place(w for r in self.copies for w in r)
        h[L.UNITS] = self.place(w for r in self.units for w in r)
        self.place_machine()
        h[L.COUNTERS], h[L.LAST] = self.room(len(t.counters)), self.room(len(t.counters))
        h[L.SUMS], h[L.PATH] = self.room(self.sums), self.room(len(self.path))
        h[L.USED], h[L.COST] = self.room(len(t.resources)), self.room(len(t.resources))
        h[L.ARGUMENTS] = self.room(self.arguments)
        self.room(3 * L.MAX_RANK)
        h[L.BINS] = self.room(2 * max([1, *(r[L.D_UNIT] for r in self.copies)]))
        h[L.TURNING] = self.room(L.SLOT_SIZE * max([1, *(b.slots for b in t.buffers)]))
        h[L.INTERVALS] = len(self.words)
        channels = tuple((e, c) for e, engine in enumerate(t.engines) for c in range(engine.channels))
        return Encoded(
            t, np.array(h, np.int64), {name: h[L.VALUES] + k for name, k in graph.leaves.items()}, tuple(self.path),
            tuple(self.section_sums), tuple(self.copy_sums), channels, self.copy_channels, self.sites,
        )  # fmt: skip

    def place_code(self) -> None:
        """The program, with places in memory in its jumps."""
        start = len(self.words)
        self.words[L.CODE] = start
        for op, *rest in self.code:
            if op == L.BRANCH:
                rest[1] = start + L.CODE_SIZE * rest[1]
            elif op == L.JUMP:
                rest[0] = start + L.CODE_SIZE * rest[0]
            self.words.extend([op, *rest])
        for r in self.loops:
            r[L.L_BODY] = start + L.CODE_SIZE * r[L.L_BODY]
            r[L.L_EXIT] = start + L.CODE_SIZE * r[L.L_EXIT]
        for r in self.computes:
            r[L.C_END] = start + L.CODE_SIZE * r[L.C_END]

    def place_machine(self) -> None:
        """Resources, engines, channels, buffers and slots."""
        t, h = self.table, self.words
        h[L.RESOURCES] = self.place(w for r in t.resources for w in self.resource(r))
        done = [self.room(e.queue) for e in t.engines]
        h[L.ENGINES] = self.place(w for e, d in zip(t.engines, done, strict=True) for w in _engine(e, d))
        h[L.CHANNELS] = self.room(L.CHANNEL_SIZE * self.bases[-1])
        boxes = [self.room(L.BOXES_SIZE) if b in self.hazards else -1 for b in range(len(t.buffers))]
        slots = 0
        records = []
        for b, buffer in enumerate(t.buffers):
            records += [buffer.slots, slots, self.drains.get(b, -1), boxes[b]]
            slots += buffer.slots
        h[L.BUFFERS], h[L.SLOTS], h[L.N_SLOTS] = self.place(records), self.room(L.SLOT_SIZE * slots), slots

    def resource(self, r: T.Resource) -> tuple[int, int, int]:
        """The record of a resource. Every element has its own where there is one at each place along all axes."""
        own = r.scope.split(", ")
        bits = -1 if r.scope == T.ELEMENT else sum(1 << k for name, k in self.axes.items() if name in own)
        return _SCOPES.get(r.scope, L.OF_ELEMENT), int(r.kind == T.CONFLICT), bits


@dataclass(eq=False, slots=True)
class _Section:
    counters: list[int] = field(default_factory=list)


def _engine(e: T.Engine, done: int) -> list[int]:
    """The record of an engine, whose last copies' ends are at `done`."""
    figures = [e.issue, e.latency, _CONTENTION[e.contention], e.channels, e.queue, e.dims, int(e.transpose)]
    return [*figures, *[0] * (L.N_DONE - len(figures)), done]


def _span(numbers: Sequence[int]) -> tuple[int, int]:
    return (min(numbers), max(numbers) + 1) if numbers else (0, 0)


def _channels(table: T.Table, copies: Sequence[T.Copy]) -> dict[int, int]:
    """The channel of every copy section: its place among those of its engine, in turn."""
    out: dict[int, int] = {}
    seen = [0] * len(table.engines)
    for section, engine in sorted({(c.section, c.engine) for c in copies}):
        out[section] = seen[engine] % table.engines[engine].channels
        seen[engine] += 1
    return out


def _hazards(copies: Sequence[T.Copy]) -> set[int]:
    """Buffers into which asynchronous stores go while copies of another section touch them from the same side."""
    stored = {(c.target.buffer, c.section) for c in copies if c.asynchronous and not c.inward}
    touched = {(c.source.buffer if c.inward else c.target.buffer, c.section) for c in copies}
    return {b for b, s in stored if any(b == other and s != t for other, t in touched)}

"""The timing model of the simulated machine, event by event, in plain Python: what the engine is held to.

Written from the description of the model. It keeps objects for copies and lists of what happened to each slot, evaluates
expressions with dictionaries, and does every iteration of every loop.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

from tilewright.codegen.skeleton import tree as T
from tilewright.lang import ir


def value(n: ir.Node, env: dict) -> int:
    """An index or bool expression."""
    if n.op == "const":
        return int(n.attr)
    if n.op in ("var", "size", "scalar"):
        return env[n.attr]
    if n.op in ("likely", "assume", "cast"):
        return value(n.args[0], env)
    a = [value(x, env) for x in n.args]
    match n.op:
        case "add":
            return a[0] + a[1]
        case "sub":
            return a[0] - a[1]
        case "mul":
            return a[0] * a[1]
        case "floordiv":
            return a[0] // a[1] if a[1] else 0
        case "mod":
            return a[0] % a[1] if a[1] else 0
        case "min":
            return min(a)
        case "max":
            return max(a)
        case "neg":
            return -a[0]
        case "abs":
            return abs(a[0])
        case "and":
            return a[0] & a[1]
        case "or":
            return a[0] | a[1]
        case "xor":
            return a[0] ^ a[1]
        case "not":
            return 1 - a[0]
        case "shr":
            return a[0] >> (a[1] if 0 <= a[1] < 64 else 63)
        case "select":
            return a[1] if a[0] else a[2]
    relations = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
    return int(getattr(a[0], relations[n.op])(a[1]))


@dataclass(frozen=True)
class Box:
    extents: tuple
    strides: tuple
    elements: frozenset

    def meets(self, other: Box) -> bool:
        """Whether boxes overlap: exactly for boxes of one array, else whether what lies between their ends does."""
        reach, nested = 0, self.strides == other.strides
        for stride, *extents in reversed(list(zip(self.strides, self.extents, other.extents, strict=False))):
            if max(extents) > 1:
                nested = nested and stride > reach
                reach += stride * (max(extents) - 1)
        if nested:
            return bool(self.elements & other.elements)
        return min(self.elements) <= max(other.elements) and min(other.elements) <= max(self.elements)


@dataclass(eq=False)
class Move:
    """A copy: `done` is known when it has a place on its channel."""

    section: int
    channel: int
    ready: int
    issue: int
    data: int
    load: bool
    done: int | None = None
    places: tuple = ()
    box: Box | None = None


@dataclass(eq=False)
class Work:
    """A section that used a slot."""

    done: int


@dataclass(eq=False)
class Slot:
    tile_writes: list = field(default_factory=list)
    tile_uses: list = field(default_factory=list)
    outer_writes: list = field(default_factory=list)
    outer_reads: list = field(default_factory=list)


@dataclass(eq=False)
class Frame:
    """What an iteration between barriers takes of lines: (0, engine, channel), or (1, engine, 0) where data are serial."""

    loads: Counter = field(default_factory=Counter)
    stores: Counter = field(default_factory=Counter)
    others: Counter = field(default_factory=Counter)  # (line, section): copies that are part of the work


@dataclass
class Machine:
    clock: int = 0
    slots: dict = field(default_factory=dict)
    ends: dict = field(default_factory=dict)  # of channels
    bus: dict = field(default_factory=dict)
    done: dict = field(default_factory=dict)  # of an engine, in the order of their places
    waiting: list = field(default_factory=list)  # stores without a place
    boxes: dict = field(default_factory=dict)  # of a buffer: stores
    floors: dict = field(default_factory=dict)  # of a buffer: when stores before a fork or a join are done
    waits: Counter = field(default_factory=Counter)
    busy: Counter = field(default_factory=Counter)
    used: Counter = field(default_factory=Counter)


def box_of(side: T.Side, extents, env) -> Box:
    first = value(side.first, env)
    strides = tuple(value(s, env) for s in side.strides)
    elements = frozenset(
        first + sum(i * s for i, s in zip(point, strides, strict=True))
        for point in itertools.product(*map(range, extents))
    )
    return Box(tuple(extents), strides, elements)


STEPS = 4000


class TooLong(Exception):
    """More steps than a test has patience for."""


class Naive:
    def __init__(self, table: T.Table, sizes: dict):
        self.table = table
        self.env = dict(sizes)
        self.m = Machine()
        self.counts: Counter = Counter()
        self.copies: dict[int, Counter] = {}
        self.visits: Counter = Counter()
        self.active = 1
        self.parallel = False
        self.section = None
        self.costs: Counter = Counter()
        self.latency = 0
        self.frames: list[Frame] = []
        self.steps = 0
        steps = [s for s in T.walk(table.tree) if isinstance(s, T.Copy)]
        self.channel: dict[int, tuple[int, int]] = {}
        for e, engine in enumerate(table.engines):
            for k, section in enumerate(sorted({s.section for s in steps if s.engine == e})):
                self.channel[section] = (e, k % engine.channels)
        outer = [(s.source.buffer if s.inward else s.target.buffer, s.section) for s in steps]
        self.hazards = {
            s.target.buffer
            for s in steps
            if s.asynchronous and not s.inward and any(b == s.target.buffer and n != s.section for b, n in outer)
        }

    def run(self) -> Naive:
        self.step(self.table.tree)
        self.settle(lambda _: True)
        m = self.m
        latest = m.clock
        for b in range(len(self.table.buffers)):
            latest = max(latest, self.last_use(b))
        if latest > m.clock:
            m.waits["drain"] += latest - m.clock
        m.clock = latest
        return self

    # Structure

    def step(self, s: T.Step) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise TooLong
        match s:
            case T.Sequence(items):
                for t in items:
                    self.step(t)
            case T.Charge():
                self.charge(s)
            case T.Product(counter, factors, condition):
                if condition is None or value(condition, self.env):
                    self.count(counter, math.prod(max(0, value(f, self.env)) for f in factors))
            case T.Branch(condition, then, otherwise):
                if value(condition, self.env):
                    self.step(then)
                elif otherwise is not None:
                    self.step(otherwise)
            case T.Loop():
                self.loop(s)
            case T.Compute():
                self.compute(s)
            case T.Unit(unit, extents):
                self.unit(unit, [value(e, self.env) for e in extents])
            case T.Copy():
                self.copy(s)
            case T.Life(buffer, body):
                for k in range(self.table.buffers[buffer].slots):
                    slot = self.m.slots[(buffer, k)] = Slot()
                    slot.tile_uses.append(Work(self.m.clock))  # nothing happens before it is there
                    slot.tile_writes.append(Work(self.m.clock))
                self.m.boxes[buffer] = []
                self.m.floors[buffer] = 0
                self.step(body)
                self.stall("drain", self.last_use(buffer))

    def charge(self, s: T.Charge) -> None:
        lanes = range(s.lanes) if s.lane is not None else [0]
        for lane in lanes:
            env = self.env if s.lane is None else {**self.env, s.lane.attr: lane}
            if s.condition is None or value(s.condition, env):
                self.count(s.counter, value(s.amount, env))

    def count(self, counter: int | None, n: int) -> None:
        if counter is None:
            return
        self.counts[counter] += n
        if self.section is not None:
            for resource, ticks in self.table.counters[counter].weights:
                self.costs[resource] += n * ticks

    def loop(self, s: T.Loop) -> None:
        start, stop = value(s.start, self.env), value(s.stop, self.env)
        trips = range(start, stop)
        self.count(s.visits, 1)
        self.count(s.trips, len(trips))
        if not trips:
            return
        hidden = self.env.get(s.var.attr)
        concurrent = s.mode == T.SPATIAL or (s.mode == T.PARALLEL and not self.parallel)
        if concurrent:
            was, self.parallel = self.parallel, self.parallel or s.mode == T.PARALLEL
            (self.concurrent_costs if self.section is not None else self.cores)(s, trips)
            self.parallel = was
        elif s.ring and self.table.sync == "barrier":
            self.phases(s, trips)
        else:
            for i in trips:
                self.env[s.var.attr] = i
                self.step(s.body)
        self.env[s.var.attr] = hidden

    def chunks(self, s: T.Loop, trips: range) -> list[range]:
        size = 1 if s.mode == T.SPATIAL else -(-len(trips) // self.table.cores)
        return [trips[k : k + size] for k in range(0, len(trips), size)]

    def concurrent_costs(self, s: T.Loop, trips: range) -> None:
        before, each = self.costs, []
        for chunk in self.chunks(s, trips):
            self.costs = Counter()
            for i in chunk:
                self.env[s.var.attr] = i
                self.step(s.body)
            each.append(self.costs)
        self.costs = before
        for r, resource in enumerate(self.table.resources):
            add_up = resource.scope == T.MACHINE
            if s.mode == T.SPATIAL:
                add_up = resource.scope != T.ELEMENT and s.axis not in resource.scope.split(", ")
            self.costs[r] += (sum if add_up else max)(c[r] for c in each)

    def cores(self, s: T.Loop, trips: range) -> None:
        self.settle(lambda _: True)
        self.forget_boxes(s)
        start, outer = self.m, self.active
        share = len(trips) if s.mode == T.SPATIAL else min(len(trips), self.table.cores)
        self.active *= share
        transfers = {k: c["transfer"] for k, c in self.copies.items()}
        others = [Counter(f.others) for f in self.frames]
        ends = []
        for chunk in self.chunks(s, trips):
            self.m = copy.deepcopy(start)
            for i in chunk:
                self.env[s.var.attr] = i
                if s.ring and self.table.sync == "barrier":
                    raise NotImplementedError
                self.step(s.body)
            self.settle(lambda _: True)
            ends.append(self.m)
        self.active = outer
        for k, c in self.copies.items():
            old = transfers.get(k, 0)
            c["transfer"] = old + (c["transfer"] - old) // share
        for frame, before in zip(self.frames, others, strict=True):
            for k, n in frame.others.items():
                frame.others[k] = before[k] + (n - before[k]) // share
        slowest = max(ends, key=lambda m: m.clock)  # the first of them
        joined = self.m = copy.deepcopy(slowest)
        for m in ends:
            for name in ("ends", "bus"):
                table = getattr(joined, name)
                for k, t in getattr(m, name).items():
                    table[k] = max(table.get(k, 0), t)
            for k, slot in m.slots.items():
                mine = joined.slots.setdefault(k, Slot())
                for name in ("tile_writes", "tile_uses", "outer_writes", "outer_reads"):
                    both = [*getattr(mine, name), *getattr(slot, name)]
                    setattr(mine, name, [max(both, key=lambda e: e.done)] if both else [])
        for e, engine in enumerate(self.table.engines):
            last = [([0] * engine.queue + m.done.get(e, []))[-engine.queue :] for m in ends]
            joined.done[e] = [max(x) for x in zip(*last, strict=True)]
        self.forget_boxes(s)

    def forget_boxes(self, s: T.Loop) -> None:
        """Cores know nothing of boxes of others: all stores are done for those who begin, and after all end."""
        for c in T.walk(s.body):
            for b in (c.source.buffer, c.target.buffer) if isinstance(c, T.Copy) else ():
                if b in self.hazards:
                    self.m.boxes[b] = []
                    for k in range(self.table.buffers[b].slots):
                        for e in self.slot(b, k).outer_writes:
                            self.m.floors[b] = max(self.m.floors.get(b, 0), e.done)

    # Phases between barriers

    def phases(self, s: T.Loop, trips: range) -> None:
        n = len(trips)
        begin = self.m.clock
        frames: list[Frame] = []
        work: list[int] = []
        times: list[int] = []

        def phase(p: int) -> None:
            """Phase p: all that it needs is known."""
            c = work[p - 1] if 1 <= p <= n else 0
            longest, cause = 0, "load"
            load = frames[p].loads if p < n else Counter()
            store = frames[p - 2].stores if p >= 2 else Counter()
            other: Counter = Counter()
            for (line, _), ticks in frames[p - 1].others.items() if 1 <= p <= n else ():
                other[line] += ticks
            for line in sorted({*load, *store, *other}):
                time = load[line] + store[line] + other[line]
                if load[line] or store[line]:
                    time += self.table.engines[line[1]].latency
                if time > longest:
                    longest, cause = time, "load" if load[line] >= store[line] else "store"
            if longest > c:
                self.m.waits[cause] += longest - c
            self.m.waits["barrier"] += self.table.barrier
            times.append(max(longest, c) + self.table.barrier)

        for p, i in enumerate(trips):
            self.env[s.var.attr] = i
            self.m.clock = begin + sum(times)
            at = self.m.clock
            self.frames.append(Frame())
            self.step(s.body)
            frames.append(self.frames.pop())
            work.append(self.m.clock - at)
            phase(p)
            self.hold_back(begin + sum(times))
        phase(n)
        phase(n + 1)
        self.m.clock = begin + sum(times)

    def hold_back(self, now: int) -> None:
        """The core does one iteration after the other, although an iteration's time is that of the next phase."""
        for slot in self.m.slots.values():
            for events in (slot.tile_writes, slot.outer_writes, slot.tile_uses, slot.outer_reads):
                for e in events:
                    e.done = min(e.done, now)
        m = self.m
        for times in (m.ends, m.bus, m.floors):
            times.update({k: min(t, now) for k, t in times.items()})
        m.done = {e: [min(t, now) for t in times] for e, times in m.done.items()}

    # Sections

    def unit(self, unit: int, extents: list[int]) -> None:
        if min(extents, default=1) <= 0:
            return
        u = self.table.units[unit]
        env = {role.attr: e for role, e in zip(u.roles, extents, strict=True)}
        self.costs[u.resource] += value(u.interval, env)
        self.latency = max(self.latency, u.latency)

    def slots_of(self, use: T.Use) -> list[Slot]:
        slots = self.table.buffers[use.buffer].slots
        which = range(slots) if use.slot is None else [value(use.slot, self.env) % slots]
        return [self.slot(use.buffer, k) for k in which]

    def slot(self, buffer: int, k: int) -> Slot:
        return self.m.slots.setdefault((buffer, k), Slot())

    def compute(self, s: T.Compute) -> None:
        m = self.m
        latest, cause, issue = m.clock, None, 0
        used = [(u, slot) for u in s.uses for slot in self.slots_of(u)]
        for u, slot in used:
            self.settle(lambda c, slot=slot, u=u: slot in c.places[1:] or (u.writes and slot in c.places[:1]))
            lists = [slot.tile_writes, slot.outer_writes]
            if u.writes:
                lists += [slot.tile_uses, slot.outer_reads]
            for events in lists:
                for e in sorted(events, key=lambda e: e.done, reverse=True)[:1]:
                    if e.done > latest:
                        # Of several that end at once, the one that is the copy counts.
                        ties = [x for x in events if x.done == e.done and isinstance(x, Move)]
                        last = ties[-1] if ties else e
                        latest = e.done
                        load = isinstance(last, Move) and last.load
                        cause = "load" if load else "store"
                        issue = last.issue if isinstance(last, Move) else 0
        if latest > m.clock:
            part = min(issue, latest - m.clock)
            m.waits["issue"] += part
            m.waits[cause] += latest - m.clock - part
            m.clock = latest
        self.section, self.costs, self.latency = s.section, Counter(), 0
        self.step(s.body)
        self.visits[s.section] += 1
        self.section = None
        times = {BUSY: [0], CONFLICT: [0]}
        for r, resource in enumerate(self.table.resources):
            m.used[r] += self.costs[r]
            times[resource.kind].append(self.costs[r] * (self.active if resource.scope == T.MACHINE else 1))
        busy, bank = max(times[BUSY]), sum(times[CONFLICT])
        latency = self.table.latency + self.latency if busy else 0
        m.busy[s.section] += busy
        m.waits["bank"] += bank
        m.waits["latency"] += latency
        m.clock += busy + bank + latency
        for u, slot in used:
            slot.tile_uses.append(Work(m.clock))
            if u.writes:
                slot.tile_writes.append(Work(m.clock))

    # Copies

    def copy(self, s: T.Copy) -> None:
        extents = [value(e, self.env) for e in s.extents]
        if min(extents, default=1) <= 0:
            return
        engine = self.table.engines[s.engine]
        found = transfer(s, engine, extents, self.env)
        width = engine.channels if engine.contention == "partitioned" else 1
        issue, data = found["descriptors"] * engine.issue, found["burst"] * s.rate
        occupied = issue + data * self.active * width
        counts = self.copies.setdefault(s.section, Counter())
        counts.update(found | {"copies": 1, "transfer": occupied})
        e, channel = self.channel[s.section]
        asynchronous = s.asynchronous
        phased = self.table.sync == "barrier" and asynchronous and bool(self.frames)
        lines = {(0, e, channel): occupied}
        if engine.contention == "fifo":
            lines[(1, e, 0)] = occupied - issue
        for frame in self.frames:
            if phased and frame is self.frames[-1]:
                (frame.loads if s.inward else frame.stores).update(lines)
            else:
                frame.others.update({(line, s.section): ticks for line, ticks in lines.items()})
        if phased:
            return
        if self.table.sync == "barrier":
            asynchronous = False
        source, target = (
            self.slot(
                x.buffer, value(x.slot, self.env) % self.table.buffers[x.buffer].slots if x.slot is not None else 0
            )
            for x in (s.source, s.target)
        )
        outer = s.source if s.inward else s.target
        box = box_of(outer, extents, self.env) if outer.buffer in self.hazards else None
        move = Move(s.section, channel, 0, issue, data, s.inward, None, (source, target), box)
        move.ready = self.ready(s, outer.buffer, move, source, target)
        if outer.buffer in self.hazards and not s.inward:
            self.m.boxes.setdefault(outer.buffer, []).append(move)
        if not asynchronous:
            move.ready = max(move.ready, self.m.clock)
        elif not s.inward:
            self.m.waiting.append((e, move))
            self.m.waiting.sort(key=lambda x: x[1].ready)
            return
        # Stores that are ready before it go first; at the same time only another store gives way.
        self.commit(lambda x: x[0] == e and x[1].channel == channel and (
            x[1].ready < move.ready or (not s.inward and x[1].ready == move.ready)))  # fmt: skip
        self.place(e, move)
        if not asynchronous and move.done > self.m.clock:
            wait = move.done - self.m.clock
            part = min(wait, issue)
            self.m.waits["issue"] += part
            self.m.waits["load" if s.inward else "store"] += wait - part
            self.m.clock = move.done

    def ready(self, s: T.Copy, buffer: int, move: Move, source: Slot, target: Slot) -> int:
        if s.inward:
            self.settle(lambda c: target in c.places)
            events = [
                *source.tile_writes,
                *target.tile_writes,
                *target.tile_uses,
                *target.outer_writes,
                *target.outer_reads,
            ]
        else:
            self.settle(lambda c: source in c.places[1:])
            self.settle(lambda c: target in c.places[:1])
            events = [
                *source.tile_writes,
                *source.outer_writes,
                *target.tile_writes,
                *target.tile_uses,
                *target.outer_reads,
            ]
        out = max([self.m.floors.get(buffer, 0), *(x.done for x in events if x.done is not None)])
        for other in self.m.boxes.get(buffer, []) if buffer in self.hazards else ():
            if other.section != s.section and other.box.meets(move.box) and (other.done is None or other.done > out):
                if other.done is None:
                    self.settle(lambda _: True)
                out = max(out, other.done)
        return out

    def commit(self, which) -> None:
        for x in [x for x in self.m.waiting if which(x)]:
            self.m.waiting.remove(x)
            self.place(*x)

    def settle(self, which) -> None:
        """Give all stores on a channel a place until none that is meant waits."""
        while meant := [x for x in self.m.waiting if which(x[1])]:
            lines = sorted({(x[0], x[1].channel) for x in meant})
            for line in lines:
                first = next(x for x in self.m.waiting if (x[0], x[1].channel) == line)
                self.m.waiting.remove(first)
                self.place(*first)

    def place(self, e: int, c: Move) -> None:
        m, engine = self.m, self.table.engines[e]
        done = m.done.setdefault(e, [])
        data = c.data * self.active * (engine.channels if engine.contention == "partitioned" else 1)
        start = max(c.ready, m.ends.get((e, c.channel), 0))
        if len(done) >= engine.queue:
            start = max(start, done[-engine.queue])
        end = start + c.issue + data
        if engine.contention == "fifo":
            end = max(start + c.issue, m.bus.get(e, 0)) + data
            m.bus[e] = end
        m.ends[(e, c.channel)] = end
        c.done = end + engine.latency
        done.append(c.done)
        source, target = c.places
        if c.load:
            source.outer_reads.append(c)
            target.tile_writes.append(c)
            target.tile_uses.append(c)
        else:
            source.tile_uses.append(c)
            target.outer_writes.append(c)
        c.places = ()

    def last_use(self, buffer: int) -> int:
        slots = [self.slot(buffer, k) for k in range(self.table.buffers[buffer].slots)]
        self.settle(lambda c: any(s in c.places for s in slots))
        return max(
            (e.done for s in slots for e in (*s.tile_writes, *s.tile_uses, *s.outer_writes, *s.outer_reads)), default=0
        )

    def stall(self, cause: str, until: int) -> None:
        if until > self.m.clock:
            self.m.waits[cause] += until - self.m.clock
            self.m.clock = until


BUSY, CONFLICT = T.BUSY, T.CONFLICT


def transfer(s: T.Copy, engine: T.Engine, extents: list[int], env: dict) -> dict[str, int]:
    """Descriptors, runs, bytes and split runs of a copy, each run looked at by itself."""
    outer, inner = (s.source, s.target) if s.inward else (s.target, s.source)
    dims = [
        [e, value(a, env), value(b, env)]
        for e, a, b in zip(extents, outer.strides, inner.strides, strict=True)
        if e != 1
    ]
    dims.sort(key=lambda d: (abs(d[1]), abs(d[2])))
    joined: list[list[int]] = []
    for e, a, b in dims:
        if joined and (a, b) == (joined[-1][0] * joined[-1][1], joined[-1][0] * joined[-1][2]):
            joined[-1][0] *= e
        else:
            joined.append([e, a, b])
    run, rest, walked = 1, joined, engine.dims - 1
    if joined and joined[0][1] == 1 and (joined[0][2] == 1 or engine.transpose):
        run, rest = joined[0][0], joined[1:]
    descriptors = math.prod(d[0] for d in rest[max(0, walked) :])
    if run == 1 and engine.dims < 1:
        raise AssertionError
    first, size = value(outer.first, env), outer.bytes
    unit = max(s.burst, engine.alignment)
    out = {"descriptors": descriptors, "bytes": math.prod(extents) * size, "runs": 0, "burst": 0, "split": 0}
    for point in itertools.product(*(range(d[0]) for d in rest)):
        at = (first + sum(i * d[1] for i, d in zip(point, rest, strict=True))) * size
        low, high = at // unit * unit, -(-(at + run * size) // unit) * unit
        out["runs"] += 1
        out["burst"] += high - low
        out["split"] += at % engine.alignment != 0 or run * size % engine.alignment != 0
    return out

"""The lines of the annotated nest: the program on a machine in the words of its nest, with what each line cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.codegen import loops as L
from tilewright.codegen.assemble import Counted
from tilewright.codegen.emit.ledger import HANDS, MOVED, TRIPS, VISITS
from tilewright.codegen.footprint import live_points
from tilewright.codegen.skeleton.engine import Result
from tilewright.codegen.skeleton.tree import Table
from tilewright.hw import Line, Machine
from tilewright.hw.timing import TICKS
from tilewright.lang.ir import Node
from tilewright.lang.text.expression import plain_name
from tilewright.schedule.nest import Assign, LoopNode, Nest, Produce, Storage, walk
from tilewright.schedule.printer import nest_rows
from tilewright.schedule.wording import write

LOOP_KINDS = {L.PARALLEL: "parallel"}


@dataclass
class Costs:
    """What a run cost by place: of loops visits and trips, of sections and buffers what the core did."""

    counted: Counted
    table: Table
    result: Result
    loops: dict[int, list[int]] = field(default_factory=dict)
    hands: dict[tuple[int | None, str], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, n in self.counted.of(VISITS, TRIPS):
            self.loops.setdefault(key.loop, [0, 0])[key.kind == TRIPS] += n
        for key, n in self.counted.of(HANDS, MOVED):
            self.hands.setdefault((key.section, key.name), [0, 0])[key.kind == MOVED] += n

    def busy(self, sections: frozenset[int]) -> float:
        return sum(self.result.sections.get(k, 0) for k in sections) / TICKS

    def waits(self, sections: frozenset[int], buffers: frozenset[str]) -> dict[str, float]:
        """Cycles waited by cause, at these sections and at the ends of these buffers."""
        out: dict[str, int] = {}
        for w in self.result.waits:
            ended = w.section is None and w.buffer is not None and self.table.buffers[w.buffer].name in buffers
            if w.section in sections or ended:
                out[w.cause] = out.get(w.cause, 0) + w.ticks
        return {cause: n / TICKS for cause, n in out.items()}

    def bytes(self, sections: frozenset[int]) -> int:
        return sum(c.bytes for k, c in self.result.copies.items() if k in sections)


@dataclass(frozen=True)
class _Texts:
    """The nest's words: of loops (and their names) by variable, of buffers by name, of stores and copies by stage."""

    loops: Mapping[str, deque[str]]
    names: Mapping[str, str]
    buffers: Mapping[str, str]
    stores: Mapping[str, str]
    copies: Mapping[str, str]


def _texts(nest: Nest) -> _Texts:
    loops: dict[str, deque[str]] = {}
    names: dict[str, str] = {}
    buffers: dict[str, str] = {}
    stores: dict[str, str] = {}
    copies: dict[str, str] = {}
    for row in nest_rows(nest):
        match row.node:
            case LoopNode(var=var):
                loops.setdefault(var.attr, deque()).append(row.text)
                names.setdefault(var.attr, row.text.split()[1])
            case Storage(name=name):
                buffers.setdefault(name, row.text)
            case Assign(stage=stage):
                stores.setdefault(stage, row.text)
            case Produce():
                copies |= {m.stage: row.text for m in walk(row.node.body) if isinstance(m, Assign)}
    return _Texts(loops, names, buffers, stores, copies)


def lines(nest: Nest, program: L.Program, costs: Costs, env: Mapping[str, Any]) -> tuple[Line, ...]:
    """The lines of a program in sections, before its loops are parted; `env` has sizes and scalars by name."""
    machine = costs.counted.machine
    live = iter([points for _, points in live_points(program, machine, env)])
    writer = _Writer(_texts(nest), costs, machine, live)
    return tuple(writer.of(program.body, 0, {}, "the start"))


class _Writer:
    def __init__(self, texts: _Texts, costs: Costs, machine: Machine, live: Iterator[Any]):
        self.texts, self.costs, self.machine, self.points = texts, costs, machine, live

    def of(
        self, s: L.Stmt, depth: int, live: Mapping[str, int], where: str, alone: L.Section | None = None
    ) -> Iterator[Line]:
        """`alone`: the computation whose work is all done in this statement."""
        match s:
            case L.Block(statements):
                if alone is not None and len(statements) > 1:
                    yield self.row("compute", depth, alone.name, f"compute {alone.name}", s, live, where, alone)
                    alone, depth = None, depth + 1
                for t in statements:
                    yield from self.of(t, depth, live, where, alone)
            case L.Section(L.COPY):
                yield self.copy(s, depth, live, where)
            case L.Section(L.COMPUTE, body=body):
                yield from self.of(body, depth, live, where, s)
            case L.Section(L.HAND):
                yield self.hand(s, depth, live, where, alone)
            case L.Turn(body=body) | L.Section(body=body):
                yield from self.of(body, depth, live, where, alone)
            case L.For(var=var, body=body):
                kind = "spatial" if s.axis else LOOP_KINDS.get(s.mode, "loop")
                yield self.row(kind, depth, var.attr, self.loop_text(s), s, live, where, alone)
                yield from self.of(body, depth + 1, live, var.attr, alone)
            case L.If(condition, then, otherwise):
                if alone is not None and otherwise is not None:
                    yield self.row("compute", depth, alone.name, f"compute {alone.name}", s, live, where, alone)
                    alone, depth = None, depth + 1
                yield self.row("if", depth, "", f"if {self.written(condition)}", s, live, where, alone)
                yield from self.of(then, depth + 1, live, where, alone)
                if otherwise is not None:
                    yield self.row("if", depth, "", "else", otherwise, live, where, None)
                    yield from self.of(otherwise, depth + 1, live, where)
            case L.Allocate(b, body):
                inside: dict[str, int] = {}
                for x in next(self.points):
                    memory = self.machine.memory(x.memory)
                    inside[memory.name] = inside.get(memory.name, 0) + memory.aligned(x.size) * x.slots * x.copies
                text = self.texts.buffers.get(b.name.partition("~")[0], f"buffer {b.name}")
                ended = self.costs.waits(frozenset(), frozenset((b.name,)))
                yield Line("buffer", depth, b.name, text, 0, waits=ended, live=inside, where=where)
                yield from self.of(body, depth, inside, where, alone)
            case L.Store(origin=origin) if origin is not None:
                text = self.texts.stores.get(origin.stage, origin.stage)
                yield self.stored(depth, origin.stage, text, s, live, where, alone)
            case L.Call(stage=stage, name=name):
                text = self.texts.stores.get(stage, f"{stage} = {name}(...)")
                yield self.stored(depth, stage, text, s, live, where, alone)

    def stored(
        self, depth: int, stage: str, text: str, s: L.Stmt, live: Mapping[str, int], where: str, alone: L.Section | None
    ) -> Line:
        """A computation that is this alone, or a part of one."""
        kind, name = ("store", stage) if alone is None else ("compute", alone.name)
        return self.row(kind, depth, name, text, s, live, where, alone)

    def row(
        self, kind: str, depth: int, name: str, text: str, s: L.Stmt, live: Mapping[str, int], where: str,
        alone: L.Section | None,
    ) -> Line:  # fmt: skip
        """A line with everything inside of it. Inside of a computation only what does all of its work has its cost."""
        inside = frozenset(t.number for t in L.walk(s) if isinstance(t, L.Section) and t.kind != L.HAND)
        if alone is not None:
            inside = frozenset((alone.number,))
        ended = frozenset(t.buffer.name for t in L.walk(s) if isinstance(t, L.Allocate))
        visits, trips = self.costs.loops.get(s.number, (0, 0)) if isinstance(s, L.For) else (0, 0)
        if kind == "compute" and alone is not None:
            visits = self.costs.result.visits.get(alone.number, 0)
        return Line(
            kind, depth, name, text, visits, trips, self.costs.bytes(inside), self.costs.busy(inside),
            self.costs.waits(inside, ended), live=live, where=where,
        )  # fmt: skip

    def loop_text(self, s: L.For) -> str:
        found = self.texts.loops.get(s.var.attr)
        if not found:
            return f"for {s.var.attr.rpartition('.')[2]} in {self.written(s.start)}..{self.written(s.stop)}"
        return found.popleft() if len(found) > 1 else found[0]

    def written(self, n: Node) -> str:
        """An expression with the names that the nest gives to loops."""

        def leaf(m: Node) -> str:
            if m.op != "var":
                return plain_name(m)
            return self.texts.names.get(m.attr) or str(m.attr).rpartition(".")[2]

        return write(n, leaf)

    def copy(self, s: L.Section, depth: int, live: Mapping[str, int], where: str) -> Line:
        mine, done = frozenset((s.number,)), self.costs.result.copies.get(s.number)
        text = self.texts.copies.get(s.name, f"copy {s.name}")
        if done is None:
            return Line("copy", depth, s.name, text, 0, live=live, where=where)
        waits = self.costs.waits(mine, frozenset())
        return Line(
            "copy", depth, s.name, text, done.copies, 0, done.bytes, 0.0, waits, done.transfer / TICKS, live, where
        )

    def hand(self, s: L.Section, depth: int, live: Mapping[str, int], where: str, alone: L.Section | None) -> Line:
        size = s.transfers[0].target.buffer.dtype.bytes if s.transfers else 1
        mine = [v for (_, name), v in self.costs.hands.items() if name == s.name]
        begun, moved = sum(v[0] for v in mine), sum(v[1] for v in mine)
        text = f"{self.texts.copies.get(s.name, f'copy {s.name}')} by hand"
        of = frozenset(() if alone is None else (alone.number,))
        return Line(
            "compute", depth, alone.name if alone else s.name, text, begun, 0, moved * size, self.costs.busy(of),
            self.costs.waits(of, frozenset()), live=live, where=where,
        )  # fmt: skip


__all__ = ["Costs", "lines"]

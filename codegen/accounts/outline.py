"""The lines of the annotated nest before anything ran: the program in sections, in the words of its nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.codegen import loops as L
from tilewright.lang.ir import Node
from tilewright.lang.text.expression import plain_name
from tilewright.schedule.nest import Assign, LoopNode, Nest, Produce, Storage, walk
from tilewright.schedule.printer import nest_rows
from tilewright.schedule.wording import write

NOBODY = frozenset[int]()


@dataclass(frozen=True, slots=True)
class Entry:
    """A line: what it says, and where its figures are.

    `kind`, `depth`, `name`, `text` and `where` are those of `hw.timing.Line`. `loop` is the number of a loop; `sections`
    and `buffers` are those whose busy cycles and waits belong to the line; `alone` is the section all of whose work is
    done here, `inner` the innermost loop in it around this line; `hand` is a copy by hand, `moved` the bytes of an element
    of it. `living` counts the buffers of the program, in text order, up to the last one that lives here (0: none does).
    """

    kind: str
    depth: int
    name: str
    text: str
    where: str = ""
    loop: int = -1
    sections: frozenset[int] = NOBODY
    buffers: frozenset[str] = frozenset()
    alone: int = -1
    inner: int = -1
    hand: str = ""
    moved: int = 0
    living: int = 0


@dataclass(frozen=True)
class _Words:
    """The nest's words: of loops (and their names) by variable, of buffers by name, of stores and copies by stage."""

    loops: Mapping[str, tuple[str, ...]]
    names: Mapping[str, str]
    buffers: Mapping[str, str]
    stores: Mapping[str, str]
    copies: Mapping[str, str]


def outline(nest: Nest, program: L.Program) -> tuple[Entry, ...]:
    """The lines of a program in sections, before its loops are parted."""
    return tuple(_Outliner(_words(nest)).of(program.body, Entry("", 0, "", "", "the start"), None))


def _words(nest: Nest) -> _Words:
    loops: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    buffers: dict[str, str] = {}
    stores: dict[str, str] = {}
    copies: dict[str, str] = {}
    for row in nest_rows(nest):
        match row.node:
            case LoopNode(var=var):
                loops[var.attr] = (*loops.get(var.attr, ()), row.text)
                names.setdefault(var.attr, row.text.split()[1])
            case Storage(name=name):
                buffers.setdefault(name, row.text)
            case Assign(stage=stage):
                stores.setdefault(stage, row.text)
            case Produce():
                copies |= {m.stage: row.text for m in walk(row.node.body) if isinstance(m, Assign)}
    return _Words(loops, names, buffers, stores, copies)


class _Outliner:
    def __init__(self, words: _Words):
        self.words = words
        self.seen: dict[str, int] = {}  # how many loops of a variable have been written
        self.made = 0  # buffers so far

    def of(self, s: L.Stmt, at: Entry, alone: L.Section | None) -> Iterator[Entry]:
        """`at` is where the lines are; `alone` the computation all of whose work is done in this statement."""
        match s:
            case L.Block(statements):
                if alone is not None and len(statements) > 1:
                    yield self.line(s, at, alone, "compute", alone.name, f"compute {alone.name}")
                    alone, at = None, replace(at, depth=at.depth + 1)
                for t in statements:
                    yield from self.of(t, at, alone)
            case L.Section(L.COPY):
                made = self.line(s, at, None, "copy", s.name, self.words.copies.get(s.name, f"copy {s.name}"))
                yield replace(made, sections=frozenset((s.number,)))
            case L.Section(L.COMPUTE, body=body):
                yield from self.of(body, at, s)
            case L.Section(L.HAND):
                text = f"{self.words.copies.get(s.name, f'copy {s.name}')} by hand"
                size = s.transfers[0].target.buffer.dtype.bytes if s.transfers else 1
                kind, name = ("store", s.name) if alone is None else ("compute", alone.name)
                yield replace(self.line(s, at, alone, kind, name, text), hand=s.name, moved=size)
            case L.Turn(body=body) | L.Section(body=body):
                yield from self.of(body, at, alone)
            case L.For(var=var, body=body):
                kind = "spatial" if s.axis else "parallel" if s.mode == L.PARALLEL else "loop"
                yield self.line(s, at, alone, kind, var.attr, self.loop_text(s))
                inner = -1 if alone is None else s.number
                yield from self.of(body, replace(at, depth=at.depth + 1, where=var.attr, inner=inner), alone)
            case L.If(condition, then, otherwise):
                if alone is not None and otherwise is not None:
                    yield self.line(s, at, alone, "compute", alone.name, f"compute {alone.name}")
                    alone, at = None, replace(at, depth=at.depth + 1)
                deeper = replace(at, depth=at.depth + 1)
                yield self.line(s, at, alone, "if", "", f"if {self.written(condition)}")
                yield from self.of(then, deeper, alone)
                if otherwise is not None:
                    yield self.line(otherwise, at, None, "if", "", "else")
                    yield from self.of(otherwise, deeper, None)
            case L.Allocate(b, body):
                self.made += 1
                at = replace(at, living=self.made)
                text = self.words.buffers.get(b.name.partition("~")[0], f"buffer {b.name}")
                yield replace(
                    self.line(s, at, None, "buffer", b.name, text), sections=NOBODY, buffers=frozenset((b.name,))
                )
                yield from self.of(body, at, alone)
            case L.Store(origin=origin) if origin is not None:
                yield self.stored(s, at, alone, origin.stage, self.words.stores.get(origin.stage, origin.stage))
            case L.Call(stage=stage, name=name):
                yield self.stored(s, at, alone, stage, self.words.stores.get(stage, f"{stage} = {name}(...)"))

    def stored(self, s: L.Stmt, at: Entry, alone: L.Section | None, stage: str, text: str) -> Entry:
        """A computation that is this alone, or a part of one."""
        kind, name = ("store", stage) if alone is None else ("compute", alone.name)
        return self.line(s, at, alone, kind, name, text)

    @staticmethod
    def line(s: L.Stmt, at: Entry, alone: L.Section | None, kind: str, name: str, text: str) -> Entry:
        """A line with everything inside of it. Inside of a computation only what does all of its work has its cost."""
        inside = frozenset(t.number for t in L.walk(s) if isinstance(t, L.Section) and t.kind in (L.COPY, L.COMPUTE))
        ended = frozenset(t.buffer.name for t in L.walk(s) if isinstance(t, L.Allocate))
        if alone is not None:
            inside = frozenset((alone.number,))
        loop = s.number if isinstance(s, L.For) else -1
        return replace(
            at, kind=kind, name=name, text=text, loop=loop, sections=inside, buffers=ended,
            alone=-1 if alone is None else alone.number,
        )  # fmt: skip

    def loop_text(self, s: L.For) -> str:
        found = self.words.loops.get(s.var.attr)
        if not found:
            return f"for {s.var.attr.rpartition('.')[2]} in {self.written(s.start)}..{self.written(s.stop)}"
        k = self.seen[s.var.attr] = self.seen.get(s.var.attr, -1) + 1
        return found[min(k, len(found) - 1)]

    def written(self, n: Node) -> str:
        """An expression with the names that the nest gives to loops."""

        def leaf(m: Node) -> str:
            if m.op != "var":
                return plain_name(m)
            return self.words.names.get(m.attr) or str(m.attr).rpartition(".")[2]

        return write(n, leaf)


__all__ = ["Entry", "outline"]

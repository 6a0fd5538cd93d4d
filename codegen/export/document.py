"""The loop IR as a document: plain data that JSON can hold, with everything that another program needs to run it.

docs/export.md says what the fields mean; nest.schema.json, beside this file, is the JSON Schema of a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen import loops as L
from tilewright.codegen.export.expressions import Expressions, Json, number
from tilewright.codegen.export.placement import Placement
from tilewright.codegen.interface import argument_roles
from tilewright.lang import ir, simplify
from tilewright.lang.errors import CompileError, user_location
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.types import DType
from tilewright.schedule.state import State

FORMAT, VERSION = "tilewright nest", 1
LARGEST_TABLE = 1 << 20  # elements


@dataclass(frozen=True)
class About:
    """What a document says about where it comes from. `sizes` are the values that it was made for (none: any)."""

    pipeline: Pipeline
    state: State
    mode: str
    schedule: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    machine: str | None = None


def document(program: L.Program, about: About, placed: Placement) -> Json:
    """The document of a lowered program whose buffers are `placed`. Raises CompileError for what a document can't hold."""
    p = about.pipeline
    names = _names(program)
    writer = _Writer(names)
    requirements = [_condition(writer, r) for r in program.requirements]
    body = writer.body(program.body)
    used = {placed.memory(b.memory) for b in writer.buffers if b.name in placed.offsets}
    return {
        "format": FORMAT,
        "version": VERSION,
        "kernel": p.name,
        "mode": about.mode,
        "machine": about.machine,
        "schedule": about.schedule,
        "sizes": [{"name": n, "value": about.sizes.get(n)} for n in p.sizes],
        "scalars": [{"name": s.name, "type": s.dtype.name} for s in p.scalars],
        "arguments": _arguments(program, about, names),
        "functions": list(writer.expressions.functions.values()),
        "requirements": requirements,
        "memories": [
            {"name": m, "bytes": r.bytes, "alignment": r.alignment} for m, r in placed.rooms.items() if m in used
        ],
        "buffers": [_buffer(b, names[b], placed) for b in writer.buffers],
        "body": body,
    }  # fmt: skip


def _condition(writer: _Writer, n: Node) -> Json:
    lets, (c,) = writer.values((n,))
    return {"let": lets, "condition": c}


Names = Mapping[L.Buffer, str]


def _names(program: L.Program) -> Names:
    """A name for every buffer: outputs may be several slices of one Func."""
    found: dict[L.Buffer, str] = {}
    taken: set[str] = set()
    temporaries = (s.buffer for s in L.walk(program.body) if isinstance(s, L.Allocate))
    for b in dict.fromkeys((*program.arguments, *temporaries)):
        name, k = b.name, 2
        while name in taken:
            name, k = f"{b.name}.{k}", k + 1
        taken.add(name)
        found[b] = name
    return found


# Arguments and buffers ------------------------------------------------------------------------------------------


def _arguments(program: L.Program, about: About, names: Names) -> list[Json]:
    p, given = about.pipeline, about.state.given
    tables = {t.name: t for t in p.tables}
    outputs = {f"out.{o.name}": o.func.name for o in p.outputs}
    out = []
    for b, (name, role, _, extents) in zip(program.arguments, argument_roles(p), strict=True):
        layout = given.get(outputs.get(name, name))
        shape = extents if layout is None else layout.extents(extents)
        writer = Expressions(names)
        made: Json = {"name": names[b], "role": role, "type": b.dtype.name, "shape": [], "layout": None}
        made["shape"] = [_plain(writer, e, about.sizes) for e in shape]
        if layout is not None:
            made["layout"] = str(layout)
        if role == "const":
            made["values"] = _table(name, tables[name].values, b.dtype)
        out.append(made)
    return out


def _plain(writer: Expressions, n: Node, sizes: Mapping[str, int]) -> Json:
    """An expression over sizes without lets."""
    (n,) = ir.substitute((n,), {ir.size(k): ir.integer(v) for k, v in sizes.items()})
    lets, (e,) = writer.group((n,))
    if lets:
        raise CompileError(
            f"an extent is too long for an export: {n!r}", code="export.extent", where=user_location(),
            hint="give the sizes: the extents are numbers then",
        )  # fmt: skip
    return e


def _table(name: str, values: np.ndarray, t: DType) -> list[Any]:
    if values.size > LARGEST_TABLE:
        raise CompileError(
            f"the table {name} has {values.size} elements, and {LARGEST_TABLE} are exported",
            code="export.table", where=user_location(), hint="make it a parameter of the kernel",
        )  # fmt: skip
    flat = np.ascontiguousarray(values).reshape(-1)
    return [number(v) for v in (flat.astype(np.float64) if t.is_float else flat).tolist()]


def _buffer(b: L.Buffer, name: str, placed: Placement) -> Json:
    return {
        "name": name,
        "type": b.dtype.name,
        "memory": placed.memory(b.memory),
        "slots": b.slots,
        "bytes": placed.bytes.get(b.name),
        "offset": placed.offsets.get(b.name),
    }


# Statements -----------------------------------------------------------------------------------------------------


class _Writer:
    """Statements as lists of plain data; a buffer lives to the end of the list in which it is made."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.expressions = Expressions(names)
        self.values = self.expressions.group
        self.buffers: dict[L.Buffer, None] = {}
        self.copies = 0

    def body(self, s: L.Stmt) -> list[Json]:
        """A statement as a list. Allocations at the end of lists are opened without recursion: they nest deeply."""
        out: list[Json] = []
        while True:
            match s:
                case L.Block(statements):
                    if not statements:
                        return out
                    for t in statements[:-1]:
                        out.extend(self.inner(t))
                    s = statements[-1]
                case L.Allocate(b, body):
                    out.append(self.allocate(b))
                    s = body
                case L.Turn(body=body):
                    s = body
                case _:
                    out.extend(self.statement(s))
                    return out

    def inner(self, s: L.Stmt) -> list[Json]:
        """A statement that is not the last of its list."""
        made = self.body(s)
        return [{"do": "block", "body": made}] if any(t["do"] == "allocate" for t in made) else made

    def allocate(self, b: L.Buffer) -> Json:
        assert b.size is not None
        self.buffers[b] = None
        lets, (elements,) = self.values((b.size,))
        return {"do": "allocate", "buffer": self.names[b], "let": lets, "elements": elements}

    def statement(self, s: L.Stmt) -> list[Json]:
        match s:
            case L.For(var, start, stop, mode, body):
                lets, (low, high) = self.values((start, stop))
                made: Json = {"do": "for", "var": var.attr, "mode": mode, "let": lets, "start": low, "stop": high}
                if s.axis:
                    made["axis"] = s.axis
                return [{**made, "body": self.body(body)}]
            case L.If(condition, then, otherwise):
                lets, (c,) = self.values((condition,))
                made = {"do": "if", "let": lets, "condition": c, "then": self.body(then)}
                return [{**made, "else": [] if otherwise is None else self.body(otherwise)}]
            case L.Store(targets, values):
                lets, found = self.values((*(i for _, i in targets), *values))
                at, values_of = found[: len(targets)], found[len(targets) :]
                places = [{"buffer": self.names[b], "at": e} for (b, _), e in zip(targets, at, strict=True)]
                return [{"do": "store", "let": lets, "targets": places, "values": values_of}]
            case L.Prefetch(b, i, write):
                lets, (at,) = self.values((i,))
                return [{"do": "prefetch", "let": lets, "buffer": self.names[b], "at": at, "write": write}]
            case L.Fence():
                return [{"do": "fence"}]
            case L.Section(L.COPY, transfers=transfers) if transfers:
                return [self.copy(s, t) for t in transfers]
            case L.Section(kind, name, body):
                made = {"do": "section", "kind": kind, "name": name}
                if kind == L.UNIT:
                    made |= self.unit(s)
                if s.reason:
                    made["reason"] = s.reason
                return [{**made, "body": self.body(body)}]
            case L.Call(name=name):
                raise CompileError(
                    f"{name} is a Python function that computes a whole stage: it can't be exported",
                    code="export.stage", where=user_location(),
                    hint="write the stage in the language, or export the parts before and after it as kernels",
                )  # fmt: skip
        return self.body(s)

    def unit(self, s: L.Section) -> Json:
        """What a call of a unit is given: the extents of m, n and k, and the boxes of a, b and c."""
        lets, found = self.values((*s.roles, *(n for v in s.operands for n in (v.first, *v.extents, *v.steps))))
        at, operands = iter(found[len(s.roles) :]), []
        for v in s.operands:
            n = len(v.extents)
            first, extents, strides = next(at), [next(at) for _ in range(n)], [next(at) for _ in range(n)]
            side = {"buffer": self.names[v.buffer], "element": v.buffer.dtype.bytes, "first": first}
            operands.append({**side, "extents": extents, "strides": strides})
        return {"unit": s.unit, "let": lets, "extents": found[: len(s.roles)], "operands": operands}

    def copy(self, s: L.Section, t: L.Transfer) -> Json:
        """A transfer as a descriptor."""
        extents, ours, theirs = _axes(t)
        n = len(extents)
        lets, found = self.values(
            (t.source.first, t.target.first, t.source_slot, t.target_slot, *extents, *ours, *theirs)
        )
        sides = []
        for view, first, slot, steps in (
            (t.source, found[0], found[2], found[4 + n : 4 + 2 * n]), (t.target, found[1], found[3], found[4 + 2 * n :]),
        ):  # fmt: skip
            b = view.buffer
            sides.append(
                {"buffer": self.names[b], "element": b.dtype.bytes, "first": first, "strides": steps, "slot": slot}
            )
        self.copies += 1
        return {
            "do": "copy", "name": s.name, "number": self.copies - 1, "asynchronous": t.asynchronous,
            "engine": s.engine, "let": lets, "source": sides[0], "target": sides[1],
            "extents": found[4 : 4 + n],
        }  # fmt: skip


def _axes(t: L.Transfer) -> tuple[list[Node], list[Node], list[Node]]:
    """Extents and steps of both sides, without axes of one element; axes that lie one after the other in both buffers
    are one axis."""
    out: list[tuple[Node, Node, Node]] = []
    for e, a, b in zip(t.source.extents, t.source.steps, t.target.steps, strict=True):
        if ir.is_const(e, 1):
            continue
        if out and out[-1][1] is simplify.mul(a, e) and out[-1][2] is simplify.mul(b, e):
            out[-1] = (simplify.mul(out[-1][0], e), a, b)
        else:
            out.append((e, a, b))
    return tuple(map(list, zip(*out, strict=True))) if out else ([], [], [])  # type: ignore[return-value]


__all__ = ["FORMAT", "VERSION", "About", "document"]

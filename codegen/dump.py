"""Readable text of the loop IR (what `fast.source` shows)."""

from __future__ import annotations

from typing import Any

from tilewright.codegen import loops as L
from tilewright.lang.text import format_node


def dump(value: Any) -> str:
    """The text of a program, a statement or a Nest."""
    if isinstance(value, L.Program):
        head = [f"kernel {value.symbol}({', '.join(b.name for b in value.arguments)})"]
        head += [f"  require {format_node(r)}" for r in value.requirements]
        return "\n".join(head + _lines(value.body, 1))
    if isinstance(value, L.Stmt):
        return "\n".join(_lines(value, 0))
    from tilewright.schedule.printer import print_nest

    return print_nest(value)


def _lines(s: L.Stmt, depth: int) -> list[str]:
    pad = "  " * depth
    match s:
        case L.Block(statements):
            return [line for t in statements for line in _lines(t, depth)]
        case L.For(var, start, stop, mode, body):
            kind = f" spatial on {s.axis}" if s.axis else "" if mode == L.SERIAL else f" {mode}"
            return [f"{pad}for {var!r} in {start!r}..{stop!r}{kind}", *_lines(body, depth + 1)]
        case L.If(c, then, otherwise):
            out = [f"{pad}if {c!r}", *_lines(then, depth + 1)]
            if otherwise is not None:
                out += [f"{pad}else", *_lines(otherwise, depth + 1)]
            return out
        case L.Allocate(b, body):
            return [f"{pad}buffer {b.name}[{b.size!r}] {b.dtype} in {b.memory}", *_lines(body, depth + 1)]
        case L.Turn(b, slot, body):
            return [f"{pad}slot {slot!r} of {b.name}", *_lines(body, depth + 1)]
        case L.Section():
            return [pad + _section(s), *_lines(s.body, depth + 1)]
        case L.Prefetch(b, i, write):
            return [f"{pad}prefetch{' for writing' if write else ''} {b.name}[{i!r}]"]
        case L.Store(targets, values):
            left = ", ".join(f"{b.name}[{i!r}]" for b, i in targets)
            return [f"{pad}{left} = {', '.join(map(repr, values))}{' past the caches' if s.stream else ''}"]
        case L.Call(name=name, out=out, arguments=arguments):
            given = ", ".join(repr(a) if not isinstance(a, tuple) else _views(a) for a in arguments)
            return [f"{pad}{_views(out)} = {name}({given})"]
        case L.Fence():
            return [f"{pad}fence"]
    raise TypeError(s)


def _section(s: L.Section) -> str:
    by = s.engine or s.unit
    moved = "; ".join(
        f"{_views((t.target,))} = {_views((t.source,))}{' asynchronously' if t.asynchronous else ''}"
        for t in s.transfers
    )
    turns = ", ".join(f"slot {n!r} of {b.name}" for b, n in s.turns)
    return " ".join(
        part for part in (
            f"section {s.number}: {s.kind} {s.name}", by and f"by {by}", moved and f"({moved})", turns and f"({turns})",
            s.reason and f"({s.reason})",
        ) if part
    )  # fmt: skip


def _views(views: tuple[L.View, ...]) -> str:
    """A box as its first element and its shape."""
    return ", ".join(f"{v.buffer.name}[{v.first!r} by {', '.join(map(repr, v.extents))}]" for v in views)

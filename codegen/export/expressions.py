"""Expressions as plain data: trees, with `let`s for what is used more than once or would be too deep to read.

    {"const": 16, "type": "index"}                  numbers; inf, nan and what doubles can't hold as text
    {"var": "C.update.io"}   {"size": "M"}          loop variables and sizes (type index)
    {"scalar": "alpha", "type": "f32"}              a scalar parameter
    {"let": "t3", "type": "f32"}                    an expression that has a name
    {"load": "A", "type": "f32", "at": EXPR}        the element at this flat offset; with "where": EXPR only if that
                                                    holds, else 0
    {"op": "add", "type": "f32", "of": [EXPR...]}   an operation; "storage" of round_to, "function" of call_extern

`type` is what the expression computes in: index (64-bit, never overflows), bool, i8 ... u64, f32, f64.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.codegen.externs import symbol
from tilewright.lang import ir
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import Node
from tilewright.lang.types import index

Json = dict[str, Any]

SMALL = 4  # nodes: what is no larger is repeated rather than named
LARGE = 64  # nodes: what is larger is cut, so that lines stay readable
DEEP = 20  # levels of a tree
EXACT = 1 << 53  # integers up to here are exact in every reader of JSON

_OPERATIONS = """
    add sub mul div floordiv mod min max fma neg abs and or xor shl shr not eq ne lt le gt ge select cast bitcast round_to
    sqrt floor ceil round trunc call_extern
"""
OPERATIONS = frozenset(_OPERATIONS.split())


class Expressions:
    """Writes groups of expressions; names of lets are numbered through the document. `buffers` names what is loaded
    from."""

    def __init__(self, buffers: Mapping[Any, str]) -> None:
        self.buffers = buffers
        self.named = 0
        self.functions: dict[str, Json] = {}  # of the user's, that are called

    def group(self, roots: Sequence[Node]) -> tuple[list[Json], list[Json]]:
        """(lets, expressions) of `roots`, which are evaluated together."""
        roots = [_unmarked(r) for r in roots]
        uses = Counter(_unmarked(a) for n in ir.postorder(roots) if n.op not in _MARKS for a in n.args)
        uses.update(roots)
        lets: list[Json] = []
        made: dict[Node, tuple[Json, int, int]] = {}  # expression, nodes, levels
        for n in ir.postorder(roots):
            if n.op in _MARKS or n in made:
                continue
            args = [made[_unmarked(a)] for a in n.args]
            size, depth = 1 + sum(a[1] for a in args), 1 + max((a[2] for a in args), default=0)
            e = self._one(n, [a[0] for a in args])
            if n.op == "call_extern":
                taken = [a.dtype.name for a in n.args]
                self.functions[e["function"]] = {"name": e["function"], "type": n.dtype.name, "arguments": taken}
            if n.args and ((uses[n] > 1 and size > SMALL) or size > LARGE or depth > DEEP):
                name = f"t{self.named}"
                self.named += 1
                lets.append({"let": name, "type": n.dtype.name, "value": e})
                e, size, depth = {"let": name, "type": n.dtype.name}, 1, 1
            made[n] = (e, size, depth)
        return lets, [made[r][0] for r in roots]

    def _one(self, n: Node, args: list[Json]) -> Json:
        t = n.dtype.name
        match n.op:
            case "const":
                return {"const": number(n.attr), "type": t}
            case "var" | "size":
                return {n.op: n.attr}
            case "scalar":
                return {"scalar": n.attr, "type": t}
            case "load":
                return {"load": self.buffers[n.attr[0]], "type": t, "at": args[0]}
            case "load_if":
                return {"load": self.buffers[n.attr[0]], "type": t, "at": args[1], "where": args[0]}
            case "round_to":
                return {"op": n.op, "type": t, "storage": n.attr.name, "of": args}
            case "call_extern":
                return {"op": n.op, "type": t, "function": symbol(n.attr), "of": args}
            case op if op in OPERATIONS:
                return {"op": op, "type": t, "of": args}
        raise CompileError(f"an expression node {n.op!r} can't be exported", code="export.expression")


_MARKS = ("likely", "assume")  # they have done their work


def _unmarked(n: Node) -> Node:
    while n.op in _MARKS:
        n = n.args[0]
    return n


def number(value: Any) -> Any:
    """A constant as JSON: text where a number would not be read back as it is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    if value != value:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return "nan" if bits == _NAN else f"nan(0x{bits:016x})"
    return float(value) if math.isfinite(value) else "inf" if value > 0 else "-inf"


def read_number(value: Any, floating: bool) -> Any:
    """What `number` wrote."""
    if not isinstance(value, str):
        return float(value) if floating else value
    if value.startswith("nan("):
        return struct.unpack("<d", int(value[4:-1], 16).to_bytes(8, "little"))[0]
    return float(value) if floating else int(value)


(_NAN,) = struct.unpack("<Q", struct.pack("<d", math.nan))

__all__ = ["OPERATIONS", "Expressions", "Json", "index", "number", "read_number"]

"""Pipelines as text that `parse_kernel` turns into the same algorithm (equal digests)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.lang import expr, ir
from tilewright.lang.errors import DefinitionError
from tilewright.lang.extern_stage import arguments, of_definition
from tilewright.lang.func import Definition, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Output, Pipeline, ScalarParam
from tilewright.lang.tensors import Array, Table
from tilewright.lang.text import rules
from tilewright.lang.text.expression import Rope, Writer, comma, implied, join, place, plain_name, shared
from tilewright.lang.text.numbers import format_const
from tilewright.lang.types import DType, f64, i64, index

RESERVED = frozenset(
    ["base64", "false", "in", "inf", "inout", "kernel", "let", "nan", "none", "over", "schedule", "size", "table",
     "tilewright", "true", "where"]
)  # fmt: skip
INLINE = 64  # table elements that are written as numbers; larger tables are base64
_IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STEPS = {"add": "+=", "sub": "-=", "mul": "*=", "div": "/=", "and": "&=", "or": "|=", "xor": "^="}


def quoted(name: str) -> str:
    """A name as it stands in the text: in backquotes if it is no identifier or a word of the format."""
    if _IDENT.match(name) and name not in RESERVED:
        return name
    if not name or "`" in name or "\n" in name:
        raise DefinitionError(f"the name {name!r} has no text form", code="definition.name", hint="rename it")
    return f"`{name}`"


def print_kernel(pipeline: Pipeline) -> str:
    """The kernel block of a pipeline: header, then its Funcs in the order in which they are needed."""
    return _KernelWriter(pipeline).text()


class _KernelWriter:
    def __init__(self, pipeline: Pipeline):
        self.p = pipeline
        self.scalars = {s.name for s in pipeline.scalars}
        self.names = {*self.scalars, *pipeline.sizes}
        self.names |= {plain_name(n) for n in ir.postorder(pipeline.roots()) if n.op in ("var", "rvar")}
        self.outer = Writer(self.leaf, quoted)

    def text(self) -> str:
        p = self.p
        head = f"kernel {quoted(p.name)}({', '.join(map(self.param, p.params))})"
        if p.structure is not None:
            head += f" -> {self.structure(p.structure)}"
        lines = [head, *self.sizes(), *map(self.table, p.tables)]
        for f in p.funcs:
            if not isinstance(f, InoutFunc):
                types = ", ".join(t.name for t in f.dtypes)
                lines.append(f"  {quoted(f.name)}: " + (f"({types})" if len(f.dtypes) > 1 else types))
            for d in f.definitions:
                lines.extend("  " + line for line in self.definition(d))
        return "\n".join(lines) + "\n"

    def leaf(self, n: Node, bound: frozenset[str] = frozenset()) -> str:
        """The name of a leaf; with its kind where an inner name hides it."""
        name = plain_name(n)
        hidden = (n.op in ("size", "scalar") and name in bound) or (n.op == "size" and name in self.scalars)
        return f"{n.op}.{quoted(name)}" if hidden else quoted(name)

    def index(self, n: Node, w: Writer | None = None) -> str:
        return join((w or self.outer).write(implied(n), index))

    # header -------------------------------------------------------------------------------------------------

    def param(self, p: Array | ScalarParam | InoutFunc) -> str:
        if isinstance(p, ScalarParam):
            return f"{quoted(p.name)}: {p.dtype.name}"
        a = p.inout if isinstance(p, InoutFunc) else p
        assert isinstance(a, Array)
        kind = "inout " if isinstance(p, InoutFunc) else ""
        return f"{quoted(a.name)}: {kind}{a.dtype.name}[{', '.join(map(self.index, a.extents))}]"

    def structure(self, s: Any) -> str:
        if s is None:
            return "none"
        if isinstance(s, int):
            return self.output(self.p.outputs[s])
        if isinstance(s, tuple) and s and isinstance(s[0], int) and len(self.p.outputs[s[0]].func.dtypes) > 1:
            return self.output(self.p.outputs[s[0]])  # all components of a slice
        if isinstance(s, dict):
            return "{" + ", ".join(f"{_key(k)}: {self.structure(v)}" for k, v in s.items()) + "}"
        inner = ", ".join(map(self.structure, s))
        if isinstance(s, list):
            return f"[{inner}]"
        return f"({inner},)" if len(s) == 1 else f"({inner})"

    def output(self, o: Output) -> str:
        axes = (
            f"{'' if ir.is_const(a, 0) else self.index(a)}:{self.index(b)}"
            for a, b in zip(o.starts, o.stops, strict=True)
        )
        return f"{quoted(o.func.name)}[{', '.join(axes)}]"

    def sizes(self) -> list[str]:
        known = {n.attr for a in self.p.arrays for n in ir.leaves(a.extents, "size")}
        more = [quoted(n) for n in self.p.sizes if n not in known]
        return [f"  size {' '.join(more)}"] if more else []

    def table(self, t: Table) -> str:
        flat = np.ascontiguousarray(t.values).reshape(-1)
        head = f"  table {quoted(t.name)}: {t.dtype.name}[{', '.join(map(str, t.values.shape))}] = "
        number = f64 if t.dtype.is_storage_only else t.dtype
        if flat.size <= INLINE and not (t.dtype.is_float and np.isnan(flat.astype(np.float64)).any()):
            return head + "[" + ", ".join(format_const(_scalar(v, t.dtype), number) for v in flat) + "]"
        text = base64.b64encode(flat.astype(flat.dtype.newbyteorder("<")).tobytes()).decode("ascii")
        pieces = "".join(f'\n    "{text[k : k + 100]}"' for k in range(0, len(text), 100))
        return f"{head}base64({pieces})"

    # definitions --------------------------------------------------------------------------------------------

    def definition(self, d: Definition) -> list[str]:
        """The lines of a definition: its lets, then itself."""
        if of_definition(d) is not None:
            return [join(self.staged(d))]
        stored = [_stored(v, t) for v, t in zip(d.values, d.func.dtypes, strict=True)]
        bound = frozenset({n.attr for n in d.lhs if n.op == "var"} | set(d.rdom.ranges if d.rdom else ()))
        lets: dict[Node, str] = {}
        w = Writer(lambda n: self.leaf(n, bound), quoted, lets)
        lines: list[Rope] = []
        taken = self.names | bound
        k = 0
        for n in shared([*d.lhs, *stored, *d.predicates]):
            if n in d.lhs and n.op == "var":
                continue
            k += 1
            while f"t{k}" in taken:
                k += 1
            lines.append((f"let t{k} = ", w.write(n)))
            lets[n] = f"t{k}"
        left = (quoted(d.func.name), "[", comma(self.left(i, d, w) for i in d.lhs), "]")
        lines.append((*left, *self.right(d, stored, w), *self.over(d, w)))
        return [join(line) for line in lines]

    def staged(self, d: Definition) -> Rope:
        """A definition by a stage of the user's."""
        stage = of_definition(d)
        assert stage is not None
        w = Writer(lambda n: self.leaf(n, frozenset(n.attr for n in d.lhs)), quoted)
        given = comma(w.write(a) if isinstance(a, Node) else self.box(a[0], w) for a in arguments(d))
        version = f" {json.dumps(stage.version)} " if stage.version else ""
        left = (quoted(d.func.name), "[", comma(self.left(i, d, w) for i in d.lhs), "] = ")
        return (*left, f"stage!{stage.name}{version}(", given, ")")

    @staticmethod
    def box(n: Node, w: Writer) -> Rope:
        return quoted(n.attr[0].name), "[", comma(place(w, i) for i in n.args), "]"

    def left(self, i: Node, d: Definition, w: Writer) -> Rope:
        if i.op == "var" and not d.is_pure and (i.attr in self.scalars or i.attr in self.p.sizes):
            return f"var.{quoted(i.attr)}"
        return w.write(implied(i), index)

    def right(self, d: Definition, stored: Sequence[Node], w: Writer) -> Rope:
        step = self.step(d, stored[0], w) if len(stored) == 1 and not d.is_pure else None
        if step:
            return step
        return " = ", comma(w.write(v, t) for v, t in zip(stored, d.func.dtypes, strict=True))

    def step(self, d: Definition, v: Node, w: Writer) -> Rope | None:
        """` += value` for `f[i] = f[i] + value`."""
        if v.op not in _STEPS or v in w.lets or v.args[0] in w.lets:
            return None
        ref, value = v.args
        if ref.op != "load" or ref.attr != (d.func, 0) or ref.args != d.lhs:
            return None
        found = w.pair(lambda x, y: rules.binary(v.op, x, y), v, ref, value)
        if found is None or found[2] is not ref:
            return None
        return f" {_STEPS[v.op]} ", w.write(found[3], found[1])

    def over(self, d: Definition, w: Writer) -> Sequence[Rope]:
        if d.rdom is None:
            return ()
        ranges = (f"{quoted(n)} in {self.index(a)}:{self.index(b)}" for n, (a, b) in d.rdom.ranges.items())
        out: list[Rope] = ["  over ", comma(ranges)]
        if d.predicates:
            out += [" where ", comma(w.write(c) for c in d.predicates)]
        return out


def _stored(v: Node, t: DType) -> Node:
    """A value without the conversion to the Func's type that every definition makes."""
    if v.op not in ("round_to", "cast"):
        return v
    inner = v.args[0]
    made_anyway = t.is_storage_only or (inner.dtype is index and (t is i64 or t.is_float))
    return inner if made_anyway and expr.cast_node(inner, t) is v else v


def _scalar(v: Any, t: DType) -> Any:
    return float(v) if t.is_float else bool(v) if t.is_bool else int(v)


def _key(key: Any) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str):
        raise DefinitionError(f"the key {key!r} has no text form", code="definition.output", hint="use strings")
    return key if _IDENT.match(key) and key not in RESERVED else json.dumps(key)

"""Kernels from text: builds Funcs and the pipeline through the constructors that Python users call."""

from __future__ import annotations

import base64
import binascii
import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from lark import Token, Tree

from tilewright.lang.errors import UnusedWarning, located
from tilewright.lang.expr import Expr, wrap
from tilewright.lang.extern import Extern
from tilewright.lang.extern_stage import ExternStage
from tilewright.lang.func import Func, Increment, InoutFunc
from tilewright.lang.pipeline import Pipeline, ScalarParam, make_pipeline
from tilewright.lang.symbols import Size, Var, bad, rdom, to_index
from tilewright.lang.tensors import Array, Table
from tilewright.lang.text.evaluate import Scope, evaluate, integer, name_of, typed
from tilewright.lang.text.reader import Source, check_version, grammar, without_collection
from tilewright.lang.types import DTYPES, DType

_STEPS = {"+=": "add", "-=": "sub", "*=": "mul", "/=": "div", "&=": "and", "|=": "or", "^=": "xor"}


def parse_kernel(
    text: str, origin: str = "<text>", first_line: int = 1, externs: Iterable[Extern | ExternStage] = ()
) -> Pipeline:
    """The pipeline of a text with one kernel. `origin` (a file name) and `first_line` are for error messages; `externs`
    are the functions that the text names.

    Raises ParseError for text that is no kernel, and the errors of lang.func and lang.expr for kernels without meaning.
    """
    source = Source(text, origin, first_line)
    with without_collection():
        tree = source.tree(grammar("tilewright.lang.text", "kernel.lark"))
        kernels = []
        for t in tree.children:
            if t.data == "version":
                check_version(t, source)
            else:
                kernels.append(t)
        if len(kernels) != 1:
            source.fail(f"the text has {len(kernels)} kernels, expected one", kernels[1] if kernels else tree)
        return _Builder(source, externs).kernel(kernels[0])


class _Builder:
    """Builds one kernel, line by line."""

    def __init__(self, source: Source, externs: Iterable[Extern | ExternStage] = ()):
        self.source = source
        self.scope = Scope(externs={e.name: e for e in externs})
        self.lets: list[Any] = []
        self.lines: list[Any] = []
        self.here = ""  # the Func that is defined at the moment

    def kernel(self, tree: Any) -> Pipeline:
        name, params, structure, *lines = tree.children
        place = self.source.location(tree)
        made = self.params(params.children if params else [])
        self.lines, self.scope.ahead = lines, self.refuse_ahead
        for line in lines:
            with located(self.source.location(line)):
                getattr(self, f"line_{line.data}")(line)
        if self.lets:
            with located(self.source.location(self.lets[0])):
                raise bad(f"{name_of(self.lets[0].children[0])} is used by no definition", "unused-let",
                          "a let stands before the definition that uses it")  # fmt: skip
        with located(self.source.location(structure or tree)):
            returned = self.structure(structure) if structure is not None else None
            p = make_pipeline(returned, made, name_of(name), place)
        self.tell_unused(p)
        return p

    def tell_unused(self, p: Pipeline) -> None:
        """Warn of Funcs that no result needs."""
        used = {f.name for f in p.funcs}
        for line in self.lines:
            n = name_of(line.children[0]) if line.data in ("definition", "staged", "types") else None
            f = self.scope.tensors.get(n) if n is not None else None
            if n is not None and n not in used and isinstance(f, Func) and not isinstance(f, InoutFunc):
                used.add(n)  # once
                at = self.source.location(line)
                warnings.warn_explicit(
                    f"{n} is {'defined' if f.init is not None else 'declared'}, and no result of {p.name} needs it",
                    UnusedWarning, at.file, at.line,
                )  # fmt: skip

    def refuse_ahead(self, name: str) -> None:
        """Raise DefinitionError for a Func that is read further up than where it is defined, as in a cycle."""
        lines = [x for x in self.lines if x.data in ("definition", "staged")]
        defined = {name_of(x.children[0]): x for x in reversed(lines)}
        if name not in defined or name == self.here:
            return
        cycle = _way(defined, name, self.here)
        line = self.source.location(defined[name]).line
        if cycle:
            raise bad(f"{self.here} depends on itself: {' reads '.join([self.here, *cycle])}", "cycle",
                      f"{name} is defined in line {line}; split them into Funcs without a cycle")  # fmt: skip
        raise bad(f"{name} is used before it is defined", "undefined",
                  f"it is defined in line {line}: producers stand before their consumers")  # fmt: skip

    def value(self, tree: Any) -> Any:
        return evaluate(tree, self.scope, self.source)

    # parameters ---------------------------------------------------------------------------------------------

    def params(self, trees: list[Any]) -> list[Array | ScalarParam | InoutFunc]:
        for t in trees:  # scalars first: an extent may use one that stands behind it
            name, inout, dtype, axes = t.children
            if axes is None:
                with located(self.source.location(t)):
                    self.new_name(name_of(name), self.scope.scalars)
                    if inout:
                        raise bad(f"the scalar {name_of(name)} is inout", "inout", "only arrays can be written")
                    s = ScalarParam(name_of(name), self.dtype(dtype))
                    self.scope.scalars[s.name] = wrap(s.node)
        self.scope.open_sizes = True
        out = [self.param(t) for t in trees]
        self.scope.open_sizes = False
        return out

    def param(self, t: Any) -> Array | ScalarParam | InoutFunc:
        name, inout, dtype, axes = t.children
        if axes is None:
            return ScalarParam(name_of(name), self.dtype(dtype))
        with located(self.source.location(t)):
            n = name_of(name)
            self.new_name(n, self.scope.tensors)
            a = Array(n, self.dtype(dtype), tuple(to_index(self.value(x), f"an extent of {n}") for x in _some(axes)))
            made = InoutFunc(a) if inout else a
            self.scope.tensors[n] = made
            return made

    @staticmethod
    def new_name(name: str, table: dict[str, Any]) -> None:
        if name in table:
            raise bad(f"{name} is there twice", "name-twice", "rename one")

    def dtype(self, token: Token) -> DType:
        found = DTYPES.get(str(token))
        if found is None:
            with located(self.source.location(token)):
                raise bad(f"unknown type {token}", "unknown-type", "known types: " + ", ".join(DTYPES))
        return found

    # lines --------------------------------------------------------------------------------------------------

    def line_sizes(self, t: Any) -> None:
        for n in t.children:
            self.new_name(name_of(n), self.scope.sizes)
            self.scope.sizes[name_of(n)] = Size(name_of(n))

    def line_types(self, t: Any) -> None:
        name, *dtypes = t.children
        self.new_name(name_of(name), self.scope.tensors)
        self.scope.tensors[name_of(name)] = Func(name_of(name), tuple(self.dtype(d) for d in dtypes))

    def line_table(self, t: Any) -> None:
        name, dtype, axes, *data = t.children
        n, d = name_of(name), self.dtype(dtype)
        self.new_name(n, self.scope.tensors)
        shape = tuple(self.value(x) for x in _some(axes))
        if not all(isinstance(x, int) and x >= 0 for x in shape):
            raise bad(f"the extents of table {n} are {shape}", "table", "write numbers")
        count = int(np.prod(shape, dtype=object))
        if data and isinstance(data[0], Tree):
            flat = self.numbers(data[0], d)
        else:
            flat = self.bytes(data, d)
        if flat.size != count:
            raise bad(f"table {n} has {flat.size} values for {count} elements", "table")
        values = flat.reshape(shape)
        values.setflags(write=False)
        self.scope.tensors[n] = Table(n, values)

    def numbers(self, t: Any, d: DType) -> np.ndarray:
        words = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan")}
        out: list[Any] = []
        for number in _some(t):
            minus, token = number.children
            if token.type == "NAME" and str(token) not in words:
                self.source.fail(f"found {str(token)!r}, expected a number", token)
            v = words[str(token)] if token.type == "NAME" else integer(token) if token.type == "INT" else float(token)
            v = -v if minus else v
            if (isinstance(v, bool) != d.is_bool) or (d.is_int and not (isinstance(v, int) and d.low <= v <= d.high)):
                self.source.fail(f"{minus or ''}{token} does not fit {d}", token)
            out.append(v)
        return np.array(out, dtype=d.np)

    def bytes(self, tokens: list[Any], d: DType) -> np.ndarray:
        try:
            raw = base64.b64decode("".join(str(s)[1:-1] for s in tokens), validate=True)
            return np.frombuffer(raw, dtype=d.np.newbyteorder("<")).astype(d.np)
        except (binascii.Error, ValueError) as e:
            raise bad(f"the content of the table can't be read: {e}", "table") from None

    def line_let(self, t: Any) -> None:
        self.lets.append(t)

    def line_definition(self, t: Any) -> None:
        name, indices, step, values, over = t.children
        n = self.here = name_of(name)
        found = self.scope.tensors.get(n)
        if found is not None and not isinstance(found, Func):
            raise bad(f"{n} is an input and is defined here", "input-defined", "declare it inout, or use another name")
        f = found if isinstance(found, Func) else Func(n)
        pure = f.init is None and f.inout is None and step == "="
        self.scope.vars, self.scope.lets = {}, {}
        domain = self.domain(over) if over is not None else None
        lets = {name_of(let.children[0]) for let in self.lets}
        left = [(x, self.var(x, pure, lets)) for x in _some(indices)]
        self.scope.tensors[n] = f
        for let in self.lets:
            self.define_let(let)
        self.lets = []
        where = self.where(left)
        if domain is not None and over is not None and over.children[-1] is not None:
            for c in over.children[-1].children:
                with located(self.source.location(c)):
                    domain.where(self.value(c))
        parts = [self.value(v) for v in values.children]
        value = tuple(parts) if len(parts) > 1 else parts[0]
        f[where] = value if step == "=" else Increment(f[where], _STEPS[str(step)], value)
        if domain is not None and (not f.updates or f.updates[-1].rdom is not domain.domain):
            raise bad(f"the definition of {n} does not use the variables behind over", "rdom-unused",
                      "use one in an index or a value")  # fmt: skip
        self.scope.vars, self.scope.lets = {}, {}

    def line_staged(self, t: Any) -> None:
        """`S[i, j] = stage!rows "2" (A[i, 0:N], alpha)`."""
        name, indices, step, _, called, version, *given = t.children
        self.here = name_of(name)
        f = self.scope.tensor(name_of(name))
        if not isinstance(f, Func) or isinstance(f, InoutFunc) or f.init is not None or str(step) != "=":
            raise bad(f"{f.name} is updated by a stage", "stage-update", "a stage is the pure definition of a Func")
        self.scope.vars, self.scope.lets = {}, {}
        where = self.where([(x, self.var(x, True)) for x in _some(indices)])
        stage = self.scope.stage(str(called), json.loads(str(version)) if version is not None else "")
        f[where] = stage(*(self.argument(g) for g in given if g is not None))
        self.scope.vars = {}

    def argument(self, t: Any) -> Any:
        """A box (anything that is indexed), or a scalar."""
        if t.data != "load":
            return self.value(t)
        name, *places = (c for c in t.children if c is not None)
        ends = [slice(*(self.value(e) for e in p.children)) if p.data == "span" else self.value(p) for p in places]
        return self.scope.tensor(name_of(name)).box[tuple(ends)]

    def domain(self, over: Any) -> Any:
        ranges: dict[str, tuple] = {}
        for r in over.children[:-1]:
            name, start, stop = r.children
            with located(self.source.location(r)):
                self.new_name(name_of(name), ranges)
                ranges[name_of(name)] = (self.value(start), self.value(stop))
        made = rdom(**ranges)
        self.scope.vars = {n: wrap(made.domain.rvar(n)) for n in ranges}
        return made

    def var(self, t: Any, pure: bool, lets: Collection[str] = ()) -> Var | None:
        """The Var that an index on the left is: a name that stands alone, unless it means something here already."""
        s = self.scope
        if t.data != "leaf" and not (t.data == "qualified" and t.children[0] == "var"):
            return None
        name = name_of(t.children[-1])
        known = name in s.vars and isinstance(s.vars[name], Expr) and s.vars[name].node.op == "rvar"
        if t.data != "qualified" and not pure and (known or name in s.scalars or name in s.sizes or name in lets):
            return None
        with located(self.source.location(t)):
            v = Var(name)
        if known:
            with located(self.source.location(t)):
                raise bad(f"{name} is both a Var and a reduction variable here", "name-twice", "rename one")
        s.vars[name] = v
        return v

    def where(self, left: Iterable[tuple[Any, Var | None]]) -> tuple:
        return tuple(self.value(x) if v is None else v for x, v in left)

    def define_let(self, t: Any) -> None:
        name = name_of(t.children[0])
        s = self.scope
        with located(self.source.location(t)):
            if any(name in table for table in (s.lets, s.vars, s.scalars, s.sizes)):
                raise bad(f"{name} already has a meaning here", "name-twice", "rename the let")
            s.lets[name] = typed(self.value(t.children[1]))

    # what is returned ---------------------------------------------------------------------------------------

    def structure(self, t: Any) -> Any:
        parts = [c for c in t.children if c is not None]
        if t.data == "none":
            return None
        if t.data == "tuple_":
            return tuple(self.structure(c) for c in parts)
        if t.data == "list_":
            return [self.structure(c) for c in parts]
        if t.data == "dict_":
            return {_key(e.children[0]): self.structure(e.children[1]) for e in parts}
        name, *slices = parts
        with located(self.source.location(t)):
            f = self.scope.tensor(name_of(name))
            if not isinstance(f, Func):
                raise bad(f"{f.name} is an input and is returned", "output", "return a slice of a Func")
            return f[tuple(self.slice(s) for s in slices)]

    def slice(self, t: Any) -> slice:
        start, stop = t.children
        return slice(None if start is None else self.value(start), self.value(stop))


def _key(t: Any) -> str | int:
    if isinstance(t, Token):
        return json.loads(str(t))
    if t.data == "integer":
        minus, digits = t.children
        return -int(digits) if minus else int(digits)
    return name_of(t)


def _way(defined: Mapping[str, Any], start: str, end: str) -> list[str]:
    """The Funcs from one to another by what their first definitions read, both included; none where there is no way."""
    came: dict[str, str] = {}
    todo = [start]
    while todo and end not in came:
        n = todo.pop(0)
        loads = [t for x in defined[n].children if isinstance(x, Tree) for t in x.find_data("load")]
        for m in dict.fromkeys(name_of(t.children[0]) for t in loads):
            if m in defined and m not in came and m != n:
                came[m] = n
                todo.append(m)
    if end not in came:
        return []
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _some(t: Any) -> list[Any]:
    return [c for c in t.children if c is not None]

"""Runs a document on NumPy arrays, statement by statement: slow, and by the letter of the format.

Arrays are those of the document's arguments, in their order and without the tables, in the shapes that it gives them.
Temporaries lie at their offsets in the memories of the document where these are given, and hold garbage when they are
made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from tilewright.codegen.export.document import FORMAT, VERSION
from tilewright.codegen.export.expressions import Json, read_number
from tilewright.lang import ir
from tilewright.lang.errors import ArgumentError
from tilewright.lang.evaluate import apply
from tilewright.lang.types import DTYPES, DType, index
from tilewright.lang.values import _BOOL, _INDEX

Env = dict[str, Any]  # variables, sizes, scalars and lets; "var i", "size M", ... and buffers "buffer A"
Run = Callable[[Env], Any]
GARBAGE = 0xA5


def read(text: str) -> Json:
    """The document of a JSON text. Raises ArgumentError for another format or version."""
    try:
        made = json.loads(text)
    except ValueError as e:
        raise ArgumentError(f"this is no JSON: {e}", code="argument.export") from None
    found = (made.get("format"), made.get("version")) if isinstance(made, dict) else (None, None)
    if found != (FORMAT, VERSION):
        raise ArgumentError(
            f"this is no {FORMAT} of version {VERSION}: format {found[0]!r}, version {found[1]!r}",
            code="argument.export", hint="kernel.export(schedule, to='json') writes one",
        )  # fmt: skip
    return made


def execute(
    document: Json,
    arrays: Sequence[np.ndarray],
    sizes: Mapping[str, int] | None = None,
    scalars: Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> int | None:
    """Run a document. Outputs and inouts among the contiguous `arrays` are written in place; `functions` are those of
    the user's that it calls, by name.

    Gives None, or the number of the first requirement that does not hold (nothing is written then). An access beyond
    the end of a buffer raises IndexError.
    """
    env: Env = {}
    for s in document["sizes"]:
        env["size " + s["name"]] = (sizes or {})[s["name"]] if s["value"] is None else s["value"]
    for s in document["scalars"]:
        env["scalar " + s["name"]] = _type(s["type"]).compute.np.type((scalars or {})[s["name"]])
    given = iter(arrays)
    for a in document["arguments"]:
        t = _type(a["type"])
        env["buffer " + a["name"]] = table(a) if a["role"] == "const" else _flat(a, t, next(given))
    program = _Program(document, functions or {})
    with np.errstate(all="ignore"):
        for k, (lets, condition) in enumerate(program.requirements):
            if not condition(_named(env, lets)):
                return k
        program.run(env)
    return None


def _type(name: str) -> DType:
    return index if name == "index" else DTYPES[name]


def table(a: Json) -> np.ndarray:
    """The values of a table of the document, flat."""
    t = _type(a["type"])
    kind = np.float64 if t.is_float else t.np
    return np.array([read_number(v, t.is_float) for v in a["values"]], kind).astype(t.np)


def _flat(a: Json, t: DType, array: np.ndarray) -> np.ndarray:
    if array.dtype != t.np or not array.flags.c_contiguous:
        raise ArgumentError(
            f"{a['name']} must be a contiguous array of {t}", code="argument.dtype", hint="np.ascontiguousarray(x)"
        )
    return array.reshape(-1)


Lets = list[tuple[str, Run]]


def _named(env: Env, lets: Lets) -> Env:
    for name, value in lets:
        env[name] = value(env)
    return env


class _Program:
    """The document as Python functions, made once."""

    def __init__(self, document: Json, functions: Mapping[str, Callable[..., Any]]):
        self.functions = functions
        self.types = {b["name"]: _type(b["type"]) for b in (*document["arguments"], *document["buffers"])}
        self.buffers = {b["name"]: b for b in document["buffers"]}
        self.arenas = {m["name"]: np.full(m["bytes"], GARBAGE, np.uint8) for m in document["memories"]}
        self.requirements = [(self.lets(r), self.expression(r["condition"])) for r in document["requirements"]]
        self.run = self.body(document["body"])

    # Expressions ------------------------------------------------------------------------------------------------

    def lets(self, s: Json) -> Lets:
        return [("let " + v["let"], self.expression(v["value"])) for v in s["let"]]

    def expression(self, e: Json) -> Run:
        for kind in ("var", "size", "scalar", "let"):
            if kind in e:
                key = f"{kind} {e[kind]}"
                return lambda env: env[key]
        t = _type(e["type"])
        if "const" in e:
            value = read_number(e["const"], t.is_float)
            made = int(value) if t is index else t.np.type(value)
            return lambda env: made
        if "load" in e:
            return self.load(e, t)
        of = [self.expression(a) for a in e["of"]]
        return self.operation(e, t, of)

    def load(self, e: Json, t: DType) -> Run:
        key, at, make = "buffer " + e["load"], self.expression(e["at"]), t.np.type
        where = self.expression(e["where"]) if "where" in e else None

        def load(env: Env) -> Any:
            if where is not None and not where(env):
                return make(0)
            return make(env[key][_inside(env[key], at(env))])

        return load

    def operation(self, e: Json, t: DType, of: list[Run]) -> Run:
        op = e["op"]
        if op == "select":
            c, a, b = of
            return lambda env: a(env) if c(env) else b(env)
        if op == "call_extern":
            fn = self.functions.get(e["function"])
            if fn is None:
                raise ArgumentError(
                    f"the document calls {e['function']}, which is not given", code="argument.export",
                    hint="give it: execute(..., functions={name: function})",
                )  # fmt: skip
            return lambda env: t.np.type(fn(*(x(env) for x in of)))
        types = [_of(a) for a in e["of"]]
        if t is index and op != "cast":
            plain = _INDEX[op]
            return lambda env: plain(*(x(env) for x in of))
        if op in _BOOL and types[0] is index:
            compare = _BOOL[op]
            return lambda env: compare(*(x(env) for x in of))
        storage = _type(e["storage"]) if op == "round_to" else None
        parts = tuple(ir.node("param", u, (), k) for k, u in enumerate(types))
        n = ir.node(op, t, parts, storage)
        make = (lambda v: int(v)) if t is index else t.np.type
        return lambda env: make(np.asarray(apply(n, [u.np.type(x(env)) for x, u in zip(of, types, strict=True)]))[()])

    # Statements -------------------------------------------------------------------------------------------------

    def body(self, statements: list[Json]) -> Callable[[Env], None]:
        made = [getattr(self, "do_" + s["do"])(s) for s in statements]

        def run(env: Env) -> None:
            for step in made:
                step(env)

        return run

    def do_block(self, s: Json) -> Callable[[Env], None]:
        return self.body(s["body"])

    do_section = do_block

    def do_fence(self, s: Json) -> Callable[[Env], None]:
        return lambda env: None

    do_prefetch = do_fence

    def do_for(self, s: Json) -> Callable[[Env], None]:
        key, lets, body = "var " + s["var"], self.lets(s), self.body(s["body"])
        start, stop = self.expression(s["start"]), self.expression(s["stop"])

        def run(env: Env) -> None:
            _named(env, lets)
            outer = env.get(key)
            for k in range(start(env), stop(env)):
                env[key] = k
                body(env)
            env[key] = outer

        return run

    def do_if(self, s: Json) -> Callable[[Env], None]:
        lets, condition = self.lets(s), self.expression(s["condition"])
        then, otherwise = self.body(s["then"]), self.body(s["else"])
        return lambda env: (then if condition(_named(env, lets)) else otherwise)(env)

    def do_store(self, s: Json) -> Callable[[Env], None]:
        lets = self.lets(s)
        targets = [("buffer " + t["buffer"], self.types[t["buffer"]], self.expression(t["at"])) for t in s["targets"]]
        values = [self.expression(v) for v in s["values"]]

        def run(env: Env) -> None:
            _named(env, lets)
            found = [(env[key], _inside(env[key], at(env)), t) for key, t, at in targets]
            for (array, at, t), v in zip(found, [v(env) for v in values], strict=True):
                array[at] = np.asarray(v).astype(t.np)

        return run

    def do_allocate(self, s: Json) -> Callable[[Env], None]:
        b, lets, elements = self.buffers[s["buffer"]], self.lets(s), self.expression(s["elements"])
        key, t = "buffer " + s["buffer"], self.types[s["buffer"]]

        def run(env: Env) -> None:
            n = max(0, elements(_named(env, lets))) * t.bytes
            if b["offset"] is None:
                block = np.empty(n, np.uint8)
            else:
                if n > b["bytes"]:
                    raise IndexError(f"{b['name']} has {n} bytes, and {b['bytes']} are its own")
                block = self.arenas[b["memory"]][b["offset"] :][:n]
            block[:] = GARBAGE if t.np != np.bool_ else 1
            env[key] = block.view(t.np)

        return run

    def do_copy(self, s: Json) -> Callable[[Env], None]:
        lets, extents = self.lets(s), [self.expression(e) for e in s["extents"]]
        sides = []
        for side in (s["source"], s["target"]):
            steps = [self.expression(e) for e in side["strides"]]
            sides.append(("buffer " + side["buffer"], self.expression(side["first"]), steps))
        target_type = self.types[s["target"]["buffer"]]

        def run(env: Env) -> None:
            _named(env, lets)
            shape = [range(e(env)) for e in extents]
            (source, at, ours), (target, to, theirs) = (
                (env[key], first(env), [x(env) for x in steps]) for key, first, steps in sides
            )
            for i in product(*shape):
                a = sum((k * x for k, x in zip(i, ours, strict=True)), at)
                b = sum((k * x for k, x in zip(i, theirs, strict=True)), to)
                target[_inside(target, b)] = np.asarray(source[_inside(source, a)]).astype(target_type.np)

        return run


def _of(e: Json) -> DType:
    return index if "var" in e or "size" in e else _type(e["type"])


def _inside(array: np.ndarray, at: Any) -> int:
    if not 0 <= at < len(array):
        raise IndexError(f"element {at} of {len(array)}")
    return int(at)


__all__ = ["execute", "read", "table"]

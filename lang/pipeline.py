"""A pipeline: what a kernel computes. Frozen, checked, its Funcs in the order in which they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tilewright.lang import ir
from tilewright.lang.errors import DefinitionError, Location, user_location
from tilewright.lang.func import Definition, Func, FuncRef, InoutFunc, OutputSlice
from tilewright.lang.ir import Node
from tilewright.lang.nested import Names
from tilewright.lang.symbols import bad
from tilewright.lang.tensors import Array, Table
from tilewright.lang.types import DType


@dataclass(frozen=True)
class ScalarParam:
    """A scalar parameter of a kernel."""

    name: str
    dtype: DType

    @property
    def node(self) -> Node:
        return ir.node("scalar", self.dtype.compute, (), self.name)


def array_of(p: Array | InoutFunc) -> Array:
    """The array of a parameter."""
    if isinstance(p, InoutFunc):
        assert p.inout is not None
        return p.inout
    return p


@dataclass(frozen=True)
class Output:
    """One result array: a component of a region of a Func. `name` is the Func's, with the component where it is a tuple."""

    name: str
    func: Func
    component: int
    starts: tuple[Node, ...]
    stops: tuple[Node, ...]

    @property
    def dtype(self) -> DType:
        return self.func.dtypes[self.component]

    @property
    def extents(self) -> tuple[Node, ...]:
        from tilewright.lang.simplify import sub

        return tuple(sub(b, a) for a, b in zip(self.starts, self.stops, strict=True))


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Parameters in call order, the Funcs (producers first), the outputs and the structure that a call returns.

    `structure` is an output position, None, or a tuple/list/dict of structures.
    """

    name: str
    params: tuple[Array | ScalarParam | InoutFunc, ...]
    funcs: tuple[Func, ...]
    outputs: tuple[Output, ...]
    structure: Any
    sizes: tuple[str, ...]
    location: Location | None = None
    statics: Mapping[str, Any] = field(default_factory=dict)
    signature: tuple[tuple[str, Names], ...] = ()  # of calls, where some parameters are given in dicts or lists

    # what there is ------------------------------------------------------------------------------------------

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Input arrays in call order, those of `inout` parameters included."""
        return tuple(array_of(p) for p in self.params if not isinstance(p, ScalarParam))

    @property
    def scalars(self) -> tuple[ScalarParam, ...]:
        return tuple(p for p in self.params if isinstance(p, ScalarParam))

    @property
    def inouts(self) -> tuple[InoutFunc, ...]:
        return tuple(p for p in self.params if isinstance(p, InoutFunc))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Constant tables in first-use order."""
        found = (n.attr[0] for n in ir.leaves(self.roots(), "load"))
        return tuple(dict.fromkeys(t for t in found if isinstance(t, Table)))

    def func(self, name: str) -> Func:
        for f in self.funcs:
            if f.name == name:
                return f
        raise DefinitionError(
            f"{self.name} has no Func {name!r}", code="definition.unknown-func", where=user_location(),
            hint="it has: " + ", ".join(f.name for f in self.funcs),
        )  # fmt: skip

    def definitions(self) -> Iterator[Definition]:
        """Every definition in the order of execution."""
        for f in self.funcs:
            yield from f.definitions

    def roots(self) -> list[Node]:
        """Every expression of every definition."""
        return [n for d in self.definitions() for n in d.roots]

    @cached_property
    def digest(self) -> str:
        """A hash of the algorithm, the same in every process: the key of records and caches."""
        h = hashlib.blake2b(digest_size=16)

        def put(*parts: Any) -> None:
            for p in parts:
                h.update(p.digest if isinstance(p, Node) else str(p).encode())
                h.update(b"\0")

        put(self.name, *self.sizes)
        for p in self.params:
            a = p if isinstance(p, ScalarParam) else array_of(p)
            put(type(p).__name__, a.name, a.dtype.name)
            if isinstance(a, Array):
                put(*a.extents)
        for t in self.tables:
            put(t.name, t.dtype.name, t.values.shape)
            h.update(t.values.tobytes())
        for d in self.definitions():
            put(d.func.name, d.number, *(t.name for t in d.func.dtypes), *d.roots)
            if d.rdom:
                put(*(x for name, (a, b) in d.rdom.ranges.items() for x in (name, a, b)))
        for o in self.outputs:
            put(o.name, *o.starts, *o.stops)
        put(_shape_of(self.structure))
        return h.hexdigest()

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: {', '.join(f.name for f in self.funcs)}>"


def _shape_of(structure: Any) -> str:
    if isinstance(structure, dict):
        return "{" + ",".join(f"{k}:{_shape_of(v)}" for k, v in structure.items()) + "}"
    if isinstance(structure, (tuple, list)):
        return type(structure).__name__ + "(" + ",".join(map(_shape_of, structure)) + ")"
    return repr(structure)


def make_pipeline(
    returned: Any,
    params: Sequence[Array | ScalarParam | InoutFunc] = (),
    name: str = "pipeline",
    location: Location | None = None,
    statics: Mapping[str, Any] | None = None,
    signature: Sequence[tuple[str, Names]] = (),
) -> Pipeline:
    """Freeze what a kernel returned: a slice of a Func, or a tuple, list or dict of slices (None where all is `inout`)."""
    outputs: list[Output] = []
    structure = _collect(returned, outputs, location)
    funcs = _in_order([o.func for o in outputs] + [p for p in params if isinstance(p, InoutFunc) and p.updates])
    for f in funcs:
        f.require_defined()
        if f.open_type is not None:
            f.close_type(f.open_type)
    if not outputs and not any(isinstance(p, InoutFunc) and p.updates for p in params):
        raise bad(f"{name} returns nothing", "no-output", "return a slice of a Func: return C[:M, :N]", location)
    _check_names(funcs, params, name, location)
    names = _size_names(funcs, params, outputs)
    made = Pipeline(
        name, tuple(params), tuple(funcs), tuple(outputs), structure, names, location, dict(statics or {}),
        tuple(signature),
    )  # fmt: skip
    _check_parameters(made)
    for f in funcs:
        f.frozen_by = f"it became part of {name}"
    return made


def _collect(value: Any, outputs: list[Output], location: Location | None) -> Any:
    if isinstance(value, FuncRef) and not value.indices:
        value = OutputSlice(value.func, (), ())
    whole = getattr(type(value), "as_output", None)  # of a Value of tw.ops, which knows its shape
    if whole is not None:
        value = whole(value)
    if isinstance(value, OutputSlice):
        f = value.func
        f.require_defined()
        places = []
        for k in range(len(f.dtypes)):
            places.append(len(outputs))
            outputs.append(Output(f.name if len(f.dtypes) == 1 else f"{f.name}.{k}", f, k, value.starts, value.stops))
        return places[0] if len(places) == 1 else tuple(places)
    if isinstance(value, (tuple, list)):
        return type(value)(_collect(v, outputs, location) for v in value)
    if isinstance(value, dict):
        return {k: _collect(v, outputs, location) for k, v in value.items()}
    if value is None:
        return None
    what = "a Func" if isinstance(value, Func) else repr(value)
    raise bad(f"a kernel returns {what}", "output",
              "return a slice such as C[:M, :N], or a tuple, list or dict of slices", location)  # fmt: skip


def _in_order(roots: Sequence[Func]) -> list[Func]:
    """All Funcs that the roots need, producers first, in an order that depends on the text only. Iterative."""
    done: dict[Func, None] = {}
    open_: set[Func] = set()
    stack: list[tuple[Func, bool]] = [(f, False) for f in reversed(roots)]
    while stack:
        f, ready = stack.pop()
        if f in done:
            continue
        if ready:
            done[f] = None
            open_.discard(f)
            continue
        if f in open_:
            raise bad(f"{f.name} depends on itself through other Funcs", "cycle", "split it into Funcs without a cycle")
        f.require_defined()
        open_.add(f)
        stack.append((f, True))
        needed = dict.fromkeys(
            n.attr[0] for d in f.definitions for n in ir.leaves(d.roots, "load") if isinstance(n.attr[0], Func)
        )
        for g in reversed(needed):
            if g is not f and g not in done:
                if g in open_ and g is not f:
                    raise bad(f"{f.name} and {g.name} depend on each other", "cycle",
                              "a Func of tuples has both: f[i] = (a, b)")  # fmt: skip
                stack.append((g, False))
    return list(done)


def _check_names(funcs: Sequence[Func], params: Sequence[Any], name: str, location: Location | None) -> None:
    seen: dict[str, str] = {}
    loads = ir.leaves([n for f in funcs for d in f.definitions for n in d.roots], "load")
    tables = dict.fromkeys(n.attr[0] for n in loads if isinstance(n.attr[0], Table))
    named = [("parameter", p.name) for p in params] + [("table", t.name) for t in tables]
    for kind, n in named + [("Func", f.name) for f in funcs if not isinstance(f, InoutFunc)]:
        if n in seen:
            raise bad(f"{n} names a {seen[n]} and a {kind} in {name}", "name-twice",
                      "rename one, or use tw.scope(...)", location)  # fmt: skip
        seen[n] = kind


def _size_names(funcs: Sequence[Func], params: Sequence[Any], outputs: Sequence[Output]) -> tuple[str, ...]:
    roots: list[Node] = []
    for p in params:
        a = p.inout if isinstance(p, InoutFunc) else p
        if isinstance(a, Array):
            roots.extend(a.extents)
    for f in funcs:
        for d in f.definitions:
            roots.extend(d.roots)
            if d.rdom:
                roots.extend(x for r in d.rdom.ranges.values() for x in r)
    for o in outputs:
        roots.extend((*o.starts, *o.stops))
    return tuple(dict.fromkeys(n.attr for n in ir.leaves(roots, "size")))


def _check_parameters(p: Pipeline) -> None:
    """Every array and scalar that is read is a parameter of this kernel."""
    known = {id(a) for a in p.arrays}
    scalars = {s.name: s for s in p.scalars}
    for n in ir.postorder(p.roots()):
        if (
            n.op == "load"
            and isinstance(n.attr[0], Array)
            and not isinstance(n.attr[0], Table)
            and id(n.attr[0]) not in known
        ):
            raise bad(f"{n.attr[0].name} is read but is no parameter of {p.name}", "foreign-array",
                      "declare it as a parameter, or embed it: tw.const(array)", p.location)  # fmt: skip
        if n.op == "scalar" and n.attr not in scalars:
            raise bad(f"{n.attr} is used but is no parameter of {p.name}", "foreign-scalar",
                      "declare it as a parameter", p.location)  # fmt: skip

"""Pipelines and expressions as plain data, and back: what a record on disk holds of them.

The data are tuples of numbers, texts, element types, and the objects that have no structure of ours: tables, functions
of the user's, places in a source. Nodes stand in one list, arguments before users, each with the numbers of its arguments.
Nothing is checked or simplified again: what comes back is what was given, node for node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.lang import ir
from tilewright.lang.func import Definition, Func, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Output, Pipeline, ScalarParam
from tilewright.lang.symbols import Domain
from tilewright.lang.tensors import Array, Table

Row = tuple[str, Any, tuple[int, ...], Any]  # operation, type, arguments, attribute
Rows = tuple[Row, ...]


def _as_it_is(op: str, attr: Any) -> Any:
    return attr


def nodes_record(
    roots: Iterable[Node], attribute: Callable[[str, Any], Any] = _as_it_is
) -> tuple[Rows, dict[Node, int]]:
    """The nodes below `roots` as rows, and which row each of them is. `attribute` says what stands for one."""
    at: dict[Node, int] = {}
    rows: list[Row] = []
    for n in ir.postorder(roots):
        at[n] = len(rows)
        rows.append((n.op, n.dtype, tuple(at[a] for a in n.args), attribute(n.op, n.attr)))
    return tuple(rows), at


def nodes_of(rows: Rows, attribute: Callable[[str, Any], Any] = _as_it_is) -> list[Node]:
    """The node of each row; `attribute` undoes that of `nodes_record`."""
    out: list[Node] = []
    for op, dtype, args, attr in rows:
        out.append(ir.node(op, dtype, tuple([out[a] for a in args]), attribute(op, attr)))
    return out


def pipeline_record(p: Pipeline) -> tuple[Any, ...]:
    """A pipeline as data."""
    number: dict[Any, int] = {}
    for t in (*(q for q in p.params if not isinstance(q, ScalarParam)), *p.funcs):
        number.setdefault(t, len(number))
    definitions = list(p.definitions())
    domains: dict[Domain, int] = {}
    for d in definitions:
        if d.rdom is not None:
            domains.setdefault(d.rdom, len(domains))

    def attribute(op: str, attr: Any) -> Any:
        if op == "load":
            return attr if isinstance(attr[0], Table) else (number[attr[0]], attr[1])
        return (domains[attr[0]], attr[1]) if op == "rvar" else attr

    roots = [e for a in p.arrays for e in a.extents]
    roots += p.roots()
    roots += [e for x in domains for ends in x.ranges.values() for e in ends]
    roots += [e for o in p.outputs for e in (*o.starts, *o.stops)]
    rows, at = nodes_record(roots, attribute)

    def places(nodes: Sequence[Node]) -> tuple[int, ...]:
        return tuple(at[n] for n in nodes)

    def tensor(t: Any) -> tuple[Any, ...]:
        if isinstance(t, Array):
            return False, t.name, places(t.extents), t.dtype
        array: Array | None = t.inout
        if array is None:
            return True, t.name, None, t.dtypes, t.declared
        return True, t.name, places(array.extents), array.dtype

    return (
        p.name,
        tuple((q.name, q.dtype) if isinstance(q, ScalarParam) else number[q] for q in p.params),
        tuple(map(tensor, number)),
        tuple(number[f] for f in p.funcs),
        rows,
        tuple(
            (tuple((n, *places(ends)) for n, ends in x.ranges.items()), places(x.predicates), x.location)
            for x in domains
        ),
        tuple(
            (
                number[d.func], d.number, places(d.lhs), places(d.values),
                None if d.rdom is None else domains[d.rdom], d.location,
            )
            for d in definitions
        ),
        tuple((o.name, number[o.func], o.component, places(o.starts), places(o.stops)) for o in p.outputs),
        p.structure,
        p.sizes,
        p.location,
        dict(p.statics),
        p.signature,
        p.digest,
    )  # fmt: skip


def pipeline_of(record: tuple[Any, ...]) -> Pipeline:
    """The pipeline that data say, of Funcs and arrays of its own."""
    name, params, told, funcs, rows, ranges, definitions, outputs, structure, sizes, location, *rest = record
    statics, signature, digest = rest
    tensors = [_tensor(t) for t in told]
    domains = [Domain({}, x[2]) for x in ranges]

    def attribute(op: str, attr: Any) -> Any:
        if op == "load":
            return (tensors[attr[0]], attr[1]) if isinstance(attr[0], int) else attr
        return (domains[attr[0]], attr[1]) if op == "rvar" else attr

    nodes = nodes_of(rows, attribute)

    def at(places: Iterable[int]) -> tuple[Node, ...]:
        return tuple([nodes[k] for k in places])

    for t, x in zip(tensors, told, strict=True):
        array = t if isinstance(t, Array) else t.inout
        if array is not None:
            array.extents = at(x[2])
    for domain, (ends, predicates, _) in zip(domains, ranges, strict=True):
        domain.ranges.update({n: (nodes[a], nodes[b]) for n, a, b in ends})
        domain.predicates, domain.frozen = at(predicates), True
    for f, number, lhs, values, domain, place in definitions:
        owner = tensors[f]
        assert isinstance(owner, Func)
        made = Definition(owner, number, at(lhs), at(values), None if domain is None else domains[domain], place)
        if number < 0:
            owner.init = made
        else:
            owner.updates.append(made)
    for k in funcs:
        tensors[k].frozen_by = f"it became part of {name}"  # type: ignore[union-attr]
    p = Pipeline(
        name, tuple(ScalarParam(*q) if isinstance(q, tuple) else tensors[q] for q in params),  # type: ignore[misc]
        tuple(tensors[k] for k in funcs),  # type: ignore[misc]
        tuple(Output(n, tensors[f], c, at(a), at(b)) for n, f, c, a, b in outputs),  # type: ignore[arg-type]
        structure, sizes, location, statics, signature,
    )  # fmt: skip
    p.__dict__["digest"] = digest  # what the property would find, at the cost of walking through it all
    return p


def _tensor(told: tuple[Any, ...]) -> Array | Func:
    """An array, an `inout` or a Func, still without what is made of nodes."""
    func, name, extents = told[:3]
    if extents is None:
        made = Func(name)
        made.dtypes, made.declared = told[3:]
        return made
    array = Array(name, told[3], ())
    return InoutFunc(array) if func else array


__all__ = ["Rows", "nodes_of", "nodes_record", "pipeline_of", "pipeline_record"]

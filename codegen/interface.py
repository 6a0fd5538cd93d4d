"""The signature of a compiled variant: the pipeline's parameters and outputs in the order of the C interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codegen.runtime.table import OPERATIONS
from tilewright.codegen.signature import ArrayParam, Role, ScalarParam, Signature, StrideClass, Structure
from tilewright.lang import simplify
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.types import index

CONTIGUOUS, UNIT, ANY = "contiguous", "unit", "any"  # stride classes of an argument
_MANY_STEPS = 100  # of an extent


def argument_roles(p: Pipeline) -> list[tuple[str, Role, str, tuple[Node, ...]]]:
    """(name, role, NumPy dtype name, extents) of every argument: inputs, tables, outputs."""
    inouts = {f.inout for f in p.inouts}
    out: list[tuple[str, Role, str, tuple[Node, ...]]] = []
    for a in p.arrays:
        out.append((a.name, "inout" if a in inouts else "in", a.dtype.np.name, a.extents))
    for t in p.tables:
        out.append((t.name, "const", t.dtype.np.name, t.extents))
    for o in p.outputs:
        out.append((f"out.{o.name}", "out", o.dtype.np.name, o.extents))
    return out


def signature(
    p: Pipeline, classes: tuple[str, ...], keyword_only: tuple[str, ...] = (), given_sizes: tuple[str, ...] = ()
) -> Signature:
    """The signature for the given stride class of every argument; `given_sizes` are those that the call gives."""
    numbers = {("size", n): k for k, n in enumerate(p.sizes)} | {("scalar", s.name): k for k, s in enumerate(p.scalars)}
    arrays = tuple(
        ArrayParam(name, dtype, role, tuple(_extent(e, numbers) for e in extents), _strides(c, len(extents)))
        for (name, role, dtype, extents), c in zip(argument_roles(p), classes, strict=True)
    )
    scalars = tuple(ScalarParam(s.name, s.dtype.np.name) for s in p.scalars)
    names = tuple(q.name for q in p.params if q.name not in keyword_only)
    return Signature(p.name, p.sizes, arrays, scalars, names, keyword_only, _structure(p.structure), given_sizes)


def _strides(stride_class: str, rank: int) -> tuple[StrideClass, ...]:
    if stride_class == CONTIGUOUS:
        return ("packed",) * (rank - 1) + ("unit",) if rank else ()
    if stride_class == UNIT:
        return ("any",) * (rank - 1) + ("unit",) if rank else ()
    return ("any",) * rank


def _extent(e: Node, numbers: Mapping[tuple[str, str], int]) -> tuple[Any, ...]:
    coefs, c = simplify.linear(e)
    if not coefs:
        return ("const", c)
    if all(t.op == "size" for t in coefs):
        terms = tuple((k, numbers["size", t.attr]) for t, k in coefs.items())
        if c == 0 and len(terms) == 1 and terms[0][0] == 1:
            return ("size", terms[0][1])
        return ("linear", c, terms)
    steps: list[tuple[Any, ...]] = []
    return ("expr", tuple(steps) if _steps(e, numbers, steps) else ())


def _steps(n: Node, numbers: Mapping[tuple[str, str], int], out: list[tuple[Any, ...]]) -> bool:
    """Put the steps of an index expression behind those of `out`; False where it is none of whole numbers alone, or a
    long one."""
    if n.op == "const":
        out.append(("const", int(n.attr)))
        return n.dtype is index
    if n.op in ("size", "scalar"):
        out.append((n.op, numbers[n.op, n.attr]))
        return n.dtype is index or n.dtype.is_int
    if not all(_steps(a, numbers, out) for a in n.args) or len(out) > _MANY_STEPS:
        return False
    if n.op == "cast" and n.dtype is index:
        return True
    out.append((n.op,))
    return n.op in OPERATIONS and (n.dtype is index or (n.dtype.is_bool and n.args[0].dtype is index))


def _structure(structure: Any) -> Structure:
    if structure is None:
        return "none"
    if structure == 0 and not isinstance(structure, bool):
        return "single"
    if type(structure) is tuple and structure == tuple(range(len(structure))):
        return "tuple"
    return "other"

"""Hypothesis strategies for expressions, indices and pipelines of every kind, shared by the tests of all rooms.

Import them as `from tests.strategies import expression_cases` (see tests/kernels.py for why that works). A case is a
pipeline with the arrays to call it with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilewright.lang import expr, ir, types
from tilewright.lang.boundary import wrap_around
from tilewright.lang.expr import Expr, bitcast, cast, clamp, inside, maximum, minimum, select
from tilewright.lang.func import func
from tilewright.lang.pipeline import Pipeline, make_pipeline
from tilewright.lang.symbols import Var, rdom, sizes
from tilewright.lang.tensors import Array
from tilewright.lang.types import DTYPES, DType, bool_, i64

I, J = Var("i"), Var("j")
M, N = sizes("M N")
COMPUTE: tuple[DType, ...] = tuple(t for t in DTYPES.values() if not t.is_storage_only)
_SAME_WIDTH = {32: ("i32", "u32", "f32"), 64: ("i64", "u64", "f64"), 16: ("i16", "u16"), 8: ("i8", "u8")}


@dataclass(frozen=True)
class Case:
    """A pipeline and arrays (by parameter name) to call it with."""

    pipeline: Pipeline
    arrays: dict[str, np.ndarray]

    def __repr__(self) -> str:
        shown = "\n".join(
            f"  {d.func.name}[{d.number}] {list(d.lhs)} = {list(d.values)}" for d in self.pipeline.definitions()
        )
        return f"Case(\n{shown}\n  {self.arrays})"


# Values ---------------------------------------------------------------------------------------------------------


def elements(t: DType) -> st.SearchStrategy[Any]:
    """Values of a type, with its extremes and the special floats often among them."""
    if t.is_bool:
        return st.booleans()
    if t.is_int:
        edges = [t.low, t.low + 1, 0, 1, t.high - 1, t.high, *([-1] if t.kind == "i" else [])]
        return st.sampled_from(edges) | st.integers(t.low, t.high)
    plain = st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 1e-40, 1e5, 6e4, 2.0**31, 1e30, np.inf, -np.inf, np.nan])
    return plain | st.floats(width=32) if t is not types.f64 else plain | st.floats()


def arrays(t: DType, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Arrays of a type and shape."""
    count = int(np.prod(shape, dtype=int))

    def make(values: list) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array(values, np.float64 if t.is_float else t.np).astype(t.np).reshape(shape)

    return st.lists(elements(t), min_size=count, max_size=count).map(make)


# Expressions ----------------------------------------------------------------------------------------------------


class _Grower:
    """Draws an expression of a given type; one array of every storage type is there to be read."""

    def __init__(self, draw: Any, tables: dict[str, Array], index: Any):
        self.draw, self.tables, self.index = draw, tables, index

    def one(self, t: DType, depth: int) -> Expr:
        if depth <= 0 or self.draw(st.integers(0, 9)) == 0:
            return self.leaf(t)
        kind = self.draw(st.sampled_from(self.kinds(t)))
        return getattr(self, f"_{kind}")(t, depth - 1)

    def kinds(self, t: DType) -> list[str]:
        if t.is_bool:
            return ["logic", "compare", "compare", "select"]
        shared = ["arithmetic"] * 3 + ["extreme", "negative", "select", "cast", "cast", "mixed"]
        return shared + (["divide", "unary", "unary", "rounded"] if t.is_float else ["divide", "bits", "shift"])

    def leaf(self, t: DType) -> Expr:
        names = [n for n, a in self.tables.items() if a.dtype.compute is t]
        if t in (i64, types.f64) and self.draw(st.integers(0, 3)) == 0:
            return cast(t, self.draw(st.sampled_from([I, N])) * self.draw(st.integers(-3, 3)) + 1)
        return self.tables[self.draw(st.sampled_from(names))][self.index]

    def literal(self, t: DType) -> Any:
        if t.is_int:
            return self.draw(st.sampled_from([0, 1, 2, 3, 7, t.low, t.high]) | st.integers(t.low, t.high))
        return self.draw(st.sampled_from([0.0, -0.0, 1.0, 0.5, -2.0, 0.1, 3.0, 1e10]))

    def other(self, t: DType, depth: int) -> Any:
        """A second operand: an expression, or a literal now and then."""
        return self.literal(t) if self.draw(st.integers(0, 3)) == 0 else self.one(t, depth)

    def pair(self, t: DType, depth: int) -> tuple[Any, Any]:
        a, b = self.one(t, depth), self.other(t, depth)
        return (b, a) if self.draw(st.booleans()) else (a, b)

    def _arithmetic(self, t: DType, depth: int) -> Expr:
        return expr.binary(self.draw(st.sampled_from(["add", "sub", "mul"])), *self.pair(t, depth))

    def _mixed(self, t: DType, depth: int) -> Expr:
        """Operands of different types that promote to t."""
        narrower = [u for u in COMPUTE if types.promote(t, u) is t and not u.is_bool]
        return self.one(t, depth) + self.one(self.draw(st.sampled_from(narrower)), depth)

    def _extreme(self, t: DType, depth: int) -> Expr:
        return self.draw(st.sampled_from([maximum, minimum]))(*self.pair(t, depth))

    def _negative(self, t: DType, depth: int) -> Expr:
        return expr.unary(self.draw(st.sampled_from(["neg", "abs"])), self.one(t, depth))

    def _divide(self, t: DType, depth: int) -> Expr:
        a, b = self.pair(t, depth)
        if t.is_float:
            return expr.divide(a, b)
        return expr.binary(self.draw(st.sampled_from(["floordiv", "mod"])), a, b)

    def _bits(self, t: DType, depth: int) -> Expr:
        if self.draw(st.integers(0, 3)) == 0:
            return ~self.one(t, depth)
        return expr.bitwise(self.draw(st.sampled_from(["and", "or", "xor"])), *self.pair(t, depth))

    def _shift(self, t: DType, depth: int) -> Expr:
        count = self.draw(st.integers(0, 70)) if self.draw(st.booleans()) else self.one(t, depth)
        if isinstance(count, int) and count > t.high:
            count = t.bits
        return expr.shift(self.draw(st.sampled_from(["shl", "shr"])), self.one(t, depth), count)

    def _unary(self, t: DType, depth: int) -> Expr:
        fn = self.draw(st.sampled_from([expr.sqrt, expr.floor, expr.ceil, expr.round, expr.trunc]))
        return fn(self.one(t, depth))

    def _rounded(self, t: DType, depth: int) -> Expr:
        return cast(t, cast(self.draw(st.sampled_from([types.f16, types.bf16])), self.one(t, depth)))

    def _cast(self, t: DType, depth: int) -> Expr:
        if self.draw(st.integers(0, 4)) == 0:
            u = DTYPES[self.draw(st.sampled_from(_SAME_WIDTH[t.bits]))]
            x = self.one(u, depth)
            if u.is_float and not t.is_float:
                x = select(x == x, x, 0.0)  # the bits of a NaN are nobody's business
            return bitcast(t, x)
        return cast(t, self.one(self.draw(st.sampled_from(COMPUTE)), depth))

    def _select(self, t: DType, depth: int) -> Expr:
        return select(self.one(bool_, depth), self.one(t, depth), self.one(t, depth))

    def _compare(self, t: DType, depth: int) -> Expr:
        u = self.draw(st.sampled_from([c for c in COMPUTE if not c.is_bool]))
        return expr.compare(self.draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])), *self.pair(u, depth))

    def _logic(self, t: DType, depth: int) -> Expr:
        if self.draw(st.integers(0, 3)) == 0:
            return ~self.one(t, depth)
        return expr.bitwise(self.draw(st.sampled_from(["and", "or", "xor"])), self.one(t, depth), self.one(t, depth))


@st.composite
def expression_cases(draw: Any, depth: int = 4, length: int = 7) -> Case:
    """A kernel of one element-wise expression over arrays of all types (those that are read become parameters)."""
    tables = {t.name: Array(f"x_{t.name}", t, (N.node,)) for t in DTYPES.values()}
    t = draw(st.sampled_from(list(DTYPES.values())))
    value = _Grower(draw, tables, I).one(t.compute, depth)
    f = func("out", t)
    f[I] = value
    return _with_values(draw, f[:N], list(tables.values()), {"N": length})


@st.composite
def sum_cases(draw: Any, depth: int = 2) -> Case:
    """A kernel that reduces an expression of any type over an axis, with and without a predicate."""
    tables = {t.name: Array(f"x_{t.name}", t, (M.node, N.node)) for t in DTYPES.values()}
    t = draw(st.sampled_from([t for t in DTYPES.values() if not t.is_bool]))
    r = rdom(r=N)
    if draw(st.booleans()):
        limit = draw(st.sampled_from([I, cast(i64, tables["i8"][I, r])]))
        r = r.where(r <= limit)
    value = _Grower(draw, tables, (I, r)).one(t.compute, depth)
    f = func("out", t)
    f[I] = cast(t.compute, 1)
    step = draw(st.sampled_from(["add", "sub", "mul", "max", "min", "select"]))
    named = select(r >= 0, value, value)  # names the domain, whatever was drawn
    if step == "select":
        f[I] = select(f[I] < named, named - 1 if t.is_int else named * 0.5, f[I])
    else:
        f[I] = expr.binary(step, f[I], named)
    return _with_values(draw, f[:M], list(tables.values()), {"M": 3, "N": draw(st.integers(0, 9))})


def _with_values(draw: Any, returned: Any, inputs: list[Array], extents: dict[str, int]) -> Case:
    used = {n.attr[0] for d in returned.func.definitions for n in ir.leaves(d.roots, "load")}
    params = [a for a in inputs if a in used]
    if not any(n.attr == s for a in params for e in a.extents for n in ir.leaves([e], "size") for s in extents):
        params.append(inputs[0])  # something must say how long the result is
    p = make_pipeline(returned, params)
    given = {}
    for a in params:
        given[a.name] = draw(arrays(a.dtype, tuple(extents[e.attr] for e in a.extents)))
    return Case(p, given)


# Index expressions and pipelines --------------------------------------------------------------------------------


@st.composite
def indices(draw: Any, atoms: list[Expr], fancy: bool = True) -> Expr:
    """A random index expression over `atoms`; an affine one unless `fancy`."""
    e = draw(st.sampled_from(atoms)) * draw(st.integers(-2, 2)) + draw(st.integers(-3, 3))
    if draw(st.booleans()):
        e = e + draw(st.sampled_from(atoms))
    if not fancy:
        return e
    kind = draw(st.sampled_from(["", "", "div", "mod", "min", "max", "select", "clamp"]))
    lo = draw(st.integers(-2, 3))
    if kind == "div":
        e = e // draw(st.integers(1, 3))
    elif kind == "mod":
        e = e % draw(st.integers(1, 4))
    elif kind in ("min", "max"):
        other = draw(st.sampled_from(atoms)) * draw(st.integers(-1, 1)) + lo
        e = minimum(e, other) if kind == "min" else maximum(e, other)
    elif kind == "select":
        at = draw(st.sampled_from(atoms))
        e = select(inside(at, lo, lo + draw(st.integers(0, 4))), at, e)
    elif kind == "clamp":
        e = clamp(e, lo, lo + 2)
    return e


@st.composite
def pipelines(draw: Any, legal: bool = False) -> Pipeline:
    """An input A: i64[M, N] and up to three Funcs, some with updates (recursions, folds, scatters, predicates), with
    random reads between them. Unless `legal`, the input is as a rule too small for what is read of it."""
    A = Array("A", i64, (M.node, N.node))
    sources: list[Any] = [wrap_around(A, name="A_all") if legal else A]
    for number in range(draw(st.integers(1, 3))):
        f = func(f"f{number}")
        at: list[Expr] = [I, J, N]
        src = draw(st.sampled_from(sources))
        value = src[draw(indices(at)), draw(indices(at))]
        if draw(st.booleans()):
            other = draw(st.sampled_from(sources))
            c = draw(indices(at, fancy=False)) < draw(st.integers(-3, 5))
            value = select(c, value, other[draw(indices(at)), draw(indices(at))])
        f[I, J] = value
        if draw(st.booleans()):
            r = rdom(r=(draw(st.integers(-1, 1)), draw(st.sampled_from([0, 2, N]))), q=draw(st.integers(0, 2)))
            if draw(st.booleans()):
                r = r.where(r.r + r.q < draw(st.sampled_from([I, N, I + 2])))
            step = src[draw(indices([I, r.r, r.q])), draw(indices([I, r.r, r.q]))]
            if draw(st.booleans()):
                f[I, draw(indices([r.r, r.q]))] = f[I, draw(indices([r.r, r.q]))] + step
            else:
                f[I, r.r] += step
        sources.append(f)
    lo = draw(st.integers(-2, 2))
    return make_pipeline(sources[-1][lo : M + lo, 0:N], [A])


@st.composite
def pipeline_cases(draw: Any) -> Case:
    """A random pipeline with a small input that is read through a periodic boundary condition: every read is legal."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    return Case(draw(pipelines(legal=True)), {"A": draw(arrays(types.i8, shape)).astype(np.int64)})

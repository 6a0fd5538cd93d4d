"""Random pipelines for the round trip of the text form: every operation, awkward names, shared parts, tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tilewright.lang import expr, math
from tilewright.lang.errors import TilewrightError
from tilewright.lang.expr import Expr
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.ir import TRUE, node
from tilewright.lang.ir import const as constant
from tilewright.lang.pipeline import Pipeline, ScalarParam, make_pipeline
from tilewright.lang.symbols import Size, Var, naming, rdom
from tilewright.lang.tensors import Array, const
from tilewright.lang.text import rules
from tilewright.lang.types import DTYPES, DType, f32

NAMES = ["i", "j", "k", "M", "N", "n", "t1", "let", "over", "f32", "inf", "select", "size"]
TYPES = list(DTYPES.values())
FLOATS = st.floats(allow_subnormal=True)


@st.composite
def constants(draw: st.DrawFn, t: DType) -> Expr:
    """A constant of the type (compute types only)."""
    t = t.compute
    if t.is_bool:
        return Expr(constant(draw(st.booleans()), t))
    if t.is_float:
        return Expr(constant(float(t.np.type(draw(st.floats(width=t.bits)))), t))
    return Expr(constant(draw(st.integers(t.low, t.high)), t))


class _Pool:
    """Expressions that are built upon each other at random; what breaks a typing rule is left out."""

    def __init__(self, draw: st.DrawFn, tensors: list, leaves: list[Expr]):
        self.draw, self.tensors, self.found = draw, tensors, list(leaves)

    def any(self) -> Expr:
        last = len(self.found) - 1
        back = min(last, 4) if self.draw(st.booleans()) else last  # mostly on what is new, so that they grow deep
        return self.found[last - self.draw(st.integers(0, back))]

    def value(self) -> object:
        kind = self.draw(st.integers(0, 9))
        if kind == 0:
            return self.draw(st.integers(-3, 300))
        return self.draw(FLOATS) if kind == 1 else self.any()

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            made = self._step()
            if made is not None:
                self.found.append(made)

    def _step(self) -> Expr | None:
        draw = self.draw
        kind = draw(st.sampled_from(["binary", "load", "function", "cast", "const", "unary", "math", "raw"]))
        try:
            if kind == "binary":
                return rules.binary(draw(st.sampled_from(sorted(rules.SYMBOLS))), self.value(), self.value())
            if kind == "load":
                t = draw(st.sampled_from(self.tensors))
                ref = t[tuple(self.any() for _ in range(t.ndim if isinstance(t, Array) else t.rank))]
                if isinstance(t, Func) and len(t.dtypes) > 1:
                    return ref.component(draw(st.integers(0, len(t.dtypes) - 1)))
                return Expr(expr.to_node(ref))
            if kind == "function":
                name = draw(st.sampled_from(sorted(rules.FUNCTIONS)))
                least = rules.FUNCTIONS[name][0]
                return rules.FUNCTIONS[name][2](self.any(), *(self.value() for _ in range(least - 1)))
            if kind == "cast":
                t = draw(st.sampled_from(TYPES))
                return draw(st.sampled_from([expr.cast, expr.bitcast]))(t, self.any())
            if kind == "const":
                return draw(constants(draw(st.sampled_from(TYPES))))
            if kind == "unary":
                return draw(st.sampled_from([lambda x: -x, lambda x: ~x]))(self.any())
            if kind == "math":
                return draw(st.sampled_from([math.exp, math.sin]))(self.any())
            return self._raw(self.any(), self.any())
        except TilewrightError:
            return None

    def _raw(self, a: Expr, b: Expr) -> Expr:
        """A node that no constructor would build."""
        x, y = expr.to_node(a), expr.to_node(b)
        op = self.draw(st.sampled_from(["same", "add", "cast", "call"]))
        if op == "same":
            return Expr(node("select", x.dtype, (TRUE, x, x)))
        if op == "call":
            return Expr(node("call", f32, (x, y), "f"))
        return Expr(node("add", x.dtype, (x, y)) if op == "add" and x.dtype is y.dtype else node("cast", x.dtype, (x,)))

    def of_type(self, t: DType) -> Expr:
        """The last expression, as a value of a Func of type `t`."""
        made = self.found[-1] if self.draw(st.booleans()) else self.any()
        n = expr.to_node(made)
        return made if n.dtype is t and not t.is_storage_only else expr.cast(t.compute, made)

    def condition(self) -> Expr:
        for e in reversed(self.found):
            if expr.to_node(e).dtype.is_bool:
                return e
        return self.any() == 3


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """A pipeline that has a meaning, though hardly a use."""
    with naming():
        sizes = [Size(n) for n in ("M", "N", "let")]
        scalars = [ScalarParam(n, draw(st.sampled_from(TYPES))) for n in ("n", "N")]
        arrays = [
            Array(n, draw(st.sampled_from(TYPES)), tuple(draw(st.sampled_from(sizes)).node for _ in range(rank)))
            for n, rank in (("A", 2), ("over", 1), ("B", 0))
        ]
        table = const(draw(st.lists(st.integers(0, 200), max_size=4).map(lambda v: np.array(v, np.uint8))), "w")
        inout = InoutFunc(Array("X", draw(st.sampled_from(TYPES)), (sizes[0].node,)))
        outer = [*sizes, *(Expr(s.node) for s in scalars)]
        tensors: list = [*arrays, table, inout]
        updated = [inout]
        for name in draw(st.lists(st.sampled_from(["C", "t2", "where"]), min_size=1, max_size=2, unique=True)):
            f = Func(name, tuple(draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))))
            at = [Var(n) for n in draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))]
            pool = _Pool(draw, tensors, [*at, *outer])
            pool.grow(draw(st.integers(0, 12)))
            f[tuple(at)] = tuple(pool.of_type(t) for t in f.dtypes)
            tensors.append(f)
            updated.append(f)
        for f in updated:
            for _ in range(draw(st.integers(0, 2))):
                _update(draw, f, tensors, outer)
        outs = [f[tuple(slice(draw(st.integers(-2, 2)), s) for s in sizes[: f.rank])] for f in updated[1:]]
        shape = draw(st.sampled_from([tuple, list, lambda v: v[0], lambda v: {"a": v[0], "in": None, "x y": (v[-1],)}]))
        rank0 = [o if f.rank else f[()] for o, f in zip(outs, updated[1:], strict=True)]
        params = [arrays[0], *scalars, *arrays[1:], inout]
        return make_pipeline(shape(rank0), params, draw(st.sampled_from(["k", "kernel", "<lambda>"])))


def _update(draw: st.DrawFn, f: Func, tensors: list, outer: list) -> None:
    at = [Var(n) for n in draw(st.lists(st.sampled_from(NAMES), min_size=f.rank, max_size=f.rank, unique=True))]
    taken = [v.name for v in at]
    names = draw(st.lists(st.sampled_from([n for n in NAMES if n not in taken]), min_size=1, max_size=2, unique=True))
    domain = rdom(**{n: (draw(st.integers(-1, 1)), draw(st.sampled_from(outer[:3]))) for n in names})
    points = [Expr(n) for n in domain.domain.rvars]
    others = tensors[: tensors.index(f)]  # no cycles
    pool = _Pool(draw, others, [*at, *outer, *points])
    pool.grow(draw(st.integers(0, 8)))
    if draw(st.booleans()):
        domain.where(pool.condition())
    left = [draw(st.sampled_from([v, points[0] * 2 + 1])) for v in at]
    try:
        if len(f.dtypes) == 1 and draw(st.booleans()):
            old = f[tuple(left)]
            step = draw(st.sampled_from(["add", "sub", "mul", "div", "or", "min"]))
            value = pool.of_type(f.dtypes[0])
            made = expr.minimum(old, value) if step == "min" else rules.binary(step, old, value)
            f[tuple(left)] = made
        else:
            f[tuple(left)] = tuple(pool.of_type(t) for t in f.dtypes)
    except TilewrightError:
        return  # a Var that is not on the left, a type that does not fit: no update then

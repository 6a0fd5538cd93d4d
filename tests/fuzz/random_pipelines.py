"""Random pipelines of several stages, of every kind that a schedule treats differently, with arguments to call them.

`random_pipeline(choose)` draws with a function `choose(n)` that gives 0..n-1. Every Func may be read at any index: raw
inputs are read through boundary conditions, or where a select allows it. Stages of more special forms are in
special_stages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.lang import boundary, expr, reduce, types
from tilewright.lang.func import Func, InoutFunc, func
from tilewright.lang.pipeline import Pipeline, ScalarParam, make_pipeline
from tilewright.lang.symbols import Var, rdom, sizes
from tilewright.lang.tensors import Array
from tilewright.lang.types import DType

Choose = Callable[[int], int]
Source = tuple[int, Callable[..., Any]]  # rank, and the element at any index

M, N, K = sizes("M N K")
EXACT = [types.i32, types.i32, types.i64, types.i16, types.u8, types.i8, types.u32, types.u16]
FLOATS = [types.f32, types.f32, types.f64, types.bf16, types.f16]


@dataclass(frozen=True)
class Case:
    """A pipeline, and arguments by name. `exact`: integers, so that every order of a sum gives the same bits."""

    pipeline: Pipeline
    arrays: dict[str, np.ndarray]
    exact: bool
    extents: dict[str, int]

    def __repr__(self) -> str:
        lines = []
        for d in self.pipeline.definitions():
            where = f" over {d.rdom.ranges} where {list(d.predicates)}" if d.rdom else ""
            lines.append(f"  {d.func.name}[{d.number}] {list(d.lhs)} = {list(d.values)}{where}")
        outs = [f"  return {o.name}[{', '.join(f'{a!r}:{b!r}' for a, b in zip(o.starts, o.stops, strict=True))}]"
                for o in self.pipeline.outputs]  # fmt: skip
        return "\n".join(["Case(", *lines, *outs, f"  {self.extents})"])


@dataclass
class Maker:
    """A pipeline that is being made: its parameters, and what later stages may read."""

    choose: Choose
    t: DType  # the storage type of most Funcs
    sources: list[Source] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)
    count: int = 0
    table: Array | None = None
    places: Array | None = None
    lengths: Array = field(default_factory=lambda: Array("L", types.i64, (M.node,)))

    # Small things ---------------------------------------------------------------------------------------------

    def pick(self, items: Any) -> Any:
        items = list(items)
        return items[self.choose(len(items))]

    def name(self) -> str:
        self.count += 1
        return f"f{self.count}"

    def shift(self) -> int:
        return self.choose(5) - 2

    def value(self, x: Any) -> Any:
        """A value as one of the pipeline's type."""
        return x if x.node.dtype is self.t.compute else expr.cast(self.t.compute, x)

    def zero(self, v: Any) -> Any:
        """A zero that names a variable: its reduction domain is known whatever else is drawn."""
        return 0 * self.value(expr.cast(types.i64, v))

    def source(self) -> Source:
        """A recent Func more often than an old one."""
        k = self.choose(len(self.sources) + 2)
        return self.sources[min(k, len(self.sources) - 1)]

    def at(self, names: list[Any], fancy: bool = True) -> Any:
        """An index over some variables."""
        v = self.pick(names)
        kind = self.choose(8)
        if kind < 4 or not fancy:
            return v + self.shift()
        if kind == 4:
            return 2 * v + self.choose(2)
        if kind == 5:
            return v // 2
        if kind == 6:
            return self.pick([2, 3]) - v
        return v + self.pick(names)

    def read(self, names: list[Any]) -> Any:
        """An element of a source; its axes see the variables in order as a rule."""
        rank, element = self.source()
        if self.choose(4):
            at = [names[k % len(names)] + (self.shift() if self.choose(2) else 0) for k in range(rank)]
        else:
            at = [self.at(names) for _ in range(rank)]
        return self.value(element(*at))

    def combined(self, a: Any, b: Any) -> Any:
        kind = self.choose(9)
        if kind < 3:
            return a + b
        if kind == 3:
            return a - b
        if kind < 6:
            return a * b
        if kind == 6:
            return expr.maximum(a, b)
        if kind == 7:
            return expr.minimum(a, b)
        return expr.select(a < b, b, a)

    def expression(self, names: list[Any], depth: int = 2) -> Any:
        if depth == 0 or self.choose(5) < 2:
            return self.read(names)
        kind = self.choose(8)
        if kind == 0:
            v = self.pick(names)
            c = expr.inside(v, self.shift(), self.pick([3, M, N, K]))
            return expr.select(c, self.expression(names, depth - 1), self.expression(names, depth - 1))
        if kind == 1:
            return self.value(expr.cast(types.i64, self.pick(names) + self.pick([0, M, N]))) + self.read(names)
        if kind == 2 and not self.t.is_float:
            return self.expression(names, depth - 1) // 3
        if kind == 2:
            return expr.sqrt(expr.unary("abs", self.expression(names, depth - 1)))
        return self.combined(self.expression(names, depth - 1), self.expression(names, depth - 1))

    def add(self, f: Func, rank: int) -> None:
        if len(f.dtypes) > 1:
            self.sources.insert(0, (rank, lambda *at: f[at][0]))
            self.sources.insert(0, (rank, lambda *at: f[at][1]))
        else:
            self.sources.insert(0, (rank, lambda *at: f[at]))

    # Inputs ---------------------------------------------------------------------------------------------------

    def inputs(self) -> None:
        shapes = [(M, N), (N,), (K, N), (M, K)]
        for k in range(1 + self.choose(5) // 2):
            shape = self.pick(shapes)
            a = Array(f"A{k}", self.t, tuple(n.node for n in shape))
            self.params.append(a)
            self.bounded(a, shape)
        if not any(any(e.attr == "K" for e in p.extents if e.op == "size") for p in self.params):
            self.params.append(Array("Z", types.i64, (M.node, K.node)))
        have = {e.attr for p in self.params for e in p.extents}
        missing = [n for n in (M, N, K) if n.node.attr not in have]
        if missing:
            self.params.append(Array("Y", types.i64, tuple(n.node for n in missing)))
        if self.choose(5) == 0:
            alpha = ScalarParam(
                "alpha", self.t if self.t in (types.i32, types.i64, types.f32, types.f64) else types.i64
            )
            self.params.append(alpha)
            self.sources.append((0, lambda: expr.wrap(alpha.node)))

    def bounded(self, a: Any, shape: tuple) -> None:
        """A tensor read through one of the boundary conditions, or only where it is."""
        kind = (0, 0, 0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5, 6, 6)[self.choose(15)]
        rank = len(shape)
        if kind < 5:
            conditions = (boundary.repeat_edge, boundary.wrap_around, boundary.reflect, boundary.reflect_interior)
            made = boundary.constant_exterior(a, 3) if kind == 4 else conditions[kind](a)
            self.sources.append((rank, lambda *at: made[at]))
        elif kind == 5:
            limited = lambda at: tuple(expr.clamp(i, 0, n - 1) for i, n in zip(at, shape, strict=True))  # noqa: E731
            self.sources.append((rank, lambda *at: a[limited(at)]))
        else:

            def element(*at: Any) -> Any:
                c = expr.inside(at[0], 0, shape[0])
                for i, n in zip(at[1:], shape[1:], strict=True):
                    c = c & expr.inside(i, 0, n)
                return expr.select(c, a[at], 1)

            self.sources.append((rank, element))

    # Stages ---------------------------------------------------------------------------------------------------

    def range(self) -> Any:
        return self.pick([K, K, N, 3, 4, (1, K), (1, N), (-1, 2), (0, 8)])

    def where(self, d: Any, var: Any, outer: list[Any]) -> None:
        """Now and then a predicate: a triangle, data, or a constant."""
        kind = self.choose(6)
        if kind == 0 and outer:
            d.where(var <= self.pick(outer))
        elif kind == 1 and outer:
            d.where(var < self.lengths[expr.clamp(outer[0], 0, M - 1)])
            if self.lengths not in self.params:
                self.params.append(self.lengths)
        elif kind == 2:
            d.where(var % 2 == 0)

    def declared(self, rank: int) -> tuple[Func, list[Any]]:
        return func(self.name(), self.t), [Var(n) for n in ("i", "j", "l")[:rank]]

    def pure(self) -> None:
        rank = self.pick([1, 2, 2, 2, 3])
        f, at = self.declared(rank)
        f[tuple(at)] = self.expression(at)
        self.add(f, rank)

    def reduction(self) -> None:
        rank = self.pick([0, 1, 1, 2, 2, 2])
        f, at = self.declared(rank)
        f[tuple(at)] = self.pick([0, 1, 5]) if self.choose(3) or not at else self.expression(at, 1)
        d = rdom(k=self.range(), q=self.pick([2, 3, K])) if self.choose(3) == 0 else rdom(k=self.range())
        named = [d.k, d.q] if len(d.domain.ranges) > 1 else [d.k]
        self.where(d, named[-1], at)
        term = self.combined(self.read(at + named[:1]), self.read([*named, *at])) + self.zero(named[-1])
        kind = self.choose(7)
        me = f[tuple(at)]
        if kind < 4:
            f[tuple(at)] += term
        elif kind == 4:
            f[tuple(at)] = expr.maximum(me, term)
        elif kind == 5:
            f[tuple(at)] = me * self.pick([2, 1]) + term
        else:
            f[tuple(at)] *= term
        if self.choose(4) == 0:
            f[tuple(at)] = f[tuple(at)] * 2 + (self.read(at) if at else 1)
        self.add(f, rank) if rank else self.sources.insert(0, (0, lambda: f[()]))

    def scan(self) -> None:
        """A recursion along an axis, the other one being pure or not."""
        f, (i, j) = self.declared(2)
        f[i, j] = self.expression([i, j], 1)
        r = rdom(k=(1, self.pick([K, N, 4]))).k
        if self.choose(2):
            f[i, r] = self.combined(f[i, r - 1], self.read([i, r]))
        else:
            f[r, j] = f[r - 1, j] + f[r, j]
        self.add(f, 2)

    def histogram(self) -> None:
        f = func(self.name(), types.i32)
        b = Var("b")
        f[b] = self.pick([0, 2])
        d = rdom(y=self.pick([M, 3]), x=self.pick([N, K]))
        self.where(d, d.x, [d.y])
        f[expr.clamp(expr.cast(types.i64, self.read([d.y, d.x])), 0, 7)] += expr.cast(types.i32, 1 + d.x * 0)
        self.add(f, 1)

    def pair(self) -> None:
        rank = self.pick([1, 2])
        f, at = func(self.name(), (self.t, types.i64)), [Var(n) for n in ("i", "j")[:rank]]
        f[tuple(at)] = (self.expression(at, 1), expr.cast(types.i64, at[0]))
        if self.choose(3):
            r = rdom(k=self.range()).k
            a, b = f[tuple(at)][0], f[tuple(at)][1]
            f[tuple(at)] = (self.combined(a, self.read([*at, r])), b + expr.cast(types.i64, r) + self.value_as_i64(a))
        self.add(f, rank)

    def value_as_i64(self, x: Any) -> Any:
        return expr.cast(types.i64, expr.clamp(x, 0, 7)) if not self.t.is_float else expr.cast(types.i64, x < 1)

    def argument(self) -> None:
        f = func(self.name(), types.i64)
        i = Var("i")
        r = rdom(k=self.pick([K, N, 4])).k
        best = self.pick([reduce.argmax, reduce.argmin])
        f[i] = best(self.read([i, r]) + self.zero(r), name=f"{f.name}_arg")
        self.add(f, 1)

    def inline_sum(self) -> None:
        f, at = self.declared(self.pick([1, 2]))
        d = rdom(k=self.range())
        kind = self.pick([reduce.sum_, reduce.max_, reduce.sum_])
        value = kind(self.combined(self.read([*at, d.k]), self.read([d.k, *at])), over=d, name=f"{f.name}_r")
        f[tuple(at)] = self.value(value) + self.read(at)
        self.add(f, len(at))

    def several(self) -> None:
        """Several updates, at a constant and along constant ranges."""
        f, (i, j) = self.declared(2)
        f[i, j] = self.expression([i, j], 1)
        k = rdom(k=3).k
        f[i, k] += self.read([i, k])
        if self.choose(2):
            f[i, self.pick([0, 2, -1])] = self.read([i])
        if self.choose(2):
            f[i, j] = f[i, j] * 2
        self.add(f, 2)

    def inout(self) -> None:
        if any(isinstance(p, InoutFunc) for p in self.params):
            return self.pure()
        q = InoutFunc(Array("Q", self.t, (M.node, N.node)))
        i, j = Var("i"), Var("j")
        kind = self.choose(3)
        if kind == 0:
            d = rdom(k=self.pick([K, 3]))
            self.where(d, d.k, [i])
            q[i, j] += self.combined(self.read([i, d.k]), self.read([d.k, j]))
        elif kind == 1:
            r = rdom(k=(1, N)).k
            q[i, r] = q[i, r - 1] + self.read([i, r])
        else:
            q[i, j] = self.combined(q[i, j], self.read([i, j]))
        self.params.append(q)
        at = lambda a, b: q[expr.clamp(a, 0, M - 1), expr.clamp(b, 0, N - 1)]  # noqa: E731
        self.sources.insert(0, (2, at))
        return None

    def extended(self) -> None:
        """A boundary condition on a Func."""
        if not self.sources or self.sources[0][0] != 2:
            return self.pure()
        f, (i, j) = self.declared(2)
        f[i, j] = self.read([i, j])
        kind = self.pick([boundary.repeat_edge, boundary.wrap_around, boundary.reflect, boundary.reflect_interior])
        made = kind(f, (0, M), self.pick([None, (0, N), (1, N)]))
        self.sources.insert(0, (2, lambda *at: made[at]))
        return None

    def gather(self) -> None:
        """A load at a loaded place, where a condition on that place allows it, or one on another element."""
        f, (i, j) = self.declared(2)
        if self.table is None or self.places is None:
            self.table = Array("T", self.t, (N.node,))
            self.places = Array("I", self.pick([types.i64, types.i32]), (M.node,))
            self.params += [self.table, self.places]
        table, places = self.table, self.places
        at = places[expr.clamp(i + self.shift(), 0, M - 1)]
        kind = self.choose(3)
        if kind == 0:
            at = at + self.value_as(at, j)
        held = expr.inside(at, 0, self.value_as(at, N + 0))
        if kind == 1:
            held = held & (self.read([i, j]) < self.read([j, i]))
        f[i, j] = expr.select(held, table[at], self.read([i, j]))
        self.add(f, 2)

    def value_as(self, like: Any, v: Any) -> Any:
        return expr.cast(like.node.dtype, v)

    def output(self, rank: int, element: Callable[..., Any]) -> None:
        f, at = func(f"out{len(self.outputs)}"), [Var(n) for n in ("i", "j", "l")[: max(rank, 1)]]
        f[tuple(at)] = element(*at) if rank else element() + self.value(expr.cast(types.i64, at[0]))
        self.returned(f, max(rank, 1))

    def returned(self, f: Func, rank: int) -> None:
        stops = [self.pick([M, 3, N, 4]), self.pick([N, N, 5, K]), self.pick([2, K])][:rank]
        if rank == 1:
            stops = [self.pick([N, M, 5])]
        lows = [self.pick([0, 0, 0, -2, 1]) for _ in stops]
        self.outputs.append(f[tuple(slice(a, b + a if a else b) for a, b in zip(lows, stops, strict=True))])


STAGES: dict[str, Callable[[Maker], Any]] = {
    name: getattr(Maker, name)
    for name in ("pure", "reduction", "scan", "histogram", "pair", "argument", "inline_sum", "several", "inout",
                 "extended", "gather")
}  # fmt: skip
_COMMON = {"pure": 2, "reduction": 3, "moments": 0}  # those with 0: for directives that are made for them


def random_pipeline(
    choose: Choose, exact: bool | None = None, stages: int = 4, seed: int = 0, kinds: Sequence[str] = (),
) -> Case:  # fmt: skip
    """One to `stages` stages (of these `kinds` at first, if some are named) and one to three outputs that share them."""
    exact = bool(choose(3)) if exact is None else exact
    own = EXACT if exact else FLOATS
    m = Maker(choose, own[choose(len(own))])
    m.inputs()
    every = [n for n in STAGES for _ in range(_COMMON.get(n, 1))]
    for k in range(max(len(kinds), 1 + min(choose(stages), choose(stages)))):
        if choose(5) == 0:
            m.t = m.pick(own)
        STAGES[kinds[k] if k < len(kinds) else m.pick(every)](m)
    rank, element = m.sources[0]
    m.output(rank, element)
    for _ in range((0, 0, 0, 0, 1, 1, 2)[choose(7)]):
        m.output(*m.source())
    p = make_pipeline(tuple(m.outputs) if len(m.outputs) > 1 else m.outputs[0], m.params, "fuzzed")
    extents = random_extents(choose)
    return Case(p, arguments(p, extents, exact, seed), exact, extents)


def random_extents(choose: Choose) -> dict[str, int]:
    """Sizes from 0 to 70: mostly small ones, in one case of ten one that is large, in one of forty several."""
    top = (3, 6, 9, 9, 13, 18)[choose(6)]
    drawn = [choose(top + 1) or choose(top + 1) for _ in range(3)]  # few are 0
    if choose(10) == 0:
        drawn[choose(3)] = (23, 29, 31, 32, 37, 41, 47, 48, 53, 59, 61, 64, 67, 70)[choose(14)]
    elif choose(30) == 0:
        drawn = [choose(71) for _ in range(3)]
    return dict(zip("MNK", drawn, strict=True))


def arguments(p: Pipeline, extents: dict[str, int], exact: bool, seed: int) -> dict[str, Any]:
    """Small integers, in some calls also the largest of a type; or floats of mixed size with zeros of both signs and now
    and then what is no number or hardly one."""
    rng = np.random.default_rng(seed)
    extreme = rng.random() < 0.25
    out: dict[str, Any] = {}
    for q in p.params:
        a = q.inout if isinstance(q, InoutFunc) else q
        assert isinstance(a, (Array, ScalarParam))
        t = a.dtype
        shape = ()
        if isinstance(a, Array):
            shape = tuple(extents[e.attr] if e.op == "size" else e.attr for e in a.extents)
        if t.is_int:
            drawn = rng.integers(0 if t.kind == "u" else -9, 10, shape)
            ends = np.array([t.low, t.high, t.high - 1, 0], t.np)
            drawn = np.where(extreme & (rng.random(shape) < 0.15), rng.choice(ends, shape), drawn.astype(t.np))
        else:
            drawn = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3, shape)
            odd = [0.0, -0.0, 1.0, np.inf, *([-np.inf, np.nan, 3e38, 1e-40] if extreme else [])]
            drawn = np.where(rng.random(shape) < 0.1, rng.choice(odd, shape), drawn)
        with np.errstate(all="ignore"):
            made = np.asarray(drawn).astype(t.np)
        out[a.name] = made if isinstance(a, Array) else made[()]
    return out

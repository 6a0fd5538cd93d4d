"""Random graphs of operators, and of Funcs by hand with borders, for plans of which values must be the reference's.

`graph(choose)` builds one from choices alone: `choose(list)` picks an element, a Hypothesis draw or a random.Random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tilewright as tw
from tilewright import ops
from tilewright.hw import Machine, load_machine
from tilewright.kernels import Kernel, from_pipeline
from tilewright.lang import ir
from tilewright.lang.expr import wrap
from tilewright.lang.func import InoutFunc
from tilewright.lang.pipeline import ScalarParam, make_pipeline
from tilewright.lang.symbols import automatic_name, naming, to_index
from tilewright.lang.tensors import Array
from tilewright.planner.goal import OBJECTIVES, PHASES, Goal
from tilewright.planner.plan import Plan, make_plan

Choose = Callable[[Sequence[Any]], Any]
SIZES = (0, 1, 2, 3, 5, 7, 8, 13, 17, 33)
M, N, K = tw.sizes("M N K")
_NAMED = {"M": M, "N": N, "K": K}


def machines() -> dict[str, Machine]:
    """Machines for plans: one as it is, others with caches so small that everything is cut into tiles, and one with a
    scratchpad."""
    m = load_machine("skylake-sp")

    def with_caches(name: str, *sizes: int) -> Machine:
        return replace(m, name=name, caches=tuple(replace(c, size=s) for c, s in zip(m.caches, sizes, strict=True)))

    return {
        "skylake-sp": m,
        "small": with_caches("small", 1 << 13, 1 << 15, 1 << 17),
        "tiny": with_caches("tiny", 1 << 10, 1 << 11, 1 << 12),
        "toy": load_machine("toy"),
    }


@dataclass
class _Graph:
    choose: Choose
    params: list[Any] = field(default_factory=list)
    values: list[tuple[ops.Value, tuple[Any, ...]]] = field(default_factory=list)  # with extents: names or numbers

    def input(self, *shape: Any, dtype: Any = tw.f32) -> Array:
        made = Array(f"x{len(self.params)}", dtype, tuple(to_index(_extent(n), "an extent") for n in shape))
        self.params.append(made)
        return made

    def put(self, v: ops.Value, shape: Sequence[Any]) -> None:
        self.values.append((v, tuple(shape)))

    def take(self, rank: int | None = None) -> tuple[ops.Value, tuple[Any, ...]]:
        """One of the values, the last ones more often than others; a new input where none has that rank."""
        fitting = [x for x in self.values if rank is None or len(x[1]) == rank]
        if not fitting or self.choose([True] + [False] * 5):
            shape = tuple(self.choose(("M", "N", "K", 4, 3, 1)) for _ in range(rank or self.choose((1, 2, 2, 2, 3))))
            return ops.value(self.input(*shape)), shape
        return self.choose(fitting + fitting[-2:] * 2)


def _extent(n: Any) -> Any:
    return _NAMED.get(n, n)


# Steps: each adds a value ----------------------------------------------------------------------------------------


def _elementwise(g: _Graph) -> None:
    v, shape = g.take()
    f = g.choose((ops.relu, ops.tanh, ops.sigmoid, ops.gelu, ops.abs, lambda x: x * 0.5, lambda x: ops.exp(x * 0.1),
                  lambda x: ops.value(x) + 1.0))  # fmt: skip
    g.put(f(v), shape)


def _binary(g: _Graph) -> None:
    v, shape = g.take()
    same = [x for x, s in g.values if s == shape] or [v]
    other = g.choose([*same, ops.value(g.input(*shape)) if g.choose((True, False)) else v])
    f = g.choose((lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, ops.maximum, ops.minimum,
                  lambda a, b: ops.elementwise(lambda x, y: tw.select(x > y, x, y * 0.5), a, b)))  # fmt: skip
    g.put(f(v, other), shape)


def _with_rows(g: _Graph) -> None:
    """A value with what is reduced of it, stretched again."""
    v, shape = g.take(g.choose((2, 3)))
    axis = g.choose(range(len(shape)))
    f = g.choose((ops.sum, ops.max, ops.mean, ops.min))
    g.put(v - f(v, axis=axis, keepdims=True) * 0.5, shape)


def _reduced(g: _Graph) -> None:
    v, shape = g.take(g.choose((2, 3)))
    axis = g.choose(range(len(shape)))
    f = g.choose((ops.sum, ops.max, ops.mean, ops.variance, ops.log_sum_exp, ops.argmax))
    found = f(v, axis=axis)
    g.put(ops.cast(tw.f32, found) if f is ops.argmax else found, (*shape[:axis], *shape[axis + 1 :]))


def _normal(g: _Graph) -> None:
    v, shape = g.take(g.choose((2, 3)))
    f = g.choose((ops.softmax, ops.log_softmax, ops.layer_norm, ops.rms_norm, lambda x: ops.softmax(x, axis=0),
                  lambda x: ops.layer_norm(x, g.input(shape[-1]), g.input(shape[-1]))))  # fmt: skip
    g.put(f(v), shape)


def _linear(g: _Graph) -> None:
    v, shape = g.take(g.choose((2, 2, 3)))
    n = g.choose(("M", "N", 4, 8, 1))
    bias = g.input(n) if g.choose((True, False)) else None
    g.put(ops.linear(v, g.input(shape[-1], n), bias), (*shape[:-1], n))


def _matmul(g: _Graph) -> None:
    """Of two values of the graph, one of them turned where that is what fits."""
    v, shape = g.take(2)
    for w, other in reversed(g.values):
        if len(other) == 2 and other[0] == shape[1]:
            g.put(ops.matmul(v, w), (shape[0], other[1]))
            return
        if len(other) == 2 and other[1] == shape[1]:
            g.put(ops.matmul(v, w, transpose_b=True), (shape[0], other[0]))
            return
    g.put(ops.matmul(v, v, transpose_a=True), (shape[1], shape[1]))


def _moved(g: _Graph) -> None:
    v, shape = g.take(g.choose((2, 3)))
    kind = g.choose(("transpose", "flatten", "concat", "expand", "pad", "gather", "reverse"))
    if kind == "transpose":
        axes = g.choose(((1, 0),) if len(shape) == 2 else ((0, 2, 1), (2, 0, 1), (1, 0, 2)))
        g.put(ops.transpose(v, axes), [shape[k] for k in axes])
    elif kind == "flatten" and all(isinstance(n, int) for n in shape[-2:]):
        g.put(ops.flatten(v, len(shape) - 2), (*shape[:-2], shape[-2] * shape[-1]))
    elif kind == "concat" and isinstance(shape[-1], int):
        g.put(ops.concat([v, ops.value(g.input(*shape[:-1], 3))], axis=-1), (*shape[:-1], shape[-1] + 3))
    elif kind == "expand":
        g.put(ops.squeeze(ops.expand_dims(v, 1) * 2.0, 1), shape)
    elif kind == "pad" and isinstance(shape[-1], int):
        widths = [None] * (len(shape) - 1) + [(1, 2)]
        g.put(ops.pad(v, widths), (*shape[:-1], shape[-1] + 3))
    elif kind == "gather":
        n = g.choose(("N", 3))
        g.put(ops.gather(v, g.input(n, dtype=tw.i64)), (n, *shape[1:]))
    else:
        at = tw.vars("i j k")[: len(shape)]
        out = tw.func(automatic_name("reversed"))
        out[at] = v[(_extent(shape[0]) - 1 - at[0], *at[1:])]
        g.put(ops.Value(out, [_extent(n) for n in shape]), shape)


def _sliced(g: _Graph) -> None:
    fitting = [(v, s) for v, s in g.values if isinstance(s[-1], int) and s[-1] >= 3]
    if not fitting:
        return _moved(g)
    v, shape = g.choose(fitting)
    start = g.choose((0, 1, 2))
    g.put(ops.slice(v, *[None] * (len(shape) - 1), (start, None)), (*shape[:-1], shape[-1] - start))


def _stencil(g: _Graph) -> None:
    """A neighbourhood with a border; one after the other makes halos grow."""
    v, shape = g.take(2)
    border = g.choose((lambda x: tw.repeat_edge(x, (0, _extent(shape[0])), (0, _extent(shape[1]))),
                       lambda x: tw.constant_exterior(x, 0.5, (0, _extent(shape[0])), (0, _extent(shape[1])))))  # fmt: skip
    edge, (i, j) = border(v.source), tw.vars("i j")
    out = tw.func(automatic_name("near"))
    kind = g.choose(("rows", "columns", "both", "coarse", "far"))
    if kind == "rows":
        out[i, j] = edge[i, j - 1] + edge[i, j] * 2.0 + edge[i, j + 1]
    elif kind == "columns":
        out[i, j] = edge[i - 1, j] - edge[i + 1, j]
    elif kind == "both":
        out[i, j] = tw.exp(edge[i - 1, j - 1] * 0.1) + edge[i + 1, j + 1]
    elif kind == "coarse":
        out[i, j] = edge[i // 2, j] + edge[2 * i, j]
    else:
        out[i, j] = edge[i + 3, j - 2] * edge[i, j]
    g.put(ops.Value(out, [_extent(n) for n in shape]), shape)


def _chain_of_stencils(g: _Graph) -> None:
    """Funcs that are read beyond what is returned of them."""
    v, shape = g.take(2)
    edge, (i, j) = tw.repeat_edge(v.source, (0, _extent(shape[0])), (0, _extent(shape[1]))), tw.vars("i j")
    first, second = tw.func(automatic_name("first")), tw.func(automatic_name("second"))
    first[i, j] = tw.exp(edge[i, j] * 0.1) + edge[i, j + 1]
    second[i, j] = first[i - 1, j] + first[i, j] * first[i + 1, j]
    g.put(ops.Value(second, [_extent(n) for n in shape]), shape)


def _update(g: _Graph) -> None:
    """A Func with an update that reads itself along an axis."""
    v, shape = g.take(2)
    i, j = tw.vars("i j")
    r = tw.rdom(r=_extent(shape[1]))
    out = tw.func(automatic_name("running"))
    out[i, j] = 0.0
    out[i, r] = tw.select(r > 0, out[i, tw.maximum(r - 1, 0)], 0.0) * 0.5 + v[i, r]
    g.put(ops.Value(out, [_extent(n) for n in shape]), shape)


def _pair(g: _Graph) -> None:
    v, shape = g.take(2)
    i, j = tw.vars("i j")
    both, out = tw.func(automatic_name("pair")), tw.func(automatic_name("chosen"))
    both[i, j] = (v[i, j] * 2.0, tw.cast(tw.i32, j) + 1)
    out[i, j] = both[i, j][0] + tw.cast(tw.f32, both[i, _extent(shape[1]) - 1 - j][1])
    g.put(ops.Value(out, [_extent(n) for n in shape]), shape)


def _picture(g: _Graph) -> None:
    size, channels = g.choose((5, 6, 8)), g.choose((1, 3))
    x = ops.value(g.input("M", size, size, channels))
    kind = g.choose(("conv", "pool", "average", "depthwise"))
    if kind == "conv":
        n = g.choose((1, 4))
        made, shape = ops.conv2d(x, g.input(3, 3, channels, n), padding=1, stride=1), ("M", size, size, n)
    elif kind == "depthwise":
        made, shape = ops.depthwise_conv2d(x, g.input(3, 3, channels), padding=1), ("M", size, size, channels)
    else:
        f = ops.max_pool2d if kind == "pool" else ops.average_pool2d
        made, shape = f(x, 2, stride=2), ("M", size // 2, size // 2, channels)
    g.put(ops.flatten(ops.relu(made), 1), ("M", shape[1] * shape[2] * shape[3]))


def _attention(g: _Graph) -> None:
    heads, width = g.choose((1, 2)), g.choose((2, 4))
    q = g.input(1, heads, "M", width)
    k, v = (g.input(1, heads, "N", width) for _ in range(2))
    causal = g.choose((True, False))
    lengths = g.input(1, dtype=tw.i64) if not causal and g.choose((True, False)) else None
    found = ops.attention(q, k, v, causal=causal, lengths=lengths)
    g.put(ops.reshape(ops.transpose(found, (0, 2, 1, 3)), (M, heads * width)), ("M", heads * width))


def _cache(g: _Graph) -> None:
    """A row that is written into an array of the caller's, and read there."""
    v, shape = g.take(2)
    cache = InoutFunc(
        Array(f"x{len(g.params)}", tw.f32, tuple(to_index(n, "an extent") for n in (K, _extent(shape[1]))))
    )
    g.params.append(cache)
    at = ScalarParam(f"x{len(g.params)}", tw.i64)
    g.params.append(at)
    j = tw.vars("j")
    row = ops.max(v, axis=0)
    cache[tw.clamp(wrap(at.node), 0, K - 1), j] = tw.cast(tw.f32, row[j])
    g.put(ops.value(cache) * 1.0, ("K", shape[1]))


_STEPS = (
    _elementwise, _elementwise, _binary, _binary, _with_rows, _reduced, _normal, _normal, _linear, _linear, _matmul, _moved,
    _moved, _sliced, _stencil, _chain_of_stencils, _update, _pair, _picture, _attention, _cache,
)  # fmt: skip


def graph(choose: Choose, most: int = 9) -> Kernel:
    """A kernel of up to `most` operators."""
    g = _Graph(choose)
    with naming():
        for _ in range(choose(range(1, most + 1))):
            choose(_STEPS)(g)
        if all(isinstance(v.source, (Array, InoutFunc)) for v, _ in g.values):
            _elementwise(g)
        made = [v for v, _ in g.values if not isinstance(v.source, (Array, InoutFunc))]
        read = {
            n.attr[0] for v in made for d in v.source.definitions for n in ir.leaves(d.roots, "load")
            if n.attr[0] is not v.source
        }  # fmt: skip
        last = [v for v in made if v.source not in read]
        more = [v for v in made if v.source in read]
        results = [*last, *([choose(more)] if more and choose((True, False, False)) else [])]
        return from_pipeline(make_pipeline(tuple(results), g.params, "graph"))


@dataclass(frozen=True)
class Case:
    """A graph with what it is planned for, and the sizes at which it is run."""

    kernel: Kernel
    machine: str
    goal: Goal
    weights: tuple[str, ...]
    planned: dict[str, int]
    sizes: tuple[dict[str, int], ...]

    def plan(self) -> Plan:
        p = self.kernel.pipeline()
        given = {q.name: 1 for q in p.scalars}
        return make_plan(p, machines()[self.machine], {**given, **self.planned}, self.goal, self.weights)


def case(choose: Choose, most: int = 9) -> Case:
    """A graph and all that goes with it."""
    k = graph(choose, most)
    names = k.pipeline().sizes
    planned = {n: choose((1, 7, 40, 200, 1000)) for n in names}
    sizes = tuple({n: choose(s) for n in names} for s in ((5, 7, 17, 33, 40), SIZES, SIZES))
    goal = Goal(choose(list(OBJECTIVES)), choose((None, None, *PHASES)))
    arrays = [a.name for a in k.pipeline().params if isinstance(a, Array)]
    weights = tuple(n for n in arrays if choose((True, False))) if choose((True, False)) else ()
    names = list(machines())
    return Case(k, choose([*names[:-1], *names]), goal, weights, planned, sizes)

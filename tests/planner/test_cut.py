"""Parts of a pipeline compute what the whole computes, and equal layers are one algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import ops
from tilewright.kernels import from_pipeline
from tilewright.lang import ir
from tilewright.lang.func import InoutFunc
from tilewright.lang.pipeline import Pipeline, ScalarParam
from tilewright.lang.tensors import Array
from tilewright.planner.cut import Buffer, Part, cut

M, N, T, D = tw.sizes("M N T D")
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def flat(results) -> list:
    return [results] if isinstance(results, np.ndarray) else [a for r in results or () for a in flat(r)]


def run_parts(parts: list[Part], values: dict, sizes: dict) -> dict:
    """Run parts one after the other on arrays by name; what they leave, by name."""
    at = dict(values)
    for part in parts:
        args = [at[s.name] for s in part.inputs]
        own = {n: v for n, v in sizes.items() if n in part.pipeline.sizes}
        got = flat(from_pipeline(part.pipeline).reference(*args, sizes=own))
        at.update(zip((b.name for b in part.outputs), got, strict=True))
    return at


def in_parts(whole: Pipeline, ends: set[str]) -> list[Part]:
    """Cut after each Func of `ends` (and after outputs): every Func in one part."""
    parts, run = [], []
    for f in whole.funcs:
        run.append(f)
        if f.name in ends or f is whole.funcs[-1]:
            read_later = _read_outside(whole, run)
            results = {o.func for o in whole.outputs}
            parts.append(
                cut(whole, run, [g for g in run if g in read_later or g in results or isinstance(g, InoutFunc)])
            )
            run = []
    return parts


def _read_outside(whole: Pipeline, run: list) -> set:
    return {n.attr[0] for g in whole.funcs if g not in run for d in g.definitions for n in ir.leaves(d.roots, "load")}


@tw.kernel
def mixed(x: tw.f32[M, N], w: tw.f32[N, 4], past: tw.inout(tw.f32[M, 4]), at: tw.i64, alpha: tw.f32, n: tw.i64[M]):
    i, j = tw.vars("i j")
    border = tw.repeat_edge(x)
    blurred = tw.func("blurred")
    blurred[i, j] = border[i, j - 1] + border[i, j] * alpha + border[i, j + 1]
    pair = tw.func("pair")
    pair[i, j] = (blurred[i, j + 1] + 1.0, tw.cast(tw.i32, j) + 2)
    k = tw.rdom(k=(1, N))
    k = k.where(k < n[i] + 2)
    total = tw.func("total", tw.f32)
    total[i, j] = 0.5
    total[i, j] += pair[i, k - 1][0] * w[k, j] + tw.cast(tw.f32, pair[i, k][1])
    largest = tw.max(pair[i, k][0], over=k, name="largest")  # over the same domain
    past[tw.clamp(at, 0, M - 1), j] = total[0, j]
    out = tw.func("out")
    out[i, j] = past[i, j] * 2.0 + total[i, j] + largest
    return out[1:M, :4]


@given(st.sets(st.sampled_from([f.name for f in mixed.pipeline().funcs])))
def test_parts_compute_what_the_whole_does(ends):
    p = mixed.pipeline()
    x, w, past, n = normal(6, 9), normal(9, 4), normal(6, 4), RNG.integers(0, 9, 6)
    at, alpha = 3, np.float32(0.3)
    kept = past.copy()
    wanted = mixed.reference(x, w, kept, at, alpha, n)
    values = {"x": x, "w": w, "past": past, "at": at, "alpha": alpha, "n": n}
    got = run_parts(in_parts(p, ends), values, {"M": 6, "N": 9})
    np.testing.assert_array_equal(got["out"], wanted)
    np.testing.assert_array_equal(past, kept)


def test_a_part_says_what_it_takes_and_gives():
    p = mixed.pipeline()
    part = cut(p, [p.func("total")], [p.func("total")])
    assert [type(s) for s in part.inputs] == [Array, Buffer, Array, Buffer]
    assert [s.name for s in part.inputs] == ["n", "pair.0", "w", "pair.1"]
    assert [b.name for b in part.outputs] == ["total"]
    assert part.names["total"] == "total"
    assert part.names["input_3"] == "pair"


def test_a_func_may_be_in_several_parts():
    p = mixed.pipeline()
    f = [p.func(n) for n in ("blurred", "pair", "total")]
    alone, again = cut(p, f[:1], f[:1]), cut(p, f, f[2:])
    assert [s.name for s in alone.inputs] == ["x_edge", "alpha"]
    assert {s.name for s in again.inputs} == {"x_edge", "alpha", "n", "w"}
    assert all(isinstance(s, (Array, Buffer, ScalarParam)) for s in again.inputs)


@pytest.mark.parametrize("layers", [2, 12])
def test_equal_layers_are_one_algorithm(layers):
    def model(x, *weights):
        for k in range(layers):
            with tw.scope(f"layer{k}"):
                h = ops.layer_norm(x, weights[3 * k])
                h = ops.gelu(ops.linear(h, weights[3 * k + 1]))
                x = ops.value(x) + ops.linear(h, weights[3 * k + 2])
        return x

    names = [f"{c}{k}" for k in range(layers) for c in ("gamma", "up", "down")]
    scope = {"model": model}
    exec(f"def graph(x, {', '.join(names)}): return model(x, {', '.join(names)})", scope)
    graph = scope["graph"]
    shapes = {"gamma": (8,), "up": (8, 16), "down": (16, 8)}
    graph.__annotations__ = {"x": tw.f32[T, 8]} | {n: tw.f32[shapes[n.rstrip("0123456789")]] for n in names}
    k = tw.kernel(graph)
    p = k.pipeline()
    parts = in_parts(p, {f.name for f in p.funcs if f.name.endswith("add")})
    assert len(parts) == layers
    assert len({part.pipeline.digest for part in parts}) == 1
    values = {"x": normal(5, 8)} | {n: normal(*shapes[n.rstrip("0123456789")]) / 3 for n in names}
    last = parts[-1].outputs[-1].name
    np.testing.assert_array_equal(run_parts(parts, values, {"T": 5})[last], k.reference(*values.values()))


def test_a_region_that_goes_by_a_scalar():
    i, j = tw.vars("i j")

    @tw.kernel
    def row(x: tw.f32[N, 8], cache: tw.inout(tw.f32[N, 8]), at: tw.i64):
        w = tw.func("w")
        w[i, j] = x[i, j] * 2
        cache[at, j] = w[at, j] + 1
        return None

    x, at = normal(5, 8), 3
    expected, got = np.zeros((5, 8), np.float32), np.zeros((5, 8), np.float32)
    row.reference(x, expected, at)
    run_parts(in_parts(row.pipeline(), {"w"}), {"x": x, "cache": got, "at": at}, {"N": 5})
    np.testing.assert_array_equal(got, expected)
    assert got[3].all()

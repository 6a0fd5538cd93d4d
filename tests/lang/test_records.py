"""Pipelines as data and back: nothing is lost, nothing is shared with what was written."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given

import tilewright as tw
from tests.lang.any_pipeline import pipelines
from tilewright import ops
from tilewright.lang.binding import bind
from tilewright.lang.func import Func
from tilewright.lang.ir import integer, node, postorder, size
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.records import nodes_of, nodes_record, pipeline_of, pipeline_record
from tilewright.lang.reference import run
from tilewright.lang.symbols import rdom, vars
from tilewright.lang.tensors import const
from tilewright.lang.text import print_kernel
from tilewright.lang.types import index

M, N = tw.sizes("M N")
i, j = vars("i j")


def again(p: Pipeline) -> Pipeline:
    made = pipeline_of(pipeline_record(p))
    assert made.__dict__.pop("digest") == p.digest
    return made


def same(p: Pipeline, q: Pipeline) -> None:
    assert q.digest == p.digest
    assert print_kernel(q) == print_kernel(p)
    assert not {id(f) for f in (*p.funcs, *p.params)} & {id(f) for f in (*q.funcs, *q.params)}
    assert [q.name for q in q.params] == [q.name for q in p.params]
    assert (q.structure, q.sizes, q.statics, q.location) == (p.structure, p.sizes, p.statics, p.location)
    for f, g in zip(p.funcs, q.funcs, strict=True):
        assert (f.dtypes, f.declared, f.rank) == (g.dtypes, g.declared, g.rank)
        assert [d.location for d in f.definitions] == [d.location for d in g.definitions]
    inside = {*q.funcs, *q.params, *q.tables}
    for n in postorder(q.roots()):
        if n.op == "load":
            assert n.attr[0] in inside


@given(pipelines())
def test_any_pipeline(p):
    same(p, again(p))


@tw.kernel
def graph(x: tw.f32[M, 16], w: tw.f32[16, 16], cache: tw.inout(tw.f32[N, 16]), scale: tw.f32, at: tw.i32):
    h = ops.softmax(ops.linear(x, w) * scale)
    table = const(np.arange(16, dtype=np.float32), "table")
    k = rdom(k=16)
    k = k.where(k < at)
    rows = tw.func("rows")
    rows[i] = 0.0
    rows[i] += ops.value(h)[i, k] * table[k]
    cache[0, j] = rows[0] + cache[0, j]
    return {"rows": rows[:M], "all": (h,)}


def test_values_are_those_of_the_original():
    p = graph.pipeline()
    q = again(p)
    same(p, q)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((3, 16), (16, 16)))
    caches = [np.ones((4, 16), np.float32) for _ in range(2)]
    results = []
    for pipeline, cache in zip((p, q), caches, strict=True):
        results.append(tw.kernels.from_pipeline(pipeline).reference(x, w, cache, 0.5, 7))
    np.testing.assert_array_equal(*caches)
    np.testing.assert_array_equal(results[0]["rows"], results[1]["rows"])
    np.testing.assert_array_equal(results[0]["all"][0], results[1]["all"][0])


def test_tables_and_functions_are_the_objects_themselves():
    damp = tw.extern(lambda x: x * 0.5, result=tw.f64, args=(tw.f64,), name="damp")
    fill = tw.extern_stage(lambda out, a: None, "fill")
    weights = const(np.array([1.0, 2.0]), "weights")

    @tw.kernel
    def uses(A: tw.f64[M]):
        f, g = tw.func("f"), tw.func("g", tw.f64)
        f[i] = damp(A[i]) * weights[0]
        g[i] = fill(f.box[i : i + 1])
        return g[:M]

    q = again(uses.pipeline())
    assert q.tables == (weights,)
    found = [n.attr for n in postorder(q.roots()) if n.op in ("call_extern", "stage")]
    assert damp in found
    assert (fill, 0) in found


def test_a_parameter_that_is_written_and_not_read_stays_one():
    @tw.kernel
    def only(cache: tw.inout(tw.f32[M]), other: tw.inout(tw.f32[M])):
        cache[i] += 1.0

    q = again(only.pipeline())
    assert [f.name for f in q.inouts] == ["cache", "other"]
    assert [bool(f.updates) for f in q.inouts] == [True, False]


def test_nodes_that_share_parts_share_rows():
    n = node("mul", index, (size("M"), size("M")))
    for _ in range(60):
        n = node("add", index, (n, n))
    rows, at = nodes_record([n, integer(3)])
    assert len(rows) == 63
    made = nodes_of(rows)
    assert made[at[n]] is n
    assert made[at[integer(3)]] is integer(3)


def test_special_numbers_survive():
    values = [-0.0, 0.0, float("nan"), float("inf"), 1 / 3]
    nodes = [node("const", tw.f64, (), v) for v in values]
    rows, at = nodes_record(nodes)
    assert len(rows) == 5
    made = nodes_of(pickle.loads(pickle.dumps(rows)))
    assert [made[at[n]] for n in nodes] == nodes


def test_funcs_can_not_be_defined_again():
    q = again(graph.pipeline())
    f = next(f for f in q.funcs if f.name == "rows")
    with pytest.raises(tw.DefinitionError):
        f[i] = 1.0
    assert isinstance(f, Func)


def test_the_reference_runs_on_a_copy_of_a_large_graph():
    @tw.kernel
    def deep(x: tw.f32[M]):
        for _ in range(300):
            x = ops.relu(x) + 1
        return x

    q = again(deep.pipeline())
    assert len(q.funcs) == len(deep.pipeline().funcs)
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    np.testing.assert_array_equal(run(q, bind(q, [x])), deep.reference(x))

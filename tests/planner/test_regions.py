"""Regions of a graph: what is fused, and that the schedules made of them compute what the whole does."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.planner.graphs import machines
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.kernels import from_pipeline
from tilewright.lang import ir
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.tensors import Array
from tilewright.planner.cut import Buffer
from tilewright.planner.goal import Goal
from tilewright.planner.graph import make_graph
from tilewright.planner.model import Model
from tilewright.planner.nest import part_of, schedule_region
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program
from tilewright.planner.regions import form_regions

T, N, M, D = tw.sizes("T N M D")
RNG = np.random.default_rng(0)
MODEL = Model(load_machine("skylake-sp"))


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def regions_of(kernel, sizes):
    g = make_graph(kernel.pipeline(), sizes, MODEL)
    return g, form_regions(g, MODEL)


def run(kernel, sizes, *args):
    """Every region by its schedule, natively; the result of the last."""
    g, regions = regions_of(kernel, sizes)
    assert {f for r in regions for f in r.members} == set(g.kept)
    values = dict(zip((p.name for p in g.pipeline.params), args, strict=True))
    for r in regions:
        part = part_of(g, r)
        fast = from_pipeline(part.pipeline).compile(schedule_region(g, r, part)[0])
        own = {n: v for n, v in sizes.items() if n in part.pipeline.sizes}
        out = fast(*(values[s.name] for s in part.inputs), sizes=own)
        outs = out if isinstance(out, tuple) else (out,)
        values.update({b.func.name: o for b, o in zip(part.outputs, outs, strict=True)})
    return values[g.pipeline.outputs[0].func.name]


@tw.kernel
def block(
    x: tw.f32[T, 64], g: tw.f32[64], wqkv: tw.f32[64, 192], wo: tw.f32[64, 64], w1: tw.f32[64, 96], w2: tw.f32[96, 64]
):
    h = ops.layer_norm(x, g)
    q, k, v = (
        ops.transpose(ops.reshape(part, (1, T, 4, 16)), (0, 2, 1, 3)) for part in ops.split(ops.linear(h, wqkv), 3)
    )
    a = ops.attention(q, k, v, causal=True)
    x = ops.value(x) + ops.linear(ops.reshape(ops.transpose(a, (0, 2, 1, 3)), (T, 64)), wo)
    return x + ops.linear(ops.gelu(ops.linear(ops.layer_norm(x, g), w1)), w2)


@pytest.mark.parametrize("tokens", [1, 7, 33])
def test_a_transformer_block(tokens):
    args = normal(tokens, 64), normal(64), *(normal(*s) / 8 for s in ((64, 192), (64, 64), (64, 96), (96, 64)))
    np.testing.assert_allclose(run(block, {"T": tokens}, *args), block.reference(*args), rtol=1e-4, atol=1e-4)


def members(regions):
    return [[f.name for f in r.members] for r in regions]


def test_what_is_fused_in_a_block():
    g, regions = regions_of(block, {"T": 512})
    together = {name: r for r in map(set, members(regions)) for name in r}
    assert {"query", "score", "largest", "weight", "sums", "total_1"} <= together["score"]
    assert "gelu" in together["linear_2"]  # a product with its activation
    assert {"total", "mean", "layer_norm_squares", "layer_norm_scale"} <= together["layer_norm"]
    views = {f.name for f in g.inlined}
    assert {f"reshaped{k}" for k in ("", "_1", "_2")} <= views


@tw.kernel
def attention(q: tw.f32[1, 2, M, D], k: tw.f32[1, 2, N, D], v: tw.f32[1, 2, N, D]):
    return ops.attention(q, k, v, causal=True)


def test_long_attention_is_one_pass():
    _, regions = regions_of(attention, {"M": 4096, "N": 4096, "D": 64})
    region = regions[-1]
    assert region.group is not None
    assert [f.name for f in region.group.members] == ["largest", "sums", "total"]
    assert region.tile.block and region.tile.cuts[-1][1] < 4096


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (128, 128), (1, 300), (1000, 1000)])
def test_attention_in_one_pass_is_attention(queries, keys):
    args = normal(1, 2, queries, 32), normal(1, 2, keys, 32), normal(1, 2, keys, 32)
    sizes = {"M": queries, "N": keys, "D": 32}
    np.testing.assert_allclose(run(attention, sizes, *args), attention.reference(*args), rtol=1e-4, atol=1e-5)


@tw.kernel
def rows(x: tw.f32[M, N]):
    return ops.softmax(x)


def test_softmax_reads_its_rows_once():
    _, regions = regions_of(rows, {"M": 4096, "N": 1024})
    assert len(regions) == 1
    assert regions[0].tile.cuts[0][0] == 0
    x = normal(40, 100)
    np.testing.assert_allclose(run(rows, {"M": 40, "N": 100}, x), rows.reference(x), rtol=1e-5)


@tw.kernel
def in_place(cache: tw.inout(tw.f32[M, N]), new: tw.f32[N], at: tw.i64):
    i, j = tw.vars("i j")
    cache[tw.clamp(at, 0, M - 1), j] = new[j]
    out = tw.func("out")
    out[i, j] = cache[i, j] * 2.0
    return out[:M, :N]


def test_what_is_updated_in_place_stands_alone():
    _, regions = regions_of(in_place, {"M": 4, "N": 5, "at": 1})
    assert members(regions) == [["cache"], ["out"]]
    assert isinstance(regions[0].root, InoutFunc)
    assert all(isinstance(t, (Array, InoutFunc)) or t in regions[1].members for t in regions[1].runs)


@tw.kernel
def starts(x: tw.f32[M, N]):
    """The first values of a reduction alone read what could be a member."""
    i, j = tw.vars("i j")
    v, f = tw.func("v"), tw.func("f")
    v[i, j] = tw.exp(x[i, j])
    v[i, 0] = 1.0
    f[i, j] = v[i, j] * 2.0
    f[i, j] += x[i, tw.rdom(r=N)] * v[i, 0]
    return f[:M, :N]


@tw.kernel
def needed_again(q: tw.f32[M, 64], k: tw.f32[M, 64]):
    """What stands between the reductions of a softmax is read by the result too."""
    return ops.softmax(ops.matmul(ops.tanh(q), k, transpose_b=True))


@tw.kernel
def deep(x: tw.f32[M, 48], up: tw.f32[48, 96], down: tw.f32[96, 48]):
    for _ in range(20):
        x = ops.value(x) + ops.linear(ops.softmax(ops.linear(x, up)), down)
    return x


@pytest.mark.parametrize(
    ("kernel", "sizes", "shapes"),
    [
        (starts, {"M": 300, "N": 200}, [(30, 20)]),
        (needed_again, {"M": 40}, [(40, 64), (40, 64)]),
        (needed_again, {"M": 700}, [(70, 64), (70, 64)]),
        (deep, {"M": 64}, [(9, 48), (48, 96), (96, 48)]),
    ],
)
def test_regions_have_bounds(kernel, sizes, shapes):
    plan = make_plan(kernel.pipeline(), MODEL.machine, sizes)
    assert max(len(s.region.members) for s in plan.steps) <= 24
    args = [normal(*s) / 8 for s in shapes]
    np.testing.assert_allclose(Program(plan)(*args), kernel.reference(*args), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows", [7, 40])
def test_a_region_is_not_parted_where_a_part_needs_what_the_other_keeps(rows):
    """The sums of a softmax need its exponentials, which are computed where the quotients are."""

    @tw.kernel
    def columns(x: tw.f32[M, N]):
        return ops.softmax(x, axis=0)

    for name in ("tiny", "small"):
        plan = make_plan(columns.pipeline(), machines()[name], {"M": rows, "N": 4}, Goal("memory"))
        made: set = set()
        for step in plan.steps:
            assert {b for b in step.part.inputs if isinstance(b, Buffer)} <= made
            made |= set(step.part.outputs)


@tw.kernel
def normed_by_columns(x: tw.f32[M, N, 7]):
    """What a softmax reads is computed by several regions, of which a part is gathered around the exponentials."""
    near, out, last = tw.func("near"), tw.func("out"), tw.func("last")
    i, j, k = tw.vars("i j k")
    mirror = tw.reflect(x)
    most, e, total = tw.func("most"), tw.func("e"), tw.func("total")
    r = tw.rdom(r=M)
    most[j, k] = -1000.0
    most[j, k] = tw.maximum(most[j, k], mirror[r, j, k])
    e[i, j, k] = tw.exp(mirror[i, j, k] - most[j, k])
    total[j, k] = 0.0
    total[j, k] += e[r, j, k]
    near[i, j, k] = e[i - 2, j, k] / total[j, k] * (e[i + 2, j, k] / total[j, k])
    out[i, j, k] = near[i, j, k - 2] + near[i, j, k] + near[i, j, k + 2]
    last[i, j, k] = tw.maximum(out[i - 1, j, k], out[i, j, k]) - out[i + 1, j, k]
    return last[:M, :N, :7], out[:M, :N, :7]


@pytest.mark.parametrize("name", ["tiny", "small", "skylake-sp"])
@pytest.mark.parametrize("objective", ["latency", "traffic", "memory"])
def test_what_several_regions_compute_is_in_each_that_reads_it(name, objective):
    plan = make_plan(normed_by_columns.pipeline(), machines()[name], {"M": 512, "N": 512}, Goal(objective))
    made: set = set()
    for step in plan.steps:
        members = step.region.members
        assert {b for b in step.part.inputs if isinstance(b, Buffer)} <= made
        assert all(any(f in plan_reads(r) for r in members) for f in set(members) - {b.func for b in step.part.outputs})
        made |= set(step.part.outputs)


def plan_reads(f):
    """What a Func reads, through what is inlined into it."""
    found, todo = set(), [f]
    while todo:
        for d in todo.pop().definitions:
            for n in ir.leaves(d.roots, "load"):
                if isinstance(n.attr[0], Func) and n.attr[0] not in found:
                    found.add(n.attr[0])
                    todo.append(n.attr[0])
    return found

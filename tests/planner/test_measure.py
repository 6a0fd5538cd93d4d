"""What Funcs take, by hand and by counting a run."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright import ops
from tilewright.planner.measure import measure, together

M, N, K, B, D = tw.sizes("M N K B D")


@tw.kernel
def product(a: tw.f32[M, K], b: tw.f32[K, N], bias: tw.f32[N]):
    return ops.relu(ops.linear(a, b, bias))


def test_a_product_by_hand():
    p = product.pipeline()
    sizes = {"M": 5, "N": 7, "K": 11}
    works = {f.name: w for f, w in measure(p, sizes).items()}
    linear = works["linear"]
    assert linear.operations == {("fma", "f32"): 5 * 7 * 11}
    assert (linear.extents, linear.elements, linear.bytes) == ((5, 7), 35, 140)
    assert {t.name: n for t, n in linear.reads.items()} == {"a": 4 * 55, "b": 4 * 77}
    whole = together(measure(p, sizes), p.funcs, [o.func for o in p.outputs])
    assert (whole.read, whole.written) == (4 * (55 + 77 + 7), 140)
    assert whole.flops == 2 * 5 * 7 * 11 + 35 + 35
    assert whole.intensity == whole.flops / whole.bytes
    apart = together(measure(p, sizes), [p.func("linear")], [p.func("linear")])
    assert (apart.read, apart.written) == (4 * (55 + 77), 140)


@tw.kernel
def causal(q: tw.f32[B, 2, M, 4], k: tw.f32[B, 2, N, 4], v: tw.f32[B, 2, N, 4], past: tw.i64):
    return ops.attention(q, k, v, causal=True, past=past)


@pytest.mark.parametrize("past", [0, 3, 100])
def test_points_that_a_condition_rules_out_are_not_counted(past):
    sizes = {"B": 3, "M": 6, "N": 9}
    s = causal.schedule()
    for f in causal.pipeline().funcs[:-1]:
        s[f.name].compute_root()
    for name in ("total", "largest"):
        s[f"{name}.update"].unscheduled()  # else partial results count as stages of their own
    counted = causal.count(s, sizes=sizes, inputs={"past": past})
    works = {f.name: w for f, w in measure(causal.pipeline(), {**sizes, "past": past}).items()}
    for name, kind in (("score", "fma"), ("sums", "fma"), ("total", "add"), ("largest", "compare")):
        did = counted.stages[f"{name}.update"]
        wanted = did.evaluations - did.spare  # a register tile computes some beyond the end
        assert works[name].operations[kind, "f32"] == pytest.approx(wanted, rel=1e-12)


def test_large_domains_are_sampled():
    sizes = {"B": 1, "M": 1000, "N": 1000, "past": 0}
    works = {f.name: w for f, w in measure(causal.pipeline(), sizes).items()}
    share = works["total"].operations["add", "f32"] / (2 * 1000 * 1000)
    assert share == pytest.approx(0.5005, abs=0.03)


@tw.kernel
def window(x: tw.f32[M, N], n: tw.i64[M]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    k = k.where(k < n[i])
    pair = tw.func("pair")
    pair[i, j] = (x[i + 1, j] + x[i, j], tw.cast(tw.i64, j))
    out = tw.func("out")
    out[i] = 0.0
    out[i] += pair[i, k][0]
    return out[: M - 1]


def test_parts_tuples_and_conditions_on_data():
    works = {f.name: w for f, w in measure(window.pipeline(), {"M": 5, "N": 6}).items()}
    assert works["pair"].bytes == 4 * 6 * (4 + 8)
    assert {t.name: b for t, b in works["pair"].reads.items()} == {"x": 5 * 6 * 4}
    assert works["out"].operations == {("add", "f32"): 4 * 6}
    assert {t.name: b for t, b in works["out"].reads.items()} == {"pair": 4 * 6 * 12, "n": 4 * 8}


@tw.kernel
def rows(table: tw.f32[N, 8], which: tw.i64[M]):
    return tw.ops.gather(table, which)


def test_rows_that_data_choose_are_no_more_than_are_asked_for():
    for m, n, read in ((3, 1000, 3), (50, 20, 20)):
        (w,) = measure(rows.pipeline(), {"M": m, "N": n}).values()
        assert {t.name: b for t, b in w.reads.items()} == {"table": read * 8 * 4, "which": 8 * m}


def test_nothing_takes_nothing():
    works = measure(product.pipeline(), {"M": 0, "N": 7, "K": 11})
    assert all(w.bytes == 0 and not sum(w.operations.values()) for w in works.values())

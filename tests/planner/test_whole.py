"""The schedule of the whole says what the steps of a plan say: it can be written, read, checked and compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.lang import every_operator
from tests.planner import test_program, test_regions
from tilewright.hw import load_machine
from tilewright.kernels import from_pipeline
from tilewright.lang.func import InoutFunc
from tilewright.lang.pipeline import ScalarParam, array_of
from tilewright.lang.values import index_values
from tilewright.planner.cut import cut
from tilewright.planner.plan import Step, make_plan
from tilewright.planner.program import Program
from tilewright.planner.whole import whole_schedule
from tilewright.schedule.schedule import Schedule, parse_schedule

M, N, K, T = tw.sizes("M N K T")
MACHINE = load_machine("skylake-sp")


def arguments(p, sizes, seed=0):
    """Arrays and scalars for a pipeline."""
    rng, given = np.random.default_rng(seed), []
    for q in p.params:
        if isinstance(q, ScalarParam):
            given.append(q.dtype.np.type(1))
            continue
        a = array_of(q)
        shape = index_values(a.extents, sizes)
        normal = rng.standard_normal(shape).astype(a.dtype.np)
        given.append(normal if a.dtype.is_float else rng.integers(0, 3, shape).astype(a.dtype.np))
    return given


def flat(results):
    if isinstance(results, dict):
        return [a for r in results.values() for a in flat(r)]
    return [results] if isinstance(results, np.ndarray) else [a for r in results or () for a in flat(r)]


def alike(plan, sizes):
    """The whole's schedule is legal, can be read back, and computes what the steps compute, in place too."""
    s, p = whole_schedule(plan), plan.pipeline
    s.check()
    assert parse_schedule(str(s), p) == s
    mine, its = arguments(p, sizes), arguments(p, sizes)
    own = {n: v for n, v in sizes.items() if n in p.sizes}
    got = flat(from_pipeline(p).compile(s)(*mine, sizes=own))
    wanted = flat(Program(plan)(*its, sizes=own))
    for q, a, b in zip(p.params, mine, its, strict=True):
        if isinstance(q, InoutFunc):
            np.testing.assert_array_equal(a, b)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return s


GRAPHS = {
    "block": (test_regions.block, {"T": 300}, {"T": 33}),
    "one pass": (test_regions.attention, {"M": 300, "N": 4000, "D": 32}, {"M": 9, "N": 70, "D": 8}),
    "rows": (test_regions.rows, {"M": 600, "N": 6000}, {"M": 5, "N": 37}),
    "cache": (test_program.step, {"B": 2, "N": 64, "D": 8}, {"B": 3, "N": 16, "D": 8}),
    "pictures": (test_program.pictures, {"M": 400, "N": 500}, {"M": 17, "N": 6}),
    "read later": (test_program.both, {"M": 2000}, {"M": 40}),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plan_is_one_schedule(name):
    kernel, planned, sizes = GRAPHS[name]
    alike(make_plan(kernel.pipeline(), MACHINE, planned), sizes)


# Steps by hand: what a plan of today may not say ------------------------------------------------------------------


@tw.kernel
def twice(x: tw.f32[M, K], w: tw.f32[K, N], alpha: tw.f32):
    i, j = tw.vars("i j")
    scaled, product, low, high = (tw.func(n) for n in ("scaled2", "product", "low", "high"))
    k = tw.rdom(k=K)
    scaled[i, j] = x[i, j] * alpha
    product[i, j] += scaled[i, k.k] * w[k.k, j]
    low[i, j] = product[i, j] - 1.0
    high[i, j] = tw.exp(product[i + 2, j]) * product[i, j]
    return low[:M, :N], high[: M - 2, :N]


def by_hand(kernel, *steps):
    """A plan of steps: each the names of its Funcs, and what is written on its part (by names of the part)."""
    p = kernel.pipeline()
    plan = make_plan(p, MACHINE, dict.fromkeys(p.sizes, 20))
    made = []
    for names, write in steps:
        funcs = [f for f in p.funcs if f.name in names]
        part = cut(p, funcs, [funcs[-1]])
        s = Schedule(part.pipeline)
        write(s)
        made.append(Step(plan.steps[0].region, part, s))
    order = replace(plan.order, groups=(1,) * len(made), in_place={})
    return replace(plan, steps=tuple(made), order=order)


SIZES = {"M": 13, "N": 9, "K": 7}


def test_what_two_steps_compute_is_cloned():
    def first(s):
        s["scaled"].compute_root()
        s["product"].compute_at("low.i")
        s["low"].vectorize("j", 4)

    def second(s):
        s["high"].split("j", "jo", "ji", 4)
        s["product"].compute_at("high.jo")
        s["scaled"].compute_at("product.update.i")

    plan = by_hand(twice, (("scaled2", "product", "low"), first), (("scaled2", "product", "high"), second))
    s = alike(plan, SIZES)
    assert [d.kind for d in s.directives].count("clone") == 2


def test_what_is_inlined_in_both_is_not_cloned():
    both = lambda s: s["scaled"].compute_inline()  # noqa: E731
    plan = by_hand(twice, (("scaled2", "product", "low"), both), (("scaled2", "product", "high"), both))
    s = alike(plan, SIZES)
    assert [d.operands for d in s.directives if d.kind == "clone"] == [("product",)]


def test_copies_tiles_and_forms_have_names_of_their_own():
    def product(s):
        s["product.update"].split("k", "ko", "ki", 3)
        s.cache_read("input_1", at="product.update.ko", name="rows")
        s.cache_read("input", layout="k j -> j k")
        s.cache_write("product", at="product.update.i", memory="main", name="rows_1")
        s["scaled"].compute_root()

    def low(s):
        s.cache_read("input", at="low.i", name="rows")
        s["low"].specialize("stride(input, 1) == 1", "dense")
        s["low"].specialize("(stride(input, 0) == N) & (M % 2 == 1)", "odd").unroll("j", 3)

    def high(s):
        s.layout("input", "i j -> j i")
        s["high"].specialize("N % 3 == 0", "three").split("j", "jo", "ji", 3)

    plan = by_hand(twice, (("scaled2", "product"), product), (("low",), low), (("high",), high))
    alike(plan, SIZES)


@pytest.mark.parametrize(("condition", "left"), [("contiguous(input)", True), ("stride(input, 1) == 2", False)])
def test_forms_that_are_settled_in_the_whole(condition, left):
    """What passes between steps has rows: a form for that takes the stage's place, with what is computed in it."""

    def high(s):
        s["product"].compute_at("high.i")
        form = s["high"].specialize(condition, "dense")
        s["product_dense.update"].reorder("k", "j")
        form.vectorize("j", 4)
        s["product.init"].unroll("j", 2)
        s["high"].unroll("j", 2)

    steps = (("scaled2",), lambda s: None), (("product", "low"), lambda s: s["product"].compute_at("low.i"))
    plan = by_hand(twice, *steps, (("product", "high"), high))
    s = alike(plan, SIZES)
    written = {(d.kind, d.stage) for d in s.directives}
    assert (("vectorize", "high") in written) == left == (("unroll", "high") not in written)
    assert not [d for d in s.directives if d.kind == "specialize"]


def test_layouts_in_which_a_step_is_given_something():
    """Of a buffer both steps say it; of an input it is a copy, made in every call."""

    def scaled(s):
        s.layout("scaled", "i j -> j i", given=True)

    def product(s):
        s.layout("input", "a b -> b a", given=True)
        s.layout("input_1", "k j -> j//4 k j%4", given=True)
        s.cache_read("input_1", at="product.update.i")

    rest = [((n,), lambda s: None) for n in ("low", "high")]
    plan = by_hand(twice, (("scaled2",), scaled), (("product",), product), *rest)
    s, p = whole_schedule(plan), plan.pipeline
    assert [(d.kind, d.operands) for d in s.directives if d.kind in ("layout", "cache_read")] == [
        ("layout", ("scaled2",)), ("cache_read", ("w",)), ("cache_read", ("w_product",))
    ]  # fmt: skip
    given = arguments(p, SIZES)
    got, wanted = from_pipeline(p).compile(s)(*given), twice.reference(*given)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@tw.kernel
def shared(x: tw.f32[M, K]):
    i, j = tw.vars("i j")
    total, back, one, other, third = (tw.func(n) for n in ("total", "back", "one", "other", "third"))
    total[i] += x[i, tw.rdom(k=K)]
    back[i, j] = total[j] + x[j, i]
    one[i, j] = back[i, j] * 2.0
    other[i, j] = back[i, j] + 1.0
    third[i, j] = back[i, j] - 1.0
    return one[:K, :M], other[:K, :M], third[:K, :M]


def test_what_is_inlined_in_several_steps_and_reads_a_copy_in_one():
    """The copies of a step are its own: what reads them is cloned, and what no step says more of is not."""

    def total(s):
        s["total.update"].split("k", "k", "ki", 4)
        s["total.update"].rfactor("ki", "lanes")

    def one(s):
        s.cache_read("input", at="one.i", consumers="back")
        s["back"].compute_inline()

    def other(s):
        s.cache_read("input_1", layout="i k -> k i", consumers="back")
        s["back"].compute_inline()

    def third(s):
        s["total.update"].split("k", "k", "ki", 2)
        s["total.update"].rfactor("ki", "lanes")
        s["back"].compute_at("third.i")

    steps = (("total",), total), (("back", "one"), one), (("back", "other"), other), (("total", "back", "third"), third)
    s = alike(by_hand(shared, *steps), SIZES)
    assert [d.option("name") or d.operands for d in s.directives if d.kind == "clone"] == [
        ("back",),
        ("back",),
        ("total",),
    ]


@pytest.mark.parametrize("name", every_operator.GRAPHS)
def test_the_plan_of_every_operator_is_one_schedule(name):
    p = every_operator.kernel(name).pipeline()
    plan = make_plan(p, MACHINE, {n: every_operator.SIZES[n] * 9 for n in p.sizes})
    s = whole_schedule(plan)
    s.check()
    assert parse_schedule(str(s), p) == s

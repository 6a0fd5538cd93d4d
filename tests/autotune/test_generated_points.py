"""Every point of a generated space is legal and computes what the reference does, at sizes that it was not made for too."""

from __future__ import annotations

import importlib
import random

import pytest

import tilewright as tw
from tests.autotune.pipelines import (
    PRODUCTS,
    K,
    M,
    N,
    outcome,
    point_trial,
    product,
    product_extents,
    product_trial,
    random_trial,
)
from tests.fuzz.random_pipelines import Case
from tilewright.autotune import space
from tilewright.autotune.generate import GeneratedSpace
from tilewright.autotune.order import order_of, pinned

SIZES = {"M": 100, "N": 256, "K": 1000}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    choose = random.Random(1).randrange
    outcome(product_trial(1, PRODUCTS[name]), choose, product_extents(choose, PRODUCTS[name]))


@pytest.mark.parametrize("name", ["attention", "conv_layer", "int8_matmul"])
def test_products_among_others(name):
    p = getattr(importlib.import_module(f"examples.{name}"), name).pipeline()
    choose = random.Random(0).randrange
    outcome(product_trial(0, p), choose, product_extents(choose, p))


@pytest.mark.parametrize("seed", range(5))
def test_random_pipelines(seed):
    t = random_trial(seed)
    if t is not None:
        outcome(t, random.Random(seed).randrange)


def test_points_are_the_same_in_every_run():
    def drawn():
        made = GeneratedSpace(product(after=True), SIZES)
        rng = random.Random(3)
        return [p.hash for p in (space.sample(made, rng) for _ in range(4)) if p is not None]

    first = drawn()
    assert first == drawn() and len(set(first)) > 1


def test_a_small_space_ends():
    """Of a product of small sizes all points are found, each schedule once."""
    made = GeneratedSpace(product(), {"M": 1, "N": 1, "K": 2})
    found = [p.hash for p in space.points(made)]
    assert 1 < len(found) == len(set(found)) < 500


def test_few_choices_lead_to_nothing():
    made = GeneratedSpace(product(b="j k", after=True), SIZES)
    rng = random.Random(0)
    points = [space.draw(made, space.at_random(rng)) for _ in range(30)]
    assert sum(p is None for p in points) <= 3


def test_no_order_changes_where_it_is_fixed():
    made = GeneratedSpace(product(), SIZES, mode="strict")
    rng = random.Random(0)
    for _ in range(10):
        p = space.sample(made, rng)
        assert p is not None and not p.schedule.state.reassociations


@tw.kernel
def weighted(Q: tw.f32[M, K], Keys: tw.f32[N, K], V: tw.f32[N, K]):
    """Values weighted by how near keys are to queries: a product whose rows another stage may compute one by one."""
    i, j, d = tw.vars("i j d")
    n, e = tw.rdom(n=N), tw.rdom(e=K)
    near, out = tw.func("near"), tw.func("out")
    near[i, j] = 0.0
    near[i, j] += Q[i, e] * Keys[j, e]
    largest = tw.max(near[i, n], over=n, name="largest")
    weight = tw.func("weight")
    weight[i, j] = tw.exp(near[i, j] - largest)
    out[i, d] = 0.0
    out[i, d] += weight[i, n] * V[n, d]
    return out[:M, :K]


def test_one_order_holds_wherever_stages_are_computed():
    """The default schedule adds up in lanes what is computed for a row at a time, and in order what is a whole product."""
    p = weighted.pipeline()
    made = GeneratedSpace(p, {"M": 7, "N": 200, "K": 64}, order="fixed")
    rng = random.Random(7)
    found = [space.draw(made, space.at_random(rng)) for _ in range(25)]
    assert {order_of(q.schedule, "contract") for q in found if q is not None} == {pinned(p)}
    assert 0 < found.count(None) < 10 and space.draw(made, space.usual) is not None


def test_a_point_for_large_sizes_is_right_at_none():
    t = point_trial(Case(PRODUCTS["bytes"], {}, True, {}), 5, "integers", SIZES)
    outcome(t, random.Random(5).randrange, {"M": 0, "N": 5, "K": 3})

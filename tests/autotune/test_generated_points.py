"""Every point of a generated space is legal and computes what the reference does, at sizes that it was not made for too."""

from __future__ import annotations

import importlib
import random

import pytest

from tests.autotune.pipelines import (
    PRODUCTS,
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


def test_a_point_for_large_sizes_is_right_at_none():
    t = point_trial(Case(PRODUCTS["bytes"], {}, True, {}), 5, "integers", SIZES)
    outcome(t, random.Random(5).randrange, {"M": 0, "N": 5, "K": 3})

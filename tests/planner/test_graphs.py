"""Plans of random graphs have the reference's values, whatever they are planned for and at all sizes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planner.campaign import apart
from tests.planner.graphs import case, graph
from tilewright.codegen.judge import takes
from tilewright.planner.validate import validate


@given(st.data())
@settings(max_examples=4, deadline=None)
def test_a_plan_computes_what_the_graph_says(data):
    c = case(lambda options: data.draw(st.sampled_from(list(options))), most=3)
    p = c.kernel.pipeline()
    plan = c.plan()
    for sizes in (s for s in c.sizes[1:] if takes(p, s, {})):
        found = validate(plan, sizes, every=False)
        assert not found.faults, found


def test_all_kinds_of_steps_come_up():
    names = {f.name.split("_")[0] for s in range(60) for f in graph(random.Random(s).choice).pipeline().funcs}
    for kind in ("softmax", "matmul", "linear", "attention", "near", "pooled", "gathered", "running", "pair"):
        assert kind in names


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(200))
def test_campaign(seed):
    assert not apart(seed)

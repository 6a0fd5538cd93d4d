"""Drawings of graphs: boxes do not overlap, edges lead downwards, equal layers are found."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.planner.reports.graph_picture import Repeat, repeats, step_edges
from tilewright.planner.reports.layered import layered


@st.composite
def graphs(draw):
    n = draw(st.integers(0, 14))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []
    sizes = draw(st.lists(st.tuples(st.floats(5, 300), st.floats(5, 90)), min_size=n, max_size=n))
    return sizes, sorted(edges)


@given(graphs())
def test_boxes_are_apart_and_edges_lead_down(graph):
    sizes, edges = graph
    d = layered(sizes, edges)
    assert [(b.width, b.height) for b in d.boxes] == sizes
    for k, a in enumerate(d.boxes):
        assert a.x >= -1e-6 and a.x + a.width <= d.width + 1e-6
        assert a.y >= 0 and a.y + a.height <= d.height + 1e-6
        for b in d.boxes[:k]:
            beside = a.x + a.width <= b.x + 1e-6 or b.x + b.width <= a.x + 1e-6
            assert beside or a.y + a.height <= b.y or b.y + b.height <= a.y
    for (a, b), path in zip(edges, d.paths, strict=True):
        above, below = d.boxes[a], d.boxes[b]
        assert path[0] == pytest.approx((above.x + above.width / 2, above.y + above.height))
        assert path[-1] == pytest.approx((below.x + below.width / 2, below.y))
        assert all(y0 <= y1 for (_, y0), (_, y1) in pairwise(path))


@given(graphs())
def test_long_edges_go_around_boxes(graph):
    sizes, edges = graph
    d = layered(sizes, edges)
    for path in d.paths:
        for (x, y0), (x1, y1) in pairwise(path):
            if x == x1 and y1 - y0 > 1e-6 and len(path) > 2:  # a way through a row
                passed = [
                    b for b in d.boxes if b.x + 1e-6 < x < b.x + b.width - 1e-6 and b.y < (y0 + y1) / 2 < b.y + b.height
                ]
                assert not passed


def test_drawings_are_the_same_each_time():
    sizes, edges = [(50.0, 20.0)] * 9, [(0, 3), (1, 3), (2, 8), (3, 4), (3, 5), (4, 6), (5, 6), (0, 7), (6, 8)]
    assert layered(sizes, edges) == layered(sizes, edges)


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        ([], []),
        ([1, 2, 3], []),
        ([1, 1], []),
        ([1, 1, 1], [Repeat(0, 1, 3)]),
        ([0, 1, 2, 1, 2, 1, 2, 3], [Repeat(1, 2, 3)]),
        ([0, 1, 0, 1, 5, 6, 7, 6, 7], [Repeat(0, 2, 2), Repeat(5, 2, 2)]),
        ([0, 0, 1, 0, 0, 1, 0, 0, 1], [Repeat(0, 3, 3)]),
    ],
)
def test_equal_layers(kernels, found):
    assert list(repeats(kernels)) == found


@given(st.lists(st.integers(0, 2), max_size=24))
def test_what_stands_for_a_step_has_its_kernel(kernels):
    for r in repeats(kernels):
        assert all(kernels[k] == kernels[r.stands_for(k)] for k in range(r.first, r.end))
        assert r.end <= len(kernels)


def test_a_step_waits_for_what_is_updated_in_place():
    steps = [
        {"inputs": ["keys", "k"], "outputs": [], "updates": ["keys"]},
        {"inputs": ["q", "keys"], "outputs": ["out"], "updates": []},
        {"inputs": ["out"], "outputs": ["y"], "updates": []},
    ]
    assert step_edges(steps) == [(0, 1), (1, 2)]

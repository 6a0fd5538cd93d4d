"""Layers of VGG-16 and ResNet-50 under output-, weight- and row-stationary mappings, and small random mappings: the counts
of schedules are those of closed forms over tiles."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.published.arrays import WAYS, skeleton, words
from tests.published.enumerated import enumerated
from tests.published.mappings import Level, Mapping, counted, kernel, scheduled


def agree(m: Mapping, way) -> None:
    k = kernel(m)
    s = scheduled(m, k)
    got = way(k, s)
    expected = counted(m)
    for level in m.levels:
        kept = [t for t in "WIO" if level is m.levels[0] or t in level.keeps]
        found = words(got, level.memory, *kept)
        assert found == {t: expected[level.memory][t] for t in kept}, (level.memory, m, str(s))


VGG_CONV3_2 = {
    "output stationary": Mapping((
        Level("dram", (("p", 4), ("q", 4), ("k", 16))),
        Level("glb", (("c", 256), ("r", 3), ("s", 3)), (("k", 16), ("q", 14))),
        Level("rf", (("p", 14),), keeps="O"),
    )),
    "weight stationary": Mapping((
        Level("dram", (("k", 16), ("c", 16), ("r", 3), ("s", 3))),
        Level("glb", (("p", 56), ("q", 56)), (("k", 16), ("c", 16))),
        Level("rf", (), keeps="W"),
    )),
    "weight stationary, inputs in turn": Mapping((
        Level("dram", (("k", 16), ("c", 16), ("r", 3), ("s", 3), ("p", 8))),
        Level("glb", (("p", 7), ("q", 56)), (("k", 16), ("c", 16)), keeps="IO"),
        Level("rf", (), keeps="W"),
    )),
    "row stationary": Mapping((
        Level("dram", (("k", 4), ("c", 16), ("p", 4))),
        Level("glb", (("k", 4), ("c", 4)), (("r", 3), ("p", 14))),
        Level("spad", (("q", 56), ("k", 16), ("c", 4), ("s", 3))),
    ), slides=frozenset({("glb", "I")})),
    "row stationary in clusters that share a buffer": Mapping((
        Level("dram", (("p", 4), ("k", 4), ("c", 4))),
        Level("glb", (("c", 8), ("k", 4)), (("p", 14), ("k", 4))),
        Level("cluster", (("q", 4),), (("r", 3), ("c", 2))),
        Level("spad", (("q", 14), ("c", 4), ("k", 4), ("s", 3))),
    )),
    "weight stationary in clusters that keep inputs": Mapping((
        Level("dram", (("k", 8), ("c", 4))),
        Level("glb", (("p", 56), ("k", 2)), (("c", 8), ("k", 4))),
        Level("cluster", (("r", 3), ("s", 3), ("q", 4)), (("c", 8), ("k", 4)), keeps="IO"),
        Level("rf", (("q", 14),), keeps="WO"),
    )),
}  # fmt: skip
RESNET = {
    "conv1": Mapping((
        Level("dram", (("p", 8), ("q", 2), ("k", 4))),
        Level("glb", (("q", 4), ("c", 3), ("r", 7)), (("k", 16), ("p", 14))),
        Level("spad", (("s", 7), ("q", 14)), keeps="WO"),
    ), stride=2),
    "conv3_x, 3 x 3 with stride": Mapping((
        Level("dram", (("n", 2), ("k", 8), ("p", 7), ("c", 8))),
        Level("glb", (("q", 2), ("p", 2)), (("k", 16), ("c", 4), ("r", 3))),
        Level("spad", (("p", 2), ("c", 4), ("q", 14), ("s", 3))),
    ), stride=2),
    "conv1, windows with gaps between clusters": Mapping((
        Level("dram", (("q", 8), ("k", 4))),
        Level("glb", (("r", 7), ("p", 4)), (("p", 7), ("k", 4))),
        Level("cluster", (("k", 2),), (("p", 4), ("c", 3)), keeps="WI"),
        Level("spad", (("k", 2), ("s", 7), ("q", 14))),
    ), stride=2),
    "conv4_1, 1 x 1 with stride": Mapping((
        Level("dram", (("k", 16), ("c", 8), ("p", 2))),
        Level("glb", (("k", 4), ("c", 4)), (("k", 4), ("p", 7))),
        Level("cluster", (("c", 4),), (("q", 14),)),
        Level("spad", (("k", 4), ("c", 4))),
    ), stride=2),
    "conv5_x, 1 x 1": Mapping((
        Level("dram", (("c", 8), ("k", 32))),
        Level("glb", (("k", 4), ("p", 7)), (("c", 16), ("k", 16))),
        Level("spad", (("q", 7), ("c", 4))),
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", VGG_CONV3_2)
def test_vgg(name):
    m = VGG_CONV3_2[name]
    assert m.sizes == {"n": 1, "k": 256, "c": 256, "r": 3, "s": 3, "p": 56, "q": 56}
    agree(m, skeleton)


@pytest.mark.parametrize("name", RESNET)
def test_resnet(name):
    agree(RESNET[name], skeleton)


@pytest.mark.parametrize("levels", [
    (Level("dram"), Level("glb", (("c", 4),)), Level("rf", (("k", 3), ("p", 3)))),
    (Level("dram"), Level("l2", (("c", 2),)), Level("l1", (("r", 3),)), Level("rf", (("c", 2), ("q", 5)))),
    (Level("dram"), Level("glb", (("c", 4),), (("k", 2),)), Level("rf", (("k", 3), ("p", 3)))),
    (Level("dram"), Level("glb", (("r", 3),)), Level("rf", (("k", 3), ("c", 2)), keeps="WI")),
])  # fmt: skip
def test_sums_that_are_whole_in_several_memories(levels):
    for way in WAYS:
        agree(Mapping(levels), way)


@pytest.mark.parametrize("levels", [
    (  # weights that elements keep and copy further in
        Level("dram", (("p", 3),), (("c", 3),)), Level("l2", (), (("c", 2),)),
        Level("l1", (("c", 3), ("k", 3))), Level("rf", (("k", 2), ("r", 3))),
    ),
    (  # weights whose copies are vectors of which some lanes are off
        Level("dram", (("s", 3), ("p", 3))), Level("l2", (), (("s", 2),)), Level("l1", (("s", 2),), (("r", 2), ("k", 3))),
        Level("rf", (), keeps="WI"),
    ),
    (  # sums that elements have whole in two memories
        Level("dram", (("s", 2),), (("c", 2),)), Level("l2", (), (("s", 2), ("r", 2)), keeps="W"),
        Level("l1"), Level("rf", (("p", 2), ("q", 3))),
    ),
])  # fmt: skip
def test_what_elements_keep_while_tiles_around_move(levels):
    for way in WAYS:
        agree(Mapping(levels), way)


@st.composite
def mappings(draw, most: int = 6000) -> Mapping:
    """Two to four memories with a few short loops each."""
    many = draw(st.integers(2, 4))
    levels, product = [], 1

    def some(most: int) -> tuple[tuple[str, int], ...]:
        return tuple(
            (d, draw(st.integers(2, 3))) for d in draw(st.permutations("kcrspq"))[: draw(st.integers(0, most))]
        )

    for k in range(many):
        temporal, spatial = some(3), some(2) if k + 1 < many else ()
        keeps = "".join(t for t in "WIO" if draw(st.integers(0, 3)))
        levels.append(Level(f"m{k}", temporal, spatial, keeps if k else "WIO"))
        for _, n in (*temporal, *spatial):
            product *= n
    assume(product <= most)
    return Mapping(tuple(levels), draw(st.integers(1, 3)))


# a loop over q is parted where a condition moves with the array: elements at one iteration must stay in one part
@example(Mapping((Level("m0", (("k", 3), ("q", 3)), (("q", 2), ("r", 2))), Level("m1", keeps="IO")), stride=3))
@settings(max_examples=10)
@given(mappings())
def test_small_mappings(m):
    for way in WAYS:
        agree(m, way)


@settings(max_examples=40)
@given(mappings(600))
def test_closed_forms_are_what_is_enumerated(m):
    closed, found = counted(m), enumerated(m)
    for memory, rows in found.items():
        assert rows == {t: closed[memory][t] for t in rows}

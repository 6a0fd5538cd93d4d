"""Halide's lesson 5, written down here: ten ways to run one gradient, as printed nests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.schedule.algorithms import gradient
from tests.schedule.helpers import good
from tilewright.schedule.schedule import Schedule


def default(s: Schedule) -> None:
    pass


def column_major(s: Schedule) -> None:
    s["gradient"].reorder("x", "y")


def split(s: Schedule) -> None:
    s["gradient"].split("x", "xo", "xi", 2)


def fused(s: Schedule) -> None:
    s["gradient"].fuse("y", "x", "t")


def tiled(s: Schedule) -> None:
    s["gradient"].tile("y", "x", "yo", "xo", "yi", "xi", 4, 4)


def vectors(s: Schedule) -> None:
    s["gradient"].split("x", "xo", "xi", 4).vectorize("xi")


def unrolled(s: Schedule) -> None:
    s["gradient"].split("x", "xo", "xi", 2).unroll("xi")


def guarded(s: Schedule) -> None:
    s["gradient"].split("x", "xo", "xi", 3)


def shifted(s: Schedule) -> None:
    s["gradient"].split("x", "xo", "xi", 3, tail="shift")


def parallel_tiles(s: Schedule) -> None:
    s["gradient"].tile("y", "x", "yo", "xo", "yi", "xi", 4, 4).fuse("yo", "xo", "tile").parallel("tile")


def all_together(s: Schedule) -> None:
    g = s["gradient"].tile("y", "x", "yo", "xo", "yi", "xi", 64, 64).fuse("yo", "xo", "tile").parallel("tile")
    g.tile("yi", "xi", "yio", "xio", "yv", "xv", 2, 4).vectorize("xv").unroll("yv")


CASES: list[tuple[Callable[[Schedule], None], int, int]] = [
    (default, 4, 4), (column_major, 4, 4), (split, 4, 4), (fused, 4, 4), (tiled, 8, 8), (vectors, 4, 8),
    (unrolled, 4, 4), (guarded, 2, 7), (shifted, 2, 7), (parallel_tiles, 8, 8), (all_together, 66, 70),
]  # fmt: skip


@pytest.mark.parametrize(("act", "height", "width"), CASES, ids=[c[0].__name__ for c in CASES])
def test_gradient(act, height, width, golden):
    s = Schedule(gradient(height, width))
    act(s)
    golden(f"{s}\n\n{good(s)}")

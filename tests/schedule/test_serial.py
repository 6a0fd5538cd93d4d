"""serial takes unroll, vectorize and parallel back."""

from __future__ import annotations

from tests.schedule.algorithms import gradient
from tests.schedule.helpers import good
from tilewright.schedule.schedule import Schedule


def test_takes_back():
    s = Schedule(gradient())
    before = good(s)
    g = s["gradient"].vectorize("x").parallel("y")
    assert good(s) != before
    g.serial("x").serial("y")
    assert good(s) == before

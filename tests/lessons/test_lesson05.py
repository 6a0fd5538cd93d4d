"""Lesson 5: ten ways to run one gradient. Their nests are golden texts of tests/schedule/test_lesson5.py."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.schedule.algorithms import gradient
from tests.schedule.test_lesson5 import CASES


@pytest.mark.parametrize(("act", "height", "width"), CASES, ids=[c[0].__name__ for c in CASES])
def test_every_schedule_gives_the_gradient(act, height, width):
    kernel = tw.from_pipeline(gradient(height, width))
    s = kernel.schedule()
    act(s)
    y, x = np.mgrid[:height, :width]
    np.testing.assert_array_equal(kernel.compile(s)(), (x + y).astype(np.int32))

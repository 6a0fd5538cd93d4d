"""What a schedule was accepted with stays legal when the default schedule fills in the rest."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.random_pipelines import random_pipeline
from tests.schedule.random_schedules import grow
from tilewright.lang.errors import BoundsError, ScheduleError, TilewrightError
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

FUZZ = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))
BATCH = 25


@pytest.mark.parametrize("batch", range(4 * FUZZ))
def test_completed_schedules_stay_legal(batch: int) -> None:
    """The empty schedule of a pipeline, and one of random directives that was accepted as a whole."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        rnd = random.Random(seed)
        try:
            case = random_pipeline(rnd.randrange, seed=seed)
        except TilewrightError:
            continue
        for s in (Schedule(case.pipeline), grow(case.pipeline, rnd.randrange, 1 + rnd.randrange(10))[0]):
            try:
                s.check()
            except (ScheduleError, BoundsError):
                continue
            try:
                complete(s, "contract" if case.exact else "strict").check()
            except TilewrightError as e:
                raise AssertionError(f"seed {seed}\n{case}\n{s}") from e

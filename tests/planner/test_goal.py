"""What a plan can be made for, and what is refused."""

import math

import pytest

from tilewright.planner.errors import PlanError
from tilewright.planner.goal import OBJECTIVES, PHASES, Goal


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("phase", [None, *PHASES])
def test_what_there_is(objective, phase):
    assert Goal(objective, phase) == Goal(objective=objective, phase=phase, seed=0)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"objective": "speed"}, "plan.objective"),
        ({"objective": ["latency"]}, "plan.objective"),
        ({"objective": None}, "plan.objective"),
        ({"phase": "training"}, "plan.phase"),
        ({"budget_s": 0}, "plan.budget"),
        ({"budget_s": -1.5}, "plan.budget"),
        ({"budget_s": math.nan}, "plan.budget"),
        ({"budget_s": "10"}, "plan.budget"),
        ({"states": 0}, "plan.budget"),
        ({"states": 1.5}, "plan.budget"),
        ({"seed": -1}, "plan.seed"),
        ({"seed": True}, "plan.seed"),
    ],
)
def test_what_is_refused(given, code):
    with pytest.raises(PlanError) as e:
        Goal(**given)
    assert e.value.code == code
    assert e.value.hint.startswith("give ")
    assert e.value.where[0].file == __file__

"""Generated spaces: the usual point, and what holds of every point."""

from __future__ import annotations

import importlib

import pytest

from tilewright.autotune import space
from tilewright.autotune.generate import GeneratedSpace
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

EXAMPLES = ("matmul", "attention", "conv_layer", "int8_matmul", "blur", "softmax", "harris", "iir_blur", "histogram")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_usual_point_is_the_default_schedule(name):
    pipeline = getattr(importlib.import_module(f"examples.{name}"), name).pipeline()
    made = space.draw(GeneratedSpace(pipeline, dict.fromkeys(pipeline.sizes, 200)), space.usual)
    assert made is not None
    assert made.schedule == complete(Schedule(pipeline))


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_a_space_says_where_to_begin(name):
    pipeline = getattr(importlib.import_module(f"examples.{name}"), name).pipeline()
    made = space.starts(GeneratedSpace(pipeline, dict.fromkeys(pipeline.sizes, 512)))
    assert made[0].schedule == complete(Schedule(pipeline))
    assert len({p.hash for p in made}) == len(made) > 1
    assert name != "attention" or any("online" in str(p.schedule) for p in made)

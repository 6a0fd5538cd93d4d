"""Runs on a machine: values are those of the plain run, counts and ticks those of the skeleton, whatever the schedule."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.machine_runs import a_machine, agree, staged
from tests.fuzz.strategies import chosen_by
from tests.fuzz.strategies import trials as any_trial
from tests.fuzz.trials import asks_more, data_for, extents_for
from tests.schedule.algorithms import ALL
from tests.schedule.random_schedules import grow
from tests.schedule.test_random_rings import asks_more as asks_more_of_rings
from tests.schedule.test_random_rings import drawn
from tilewright.hw import Account
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError
from tilewright.schedule.default import complete


@given(st.integers(0, 2**32), st.sampled_from(sorted(ALL)), st.integers(1, 10))
@settings(max_examples=25)
def test_random_schedules(seed: int, name: str, steps: int) -> None:
    r = random.Random(seed)
    s, _ = grow(ALL[name](), r.randrange, steps)
    sizes = {"M": 3 + r.randrange(5), "N": 3 + r.randrange(6), "K": r.randrange(5)}
    sizes = {n: v for n, v in sizes.items() if n in s.pipeline.sizes}
    try:
        s.check()
        state = complete(s, "contract").state
        made = agree(s.pipeline, state, staged(state, r.randrange), a_machine(r.randrange), sizes)
    except (ScheduleError, BoundsError):
        return
    assert made is None or Account.from_json(made.to_json()) == made


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_rings(seed: int) -> None:
    """Copies that run ahead, with several slots, engines and channels, by tokens and at barriers."""
    r = random.Random(seed)
    s = drawn(seed)
    if s is None or asks_more_of_rings(s):
        return
    sizes = {"M": 3 + r.randrange(7), "N": 3 + r.randrange(7), "K": r.randrange(5)}
    sizes = {n: v for n, v in sizes.items() if n in s.pipeline.sizes}
    state = complete(s, "contract").state
    agree(s.pipeline, state, staged(state, r.randrange), a_machine(r.randrange), sizes)


@given(any_trial(), st.data())
@settings(max_examples=15)
def test_the_fuzzer_s_schedules(t, data) -> None:
    choose = chosen_by(data)
    if t.refusal is not None or asks_more(t.full):
        return
    extents = extents_for(t, choose)
    try:
        inputs, _ = data_for(t, extents)
        state = t.full.state
        agree(t.case.pipeline, state, staged(state, choose), a_machine(choose), extents, t.mode, inputs)
    except (ArgumentError, BoundsError, CompileError):
        return

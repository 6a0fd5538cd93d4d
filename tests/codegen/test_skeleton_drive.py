"""Another program drives the engine step by step, and comes to what the engine's own walk comes to."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.codegen.test_skeleton_time import stream
from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.encoding import encode
from tilewright.codegen.skeleton.engine import read_driven, run, start_state
from tilewright.codegen.skeleton.native import function
from tilewright.hw.errors import SimulationError


@pytest.mark.parametrize("sync", ["decoupled", "barrier"])
@pytest.mark.parametrize("times", [(9, 7, 3), (2, 3, 11)])
@pytest.mark.parametrize("heavy", [0, 55], ids=["short", "beyond 64 bits"])
def test_a_stream_in_steps(times, sync, heavy):
    n, (load, work, store) = 23, times
    work <<= heavy
    table = stream(load, work, store, sync=sync, barrier=2)
    encoded = encode(table)
    m = start_state(encoded, {"N": n})
    counters = np.zeros(1, np.int64)

    def step(what: int, site: int = 0, values: object = (0,)) -> None:
        given = counters if values is counters else np.array(values, np.int64)
        function()(m.ctypes.data, ctypes.c_void_p(given.ctypes.data), what, site, 0)

    step(L.STEP_START)
    for buffer in (2, 3):
        step(L.STEP_LIFE, buffer)
    step(L.STEP_RING)
    for i in range(n):
        slot = i % 2
        step(L.STEP_COPY, 0, (0, 1024 * i, 1, slot, 1024 * slot, 1, load))
        step(L.STEP_BEGIN, 0, (slot, slot))
        counters[0] += work
        step(L.STEP_END, 0, counters)
        step(L.STEP_COPY, 1, (slot, 1024 * slot, 1, 0, 1024 * i, 1, store))
        step(L.STEP_TURN)
    step(L.STEP_RINGS_END)
    for buffer in (2, 3):
        step(L.STEP_DEATH, buffer)
    step(L.STEP_FINISH, 0, counters)
    if heavy:
        with pytest.raises(SimulationError) as caught:
            read_driven(encoded, m)
        assert caught.value.code == "simulation.beyond"
        return
    found, expected = read_driven(encoded, m), run(table, {"N": n})
    assert (found.total, found.busy, found.counters) == (expected.total, expected.busy, expected.counters)
    assert sorted((w.cause, w.ticks) for w in found.waits) == sorted((w.cause, w.ticks) for w in expected.waits)
    assert found.copies == expected.copies

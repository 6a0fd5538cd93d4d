"""Lesson 20: clones. A copy reads what was computed; a clone computes it once more, in another place and way."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw


@tw.kernel
def apart():
    """Two readers want quite different parts of one Func."""
    y, x = tw.vars("y x")
    table = tw.func("table", tw.i32)
    near, far = tw.func("near", tw.i32), tw.func("far", tw.i32)
    table[y, x] = tw.cast(tw.i32, 100 * y + x)
    near[y, x] = table[y, x] + table[y, x + 1]
    far[y, x] = table[y + 60, x + 60] * 2
    return near[:4, :4], far[:4, :4]


def by_numpy():
    y, x = np.mgrid[:4, :4]
    return 200 * y + 2 * x + 1, 2 * (100 * (y + 60) + x + 60)


def together(s):
    """One table for both: its region reaches from the one to the other."""
    s["table"].compute_root()


def a_copy(s):
    """The table is as large as before; a part of it is there twice."""
    s["table"].compute_root()
    s.cache_read("table", consumers="far")


def a_clone(s):
    """Two tables, each as large as its reader needs it."""
    s["table"].compute_root()
    s.clone("table", "far").compute_root()


def a_clone_inside(s):
    """The clone has a place and loops of its own."""
    s.clone("table", "far", name="other").compute_at("far.x")
    s["table"].compute_at("near.y").vectorize("x", 4)


# schedule -> evaluations of the table, and of what was made of it for the second reader
CASES = {
    together: {"table": 64 * 64},
    a_copy: {"table": 64 * 64, "table_far": 16},
    a_clone: {"table": 4 * 5, "table_far": 16},
    a_clone_inside: {"table": 4 * 5, "other": 16},
}


@pytest.mark.parametrize("act", CASES, ids=lambda f: f.__name__)
def test_a_clone_has_a_region_of_its_own(act, golden):
    s = apart.schedule()
    act(s)
    golden(f"{s}\n\n{s.loops()}")
    run = apart.simulate(s, machine="toy", sizes={})
    for got, also, expected in zip(run.result, apart.compile(s)(), by_numpy(), strict=True):
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(also, expected)
    ours = {t.tensor: t.writes for t in run.account.traffic if t.tensor not in ("near", "far")}
    assert ours == CASES[act]


def test_a_clone_for_who_does_not_read_is_refused():
    s = apart.schedule()
    s.clone("table", "far")
    with pytest.raises(tw.ScheduleError, match="table is read by near") as refused:
        s.clone("table", "far", name="again")  # it reads its clone now
    assert refused.value.code == "schedule.not-read"

"""The record of what stages store: masks, tails, types, updates by data, and its limits."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

N = tw.sizes("N")


@tw.kernel
def mixed(a: tw.f32[N]):
    """Values of several types, and one rounded when it is stored."""
    i = tw.vars("i")
    f, g = tw.func("f", (tw.i8, tw.bool_, tw.f64, tw.u16)), tw.func("g", tw.bf16)
    f[i] = (tw.cast(tw.i8, -i), a[i] > 2, tw.cast(tw.f64, a[i]) / 3, tw.cast(tw.u16, 65535 - i))
    g[i] = a[i] * 1.01
    return f[:N], g[:N]


@pytest.mark.parametrize(("n", "lanes"), [(0, 4), (5, 1), (9, 4)])
def test_values_are_those_of_the_result(n: int, lanes: int) -> None:
    s = mixed.schedule()
    for f in "fg":
        s[f].vectorize("i", lanes)
    trace = mixed.trace(s, sizes={"N": n})
    f, g = trace.result
    assert [t.values for t in trace.of("f")] == [tuple(c[i].item() for c in f) for i in range(n)]
    assert [t.value for t in trace.of("g")] == [float(v) for v in g]
    assert [t.at["i"] for t in trace.of("f")] == list(range(n))


@tw.kernel
def histogram(a: tw.u8[N]):
    b = tw.vars("b")
    r = tw.rdom(r=N)
    h = tw.func("h", tw.i32)
    h[b] = 0
    h[tw.cast(tw.i64, a[r])] += 1
    return h[:256]


def test_updates_by_data_have_points() -> None:
    a = np.array([3, 200, 3], np.uint8)
    s = histogram.schedule()
    s["h.update"].unscheduled()
    trace = histogram.trace(s, sizes={"N": 3}, stages="h.update", inputs={"a": a})
    assert [(t.at["r"], t.element, t.value) for t in trace] == [(0, None, 1), (1, None, 1), (2, None, 2)]
    assert str(trace[2]) == "h[...] = 2    (h.update, r = 2)"


@tw.kernel
def doubled(a: tw.i32[N]):
    i = tw.vars("i")
    f = tw.func("f")
    f[i] = a[i] * 2
    return f[:N]


def test_points_that_are_computed_again_are_spare() -> None:
    s = doubled.schedule()
    s["f"].split("i", "io", "ii", 4, tail="shift")
    trace = doubled.trace(s, sizes={"N": 6})
    assert [(t.at["i"], t.spare) for t in trace] == [(i, False) for i in range(4)] + [
        (2, True), (3, True), (4, False), (5, False)
    ]  # fmt: skip
    assert str(trace[4]).endswith("(spare)")


def test_a_record_has_an_end() -> None:
    assert len(doubled.trace(sizes={"N": 50}, room=50)) == 50
    with pytest.raises(tw.ArgumentError, match="51 stores in f") as refused:
        doubled.trace(sizes={"N": 51}, room=50)
    assert refused.value.code == "argument.trace"
    with pytest.raises(tw.ScheduleError) as unknown:
        doubled.trace(sizes={"N": 1}, stages="q")
    assert unknown.value.code == "schedule.unknown-stage"


def test_forms_have_stores_of_their_own() -> None:
    s = doubled.schedule()
    s.specialize("f", "N % 4 == 0", "even")
    assert [t.stage for t in doubled.trace(s, sizes={"N": 4})] == ["f{even}"] * 4
    assert [t.stage for t in doubled.trace(s, sizes={"N": 3}, stages=["f"])] == ["f"] * 3

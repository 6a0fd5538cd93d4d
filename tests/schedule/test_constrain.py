"""Conditions between knobs: what they refuse, how they are written, what is no condition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.algorithms import matmul
from tests.schedule.helpers import good, refused
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.constraints import canonical_constraint, holds, knobs_of
from tilewright.schedule.schedule import Schedule, parse_schedule


def tiled() -> Schedule:
    s = Schedule(matmul())
    a, b = s.knob("a", 4, (2, 4, 8, 16)), s.knob("b", 8)
    s.constrain("a*b<=64")
    s["C.update"].split("i", "io", "ii", a).split("j", "jo", "ji", b)
    return s


def test_values_that_break_it_are_refused(golden):
    s = tiled()
    golden(f"{s}\n\n{good(s)}")
    assert s.with_knobs(a=8).knobs == {"a": 8, "b": 8}
    with pytest.raises(ScheduleError) as caught:
        s.with_knobs(a=16)
    assert caught.value.code == "schedule.constraint"
    assert "a * b <= 64 does not hold: a = 16, b = 8" in str(caught.value)
    assert s.with_knobs(a=16, b=4).knobs == {"a": 16, "b": 4}
    assert s.allows(a=8) and not s.allows(a=16) and s.allows(a=16, b=4)
    assert not s.allows(a=3) and not s.allows(a="x") and not s.allows(b=0)
    refused(s, "unknown-knob", lambda: s.allows(z=3), "there is no knob 'z'", "known: a, b")
    assert s.with_knobs(a=np.int64(8)).knobs["a"] == 8
    with pytest.raises(ScheduleError, match="does not hold"):
        parse_schedule(str(s).replace("knob b = 8", "knob b = 32"), s.pipeline)


def test_errors():
    s = tiled()
    refused(s, "constraint", lambda: s.constrain("a > b"), "a > b does not hold: a = 4, b = 8")
    refused(s, "unknown-knob", lambda: s.constrain("a <= c"), "there is no knob 'c'", "known: a, b")
    for text in (
        "a", "a +", "a * b", "f(a) < 3", "a.x < 3", "a ** 2 < 3", "a / 2 < 3", "not a < 3", "a < 1.5", "a is 3", "[a] < 3",
        "a < True", "(lambda: 3) < a", "a < 'b'", "", "a := 3", "1 < 2\n3", "a < " + "1 + " * 200 + "1",
    ):  # fmt: skip
        refused(s, "constraint", lambda text=text: s.constrain(text), "is no condition between knobs")


def test_values():
    knobs = {"a": 6, "b": 4}
    for text, value in (
        ("a % b == 2", True), ("a // b == 1 and b < a", True), ("1 < b < a <= 6", True), ("a < b or a - b == 2", True),
        ("a * b + 1 != 25", False), ("a % (b - 4) == 0", False), ("(a + b) * 2 >= 20", True),
    ):  # fmt: skip
        assert holds(text, knobs) is value, text
    assert knobs_of("b * a < b + 3") == ("b", "a")


_TERM = st.recursive(
    st.sampled_from(["t", "u", "3", "16"]),
    lambda x: st.tuples(x, st.sampled_from(["+", "-", "*", "//", "%"]), x).map(lambda p: f"({p[0]}{p[1]}{p[2]})"),
    max_leaves=5,
)
_CONDITION = st.tuples(_TERM, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), _TERM).map("".join)


@given(
    st.lists(_CONDITION, min_size=1, max_size=3), st.sampled_from([" and ", " or "]), st.integers(1, 9), st.integers(1, 9)
)  # fmt: skip
def test_canonical_conditions_say_the_same(parts, word, t, u):
    text = word.join(parts)
    plain = canonical_constraint(text)
    assert canonical_constraint(plain) == plain
    assert holds(plain, {"t": t, "u": u}) == holds(text, {"t": t, "u": u})

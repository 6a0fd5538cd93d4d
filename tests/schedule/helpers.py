"""What every test of a schedule asks for: the text round trip, the same nest again, and the reference's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kernels import same
from tests.schedule.algorithms import arguments
from tests.schedule.nest_oracle import run_nest
from tilewright.lang.binding import bind
from tilewright.lang.errors import ScheduleError
from tilewright.lang.reference import run
from tilewright.schedule.schedule import Schedule, parse_schedule

SIZES = [{"M": 5, "N": 7, "K": 4}, {"M": 8, "N": 6, "K": 3}, {"M": 3, "N": 4, "K": 1}]


def flat(value: Any) -> list[Any]:
    """The arrays of a nested result."""
    if isinstance(value, dict):
        value = list(value.values())
    return [x for v in value for x in flat(v)] if isinstance(value, (list, tuple)) else [value]


def agrees(s: Schedule, sizes: dict[str, int], seed: int = 0) -> None:
    """The nest's values are the reference's, and it touches nothing that it may not."""
    p = s.pipeline
    sizes = {k: v for k, v in sizes.items() if k in p.sizes}
    ours = arguments(p, sizes, seed)
    theirs = [a.copy() for a in ours]
    expected = run(p, bind(p, theirs, {}, sizes))
    got = run_nest(s, *ours, sizes=sizes)
    for a, b in zip(flat(expected), flat(got), strict=True):
        assert same(a, b), f"at {sizes}:\n{a}\nis not\n{b}\nwith\n{s}\n{s.loops()}"
    for a, b in zip(theirs, ours, strict=True):
        assert same(a, b), f"inout at {sizes}:\n{a}\nis not\n{b}\nwith\n{s}\n{s.loops()}"


def good(s: Schedule) -> str:
    """Check a schedule in every way; its printed nest."""
    again = parse_schedule(str(s), s.pipeline, s.machine)
    assert again == s
    assert again.hash == s.hash
    nest = str(s.loops())
    assert str(again.loops()) == nest
    s.check()
    for sizes in SIZES if s.pipeline.sizes else [{}]:
        agrees(s, sizes)
    return nest


def refused(s: Schedule, code: str, act: Callable[[], Any], *says: str) -> ScheduleError:
    """`act` is refused with that code and words, at this place, and leaves the schedule as it was."""
    before = (s.directives, s.state)
    with pytest.raises(ScheduleError) as caught:
        act()
    e = caught.value
    assert e.code == f"schedule.{code}", e
    for words in says:
        assert words in str(e), e
    assert e.where, e
    assert "tests/schedule" in e.where[0].file or e.where[0].file == "<text>", e
    assert (s.directives, s.state) == before
    return e

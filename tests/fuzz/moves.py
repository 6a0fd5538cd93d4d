"""Random directives, one function a kind: what people write, legal or not.

Every move tries one directive (or the few that belong together) somewhere in a schedule. It raises ScheduleError where
that is refused. `MOVES` has them by kind; `attempt` tries a kind at several places, `grow` any kinds.
"""

from __future__ import annotations

from tests.fuzz import moves_of_buffers, moves_of_loops  # noqa: F401  (they register moves)
from tests.fuzz.places import MOVES, Choose, Move, pick
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.directives.kinds import KINDS
from tilewright.schedule.schedule import Schedule


def tried(s: Schedule, choose: Choose, k: int, fn: Move) -> bool:
    """Whether a move was legal; what was not has left the last legal state."""
    before = (s.directives, s.state)
    try:
        fn(s, choose, k)
    except ScheduleError as e:
        assert e.code.startswith("schedule."), e
        if e.code == "schedule.nothing-drawn":
            return False
        assert s.directives[: len(before[0])] == before[0], "a refused directive has left the schedule changed"
        if len(s.directives) == len(before[0]):
            assert s.state is before[1], "a refused directive has left the state changed"
        return False
    return len(s.directives) > len(before[0])


def attempt(s: Schedule, choose: Choose, k: int, kind: str, times: int = 6) -> bool:
    """Try directives of a kind at several places. Whether one was legal."""
    return any(tried(s, choose, 100 * k + n, pick(choose, MOVES[kind])) for n in range(times))


# How often a kind is drawn among others: those that shape loops and place Funcs make the ground for all else.
_COMMON = {"split": 4, "tile": 2, "reorder": 2, "compute_at": 4, "vectorize": 3, "compute_root": 3, "cache_read": 2}
_DRAWN = [kind for kind in KINDS for _ in range(_COMMON.get(kind, 1))]


def grow(s: Schedule, choose: Choose, steps: int, first: int = 0) -> None:
    """What is legal of `steps` random directives. `first`: the number of the first one, for new names."""
    for k in range(first, first + steps):
        tried(s, choose, 100 * k, pick(choose, MOVES[pick(choose, _DRAWN)]))

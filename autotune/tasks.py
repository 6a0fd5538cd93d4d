"""What a tuner has to do: a job for each bucket of each kernel; and which of them the next seconds are best spent on.

After a first round for each job the rule is MetaSchedule's: a job is expected to gain as it gained lately, and as there is
still to gain for the time that it has had. With `w` the weight of a job, `t` the seconds it has had, `gain` the share by
which its best figure fell in its last rounds, which took `s` seconds, and `room` the share of it above the bound,

    expected = w * (RECENT * gain / s + (1 - RECENT) * room / t)

so that a job at its bound is left alone, one that improves gets more, and one that got little is not forgotten.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.autotune.space import Point, Space
from tilewright.lang.pipeline import Pipeline

if TYPE_CHECKING:
    from tilewright.autotune.buckets import Bucket
    from tilewright.autotune.measure.task import Task
    from tilewright.autotune.records import Record
    from tilewright.autotune.search import Strategy
    from tilewright.schedule.schedule import Schedule

RECENT = 0.2  # the share of what a job gained lately in what it is expected to gain
WINDOW = 3  # rounds that are lately
FINISHED = 0.02  # room below which there is nothing to gain that could be measured
SAME = 0.005  # times nearer than this are the same, however little they spread
OK = "ok"


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel that is tuned: its pipeline and mode, and the parameters that calls give by name."""

    name: str
    pipeline: Pipeline
    mode: str = "contract"
    keyword_only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule to judge. `origin` says where it comes from: default, plan, neighbour, records or search."""

    point: Point
    origin: str = "search"

    @property
    def hash(self) -> str:
        return self.point.hash

    @property
    def schedule(self) -> Schedule:
        return self.point.schedule


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate that was judged. `figure` (of times the least of `samples`) and `spread` are in the objective's unit, the
    figure None where the status is not ok. `at` are seconds since the tuner began, negative for what records say."""

    candidate: Candidate
    status: str
    figure: float | None
    spread: float = 0.0
    samples: int = 1
    predicted: float | None = None
    at: float = 0.0
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.status == OK and self.figure is not None

    def rank(self) -> tuple[float, str]:
        """Its place among others: the best first, of equal ones that of the smaller hash."""
        return (math.inf if self.figure is None else self.figure, self.candidate.hash)


@dataclass(eq=False)
class Job:
    """One bucket of one kernel: what is searched there, and what was found."""

    subject: Subject
    bucket: Bucket
    task: Task
    space: Space
    default: Candidate
    search: Strategy | None = None  # made when its first candidates are known
    weight: float = 1.0
    bound: float | None = None
    known: dict[str, Record] = field(default_factory=dict)  # what records say of schedules, by their text
    found: dict[str, Found] = field(default_factory=dict)
    predicted: dict[str, float | None] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)  # hashes of all candidates of rounds, also of those under way
    heard: set[str] = field(default_factory=set)  # hashes of what neighbours have found best
    waiting: deque[Candidate] = field(default_factory=deque)  # judged before what the search asks for
    best: Found | None = None
    history: list[tuple[float, float]] = field(default_factory=list)  # seconds, the best figure from then on
    begun: int = 0  # rounds, of which the last ones may not have ended
    rounds: list[tuple[float, float]] = field(default_factory=list)  # seconds, and the share by which the best fell
    exhausted: bool = False
    broken: bool = False  # its search ended with an error
    finals: list[Found] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.subject.name} at {self.bucket.text}" if self.bucket.text else self.subject.name

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.bucket.point

    @property
    def spent(self) -> float:
        return sum(seconds for seconds, _ in self.rounds)

    @property
    def tried(self) -> int:
        """Candidates judged in this run."""
        return sum(f.at >= 0 for f in tuple(self.found.values()))

    @property
    def reused(self) -> int:
        """Candidates whose figures are those of records."""
        return len(self.found) - self.tried

    @property
    def pruned(self) -> int:
        """Candidates that the prediction has ruled out: it took others for better. Those that wait to be measured, or were
        left when the time was over, are none."""
        return sum(h not in self.found and h not in self.asked for h in tuple(self.predicted))

    @property
    def failed(self) -> Counter[str]:
        """Candidates that failed, by reason."""
        return Counter(f.status for f in tuple(self.found.values()) if not f.ok and f.status != "stopped")

    @property
    def default_found(self) -> Found | None:
        return self.found.get(self.default.hash)

    @property
    def room(self) -> float:
        """The share of the best figure that lies above the bound; 1 where one of them is not known."""
        if self.best is None or not self.bound:
            return 1.0
        assert self.best.figure is not None
        return max(0.0, 1.0 - self.bound / self.best.figure) if self.best.figure > 0 else 0.0

    def learn(self, found: Found) -> bool:
        """Keep what was found; whether it is the best so far (of equal ones the first stays)."""
        self.found[found.candidate.hash] = found
        if not found.ok:
            return False
        assert found.figure is not None
        if self.best is not None and self.best.figure is not None and found.figure >= self.best.figure:
            return False
        self.best = found
        self.history.append((max(0.0, found.at), found.figure))
        return True

    def expected(self) -> float:
        """The share of the job's figure that a second more is expected to save, times its weight."""
        if self.exhausted:
            return 0.0
        lately = self.rounds[-WINDOW:]
        seconds = max(1e-9, sum(s for s, _ in lately))
        gain = sum(g for _, g in lately) / seconds
        return self.weight * (RECENT * gain + (1 - RECENT) * self.room / max(1e-9, self.spent))


def next_job(jobs: Sequence[Job]) -> Job | None:
    """The job that the next round is for: each once, in their order, then the one of the highest expected gain.

    None where there is nothing left to try, or nothing to gain.
    """
    open_ = [j for j in jobs if not j.exhausted and j.room > FINISHED]
    for j in open_:
        if not j.begun:
            return j
    return max(open_, key=Job.expected, default=None)


def winner(job: Job) -> Found | None:
    """The best of a job by its finals, or by single runs where it had none; None where nothing could be measured.

    Of those that are the same within noise it is the default schedule, else the one of the smallest hash.
    """
    ok = [f for f in (job.finals or job.found.values()) if f.ok]
    if not ok:
        return None
    best = min(ok, key=Found.rank)
    near = [f for f in ok if f.figure == best.figure or (job.task.objective == "time" and same(f, best))]
    default = next((f for f in near if f.candidate.hash == job.default.hash), None)
    return default or min(near, key=lambda f: f.candidate.hash)


def same(a: Found, b: Found) -> bool:
    """Whether two times differ by no more than chance: twice the standard error of a median of as many samples.

    That error is 1.2533 s / sqrt(n) for normal ones, with the standard deviation s = 1.4826 times the median distance.
    """
    if a.figure is None or b.figure is None:
        return False
    error = max(1.2533 * 1.4826 * f.spread / math.sqrt(f.samples) for f in (a, b))
    low, high = sorted((a.figure, b.figure))
    return high - low <= max(2 * error, SAME * low)


__all__ = ["Candidate", "Found", "Job", "Subject", "next_job", "same", "winner"]

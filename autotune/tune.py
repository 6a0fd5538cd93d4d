"""The tuner: it asks searches for schedules, has them measured, and tells the searches, until the time is over.

The next round is asked for, and its candidates are ranked, while the present one is measured. At the end the best few of
each job and its default schedule are measured in turns: the default schedule is only left for what is better beyond noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tilewright.autotune.remember import found_of
from tilewright.autotune.search import Search, strategy
from tilewright.autotune.snapshot import Snapshot, job_state
from tilewright.autotune.space import Point, draw, usual
from tilewright.autotune.tasks import Candidate, Found, Job, next_job
from tilewright.autotune.transfer import from_neighbours

if TYPE_CHECKING:
    from tilewright.autotune.measure.task import Measurer, Outcome
    from tilewright.autotune.records import Record

FEWEST, MOST = 2, 16  # candidates of a round
ROUND_SECONDS = 8.0  # of one round, about: what is learnt in it serves the next but one
FINALISTS = 4  # besides the default schedule
CLOSE = 1.15  # finalists are no slower than the best one, times this
SAME = 0.005  # times nearer than this are the same, however little they spread
ASKS = 20  # times that a search is asked before what it has is taken to be known


@dataclass(frozen=True, slots=True)
class Settings:
    """How to tune: seconds in all, candidates at most, and how to search."""

    budget: float = 60.0
    trials: int | None = None
    strategy: str = "evolution"
    seed: int = 0
    objective: str = "time"
    unit: str = "s"
    machine: str = ""


class Memory(Protocol):
    """What earlier runs left, and where this one is written down."""

    @property
    def words(self) -> tuple[str, ...]:
        """What the user should know of it."""
        ...

    def recall(self, job: Job) -> dict[str, Record]:
        """What was judged before under the same key, by the text of the schedule."""
        ...

    def parents(self, job: Job) -> Iterable[Found]:
        """The best of what is known, as points of the job's space."""
        ...

    def advise(self, job: Job) -> None:
        """Offer the job what records of similar ones say."""
        ...

    def keep(self, job: Job, found: Found, outcome: Outcome, final: bool = False) -> None:
        """Write down what was measured, before anything else is: `final` of finalists side by side."""
        ...

    def choose(self, job: Job, found: Found) -> None:
        """Write down which schedule has won."""
        ...


class Forgetful:
    """No records at all."""

    words: tuple[str, ...] = ()

    def recall(self, job: Job) -> dict[str, Record]:
        return {}

    def parents(self, job: Job) -> Iterable[Found]:
        return ()

    def advise(self, job: Job) -> None: ...

    def keep(self, job: Job, found: Found, outcome: Outcome, final: bool = False) -> None: ...

    def choose(self, job: Job, found: Found) -> None: ...


class Tuner:
    """Jobs, and the loop over them. `run` ends in time, and gives why it ended: time, trials, exhausted or interrupted."""

    def __init__(
        self, jobs: Sequence[Job], measurer: Measurer, settings: Settings, memory: Memory | None = None,
        watch: Callable[[Snapshot], None] = lambda s: None, clock: Callable[[], float] = time.monotonic,
        begun: float | None = None,
    ):  # fmt: skip
        self.jobs, self.measurer, self.settings = list(jobs), measurer, settings
        self.memory: Memory = memory or Forgetful()
        self.watch, self.clock = watch, clock
        self.begun = clock() if begun is None else begun
        self.phase, self.current, self.news = "starting", None, ""
        self.words: list[str] = []
        self._tells: list[tuple[Job, Point, float | None]] = []
        self._each = 0.5  # seconds of a candidate, about
        self._final_each: float | None = None  # seconds that a finalist takes, about; None: as a candidate
        self.current: Job | None

    # What there is ------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return self.clock() - self.begun

    @property
    def tried(self) -> int:
        return sum(j.tried for j in self.jobs)

    def snapshot(self) -> Snapshot:
        s = self.settings
        states = tuple(job_state(j, self.current, self.phase == "done") for j in self.jobs)
        return Snapshot(
            self.seconds, s.budget, self.phase, s.objective, s.unit, states, self.current.name if self.current else "",
            s.machine, s.trials, sum(j.reused for j in self.jobs), self.news, (*self.words, *self.memory.words),
        )  # fmt: skip

    def _show(self, news: str = "") -> None:
        self.news = news
        self.watch(self.snapshot())

    # The run ------------------------------------------------------------------------------------------------------

    def run(self) -> str:
        self._show()
        try:
            for job in self.jobs:
                self._begin(job)
            self.phase = "searching"
            stopped = self._search()
            self.phase = "finals"
            self._show()
            self._finals()
            for job in self.jobs:
                if (best := winner(job)) is not None:
                    self.memory.choose(job, best)
        except KeyboardInterrupt:
            stopped = "interrupted"
        self.phase, self.current = "done", None
        self._show()
        return stopped

    def _begin(self, job: Job) -> None:
        """What is known before anything is measured: rows of earlier runs, and where to begin."""
        job.known = self.memory.recall(job)
        for found in self.memory.parents(job):
            job.learn(found)
        if not self._recalled(job, job.default):
            job.waiting.append(job.default)
        self.memory.advise(job)

    def _recalled(self, job: Job, c: Candidate) -> bool:
        """Whether a candidate was judged in this run or, by the records, before."""
        if c.hash in job.found:
            return True
        r = job.known.get(str(c.schedule).rstrip("\n"))
        if r is None:
            return False
        job.learn(replace(found_of(c.point, r), candidate=c))
        return True

    @property
    def _search_seconds(self) -> float:
        """Seconds from the start at which searching ends, so that finals are over in time."""
        reserve = sum(len(self._finalists(j)) for j in self.jobs) * (self._final_each or self._each)
        return self.settings.budget - min(reserve, 0.3 * self.settings.budget)

    def _over(self) -> str:
        """Why searching ends now; empty where it goes on."""
        if self.seconds >= self._search_seconds:
            return "time"
        if self.settings.trials is not None and self.tried >= self.settings.trials:
            return "trials"
        return ""

    def _search(self) -> str:
        pool = ThreadPoolExecutor(1, "tilewright-search")
        try:
            upcoming = self._ask_ahead(pool)
            while upcoming is not None:
                job, batch = upcoming.result()
                self._tell()
                if over := self._over():
                    return over
                upcoming = self._ask_ahead(pool)
                if batch:
                    self._measure(job, batch)
            return "exhausted" if all(j.exhausted for j in self.jobs) else "bound"
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    # Asking -------------------------------------------------------------------------------------------------------

    def _ask_ahead(self, pool: ThreadPoolExecutor) -> Future[tuple[Job, list[Candidate]]] | None:
        """Ask for the next round in the background; no search is told anything while one is asked."""
        job = next_job(self.jobs)
        if job is None:
            return None
        if not job.begun:
            from_neighbours(job, self.jobs)
        job.begun += 1
        return pool.submit(self._ask, job, self._round())

    def _round(self) -> int:
        """How many candidates the next round has."""
        left = max(0.0, self._search_seconds - self.seconds)
        seconds = min(ROUND_SECONDS, max(1.0, self.settings.budget / (4 * len(self.jobs))))
        wanted = max(FEWEST, min(MOST, int(seconds / self._each), int(left / self._each) + 1))
        trials = self.settings.trials
        return wanted if trials is None else max(1, min(wanted, trials - self.tried))

    def _ask(self, job: Job, count: int) -> tuple[Job, list[Candidate]]:
        """At most `count` candidates that are not known yet: those that wait, then what the search asks for."""
        made: list[Candidate] = []
        while job.waiting and len(made) < count:
            c = job.waiting.popleft()
            if not self._recalled(job, c):
                made.append(c)
        if job.search is None:
            job.search = self._strategy(job, [c.point for c in made])
        asked = {c.hash for c in made}
        for _ in range(ASKS):
            if len(made) >= count:
                break
            points = job.search.ask(count - len(made))
            if not points:
                job.exhausted = True
                break
            for p in points:
                c = Candidate(p)
                if self._recalled(job, c):
                    job.search.tell(p, job.found[p.hash].figure)
                elif p.hash not in asked:
                    asked.add(p.hash)
                    made.append(c)
        return job, made

    def _strategy(self, job: Job, first: Sequence[Point]) -> Search:
        s = self.settings
        start = draw(job.space, usual)
        seeds = [*([start] if start is not None else []), *first]
        seeds += [
            f.candidate.point for f in sorted(job.found.values(), key=_by_figure) if f.ok and f.candidate.point.trace
        ][:8]
        return strategy(s.strategy, job.space, s.seed, predict=lambda points: self._predict(job, points), seeds=seeds)

    def _predict(self, job: Job, points: Sequence[Point]) -> list[float | None]:
        """The predicted figures of points, of each schedule once."""
        new = list({p.hash: p for p in points if p.hash not in job.predicted}.values())
        if new:
            said = self.measurer.predict(job.task, [str(p.schedule) for p in new])
            job.predicted.update(zip((p.hash for p in new), said, strict=True))
        return [job.predicted[p.hash] for p in points]

    def _tell(self) -> None:
        for job, p, cost in self._tells:
            if job.search is not None:
                job.search.tell(p, cost)
        self._tells.clear()

    # Measuring ----------------------------------------------------------------------------------------------------

    def _measure(self, job: Job, batch: Sequence[Candidate]) -> None:
        self.current = job
        start, before = self.seconds, job.best.figure if job.best else None
        count = 0
        with closing(self.measurer.run(job.task, [str(c.schedule) for c in batch], before)) as outcomes:  # type: ignore[type-var]
            for outcome in outcomes:
                count += 1
                self._learn(job, batch[outcome.index], outcome)
                if self._over():
                    break
        took = self.seconds - start
        after = job.best.figure if job.best else None
        gain = 1 - after / before if before and after is not None else 0.0
        job.rounds.append((took, max(0.0, gain)))
        if count:
            self._each += 0.5 * (took / count - self._each)

    def _learn(self, job: Job, c: Candidate, outcome: Outcome) -> None:
        if outcome.status == "stopped":
            return
        found = self._found(job, c, outcome)
        better = job.learn(found)
        self.memory.keep(job, found, outcome)
        self._tells.append((job, c.point, found.figure if found.ok else None))
        self._show(f"{job.name}: {c.origin}" if better else "")

    def _found(self, job: Job, c: Candidate, o: Outcome, final: bool = False) -> Found:
        """What came out: of finals the median, which is what schedules that were run in turns are compared by."""
        figure = (o.median if final and o.median is not None else o.figure) if o.status == "ok" else None
        predicted = job.predicted.get(c.hash)
        return Found(c, o.status, figure, o.spread or 0.0, max(1, o.samples), predicted, self.seconds, o.message)

    # Finals -------------------------------------------------------------------------------------------------------

    def _finalists(self, job: Job) -> list[Candidate]:
        """The default schedule and the best few that are close; none where there is nothing to decide."""
        ok = sorted((f for f in job.found.values() if f.ok), key=_by_figure)
        if not ok or self.settings.objective != "time":
            return []
        best = ok[0].figure
        assert best is not None
        close = [
            f for f in ok if f.figure is not None and f.figure <= CLOSE * best and f.candidate.hash != job.default.hash
        ]
        default = job.found.get(job.default.hash)
        if not close or default is None or not default.ok:
            return [f.candidate for f in close[:FINALISTS]] if len(close) > 1 else []
        return [job.default, *(f.candidate for f in close[:FINALISTS])]

    def _finals(self) -> None:
        """Measure the finalists of each job in turns, those of the largest weight first, while there is time."""
        for job in sorted(self.jobs, key=lambda j: -j.weight):
            finalists = self._finalists(job)
            if not finalists:
                continue
            room = (self.settings.budget - self.seconds) / (self._final_each or self._each)
            finalists = finalists[: max(2, int(room + 0.5))]
            if room < 1:
                self.words.append(
                    "no time was left for the finals of some buckets: their best figures are of single runs"
                )
                return
            self.current = job
            start = self.seconds
            outcomes = self.measurer.finals(job.task, [str(c.schedule) for c in finalists])
            for outcome in outcomes:
                found = self._found(job, finalists[outcome.index], outcome, final=True)
                job.finals.append(found)
                self.memory.keep(job, found, outcome, final=True)
            self._final_each = (self.seconds - start) / len(finalists)
            self._show()


def _by_figure(f: Found) -> tuple[float, str]:
    return (f.figure if f.figure is not None else float("inf"), f.candidate.hash)


def winner(job: Job) -> Found | None:
    """The best of a job by its finals, or by single runs where it had none; None where nothing could be measured.

    Of those that are the same within noise it is the default schedule, else the one of the smallest hash.
    """
    ok = [f for f in (job.finals or job.found.values()) if f.ok]
    if not ok:
        return None
    best = min(ok, key=_by_figure)
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


__all__ = ["Forgetful", "Memory", "Settings", "Tuner", "same", "winner"]

"""The tuner: it asks searches for schedules, has them measured, and tells the searches, until the time is over.

The next round is asked for, and its candidates are ranked, while the present one is measured. At the end the best few of
each job and its default schedule are measured in turns: the default schedule is only left for what is better beyond noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tilewright.autotune.asking import Asker, Round, recalled
from tilewright.autotune.snapshot import Snapshot, job_state
from tilewright.autotune.splitting import MakeJob, assess
from tilewright.autotune.tasks import Candidate, Found, Job, Subject, next_job, winner
from tilewright.autotune.transfer import nearest

if TYPE_CHECKING:
    from tilewright.autotune.measure.task import Measurer, Outcome
    from tilewright.autotune.records import Record
    from tilewright.autotune.regret import Regret

FEWEST, MOST = 2, 16  # candidates of a round
ROUND_SECONDS = 8.0  # of one round, about: what is learnt in it serves the next but one
REGRET = 0.1  # the share of the time in which the regret of buckets is measured, where there are several
FINALISTS = 4  # besides the default schedule and those of neighbours
CLOSE = 1.15  # finalists are no slower than the best one, times this
AHEAD = 3  # candidates that are left of a round when the next one begins


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


@dataclass(eq=False)
class Running:
    """A round that is measured: how many outcomes are still to come, and the best figure when it began."""

    made: Round
    outcomes: Iterator[Outcome]
    left: int
    best: float | None


class Tuner:
    """Jobs, and the loop over them. `run` ends in time, and gives why it ended, see Tuned.stopped."""

    def __init__(
        self, jobs: Sequence[Job], measurer: Measurer, settings: Settings, memory: Memory | None = None,
        watch: Callable[[Snapshot], None] = lambda s: None, clock: Callable[[], float] = time.monotonic,
        begun: float | None = None, make: MakeJob | None = None,
    ):  # fmt: skip
        """`make` makes a job for a bucket that is split off; None: buckets stay, and their regret is not measured."""
        self.jobs, self.measurer, self.settings = list(jobs), measurer, settings
        self.memory: Memory = memory or Forgetful()
        self.watch, self.clock = watch, clock
        self.begun = clock() if begun is None else begun
        self.phase, self.current, self.news = "starting", None, ""
        self.words: list[str] = []
        self.make = make
        self.regrets: dict[str, Regret] = {}
        self._under_way = 0  # candidates that are measured
        self._last = 0.0  # when the last round ended
        self._each = 0.5  # seconds of a candidate, about
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
            self._assess()
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
        if not recalled(job, job.default):
            job.waiting.append(job.default)
        self.memory.advise(job)

    @property
    def _search_seconds(self) -> float:
        """Seconds from the start at which searching ends, so that finals are over in time."""
        reserve = sum(len(self._finalists(j)) * self._final_seconds(j) for j in self.jobs)
        share = REGRET if any(self._several(j.subject) for j in self.jobs) else 0.0
        return self.settings.budget * (1 - share) - min(reserve, 0.3 * self.settings.budget)

    def _over(self) -> str:
        """Why searching ends now; empty where it goes on."""
        if self.seconds >= self._search_seconds:
            return "time"
        if self.settings.trials is not None and self.tried >= self.settings.trials:
            return "trials"
        return ""

    def _search(self) -> str:
        """Measure rounds until there is a reason to end: the next one begins when few of the present one are left."""
        with closing(Asker(self.measurer, self.settings.strategy, self.settings.seed, self.jobs)) as asker:
            self._ahead(asker)
            running = self._start(asker)
            while running is not None:
                following = None
                for outcome in running.outcomes:
                    self._learn(running, outcome, asker)
                    if over := self._over():
                        return over
                    if following is None and running.left <= AHEAD and asker.ready:
                        following = self._start(asker)
                self._end(running)
                running = following or self._start(asker)
        if over := self._over():
            return over
        if any(j.broken for j in self.jobs):
            return "error"
        return "exhausted" if all(j.exhausted for j in self.jobs) else "bound"

    def _ahead(self, asker: Asker) -> None:
        """Ask for the next round in the background."""
        job = next_job(self.jobs)
        count = self._round(job) if job is not None else 0
        if job is not None and count:
            job.begun += 1
            asker.ahead(job, count)

    def _round(self, job: Job) -> int:
        """How many candidates the next round of a job has: first ones are small, so that much is learnt soon."""
        left = max(0.0, self._search_seconds - self.seconds)
        seconds = min(ROUND_SECONDS, max(1.0, self.settings.budget / (4 * len(self.jobs))))
        most = min(MOST, 2 * (job.begun + 1))
        wanted = max(FEWEST, min(most, int(seconds / self._each), int(left / self._each) + 1))
        trials = self.settings.trials
        return wanted if trials is None else max(0, min(wanted, trials - self.tried - self._under_way))

    # Measuring ----------------------------------------------------------------------------------------------------

    def _start(self, asker: Asker) -> Running | None:
        """Begin to measure the round that was asked for, and ask for another one; None where there is none, or no time."""
        while not self._over():
            if not asker.busy:
                self._ahead(asker)
            made = asker.take(self._search_seconds - self.seconds)
            if made is None:
                return None
            if made.problem:
                self.words.append(made.problem)
            self._under_way += len(made.candidates)
            self._ahead(asker)
            if made.candidates:
                best = made.job.best.figure if made.job.best else None
                texts = [str(c.schedule) for c in made.candidates]
                until = self.begun + self._search_seconds
                outcomes = self.measurer.run(made.job.task, texts, best, until)
                return Running(made, outcomes, len(texts), best)
        return None

    def _end(self, r: Running) -> None:
        """A round is over: what it took, and what it has gained."""
        took, self._last = self.seconds - self._last, self.seconds
        after = r.made.job.best.figure if r.made.job.best else None
        gain = 1 - after / r.best if r.best and after is not None else 0.0
        r.made.job.rounds.append((took, max(0.0, gain)))
        self._each += 0.5 * (took / len(r.made.candidates) - self._each)

    def _learn(self, r: Running, outcome: Outcome, asker: Asker) -> None:
        job, c = r.made.job, r.made.candidates[outcome.index]
        self.current = job
        r.left -= 1
        self._under_way -= 1
        if outcome.status == "stopped":
            return
        found = self._found(job, c, outcome)
        better = job.learn(found)
        self.memory.keep(job, found, outcome)
        asker.tell(found, job)
        self._show(f"{job.name}: {c.origin}" if better else "")

    def _found(self, job: Job, c: Candidate, o: Outcome, final: bool = False) -> Found:
        """What came out: of finals the median, which is what schedules that were run in turns are compared by."""
        figure = (o.median if final and o.median is not None else o.figure) if o.status == "ok" else None
        predicted = job.predicted.get(c.hash)
        return Found(c, o.status, figure, o.spread or 0.0, max(1, o.samples), predicted, self.seconds, o.message)

    # Finals -------------------------------------------------------------------------------------------------------

    def _finalists(self, job: Job) -> list[Candidate]:
        """The default schedule, the best few that are close, and what is best in the nearest buckets and was not tried here;
        none where there is nothing to decide."""
        ok = sorted((f for f in job.found.values() if f.ok), key=Found.rank)
        if not ok or self.settings.objective != "time":
            return []
        best = ok[0].figure
        assert best is not None
        close = [
            f.candidate
            for f in ok
            if f.figure is not None and f.figure <= CLOSE * best and f.candidate.hash != job.default.hash
        ][:FINALISTS]
        others = [
            Candidate(other.best.candidate.point, f"neighbour {other.bucket.text}")
            for other in nearest(job, self.jobs) if other.best is not None and other.best.candidate.hash not in job.found
        ]  # fmt: skip
        default = job.found.get(job.default.hash)
        made = [*([job.default] if default is not None and default.ok else []), *close]
        made += list({c.hash: c for c in others}.values())
        return made if len(made) > 1 else []

    def _final_seconds(self, job: Job) -> float:
        """What a finalist takes, about: it is compiled already, and runs some twenty times."""
        default = job.default_found
        run = default.figure if default is not None and default.figure is not None else 0.0
        return 0.1 + (20 * run if self.settings.objective == "time" else 0.0)

    def _finals(self) -> None:
        """Measure the finalists of each job in turns, those of the largest weight first, while there is time."""
        for job in sorted(self.jobs, key=lambda j: -j.weight):
            finalists = self._finalists(job)
            if not finalists:
                continue
            room = (self.settings.budget - self.seconds) / self._final_seconds(job)
            finalists = finalists[: max(2, int(room + 0.5))]
            if room < 1:
                late = "the finals of some buckets: their" if len(self.jobs) > 1 else "finals: the"
                self.words.append(f"no time was left for {late} best figures are of single runs")
                return
            self.current = job
            outcomes = self.measurer.finals(job.task, [str(c.schedule) for c in finalists])
            for outcome in outcomes:
                found = self._found(job, finalists[outcome.index], outcome, final=True)
                job.finals.append(found)
                self.memory.keep(job, found, outcome, final=True)
            self._show()

    # Buckets ------------------------------------------------------------------------------------------------------

    def _several(self, subject: Subject) -> bool:
        """Whether a kernel has buckets that schedules could be compared in."""
        mine = [j.bucket for j in self.jobs if j.subject is subject]
        return self.make is not None and len(mine) > 1

    def _assess(self) -> None:
        """Measure what it costs that buckets have one schedule, while there is time, and split those where it is much."""
        assert self.make is not None or not any(self._several(j.subject) for j in self.jobs)
        last = self.seconds

        def go_on() -> bool:
            nonlocal last
            took, last = self.seconds - last, self.seconds
            self._show()
            return self.seconds + 1.5 * took < self.settings.budget  # the next one is of larger sizes

        for subject in dict.fromkeys(j.subject for j in self.jobs):
            mine = [j for j in self.jobs if j.subject is subject]
            if self.make is None or not self._several(subject) or all(winner(j) is None for j in mine):
                continue
            self.phase, self.current = "buckets", None
            found = assess(mine, self.measurer, self.make, go_on, lambda: self.seconds)
            at = self.jobs.index(mine[0])
            self.jobs = [j for j in self.jobs if j.subject is not subject]
            self.jobs[at:at] = found.jobs
            self.regrets[subject.name] = found.regret
            self.words += found.words


__all__ = ["Forgetful", "Memory", "Settings", "Tuner"]

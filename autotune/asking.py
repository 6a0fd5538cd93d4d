"""The side of a tuner that asks: rounds of candidates are made, and ranked by the model, while others are measured."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.remember import found_of
from tilewright.autotune.search import Search, strategy
from tilewright.autotune.space import Choose, Dead, Point, Space, starts, usual
from tilewright.autotune.tasks import Candidate, Found, Job
from tilewright.autotune.transfer import from_neighbours
from tilewright.lang.errors import ScheduleError, TilewrightError

if TYPE_CHECKING:
    from tilewright.autotune.measure.task import Measurer
    from tilewright.lang.pipeline import Pipeline
    from tilewright.schedule.schedule import Schedule

ASKS = 20  # times that a search is asked before what it has is taken to be known
PARENTS = 8  # of what is known, with which a search begins


@dataclass(frozen=True, slots=True)
class Round:
    """Candidates of a job that are measured together; `problem` says why there can't be more of them."""

    job: Job
    candidates: Sequence[Candidate]
    problem: str = ""


class GivenUp(Exception):
    """Nobody waits any longer for what a search was asked for."""


class Asker:
    """Asks searches in a thread of its own, one round at a time. Searches are told what came out between rounds."""

    def __init__(self, measurer: Measurer, name: str, seed: int, jobs: Sequence[Job]):
        self.measurer, self.name, self.seed, self.jobs = measurer, name, seed, jobs
        self._pool = ThreadPoolExecutor(1, "tilewright-search")
        self._asked: Future[Round] | None = None
        self._closed = threading.Event()
        self._tells: list[tuple[Job, Point, float | None]] = []

    def close(self) -> None:
        """Give up what is being asked: a search that finds nothing new may go on for long, and programs end with threads."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def ready(self) -> bool:
        """Whether the round that was asked for is there."""
        return self._asked is not None and self._asked.done()

    @property
    def busy(self) -> bool:
        """Whether a round was asked for."""
        return self._asked is not None

    def ahead(self, job: Job, count: int) -> None:
        """Begin to ask for a round of a job: at most `count` candidates."""
        self._told()
        self._asked = self._pool.submit(self._safely, job, count)

    def take(self, seconds: float) -> Round | None:
        """The round that was asked for, which takes so many seconds at most; None where none was, or it is not there."""
        if self._asked is None:
            return None
        try:
            made = self._asked.result(max(0.0, seconds))
        except TooLate:
            return None
        self._asked = None
        return made

    def tell(self, found: Found, job: Job) -> None:
        """Something was judged; the search hears it when it is not being asked."""
        self._tells.append((job, found.candidate.point, found.figure if found.ok else None))

    def _told(self) -> None:
        for job, p, cost in self._tells:
            if job.search is not None:
                job.search.tell(p, cost)
        self._tells.clear()

    # In the thread ------------------------------------------------------------------------------------------------

    def _safely(self, job: Job, count: int) -> Round:
        """A round. What a space or a strategy raises ends the search of the job alone: what was found is kept."""
        try:
            return self._ask(job, count)
        except (TuneError, GivenUp):
            raise
        except Exception as e:
            job.exhausted = job.broken = True
            return Round(job, (), f"the search of {job.name} ended with {_told(e)}")

    def _ask(self, job: Job, count: int) -> Round:
        """Candidates that are not known yet: those that wait (the default schedule, what neighbours have found), in the
        first round by themselves, so that it begins at once; then what the search asks for."""
        first = job.search is None
        from_neighbours(job, self.jobs)
        made: list[Candidate] = []
        while job.waiting and len(made) < count:
            c = job.waiting.popleft()
            if c.hash not in job.asked and not recalled(job, c):
                job.asked.add(c.hash)
                made.append(c)
        if job.search is None:
            job.search = self._search(job, made)
        if first and made:
            return Round(job, made)
        made += self._proposed(job, count - len(made))
        empty = job.exhausted and job.asked | job.found.keys() <= {job.default.hash}
        problem = f"{job.name}: nothing but the default schedule is there to try{refusal(job.space)}" if empty else ""
        return Round(job, made, problem)

    def _proposed(self, job: Job, count: int) -> list[Candidate]:
        """What the search asks for, but for what is known, which it is told at once."""
        made: list[Candidate] = []
        assert job.search is not None
        for _ in range(ASKS):
            points = job.search.ask(count - len(made)) if len(made) < count else []
            for p in points:
                c = Candidate(p)
                if recalled(job, c):
                    job.search.tell(p, job.found[p.hash].figure)
                elif p.hash not in job.asked:
                    job.asked.add(p.hash)
                    made.append(c)
            if len(made) >= count:
                return made
            if not points:
                job.exhausted = True
                return made
        return made

    def _search(self, job: Job, first: Iterable[Candidate]) -> Search:
        good = sorted((f for f in tuple(job.found.values()) if f.ok), key=Found.rank)
        known = [f.candidate.point for f in good if f.candidate.point.trace][:PARENTS]
        seeds = [*starts(job.space), *(c.point for c in first), *known]
        space = Considerate(job.space, getattr(self.measurer, "working", nullcontext), self._closed)
        return strategy(self.name, space, self.seed, lambda points: self._predict(job, points), seeds)

    def _predict(self, job: Job, points: Sequence[Point]) -> list[float | None]:
        """The predicted figures of points, of each schedule once."""
        new = list({p.hash: p for p in points if p.hash not in job.predicted}.values())
        if new:
            said = self.measurer.predict(job.task, [str(p.schedule) for p in new])
            job.predicted.update(zip((p.hash for p in new), said, strict=True))
        return [job.predicted[p.hash] for p in points]


@dataclass(frozen=True, slots=True)
class Considerate:
    """A space that makes schedules while nothing is timed on this machine: `working` is a LocalMeasurer's. It raises GivenUp
    once it is `closed`."""

    space: Space
    working: Callable[[], AbstractContextManager[None]]
    closed: threading.Event

    @property
    def name(self) -> str:
        return self.space.name

    @property
    def pipeline(self) -> Pipeline:
        return self.space.pipeline

    def build(self, choose: Choose) -> Schedule:
        if self.closed.is_set():
            raise GivenUp
        with self.working():
            return self.space.build(choose)

    def __getattr__(self, name: str) -> Any:  # what a space has besides
        return getattr(self.space, name)


def _told(e: Exception) -> str:
    """An error with its place: of ours it is in the text."""
    if isinstance(e, TilewrightError):
        return str(e)
    at = traceback.extract_tb(e.__traceback__)[-1:]
    return f"{type(e).__name__}: {e}" + "".join(f" ({f.filename}:{f.lineno})" for f in at)


def refusal(space: Space) -> str:
    """Why the usual choices of a space lead to no schedule; empty where they lead to one."""
    try:
        space.build(usual)
    except ScheduleError as e:
        return f", as its space is empty; with the usual choices it ends with\n{e}"
    except Dead as e:
        return f", as its space is empty; the usual choices lead nowhere{f': {e.__cause__}' if e.__cause__ else ''}"
    except IndexError:
        return ", as its space is empty; a usual choice is one among no values"
    return ""


def recalled(job: Job, c: Candidate) -> bool:
    """Whether a candidate was judged in this run or, by the records, before: then the job knows what came out."""
    if c.hash in job.found:
        return True
    r = job.known.get(str(c.schedule).rstrip("\n"))
    if r is None:
        return False
    job.learn(replace(found_of(c.point, r), candidate=c))
    return True


__all__ = ["Asker", "Round", "recalled"]

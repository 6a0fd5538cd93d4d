"""How far a tuner is, as data: what displays show, and what a function that is given as `progress=` gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.autotune.tasks import Job


@dataclass(frozen=True, slots=True)
class JobState:
    """One bucket of one kernel. Figures are in the unit of the whole; None where there is none yet."""

    kernel: str
    bucket: str
    default: float | None
    best: float | None
    origin: str  # of the best one: default, plan, neighbour, records, search
    bound: float | None
    tried: int
    pruned: int
    failed: Mapping[str, int]
    state: str  # waiting, searching, exhausted, done

    @property
    def gain(self) -> float | None:
        """How many times better than the default schedule."""
        return self.default / self.best if self.default and self.best else None

    @property
    def reached(self) -> float | None:
        """The share of what is possible: the bound's figure by the best one."""
        return self.bound / self.best if self.bound and self.best else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tuner at a moment: seconds since it began, what it does (starting, searching, finals, done), and its jobs."""

    seconds: float
    budget: float
    phase: str
    objective: str
    unit: str
    jobs: tuple[JobState, ...]
    current: str = ""  # the job that is measured
    machine: str = ""
    trials: int | None = None
    reused: int = 0
    news: str = ""  # what has just happened: a new best one
    words: tuple[str, ...] = field(default=())  # what the user should know

    @property
    def tried(self) -> int:
        return sum(j.tried for j in self.jobs)

    @property
    def pruned(self) -> int:
        return sum(j.pruned for j in self.jobs)

    @property
    def failed(self) -> Counter[str]:
        return sum((Counter(j.failed) for j in self.jobs), Counter())

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self.budget - self.seconds)


def job_state(job: Job, current: Job | None, done: bool) -> JobState:
    default, best = job.default_found, job.best
    state = "done" if done else "searching" if job is current else "exhausted" if job.exhausted else "waiting"
    return JobState(
        job.subject.name, job.bucket.text, default.figure if default else None, best.figure if best else None,
        best.candidate.origin if best else "", job.bound, job.tried, job.pruned, dict(job.failed), state,
    )  # fmt: skip


__all__ = ["JobState", "Snapshot", "job_state"]

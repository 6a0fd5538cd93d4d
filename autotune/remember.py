"""What a tuner takes from records, and writes into them: every judged candidate at once, so that nothing is judged twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from tilewright.autotune.records import Record, Records, key_of
from tilewright.autotune.tasks import Candidate, Found, Job
from tilewright.autotune.transfer import again, carried, offer, replayed

if TYPE_CHECKING:
    from tilewright.autotune.fingerprint import Fingerprint
    from tilewright.autotune.measure.task import Measurer, Outcome
    from tilewright.autotune.records import Key
    from tilewright.autotune.space import Point
    from tilewright.hw import Machine

BEFORE = -1.0  # when: in an earlier run
PARENTS = 8  # of the best known schedules, with which a search begins
ADVICE = 4  # records of similar kernels, buckets and machines that a search begins with
LOOKED = 40  # records that are looked at for them


class RecordMemory:
    """Records as a tuner's memory. `machine` is the simulated one, None where times of a computer are measured."""

    def __init__(self, records: Records, fingerprint: Fingerprint, machine: Machine | None = None):
        self.records, self.fingerprint, self.machine = records, fingerprint, machine

    @property
    def words(self) -> tuple[str, ...]:
        return self.records.problems

    def key(self, job: Job, fingerprint: Fingerprint | None = None) -> Key:
        """What figures of a job's schedules depend on."""
        there = replace(fingerprint or self.fingerprint, threads=job.task.threads)
        return key_of(
            job.subject.pipeline, mode=job.subject.mode, bucket=job.bucket.text, objective=job.task.objective,
            machine=self.machine, fingerprint=there,
        )  # fmt: skip

    def recall(self, job: Job) -> dict[str, Record]:
        """What was judged before under the same key, at the same sizes, by the text of the schedule: the last word."""
        mine = [r for r in self.records.of(self.key(job)) if _same_case(r, job) and r.status != "stopped"]
        return {r.schedule: r for r in sorted(mine, key=lambda r: r.when)}

    def parents(self, job: Job) -> Iterator[Found]:
        """The best of what is known, as points of the job's space."""
        good = sorted(
            (r for r in job.known.values() if r.figure is not None), key=lambda r: (r.figure, r.configuration)
        )
        for r in good[:PARENTS]:
            p = point_of(job, r)
            if p is not None:
                yield found_of(p, r)

    def advise(self, job: Job) -> None:
        """Offer the job the schedules of records of other buckets, types, versions and machines, the nearest first."""
        near = self.records.candidates(
            job.subject.pipeline, job.sizes, bucket=job.bucket.text, mode=job.subject.mode, objective=job.task.objective,
            machine=self.machine, fingerprint=replace(self.fingerprint, threads=job.task.threads), cache=job.task.cache,
        )  # fmt: skip
        offered = 0
        for found in islice(near, LOOKED):
            r = found.record
            if not (found.exact and _same_case(r, job)):
                offered += offer(job, carried(job.space, r.values, r.schedule), "records")
            if offered >= ADVICE:
                return

    def keep(self, job: Job, found: Found, outcome: Outcome, final: bool = False) -> None:
        """Write down what was measured, before anything else is."""
        self.records.add(self._record(job, found, outcome, "final" if final else "search"))

    def choose(self, job: Job, found: Found) -> None:
        """Write down which schedule has won."""
        if found.at >= 0:
            self.records.add(self._record(job, found, None, "chosen"))

    def _record(self, job: Job, found: Found, outcome: Outcome | None, stage: str) -> Record:
        figure = (outcome.figure if outcome else found.figure) if found.ok else None
        p = found.candidate.point
        return Record(
            self.key(job, outcome.fingerprint if outcome else None), job.task.sizes, str(p.schedule), found.status, figure,
            job.task.unit, (), outcome.median if outcome and found.ok else None,
            found.spread / figure if figure else None, job.task.cache, stage=stage, origin=found.candidate.origin,
            message=found.message, values=p.values,
        )  # fmt: skip


def _same_case(r: Record, job: Job) -> bool:
    """Whether a record's figure is for what the job measures."""
    return dict(r.sizes) == dict(job.task.sizes) and r.cache == job.task.cache


def point_of(job: Job, r: Record) -> Point | None:
    """The point of a record: by its choices where they still lead to its schedule, else without them."""
    made = again(job.space, r.values)
    if made is not None and str(made.schedule) == r.schedule:
        return made
    return replayed(job.space, r.schedule)


def found_of(p: Point, r: Record) -> Found:
    """What a record says of a point."""
    spread = (r.spread or 0.0) * (r.figure or 0.0)
    return Found(Candidate(p, "records"), r.status, r.figure, spread, at=BEFORE, message=r.message)


def memory_of(records: Records | None, machine: Machine | None) -> Callable[[Measurer], RecordMemory] | None:
    """What makes a tuner's memory once it is known where is measured; None where nothing is kept."""
    return None if records is None else lambda measurer: RecordMemory(records, measurer.fingerprint, machine)


__all__ = ["RecordMemory", "found_of", "memory_of", "point_of"]

"""After the search over buckets: what it costs that each has one schedule, and what is done about it.

Schedules of neighbouring buckets compete inside of each other (see `regret`). Where a neighbour's is better at the sizes
that a bucket was tuned at, the bucket takes it; where it is better elsewhere in the bucket and that costs too much, the
bucket is split, and each half has the best of those that compete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.autotune.buckets import Bucket, Buckets
from tilewright.autotune.regret import Probe, Regret, Sample, after, assessed, probes, sampled
from tilewright.autotune.tasks import Candidate, Found, Job, Subject, winner

if TYPE_CHECKING:
    from tilewright.autotune.measure.task import Measurer

MakeJob = Callable[[Subject, Bucket], Job]


@dataclass(frozen=True)
class Assessed:
    """What became of the buckets of a kernel: their jobs in order, what regret was measured before anything was changed, and
    what was changed, in words."""

    jobs: tuple[Job, ...]
    regret: Regret
    words: tuple[str, ...]


def assess(
    jobs: Sequence[Job], measurer: Measurer, make: MakeJob, go_on: Callable[[], bool], now: Callable[[], float]
) -> Assessed:
    """Measure the regret of a kernel's buckets while `go_on` says so, and mend what can be mended."""
    chosen = {j.bucket.text: w.candidate for j in jobs if (w := winner(j)) is not None}
    buckets = Buckets([j.bucket for j in jobs])
    default = jobs[0].default
    todo = probes(buckets, {t: str(c.schedule) for t, c in chosen.items()}, str(default.schedule))
    task = jobs[0].task
    regret = assessed(measurer, lambda sizes: replace(task, sizes=dict(sizes)), todo, go_on)
    by_text = {j.bucket.text: j for j in jobs}
    named = {**chosen, "": default}
    words = []
    for bucket, _, sample in regret.better():
        job = by_text[bucket.text]
        job.finals = found_in(sample, named, bucket.text, now())
        best = winner(job)
        if best is not None and best.candidate.hash != chosen[bucket.text].hash:
            whose = best.candidate.origin.removeprefix("neighbour ")
            words.append(f"{bucket} has the schedule of {whose}, which is better there" if whose != "default" else
                         f"{bucket} has the default schedule, which is no worse there")  # fmt: skip
    kept = list(jobs)
    for bucket in regret.to_split():
        if not go_on():
            break
        old = by_text[bucket.text]
        halves = [
            _half(b, old, regret, named, measurer, make, now) for b in buckets.split(bucket) if b not in buckets.all
        ]
        if all(winner(h) is not None for h in halves):
            at = kept.index(old)
            kept[at : at + 1] = halves
            words.append(f"{bucket} was split: one schedule for all of it costs {100 * (regret.of(bucket) or 0):.0f} %")
    if words:
        words.append(f"with these changes the {_remaining(kept, regret, named)}")
    return Assessed(tuple(kept), regret, tuple(words))


def _remaining(jobs: Sequence[Job], regret: Regret, named: Mapping[str, Candidate]) -> str:
    """The regret once jobs have what they have now, by what was measured already."""
    hashes = {j.bucket: best.candidate.hash for j in jobs if (best := winner(j)) is not None}
    now = {j.bucket: [n for n, c in named.items() if c.hash == hashes.get(j.bucket)] for j in jobs}
    return after(regret, now).summary()


def _half(
    b: Bucket, old: Job, regret: Regret, named: Mapping[str, Candidate], measurer: Measurer, make: MakeJob,
    now: Callable[[], float],
) -> Job:  # fmt: skip
    """The job of a half: the schedules that competed in the whole compete at its sizes."""
    job = make(old.subject, b)
    competing = next(s.probe.schedules for s in regret.samples if s.probe.bucket.text == old.bucket.text)
    sample = sampled(measurer, job.task, Probe(b, b.point, competing, True))
    job.finals = found_in(sample, named, old.bucket.text, now())
    for f in job.finals:
        job.learn(f)
    return job


def found_in(sample: Sample, named: Mapping[str, Candidate], own: str, now: float) -> list[Found]:
    """What a sample says of the schedules that competed."""
    found = []
    for name, figure in sample.figures.items():
        c = named[name]
        origin = "default" if not name else c.origin if name == own else f"neighbour {name}"
        spread, runs = sample.spreads.get(name, 0.0), max(1, sample.counts.get(name, 1))
        found.append(Found(replace(c, origin=origin), "ok", figure, spread, runs, at=now))
    return found


__all__ = ["Assessed", "MakeJob", "assess", "found_in"]

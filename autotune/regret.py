"""What it costs that a bucket has one schedule: measured at sizes of the bucket that it was not tuned at.

Let s(b) be the schedule of bucket b, tuned at its point p(b), t(s, x) the figure of a schedule at sizes x, and C(b) the
schedules that compete in b: s(b), those of its neighbours, and the default schedule. All figures at one x are measured in
turns (`Measurer.finals`), so that they can be compared.

    regret at x            r(b, x) = t(s(b), x) / min over s in C(b) of t(s, x) - 1
    regret of a bucket     R(b)    = max over the samples x of b of r(b, x): its lowest, middle and highest sizes
    regret of all          exp(sum over b of w(b) * mean over x of log(1 + r(b, x))) - 1, w(b) the share of the calls
    winner-flip rate       the share of samples x at which another schedule than s(b) is best by more than NOISE and by more
                           than the times spread
    transfer regret        T(a, b) = t(s(a), p(b)) / t(s(b), p(b)) - 1 of neighbours a, b with different schedules: what it
                           would cost if b had none of its own; of all: the geometric mean of 1 + T, minus 1

The regret is one among schedules that were found, and so a lower bound on that against tuning every size by itself. A bucket
is to be split when R(b) > LIMIT and it is flipped at the worst sample; its halves begin with the schedules that won there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.autotune.buckets import Bucket, Buckets

if TYPE_CHECKING:
    from tilewright.autotune.measure.task import Measurer, Task

LIMIT = 0.05  # regret of a bucket beyond which it is split
NOISE = 0.01  # differences up to here are none
NEIGHBOURS = 2  # whose schedules compete

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Probe:
    """Sizes at which schedules compete: those of `bucket` and others, as texts by the bucket that each was chosen for (""
    for the default schedule). `point`: whether they are those that the bucket was tuned at."""

    bucket: Bucket
    sizes: Sizes
    schedules: Mapping[str, str]
    point: bool = False


@dataclass(frozen=True)
class Sample:
    """What came out of a probe: figures, their spreads and of how many runs they are, by the same names, of those that
    could be measured."""

    probe: Probe
    figures: Mapping[str, float]
    spreads: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def own(self) -> float | None:
        """The figure of the bucket's own schedule."""
        return self.figures.get(self.probe.bucket.text)

    @property
    def best(self) -> str | None:
        """Which schedule is best here; of equal ones the bucket's own."""
        mine = self.probe.bucket.text
        return min(self.figures, key=lambda n: (self.figures[n], n != mine, n), default=None)

    @property
    def regret(self) -> float | None:
        """r(b, x) of the module's formula; None where the bucket's own schedule could not be measured."""
        if self.own is None or self.best is None:
            return None
        best = self.figures[self.best]
        return self.own / best - 1 if best > 0 else 0.0

    @property
    def flipped(self) -> bool:
        """Whether another schedule is best, beyond noise."""
        if self.own is None or self.best is None or self.regret is None:
            return False
        mine, theirs = self.spreads.get(self.probe.bucket.text, 0.0), self.spreads.get(self.best, 0.0)
        return self.regret > NOISE and self.own - self.figures[self.best] > max(mine, theirs)


@dataclass(frozen=True)
class Regret:
    """The measured cost of buckets, from samples inside of them and at their points."""

    samples: tuple[Sample, ...]
    complete: bool = True  # whether all probes were made

    def of(self, bucket: Bucket) -> float | None:
        """R(b); None where nothing was measured (a bucket of a single size has nothing to regret)."""
        found = [s.regret for s in self.samples if s.probe.bucket.text == bucket.text and s.regret is not None]
        return max(found, default=None)

    @property
    def buckets(self) -> dict[str, float]:
        """R(b) by bucket."""
        texts = dict.fromkeys(s.probe.bucket.text for s in self.samples)
        found = {t: max((s.regret for s in self.samples if s.probe.bucket.text == t and s.regret is not None), default=None)
                 for t in texts}  # fmt: skip
        return {t: r for t, r in found.items() if r is not None}

    @property
    def inside(self) -> tuple[Sample, ...]:
        """The samples at sizes that no bucket was tuned at."""
        return tuple(s for s in self.samples if not s.probe.point and s.regret is not None)

    @property
    def mean(self) -> float | None:
        """The regret of all, by the weights of the buckets; None without samples."""
        logs: dict[Bucket, list[float]] = {}
        for s in self.inside:
            assert s.regret is not None
            logs.setdefault(s.probe.bucket, []).append(math.log1p(s.regret))
        total = sum(b.weight for b in logs)
        if not total:
            return None
        return math.expm1(sum(b.weight * sum(x) / len(x) for b, x in logs.items()) / total)

    @property
    def flips(self) -> float | None:
        """The winner-flip rate."""
        return sum(s.flipped for s in self.inside) / len(self.inside) if self.inside else None

    @property
    def transfers(self) -> dict[tuple[str, str], float]:
        """T(a, b) by the texts of a and b."""
        found = {}
        for s in self.samples:
            if s.probe.point and s.own:
                for name, figure in s.figures.items():
                    if name not in ("", s.probe.bucket.text):
                        found[name, s.probe.bucket.text] = figure / s.own - 1
        return found

    @property
    def transfer(self) -> float | None:
        """The transfer regret of all: negative where neighbours' schedules are better than the own ones."""
        logs = [math.log1p(t) for t in self.transfers.values()]
        return math.expm1(sum(logs) / len(logs)) if logs else None

    def to_split(self, limit: float = LIMIT) -> tuple[Bucket, ...]:
        """The buckets whose regret is above a limit, beyond noise, the worst first."""
        worst: dict[Bucket, float] = {}
        for s in self.inside:
            if s.flipped and s.regret is not None and s.regret > limit:
                worst[s.probe.bucket] = max(worst.get(s.probe.bucket, 0.0), s.regret)
        return tuple(sorted(worst, key=lambda b: -worst[b] * b.weight))

    def better(self) -> Iterator[tuple[Bucket, str, Sample]]:
        """At the points of buckets: where the schedule of another one is best beyond noise, and whose it is."""
        for s in self.samples:
            if s.probe.point and s.flipped and s.best is not None:
                yield s.probe.bucket, s.best, s

    def as_json(self) -> dict[str, Any]:
        return {
            "regret": self.mean, "flips": self.flips, "transfer": self.transfer, "buckets": self.buckets,
            "split": [b.text for b in self.to_split()], "complete": self.complete,
            "samples": [{"bucket": s.probe.bucket.text, "sizes": dict(s.probe.sizes), "figures": dict(s.figures)}
                        for s in self.samples],
        }  # fmt: skip

    def summary(self) -> str:
        """`regret is 1.2 % (worst 4.5 %), another schedule is better at 1 of 6 sizes`"""
        if not self.inside:
            return "regret of buckets is unknown"
        return (
            f"regret is {_percent(self.mean)} (worst {_percent(max(self.buckets.values()))}), another schedule is better at "
            f"{sum(s.flipped for s in self.inside)} of {len(self.inside)} sizes"
        )

    def __str__(self) -> str:
        if not self.samples:
            return "regret of buckets: nothing was measured"
        lines = [f"{self.summary()}, transfer regret {_percent(self.transfer)}"]
        bad = self.to_split()
        if bad:
            lines.append(f"one schedule is too little for {', '.join(b.text for b in bad)}")
        if not self.complete:
            lines.append("there was no time for all sizes")
        return "\n".join(lines)


def after(regret: Regret, now: Mapping[Bucket, Collection[str]]) -> Regret:
    """What the same samples say once other schedules are in charge: `now` has the buckets that there are, each with the
    names that its schedule has in samples."""
    return replace(regret, samples=tuple(_renamed(s, now) for s in regret.samples))


def _renamed(s: Sample, now: Mapping[Bucket, Collection[str]]) -> Sample:
    bucket = next(b for b in now if s.probe.sizes in b)
    own = next((n for n in now[bucket] if n in s.figures), None)
    names = {n: bucket.text if n == own else "before" if n == bucket.text else n for n in s.figures}
    figures = {names[n]: x for n, x in s.figures.items()}
    spreads = {names[n]: x for n, x in s.spreads.items() if n in names}
    counts = {names[n]: x for n, x in s.counts.items() if n in names}
    return Sample(replace(s.probe, bucket=bucket), figures, spreads, counts)


def _percent(x: float | None) -> str:
    return "unknown" if x is None else f"{100 * x:.1f} %"


def neighbours(buckets: Buckets, bucket: Bucket, count: int = NEIGHBOURS) -> list[Bucket]:
    """The buckets whose points are nearest to that of one, by ratio, from either side where there are some."""
    others = [b for b in buckets if b is not bucket]

    def far(b: Bucket) -> tuple[float, tuple[int, ...]]:
        apart = sum(abs(math.log(max(x, 1) / max(y, 1))) for x, y in zip(b.at, bucket.at, strict=True))
        return apart, tuple(-n for n in b.at)

    near = sorted(others, key=far)
    if near:  # the nearest one on the other side comes second
        below = near[0].at < bucket.at
        other = next((b for b in near if (b.at < bucket.at) != below), None)
        near = [near[0], *([other] if other is not None else []), *(b for b in near[1:] if b is not other)]
    return near[:count]


def probes(buckets: Buckets, schedules: Mapping[str, str], default: str = "", points: bool = True) -> list[Probe]:
    """What is to be measured: each bucket's samples, those of the heaviest buckets first, then (with `points`) their points.

    `schedules` are texts by bucket, `default` is that of the default schedule ("": it does not compete).
    """
    inside, at_points = [], []
    for b in sorted(buckets, key=lambda b: -b.weight):
        if b.text not in schedules:
            continue
        named = {b.text: schedules[b.text]}
        named |= {n.text: schedules[n.text] for n in neighbours(buckets, b) if n.text in schedules}
        competing = _each_once(named | ({"": default} if default else {}))
        if len(competing) > 1:
            inside += [Probe(b, x, competing) for x in b.samples() if min(x.values(), default=1) > 0]
            at_points.append(Probe(b, b.point, competing, True))
    return [*inside, *(at_points if points else ())]


def _each_once(schedules: Mapping[str, str]) -> dict[str, str]:
    """Schedules of which each is there once, under the first of its names."""
    found: dict[str, str] = {}
    for name, text in schedules.items():
        if text not in found.values():
            found[name] = text
    return found


def sampled(measurer: Measurer, task: Task, probe: Probe) -> Sample:
    """Measure the schedules of a probe in turns. `task` is the kernel's at the sizes of the probe."""
    names = list(probe.schedules)
    outcomes = measurer.finals(task, [probe.schedules[n] for n in names])
    good = [(names[o.index], o) for o in outcomes if o.ok and o.figure is not None]
    figures = {n: o.figure for n, o in good if o.figure is not None}
    return Sample(probe, figures, {n: o.spread or 0.0 for n, o in good}, {n: o.samples for n, o in good})


def assessed(
    measurer: Measurer, task: Callable[[Sizes], Task], todo: Sequence[Probe], go_on: Callable[[], bool] = lambda: True
) -> Regret:
    """Measure probes as long as there is time. `task` gives the kernel's task at some sizes."""
    found: list[Sample] = []
    for p in todo:
        if not go_on():
            break
        found.append(sampled(measurer, task(p.sizes), p))
    return Regret(tuple(found), len(found) == len(todo))


def split(buckets: Buckets, bad: Iterable[Bucket]) -> Buckets:
    """The buckets in which some are cut in two; those of a single size stay."""
    for b in bad:
        if any(r.low != r.high for r in b.ranges):
            buckets = buckets.split(b)
    return buckets


__all__ = [
    "LIMIT",
    "NOISE",
    "Probe",
    "Regret",
    "Sample",
    "after",
    "assessed",
    "neighbours",
    "probes",
    "sampled",
    "split",
]

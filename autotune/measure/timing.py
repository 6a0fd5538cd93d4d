"""How one candidate is timed: warm until two runs agree, then as often as its figures need.

The figure is the least of all samples: what else runs on a computer makes times longer, never shorter. Samples begin
with the two runs that agree, and end once the best and the third of them agree and they have taken long enough, or have
taken four times that.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Policy:
    """When there are enough samples: `least` seconds of them at least, of which the best and the third agree within
    `agreement` (of the best). A sample is repeated calls that take `sample` seconds, where one call is shorter. What takes
    `hopeless` times the best so far gets no more samples."""

    least: float = 0.02
    agreement: float = 0.03
    sample: float = 200e-6
    warm: float = 0.1  # how well two runs agree that are warm
    hopeless: float = 1.5
    most: float = 4.0  # times `least` (and times two samples) that they may take
    slow: float = 0.5  # seconds of a call of which one sample is enough
    few: int = 5  # samples of single calls that are enough where they agree, or three times as many
    pin: bool = True  # whether one thread is bound to a processor meanwhile

    def enough(self, samples: Sequence[float], taken: float, single: bool = False) -> bool:
        """`samples` are seconds of a call, `taken` all that they took together. Of samples of a `single` call, before each
        of which the caches are flushed, it is their number that counts: that takes far longer than they do."""
        if len(samples) < 3:
            return False
        best, third = sorted(samples)[::2][:2]
        agreed = third - best <= self.agreement * best
        if single and len(samples) >= (self.few if agreed else 3 * self.few):
            return True
        return taken >= self.least and (agreed or taken >= self.most * max(self.least, 2 * taken / len(samples)))


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a call in each sample."""

    samples: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """The median distance from the median."""
        return statistics.median(abs(s - self.median) for s in self.samples)


def timed(run: Run, calls: int = 1, before: Run | None = None, clock: Clock = time.perf_counter) -> float:
    """Seconds of one of so many calls in a row. What happens `before` is not counted."""
    if before is not None:
        before()
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def warmed(run: Run, policy: Policy, before: Run | None, best: float | None, clock: Clock) -> list[float]:
    """Seconds of single calls that count: the last two, once two in a row agree (or five did not)."""
    last = timed(run, 1, before, clock)
    for _ in range(4):
        if last > policy.slow or hopeless(last, best, 2 * policy.hopeless):
            return [last]
        now = timed(run, 1, before, clock)
        if abs(now - last) <= policy.warm * min(now, last):
            return [last, now]
        last = now
    return [last]


def hopeless(seconds: float, best: float | None, times: float) -> bool:
    """Whether it is so far from the best that it does not matter how far."""
    return best is not None and seconds > times * best


def sampled(
    run: Run, policy: Policy, before: Run | None = None, best: float | None = None, several: bool = True,
    clock: Clock = time.perf_counter,
) -> Times:  # fmt: skip
    """Time a call. `before` happens outside of the timed window of each sample; `several` calls may be a sample. `best`
    is the best figure of other candidates."""
    samples = warmed(run, policy, before, best, clock)
    calls = max(1, math.ceil(policy.sample / max(*samples, 1e-9))) if several else 1
    if calls > 1:
        samples = []  # they were of single calls, whose times the clock says less exactly
    while not _ended(samples, calls, policy, best, not several):
        samples.append(timed(run, calls, before, clock))
    return Times(tuple(samples))


def _ended(samples: Sequence[float], calls: int, policy: Policy, best: float | None, single: bool) -> bool:
    """Whether there are enough samples of so many calls each, or there is no hope."""
    if not samples:
        return False
    far = policy.hopeless * (1 if len(samples) > 1 else 2)
    return (
        min(samples) > policy.slow
        or hopeless(min(samples), best, far)
        or policy.enough(samples, sum(samples) * calls, single)
    )


def in_turns(
    runs: Sequence[Run], calls: Sequence[int], rounds: int, before: Run | None = None, clock: Clock = time.perf_counter
) -> list[Times]:
    """Time several candidates against each other, one sample of each in every round, in turned order every second time."""
    samples: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        order = range(len(runs)) if number % 2 == 0 else range(len(runs) - 1, -1, -1)
        for k in order:
            samples[k].append(timed(runs[k], calls[k], before, clock))
    return [Times(tuple(s)) for s in samples]


__all__ = ["Policy", "Times", "hopeless", "in_turns", "sampled", "timed", "warmed"]

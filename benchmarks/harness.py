"""One case: ours against a peer, values judged first, then timed in turns in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

LEAST_SECONDS = 0.002  # of one timed sample: shorter runs are repeated
BUDGET = 4.0  # seconds of timed runs a case


@dataclass(frozen=True)
class Case:
    """What is compared. `ours` and `peer` run once; `check` raises where either computes wrong values."""

    name: str
    peer_name: str
    ours: Callable[[], Any]
    peer: Callable[[], Any]
    check: Callable[[], Any]


@dataclass(frozen=True)
class Result:
    """Medians of seconds a run; `ratio` is peer/ours, above 1 where ours is faster."""

    case: str
    ours_s: float
    peer: str
    peer_s: float
    ratio: float
    rounds: int
    threads: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.case:22} {shown(self.ours_s):>10}  {self.peer:32} {shown(self.peer_s):>10}  {self.ratio:6.2f}"


def shown(seconds: float) -> str:
    """`1.52 ms`"""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def measure(case: Case, threads: int, rounds: int | None = None) -> Result:
    """Judge the values, warm up, then run ours and the peer in turns: both see the same state of the machine."""
    case.check()
    counts = {run: repetitions(run) for run in (case.ours, case.peer)}
    times: dict[Callable[[], Any], list[float]] = {case.ours: [], case.peer: []}
    start = time.perf_counter()
    while True:
        for run, count in counts.items():
            times[run].append(sample(run, count))
        done = len(times[case.ours])
        if done >= rounds if rounds is not None else (done >= 15 and time.perf_counter() - start > BUDGET):
            break
    ours, peer = (statistics.median(times[run]) for run in (case.ours, case.peer))
    return Result(case.name, ours, case.peer_name, peer, peer / ours, done, threads)


def repetitions(run: Callable[[], Any]) -> int:
    run()
    one = sample(run, 1)
    return max(1, round(LEAST_SECONDS / max(one, 1e-8)))


def sample(run: Callable[[], Any], count: int) -> float:
    """Seconds of one run, over `count` of them."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count

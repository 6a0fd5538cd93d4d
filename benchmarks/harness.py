"""One case: ours against its peers, values judged first, then timed in turns in one process.

The order of the runs is turned round from round to round, and a ratio is the median of those within a round, so that a
machine that changes its speed changes both sides of it.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LEAST_SECONDS = 0.002  # of one timed sample: shorter runs are repeated
BUDGET = 4.0  # seconds of timed runs a case
LEAST_ROUNDS = 15
SETTLE = (
    0.04  # seconds: threads of OpenBLAS look for work for 26 ms (2^26 cycles) after a call, those of OpenMP for less
)


@dataclass(frozen=True)
class Peer:
    """What ours is compared with. `target` is the ratio peer/ours that is asked for (None: it is shown beside);
    `missing` says why it can't run here."""

    name: str
    run: Callable[[], Any] | None
    target: float | None = None
    missing: str = ""


def peer(name: str, package: str, make: Callable[[], Callable[[], Any]], target: float | None = None) -> Peer:
    """A peer of the extra `bench`; `make` may import the package."""
    if importlib.util.find_spec(package) is None:
        return Peer(name, None, target, f"{package} is not installed")
    return Peer(name, make(), target)


@dataclass(frozen=True)
class Work:
    """What a case can't do without: operations of a type (a multiply-add is two), and bytes that it reads and writes.

    `span` is how many bytes go by before one is touched again, where that is more than a run touches: runs that take turns
    at several arrays.
    """

    operations: float = 0.0
    type: str = "f32"
    reads: float = 0.0
    writes: float = 0.0
    span: float = 0.0


@dataclass(frozen=True)
class Case:
    """What is compared. `ours` runs once, as each peer does; `check` raises where one of them computes wrong values."""

    ours: Callable[[], Any]
    peers: tuple[Peer, ...]
    check: Callable[[], Any]
    work: Work = field(default_factory=Work)


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Against:
    """A peer's seconds; `ratio` is peer/ours, above 1 where ours is faster."""

    name: str
    seconds: Spread | None
    ratio: Spread | None
    target: float | None = None
    missing: str = ""

    @property
    def reached(self) -> bool | None:
        return None if self.ratio is None or self.target is None else self.ratio.median >= self.target


@dataclass(frozen=True)
class Result:
    """What was measured. `limit_s` is the least time that the processor's arithmetic (`limit` = a type) or its memory
    (`limit` = read or copy) allows, as measured just after the runs."""

    case: str
    seconds: Spread
    peers: tuple[Against, ...]
    rounds: int
    threads: int
    limit: str | None = None
    limit_s: float | None = None

    @property
    def best(self) -> Against | None:
        """The fastest peer."""
        timed = [p for p in self.peers if p.seconds is not None]
        return min(timed, key=lambda p: p.seconds.median, default=None)  # type: ignore[union-attr]

    def as_json(self) -> dict[str, Any]:
        best = self.best
        return asdict(self) | {"best_peer": best.name if best else None}

    def __str__(self) -> str:
        share = f"{self.limit_s / self.seconds.median:4.0%} of {self.limit}" if self.limit_s else ""
        lines = []
        for p in self.peers:
            head = f"{self.case:26} {shown(self.seconds.median):>10}" if not lines else " " * 37
            if p.seconds is None or p.ratio is None:
                lines.append(f"{head}  {p.name:30} {p.missing}")
                continue
            aim = "" if p.target is None else f"{'>=' if p.reached else ' <'} {p.target:g}"
            lines.append(
                f"{head}  {p.name:30} {shown(p.seconds.median):>10} {p.ratio.median:6.2f} "
                f"[{p.ratio.low:.2f}-{p.ratio.high:.2f}] {aim:8} {share}".rstrip()
            )
            share = ""
        return "\n".join(lines or [f"{self.case:26} {shown(self.seconds.median):>10}  {share}"])


@dataclass(frozen=True)
class Skipped:
    """A case that can't be measured here, and why."""

    case: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"case": self.case, "skipped": self.reason}

    def __str__(self) -> str:
        return f"{self.case:26} not measured: {self.reason}"


@dataclass(frozen=True)
class Failed(Skipped):
    """A case that ended with an error: wrong values, say."""


def from_json(data: Mapping[str, Any]) -> Result:
    """A result from what its `as_json` gave, in another process."""

    def times(x: Mapping[str, float] | None) -> Spread | None:
        return None if x is None else Spread(**x)

    peers = tuple(Against(**{**p, "seconds": times(p["seconds"]), "ratio": times(p["ratio"])}) for p in data["peers"])
    known = {k: v for k, v in data.items() if k != "best_peer"}
    return Result(**{**known, "seconds": Spread(**data["seconds"]), "peers": peers})


def shown(seconds: float) -> str:
    """`1.52 ms`"""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def spread(values: list[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def measure(name: str, case: Case, threads: int, rounds: int | None = None) -> Result:
    """Judge the values, warm up, then run ours and the peers in turns; then what the processor could do at best."""
    from benchmarks.limits import least

    case.check()
    runs = {"": case.ours} | {p.name: p.run for p in case.peers if p.run is not None}
    times = in_turns(runs, rounds, settle=threads > 1)
    limit = least(case.work, threads)
    return result(name, times, case.peers, threads, *limit)


def result(
    name: str, times: Mapping[str, list[float]], peers: tuple[Peer, ...], threads: int, limit: str | None = None,
    limit_s: float | None = None,
) -> Result:  # fmt: skip
    """From seconds of each round, ours under the empty name."""
    ours = times[""]
    against = tuple(
        Against(p.name, None, None, p.target, p.missing)
        if p.name not in times
        else Against(
            p.name, spread(times[p.name]), spread([t / o for t, o in zip(times[p.name], ours, strict=True)]), p.target
        )
        for p in peers
    )
    return Result(name, spread(ours), against, len(ours), threads, limit, limit_s)


def in_turns(runs: Mapping[str, Callable[[], Any]], rounds: int | None, settle: bool = False) -> dict[str, list[float]]:
    """Seconds of a run by name, a figure a round. `settle`: the threads of the side before are given time to fall asleep,
    and those of this side are woken by an untimed run."""
    counts = {}
    for name, run in runs.items():
        time.sleep(SETTLE if settle else 0.0)
        counts[name] = repetitions(run)
    times: dict[str, list[float]] = {name: [] for name in runs}
    start, done = time.perf_counter(), 0
    while done < rounds if rounds else done < LEAST_ROUNDS or time.perf_counter() - start < BUDGET:
        for name in list(runs)[:: -1 if done % 2 else 1]:
            if settle:
                time.sleep(SETTLE)
                runs[name]()
            times[name].append(sample(runs[name], counts[name]))
        done += 1
        if not rounds and time.perf_counter() - start > 10 * BUDGET and done >= 3:
            break  # runs of seconds: fewer rounds do
    return times


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

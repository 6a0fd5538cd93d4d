"""How fast the simulated machine is, and how good its estimates are: cases without a peer.

A case gives one figure and says what is asked of it. `LONG` ones run only where they are named in full.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

# name -> what is measured
CASES = {
    "simulator-caches-matmul": "accesses a second through the caches of `sandybridge-ep`: f32 matmul 512, i-k-j",
    "simulator-caches-tiles": "the same with the default schedule at 1024: vectors, register tiles, many misses",
    "simulator-caches-stencil": "the same for a 5-point stencil over 2000 x 2002 f64",
    "simulator-caches-estimate": "one estimate of the misses of matmul 1024 in `generic-avx2`, lowered before",
    "simulator-skeleton": "the account of matmul 1024 without data: tiles of 256, 64 and 16 through three scratchpads",
    "simulator-skeleton-tails": "the same at 1000 x 1031 x 1000, where nothing comes out even",
    "simulator-cache-ranks": "rank correlation of estimate and exact misses, 200 random schedules (only if named)",
}
LONG = frozenset(("simulator-cache-ranks",))


@dataclass(frozen=True)
class Figure:
    """A measured figure. `aim` is what is asked of it, `at_least` whether more is better."""

    case: str
    value: float
    unit: str
    aim: float
    at_least: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        text = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.details.items())
        bound = "at least" if self.at_least else "at most"
        return f"{self.case:26} {self.value:>10.4g} {self.unit}  ({bound} {self.aim:g}; {text})"


def measure(name: str, rounds: int | None) -> Figure:
    """Run a case; medians of `rounds` (default 3)."""
    return _MEASURES[name](rounds or 3)


def _rate(name: str, case: Callable[[], tuple[Any, Any, dict[str, int]]], rounds: int) -> Figure:
    """Accesses a second of the kernel's run alone; what compiles it and makes its data is not in it."""
    from tilewright.codegen import instrumented
    from tilewright.codegen.accounts.prepared import prepare
    from tilewright.codegen.cpu_caches import DrivenCaches
    from tilewright.hw import load_machine

    class Timed:
        """The state is asked for where the run begins."""

        def __init__(self, program: Any):
            self.caches = DrivenCaches(program, on)
            self.driver = self.caches.driver
            self.start = self.seconds = 0.0

        @property
        def state(self) -> Any:
            self.start = time.perf_counter()
            return self.caches.state

        def finish(self) -> None:
            self.seconds = time.perf_counter() - self.start

    on = load_machine("sandybridge-ep")
    kernel, schedule, sizes = case()
    prepared = prepare(kernel.pipeline(), schedule, on, kernel.mode)
    rates, whole, counts = [], [], None
    for _ in range(rounds):
        made: list[Timed] = []

        def drive(program: Any, made: list[Timed] = made) -> Timed:
            made.append(Timed(program))
            return made[0]

        start = time.perf_counter()
        instrumented.run(prepared.pipeline, prepared.state, sizes, kernel.mode, {}, drive=drive)
        whole.append(time.perf_counter() - start)
        counts = made[0].caches.hierarchy.levels[0].total
        rates.append((counts.reads + counts.writes) / made[0].seconds / 1e6)
    assert counts is not None
    accesses = counts.reads + counts.writes
    details = {
        "accesses": accesses, "misses of L1": counts.misses / accesses, "seconds with compiling": statistics.median(whole),
    }  # fmt: skip
    return Figure(name, statistics.median(rates), "M accesses/s", 50, details=details)


def _plain_matmul() -> tuple[Any, Any, dict[str, int]]:
    from benchmarks.small import matmul

    s = matmul.schedule()
    s["C.init"].unscheduled()
    s["C.update"].unscheduled().reorder("i", "k", "j")
    return matmul, s, {"M": 512, "N": 512, "K": 512}


def _tiles() -> tuple[Any, Any, dict[str, int]]:
    from benchmarks.small import matmul

    return matmul, None, {"M": 1024, "N": 1024, "K": 1024}


def _plain_stencil() -> tuple[Any, Any, dict[str, int]]:
    from benchmarks.cache_ranks import stencil

    s = stencil.schedule()
    s["b"].unscheduled()
    return stencil, s, {"H": 2000, "W": 2002}


def _estimate(rounds: int) -> Figure:
    from benchmarks.small import matmul

    s = matmul.schedule()
    update = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 64, 64).split("k", "ko", "ki", 64)
    update.reorder("io", "jo", "ko", "ii", "ki", "ji")
    taken = []
    for k in range(max(5, rounds)):
        sizes = {"M": 1024 + 16 * k, "N": 1024, "K": 1024}
        start = time.perf_counter()
        matmul.cache_estimate(s, machine="generic-avx2", sizes=sizes)
        taken.append(time.perf_counter() - start)
    details = {"first ms (with lowering)": 1e3 * taken[0]}
    return Figure("simulator-caches-estimate", 1e3 * statistics.median(taken[1:]), "ms", 50, False, details)


def _skeleton(name: str, sizes: dict[str, int], rounds: int) -> Figure:
    """`kernel.account` with time and the annotated nest, once the schedule is lowered."""
    from benchmarks.skeleton_levels import levels
    from tilewright.codegen.accounts.prepared import prepare

    kernel, schedule, machine = levels()
    taken = []
    for _ in range(max(5, rounds) + 1):
        start = time.perf_counter()
        kernel.account(schedule, machine=machine, sizes=sizes)
        taken.append(time.perf_counter() - start)
    prepared = prepare(kernel.pipeline(), schedule, machine, "contract")
    start = time.perf_counter()
    prepared.result(sizes)
    details = {"first ms (with lowering)": 1e3 * taken[0], "engine alone ms": 1e3 * (time.perf_counter() - start)}
    return Figure(name, 1e3 * statistics.median(taken[1:]), "ms", 10, False, details)


def _ranks(rounds: int) -> Figure:
    from benchmarks.cache_ranks import ranks

    found = ranks(0, 200)
    details = {
        **{f"{n} correlation": c for n, c in found.correlation.items()},
        **{f"{n} median error": c for n, c in found.error.items()},
        "estimate ms": 1e3 * found.estimate_s, "exact ms": 1e3 * found.exact_s, "schedules": found.schedules,
    }  # fmt: skip
    return Figure("simulator-cache-ranks", min(found.correlation.values()), "rank correlation", 0.9, details=details)


_MEASURES: dict[str, Callable[[int], Figure]] = {
    "simulator-caches-matmul": lambda n: _rate("simulator-caches-matmul", _plain_matmul, n),
    "simulator-caches-tiles": lambda n: _rate("simulator-caches-tiles", _tiles, n),
    "simulator-caches-stencil": lambda n: _rate("simulator-caches-stencil", _plain_stencil, n),
    "simulator-caches-estimate": _estimate,
    "simulator-skeleton": lambda n: _skeleton("simulator-skeleton", {"M": 1024, "N": 1024, "K": 1024}, n),
    "simulator-skeleton-tails": lambda n: _skeleton("simulator-skeleton-tails", {"M": 1000, "N": 1031, "K": 1000}, n),
    "simulator-cache-ranks": _ranks,
}

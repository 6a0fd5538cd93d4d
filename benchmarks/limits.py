"""What the processor could do at best: multiply-adds between registers, and bytes that go through its caches and memory.

Both are measured where they are asked for, with the kernels of `tilewright machine probe`: the machine's speed of today and
of this minute, not of a data sheet.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.harness import Work
from tilewright.codegen.probe import measure
from tilewright.schedule.registers import host_registers

SECONDS = 0.15  # of one measurement


def least(work: Work, threads: int) -> tuple[str | None, float | None]:
    """Which limit is the nearer one, and seconds that the work takes at it.

    Bytes count at the rate of reading where hardly any are written, else at that of copying, with stores that are plain or
    go past the caches, whichever is faster; over arrays as large as the case's own (or its `span`): what fits a cache is
    judged by the cache.
    """
    found: list[tuple[float, str]] = []
    if work.operations:
        rate = together(threads, lambda: measure.peak(work.type, host_registers().width, SECONDS) or 0.0)
        if rate:
            found.append((work.operations / rate, f"peak {work.type}"))
    moved = work.reads + work.writes
    if moved:
        kind = "read" if work.writes < work.reads / 8 else "copy"
        found.append((moved / bandwidth(kind, round(max(moved, work.span)), threads), kind))
    if not found:
        return None, None
    seconds, name = max(found)
    return name, seconds


def bandwidth(kind: str, size: int, threads: int = 1) -> float:
    """Bytes a second that `read` or `copy` load and store, over `size` bytes together."""
    width = host_registers().width
    size = max(size // threads, 64 * width)

    def one() -> float:
        memory = measure.aligned(size + 64 * width)
        return measure.bandwidth(kind, memory, size, width, SECONDS)

    return together(threads, one)


def together(threads: int, rate: Callable[[], float]) -> float:
    """The sum of a rate over threads that run at the same time."""
    if threads == 1:
        return rate()
    with ThreadPoolExecutor(threads) as pool:
        return float(np.sum(list(pool.map(lambda _: rate(), range(threads)))))

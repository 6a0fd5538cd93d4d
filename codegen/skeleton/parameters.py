"""A machine's figures as the engine takes them: whole ticks, rounded up for each unit, so that no sum undercuts a bound."""

from __future__ import annotations

import math
from fractions import Fraction

from tilewright.codegen.skeleton.tree import Engine
from tilewright.hw import parts
from tilewright.hw.timing import TICKS


def ticks(cycles: float) -> int:
    """Ticks of a number of cycles, rounded up."""
    return math.ceil(Fraction(cycles) * TICKS)


def ticks_per(rate: float) -> int:
    """Ticks that one unit takes at so many units a cycle, rounded up."""
    return math.ceil(TICKS / Fraction(rate))


def engine_of(dma: parts.Dma) -> Engine:
    """What the engine knows of a DMA engine."""
    return Engine(
        dma.name,
        dma.channels,
        ticks(dma.issue),
        ticks(dma.latency),
        dma.queue,
        dma.alignment,
        dma.dims,
        dma.transpose,
        dma.contention,
    )


def rate_of(dma: parts.Dma, source: parts.Memory, target: parts.Memory) -> tuple[int, int]:
    """Ticks a byte of a copy, and the burst in bytes: what engine and both memories allow together."""
    bandwidth = min(dma.bandwidth, source.read_bandwidth, target.write_bandwidth)
    return ticks_per(bandwidth), max(dma.burst, source.burst, target.burst)

"""What a machine takes for operations and bytes, as far as planning goes: rates, and the memory that bytes come from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from tilewright.codegen.accounts.table import weight
from tilewright.hw import Machine
from tilewright.planner.goal import Goal
from tilewright.planner.measure import Operations

_SHARE = 0.6  # of a cache that a working set may take, so that what else passes through leaves it there
# How many times as long loads take as those of rows: two vectors and a shuffle; an element at a time.
_SPACING = {"row": 1.0, "spaced": 4.0, "scattered": 16.0}


@dataclass(frozen=True)
class Level:
    """Where bytes may lie: a cache, a scratchpad or main memory; capacity in bytes, bandwidth in bytes a cycle."""

    name: str
    capacity: float
    bandwidth: float


@dataclass(frozen=True)
class Model:
    """A machine for planning, and what the plan is for. Times are cycles."""

    machine: Machine
    goal: Goal = field(default_factory=Goal)

    @cached_property
    def staged(self) -> bool:
        """Whether tiles are staged in a scratchpad."""
        return any(m.kind == "scratchpad" and m.per == "machine" for m in self.machine.memories)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """From the core outwards; main memory last, which holds everything."""
        m = self.machine
        inner = [Level(c.name, c.size * _SHARE, c.bandwidth) for c in m.caches]
        pads = [
            Level(x.name, x.capacity or math.inf, x.read_bandwidth)
            for x in reversed(m.memories)
            if x.kind == "scratchpad"
        ]
        main = Level(m.main.name, math.inf, 2 / (1 / m.main.read_bandwidth + 1 / m.main.write_bandwidth))
        return (*(pads or inner), main)

    @property
    def near(self) -> Level:
        """Where tiles are kept: the scratchpad, or the outermost cache that a core has to itself."""
        levels = list(self.levels)
        return levels[max(0, min(1, len(levels) - 2))]

    def holding(self, size: float) -> Level:
        """The innermost level that holds so many bytes."""
        return next(x for x in self.levels if size <= x.capacity)

    def moving(self, size: float, working_set: float) -> float:
        """Cycles to read or write `size` bytes while `working_set` bytes are in use."""
        return size / self.holding(working_set).bandwidth

    def computing(self, done: Operations) -> float:
        """Cycles of operations at the machine's rates, as heavy as it says that their classes are."""
        return sum(n * self._cost(kind, name) for (kind, name), n in done.items())

    def loading(self, size: float, kind: str) -> float:
        """Cycles to load bytes of the innermost level into vectors, by how they lie (see Work.loads). Scratchpads
        have no lines: what loads take is in their accounts."""
        return 0.0 if self.staged else size * _SPACING[kind] / self.levels[0].bandwidth

    def _cost(self, kind: str, name: str) -> float:
        return self._costs.get((kind, name)) or self._costs.setdefault((kind, name), self._cost_of(kind, name))

    @cached_property
    def _costs(self) -> dict[tuple[str, str], float]:
        return {}

    def _cost_of(self, kind: str, name: str) -> float:
        rate = self.machine.compute.rate(name)
        return float(weight(self.machine.compute, kind)) / (rate or 1.0)


__all__ = ["Level", "Model"]

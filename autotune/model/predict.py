"""What a schedule costs at given sizes, foreseen from its loops: nothing is compiled, nothing runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tilewright.autotune.model.core import Core
from tilewright.autotune.model.memory import moving
from tilewright.autotune.model.rates import here
from tilewright.autotune.model.samples import Samples
from tilewright.autotune.model.walk import Walk
from tilewright.codegen.cache_estimate.tree import tree
from tilewright.codegen.lower import PASSES, as_written, lower
from tilewright.hw import CapacityError, Machine, SimulationError
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import index_value
from tilewright.schedule.machines import as_machine
from tilewright.schedule.registers import Registers, host_registers
from tilewright.schedule.schedule import Schedule

# What loops become afterwards (parts without conditions, edges) changes what a compiler makes of them, not what they do.
_PASSES = tuple(x for x in PASSES if x[0] in ("nest", "flatten", "sizes", "single", "functions"))
_SHOWN = 0.1  # of the time that data take to come, where computing takes as long
_BEYOND = 0.2  # of what they take longer than that


@dataclass(frozen=True, slots=True)
class Prediction:
    """`cost` is in seconds, or the unit of a simulated objective; infinite where the schedule can't be, and `reason` says
    why; None where nothing can be said. `parts` are the cycles that make up a time."""

    cost: float | None
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """Predicts the cost of schedules of a pipeline at these sizes.

    The objective `time` is that of this computer with so many threads, or of cores like that of `machine`; `cycles`,
    `bytes` and `energy` are those of a simulated machine (None: the one that a schedule is bound to).
    `scalars` are known where loops end or indices go by them.
    """

    pipeline: Pipeline
    sizes: Mapping[str, int]
    machine: Machine | str | None = None
    mode: str = "contract"
    threads: int = 1
    objective: str = "time"
    scalars: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_all_sizes(self.pipeline, self.sizes)

    def predict(self, schedule: Schedule) -> Prediction:
        """The cost of a schedule; what it leaves alone has the default schedule."""
        try:
            if self.objective == "time":
                return self._time(schedule)
            return self._figure(schedule)
        except CapacityError as e:
            return Prediction(math.inf, e.message)
        except SimulationError as e:
            return Prediction(None, e.message)
        except TilewrightError as e:
            return Prediction(math.inf, e.message)

    # Time -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _registers(self) -> Registers:
        return host_registers()

    @cached_property
    def _host(self) -> Machine:
        return here() if self.machine is None else as_machine(self.machine, Schedule(self.pipeline))

    @cached_property
    def _caches(self) -> Machine:
        """The machine with caches that go by physical addresses, all but the first, taken for such without sets: pages lie
        anywhere."""
        first, *others = self._host.caches or (None,)
        if first is None:
            return self._host
        return replace(self._host, caches=(first, *(replace(c, ways=c.size // c.line) for c in others)))

    @cached_property
    def _core(self) -> Core:
        return Core.of(self._host, self._registers)

    @cached_property
    def _env(self) -> dict[str, Any]:
        return {**self.sizes, **self.scalars}

    @cached_property
    def _elements(self) -> list[int]:
        """Of every argument of the program."""
        p = self.pipeline
        shapes = [a.extents for a in p.arrays], [o.extents for o in p.outputs]
        inputs, outputs = ([math.prod(max(0, index_value(e, self._env)) for e in s) for s in group] for group in shapes)
        return [*inputs, *(t.values.size for t in p.tables), *outputs]

    def _time(self, schedule: Schedule) -> Prediction:
        from tilewright.codegen.compile import completed

        full = completed(self.pipeline, schedule, self.mode, self._registers)
        program = lower(as_written(full.state, self.mode, "model", sizes=self.sizes), _PASSES).program
        computing = Walk(self._core, Samples(self._env), self.threads).run(program)
        parts = {"computing": computing.cycles}
        try:
            root = tree(program, self._host, self._env, self._elements)
        except SimulationError:  # a loop that ends where data say
            root = None
        if root is not None:
            parts |= {n: c / computing.speedup for n, c in moving(root, self._caches).items()}
        come = sum(parts.values()) - parts["computing"]
        cycles = parts["computing"] + _SHOWN * come + _BEYOND * max(0.0, come - parts["computing"])
        return Prediction(cycles / (self._host.clock_ghz * 1e9), "", parts)

    # Simulated machines -----------------------------------------------------------------------------------------------

    def _figure(self, schedule: Schedule) -> Prediction:
        """The figure itself: an account takes less time than a compilation."""
        from tilewright.codegen.accounts.prepared import prepare
        from tilewright.planner.worst import at_most

        prepared = prepare(self.pipeline, schedule, self.machine, self.mode)
        found = at_most(prepared, self.sizes, time=self.objective == "cycles")
        if self.objective == "cycles":
            return Prediction(None, found.untimed) if found.time is None else Prediction(float(found.time.cycles))
        if self.objective == "energy":
            return Prediction(float(sum(found.energy.values())) if found.energy else None)
        main = prepared.machine.main.name
        moved = (r.bytes_read + r.bytes_written for r in found.traffic if r.memory == main)
        return Prediction(float(sum(moved)))


__all__ = ["Model", "Prediction"]

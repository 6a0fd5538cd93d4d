"""What to change in a schedule so that a program at given sizes fits a machine: see `schedule.fitting`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.codegen import loops as L
from tilewright.codegen.lower import as_written, lower
from tilewright.hw import Footprint, Machine, Proposal, footprints
from tilewright.schedule.build import build_nest
from tilewright.schedule.default import complete
from tilewright.schedule.fitting import proposals
from tilewright.schedule.live import live_points
from tilewright.schedule.registers import Registers
from tilewright.schedule.schedule import Schedule


def what_would_fit(
    schedule: Schedule, memory: str, machine: Machine, env: Mapping[str, Any], mode: str, registers: Registers | None,
    taken: Callable[[L.Program], Iterable[Footprint]],
) -> tuple[Proposal, ...]:  # fmt: skip
    """Changes of the user's directives after which the whole program fits; the default schedule follows them.

    `env` has sizes and scalars by name. `taken` gives the footprints of a lowered program as they are checked before
    it runs.
    """

    def measure(s: Schedule) -> Iterable[Footprint]:
        full = complete(s, mode, registers)
        return footprints(machine, live_points(build_nest(full.state, mode), env))

    def verify(s: Schedule) -> Iterable[Footprint]:
        full = complete(s, mode, registers)
        full.check(capacity=False)
        return taken(lower(as_written(full.state, mode, "instrumented")).program)

    return proposals(schedule, memory, measure, verify)

"""`export`: a lowered nest as JSON or C, for programs of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import check_sizes, find_target
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.codegen.export import Export
    from tilewright.hw import Machine


def export(
    target: str | Path | Kernel,
    *,
    to: str = "json",
    schedule: str | Path | Schedule | None = None,
    machine: Machine | str | None = None,
    sizes: Mapping[str, int] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Export:
    """`FILE[:KERNEL]` or a kernel under a schedule as JSON or C. With all `sizes` it is made for these alone.

    Raises what `find_target` and checking the schedule do, MachineError, CapacityError for what does not fit the machine,
    SimulationError for asynchronous copies that no engine can do, CompileError (export.*) for what has no such form.
    """
    from tilewright.codegen.export import export as run
    from tilewright.hw import load_machine

    on = load_machine(machine) if isinstance(machine, str) else machine
    t = find_target(target, schedule, statics, dtypes, sizes)
    known = check_sizes(t.pipeline, sizes) if sizes else None
    return run(t.pipeline, t.schedule, to, known, on, check_mode(mode or t.kernel.mode))

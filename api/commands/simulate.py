"""`simulate`: a run on a simulated machine, and its account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import UsageError, check_memory, check_scalars, check_sizes, find_target, too_large
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.codegen.simulate import Simulation
    from tilewright.hw import Machine

__all__ = ["UsageError", "simulate"]


def simulate(
    target: str | Path | Kernel,
    *,
    machine: Machine | str,
    sizes: Mapping[str, int],
    schedule: str | Path | Schedule | None = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Simulation:
    """Run `FILE[:KERNEL]` or a kernel on a machine (a preset's name, or a TOML file) with random inputs.

    `scalars` gives scalar parameters.

    Raises what `find_target` does, MachineError, and CapacityError (before anything runs) for what does not fit.
    """
    from tilewright.codegen.simulate import simulate as run
    from tilewright.hw import load_machine

    on = load_machine(machine) if isinstance(machine, str) else machine
    t = find_target(target, schedule, statics, dtypes)
    known = check_sizes(t.pipeline, sizes)
    given = check_scalars(t.pipeline, scalars or {})
    check_memory(t.pipeline, known)
    try:
        return run(t.pipeline, t.schedule, on, known, check_mode(mode or t.kernel.mode), given)
    except MemoryError:
        raise too_large(t.pipeline, known) from None

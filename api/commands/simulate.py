"""`simulate`: a run on a simulated machine, and its account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.account import machine_for
from tilewright.commands.targets import check_memory, check_scalars, check_sizes, find_target, too_large
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.codegen.accounts.simulate import Simulation
    from tilewright.hw import Machine


def simulate(
    target: str | Path | Kernel,
    *,
    machine: Machine | str | None = None,
    sizes: Mapping[str, int],
    schedule: str | Path | Schedule | None = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
    sync: str | None = None,
) -> Simulation:
    """Run `FILE[:KERNEL]` or a kernel with random inputs on a machine: a preset's name, a TOML file, or (None) the one
    that the schedule is bound to.

    `scalars` gives scalar parameters, `sync` (decoupled or barrier) says how cores and copies meet.

    Raises what `find_target` and `machine_for` do, MachineError, and CapacityError (before anything runs) for what does
    not fit.
    """
    from tilewright.codegen.accounts.simulate import simulate as run

    t = find_target(target, schedule, statics, dtypes, sizes)
    on = machine_for(machine, t)
    known = check_sizes(t.pipeline, sizes)
    given = check_scalars(t.pipeline, scalars or {})
    check_memory(t.pipeline, known)
    try:
        return run(t.pipeline, t.schedule, on, known, check_mode(mode or t.kernel.mode), given, sync=sync)
    except MemoryError:
        raise too_large(t.pipeline, known) from None

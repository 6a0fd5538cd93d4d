"""`explain`, `compare` and `sweep` of what a command names: `FILE[:KERNEL]` with its schedules and machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.account import machine_for
from tilewright.commands.targets import Target, UsageError, check_memory, check_scalars, check_sizes, find_target
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.hw import Machine
    from tilewright.views.compare import Comparison
    from tilewright.views.explain import Explanation
    from tilewright.views.sweep import Sweep

__all__ = ["compare", "explain", "sweep"]

Named = str | Path | Kernel
Scheduled = str | Path | Schedule | None


def explain(
    target: Named,
    *,
    machine: Machine | str | None = None,
    sizes: Mapping[str, int],
    schedule: Scheduled = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Explanation:
    """`tw.explain` of `FILE[:KERNEL]` or a kernel, on a machine (by default the one that the schedule is bound to)."""
    from tilewright.views.explain import explain as run

    t = find_target(target, schedule, statics, dtypes, sizes)
    given, known = _checked(t, scalars, sizes)
    on = machine_for(machine, t)
    return run(t.start, machine=on, sizes=known, mode=check_mode(mode or t.kernel.mode), inputs=given)


def compare(
    target: Named,
    *,
    machines: Sequence[Machine | str] = (),
    sizes: Mapping[str, int],
    schedules: Sequence[str | Path | Schedule] = (),
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Comparison:
    """`tw.compare` of two schedules of `FILE[:KERNEL]` on one machine, of two machines under one schedule, or of the default
    schedule with the one that is given.

    Raises UsageError `usage.compare` where it is not clear what is to be compared.
    """
    from tilewright.views.compare import compare as run

    if len(schedules) > 2 or len(machines) > 2 or (len(schedules) == 2 and len(machines) == 2):
        raise UsageError(
            f"{len(schedules)} schedules and {len(machines)} machines are given", code="usage.compare",
            hint="two schedules and a machine, or two machines and a schedule",
        )  # fmt: skip
    first, second = (find_target(target, s, statics, dtypes, sizes) for s in _two(schedules))
    given, known = _checked(first, scalars, sizes)
    options: dict[str, Any] = {"sizes": known, "mode": check_mode(mode or first.kernel.mode), "inputs": given}
    if len(machines) == 2:
        return run(*machines, schedule=first.start, **options)
    if not schedules:
        raise UsageError(
            "there is nothing to compare", code="usage.compare",
            hint="give two schedules (--schedule A --schedule B), or two machines (--machine X --machine Y)",
        )  # fmt: skip
    # One schedule is compared with none: what it is better for.
    if len(schedules) == 1:
        first, second = find_target(first.kernel, None, statics, dtypes), first
    names = (first.schedule_name, second.schedule_name)
    bound = [t for t in (first, second) if t.start.machine is not None]
    # Without a machine each schedule runs on its own.
    one = machines[0] if machines else None if len(bound) == 2 else machine_for(None, (bound or [second])[0])
    return run(first.start, second.start, machine=one, names=names, **options)


def sweep(
    target: Named,
    *,
    machine: Machine | str | None = None,
    over: Mapping[str, Sequence[Any]],
    sizes: Mapping[str, int],
    zipped: bool = False,
    cost: str = "",
    schedule: Scheduled = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Sweep:
    """`tw.sweep` of `FILE[:KERNEL]` or a kernel."""
    from tilewright.views.sweep import sweep as run

    t = find_target(target, schedule, statics, dtypes, sizes)
    given, known = _checked(t, scalars, sizes)
    return run(
        t.start, machine=machine_for(machine, t), over=over, sizes=known, zipped=zipped, cost=cost,
        mode=check_mode(mode or t.kernel.mode), inputs=given,
    )  # fmt: skip


def _two(schedules: Sequence[str | Path | Schedule]) -> tuple[Scheduled, Scheduled]:
    """Two of what there is: one schedule is both, none the target's own."""
    first = schedules[0] if schedules else None
    return first, schedules[1] if len(schedules) > 1 else first


def _checked(
    t: Target, scalars: Mapping[str, Any] | None, sizes: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, int]]:
    known = check_sizes(t.pipeline, sizes)
    check_memory(t.pipeline, known)
    return check_scalars(t.pipeline, scalars or {}), known

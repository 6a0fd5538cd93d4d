"""Accounts for the views: of a whole schedule, and of a state that a part of one has led to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.hw import Account, Machine, SimulationError, load_machine
from tilewright.kernels import Kernel, check_mode, from_pipeline
from tilewright.lang.errors import user_location
from tilewright.schedule.causes import refuse
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.schedule.state import State


def as_schedule(given: Any) -> Schedule:
    """A schedule as it is, a kernel as an empty one: everything is left to the default schedule."""
    if isinstance(given, Schedule):
        return given
    if isinstance(given, Kernel):
        return given.schedule()
    raise refuse(f"{given!r:.60} is no schedule", "kind", "give a schedule (kernel.schedule()), or a kernel")


def as_machine(given: Machine | str | None, schedule: Schedule) -> Machine:
    """The machine that is named, or else the one that the schedule is bound to.

    Raises SimulationError `simulation.machine` where there is neither, MachineError for a name that is none.
    """
    if given is not None:
        return given if isinstance(given, Machine) else load_machine(given)
    if schedule.machine is None:
        raise SimulationError(
            f"no machine is said for {schedule.pipeline.name}", code="simulation.machine", where=user_location(),
            hint='machine="toy", or bind the schedule: kernel.schedule(machine="toy")',
        )  # fmt: skip
    return schedule.machine


def account_of(
    schedule: Schedule, machine: Machine, sizes: Mapping[str, int], mode: str, inputs: Mapping[str, Any] | None = None
) -> Account:
    """The account of a schedule, completed by the default one."""
    kernel = from_pipeline(schedule.pipeline, check_mode(mode))
    return kernel.simulate(schedule, machine=machine, sizes=sizes, mode=mode, inputs=inputs).account


def account_of_state(
    schedule: Schedule, state: State, machine: Machine, sizes: Mapping[str, int], mode: str,
    inputs: Mapping[str, Any] | None = None,
) -> Account:  # fmt: skip
    """The account of a state as it is, without the default schedule."""
    from tilewright.codegen.simulate import run

    return run(schedule.pipeline, state, machine, sizes, mode, dict(inputs or {})).account


__all__ = ["account_of", "account_of_state", "as_machine", "as_schedule"]

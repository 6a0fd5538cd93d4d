"""Accounts for the views: of a whole schedule, and of a state that a part of one has led to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.hw import Account, Machine, SimulationError
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.causes import refuse
from tilewright.schedule.machines import as_machine
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.codegen.accounts.prepared import Prepared
    from tilewright.schedule.state import State


def as_schedule(given: Any) -> Schedule:
    """A schedule as it is, a kernel as an empty one: everything is left to the default schedule."""
    if isinstance(given, Schedule):
        return given
    if isinstance(given, Kernel):
        return given.schedule()
    raise refuse(f"{given!r:.60} is no schedule", "kind", "give a schedule (kernel.schedule()), or a kernel")


def account_of(
    schedule: Schedule, machine: Machine, sizes: Mapping[str, int], mode: str, inputs: Mapping[str, Any] | None = None
) -> Account:
    """The account of a schedule, completed by the default one: from its skeleton, or where that can't be from a run."""
    from tilewright.codegen.accounts.prepared import prepare

    return _account(prepare(schedule.pipeline, schedule, machine, check_mode(mode)), sizes, inputs)


def account_of_state(
    schedule: Schedule, state: State, machine: Machine, sizes: Mapping[str, int], mode: str,
    inputs: Mapping[str, Any] | None = None,
) -> Account:  # fmt: skip
    """The account of a state as it is, without the default schedule."""
    from tilewright.codegen.accounts.prepared import Prepared

    return _account(Prepared(schedule.pipeline, state, machine, check_mode(mode)), sizes, inputs)


def _account(prepared: Prepared, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None) -> Account:
    from tilewright.codegen.accounts.account import of_skeleton
    from tilewright.codegen.accounts.simulate import execute

    try:
        return of_skeleton(prepared, sizes)
    except SimulationError as e:
        if e.code != "skeleton.data":
            raise
    return execute(prepared, sizes, dict(inputs or {})).account


__all__ = ["account_of", "account_of_state", "as_machine", "as_schedule"]

"""Errors of this room: machine files that can't be read, and programs that do not fit a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lang.errors import Location, TilewrightError, user_location

if TYPE_CHECKING:
    from .account import Footprint
    from .capacity import Change


class MachineError(TilewrightError):
    """A machine file breaks a rule, or names something that it does not have.

    Codes: `machine.syntax`, `machine.format`, `machine.unknown-key`, `machine.missing`, `machine.bad-value`,
    `machine.duplicate`, `machine.no-file`, `machine.unknown` (no such preset), `machine.unknown-memory`.
    """

    default_code = "machine"


class SimulationError(TilewrightError):
    """What is asked for can't be simulated, or not in this way.

    Codes: `skeleton.data` (a trip count depends on data: run it with `simulate`), `dma.by-hand` and `dma.none` (an
    asynchronous copy that no engine can do), `simulation.machine` (the schedule is bound to another machine).
    """

    default_code = "simulation"


class AccountError(TilewrightError):
    """The file of an account, or of a lock on one, can't be read, or is about something else.

    Codes: `account.syntax` (no JSON), `account.version`, `account.bad-value` (with its place), `account.machine` (no
    preset has the machine's name: give the machine), `account.plot` (a picture is asked for and matplotlib is missing),
    `account.file`, and those of locks: `lock.syntax`, `lock.bad-value`, `lock.other`, `lock.tolerance`.
    """

    default_code = "account"


class CapacityError(TilewrightError):
    """The buffers alive at one point of the program need more than a memory holds.

    `footprint` has the memory, its capacity and the live buffers; `changes` are the single changes that would
    make it fit, the smallest first (empty if no single one does).
    """

    default_code = "capacity.exceeded"

    def __init__(
        self,
        message: str,
        *,
        footprint: Footprint,
        changes: tuple[Change, ...],
        hint: str,
        where: Location | None = None,
    ):
        here = user_location()
        super().__init__(message, where=(where, here) if where != here else here, hint=hint)
        self.footprint = footprint
        self.changes = changes

"""Errors of this room: machine files that can't be read, and programs that do not fit a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.lang.errors import Location, TilewrightError, user_location

if TYPE_CHECKING:
    from .account import Footprint
    from .capacity import Change, Proposal


class MachineError(TilewrightError):
    """A machine file breaks a rule, or names something that it does not have.

    Codes: `machine.syntax`, `machine.format`, `machine.unknown-key`, `machine.missing`, `machine.bad-value`,
    `machine.duplicate`, `machine.cycle` (engines join memories in a ring), `machine.unreached`,
    `machine.no-file`, `machine.unknown` (no such preset), `machine.unknown-memory`, `machine.unknown-figure`,
    `machine.probe` (a computer that can't be measured).
    """

    default_code = "machine"


class MeasurementError(TilewrightError):
    """A file of measured cycles can't be read, or does not determine what is to be fitted.

    Codes: `measurements.file`, `measurements.columns`, `measurements.value`, `measurements.engine`, `measurements.none`,
    `measurements.undetermined`.
    """

    default_code = "measurements"


class SimulationError(TilewrightError):
    """What is asked for can't be simulated, or not in this way.

    Codes: `skeleton.data` (a trip count depends on data: run it with `simulate`), `dma.by-hand` and `dma.none` (an
    asynchronous copy that no engine can do), `simulation.machine` (the schedule is bound to another machine),
    `simulation.no-time` (an account of counts only is asked what took how long), `caches.none` (the machine has none),
    `simulation.sync` (cores and copies meet `decoupled` or at a `barrier`), `simulation.size` (how large a buffer is
    depends on data), `simulation.disagree` (a run and its skeleton differ: a mistake of the library's),
    `simulation.beyond` (a run takes longer than its clock counts, 2**38 cycles),
    `estimate.data` (caches can't be estimated where loop bounds depend on data: run it with `simulate`).
    """

    default_code = "simulation"


class AccountError(TilewrightError):
    """The file of an account, or of a lock on one, can't be read, or is about something else.

    Codes: `account.syntax` (no JSON), `account.version`, `account.bad-value` (with its place), `account.machine` (no
    preset has the machine's name: give the machine), `account.plot` (a picture that can't be drawn, or matplotlib is
    missing), `account.timeline` (the account has none), and those of locks: `lock.syntax`, `lock.bad-value`, `lock.other`,
    `lock.tolerance`.
    """

    default_code = "account"


class CapacityError(TilewrightError):
    """The buffers alive at one point of the program need more than a memory holds.

    `footprint` has the memory, its capacity and the live buffers; `changes` are the single changes to a buffer that would
    make it fit, the smallest first (empty if no single one does). `proposals` are changes of the schedule, carried out
    and measured, the smallest first: `error.proposals[0].schedule` fits. They are looked for when they or the error's
    text are asked for.
    """

    default_code = "capacity.exceeded"
    _complete = False  # nobody has caught it yet, so nobody has asked for its text

    def __init__(
        self,
        message: str,
        *,
        footprint: Footprint,
        changes: tuple[Change, ...],
        table: str,
        advice: str,
        where: Location | None = None,
        propose: Callable[[str], tuple[Proposal, ...]] = lambda memory: (),
    ):
        here = user_location()
        self.footprint = footprint
        self.changes = changes
        self.table = table
        self._propose = propose
        super().__init__(message, where=(where, here) if where != here else here, hint=f"{table}\n  {advice}")
        self._complete = True

    @cached_property
    def proposals(self) -> tuple[Proposal, ...]:
        """What to write in the schedule instead; empty where nothing that was tried helps, or there is no schedule."""
        return self._propose(self.footprint.memory)

    def render(self) -> str:
        if self._complete and self.proposals:
            self.hint = "\n  ".join([self.table, *_proposed(self.footprint.memory, self.proposals)])
        return super().render()

    def __str__(self) -> str:
        return self.render()


def _proposed(memory: str, proposals: tuple[Proposal, ...]) -> Iterator[str]:
    """The proposals as lines to paste, the smallest change first."""
    for k, proposal in enumerate(proposals):
        taken = f"{memory} then has {proposal.peak:,} bytes in it"
        yield f"the smallest change that fits ({taken}):" if k == 0 else f"or ({proposal.peak:,} bytes):"
        yield from (f"  {line}" for line in proposal.lines)

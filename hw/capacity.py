"""Does it fit? The check of live buffers against capacities, and the smallest change where it does not.

What a *buffer* would have to give follows from the footprint alone (`Change`). What to write in a *schedule* instead
(`Proposal`) is found by those who know of schedules, see `schedule.fitting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tilewright.lang.errors import Location

from .account import Footprint, LiveBuffer
from .errors import CapacityError
from .fields import show_bytes
from .machine import Machine
from .parts import align_up
from .render.account_text import footprint_text


@dataclass(frozen=True, slots=True)
class Change:
    """One buffer made smaller, to `size` bytes a slot in `slots` slots, so that everything fits."""

    buffer: LiveBuffer
    size: int
    slots: int

    def __str__(self) -> str:
        if self.slots != self.buffer.slots:
            slots = f"{self.slots} slot{'s' if self.slots > 1 else ''}"
            return f"keep {self.buffer.name} in {slots} instead of {self.buffer.slots}"
        each = " a slot" if self.slots > 1 else ""
        now, then = show_bytes(self.buffer.size), show_bytes(self.size)
        return f"shrink {self.buffer.name} from {now} to at most {then}{each}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Directives to write instead of those that are there, after which everything fits: carried out and measured.

    `lines` are text as it stands in a schedule (under the stage's heading, with what was there as a comment), `peak` is
    what is taken of the memory then, and `schedule` is the whole schedule with them.
    """

    lines: tuple[str, ...]
    peak: int
    schedule: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def changes_that_fit(footprint: Footprint) -> tuple[Change, ...]:
    """Every single change after which the buffers of a footprint fit their memory, the smallest first.

    A change is smaller when it takes a smaller part of its buffer away; empty if everything fits already,
    or if no buffer can give enough by itself.
    """
    capacity, alignment = footprint.capacity, footprint.alignment
    if capacity is None or footprint.peak <= capacity:
        return ()
    ranked: list[tuple[float, Change]] = []
    for buffer in footprint.buffers:
        taken = footprint.taken(buffer)
        room = capacity - (footprint.peak - taken)
        slot = align_up(buffer.size, alignment) * buffer.copies
        size = room // (buffer.slots * buffer.copies) // alignment * alignment
        if size > 0:
            ranked.append((1 - size * buffer.copies / slot, Change(buffer, size, buffer.slots)))
        slots = room // slot if slot else buffer.slots
        if 0 < slots < buffer.slots:
            ranked.append((1 - slots / buffer.slots, Change(buffer, buffer.size, slots)))
    # Sorting is stable: of equally small changes the one to the earlier buffer comes first.
    return tuple(change for _, change in sorted(ranked, key=lambda entry: entry[0]))


def check_capacity(
    machine: Machine,
    footprints: Iterable[Footprint],
    placed: Callable[[Footprint], Location | None] = lambda footprint: None,
    propose: Callable[[str], tuple[Proposal, ...]] = lambda memory: (),
) -> None:
    """Raise CapacityError (`capacity.exceeded`) for the first footprint that is larger than its memory.

    The text shows the buffers alive at the peak as a table, then the smallest changes that would fit. `placed` says
    where the user put the largest buffer of a footprint into that memory. `propose` finds what to write in the schedule
    so that this memory suffices; it is asked when somebody looks at the error, for it takes its time.
    """
    for footprint in footprints:
        capacity = footprint.capacity
        if capacity is None or footprint.peak <= capacity:
            continue
        over = footprint.peak - capacity
        changes = changes_that_fit(footprint)
        if changes:
            others = "".join(f"\n    or {change}" for change in changes[1:3])
            advice = f"the smallest change that fits: {changes[0]}{others}"
        else:
            advice = f"no single buffer can give {over:,} bytes: shrink several, or move one to another memory"
        raise CapacityError(
            f"the buffers in {footprint.memory} of {machine.name} take {footprint.peak:,} bytes, "
            f"{over:,} more than it has",
            footprint=footprint,
            changes=changes,
            table="\n  ".join(footprint_text(footprint).splitlines()),
            advice=advice,
            where=placed(footprint),
            propose=propose,
        )

"""The figures of an account by name, so that accounts can be put beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.hw import Account, humane
from tilewright.hw.render.account_tables import energy_text
from tilewright.hw.timing import CAUSES

BYTES, COUNT, CYCLES, SHARE, ENERGY = "bytes", "count", "cycles", "share", "pJ"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of an account. `group` is what it is about (time, a memory, a copy...), `unit` how it is shown."""

    group: str
    name: str
    value: float
    unit: str

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.name


def show(value: float | None, unit: str) -> str:
    """A value in its unit as people read it; nothing for what there is not."""
    if value is None:
        return ""
    if unit == BYTES:
        return humane.size(value)
    if unit == SHARE:
        return humane.share(value)
    if unit == ENERGY:
        return energy_text(value)
    return humane.count(value)


def figures(account: Account) -> Iterator[Figure]:
    """Every figure that an account has, in the order of a page: time, memories, footprints, copies, work."""
    yield from _time(account)
    yield from _memories(account)
    for f in account.footprint:
        yield Figure(f"footprint of {f.memory}", "peak", f.peak, BYTES)
        for b in f.buffers:
            yield Figure(f"footprint of {f.memory}", b.name, f.taken(b), BYTES)
    for c in account.copies:
        group = f"copies of {c.name}"
        yield Figure(group, "copies", c.copies, COUNT)
        yield Figure(group, "descriptors", c.descriptors, COUNT)
        yield Figure(group, "bytes", c.bytes, BYTES)
        yield Figure(group, "average run", c.run_bytes, BYTES)
        yield Figure(group, "split", c.split, COUNT)
        yield Figure(group, "burst efficiency", c.efficiency, SHARE)
    for name, n in account.operations.items():
        yield Figure("operations", name, n, COUNT)
    for level in account.caches:
        for tensor, counts in level.tensors.items():
            yield Figure(f"cache {level.name}", f"{tensor} hits", counts.hits, COUNT)
            yield Figure(f"cache {level.name}", f"{tensor} misses", counts.misses, COUNT)
    for name, energy in account.energy.items():
        yield Figure("energy (relative)", name, energy, ENERGY)


def _time(account: Account) -> Iterator[Figure]:
    time = account.time
    if time is None:
        return
    yield Figure("time", "cycles", time.cycles, CYCLES)
    yield Figure("time", "busy", time.busy, CYCLES)
    for cause in CAUSES:
        if waited := time.waiting(cause):
            yield Figure("time", f"waits: {cause}", waited, CYCLES)
    yield Figure("time", "bound", time.bound, CYCLES)
    for use in time.uses:
        yield Figure("utilisation", use.resource, time.utilisation(use.resource), SHARE)


def _memories(account: Account) -> Iterator[Figure]:
    for memory in dict.fromkeys(t.memory for t in account.traffic):
        rows = [t for t in account.traffic if t.memory == memory]
        for t in rows:
            if t.bytes_read:
                yield Figure(f"bytes in {memory}", f"{t.tensor} read", t.bytes_read, BYTES)
            if t.bytes_written:
                yield Figure(f"bytes in {memory}", f"{t.tensor} written", t.bytes_written, BYTES)
        yield Figure(f"bytes in {memory}", "all", sum(t.bytes_read + t.bytes_written for t in rows), BYTES)


def intensity(account: Account, main: str) -> float | None:
    """Operations for each byte of the memory `main`; None where operations are not counted, or nothing is moved."""
    total = account.of(main)
    moved = total.bytes_read + total.bytes_written
    return sum(account.operations.values()) / moved if account.operations and moved else None


__all__ = ["Figure", "figures", "intensity", "show"]

"""An account as tables, for the terminal and for notebooks: only what there is to say, rounded as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tilewright.hw import humane
from tilewright.hw.fields import show_bytes
from tilewright.hw.humane import whole
from tilewright.hw.parts import align_up

from .tables import Table, table

if TYPE_CHECKING:
    from tilewright.hw.account import Account, Footprint, Traffic
    from tilewright.hw.cache_counts import Level
    from tilewright.hw.roofline import Roofline
    from tilewright.hw.timing import Stall, Time

MOST_PLACES = 8  # rows of the table of waits; the rest is added up
CAUSES_IN_WORDS = {
    "load": "data under way",
    "store": "room that a store frees",
    "issue": "the issue of copies",
    "bank": "banks in conflict",
    "latency": "the pipelines' latency",
    "barrier": "the others, at a barrier",
    "drain": "copies at the end",
}


def heading(run: Account | Roofline) -> str:
    """`matmul on toy (M=4, N=8)`."""
    sizes = ", ".join(f"{name}={value}" for name, value in run.sizes.items())
    return f"{run.kernel} on {run.machine}{f' ({sizes})' if sizes else ''}"


def account_tables(account: Account) -> Iterator[Table]:
    """Traffic, copies, caches, footprint, time and energy, as far as the account has them."""
    if account.traffic:
        yield _traffic(account)
    if account.copies:
        yield _copies(account)
    yield from _by_hand(account)
    if account.caches:
        yield caches_table(account.caches)
    yield from map(footprint_table, account.footprint)
    if account.time is not None:
        yield from _time(account.time)
    if account.operations:
        yield _operations(account)
    if account.energy:
        yield _energy(account.energy)


def remarks(account: Account) -> list[str]:
    """The account's notes, and the conventions that its tables rest on where they make a difference."""
    found = list(account.notes)
    if any(t.first for t in account.traffic):
        found.append("first: writes that give a reduction its start value; as many of the reads find nothing else there, "
                     "and some tools count neither")  # fmt: skip
    if any(_asked(t) for t in account.traffic):
        found.append(
            "requests: what all elements of the array ask for; a read serves all that ask for the same at once"
        )
    if account.caches:
        found.append(
            "caches: of a model, cold at first: one core, addresses of its own, no prefetcher; what has changed is written "
            "back at the end"
        )
    if any(s.split for s in account.copies):
        found.append("split: runs that do not start or end where the engine's alignment wants it")
    return found


def some(value: int) -> str:
    """A number, or nothing for none."""
    return whole(value) if value else ""


def some_bytes(value: int) -> str:
    """A number of bytes, or nothing for none."""
    return humane.size(value) if value else ""


def energy_text(picojoules: float) -> str:
    """`721 µJ`: three digits and a unit."""
    units, power = ("pJ", "nJ", "µJ", "mJ", "J"), 0
    while picojoules >= 999.5 and power + 1 < len(units):
        picojoules, power = picojoules / 1000, power + 1
    return f"{picojoules:.3g} {units[power]}"


def cycles(value: float) -> str:
    """A number of cycles, to a tenth where there are few."""
    return f"{value:,.1f}" if value < 1000 and value != int(value) else whole(value)


def _asked(row: Traffic) -> bool:
    return row.requests not in (0, row.reads)


# Counts -----------------------------------------------------------------------------------------------------------


def _traffic(account: Account) -> Table:
    head = ("memory", "tensor", "of", "reads", "requests", "drains", "writes", "fills", "first", "read", "written")
    rows = []
    for memory in dict.fromkeys(row.memory for row in account.traffic):
        listed = [row for row in account.traffic if row.memory == memory]
        # A total only where there is something to add up.
        for row in [*listed, account.of(memory)] if len(listed) > 1 else listed:
            rows.append((
                memory, row.tensor, row.of if row.of != row.tensor else "", some(row.reads),
                whole(row.requests) if _asked(row) else "", some(row.drains), some(row.writes), some(row.fills),
                some(row.first), some_bytes(row.bytes_read), some_bytes(row.bytes_written),
            ))  # fmt: skip
    return table("", head, rows, left=3)


def _copies(account: Account) -> Table:
    head = ("copies", "from", "to", "by", "how many", "descriptors", "moved", "average run", "bursts", "useful", "split",
            "padded")  # fmt: skip
    rows = []
    for s in account.copies:
        rows.append((
            s.name, s.source, s.target, s.engine or "the cores", whole(s.copies), some(s.descriptors), humane.size(s.bytes),
            humane.size(s.run_bytes) if s.runs else "", some_bytes(s.burst_bytes),
            humane.share(s.efficiency) if s.burst_bytes else "", some(s.split),
            some_bytes(s.padded),
        ))  # fmt: skip
    return table("", head, rows, left=4)


def _by_hand(account: Account) -> Iterator[Table]:
    reasons = [(s.name, s.reason) for s in account.copies if s.reason]
    if reasons:
        yield table("", ("by hand", "because"), reasons, left=2)


def caches_table(levels: Iterable[Level]) -> Table:
    """Accesses, hits and misses by level and tensor."""
    rows = []
    for level in levels:
        listed = list(level.tensors.items())
        for name, c in [*listed, ("all", level.total)] if len(listed) > 1 else listed:
            looked = c.hits + c.misses
            rows.append((
                level.name, name, whole(c.reads), whole(c.writes), some(c.hits), some(c.misses),
                f"{c.misses / looked:.2%}" if looked else "", some(c.evictions), some(c.write_backs),
            ))  # fmt: skip
    head = ("level", "tensor", "reads", "writes", "hits", "misses", "missing", "evictions", "written back")
    return table("", head, rows, left=2)


# Footprint --------------------------------------------------------------------------------------------------------


def footprint_table(footprint: Footprint) -> Table:
    """The live buffers of a memory at its peak, with what they take of it."""
    capacity = footprint.capacity
    of = "unbounded" if capacity is None else f"{show_bytes(capacity)}, {footprint.peak / capacity:.1%} taken"
    rows: list[tuple[str, ...]] = []
    for b in footprint.buffers:
        offset = "" if b.offset is None else whole(b.offset)
        copies = whole(b.copies) if b.copies > 1 else ""
        aligned = align_up(b.size, footprint.alignment)
        rows.append((b.name, offset, copies, *map(whole, (b.slots, b.size, aligned, footprint.taken(b)))))
    rows.append(("all", "", "", "", "", "", whole(footprint.peak)))
    arena = footprint.arena
    if arena is not None and arena > footprint.peak:
        lost = f"{humane.share(1 - footprint.peak / arena)} of it between buffers"
        of += f", {whole(arena)} bytes with all buffers placed, {lost}"
    where = f", at {footprint.where}" if footprint.where else ""
    head = ("buffer", "offset", "copies", "slots", "bytes a slot", "aligned", "taken")
    return table(f"{footprint.memory} ({of}){where}", head, rows)


# Time -------------------------------------------------------------------------------------------------------------


def _time(time: Time) -> Iterator[Table]:
    def part(value: float) -> str:
        return humane.share(value / time.cycles) if time.cycles else ""

    least = f", {time.cycles / time.bound:.2f}x the least possible" if time.bound else ""
    causes = {c: time.waiting(c) for c in dict.fromkeys(s.cause for s in time.stalls)}
    rows = [("busy", "", cycles(time.busy), part(time.busy))]
    rows += [
        (cause, "waiting for " + CAUSES_IN_WORDS.get(cause, cause), cycles(n), part(n))
        for cause, n in sorted(causes.items(), key=lambda entry: -entry[1])
        if n
    ]
    rows.append(("all", "", cycles(time.cycles), ""))
    yield table(f"time: {cycles(time.cycles)} cycles{least} ({time.sync})", ("", "", "cycles", "of all"), rows, left=2)
    waits = sorted((s for s in time.stalls if s.cycles), key=lambda s: -s.cycles)
    if waits:
        shown = [(_place(s), s.cause, s.buffer, cycles(s.cycles), part(s.cycles)) for s in waits[:MOST_PLACES]]
        rest = sum(s.cycles for s in waits[MOST_PLACES:])
        if rest:
            shown.append((f"{len(waits) - MOST_PLACES} more places", "", "", cycles(rest), part(rest)))
        yield table("", ("waits in front of", "for", "buffer", "cycles", "of all"), shown, left=3)
    if time.uses:
        used = [(u.resource, cycles(u.busy), humane.share(time.utilisation(u.resource))) for u in time.uses]
        yield table("", ("resource", "busy", "used"), used)


def _place(s: Stall) -> str:
    """In front of what the core waited; outside of sections that is the end of a buffer or of a phase of all cores."""
    return s.section or ("the end" if s.cause == "drain" else "the end of a phase")


def _operations(account: Account) -> Table:
    rows = [(kind, whole(n)) for kind, n in account.operations.items()]
    time = account.time
    total = sum(account.operations.values())
    said = f", {total / time.cycles:.3g} a cycle" if time is not None and time.cycles else ""
    return table("", (f"operations{said}", ""), rows)


def _energy(energy: Mapping[str, float]) -> Table:
    total = sum(energy.values())
    rows = [(name, energy_text(n), humane.share(n / total) if total else "") for name, n in energy.items()]
    return table("energy, relative: to compare schedules with, not to believe", ("", "", "of all"), rows)

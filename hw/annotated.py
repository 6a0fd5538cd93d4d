"""The annotated nest: every loop, buffer, copy and piece of work of a program, and beside it what it cost.

    print(account.nest)

    for ko in 0..(K + 63)//64     64 x 8   4 MiB   83.2 k  #####.....  48 %  load 50 %, drain 2 %   64 KiB

What stands beside a line is for all its visits together, and for a loop with everything inside of it. Percent are of the
whole run. Plain text by default; with `colour` the same with ANSI colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.lang.errors import user_location

from . import humane
from .errors import SimulationError
from .render.tables import cut
from .timing import CAUSES, Line, Time

if TYPE_CHECKING:
    from .account import Account

WIDTH = 120  # columns of plain text, where nothing is said
_LEAST = 24  # columns that the nest itself keeps
_BAR = 10
_LISTED = 4  # waits that are named below the nest
_LOOPS = ("loop", "parallel", "spatial")
# ANSI: what runs is green, what waits red, what hides behind work is dim.
_BOLD, _DIM, _GREEN, _RED, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the annotated nest as texts, under the heads of `AnnotatedNest.head`. `live` has a text for each memory
    that buffers live in; `hot` is where the largest waits are."""

    text: str
    trips: str = ""
    bytes: str = ""
    cycles: str = ""
    bar: str = ""
    busy: str = ""
    waits: str = ""
    live: tuple[str, ...] = ()
    hot: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.text, self.trips, self.bytes, self.cycles, self.bar, self.busy, self.waits, *self.live)


TEXT, CYCLES, BARS, WAITS = 0, 3, 4, 6  # columns
LEFT = (TEXT, BARS, WAITS)  # flush left; the others are numbers


@dataclass(frozen=True, slots=True)
class AnnotatedNest:
    """The nest of an account with what each line of it cost. `print` shows it, `text` in a given width.

    Raises SimulationError `simulation.no-time` where the account has counts only.
    """

    account: Account

    def __post_init__(self) -> None:
        if self.account.time is None:
            raise SimulationError(
                f"this account of {self.account.kernel} has no time, and so no annotated nest",
                code="simulation.no-time", where=user_location(),
                hint=self.account.untimed or "ask for it: kernel.account(..., time=True)",
            )  # fmt: skip

    @property
    def time(self) -> Time:
        assert self.account.time is not None
        return self.account.time

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from .render.html import nest_html

        return nest_html(self)

    def title(self) -> str:
        """What ran, how long it took, and what it waited for."""
        a = self.account
        return f"{what_ran(a.kernel, a.machine, a.sizes)}\n{how_long(self.time)}"

    @property
    def memories(self) -> tuple[str, ...]:
        """The memories that buffers of the nest live in."""
        return tuple(dict.fromkeys(m for line in self.time.lines for m, taken in line.live.items() if taken))

    @property
    def head(self) -> Row:
        """The heads of the columns."""
        live = tuple(f"in {m}" for m in self.memories)
        return Row("", "trips", "bytes", "cycles", "", "busy", "waits for", live)

    def rows(self) -> tuple[Row, ...]:
        """The lines of the nest with their columns."""
        return tuple(_rows(self.time, self.memories))

    def remarks(self) -> tuple[str, ...]:
        """The largest waits, with the place and the buffer, and what the columns mean."""
        total = self.time.cycles
        largest = sorted((s for s in self.time.stalls if s.cycles > 0), key=lambda s: -s.cycles)[:_LISTED]
        listed = [
            f"{humane.share(s.cycles / total):>5}  {s.cause:<8} {_place(s.section, s.buffer)}"
            for k, s in enumerate(largest)
            if k == 0 or s.cycles >= 0.005 * total
        ]
        notes = [f"note: {note}" for note in self.account.notes]
        if any(line.kind == "copy" and not line.waiting and line.transfer for line in self.time.lines):
            notes.append("(in parentheses: an engine's cycles, while the cores did something else)")
        return (*(["waits most:", *(f"  {x}" for x in listed)] if listed else []), *notes)

    def text(self, width: int = WIDTH, colour: bool = False) -> str:
        """Everything as text of at most `width` columns (but never less than the numbers need)."""
        return "\n".join(
            [self.title(), "", *_table(self.head, self.rows(), width, colour), "", *self.remarks()]
        ).rstrip("\n")


def what_ran(kernel: str, machine: str, sizes: Mapping[str, int]) -> str:
    """`matmul on toy, M=64 N=64 K=64`"""
    said = " ".join(f"{name}={value}" for name, value in sizes.items())
    return f"{kernel} on {machine}{f', {said}' if said else ''}"


def how_long(time: Time) -> str:
    """`1.23 M cycles (decoupled), 1.40 x the bound: 60 % busy, 40 % waiting (load 30 %, drain 10 %)`"""
    if not time.cycles:
        return "nothing takes any time"
    bound = f", {time.cycles / time.bound:.2f} x the bound" if time.bound else ""
    waits = ", ".join(causes({c: time.waiting(c) for c in CAUSES}, time.cycles))
    return f"{humane.count(time.cycles)} cycles ({time.sync}){bound}: {humane.share(time.busy / time.cycles)} busy" + (
        f", {humane.share(time.waiting() / time.cycles)} waiting ({waits})" if waits else ""
    )


def _place(section: str, buffer: str) -> str:
    if not section:
        return f"for {buffer}" if buffer else "at the end"
    return f"at {section}, for {buffer}" if buffer else f"in {section}"


def causes(waits: Mapping[str, float], total: float) -> Iterator[str]:
    """`load 30 %`, the largest first, of those that there are."""
    found = sorted(waits.items(), key=lambda item: -item[1])
    return (f"{cause} {humane.share(cycles / total)}" for cause, cycles in found if cycles > 0)


def _rows(time: Time, memories: tuple[str, ...]) -> Iterator[Row]:
    total = time.cycles
    # The innermost lines with the largest waits: where to look first.
    leaves = [line for line in time.lines if line.kind not in _LOOPS and line.waiting > 0.05 * total]
    hot = {id(line) for line in sorted(leaves, key=lambda line: -line.waiting)[:3]}
    before = [0] * len(memories)
    for line in time.lines:
        live = [line.live.get(m, 0) for m in memories]
        yield Row(
            text="  " * line.depth + line.text,
            trips=_trips(line),
            bytes=humane.size(line.bytes) if line.bytes else "",
            cycles=_cycles(line),
            bar=_bar(line.busy, line.waiting, total),
            busy=humane.share(line.busy / total) if line.busy and total else "",
            waits=_waits(line.waits, total),
            live=tuple("" if now == then else humane.size(now) for now, then in zip(live, before, strict=True)),
            hot=id(line) in hot,
        )
        before = live


def _trips(line: Line) -> str:
    """`8` iterations, `64 x 8` where a loop was begun 64 times, `64` copies."""
    if line.kind not in (*_LOOPS, "copy"):
        return ""
    if not line.visits:
        return "never"
    if line.kind == "copy":
        return humane.count(line.visits)
    each = line.trips / line.visits
    return humane.count(each) if line.visits == 1 else f"{humane.count(line.visits)} x {humane.count(each)}"


def _cycles(line: Line) -> str:
    spent = line.busy + line.waiting
    if line.kind == "copy" and not spent:
        return f"({humane.count(line.transfer)})" if line.transfer else ""
    return humane.count(spent) if spent else ""


def _bar(busy: float, waiting: float, total: float) -> str:
    """`###..`: busy and waiting parts of the whole time, the two together rounded as one."""
    if not total:
        return ""
    both, first = round(_BAR * (busy + waiting) / total), round(_BAR * busy / total)
    return "#" * min(first, both) + "." * (both - first)


def _waits(waits: Mapping[str, float], total: float) -> str:
    """The two causes that took most; the second one only where it is worth a word."""
    found = list(causes(waits, total)) if total else []
    return ", ".join([*found[:1], *(x for x in found[1:2] if not x.endswith(humane.share(0.001)))])


def _table(head: Row, rows: tuple[Row, ...], width: int, colour: bool) -> Iterator[str]:
    """Aligned columns, those left out that say nothing; the text of the nest gives way to the numbers."""
    used = [k for k in range(1, len(head.cells)) if any(row.cells[k] for row in rows)]
    widths = {k: max(len(row.cells[k]) for row in (head, *rows)) for k in used}
    room = max(_LEAST, width - sum(widths.values()) - 2 * len(used))
    widths[0] = min(room, max((len(row.text) for row in rows), default=0))
    for row in (head, *rows):
        cells = {0: cut(row.text, widths[0])} | {k: row.cells[k] for k in used}
        shown = [c.ljust(widths[k]) if k in LEFT else c.rjust(widths[k]) for k, c in cells.items()]
        yield "  ".join(_coloured(row, list(cells), shown) if colour else shown).rstrip()


def _coloured(row: Row, columns: list[int], cells: list[str]) -> list[str]:
    out = dict(zip(columns, cells, strict=True))
    if not row.text:  # the head
        return [f"{_DIM}{c}{_OFF}" if c.strip() else c for c in cells]
    if row.bar:
        bar, rest = row.bar, out[BARS][len(row.bar) :]
        done = bar.count("#")
        out[BARS] = f"{_GREEN}{bar[:done]}{_RED}{bar[done:]}{_OFF}{rest}"
    if row.waits:
        out[WAITS] = f"{_BOLD if row.hot else ''}{_RED}{out[WAITS]}{_OFF}"
    if row.hot:
        out[TEXT] = f"{_BOLD}{out[TEXT]}{_OFF}"
    if row.cycles.startswith("("):
        out[CYCLES] = f"{_DIM}{out[CYCLES]}{_OFF}"
    return list(out.values())

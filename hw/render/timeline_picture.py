"""The timeline as a picture: a track for the work, one for the waits by cause, one for each channel of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.hw import humane
from tilewright.hw.errors import AccountError

from .account_tables import CAUSES_IN_WORDS, heading
from .lives import timeline
from .pictures import CAUSE_COLOURS, COMPUTE, COPY_COLOURS, INK, cycles_axis, draw, literal, shades, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.hw.account import Account
    from tilewright.hw.machine import Machine
    from tilewright.hw.timing import Interval

_WIDE = 0.005  # of the width of the picture
_LETTER = 0.0095  # of the width of the picture, a letter of a bar's label
_MOST_COPIES = len(COPY_COLOURS)  # names of copies in the legend


def draw_timeline(account: Account, machine: Machine, path: str | Path) -> None:
    """Save the timeline."""
    found = [i for i in timeline(account) if not i.memory]
    if not found:
        raise AccountError(f"nothing happens in {account.kernel}", code="account.timeline")
    channels = sorted({i.track for i in found} - {"compute", "wait"})
    draw(path, 2.8 + 0.55 * (2 + len(channels)), lambda figure: _paint(figure, account, machine, found, channels))


def _paint(figure: Figure, account: Account, machine: Machine, found: list[Interval], channels: list[str]) -> None:
    axes = figure.add_subplot()
    first = min(i.start for i in found)
    last = max(first + 1, *(i.end for i in found))
    copies = shades([i.name for i in found if i.track in channels], COPY_COLOURS)
    rows = ["compute", "wait", *channels]
    for row, track in enumerate(rows):
        bars = [i for i in found if i.track == track]
        colours = [_colour(i, copies) for i in bars]
        # Wide bars are set apart by a white line, of which thin ones would vanish.
        edges = ["white" if i.end - i.start > _WIDE * (last - first) else c for i, c in zip(bars, colours, strict=True)]
        axes.broken_barh([(i.start, i.end - i.start) for i in bars], (row - 0.36, 0.72), facecolors=colours,
                         edgecolors=edges, linewidth=0.6)  # fmt: skip
        _labels(axes, bars, row, last - first)
    axes.set_yticks(range(len(rows)), [_name(t) for t in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(first, last)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    cycles_axis(axes, machine.clock_ghz)
    time = account.time
    assert time is not None
    part = f", cycles {first:,.0f} to {last:,.0f} of {time.cycles:,.0f}" if last < 0.999 * time.cycles else ""
    busy = humane.share(time.busy / time.cycles) if time.cycles else "nothing"
    axes.set_title(title(heading(account), f"{busy} busy{part}"), pad=12)
    _legend(figure, found, copies)


def _name(track: str) -> str:
    return "waits" if track == "wait" else track


def _colour(i: Interval, copies: dict[str, str]) -> str:
    if i.track == "compute":
        return COMPUTE
    return CAUSE_COLOURS.get(i.cause, INK) if i.track == "wait" else copies[i.name]


def _labels(axes: Axes, bars: Sequence[Interval], row: int, whole: float) -> None:
    """Names in the bars that have room for them."""
    for i in bars:
        if (i.end - i.start) / whole > _LETTER * (len(i.name) + 2):
            axes.text((i.start + i.end) / 2, row, literal(i.name), ha="center", va="center", fontsize=9, color="white")


def _legend(figure: Figure, found: Sequence[Interval], copies: dict[str, str]) -> None:
    """Below the picture, where there are no data: the causes of waits that occur, and the copies."""
    from matplotlib.patches import Patch

    causes = list(dict.fromkeys(i.cause for i in found if i.cause))
    entries = [Patch(color=CAUSE_COLOURS.get(c, INK), label=f"wait: {CAUSES_IN_WORDS.get(c, c)}") for c in causes]
    entries += [Patch(color=c, label=literal(name)) for name, c in list(copies.items())[:_MOST_COPIES]]
    if len(copies) > _MOST_COPIES:
        entries.append(Patch(color="none", label=f"and {len(copies) - _MOST_COPIES} more copies"))
    if entries:
        figure.legend(handles=entries, loc="outside lower center", ncols=min(4, len(entries)))

"""What all pictures share: matplotlib, imported here and only when one is drawn, sizes, colours and how they are saved."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.hw.errors import AccountError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 10.0  # inches; at a thousand pixels letters are still large enough to read
DPI = 150
_LETTERS = 84  # bold ones, of a title across a picture
INK, RULE = "#2b2b2b", "#d9d9d9"
COMPUTE = "#4c9a5a"
# Of colours that differ in brightness as well.
COLOURS = ("#3b6fb6", "#e08a2c", "#7a5195", "#58a6a6", "#b5533c", "#9aa83a", "#d16ba5", "#6b6b6b", "#2f4b7c", "#a47551")
CAUSE_COLOURS = {
    "load": "#d64545", "store": "#e98a3a", "issue": "#e3c34a", "bank": "#d16ba5", "latency": "#8a6d5a", "barrier": "#5f5f5f",
    "drain": "#c4bcae",
}  # fmt: skip
# Copies stand beside the causes of waits: they have the cold ones.
COPY_COLOURS = ("#3b6fb6", "#7a5195", "#2fa4c7", "#1f3a68", "#9a6fe0", "#7fb2e5", "#0f7c8a", "#4b3fb0")
_STYLE: dict[Any, Any] = {
    "font.size": 11, "axes.titlesize": 12.5, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.edgecolor": "#8c8c8c", "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.grid": True, "grid.color": RULE, "grid.linewidth": 0.7, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "white", "axes.facecolor": "white",
    "savefig.facecolor": "white", "legend.frameon": False, "legend.fontsize": 10, "svg.hashsalt": "tilewright",
    "svg.fonttype": "none",
}  # fmt: skip
_ENDS = (".png", ".svg", ".pdf")


def draw(path: str | Path, height: float, paint: Callable[[Figure], None]) -> None:
    """Save what `paint` puts on a figure; the end of the name says the format.

    Raises AccountError `account.plot` where matplotlib is missing or the format is not known, OSError where the file
    can't be written.
    """
    if Path(path).suffix.lower() not in _ENDS:
        raise AccountError(
            f"{path} is no name of a picture", code="account.plot", hint=f"it ends in {', '.join(_ENDS)}"
        )
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise AccountError(
            "pictures need matplotlib", code="account.plot", hint='install it: pip install "tilewright[plot]"'
        ) from None
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        # No date: the same picture is the same file.
        metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(
            Path(path).suffix.lower(), {}
        )
        figure.savefig(path, dpi=DPI, metadata=metadata)


def shades(names: Sequence[str], colours: Sequence[str] = COLOURS) -> dict[str, str]:
    """A colour for each name; names far back in the list repeat colours."""
    return {name: colours[i % len(colours)] for i, name in enumerate(dict.fromkeys(names))}


def title(*parts: str) -> str:
    """A title of which each part has lines of its own, none longer than the picture is wide."""
    return literal("\n".join(line for part in parts for line in textwrap.wrap(part, _LETTERS)))


def literal(text: str) -> str:
    """A name as it is: matplotlib reads what stands between dollars as mathematics."""
    return text.replace("$", r"\$")


def in_units(scale: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """What a second axis needs that shows the same in other units, and back."""
    return (lambda x: x * scale), (lambda x: x / scale)


def cycles_axis(axes: Axes, clock_ghz: float | None) -> None:
    """Cycles below, and above the same in time where the clock is known."""
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel("cycles")
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    if clock_ghz:
        scale = 1e-9 / clock_ghz
        above = axes.secondary_xaxis("top", functions=in_units(scale))
        above.xaxis.set_major_formatter(EngFormatter("s"))
        above.tick_params(labelsize=9)
        above.set_xlabel(f"at {clock_ghz:g} GHz", fontsize=9)

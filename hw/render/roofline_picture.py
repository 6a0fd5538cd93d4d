"""A roofline as a picture: a roof for each memory and engine, and a point where the run stands under it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.hw import humane
from tilewright.hw.errors import AccountError

from .account_tables import heading
from .pictures import INK, draw, in_units, literal, shades, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.hw.roofline import Bound, Roofline

_SECTIONS = 6  # with the most operations, as small points
_MARKERS = "sD^v<>"


def draw_roofline(line: Roofline, path: str | Path) -> None:
    """Save the picture. Raises AccountError `account.plot` where the run does no arithmetic: it has no roofline then."""
    if not line.whole.operations or line.whole.peak is None or not line.whole.roofs:
        raise AccountError(
            f"{line.kernel} does no arithmetic or moves nothing, so there is no roofline to draw", code="account.plot"
        )
    draw(path, 6.0, lambda figure: _paint(figure, line))


def _rate(b: Bound) -> float:
    """Operations a cycle: as simulated, or at most where time was not."""
    cycles = b.took or b.cycles
    return b.operations / cycles if cycles else 0.0


def _paint(figure: Figure, line: Roofline) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes = figure.add_subplot()
    whole, peak = line.whole, line.whole.peak
    assert peak is not None
    xs = [x for r in whole.roofs for x in (whole.intensity(r), whole.ridge(r)) if x]
    xs += [line.compulsory.intensity(r) for r in line.compulsory.roofs]
    left, right = 2.0 ** (math.floor(math.log2(min(xs))) - 2), 2.0 ** (math.ceil(math.log2(max(xs))) + 2)
    colours = shades([r.name for r in whole.roofs])
    for r in whole.roofs:
        ridge = whole.ridge(r)
        assert ridge is not None
        axes.plot([left, ridge], [left * r.bandwidth, peak], color=colours[r.name], linewidth=1.8, zorder=2,
                  label=literal(f"{r.name}: {r.bandwidth:.4g} B/cycle"))  # fmt: skip
        axes.plot([ridge], [peak], marker="|", color=colours[r.name], markersize=9, zorder=3)
    start = min(r for r in map(whole.ridge, whole.roofs) if r is not None)
    axes.plot([start, right], [peak, peak], color=INK, linewidth=1.8, zorder=2, label=f"peak: {peak:.4g} op/cycle")
    lowest = _points(axes, line, colours)
    for r in line.compulsory.roofs:
        x = line.compulsory.intensity(r)
        axes.axvline(x, color=colours.get(r.name, INK), linewidth=1.2, linestyle=(0, (2, 3)), zorder=1,
                     label=literal(f"{r.name}, compulsory traffic only"))  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlim(left, right)
    axes.set_ylim(2.0 ** (math.floor(math.log2(lowest)) - 1), 2.0 ** (math.ceil(math.log2(peak)) + 1))
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("operations per cycle")
    _plain_ticks(axes)
    beside = axes.secondary_yaxis("right", functions=in_units(line.clock_ghz))
    beside.set_ylabel(f"Gop/s at {line.clock_ghz:g} GHz", fontsize=9)
    beside.tick_params(labelsize=9)
    beside.yaxis.set_major_locator(LogLocator(base=2))
    beside.yaxis.set_minor_locator(NullLocator())
    beside.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.set_title(title(heading(line), line.whole.verdict), pad=10)
    figure.legend(loc="outside lower center", ncols=3)


def _points(axes: Axes, line: Roofline, colours: dict[str, str]) -> float:
    """The run under each roof, large, and the sections under their highest roof, small. Gives the lowest rate."""
    whole = line.whole
    y = lowest = _rate(whole)
    gap = "" if whole.took is None else f", {humane.share(whole.cycles / whole.took)} of the bound"
    state = ("simulated" if whole.took is not None else "at most") + gap
    for n, r in enumerate(whole.roofs):
        x, roof = whole.intensity(r), min(whole.intensity(r) * r.bandwidth, whole.peak or math.inf)
        axes.plot([x, x], [y, roof], color=colours[r.name], linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
        label = f"the run, {state}: {y:.3g} op/cycle" if n == 0 else None
        # Points of the same intensity show as rings.
        size = 13 - 4 * sum(math.isclose(whole.intensity(other), x, rel_tol=0.06) for other in whole.roofs[:n])
        axes.plot([x], [y], marker="o", markersize=max(size, 4), color=colours[r.name], markeredgecolor="white",
                  linestyle="none", zorder=5 + n, label=label)  # fmt: skip
    sections = sorted((b for b in line.regions if b.operations and b.roof is not None), key=lambda b: -b.operations)
    for b, marker in zip(sections[:_SECTIONS] if len(sections) > 1 else [], _MARKERS, strict=False):
        assert b.roof is not None
        lowest = min(lowest, _rate(b))
        axes.plot([b.intensity(b.roof)], [_rate(b)], marker=marker, markersize=7, color="white", markeredgewidth=1.6,
                  markeredgecolor=colours.get(b.roof.name, INK), linestyle="none", zorder=4,
                  label=literal(f"{b.name} under {b.roof.name}: {_rate(b):.3g} op/cycle"))  # fmt: skip
    return lowest


def _plain_ticks(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_plain))


def _plain(x: float, _: object = None) -> str:
    """`1/8`, `4` rather than powers of two."""
    return f"{x:,.0f}" if x >= 1 else f"1/{1 / x:,.0f}"

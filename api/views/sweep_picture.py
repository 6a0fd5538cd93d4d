"""The picture of a sweep: what is to be small over one swept figure, a line for each combination of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.hw import humane
from tilewright.hw.render.pictures import COLOURS, INK, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.views.sweep import Point, Sweep

_MOST_LINES = 12  # in the legend


def paint(s: Sweep, figure: Figure) -> None:
    """Put the picture on a figure."""
    from tilewright.views.sweep import shown

    x = s.cost or s.names[0]
    places = _places([p.values[x] for p in s.points])
    axes = figure.subplots()
    lines: dict[tuple[str, ...], list[Point]] = {}
    for p in s.points:
        lines.setdefault(tuple(f"{_short(n)} {shown(n, p.values[n])}" for n in s.names if n != x), []).append(p)
    for k, (name, points) in enumerate(lines.items()):
        found = sorted((places[p.values[x]], s.value(p)) for p in points if not p.problem)
        label = ", ".join(name) if k < _MOST_LINES else ""
        axes.plot(*_columns(found), "-o", color=COLOURS[k % len(COLOURS)], linewidth=1.6, markersize=5, label=label)
    front = [(places[p.values[x]], s.value(p)) for p in s.front]
    axes.plot(*_columns(front), "o", markersize=11, markerfacecolor="none", markeredgecolor=INK, label="Pareto front")
    _lost(s, axes, x, places)
    _ticks(axes, x, places)
    axes.set_title(title(s.title()))
    axes.set_xlabel(x)
    axes.set_ylabel(s.measure)
    # Room above for the rings of the front and for what does not run.
    axes.set_ylim(0, 1.12 * max((s.value(p) for p in s.points if not p.problem), default=1.0) or 1.0)
    axes.yaxis.set_major_formatter(lambda v, _: humane.count(v) if s.measure == "cycles" else humane.size(v))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [a for a, _ in points], [b for _, b in points]


def _lost(s: Sweep, axes: Axes, x: str, places: dict[Any, float]) -> None:
    """What does not run is marked at the upper edge."""
    lost = sorted({places[p.values[x]] for p in s.points if p.problem})
    if lost:
        axes.plot(lost, [0.97] * len(lost), "x", color="#d64545", markersize=9, markeredgewidth=2,
                  transform=axes.get_xaxis_transform(), label="does not run", clip_on=False)  # fmt: skip


def _places(values: list[Any]) -> dict[Any, float]:
    """Where a value stands: numbers where they are, words (and what is unbounded) beside them in their order."""
    numbers = sorted({v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)})
    out: dict[Any, float] = {v: float(v) for v in numbers}
    wide = len(numbers) > 1 and numbers[0] > 0 and numbers[-1] / numbers[0] >= 4
    beyond = (numbers[-1] * 2 if wide else numbers[-1] + max(1, numbers[-1] - numbers[0]) / 2) if numbers else 0.0
    for k, v in enumerate(v for v in dict.fromkeys(values) if v not in out):
        out[v] = beyond * 2**k if wide else beyond + k
    return out


def _ticks(axes: Axes, x: str, places: dict[Any, float]) -> None:
    from tilewright.views.sweep import shown

    at = sorted(places.items(), key=lambda item: item[1])
    if len(at) > 1 and at[0][1] > 0 and at[-1][1] / at[0][1] >= 4:
        axes.set_xscale("log", base=2)
    step = math.ceil(len(at) / 12)
    axes.set_xticks([place for _, place in at[::step]], [shown(x, v) for v, _ in at[::step]])
    axes.set_xticks([], minor=True)
    axes.margins(x=0.08)


def _short(name: str) -> str:
    return ".".join(name.split(".")[-2:])


__all__ = ["paint"]

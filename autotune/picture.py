"""A picture of a search: the best schedule over time, predicted beside measured figures, and what each bucket has gained."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.autotune.errors import TuneError
from tilewright.hw.humane import share
from tilewright.lang.errors import user_location

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tilewright.autotune.tuned import Step, Tuned

MOST = 8  # curves that can be told apart
INK, GREY, GOOD, BAD = "#1f4e79", "#9a9a9a", "#2e8b57", "#c0392b"


def draw_search(tuned: Tuned, path: Path) -> None:
    """Draw what was tuned as PNG, SVG or PDF, by the name of the file.

    Raises what `check_picture` does, and OSError where it can't be written.
    """
    check_picture(path)
    import matplotlib
    from matplotlib.figure import Figure

    several = len(tuned.results) > 1
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                                "svg.hashsalt": "tilewright"}):  # fmt: skip
        height = 4.2 if not several else 4.2 + max(2.6, 0.28 * len(tuned.results))
        figure = Figure(figsize=(10.5, height), layout="constrained")
        if several:
            above, below = figure.subfigures(2, 1, height_ratios=(4.2, height - 4.2), squeeze=False)[:, 0]
            _buckets(below.subplots(), tuned)
        else:
            above = figure
        over_time, ranks = above.subplots(1, 2, width_ratios=(3, 2), squeeze=False)[0]
        _over_time(over_time, tuned)
        _predicted(ranks, tuned)
        figure.suptitle(tuned.title(), x=0.01, ha="left", fontsize=10)
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def check_picture(path: str | Path) -> None:
    """Raises TuneError `tune.extra` without Matplotlib, `tune.picture` for a file of another kind."""
    if importlib.util.find_spec("matplotlib") is None:
        raise TuneError("pictures need Matplotlib", code="tune.extra", where=user_location(),
                        hint="pip install tilewright[tune]")  # fmt: skip
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise TuneError(f"{path} is no picture that could be drawn", code="tune.picture", where=user_location(),
                        hint="a name that ends with .png, .svg or .pdf")  # fmt: skip


def _over_time(ax: Axes, tuned: Tuned) -> None:
    """Of one bucket every candidate, and the best so far; of several the best so far by the default schedule."""
    shown = sorted(tuned.results, key=lambda r: -r.weight)[:MOST]
    if len(tuned.results) == 1:
        r = shown[0]
        tried = [s for s in r.steps if s.at >= 0]
        good = [(s.at, s.figure) for s in tried if s.figure is not None]
        ax.scatter(*_columns(good), s=10, color=GREY, label=f"{len(good)} schedules")
        ax.step(*_columns(_best(tried, tuned.seconds)), where="post", color=INK, label="best so far")
        failed = [s.at for s in tried if s.figure is None]
        if failed:
            ax.plot(failed, [0.015] * len(failed), "|", color=BAD, transform=ax.get_xaxis_transform(),
                    label=f"{len(failed)} failed")  # fmt: skip
        _line(ax, r.default, "default schedule", BAD)
        if r.bound and r.figure and r.bound > 0.2 * r.figure:  # else it is nothing to come near to
            _line(ax, r.bound, "bound", GOOD)
        ax.set_ylabel(_what(tuned.unit))
    else:
        for r in shown:
            scale = r.default or 1.0
            best = [(at, f / scale) for at, f in _best([s for s in r.steps if s.at >= 0], tuned.seconds)]
            ax.step(*_columns(best), where="post", label=r.bucket)
        _line(ax, 1.0, "default schedule", BAD)
        ax.set_ylabel("best so far / default schedule")
    if any(r.figure and r.steps for r in shown):
        ax.set_yscale("log")
        _plain_numbers(ax.yaxis, "ratio" if len(tuned.results) > 1 else tuned.unit)
    ax.set_xlabel("seconds")
    ax.set_xlim(left=0)
    ax.legend(frameon=False, fontsize=8)


def _best(steps: Sequence[Step], until: float) -> list[tuple[float, float]]:
    """The best figure so far as points of a curve."""
    found: list[tuple[float, float]] = []
    for s in sorted(steps, key=lambda s: s.at):
        if s.figure is not None and (not found or s.figure < found[-1][1]):
            found.append((s.at, s.figure))
    return [*found, (until, found[-1][1])] if found else []


def _predicted(ax: Axes, tuned: Tuned) -> None:
    pairs = [(s.predicted, s.figure) for r in tuned.results for s in r.steps if s.predicted and s.figure]
    ax.set_xlabel(f"{_what(tuned.unit)}, predicted")
    ax.set_ylabel(f"{_what(tuned.unit)}, measured")
    if not pairs:
        ax.text(0.5, 0.5, "nothing was predicted", ha="center", va="center", color=GREY, transform=ax.transAxes)
        ax.set_xticks([])
        ax.set_yticks([])
        return
    ax.scatter(*_columns(pairs), s=10, color=INK, alpha=0.6)
    ends = min(map(min, pairs)), max(map(max, pairs))
    ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_yscale("log")
    _plain_numbers(ax.xaxis, tuned.unit)
    _plain_numbers(ax.yaxis, tuned.unit)
    same = rank_correlation(pairs)
    if same is not None and len(tuned.results) == 1:
        ax.set_title(f"rank correlation {same:.2f}", fontsize=9, loc="left")


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's: how far two figures have the same order, from -1 to 1; None of fewer than three pairs."""
    import numpy as np

    if len(pairs) < 3:
        return None
    columns = np.asarray(pairs, float).T
    ranks = [(a[:, None] > a).sum(1) + 0.5 * (a[:, None] == a).sum(1) for a in columns]
    if min(r.std() for r in ranks) == 0:
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _buckets(ax: Axes, tuned: Tuned) -> None:
    """A bar for each bucket: how many times faster than the default schedule."""
    names = [
        f"{r.kernel} {r.bucket}" if len({x.kernel for x in tuned.results}) > 1 else r.bucket for r in tuned.results
    ]
    gains = [r.gain or 0.0 for r in tuned.results]
    ax.barh(range(len(names)), gains, color=[INK if r.complete else GREY for r in tuned.results])
    ax.axvline(1.0, color=BAD, linewidth=0.8)
    for k, r in enumerate(tuned.results):
        said = f"x{r.gain:.2f}" if r.gain else "not measured"
        ax.text(
            gains[k], k, f" {said}{f', {share(r.reached)} of possible' if r.reached else ''}", va="center", fontsize=7
        )
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.2 * max(1.0, *gains))
    ax.set_xlabel("times better than the default schedule (grey: incomplete)")


def _line(ax: Axes, at: float | None, label: str, colour: str) -> None:
    if at is not None:
        ax.axhline(at, color=colour, linewidth=0.8, linestyle="--", label=label)


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def _what(unit: str) -> str:
    return {"s": "a call takes", "pJ": "energy"}.get(unit, unit)


def _plain_numbers(axis: Any, unit: str) -> None:
    """Numbers as people write them on an axis that is logarithmic."""
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    ratio = unit == "ratio"
    low, high = axis.get_view_interval()
    axis.set_major_locator(MaxNLocator(5) if low * 8 > high else LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    units = EngFormatter(unit="s") if unit == "s" else EngFormatter(sep="")
    axis.set_major_formatter(StrMethodFormatter("{x:g}") if ratio else units)
    axis.set_minor_formatter(NullFormatter())


__all__ = ["check_picture", "draw_search", "rank_correlation"]

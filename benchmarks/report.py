"""What was measured, together: geometric means, a page, a picture."""

from __future__ import annotations

import datetime
import importlib.util
import math
import os
import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.cases import Entry
from benchmarks.harness import Against, Result, Skipped, Spread, shown
from tilewright.codegen.data_caches import processor_name
from tilewright.codegen.target import host

Results = Sequence[tuple[Entry, Result]]

_PICTURES = (".png", ".svg", ".pdf")
_PACKAGES = (
    "tilewright", "numpy", "numba", "llvmlite", "torch", "halide", "opencv-python-headless", "numexpr", "scipy",
    "apache-tvm",
)  # fmt: skip


def is_chosen(entry: Entry, words: list[str]) -> bool:
    """Cases that take long run where they are named, and nowhere else."""
    if entry.long:
        return entry.name in words
    return not words or any(entry.name == w or entry.name.startswith(w + "-") for w in words)


def groups(results: Results) -> Iterator[str]:
    """`matmul: geometric mean 1.02 of 7` of each group, against the fastest peer of each case (of those that something is
    asked of, where there are such)."""
    found: dict[str, list[float]] = defaultdict(list)
    for entry, result in results:
        asked = tuple(p for p in result.peers if p.target is not None)
        best = (replace(result, peers=asked) if asked else result).best
        if entry.group and best is not None and best.ratio is not None:
            found[entry.group].append(best.ratio.median)
    for group, ratios in found.items():
        if len(ratios) > 1:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            yield f"{group}: geometric mean {mean:.3f} of {len(ratios)} ratios to the best peer, {min(ratios):.2f} at least"


def unwritable(path: str | None) -> str | None:
    """Why no file can be written there, if so: known before hours of measurements."""
    if path is None:
        return None
    file = Path(path)
    if file.is_dir():
        return f"{path} is a folder"
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}"
    return None if os.access(file if file.exists() else file.parent, os.W_OK) else f"{path} can't be written"


def no_picture(path: str | None) -> str | None:
    """Why no picture can be drawn there, if so."""
    if path is None:
        return None
    if Path(path).suffix.lower() not in _PICTURES:
        return f"{path} must end with one of {', '.join(_PICTURES)}"
    if importlib.util.find_spec("matplotlib") is None:
        return "matplotlib is not installed"
    return unwritable(path)


def page(results: Results, threads: int, path: str, skipped: Sequence[Skipped] = ()) -> None:
    """Write a page of Markdown with date, processor, versions, and a row for each peer of each case."""
    lines = [*_page(results, threads), *(f"\nNot measured: {s.case}, as {s.reason}." for s in skipped)]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _page(results: Results, threads: int) -> Iterator[str]:
    yield "# Performance, measured side by side"
    yield ""
    yield "This page is written by `python -m benchmarks --markdown docs/performance.md`: change the program, not the page."
    yield ""
    where = f"{processor_name()} ({host().cpu}), {threads} thread{'s' * (threads > 1)}, {platform.system()}"
    yield (
        f"Measured on {datetime.date.today().isoformat()} on {where}, Python {platform.python_version()}: "
        f"{', '.join(_versions())}. "
        f"Vector functions of Intel's are {_vector_functions('numba', 'SVML')}, {_vector_functions('numexpr', 'VML')}."
    )
    yield ""
    yield (
        "Ours and every peer run in turns in one process on the same data, values judged first. A ratio is the peer's time "
        "by ours (above 1: ours is faster): the median of the rounds, with quartiles. The limit is what the processor's "
        "multiply-adds or its memory would need at least, measured just after the case; the last column says how much "
        "of it ours reaches."
    )
    yield ""
    yield "![time of the peers by ours](pictures/performance.png)"
    yield ""
    yield "What was tried where a figure is not reached stands in [decisions.md](decisions.md)."
    yield ""
    yield "| case | ours | peer | peer's time | ratio | asked | of the limit |"
    yield "|---|---|---|---|---|---|---|"
    for entry, result in results:
        if entry.size is not None:
            continue
        share = f"{result.limit_s / result.seconds.median:.0%} of {result.limit}" if result.limit_s else ""
        first = f"**{entry.name}**: {entry.title}"
        for p in result.peers:
            yield f"| {first} | {shown(result.seconds.median) if first else ''} | {_peer(p)} | {share} |"
            first = share = ""
        if first:  # no peer
            yield f"| {first} | {shown(result.seconds.median)} | | | | | {share} |"
    yield ""
    yield from groups(results)
    for group, points in curves(results).items():
        yield from (
            "",
            f"## {group}",
            "",
            f"![time of the peer by ours, over sizes](pictures/performance-{group}.png)",
            "",
        )
        yield "Ratios by size: " + ", ".join(f"{n}: {p.ratio.median:.2f}" for n, p in points if p.ratio) + "."


def curves(results: Results) -> dict[str, list[tuple[int, Against]]]:
    """The first peer of the points of each curve, by size."""
    found: dict[str, list[tuple[int, Against]]] = defaultdict(list)
    for entry, result in results:
        if entry.size is not None and result.peers:
            found[entry.group].append((entry.size, result.peers[0]))
    return found


def _peer(p: Against) -> str:
    if p.seconds is None or p.ratio is None:
        return f"{p.name} | {p.missing} | |"
    asked = "" if p.target is None else f"{p.target:g}{'' if p.reached else ' (not reached)'}"
    return f"{p.name} | {shown(p.seconds.median)} | {_ratio(p.ratio)} | {asked}"


def _ratio(r: Spread) -> str:
    return f"{r.median:.2f} [{r.low:.2f}-{r.high:.2f}]"


def _versions() -> Iterable[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue


def _vector_functions(package: str, library: str) -> str:
    """Whether a peer has fast functions over arrays (`exp`, ...), which not every build of it does."""
    if importlib.util.find_spec(package) is None:
        return f"not in {package}, which is not installed"
    if package == "numba":
        from numba.core import config

        found = bool(config.USING_SVML)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        import numexpr

        found = bool(numexpr.use_vml)
    return f"in {package} ({library})" if found else f"not in {package} ({library})"


def plot(results: Results, path: str) -> None:
    """A bar for each case: the ratio to the peer that is nearest to what is asked of it (the fastest, where nothing is), its
    quartiles, and a mark at what is asked. Curves get pictures of their own: `performance-sweep.png` beside
    `performance.png`."""
    from matplotlib.figure import Figure

    for group, points in curves(results).items():
        _plot_curve(group, points, Path(path).with_stem(f"{Path(path).stem}-{group}"))
    rows = [(e.name, p) for e, r in results if e.size is None and (p := _strictest(r)) is not None]
    if not rows:
        return
    columns = 1 + (len(rows) > 40)
    height = -(-len(rows) // columns)
    figure = Figure(figsize=(8 * columns, 1 + 0.28 * height), layout="constrained")
    for k, axes in enumerate(figure.subplots(1, columns, squeeze=False)[0]):
        _plot_bars(axes, rows[k * height : (k + 1) * height], height)
    figure.savefig(path, dpi=100)


def _strictest(r: Result) -> Against | None:
    """The peer that ours is nearest to what is asked, or farthest below it; the fastest where nothing is asked."""
    asked = [p for p in r.peers if p.ratio is not None and p.target is not None]
    if not asked:
        return min((p for p in r.peers if p.ratio is not None), key=lambda p: p.ratio.median, default=None)  # type: ignore[union-attr]
    return min(asked, key=lambda p: p.ratio.median / p.target)  # type: ignore[union-attr, operator]


def _plot_bars(axes: Any, rows: Sequence[tuple[str, Against]], height: int) -> None:
    for y, (_, p) in enumerate(rows):
        assert p.ratio is not None
        color = "tab:gray" if p.target is None else "tab:green" if p.reached else "tab:red"
        axes.barh(y, p.ratio.median, color=color, height=0.7)
        axes.plot([p.ratio.low, p.ratio.high], [y, y], color="black", linewidth=1)
        if p.target is not None:
            axes.plot([p.target, p.target], [y - 0.4, y + 0.4], color="black", linewidth=2)
    axes.axvline(1.0, color="black", linewidth=0.5)
    axes.set_yticks(range(len(rows)), [f"{name}, {p.name}" for name, p in rows], fontsize=8)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set_xlabel("time of the peer / ours (bars: what is asked)")


def _plot_curve(title: str, points: Sequence[tuple[int, Against]], path: Path) -> None:
    """Ratios over sizes, with their quartiles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    spreads = [(n, p.ratio) for n, p in points if p.ratio is not None]
    sizes, ratios = [n for n, _ in spreads], [r.median for _, r in spreads]
    axes.fill_between(sizes, [r.low for _, r in spreads], [r.high for _, r in spreads], color="tab:blue", alpha=0.25)
    axes.plot(sizes, ratios, color="tab:blue", marker="o", markersize=3, linewidth=1)
    axes.axhline(1.0, color="black", linewidth=0.5)
    axes.set_xscale("log", base=2)
    axes.set_xticks([2**k for k in range(11)], [str(2**k) for k in range(11)])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("size")
    axes.set_ylabel("time of the peer / ours")
    axes.set_title(f"{title}: beside {points[0][1].name}")
    figure.savefig(path, dpi=120)

"""What a tuner shows while it runs: a live display on terminals (with rich), lines elsewhere.

Both go to stderr, so that a report or JSON on stdout stays alone.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from tilewright.autotune.errors import TuneError
from tilewright.autotune.snapshot import JobState, Snapshot
from tilewright.autotune.tuned import quantity
from tilewright.hw.humane import share
from tilewright.lang.errors import user_location

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

Watch = Callable[[Snapshot], None]

EVERY = 5.0  # seconds between lines in which nothing is new
SHOWN = 12  # buckets of a live display
BAR, GAP = "bar", 2  # the name of the column with bars; columns between columns
LEFT = ("bucket", BAR, "from", "failed")  # columns of texts
LEAVE = (BAR, "from", "pruned", "default", "failed", "tried", "of possible")  # columns that narrow terminals do without
KINDS = ("auto", "live", "lines", "none")


@contextmanager
def progress(kind: str | Watch, now: Callable[[], Snapshot], stream: TextIO | None = None) -> Iterator[Watch]:
    """A watcher of a tuner. `kind` is live, lines, none, auto (live on a terminal that can show it, else lines) or a
    function that takes snapshots; `now` gives one at any time. Raises TuneError `tune.progress`."""
    out = stream or sys.stderr
    if callable(kind):
        yield kind
    elif kind not in KINDS or (kind == "live" and not _rich()):
        raise TuneError(
            f"progress={kind!r}" if kind not in KINDS else "a live display needs rich", code="tune.progress",
            where=user_location(), hint="pip install tilewright[tune]" if kind == "live" else f"one of {', '.join(KINDS)}",
        )  # fmt: skip
    elif kind == "none":
        yield lambda s: None
    elif kind == "live" or (kind == "auto" and _rich() and out.isatty()):
        yield from _live(now, out)
    else:
        yield Lines(out)


def _rich() -> bool:
    return importlib.util.find_spec("rich") is not None


# Lines ------------------------------------------------------------------------------------------------------------


class Lines:
    """A line for each new best one, and one every few seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic):
        self.stream, self.clock = stream, clock
        self._last, self._said = -1e9, ""

    def __call__(self, s: Snapshot) -> None:
        news = bool(s.news) or s.phase != self._said
        if not news and self.clock() - self._last < EVERY:
            return
        self._last, self._said = self.clock(), s.phase
        print(line(s), file=self.stream, flush=True)


def line(s: Snapshot) -> str:
    """`  12.3 s  searching  matmul at M=16: 1.23 ms (x1.31, 61 % of possible)  tried 40, pruned 120, 48 s left`"""
    parts = [f"{s.seconds:6.1f} s", s.phase]
    if s.phase == "starting":
        parts.append(_about(s))
    elif s.news or len(s.jobs) == 1:
        parts.append(_best(s, s.news))
    else:
        done = sum(j.best is not None for j in s.jobs)
        parts.append(f"{done} of {len(s.jobs)} buckets have a best one")
    if s.phase != "starting":
        parts.append(_counts(s) + (f", {s.left:.0f} s left" if s.phase != "done" else ""))
    return "  ".join(parts)


def _about(s: Snapshot) -> str:
    names = ", ".join(dict.fromkeys(j.kernel for j in s.jobs))
    buckets = f" in {len(s.jobs)} buckets" if len(s.jobs) > 1 else ""
    known = f", {s.reused} figures are known" if s.reused else ""
    return f"{names}{buckets} for {s.objective}{f' on {s.machine}' if s.machine else ''}, {s.budget:.0f} s{known}"


def _best(s: Snapshot, news: str) -> str:
    j = next((j for j in s.jobs if news.startswith(title(j))), s.jobs[0])
    if j.best is None:
        return f"{title(j)}: nothing yet"
    more = [f"x{j.gain:.2f}"] if j.gain else []
    more += [f"{share(j.reached)} of possible"] if j.reached else []
    return f"{title(j)}: {quantity(j.best, s.unit)}" + (f" ({', '.join(more)})" if more else "")


def title(j: JobState) -> str:
    """A job's name: the kernel's, with the bucket's."""
    return f"{j.kernel} at {j.bucket}" if j.bucket else j.kernel


def _counts(s: Snapshot) -> str:
    said = [f"tried {s.tried}" + (f" of {s.trials}" if s.trials else "")]
    said += [f"pruned {s.pruned}"] if s.pruned else []
    return ", ".join([*said, *_failed(s.failed)])


def _failed(failed: Mapping[str, int]) -> list[str]:
    reasons = ", ".join(f"{k} {n}" for k, n in sorted(failed.items(), key=lambda x: (-x[1], x[0])))
    return [f"failed {sum(failed.values())} ({reasons})"] if failed else []


# The live display -------------------------------------------------------------------------------------------------


def _live(now: Callable[[], Snapshot], out: TextIO) -> Iterator[Watch]:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=out)
    with Live(console=console, get_renderable=lambda: display(now(), console), refresh_per_second=4, transient=True):
        yield lambda s: None


def display(s: Snapshot, console: Console) -> RenderableType:
    """What a terminal shows of a tuner at a moment."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    head = Text(_about(s), style="bold")
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=max(s.budget, 1e-9), completed=min(s.seconds, s.budget), width=30),
        f"{s.left:.0f} of {s.budget:.0f} s left", Text(s.phase, style="cyan"), _counts(s),
    )  # fmt: skip
    shown = _shown(s, max(3, min(SHOWN, console.height - 6)))
    rows = [_row(j, s) for j in shown]
    t = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim")
    there = _fitting(rows, console.width)
    for name in there:
        side = "left" if name in LEFT else "right"
        t.add_column("" if name == BAR else name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for j, row in zip(shown, rows, strict=True):
        t.add_row(*(row[name] for name in there), style="" if j.state == "searching" or len(s.jobs) == 1 else "dim")
    parts: list[Any] = [head, bar, t]
    if len(shown) < len(s.jobs):
        parts.append(Text(f"and {len(s.jobs) - len(shown)} others", style="dim"))
    return Group(*parts, *(Text(w, style="yellow") for w in s.words))


def _shown(s: Snapshot, most: int) -> tuple[JobState, ...]:
    """The jobs that there is room for: those around the one at work, in their order."""
    at = next((k for k, j in enumerate(s.jobs) if j.state == "searching"), 0)
    start = max(0, min(at - most // 2, len(s.jobs) - most))
    return s.jobs[start : start + most]


def _fitting(rows: Sequence[Mapping[str, Text]], width: int) -> list[str]:
    """The columns that there is room for, so that no figure is cut."""
    there = [*rows[0]]
    widths = {name: GAP + max(len(name), *(row[name].cell_len for row in rows)) for name in there}
    for name in LEAVE:
        if sum(widths[n] for n in there) - GAP <= width:
            break
        there.remove(name)
    return there


def _row(j: JobState, s: Snapshot) -> dict[str, Text]:
    """The cells of a job by the names of columns, in order; the kernel is named where there are several."""
    from rich.text import Text

    failed = ", ".join(f"{n} {k}" for k, n in sorted(j.failed.items(), key=lambda x: -x[1]))
    one = len({k.kernel for k in s.jobs}) == 1
    return {
        "bucket": Text(j.bucket if one and j.bucket else title(j)), "default": Text(quantity(j.default, s.unit)),
        "best": Text(quantity(j.best, s.unit), style="bold"),
        "gain": Text(f"x{j.gain:.2f}" if j.gain else "", style="green" if (j.gain or 0) > 1.005 else ""),
        BAR: Text(_bar(j.reached)), "of possible": Text(share(j.reached) if j.reached is not None else ""),
        "from": Text(j.origin.partition(" ")[0]), "tried": Text(str(j.tried)), "pruned": Text(str(j.pruned or "")),
        "failed": Text(failed, style="red"),
    }  # fmt: skip


def _bar(reached: float | None, width: int = 10) -> str:
    """`######....`, in blocks."""
    if reached is None:
        return ""
    full = min(width, round(width * reached))
    return "\u2588" * full + "\u2591" * (width - full)


__all__ = ["KINDS", "Lines", "Watch", "display", "line", "progress", "title"]

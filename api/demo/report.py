"""What the demonstration finds, as data and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One schedule of one job.

    seconds, numpy_seconds  medians of runs that take turns
    rate, unit              operations, or bytes of inputs and outputs, a second
    moved, peak             on the simulated machine: bytes between main memory and the rest, largest footprint of its
                            scratchpad (0: the schedule stages nothing there)
    error                   largest distance from the exact value, as a part of the derived bound; above 1 is wrong
    """

    job: str
    schedule: str
    seconds: float
    rate: float
    unit: str
    numpy_seconds: float
    moved: int
    peak: int
    error: float

    @property
    def ratio(self) -> float:
        """How many times as fast as NumPy."""
        return self.numpy_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, where the pictures are, and what was simulated."""

    rows: tuple[Row, ...]
    machine: str
    simulated: tuple[str, ...]
    pictures: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every result lies within its bound."""
        return all(r.error <= 1 for r in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        return table(self.rows, self.machine)


def table(rows: Sequence[Row], machine: str) -> str:
    """The rows of the demonstration as a table."""
    from tilewright.hw.render.tables import columns

    cells: list[tuple[str, ...]] = [
        ("job", "schedule", "time", "rate", "NumPy's time", "of NumPy", f"moved on {machine}", "peak", "error/bound")
    ]
    last = ""
    for r in rows:
        cells.append((
            r.job if r.job != last else "", r.schedule, f"{r.seconds * 1e3:.2f} ms", f"{r.rate / 1e9:.1f} {r.unit}",
            f"{r.numpy_seconds * 1e3:.2f} ms", f"{r.ratio:.2f} x", f"{r.moved / 1e6:.1f} MB",
            f"{r.peak / 1024:.1f} KiB" if r.peak else "-", f"{r.error:.3f}" if r.error else "exact",
        ))  # fmt: skip
        last = r.job
    return columns(cells, left=2)

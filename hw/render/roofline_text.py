"""A roofline as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.hw import humane

from .account_tables import cycles, heading, some
from .tables import Table, table

if TYPE_CHECKING:
    from tilewright.hw.roofline import Bound, Roofline


def roofline_heading(line: Roofline) -> str:
    return f"{heading(line)}: {line.whole.verdict}"


def roofline_text(line: Roofline) -> str:
    """The verdict, then the roofs, then the sections."""
    return "\n\n".join([roofline_heading(line), *map(str, roofline_tables(line))])


def roofline_tables(line: Roofline) -> Iterator[Table]:
    """The roofs over the whole, what is compulsory, and the verdict on every section."""
    whole, least = line.whole, line.compulsory
    rows = [("compute", "", "", "", "" if whole.peak is None else f"{whole.peak:.4g} op", cycles(whole.compute))]
    rows += [
        (r.name, humane.size(r.bytes), _ratio(whole.intensity(r)), _ratio(whole.ridge(r)), f"{r.bandwidth:.4g} B",
         cycles(r.cycles))
        for r in whole.roofs
    ]  # fmt: skip
    for r in least.roofs:
        rows.append((f"{r.name}, compulsory", humane.size(r.bytes), _ratio(least.intensity(r)),
                     _ratio(least.ridge(r)), f"{r.bandwidth:.4g} B", cycles(r.cycles)))  # fmt: skip
    yield table(_bound(line), ("roof", "bytes", "op/byte", "ridge", "a cycle", "cycles"), rows)
    if line.regions:
        rows = [(b.name, b.verdict, some(b.operations), cycles(b.cycles), *_took(b)) for b in line.regions]
        yield table("", ("section", "", "operations", "at least", "took", ""), rows, left=2)


def _bound(line: Roofline) -> str:
    whole, least = line.whole, line.compulsory
    parts = [f"at least {cycles(whole.cycles)} cycles"]
    if whole.took is not None:
        parts.append(f"took {cycles(whole.took)} ({humane.ratio(whole.took, whole.cycles)})")
    if least.roofs:
        parts.append(f"with compulsory traffic only {cycles(least.cycles)}")
    return ", ".join(parts)


def _took(b: Bound) -> tuple[str, str]:
    return ("", "") if b.took is None else (cycles(b.took), humane.ratio(b.took, b.cycles))


def _ratio(value: float | None) -> str:
    return "" if value is None or math.isinf(value) else f"{value:.3g}"

"""Measured cycles of copies and of arithmetic, as a CSV file holds them: what `fit` fits a machine to.

One experiment a row. Columns, in any order (others are refused, so that a misspelled one is no silent default):

    engine       name of a [[dma]] of the machine, or `compute`
    cycles       what was measured, of the machine's clock
    bytes        (copies) bytes that were moved, all descriptors together
    descriptors  (copies) how many were issued; 1 if left out
    runs         (copies) contiguous runs of the data, all descriptors together; `descriptors` if left out
    burst_bytes  (copies) bytes that crossed the bus; if left out, whole bursts for every run, as if runs were aligned
    waits        how often the core waited for results before it went on; 1 if left out
    type         (compute) element type of the operations
    operations   (compute) how many, a fused multiply-add counted as two
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.lang.errors import Location

from .errors import MeasurementError
from .fields import ELEMENT_TYPES
from .machine import Machine
from .reader import closest

COMPUTE = "compute"
_COPY = ("bytes", "descriptors", "runs", "burst_bytes")
_ARITHMETIC = ("type", "operations")
COLUMNS = ("engine", "cycles", *_COPY, "waits", *_ARITHMETIC)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One experiment. `line` is its line in the file; `type` and `operations` are those of arithmetic; `burst_bytes` is
    None where it follows from bytes and runs."""

    engine: str
    cycles: float
    bytes: float = 0.0
    descriptors: float = 1.0
    runs: float = 1.0
    waits: float = 1.0
    type: str = ""
    operations: float = 0.0
    burst_bytes: float | None = None
    line: int = 0


def read_measurements(path: str | Path, machine: Machine) -> list[Measurement]:
    """The experiments of a CSV file with a header line; empty lines and lines that begin with `#` are passed over.

    Raises MeasurementError with file and line: `measurements.file`, `measurements.columns`, `measurements.value`,
    `measurements.engine` (none of that name), `measurements.none`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise MeasurementError(f"can't read {path}: {reason}", code="measurements.file") from error
    return parse_measurements(text, str(path), machine)


def parse_measurements(text: str, origin: str, machine: Machine) -> list[Measurement]:
    """As `read_measurements`, of a text; `origin` names it in errors."""
    rows = _rows(text, origin)
    if not rows:
        raise _wrong("none", origin, 1, "there are no measurements", f"a header line ({', '.join(COLUMNS)}) and rows")
    (line, header), *data = rows
    _check_header(header, origin, line)
    if not data:
        raise _wrong("none", origin, line, "there are no measurements under the header", "one experiment a line")
    return [_measurement(dict(zip(header, row, strict=True)), origin, at, machine)
            for at, row in ((at, _as_long(row, header, origin, at)) for at, row in data)]  # fmt: skip


def _rows(text: str, origin: str) -> list[tuple[int, list[str]]]:
    """(line, cells) of all lines that say something."""
    kept = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    reader = csv.reader(io.StringIO("\n".join(kept)), strict=True)
    try:
        return [
            (reader.line_num, [cell.strip() for cell in row]) for row in reader if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise _wrong("columns", origin, max(1, reader.line_num), f"this is no CSV: {error}", "cells with commas between"
                     ) from error  # fmt: skip


def _check_header(header: Sequence[str], origin: str, line: int) -> None:
    legal = ", ".join(COLUMNS)
    for name in header:
        if name not in COLUMNS:
            raise _wrong("columns", origin, line, f"there is no column {name!r}", legal + closest(name, COLUMNS))
        if header.count(name) > 1:
            raise _wrong("columns", origin, line, f"the column {name} is there twice", legal)
    missing = [name for name in ("engine", "cycles") if name not in header]
    if missing:
        raise _wrong("columns", origin, line, f"the column {missing[0]} is missing", legal)


def _as_long(row: list[str], header: Sequence[str], origin: str, line: int) -> list[str]:
    if len(row) != len(header):
        raise _wrong("columns", origin, line, f"{len(row)} cells under {len(header)} columns", "a cell for each column")
    return row


def _measurement(cells: dict[str, str], origin: str, line: int, machine: Machine) -> Measurement:
    name = cells["engine"]
    arithmetic = name == COMPUTE
    known = [dma.name for dma in machine.dmas]
    if not arithmetic and name not in known:
        legal = ", ".join([*known, COMPUTE])
        raise _wrong(
            "engine", origin, line, f"{machine.name} has no engine {name!r}", legal + closest(name, [*known, COMPUTE])
        )
    foreign = [key for key in (_COPY if arithmetic else _ARITHMETIC) if cells.get(key)]
    if foreign:
        what = "arithmetic" if arithmetic else "a copy"
        raise _wrong("value", origin, line, f"{foreign[0]} is given for {what}", "an empty cell there")

    def number(key: str, default: float | None, least: float) -> float:
        text = cells.get(key, "")
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            bound = "a number above 0" if 0 < least < 1 else f"a number of at least {least:g}"
            raise _wrong("value", origin, line, f"{key} is {text!r}" if text else f"{key} is missing", bound)
        return value

    given: dict[str, Any] = {"cycles": number("cycles", None, 1e-9), "waits": number("waits", 1.0, 0.0)}
    if arithmetic:
        given |= {"type": cells.get("type", ""), "operations": number("operations", None, 1.0)}
        if given["type"] not in ELEMENT_TYPES:
            raise _wrong("value", origin, line, f"type is {given['type']!r}", ", ".join(ELEMENT_TYPES))
    else:
        given |= {"bytes": number("bytes", None, 0.0), "descriptors": number("descriptors", 1.0, 1.0)}
        given["runs"] = number("runs", given["descriptors"], 1.0)
        if cells.get("burst_bytes"):
            given["burst_bytes"] = number("burst_bytes", None, given["bytes"])
    return Measurement(name, line=line, **given)


def _wrong(code: str, origin: str, line: int, problem: str, legal: str) -> MeasurementError:
    return MeasurementError(problem, code=f"measurements.{code}", where=Location(origin, line), hint=f"legal: {legal}")

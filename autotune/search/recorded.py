"""Spaces whose points were measured once, to be searched again without a clock.

A table has every schedule of a space by the choices that lead to it, with its cost as measured and as predicted. Strategies
are tried on it over many seeds, and tested: nothing is compiled, and results are the same on every computer.
`python -m benchmarks.tables` records one.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.space import Choose, Dead, Decision, Point, Trace, Value
from tilewright.lang.errors import TilewrightError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule

VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule by its choices and its hash. `cost` is None where it failed, or was not measured; `predicted` None where
    nothing was predicted."""

    trace: Trace
    hash: str
    cost: float | None
    predicted: float | None = None


@dataclass(frozen=True)
class Table:
    """A measured space. `about` says what was measured, where and how; `kernel` is the text of the algorithm."""

    kernel: str
    rows: tuple[Row, ...]
    unit: str = "s"
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def space(self) -> RecordedSpace:
        return RecordedSpace(self)

    @cached_property
    def pipeline(self) -> Pipeline:
        from tilewright.lang.text import parse_kernel

        return parse_kernel(self.kernel)

    @cached_property
    def best(self) -> float:
        """The least cost of all."""
        return min((r.cost for r in self.rows if r.cost is not None), default=math.inf)

    @cached_property
    def _by_hash(self) -> dict[str, Row]:
        return {r.hash: r for r in self.rows}

    def cost(self, point: Point) -> float | None:
        """What a point took when it was measured; None where it failed."""
        return self._by_hash[point.hash].cost

    def predict(self, points: Sequence[Point]) -> list[float | None]:
        """What was predicted of points, as strategies ask it."""
        return [self._by_hash[p.hash].predicted for p in points]

    # As a file ------------------------------------------------------------------------------------------------

    def write(self, path: str | Path) -> None:
        """Write it as JSON; compressed where the name ends with .gz."""
        decisions: dict[tuple[str, tuple[Value, ...]], int] = {}
        rows = []
        for r in self.rows:
            flat: list[int] = []
            for d in r.trace:
                flat += decisions.setdefault((d.name, d.choices), len(decisions)), d.choices.index(d.value)
            rows.append([flat, r.hash, r.cost, r.predicted])
        text = json.dumps(
            {"table": VERSION, "about": dict(self.about), "kernel": self.kernel, "unit": self.unit,
             "decisions": list(decisions), "rows": rows},
            separators=(",", ":"),
        )  # fmt: skip
        data = text.encode()
        # no time of writing in it: the same table is the same file
        Path(path).write_bytes(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)


def read_table(path: str | Path) -> Table:
    """A table from its file. Raises TuneError `tune.table` where there is none that can be read."""
    try:
        data = Path(path).read_bytes()
        read = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        if read["table"] != VERSION:
            raise ValueError(f"it is of version {read['table']}, not {VERSION}")
        decisions = [(name, tuple(map(_value, choices))) for name, choices in read["decisions"]]
        rows = tuple(Row(_trace(decisions, flat), *rest) for flat, *rest in read["rows"])
        return Table(read["kernel"], rows, read["unit"], read["about"])
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as e:
        raise TuneError(f"{path} is no table of a measured space: {e}", code="tune.table", where=user_location(),
                        hint="python -m benchmarks.tables records one") from e  # fmt: skip


def _value(v: Any) -> Value:
    return tuple(v) if isinstance(v, list) else v


def _trace(decisions: Sequence[tuple[str, tuple[Value, ...]]], flat: Sequence[int]) -> Trace:
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return tuple(Decision(*decisions[d], decisions[d][1][k]) for d, k in pairs)


@dataclass
class _Node:
    """What is chosen after some choices, or the row that they lead to."""

    row: Row
    name: str = ""
    choices: tuple[Value, ...] = ()
    next: dict[tuple[type, Value], _Node] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedSpace:
    """The space that a table was recorded of: the same choices lead to schedules with the same hashes, which have no
    directives. What no row has been reached by leads nowhere."""

    table: Table

    @property
    def name(self) -> str:
        return f"recorded: {self.pipeline.name}"

    @property
    def pipeline(self) -> Pipeline:
        return self.table.pipeline

    @cached_property
    def _root(self) -> _Node:
        if not self.table.rows:
            raise TilewrightError("a table without rows", code="tune.table")
        root = _Node(self.table.rows[0])
        for r in self.table.rows:
            at = root
            for d in r.trace:
                at.name, at.choices = d.name, d.choices
                at = at.next.setdefault((type(d.value), d.value), _Node(r))
        return root

    def build(self, choose: Choose) -> Schedule:
        at = self._root
        while at.choices:
            value = choose(at.name, at.choices)
            if (type(value), value) not in at.next:
                raise Dead
            at = at.next[(type(value), value)]
        return Schedule.recorded(self.pipeline, (), at.row.hash)


def predicted(table: Table, figures: Mapping[str, float | None]) -> Table:
    """The table with predictions by hash in place of its own."""
    return replace(table, rows=tuple(replace(r, predicted=figures.get(r.hash)) for r in table.rows))


def reached(costs: Iterable[float | None], goal: float) -> int | None:
    """How many evaluations it took to reach a cost; None where it was not reached."""
    return next((n for n, c in enumerate(costs, 1) if c is not None and c <= goal), None)


__all__ = ["RecordedSpace", "Row", "Table", "predicted", "reached", "read_table"]

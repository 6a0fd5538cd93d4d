"""The rows of a campaign: one a trial, in an SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

_COLUMNS = ("seed", "version", "focus", "outcome", "data", "level", "kinds", "pairs", "ways", "extents", "funcs",
            "directives", "refused", "seconds", "message")  # fmt: skip
_LISTS = ("kinds", "pairs", "ways", "extents", "refused")


@dataclass
class Row:
    """What became of a seed. `version` is that of the generator; a seed and a focus mean a trial within a version.

    `kinds` and `pairs` ([tail, kind]) are what the trial counts for; `extents` the sizes of its calls, `funcs` how many
    Funcs the pipeline has, `directives` how many the schedule; `refused` the codes of illegal directives.
    """

    seed: int
    version: int
    focus: str
    outcome: str
    data: str = ""
    level: str = ""
    kinds: list[str] = field(default_factory=list)
    pairs: list[list[str]] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    extents: list[dict[str, int]] = field(default_factory=list)
    funcs: int = 0
    directives: int = 0
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0
    message: str = ""


class Store:
    """A file of rows; opening it makes it where there is none."""

    def __init__(self, path: Path | str):
        self.base = sqlite3.connect(path)
        columns = ", ".join(_COLUMNS)
        self.base.execute(f"CREATE TABLE IF NOT EXISTS trials ({columns}, PRIMARY KEY (version, seed))")

    def add(self, rows: list[Row]) -> None:
        """Add rows, in place of those of the same seeds."""
        marks = ", ".join("?" for _ in _COLUMNS)
        values = [tuple(json.dumps(v) if k in _LISTS else v for k, v in asdict(r).items()) for r in rows]
        with self.base:
            self.base.executemany(f"INSERT OR REPLACE INTO trials VALUES ({marks})", values)

    def seeds(self, version: int) -> set[int]:
        """The seeds that have run."""
        return {s for (s,) in self.base.execute("SELECT seed FROM trials WHERE version = ?", (version,))}

    def rows(self) -> Iterator[Row]:
        for values in self.base.execute(f"SELECT {', '.join(_COLUMNS)} FROM trials ORDER BY version, seed"):
            yield Row(**{k: json.loads(v) if k in _LISTS else v for k, v in zip(_COLUMNS, values, strict=True)})

    def counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        """How many good trials each kind of directive and each (tail, kind) has."""
        kinds: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for k, p in self.base.execute("SELECT kinds, pairs FROM trials WHERE outcome = 'good'"):
            kinds.update(json.loads(k))
            pairs.update((a, b) for a, b in json.loads(p))
        return kinds, pairs

"""`records`: what was measured, as lists, files and answers. `database` is a file, or by default the user's own one.

from tilewright.commands import records

records.list(kernel="matmul")
records.export("team.jsonl", kernel="matmul")
records.import_(["team.jsonl"])
records.explain("examples/matmul.py", sizes=dict(M=20, N=1024, K=1024)).used
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.files import UsageError, writing
from tilewright.commands.targets import check_sizes, closest, find_kernel
from tilewright.hw.render.tables import columns

if TYPE_CHECKING:
    from tilewright.autotune.records import Explanation, Key, Record, Records
    from tilewright.hw import Machine
    from tilewright.kernels import Kernel

__all__ = [
    "Exported",
    "Imported",
    "Listed",
    "Pruned",
    "Row",
    "Shown",
    "explain",
    "export",
    "import_",
    "list",
    "prune",
    "show",
]


@contextmanager
def opened(database: str | Path | Records | None, new: bool = False) -> Iterator[Records]:
    """The records of a database. Unless it may be a `new` one, a file that is named must be there.

    Raises UsageError `usage.file`.
    """
    from tilewright.autotune.records import Records
    from tilewright.autotune.records.store import location

    if isinstance(database, Records):
        yield database
        return
    path = Path(database) if database is not None else location()
    if path is None or not path.exists():
        if database is not None and not new:
            raise UsageError(f"there is no database {path}", code="usage.file", hint="name one with --records FILE")
        if not new:
            path = None
    if path is not None and path.is_dir():
        raise UsageError(f"{path} is a folder", code="usage.file", hint="name a database: --records FILE")
    with Records(path) as found:
        yield found


# Lists ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """The records of one key: how many, how many of them failed, and the best one's figure in its unit, its day and
    hash."""

    key: Key
    count: int
    failed: int
    best: float | None
    unit: str
    day: str
    digest: str
    current: bool


@dataclass(frozen=True)
class Listed:
    """The records of a database by key. `location` is None where there is no database (yet)."""

    location: str | None
    rows: tuple[Row, ...]
    damaged: int
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self)

    def __str__(self) -> str:
        from tilewright.autotune.records.lookup import quantity, where

        total = sum(r.count for r in self.rows)
        out = [f"{total} record{'s' * (total != 1)} in {self.location or 'no database'}"]
        if self.rows:
            head = ("kernel", "bucket", "objective", "mode", "machine", "records", "failed", "best", "day", "hash")
            body = [
                (r.key.kernel, r.key.bucket, r.key.objective, r.key.mode, where(r.key), str(r.count), str(r.failed or ""),
                 quantity(r.best, r.unit), r.day + ("" if r.current else " *"), r.digest[:8])
                for r in self.rows
            ]  # fmt: skip
            out += ["", columns([head, *body], 5)]
        if any(not r.current for r in self.rows):
            out.append("* measured with another version of the code generator or of its libraries")
        out += [f"note: {self.damaged} rows do not say what was written, and are not used"] if self.damaged else []
        return "\n".join([*out, *(f"note: {p}" for p in self.problems)])


def list(database: str | Path | Records | None = None, **filters: Any) -> Listed:
    """The records by key. filters: kernel, bucket, objective, mode, machine, threads, status."""
    from tilewright.autotune.records.pruning import is_current

    with opened(database) as records:
        by_key: dict[Key, dict[str, Record]] = {}
        for r in records.list(**filters):
            by_key.setdefault(r.key, {})[r.digest] = r
        rows = tuple(_row(k, rs, records.best(k) or records.best(k, "cold"), is_current(k)) for k, rs in by_key.items())
        path = str(records.path) if records.path is not None else None
        return Listed(path, rows, len(records.damaged()), records.problems)


def _row(key: Key, records: Mapping[str, Record], best: Record | None, current: bool) -> Row:
    if best is None or best.digest not in records:
        best = next(iter(records.values()))
    failed = sum(not r.ok for r in records.values())
    return Row(key, len(records), failed, best.figure, best.unit, best.when[:10], best.digest, current)


@dataclass(frozen=True)
class Shown:
    """Records whose hash begins as asked."""

    records: tuple[Record, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {"records": [r.as_json() | {"hash": r.digest} for r in self.records]}

    def __str__(self) -> str:
        return "\n\n".join(map(_whole, self.records))


def show(digest: str, database: str | Path | Records | None = None) -> Shown:
    """The records whose hash, or the hash of whose schedule, begins with `digest`. Raises UsageError `usage.record`."""
    with opened(database) as records:
        found = records.get(digest) if digest.strip() else ()
        if not found:
            raise UsageError(f"there is no record {digest!r}", code="usage.record",
                             hint="`tilewright records list` shows the hashes of the best ones")  # fmt: skip
        return Shown(found)


def _whole(r: Record) -> str:
    from tilewright.autotune.records.lookup import quantity, where

    k = r.key
    lines = [
        ("record", r.digest),
        ("kernel", f"{k.kernel} {k.types}, algorithm {k.algorithm}"),
        ("bucket", k.bucket),
        ("sizes", ", ".join(f"{n}={v}" for n, v in r.sizes.items())),
        ("objective", f"{k.objective}, mode {k.mode}, {r.cache} caches"),
        ("machine", where(k)),
        ("layouts", k.layouts),
        ("figure", quantity(r.figure, r.unit) if r.ok else f"none: {r.status}"),
        ("median", quantity(r.median, r.unit)),
        ("spread", f"{r.spread:.1%}" if r.spread is not None else ""),
        ("measured", f"{r.when}, {r.stage}"),
        ("origin", r.origin),
        ("chosen", ", ".join(f"{n}={v}" for n, v in r.values.items())),
        ("versions", f"code generator {k.code[:12]} {k.versions}".strip()),
        ("message", r.message),
    ]
    return "\n".join([*(f"{n:<10}{v}" for n, v in lines if v), *(f"  {line}" for line in r.schedule.split("\n"))])


# Exchange -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written, and how many records are in it."""

    path: str
    records: int

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.path}: {self.records} record{'s' * (self.records != 1)} written"


def export(path: str | Path, database: str | Path | Records | None = None, **filters: Any) -> Exported:
    """Write records as lines of JSON; filters as of `list`. Equal records give equal files."""
    with opened(database) as records, writing(path):
        return Exported(str(path), records.export(path, **filters))


@dataclass(frozen=True)
class Imported:
    """What became of the records of files: new ones, those that were there, and lines that are none: file, line, why."""

    location: str | None
    new: int
    known: int
    refused: tuple[tuple[str, int, str], ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every line was a record."""
        return not self.refused

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        out = [f"{self.location or 'in memory'}: {self.new} new, {self.known} known"]
        out += [f"{file}:{line}: left out, {why}" for file, line, why in self.refused]
        return "\n".join([*out, *(f"note: {p}" for p in self.problems)])


def import_(paths: Iterable[str | Path], database: str | Path | Records | None = None) -> Imported:
    """Take over the records of files that `export` has written, or of databases (`.db`); doing it again changes nothing.

    Raises UsageError `usage.file`, RecordError `records.lines` before anything is taken over.
    """
    from tilewright.autotune.records.lines import read_lines

    new = known = 0
    refused: tuple[tuple[str, int, str], ...] = ()
    several = [Path(p) for p in paths]
    for p in several:
        if not p.is_file():
            raise UsageError(f"there is no file {p}", code="usage.file", hint="`tilewright records export` writes one")
    read = {p: None if _is_database(p) else read_lines(p) for p in several}
    with opened(database, new=True) as records:
        for p, lines in read.items():
            if lines is None:
                with opened(p) as other:
                    done = records.merge(other)
            else:
                done = records.merge(lines[0])
                refused += tuple((str(p), n, why) for n, why in lines[1])
            new, known = new + done.new, known + done.known
        path = str(records.path) if records.path is not None else None
        return Imported(path, new, known, refused, records.problems)


def _is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


@dataclass(frozen=True)
class Pruned:
    """Records that were removed (or would be)."""

    records: tuple[Record, ...]
    left: int
    dry: bool

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {"removed": [r.digest for r in self.records], "left": self.left, "dry": self.dry}

    def __str__(self) -> str:
        n = len(self.records)
        return f"{n} record{'s' * (n != 1)} {'would be removed' if self.dry else 'removed'}, {self.left} left"


def prune(
    database: str | Path | Records | None = None, *, best: int | None = None, days: float | None = None,
    versions: bool = False, failed: bool = False, dry: bool = False,
) -> Pruned:  # fmt: skip
    """`Records.prune`. Raises UsageError `usage.prune` where nothing is said to be removed."""
    if best is None and days is None and not versions and not failed:
        raise UsageError("nothing is said to be removed", code="usage.prune",
                         hint="--best N, --days N, --versions or --failed")  # fmt: skip
    with opened(database) as records:
        gone = records.prune(best=best, days=days, versions=versions, failed=failed, dry=dry)
        return Pruned(gone, len(records) - (len(gone) if dry else 0), dry)


# Answers --------------------------------------------------------------------------------------------------------


def explain(
    target: str | Path | Kernel, *, sizes: Mapping[str, int | tuple[int, int]], database: str | Path | Records | None = None,
    statics: Mapping[str, Any] | None = None, dtypes: Mapping[str, Any] | None = None, mode: str | None = None,
    objective: str | None = None, machine: Machine | str | None = None, threads: int | None = None, cache: str = "hot",
    most: int = 10,
) -> Explanation:  # fmt: skip
    """Which record is used for a call of `FILE[:KERNEL]` or a kernel with these sizes, or for a bucket where some are
    ranges, and why not others. objective: by default time, of a simulated `machine` cycles.

    Raises what `find_kernel` does, and UsageError `usage.size`.
    """
    from tilewright.autotune.buckets import Axis

    kernel, p = find_kernel(target, statics, dtypes)
    ends = [{n: s[k] if isinstance(s, tuple) else s for n, s in sizes.items()} for k in (0, 1)]
    low, high = (check_sizes(p, e) for e in ends)
    wrong = next((n for n in low if low[n] > high[n]), None)
    if wrong is not None:
        raise UsageError(f"size {wrong} is {low[wrong]}..{high[wrong]}", code="usage.size", hint="the lower one first")
    bucket = ",".join(str(Axis(n, low[n], high[n])) for n in low) if low != high else ""
    case = case_of(mode or kernel.mode, objective, machine, threads, cache)
    with opened(database) as records:
        return records.explain(p, {} if bucket else low, bucket=bucket, most=most, **case)


def case_of(
    mode: str, objective: str | None, machine: Machine | str | None, threads: int | None, cache: str
) -> dict[str, Any]:
    """What `Records.question` takes besides kernel and sizes."""
    from tilewright.autotune.fingerprint import Fingerprint
    from tilewright.hw import load_machine

    simulated = load_machine(machine) if isinstance(machine, str) else machine
    here = Fingerprint.here()
    return {
        "mode": mode, "machine": simulated, "objective": objective or ("time" if simulated is None else "cycles"),
        "cache": cache, "fingerprint": here if threads is None else replace(here, threads=threads),
    }  # fmt: skip


def check_filters(filters: Mapping[str, str]) -> dict[str, str]:
    """Filters of the command line. Raises UsageError `usage.filter` for a value that no record can have."""
    from tilewright.autotune.records.record import OBJECTIVES, STATUSES

    known = {"objective": [*OBJECTIVES], "status": [*STATUSES], "mode": ["strict", "contract", "fast"]}
    for name, value in filters.items():
        if name in known and value not in known[name]:
            raise UsageError(
                f"no record has the {name} {value!r}", code="usage.filter", hint=closest(value, known[name])
            )
    return dict(filters)

"""One SQLite file of records: its tables, how rows become records, and what is saved of a file that is damaged.

Readers and writers are independent of each other (WAL): a process that is killed while it writes loses the row that it
was writing at most. Every row carries the hash of what it says, so that one that was changed later is known.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from tilewright.autotune.errors import RecordError
from tilewright.autotune.records.record import Key, Record, key_from, record_of

APPLICATION = 0x7457_0001  # SQLite's application_id: the file is one of ours
PAGE = 4096
BUSY = 10.0  # seconds that a writer waits for others

KEY = tuple(f.name for f in fields(Key))
_ROW = (
    "schedule",
    "status",
    "figure",
    "unit",
    "median",
    "spread",
    "cache",
    "at",
    "stage",
    "origin",
    "message",
)  # as they are
_JSON = ("sizes", "samples", "chosen")
_NAMES = {"at": "when", "chosen": "values"}  # columns that have other names than fields

# Tables before indices, as VACUUM makes them: then they begin in the same places in all files (see salvage).
_TABLES = f"""
CREATE TABLE keys (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE,
  {", ".join(f"{n} {'INTEGER' if n == 'threads' else 'TEXT'} NOT NULL" for n in KEY)});
CREATE TABLE measurements (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, key INTEGER NOT NULL REFERENCES keys (id),
  configuration TEXT NOT NULL, schedule TEXT NOT NULL, sizes TEXT NOT NULL, chosen TEXT NOT NULL, status TEXT NOT NULL,
  figure REAL, unit TEXT NOT NULL, samples TEXT NOT NULL, median REAL, spread REAL, cache TEXT NOT NULL, at TEXT NOT NULL,
  stage TEXT NOT NULL, origin TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX keys_by_algorithm ON keys (algorithm);
CREATE INDEX keys_by_family ON keys (family);
CREATE INDEX measurements_by_key ON measurements (key, status, figure);
"""
# What makes a database of one version one of the next: statements by the version that they start from.
MIGRATIONS: dict[int, str] = {0: _TABLES}

# winners before finalists before all others, then the better figure, and of equal ones the smaller hash
ORDER = "CASE m.stage WHEN 'chosen' THEN 0 WHEN 'final' THEN 1 ELSE 2 END, m.figure, m.configuration, m.digest"
_COLUMNS = ", ".join(
    [*(f"k.{n}" for n in KEY), "m.digest", *(f"m.{n}" for n in (*_ROW, *_JSON))]
)  # as `record_of_row` takes them
SELECT = f"SELECT {_COLUMNS} FROM measurements m JOIN keys k ON m.key = k.id"


def version() -> int:
    """The version of the tables that this program writes."""
    return max(MIGRATIONS) + 1


class Foreign(RecordError):
    """The file is a database, or a text, of something else, or of a later version of this program."""


def connect(path: Path | None, readonly: bool = False) -> sqlite3.Connection:
    """A connection to the file (None: to a new one in memory), with the tables of this version.

    Raises sqlite3.Error where that can't be, RecordError `records.foreign` or `records.newer`.
    """
    if path is None:
        return _connect(":memory:", None, False)
    uri = path.absolute().as_uri()
    if not readonly:
        return _connect(uri, path, False)
    try:
        return _connect(f"{uri}?mode=ro", path, True)
    except sqlite3.OperationalError:  # in a folder where nothing can be written: then nobody writes
        return _connect(f"{uri}?immutable=1", path, True)


def _connect(target: str, path: Path | None, readonly: bool) -> sqlite3.Connection:
    db = sqlite3.connect(target, timeout=BUSY, isolation_level=None, check_same_thread=False, uri=path is not None)
    db.text_factory = _text
    try:
        _prepare(db, path, readonly)
    except BaseException:
        db.close()
        raise
    return db


def _text(read: bytes) -> str:
    """A text, if need be a damaged one: then its row's hash tells."""
    return read.decode("utf-8", "replace")


def _prepare(db: sqlite3.Connection, path: Path | None, readonly: bool) -> None:
    db.execute("BEGIN")  # what is read now is of one moment: others may be making the tables
    try:
        found = _state(db)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        db.execute("COMMIT")
    _check_ours(path, *found, tables)
    if found != (APPLICATION, version()):
        if readonly:
            raise sqlite3.OperationalError("the database has tables of an earlier version and can't be written")
        if not tables:
            db.execute(f"PRAGMA page_size = {PAGE}")
            db.execute("PRAGMA journal_mode = WAL")
        _migrate(db)
    db.execute("PRAGMA synchronous = NORMAL")


def _state(db: sqlite3.Connection) -> tuple[int, int]:
    return db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0]


def _check_ours(path: Path | None, application: int, found: int, tables: Collection[str]) -> None:
    ours = {"keys", "measurements"}.issubset(tables)
    if application != APPLICATION and tables and not ours:
        raise Foreign(f"{path} is a database of something else", code="records.foreign", hint="name another file")
    if application == APPLICATION and found > version():
        raise Foreign(
            f"{path} was written by a later version of this program (its tables have version {found}, and this program "
            f"knows {version()})", code="records.newer", hint="update, or name another file: TILEWRIGHT_RECORDS",
        )  # fmt: skip
    if (application == APPLICATION) != ours or (ours and found < 1):
        raise damage("its header and its tables are not of one file")


def _migrate(db: sqlite3.Connection) -> None:
    """Bring the tables to this version, in one transaction: two that start at once do it once."""
    with transaction(db):
        application, found = _state(db)
        for start in range(found if application == APPLICATION else 0, version()):
            for statement in MIGRATIONS[start].split(";"):
                if statement.strip():
                    db.execute(statement)
        db.execute(f"PRAGMA user_version = {version()}")
        db.execute(f"PRAGMA application_id = {APPLICATION}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """What is written inside is written whole or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


# Rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Damaged:
    """A row that does not say what was written: why, and what it seems to be."""

    digest: str
    kernel: str
    why: str


def insert(db: sqlite3.Connection, records: Iterable[Record]) -> int:
    """Write records, all of them or none; those that are there already are left alone. How many were new."""
    new = 0
    with transaction(db):
        for r in records:
            new += _insert(db, r)
    return new


def _insert(db: sqlite3.Connection, r: Record) -> int:
    digest = r.key.digest
    found = db.execute("SELECT id FROM keys WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        marks = ", ".join("?" * (len(KEY) + 1))
        values = (digest, *r.key.as_json().values())
        number = db.execute(f"INSERT INTO keys (digest, {', '.join(KEY)}) VALUES ({marks})", values).lastrowid
    else:
        number = found[0]
    data = r.as_json()
    columns = ("digest", "key", "configuration", *_ROW, *_JSON)
    values = (r.digest, number, r.configuration, *(data[_NAMES.get(n, n)] for n in _ROW),
              *(json.dumps(data[_NAMES.get(n, n)]) for n in _JSON))  # fmt: skip
    made = db.execute(f"INSERT OR IGNORE INTO measurements ({', '.join(columns)}) "
                      f"VALUES ({', '.join('?' * len(columns))})", values)  # fmt: skip
    return made.rowcount


def record_of_row(row: Sequence[object]) -> Record | Damaged:
    """The record of a row of SELECT, if it says what was written."""
    n = len(KEY)
    key, digest, rest = dict(zip(KEY, row[:n], strict=True)), str(row[n]), row[n + 1 :]
    plain, packed = rest[: len(_ROW)], rest[len(_ROW) :]
    try:
        data = {_NAMES.get(c, c): v for c, v in zip(_ROW, plain, strict=True)}
        data |= {_NAMES.get(c, c): json.loads(str(v)) for c, v in zip(_JSON, packed, strict=True)}
        made = record_of(data | {"key": key})
    except (RecordError, ValueError, RecursionError) as e:
        return Damaged(digest, str(key["kernel"]), f"it is damaged: {e.message if isinstance(e, RecordError) else e}")
    if made.digest != digest:
        return Damaged(digest, str(key["kernel"]), "it was changed after it was written")
    return made


def key_of_row(row: Sequence[object]) -> Key | None:
    """The key of a row with its fields; None where one holds what no key has: the records of that are damaged too."""
    try:
        return key_from(dict(zip(KEY, row, strict=True)))
    except RecordError:
        return None


# Damage ---------------------------------------------------------------------------------------------------------


def is_damage(e: sqlite3.Error) -> bool:
    """Whether the error says that the file is not (or no longer) a whole database."""
    code = getattr(e, "sqlite_errorcode", None)
    if "unsupported file format" in str(e):  # a header that no version of SQLite writes, which has no code of its own
        return True
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damage(why: str) -> sqlite3.DatabaseError:
    """The error of a file that is damaged, as SQLite would raise it."""
    e = sqlite3.DatabaseError(why)
    e.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return e


def inspect(db: sqlite3.Connection) -> None:
    """Look through a whole database (3 ms for 1,000 records). Raises what `damage` makes."""
    found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise damage(" ".join(found.split()))


def is_text(path: Path) -> bool:
    """Whether a file that is no database is a text, by its name and its first bytes: then it is somebody's."""
    if path.suffix in ("", ".db", ".sqlite", ".sqlite3"):
        return False
    with open(path, "rb") as file:
        head = file.read(PAGE)
    return bool(head) and b"\0" not in head and len(head) - len(head.decode("utf-8", "ignore").encode()) < 4


def salvage(path: Path) -> Iterator[Record]:
    """What can be read of a damaged file, row by row; it is not changed. A first page that is lost is made up: it holds
    where tables start, which is the same in all files of a version."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        for extra in ("", "-wal"):
            with suppress(OSError):
                shutil.copyfile(f"{path}{extra}", f"{copy}{extra}")
        seen: set[str] = set()
        for repaired in (False, True):
            if repaired:
                _make_up_first_page(copy)
            for r in _readable(copy):
                if r.digest not in seen:
                    seen.add(r.digest)
                    yield r


def _readable(path: Path) -> Iterator[Record]:
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.text_factory = _text
        known = {row[0]: row for row in _each(db, f"SELECT id, {', '.join(KEY)} FROM keys", "keys")}
        columns = f"key, digest, {', '.join((*_ROW, *_JSON))}"
        for _, key, *rest in _each(db, f"SELECT id, {columns} FROM measurements", "measurements"):
            if key in known:
                made = record_of_row((*known[key][1:], *rest))
                if isinstance(made, Record):
                    yield made


def _each(db: sqlite3.Connection, select: str, table: str) -> Iterator[tuple]:
    """The rows of a table one by one, those on damaged pages left out."""
    try:
        last = db.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0
    except sqlite3.Error:
        last = None
    number, missed = 0, 0
    while (number < last) if last is not None else missed < 3_000:
        number, missed = number + 1, missed + 1
        try:
            row = db.execute(f"{select} WHERE id = ?", (number,)).fetchone()
        except sqlite3.Error:
            continue
        if row is not None:
            missed = 0
            yield row


def _make_up_first_page(path: Path) -> None:
    with suppress(OSError, sqlite3.Error), tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "fresh.db"
        connect(fresh).close()
        page = bytearray(fresh.read_bytes()[:PAGE])
        size = os.path.getsize(path) // PAGE
        page[28:40] = size.to_bytes(4, "big") + bytes(8)  # pages of the file, and none of them free
        with open(path, "r+b") as file:
            file.write(page)
            file.truncate(max(size, 1) * PAGE)

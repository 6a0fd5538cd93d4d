"""The records of measurements: a database that several programs write at once, and that nothing stops.

A file that can't be written (full disk, read-only folder, locked for long) is read as far as that goes; what is new is kept
in memory, and written later if that becomes possible. A damaged file is renamed, what can be read of it goes into a new
one. Either is said: in `Records.problems`, and as a RecordsWarning.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tilewright.autotune.errors import RecordsWarning
from tilewright.autotune.records import database
from tilewright.autotune.records.database import ORDER, SELECT, Damaged, is_damage, key_of_row, record_of_row
from tilewright.autotune.records.record import Key, Record
from tilewright.codegen.cache import platform_folder
from tilewright.lang.errors import user_frame

VARIABLE = "TILEWRIGHT_RECORDS"
_T = TypeVar("_T")
_INSPECTED = 1 << 26  # bytes of files that are looked through before they are written to
_PATIENCE = 20  # tries to open a file that others are just making
_FILTERS = ("kernel", "algorithm", "family", "mode", "bucket", "objective", "machine", "threads", "code")


def location() -> Path | None:
    """The database: TILEWRIGHT_RECORDS, else `tilewright/records.db` in the platform's folder of data.

    None where there is no home folder. The file need not exist.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).absolute()
    folder = platform_folder("XDG_DATA_HOME", ".local/share", "Application Support")
    return None if folder is None else folder / "records.db"


class Store:
    """The file, which is made when there is something to write, and what stands in for it. `path` is None where the records
    are in memory only; `problems` says, in order, what was wrong with the file and what became of the records."""

    def __init__(self, path: Path | None):
        self.path = path
        self.problems: list[str] = []
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._disk: sqlite3.Connection | None = None
        self._inspected = False
        self._inode: tuple[int, int] | None = None
        self._spare: sqlite3.Connection | None = None  # rows that are not on disk
        if path is None:
            self._spare = database.connect(None)
        elif path.exists():
            self._guarded(self._connection, None)

    # Connections ----------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        """The file's connection: a new one after a fork, and where the file was replaced by another."""
        assert self.path is not None
        if self._process != os.getpid():
            self._disk, self._process = None, os.getpid()  # not closed: that would take the parent's locks
        if self._disk is not None and self._inode != _inode(self.path):
            self._disk.close()
            self._disk = None
        if self._disk is None:
            self._disk, self._inode, self._inspected = self._open(), _inode(self.path), False
        return self._disk

    def _open(self) -> sqlite3.Connection:
        assert self.path is not None
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in reversed(range(_PATIENCE)):
            try:
                return database.connect(self.path)
            except sqlite3.OperationalError as e:
                if _code(e) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and left:
                    time.sleep(0.05)
                    continue
                if not self.path.exists():
                    raise
                return database.connect(self.path, readonly=True)
        raise AssertionError

    def _guarded(self, action: Callable[[], _T], otherwise: _T) -> _T:
        """The action's result; `otherwise` where the file does not let it. A damaged file is set aside, and the action
        carried out on the new one."""
        for again in (True, False):
            try:
                return action()
            except sqlite3.Error as e:
                if is_damage(e) and again:
                    self._set_aside(str(e))
                    continue
                self._say(f"{self.path} can't be used ({e})")
            except OSError as e:
                self._say(f"{self.path} can't be used ({e.strerror or e})")
            return otherwise
        return otherwise

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            _warn(problem)

    # Damage ---------------------------------------------------------------------------------------------------

    def _set_aside(self, why: str) -> None:
        """Rename the damaged file, and begin a new one with what can be read of it; once, however many notice."""
        assert self.path is not None
        if database.is_text(self.path):
            raise database.Foreign(f"{self.path} is a text and no database", code="records.foreign",
                                   hint="name another file")  # fmt: skip
        if self._disk is not None:
            self._disk.close()
            self._disk = None
        with _locked(self.path):
            if self._whole():
                return  # another program was faster
            aside = _free_name(self.path)
            for extra in ("-shm", "-wal", ""):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}{extra}", f"{aside}{extra}")
            saved = 0
            fresh = database.connect(self.path)
            try:
                saved = database.insert(fresh, database.salvage(aside))
            finally:
                fresh.close()
        self._say(f"{self.path} was damaged ({why}): it is now {aside.name}, and {saved} records that could still be read "
                  "were moved to a new database")  # fmt: skip

    def _whole(self) -> bool:
        assert self.path is not None
        try:
            db = database.connect(self.path)
        except sqlite3.Error:
            return False
        try:
            database.inspect(db)
            return True
        except sqlite3.Error:
            return False
        finally:
            db.close()

    # Writing --------------------------------------------------------------------------------------------------

    def write(self, records: Iterable[Record]) -> int:
        """Keep records; how many were new. What the file does not take is kept in memory."""
        given = [*records]
        with self._lock:
            if self.path is None:
                return database.insert(self._memory(), given)
            waiting = self._waiting()

            def run() -> int:
                db = self._connection()
                if not self._inspected:  # what is written on damaged pages may be lost
                    if os.path.getsize(self.path or "") <= _INSPECTED:
                        database.inspect(db)
                    self._inspected = True
                # who had to wait in vain does not wait so long again
                db.execute(f"PRAGMA busy_timeout = {100 if waiting else int(database.BUSY * 1000)}")
                return database.insert(db, [*waiting, *given])

            done = self._guarded(run, None)
            if done is None:
                kept = database.insert(self._memory(), given)
                self._say(f"new records are kept in memory until {self.path} can be written")
                return kept
            if waiting:
                self._spare = None
                self._say(f"{len(waiting)} records that were kept in memory are now in {self.path}")
            return done - len(waiting) if waiting else done

    def _memory(self) -> sqlite3.Connection:
        if self._spare is None:
            self._spare = database.connect(None)
        return self._spare

    def _waiting(self) -> list[Record]:
        if self.path is None or self._spare is None:
            return []
        return [r for r in map(record_of_row, self._spare.execute(SELECT)) if isinstance(r, Record)]

    def remove(self, digests: Iterable[str]) -> int:
        """Forget records; how many there were. Keys that nothing is left of go too."""
        given = [(d,) for d in digests]

        def run(db: sqlite3.Connection) -> int:
            with database.transaction(db):
                count = db.executemany("DELETE FROM measurements WHERE digest = ?", given).rowcount
                db.execute("DELETE FROM keys WHERE id NOT IN (SELECT key FROM measurements)")
            with suppress(sqlite3.Error):  # the room is given back where nobody else is at it
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return max(count, 0)

        with self._lock:
            gone = run(self._spare) if self._spare is not None else 0
            if self.path is None or not self.path.exists():
                return gone
            return gone + self._guarded(lambda: run(self._connection()), 0)

    # Reading --------------------------------------------------------------------------------------------------

    def query(self, sql: str, values: tuple = ()) -> list[tuple]:
        """The rows of the file, then those that are in memory."""
        with self._lock:
            rows: list[tuple] = []
            if self.path is not None and self.path.exists():
                rows += self._guarded(lambda: self._connection().execute(sql, values).fetchall(), [])
            if self._spare is not None:
                rows += self._spare.execute(sql, values).fetchall()
            return rows

    def select(self, where: str = "", values: tuple = (), most: int | None = None) -> Iterator[Record | Damaged]:
        """The records of a condition on `m` (measurements) and `k` (keys), the better ones first."""
        limit = f" LIMIT {most}" if most is not None else ""
        seen: set[str] = set()
        for row in self.query(f"{SELECT}{' WHERE ' + where if where else ''} ORDER BY {ORDER}{limit}", values):
            made = record_of_row(row)
            if made.digest not in seen:
                seen.add(made.digest)
                yield made

    def filtered(self, filters: Mapping[str, Any], status: str | None) -> Iterator[Record | Damaged]:
        named = {f"k.{n}": v for n, v in filters.items() if v is not None} | ({"m.status": status} if status else {})
        unknown = [n for n in filters if n not in _FILTERS]
        if unknown:
            raise TypeError(f"there is no filter {unknown[0]}: {', '.join(_FILTERS)}")
        return self.select(" AND ".join(f"{n} = ?" for n in named), (*named.values(),))

    def keys(self, where: str, values: tuple) -> list[Key]:
        """The keys of a condition on `k`."""
        names = ", ".join(f"k.{n}" for n in database.KEY)
        rows = self.query(f"SELECT {names} FROM keys k WHERE {where}", values)
        return [*dict.fromkeys(k for row in rows if (k := key_of_row(row)) is not None)]

    def count(self, where: str = "true", values: tuple = ()) -> int:
        """How many records there are of a condition on `m` and `k`."""
        sql = f"SELECT count(*) FROM measurements m JOIN keys k ON m.key = k.id WHERE {where}"
        return sum(row[0] for row in self.query(sql, values))

    def close(self) -> None:
        """Write what still waits, if that can be, and close the file."""
        with self._lock:
            if self._waiting():
                self.write(())
            if self._disk is not None and self._process == os.getpid():
                with suppress(sqlite3.Error):
                    self._disk.close()
            self._disk = None


def _warn(problem: str) -> None:
    """At the user's line, wherever that led to us."""
    frame = user_frame()
    if frame is None:
        warnings.warn(RecordsWarning(problem), stacklevel=3)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(RecordsWarning(problem), RecordsWarning, *place, registry=registry)


def _code(e: sqlite3.Error) -> int:
    return (getattr(e, "sqlite_errorcode", None) or 0) & 0xFF


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _free_name(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    names = (path.with_name(f"{path.name}.damaged-{stamp}{f'-{k}' if k else ''}") for k in range(10_000))
    return next(n for n in names if not n.exists())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One program at a time is inside, where the system has locks of files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(f"{path}.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

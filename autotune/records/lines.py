"""Records as lines of JSON: a first line that says what the file is, then a line for each record.

Equal records give equal files, so that a team may keep one under version control: lines are added and removed, never moved.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tilewright.autotune.errors import RecordError
from tilewright.autotune.records.record import Record, record_of
from tilewright.lang.errors import Location

VERSION = 1
_HEAD = "tilewright records"


@dataclass(frozen=True)
class Merged:
    """What became of records that were merged: how many were new, how many were there, and which lines (by number) are no
    records, and why."""

    new: int
    known: int
    refused: tuple[tuple[int, str], ...] = ()


def lines(records: Iterable[Record]) -> Iterator[str]:
    """The lines of a file, without their ends."""
    yield json.dumps({_HEAD: VERSION})
    for r in records:
        yield r.line()


def written(path: Path, records: Iterable[Record]) -> None:
    """Write a file of records; one that is there is replaced when the new one is whole."""
    with replaced(path) as file:
        file.writelines(f"{line}\n" for line in lines(records))


@contextmanager
def replaced(path: Path) -> Iterator[IO[str]]:
    """A new file that takes the place of `path` once it is written. What is no file (a pipe, say) is written to."""
    if path.exists() and not path.is_file():
        with open(path, "w", encoding="utf-8") as file:
            yield file
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_lines(path: Path) -> tuple[list[Record], tuple[tuple[int, str], ...]]:
    """The records of a file, and the lines that are none: their numbers and what is wrong.

    Raises RecordError `records.file` where it can't be read, `records.lines` where it is no file of records.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise RecordError(f"can't read {path}: {e.strerror}", code="records.file") from None
    except UnicodeDecodeError:
        raise _no_records(path, "it is no UTF-8 text") from None
    head, *rest = text.split("\n")
    try:
        version = json.loads(head)[_HEAD]
    except (ValueError, LookupError, TypeError):
        raise _no_records(path, f"its first line is {head[:60]!r}") from None
    if version != VERSION:
        raise _no_records(path, f"it has version {version}, and this program reads version {VERSION}")
    found: list[Record] = []
    refused: list[tuple[int, str]] = []
    for number, line in enumerate(rest, 2):
        if not line.strip():
            continue
        try:
            found.append(record_of(json.loads(line)))
        except RecordError as e:
            refused.append((number, e.message))
        except (ValueError, RecursionError) as e:
            refused.append((number, f"this is no JSON: {e}"))
    return found, tuple(refused)


def _no_records(path: Path, why: str) -> RecordError:
    return RecordError(f"{path} is no file of records: {why}", code="records.lines", where=Location(str(path), 1),
                       hint="`tilewright records export` writes such files")  # fmt: skip


__all__ = ["VERSION", "Merged", "lines", "read_lines", "replaced", "written"]

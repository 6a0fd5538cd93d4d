"""The records of measurements as the tuner, calls and people use them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tilewright.autotune.errors import RecordError
from tilewright.autotune.records.database import Damaged
from tilewright.autotune.records.lines import Merged, read_lines, written
from tilewright.autotune.records.lookup import Accept, Explanation, Found, Question, answers, explained
from tilewright.autotune.records.pruning import superfluous
from tilewright.autotune.records.record import CACHES, Key, Record, key_of
from tilewright.autotune.records.store import Store, location
from tilewright.lang.pipeline import Pipeline

if TYPE_CHECKING:
    from tilewright.autotune.fingerprint import Fingerprint
    from tilewright.hw import Machine

DEFAULT = ""  # stands for the database that TILEWRIGHT_RECORDS or the platform names


class Records:
    """The records of a database file: of TILEWRIGHT_RECORDS, or of the platform's folder of data, or of `path`; None is
    one in memory. Several programs may use a file at once.

    What is wrong with the file never stops a program: `problems` says what it was, and what became of the records. Raises
    RecordError `records.foreign` for a database of something else, `records.newer` for one of a later version.
    """

    def __init__(self, path: str | Path | None = DEFAULT):
        found = location() if path == DEFAULT else None if path is None else Path(path).absolute()
        self.store = Store(found)

    @property
    def path(self) -> Path | None:
        """The file; None where the records are in memory only."""
        return self.store.path

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong with the file so far, and what became of the records."""
        return tuple(self.store.problems)

    def __enter__(self) -> Records:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    def __len__(self) -> int:
        return self.store.count()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.list())

    # Writing --------------------------------------------------------------------------------------------------

    def add(self, *records: Record) -> int:
        """Keep records, all of them or (where the program is killed) none; how many were new."""
        return self.store.write(records)

    def merge(self, source: Records | str | Path | Iterable[Record]) -> Merged:
        """Take over the records of another database, of a file of lines (see `export`), or from a program. Records that
        are here already stay one: merging twice changes nothing, and the order of merges does not matter.

        Lines that can't be read are left out, and told in the result. Raises RecordError `records.file` where the file
        can't be read, `records.lines` where it is none of records or of a later version.
        """
        refused: tuple[tuple[int, str], ...] = ()
        if isinstance(source, (str, Path)):
            source, refused = read_lines(Path(source))
        given = [*source]
        new = self.add(*given)
        return Merged(new, len(given) - new, refused)

    def prune(
        self, *, best: int | None = None, days: float | None = None, versions: bool = False, failed: bool = False,
        when: str | None = None, dry: bool = False,
    ) -> tuple[Record, ...]:  # fmt: skip
        """Remove records; gives those. best: of each key all but so many of its best schedules, and of each of these all but
        the best measurement. days: what is older than that (counted from `when`, or now). versions: what another
        code generator or other libraries made, where this one has records of the same. failed: what has no figure.
        dry: remove nothing.
        """
        gone = superfluous(self.list(), best, days, versions, failed, when)
        if not dry:
            self.store.remove(r.digest for r in gone)
        return gone

    # Reading --------------------------------------------------------------------------------------------------

    def of(self, key: Key) -> tuple[Record, ...]:
        """All records of a key, the best first, and those that failed last."""
        found = [r for r in self.store.select("k.digest = ?", (key.digest,)) if isinstance(r, Record)]
        return tuple(sorted(found, key=lambda r: not r.ok))

    def best(self, key: Key, cache: str = "hot") -> Record | None:
        """The best record of a key: a winner before finalists before all others, then the better figure."""
        condition = "k.digest = ? AND m.status = 'ok' AND m.cache = ?"
        found = self.store.select(condition, (key.digest, cache))
        return next((r for r in found if isinstance(r, Record)), None)

    def list(self, *, status: str | None = None, **filters: Any) -> tuple[Record, ...]:
        """Records by fields of their keys (kernel, algorithm, family, mode, bucket, objective, machine, threads, code) and
        status, in an order that depends on nothing but what they say."""
        found = (r for r in self.store.filtered(filters, status) if isinstance(r, Record))
        return tuple(sorted(found, key=order))

    def damaged(self) -> tuple[Damaged, ...]:
        """Rows of the file that do not say what was written: they are never used."""
        return tuple(r for r in self.store.select() if isinstance(r, Damaged))

    def get(self, digest: str) -> tuple[Record, ...]:
        """The records whose hash, or the hash of whose schedule, begins so."""
        like = "".join(c for c in digest if c.isalnum()) + "%"
        if like == "%":
            return ()
        found = self.store.select("m.digest LIKE ? OR m.configuration LIKE ?", (like, like))
        return tuple(sorted((r for r in found if isinstance(r, Record)), key=order))

    def export(self, path: str | Path, *, status: str | None = None, **filters: Any) -> int:
        """Write records as lines of JSON, the same file for the same records; how many."""
        found = self.list(status=status, **filters)
        written(Path(path), found)
        return len(found)

    # Answers --------------------------------------------------------------------------------------------------

    def question(
        self, kernel: Any, sizes: Mapping[str, int] | None = None, *, bucket: str = "", mode: str | None = None,
        objective: str = "time", machine: Machine | None = None, fingerprint: Fingerprint | None = None,
        layouts: Mapping[str, str] | None = None, cache: str = "hot", accept: Accept | None = None,
    ) -> Question:  # fmt: skip
        """What `find` and its like are asked. kernel: a kernel or a pipeline. accept: says why a schedule that is legal is
        not wanted (None: it is)."""
        p = kernel if isinstance(kernel, Pipeline) else kernel.pipeline()
        if cache not in CACHES:
            raise RecordError(
                f"there are no records of {cache!r} caches", code="records.cache", hint=" or ".join(CACHES)
            )
        key = key_of(
            p, mode=mode or getattr(kernel, "mode", "contract"), bucket=bucket, objective=objective, machine=machine,
            fingerprint=fingerprint, layouts=layouts,
        )  # fmt: skip
        return Question(p, key, dict(sizes or {}), cache, machine, accept)

    def find(self, kernel: Any, sizes: Mapping[str, int] | None = None, **options: Any) -> Found | None:
        """The record to use for a kernel at some sizes, or for a bucket (`bucket="M=17..24,N=1024"`), with its schedule:
        the nearest one that is legal, which says how it was found. None where there is none. Options as of `question`."""
        return next(self.candidates(kernel, sizes, whole=True, **options), None)

    def candidates(
        self, kernel: Any, sizes: Mapping[str, int] | None = None, *, whole: bool = False, **options: Any
    ) -> Iterator[Found]:
        """All records that could be used, the nearest first and of equally near ones the better: what a search may begin
        with. Each is replayed when it is asked for; what needs the whole schedule is checked with `whole` only."""
        found = answers(self.store, replace(self.question(kernel, sizes, **options), whole=whole))
        return (a for a in found if isinstance(a, Found))

    def explain(
        self, kernel: Any, sizes: Mapping[str, int] | None = None, *, most: int = 10, **options: Any
    ) -> Explanation:
        """Which record `find` gives and why, with at most so many of those that are not used and why not."""
        return explained(self.store, self.question(kernel, sizes, **options), most)


def _natural(text: str) -> tuple:
    """Texts in the order of the numbers in them."""
    return tuple((len(t), t) if t.isdecimal() else (0, t) for t in re.split(r"(\d+)", text))


def order(r: Record) -> tuple:
    """Where a record stands in lists and files."""
    k = r.key
    return (
        k.kernel,
        k.objective,
        _natural(k.bucket),
        k.machine,
        k.threads,
        k.mode,
        k.digest,
        r.configuration,
        r.when,
        r.digest,
    )


__all__ = ["Merged", "Records", "order"]

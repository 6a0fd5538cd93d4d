"""Which records are not worth their room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tilewright.autotune.errors import RecordError
from tilewright.autotune.records.record import STAGES, Key, Record, code_of, now, versions


def superfluous(
    records: Sequence[Record],
    best: int | None,
    days: float | None,
    other_versions: bool,
    failed: bool,
    when: str | None,
) -> tuple[Record, ...]:
    """The records that any of the rules of `Records.prune` names, in the order in which they are given.

    Raises RecordError `records.prune` for rules that make no sense.
    """
    if (best is not None and best < 0) or (days is not None and not 0 <= days < 1e6):
        raise RecordError(f"can't keep {best} schedules" if best is not None and best < 0 else f"can't keep {days} days",
                          code="records.prune", hint="give a number of at least 0")  # fmt: skip
    gone: set[str] = set()
    if failed:
        gone.update(r.digest for r in records if not r.ok)
    if days is not None:
        first = _moment(when or now()) - timedelta(days=days)
        gone.update(r.digest for r in records if _moment(r.when) < first)
    if other_versions:
        gone.update(r.digest for r in _superseded(records))
    if best is not None:
        gone.update(r.digest for r in _beyond(records, best))
    return tuple(r for r in records if r.digest in gone)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=UTC)  # nobody knows: old
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _superseded(records: Iterable[Record]) -> Iterator[Record]:
    """Those of other versions than this program's, whose key it has measured anew."""
    ours = [r for r in records if is_current(r.key)]
    known = {_without_version(r.key) for r in ours if r.ok}
    return (r for r in records if not is_current(r.key) and _without_version(r.key) in known)


def is_current(k: Key) -> bool:
    """Whether a key is of this program's code generator and libraries."""
    return k.code == code_of(k.objective) and (k.objective != "time" or k.versions == versions())


def _without_version(k: Key) -> Key:
    return replace(k, code="", versions="")


def _beyond(records: Iterable[Record], best: int) -> Iterator[Record]:
    """Of each key all but the best measurement of each of its best schedules."""
    of_key: dict[tuple[Key, str], list[Record]] = defaultdict(list)
    for r in records:
        of_key[r.key, r.cache].append(r)
    for mine in of_key.values():
        kept: set[str] = set()
        for r in sorted(mine, key=_rank):
            if not r.ok or r.configuration in kept or len(kept) == best:
                yield r
            else:
                kept.add(r.configuration)


def _rank(r: Record) -> tuple:
    return (not r.ok, -STAGES.index(r.stage), r.figure or 0.0, r.configuration, r.digest)


__all__ = ["is_current", "superfluous"]

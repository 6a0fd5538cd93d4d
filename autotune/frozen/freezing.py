"""Frozen schedules from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.errors import RecordError, TuneError
from tilewright.autotune.frozen.checking import covered
from tilewright.autotune.frozen.file import Entry, Frozen, entry_of, frozen, measured_of
from tilewright.autotune.records.lookup import where
from tilewright.autotune.records.record import Key, code_of, versions
from tilewright.autotune.records.records import Records
from tilewright.lang.pipeline import Pipeline


def freeze(
    records: Records, kernels: Any | Sequence[Any], buckets: Iterable[str] | None = None, with_kernels: bool = True,
    **options: Any,
) -> Frozen:  # fmt: skip
    """The best schedules of records, for one kernel or several.

    buckets: their texts; by default those for which there are records of just this case, but for those that smaller ones
    hold all sizes of (they were split). Where one has none, the nearest
    record that is legal stands in, and the file says so. options: as of `Records.question` (mode, objective, machine,
    fingerprint, layouts, cache, accept). Raises RecordError `records.none` where there is nothing to freeze.
    """
    several = [*kernels] if isinstance(kernels, (list, tuple)) else [kernels]
    entries: list[Entry] = []
    pipelines: list[Pipeline] = []
    remarks: list[str] = []
    for kernel in several:
        question = records.question(kernel, **options)
        p = question.pipeline
        texts = [*buckets] if buckets is not None else _undivided(known_buckets(records, question.key))
        made = [e for e in (_best(records, kernel, t, options) for t in texts) if e is not None]
        if not made:
            hint = "`tilewright records explain` says which there are; `tilewright tune` makes them"
            raise RecordError(f"there are no records of {p.name} to freeze", code="records.none", hint=hint)
        entries += made
        pipelines.append(p)
        remarks = remarks or remarks_of(question.key)
    return frozen(entries, remarks, pipelines if with_kernels else ())


def known_buckets(records: Records, key: Key) -> list[str]:
    """The buckets with records of a case, whatever the key's own one."""
    found = records.store.keys(
        "k.algorithm = ? AND k.mode = ? AND k.objective = ? AND k.fingerprint = ? AND k.layouts = ?",
        (key.algorithm, key.mode, key.objective, key.fingerprint, key.layouts),
    )
    return sorted({k.bucket for k in found})


def _undivided(texts: Sequence[str]) -> list[str]:
    boxes = []
    for t in texts:
        with suppress(TuneError):
            boxes.append(Bucket.read(t))
    return [b.text for b in boxes if not covered(b, boxes)]


def _best(records: Records, kernel: Any, bucket: str, options: dict[str, Any]) -> Entry | None:
    found = records.find(kernel, bucket=bucket, **options)
    if found is None:
        return None
    return entry_of(bucket, found.schedule, measured_of(found.record, "" if found.exact else found.how))


def remarks_of(key: Key) -> list[str]:
    """What a file says of all figures of a case."""
    return case_remarks(key.objective, key.mode, where(key))


def case_remarks(objective: str, mode: str, machine: str) -> list[str]:
    """The same, of a case that was measured by this program."""
    libraries = f"{versions()}, " if objective == "time" else ""
    return [f"{objective} in mode {mode} on {machine}", f"{libraries}code generator {code_of(objective)[:12]}"]


__all__ = ["case_remarks", "freeze", "known_buckets", "remarks_of"]

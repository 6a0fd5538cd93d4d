"""What differs between two frozen files, bucket by bucket."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.autotune.frozen.file import Entry, Frozen, place_of
from tilewright.schedule.text import print_directives


@dataclass(frozen=True, slots=True)
class Difference:
    """One bucket: `status` is added, removed, changed (directives) or measured (figures alone). `lines` are those of the
    directives, with `+`, `-` or a space; figures are texts, with their ratio, new by old, where both are of one unit."""

    kernel: str
    bucket: str
    status: str
    lines: tuple[str, ...]
    old: str = ""
    new: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class Differences:
    """Everything that differs, in the order of kernels and buckets."""

    buckets: tuple[Difference, ...]
    remarks: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not self.buckets and not self.remarks

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"same": self.same}

    def __str__(self) -> str:
        if self.same:
            return "the same schedules and figures"
        out = [*self.remarks]
        for d in self.buckets:
            figures = f"{d.old or 'not measured'} -> {d.new or 'not measured'}" if d.old != d.new else d.new
            ratio = f" (x{d.ratio:.2f})" if d.ratio is not None and d.old != d.new else ""
            out.append(f"{d.kernel} {d.bucket or 'any sizes'}: {d.status}{f', {figures}{ratio}' if figures else ''}")
            out += (f"  {line}" for line in d.lines)
        return "\n".join(out)


def diff(a: Frozen, b: Frozen) -> Differences:
    """What has changed from `a` to `b`."""
    old, new = ({(e.kernel, _bucket(e)): e for e in f.entries} for f in (a, b))
    keys = sorted({*old, *new}, key=lambda k: place_of(new.get(k) or old[k]))
    found = (_difference(old.get(k), new.get(k)) for k in keys)
    remarks = (
        [line for line in difflib.ndiff(a.remarks, b.remarks) if line[:1] in "+-"] if a.remarks != b.remarks else []
    )
    return Differences(tuple(d for d in found if d is not None), tuple(remarks))


def _bucket(e: Entry) -> str:
    return (place_of(e)[1] == 0 and e.box().text) or e.bucket


def _difference(a: Entry | None, b: Entry | None) -> Difference | None:
    one = b or a
    assert one is not None
    before, after = (_directives(e) for e in (a, b))
    lines = tuple(f"{x[0]} {x[2:]}" for x in difflib.ndiff(before, after) if x[0] in "+- ") if before != after else ()
    old, new = (str(e.measured) if e is not None and e.measured else "" for e in (a, b))
    if a is not None and b is not None and not lines and old == new and _head(a) == _head(b):
        return None
    status = "added" if a is None else "removed" if b is None else "changed" if lines else "measured"
    if status == "measured" and old == new:
        status = "for another version"
    if old.partition(";")[0] != new.partition(";")[0]:  # else the rest is what differs
        old, new = old.partition(";")[0], new.partition(";")[0]
    return Difference(one.kernel, one.bucket, status, lines, old, new, _ratio(a, b))


def _directives(e: Entry | None) -> list[str]:
    return [] if e is None else print_directives(e.kernel, e.text.directives).splitlines()[1:]


def _head(e: Entry) -> tuple[str | None, str | None]:
    return e.text.hash, e.text.machine


def _ratio(a: Entry | None, b: Entry | None) -> float | None:
    m, n = a.measured if a else None, b.measured if b else None
    if m is None or n is None or m.unit != n.unit or not m.figure:
        return None
    return n.figure / m.figure


__all__ = ["Difference", "Differences", "diff"]

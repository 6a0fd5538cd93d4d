"""A frozen file for kernels as they are now: schedules that still are legal are written anew, with the current hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilewright.autotune.frozen.checking import legal
from tilewright.autotune.frozen.file import Entry, Frozen, entry_of, frozen
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one entry: `status` is same, upgraded, or kept (it is not legal now, and stands as it was)."""

    kernel: str
    bucket: str
    status: str
    why: str = ""


@dataclass(frozen=True)
class Upgraded:
    """The new contents of a file, and what became of each entry."""

    file: Frozen
    changes: tuple[Change, ...]

    @property
    def ok(self) -> bool:
        """Whether every schedule is legal now."""
        return all(c.status != "kept" for c in self.changes)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "changes": [asdict(c) for c in self.changes]}

    def __str__(self) -> str:
        out = [f"{c.kernel} {c.bucket or 'any sizes'}: {c.why or c.status}" for c in self.changes if c.status != "same"]
        kept, new = (sum(c.status == s for c in self.changes) for s in ("kept", "upgraded"))
        out.append(
            f"{len(self.changes)} schedule{'s' * (len(self.changes) != 1)}: {new} upgraded"
            + (f", {kept} left as they were" if kept else "")
        )
        return "\n".join(out)


def upgrade(file: Frozen, kernels: Mapping[str, Pipeline] | None = None, mode: str = "contract") -> Upgraded:
    """Every schedule that is legal for its kernel as it is now, in the current form and with the current hash; those that
    are not stay as they were, and the result says why. Figures of an earlier version of the algorithm say so.

    kernels: the pipelines by name, where they are not those in the file; of kernels that the file holds they take the
    place.
    """
    known = {p.name: p for p in file.kernels} | dict(kernels or {})
    entries, changes = [], []
    for e in file.entries:
        made, change = _upgraded(e, known.get(e.kernel), mode)
        entries.append(made)
        changes.append(change)
    return Upgraded(frozen(entries, file.remarks, [known[p.name] for p in file.kernels]), tuple(changes))


def _upgraded(e: Entry, p: Pipeline | None, mode: str) -> tuple[Entry, Change]:
    if p is None:
        return e, Change(e.kernel, e.bucket, "kept", f"there is no kernel {e.kernel}")
    try:
        schedule = legal(e, p, mode)
        bucket = e.box().text
    except TilewrightError as problem:
        return e, Change(e.kernel, e.bucket, "kept", f"left as it was: {problem.message} [{problem.code}]")
    measured, old = e.measured, e.text.hash
    if measured is not None and old not in (None, p.digest) and not measured.earlier:
        measured = replace(measured, earlier=str(old))
    made = replace(entry_of(bucket, schedule, measured), remarks=e.remarks)
    made = replace(made, text=replace(made.text, machine=e.text.machine))
    return made, Change(e.kernel, e.bucket, "same" if made.block() == e.block() else "upgraded")


__all__ = ["Change", "Upgraded", "upgrade"]

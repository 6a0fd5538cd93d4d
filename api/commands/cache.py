"""`cache`: where compiled kernels and plans are kept, how many and how large they are, and throwing them away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A compiled kernel (by its name), a `plan` of one, a part of the `runtime`, or that a schedule was `checked`: `kind`
    says which, and is None where the file is damaged. `mode` is the numeric mode of a kernel."""

    key: str
    kind: str | None
    kernel: str | None
    mode: str | None
    bytes: int

    def __str__(self) -> str:
        more = self.mode if self.kind == "kernel" else self.kind
        return f"{self.key[:16]}  {self.bytes:>9,}  {'damaged' if self.kind is None else f'{self.kernel} ({more})'}"


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The cache folder (None: there is no home folder), why it is not used (None: it is), and what is in it."""

    location: str | None
    problem: str | None
    entries: tuple[CacheEntry, ...]

    @property
    def bytes(self) -> int:
        """The size of all entries."""
        return sum(e.bytes for e in self.entries)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"bytes": self.bytes}

    def __str__(self) -> str:
        damaged, plans = sum(e.kind is None for e in self.entries), sum(e.kind == "plan" for e in self.entries)
        inside = [f"{plans} plan{'s' * (plans > 1)}"] if plans else []
        inside += [f"{damaged} damaged: they will be made anew"] if damaged else []
        lines = [
            f"location  {self.location or 'none'}",
            f"entries   {len(self.entries)}" + (f" ({', '.join(inside)})" if inside else ""),
            f"size      {self.bytes:,} bytes",
        ]
        if self.problem:
            lines.append(f"not used  {self.problem}")
        return "\n".join(lines)


def cache() -> CacheReport:
    """The state of the cache of compiled kernels and plans; TILEWRIGHT_CACHE_DIR moves it."""
    from tilewright.codegen import cache as store

    status = store.status()
    entries = tuple(_entry(x.key, x.meta, x.bytes) for x in store.entries())
    return CacheReport(str(status.location) if status.location else None, status.problem, entries)


def _entry(key: str, meta: dict[str, Any] | None, size: int) -> CacheEntry:
    if meta is None:
        return CacheEntry(key, None, None, None, size)
    return CacheEntry(key, meta.get("kind", "kernel"), meta.get("kernel", meta.get("name")), meta.get("mode"), size)


def cache_clear() -> int:
    """Remove all entries; the number of those that there were."""
    from tilewright.codegen import cache as store

    return store.clear()

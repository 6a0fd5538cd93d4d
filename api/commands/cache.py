"""`cache`: where compiled kernels are kept, how many and how large they are, and throwing them away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A compiled kernel: `kernel` is None where the file is damaged."""

    key: str
    kernel: str | None
    mode: str | None
    bytes: int


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
        damaged = sum(e.kernel is None for e in self.entries)
        lines = [
            f"location  {self.location or 'none'}",
            f"entries   {len(self.entries)}" + (f" ({damaged} damaged: they will be made anew)" if damaged else ""),
            f"size      {self.bytes:,} bytes",
        ]
        if self.problem:
            lines.append(f"not used  {self.problem}")
        return "\n".join(lines)


def cache() -> CacheReport:
    """The state of the cache of compiled kernels; TILEWRIGHT_CACHE_DIR moves it."""
    from tilewright.codegen import cache as store

    status = store.status()
    entries = tuple(
        CacheEntry(x.key, x.meta.get("kernel") if x.meta else None, x.meta.get("mode") if x.meta else None, x.bytes)
        for x in store.entries()
    )
    return CacheReport(str(status.location) if status.location else None, status.problem, entries)


def cache_clear() -> int:
    """Remove all entries; the number of those that there were."""
    from tilewright.codegen import cache as store

    return store.clear()

"""What a cache hierarchy counted: for each level and tensor, accesses, hits, misses, and what left the level."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Of one tensor at one level. `reads` and `writes` are accesses; hits and misses are lines (an access that
    straddles two lines has two); `missed` is accesses of which some line was not there; `evictions` are lines that had
    to leave, `write_backs` those of them (or of a flush) that had changed. Main memory has `reads` and `writes` only.
    """

    reads: int = 0
    writes: int = 0
    read_hits: int = 0
    read_misses: int = 0
    write_hits: int = 0
    write_misses: int = 0
    missed: int = 0
    evictions: int = 0
    write_backs: int = 0

    @property
    def hits(self) -> int:
        return self.read_hits + self.write_hits

    @property
    def misses(self) -> int:
        return self.read_misses + self.write_misses

    def __add__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Level:
    """A level by its name, with the counts of every tensor that came there."""

    name: str
    tensors: dict[str, CacheCounts]

    @property
    def total(self) -> CacheCounts:
        return sum(self.tensors.values(), CacheCounts())


class Levels(tuple[Level, ...]):
    """All levels of a hierarchy, from the core outwards, main memory last. `str()` is a table."""

    __slots__ = ()

    def __str__(self) -> str:
        from .render.account_tables import caches_table

        return str(caches_table(self))

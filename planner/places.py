"""Where buffers lie: offsets in one block of memory, such that none overlaps another that lives at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its bytes, and the first and last moment at which it is in use (both included)."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, o: Lifetime) -> bool:
        return self.first <= o.last and o.first <= self.last


@dataclass(frozen=True)
class Places:
    """Offsets by name, the bytes of the whole block, and the least that any assignment takes (what lives at once)."""

    offsets: Mapping[str, int]
    size: int
    bound: int


def lowest(lifetimes: Sequence[Lifetime]) -> int:
    """The most (aligned) bytes in use at one moment: no assignment takes less."""
    change: dict[int, int] = {}
    for x in lifetimes:
        change[x.first] = change.get(x.first, 0) + _aligned(x.size)
        change[x.last + 1] = change.get(x.last + 1, 0) - _aligned(x.size)
    return max(accumulate(change[m] for m in sorted(change)), default=0)


def assign(lifetimes: Sequence[Lifetime]) -> Places:
    """Each buffer in turn at the lowest place where it fits; the best of several turns (large ones first, long ones
    first, early ones first)."""
    keys: list[Callable[[Lifetime], tuple]] = [
        lambda x: (-x.size, x.first),
        lambda x: (-(x.last - x.first + 1) * x.size, x.first),
        lambda x: (x.first, -x.size),
        lambda x: (-x.last, -x.size),
    ]
    tries = [_in_turn(sorted(lifetimes, key=k)) for k in keys]
    offsets, size = min(tries, key=lambda t: t[1])
    return Places(offsets, size, lowest(lifetimes))


def _in_turn(lifetimes: Sequence[Lifetime]) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    placed: list[Lifetime] = []
    size = 0
    for x in lifetimes:
        taken = sorted((offsets[y.name], _aligned(y.size)) for y in placed if y.meets(x))
        at = 0
        for start, n in taken:
            if at + x.size <= start:
                break
            at = max(at, start + n)
        offsets[x.name] = at
        placed.append(x)
        size = max(size, at + _aligned(x.size))
    return offsets, size


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


__all__ = ["ALIGNMENT", "Lifetime", "Places", "assign", "lowest"]

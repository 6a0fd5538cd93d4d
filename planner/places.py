"""Where buffers lie: offsets in one block of memory, such that none overlaps another that lives at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64

_CLOSE = 1.02  # so near to the bound nothing more is tried
_ROUNDS = 12  # orders that are tried with what lies on top placed earlier
_EXACT = 9  # so many blocks, and all orders are looked at
_NODES = 4_000  # places that the exact search looks at


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its bytes, and the first and last moment at which it is in use (both included). What is computed again
    later is in use from then on once `more`."""

    name: str
    size: int
    first: int
    last: int
    more: tuple[tuple[int, int], ...] = ()

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """From when to when it is in use, each time."""
        return ((self.first, self.last), *self.more)

    def meets(self, o: Lifetime) -> bool:
        return any(a <= d and c <= b for a, b in self.spans for c, d in o.spans)


@dataclass(frozen=True)
class Places:
    """Offsets by name, the bytes of the whole block, and the least that any assignment takes (what lives at once)."""

    offsets: Mapping[str, int]
    size: int
    bound: int

    @property
    def fragmentation(self) -> float:
        """The share of the block that the bound has no use for: 0 where no assignment is smaller."""
        return 1 - self.bound / self.size if self.size else 0.0


@dataclass(frozen=True)
class _Block:
    """Buffers at one place, and when one of them is in use."""

    names: tuple[str, ...]
    size: int
    spans: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        return self.spans[0][0]

    @property
    def last(self) -> int:
        return max(b for _, b in self.spans)

    @property
    def length(self) -> int:
        return sum(b - a + 1 for a, b in self.spans)


def lowest(lifetimes: Sequence[Lifetime], over: Mapping[str, str] | None = None) -> int:
    """The most (aligned) bytes in use at one moment: no assignment takes less. `over` as in `assign`."""
    return _bound(_blocks(lifetimes, over or {}))


def assign(lifetimes: Sequence[Lifetime], over: Mapping[str, str] | None = None) -> Places:
    """Each buffer in turn at the lowest place where it fits; the best of several turns (large ones first, long ones
    first, early ones first). Where they leave a gap, what lies on top is placed earlier, and of a few all orders are tried.

    `over` has buffers that lie on another one of the same size, which is in use for the last time when they are made.
    """
    blocks = _blocks(lifetimes, over or {})
    bound = _bound(blocks)
    keys: list[Callable[[_Block], tuple]] = [
        lambda x: (-x.size, x.first),
        lambda x: (-x.length * x.size, x.first),
        lambda x: (x.first, -x.size),
        lambda x: (-x.last, -x.size),
    ]
    best: tuple[int, list[int]] | None = None
    order: list[_Block] = []
    for key in keys:
        tried = sorted(blocks, key=key)
        found = _in_turn(tried)
        if best is None or found[0] < best[0]:
            best, order = found, tried
        if best[0] <= bound:
            break
    assert best is not None
    if best[0] > bound * _CLOSE:
        order, best = _improved(order, best, bound)
    offsets = {n: at for x, at in zip(order, best[1], strict=True) for n in x.names}
    return Places({x.name: offsets[x.name] for x in lifetimes}, best[0], bound)


def _blocks(lifetimes: Sequence[Lifetime], over: Mapping[str, str]) -> list[_Block]:
    """Buffers that share a place as one."""

    def base(n: str) -> str:
        while n in over:
            n = over[n]
        return n

    groups: dict[str, list[Lifetime]] = {}
    for x in lifetimes:
        groups.setdefault(base(x.name), []).append(x)
    return [
        _Block(tuple(x.name for x in g), max(_aligned(x.size) for x in g), tuple(sorted(s for x in g for s in x.spans)))
        for g in groups.values()
    ]


def _bound(blocks: Sequence[_Block]) -> int:
    changes: dict[int, int] = {}
    for x in blocks:
        end = -1
        for a, b in x.spans:  # those of one block may touch: where one buffer is made on another
            a = max(a, end + 1)
            if a <= b:
                changes[a] = changes.get(a, 0) + x.size
                changes[b + 1] = changes.get(b + 1, 0) - x.size
                end = b
    live = most = 0
    for m in sorted(changes):
        live += changes[m]
        most = max(most, live)
    return most


def _in_turn(blocks: Sequence[_Block]) -> tuple[int, list[int]]:
    """Each at the lowest place; the bytes of all and the offsets, in turn."""
    total = sum(len(x.spans) for x in blocks)
    table = np.zeros((4, total), np.int64)  # of what is placed: first, last, start, end
    first, last, start, end = table
    offsets: list[int] = []
    n = size = 0
    for x in blocks:
        met = np.zeros(n, bool)
        for a, b in x.spans:
            met |= (first[:n] <= b) & (last[:n] >= a)
        at = _fit(start[:n][met], end[:n][met], x.size)
        for a, b in x.spans:
            table[:, n] = a, b, at, at + x.size
            n += 1
        offsets.append(at)
        size = max(size, at + x.size)
    return size, offsets


def _fit(start: np.ndarray, end: np.ndarray, size: int) -> int:
    """The lowest place for so many bytes between what is taken."""
    if not start.size:
        return 0
    turn = np.argsort(start, kind="stable")
    taken = np.maximum.accumulate(end[turn])
    free = start[turn] - np.concatenate(([0], taken[:-1]))
    gap = np.flatnonzero(free >= size)
    if not gap.size:
        return int(taken[-1])
    return int(taken[gap[0] - 1]) if gap[0] else 0


def _improved(
    order: list[_Block], best: tuple[int, list[int]], bound: int
) -> tuple[list[_Block], tuple[int, list[int]]]:
    """Try orders in which what lies on top comes earlier; of a few blocks, all orders."""
    if len(order) <= _EXACT:
        return _exact(order, best, bound)
    tried, (size, offsets) = order, best
    for _ in range(_ROUNDS):
        top = [k for k, (x, at) in enumerate(zip(tried, offsets, strict=True)) if at + x.size == size]
        tried = [*(tried[k] for k in top), *(x for k, x in enumerate(tried) if k not in top)]
        size, offsets = _in_turn(tried)
        if size < best[0]:
            order, best = tried, (size, offsets)
        if best[0] <= bound:
            break
    return order, best


def _exact(blocks: list[_Block], best: tuple[int, list[int]], bound: int) -> tuple[list[_Block], tuple[int, list[int]]]:
    """Of all orders the best: by rising offsets of a best assignment each lands where it was, or lower."""
    found, order, left = best, blocks, _NODES
    meets = [[any(a <= d and c <= b for a, b in x.spans for c, d in y.spans) for y in blocks] for x in blocks]

    def go(done: list[int], at: list[int], size: int) -> None:
        nonlocal found, order, left
        if len(done) == len(blocks):
            found, order = (size, list(at)), [blocks[k] for k in done]
            return
        for k, x in enumerate(blocks):
            if k in done or left <= 0 or found[0] <= bound:
                continue
            left -= 1
            taken = [(o, o + blocks[j].size) for j, o in zip(done, at, strict=True) if meets[k][j]]
            place = 0
            for o, e in sorted(taken):
                if place + x.size <= o:
                    break
                place = max(place, e)
            if at and place < at[-1]:
                continue  # the same assignment comes up in another order
            if max(size, place + x.size) < found[0]:
                go([*done, k], [*at, place], max(size, place + x.size))

    go([], [], 0)
    return order, found


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


__all__ = ["ALIGNMENT", "Lifetime", "Places", "assign", "lowest"]

"""What mappings move, by enumeration: every step of the loops in time, every memory, and the words of its tile as a set.

A tile is a box of its tensor (the gaps that a stride leaves in it are a part of it). It is filled where the innermost loop
in time moves on which it depends; what all memories below one want at once is read there once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.published.mappings import AXES, Mapping, depends

Box = tuple[tuple[int, int], ...]  # first and last on each axis
Point = tuple[int, ...]


class Enumerated:
    def __init__(self, m: Mapping, tensor: str):
        self.m, self.tensor = m, tensor
        self.loops = list(m.loops())

    def places(self, low: int, high: int, space: bool) -> Iterator[dict[int, int]]:
        """Values of the loops in time or in space of some levels, in their order."""
        mine = [i for i, (k, _, _, s) in enumerate(self.loops) if low <= k < high and s == space]
        for x in product(*(range(self.loops[i][2]) for i in mine)):
            yield dict(zip(mine, x, strict=True))

    def box(self, fixed: dict[int, int]) -> Box:
        """What is used of the tensor where some loops stand and the others run."""
        ends = []
        for at in (0, 1):
            index = dict.fromkeys("nkcrspq", 0)
            for i, (_, d, n, _) in enumerate(self.loops):
                index[d] = index[d] * n + fixed.get(i, at * (n - 1))
            ends.append([
                sum(self.m.coefficient(self.tensor, a, d) * index[d] for d in axis)
                for a, axis in enumerate(AXES[self.tensor])
            ])  # fmt: skip
        return tuple(zip(*ends, strict=True))

    def visits(self, level: int) -> Iterator[tuple[dict[int, int], bool]]:
        """Where tiles of a level change: the loops in time, and whether a tile of sums is there for the first time."""
        seen = set()
        outer = [i for i, (k, _, _, space) in enumerate(self.loops) if k < level and not space]
        last = max((i for i in outer if depends(self.tensor, self.loops[i][1])), default=-1)
        for now in self.places(0, level, False):
            if all(x == 0 for i, x in now.items() if i > last):
                mine = tuple(x for i, x in now.items() if depends(self.tensor, self.loops[i][1]))
                yield now, mine not in seen
                seen.add(mine)

    def moved(self, level: int, parent: int) -> tuple[int, int, int, int]:
        """Words of all tiles of a level, and of those there before; what the memories of the parent have of both."""
        counts = [0, 0, 0, 0]
        for now, first in self.visits(level):
            for above in self.places(0, parent, True):
                union: set[Point] = set()
                for below in self.places(parent, level, True):
                    points = list(product(*(range(a, b + 1) for a, b in self.box({**now, **above, **below}))))
                    union |= set(points)
                    counts[0] += len(points)
                    counts[1] += 0 if first else len(points)
                counts[2] += len(union)
                counts[3] += 0 if first else len(union)
        return counts[0], counts[1], counts[2], counts[3]

    def used(self, level: int) -> tuple[int, int, int, int]:
        """The same where a level feeds the multiplications: nothing is filled, and a sum's first touch is none."""
        wanted, first = 0, 0
        everything = len(self.m.levels)
        for above in self.places(0, level, True):
            for now in self.places(0, everything, False):
                wanted += len({self.box({**now, **above, **below}) for below in self.places(level, everything, True)})
            for now, new in self.visits(level):
                if new:
                    first += len(list(product(*(range(a, b + 1) for a, b in self.box({**now, **above})))))
        return 0, 0, wanted, wanted - first


def enumerated(m: Mapping) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Words read by what is further in, filled, updated: by memory and tensor, for all elements together."""
    assert not m.slides
    out: dict[str, dict[str, tuple[int, int, int]]] = {x.memory: {} for x in m.levels}
    for tensor in "WIO":
        e = Enumerated(m, tensor)
        kept = [k for k, x in enumerate(m.levels) if k == 0 or tensor in x.keeps]
        fills = 0
        for level, inner in zip(kept, [*kept[1:], len(m.levels)], strict=True):
            filled, again, read, reread = e.moved(inner, level) if inner < len(m.levels) else e.used(level)
            out[m.levels[level].memory][tensor] = (reread, fills, read) if tensor == "O" else (read, fills, 0)
            fills = again if tensor == "O" else filled
    return out

"""A cache hierarchy as plainly as it can be written: lists of lines, one after the other. The oracle of the fast one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tilewright.hw import Cache


@dataclass
class Line:
    number: int
    dirty: bool
    tensor: int


@dataclass
class NaiveLevel:
    """Sets as lists, youngest line first; with a tree of bits, as slots that may be empty."""

    cache: Cache
    below: NaiveLevel | None
    above: list[NaiveLevel] = field(default_factory=list)
    sets: dict[int, list] = field(default_factory=dict)
    trees: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)

    def lines(self, number: int) -> list:
        empty = [None] * self.cache.ways if self.cache.replacement == "plru" else []
        return self.sets.setdefault(number % self.cache.sets, empty)

    def find(self, number: int) -> Line | None:
        return next((x for x in self.lines(number) if x is not None and x.number == number), None)

    def remove(self, line: Line) -> None:
        lines = self.lines(line.number)
        if self.cache.replacement == "plru":
            lines[lines.index(line)] = None
        else:
            lines.remove(line)

    def use(self, line: Line) -> None:
        lines = self.lines(line.number)
        if self.cache.replacement == "lru":
            lines.remove(line)
            lines.insert(0, line)
        elif self.cache.replacement == "plru":
            self.point_away(line.number % self.cache.sets, lines.index(line))

    def point_away(self, group: int, way: int) -> None:
        low, high, tree = 0, self.cache.ways, self.trees.setdefault(group, {})
        while high - low > 1:
            middle = (low + high) // 2
            tree[low, high] = 1 if way < middle else 0
            low, high = (low, middle) if way < middle else (middle, high)

    def pointed_at(self, group: int) -> int:
        low, high, tree = 0, self.cache.ways, self.trees.setdefault(group, {})
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if tree.get((low, high), 0) else (low, middle)
        return low

    def insert(self, line: Line) -> None:
        lines = self.lines(line.number)
        if self.cache.replacement == "plru":
            way = lines.index(None) if None in lines else self.pointed_at(line.number % self.cache.sets)
            old, lines[way] = lines[way], line
            self.use(line)
        else:
            lines.insert(0, line)
            old = lines.pop() if len(lines) > self.cache.ways else None
        if old is not None:
            self.give_up(old)

    def give_up(self, old: Line) -> None:
        self.counts[old.tensor, "evictions"] += 1
        if self.cache.inclusion == "inclusive":
            for level in self.above:
                for part in range(old.number * self.cache.line, (old.number + 1) * self.cache.line, level.cache.line):
                    held = level.find(part // level.cache.line)
                    if held is not None:
                        old.dirty |= held.dirty
                        level.remove(held)
        self.counts[old.tensor, "write_backs"] += old.dirty
        victims = self.below is not None and self.below.cache is not None and self.below.cache.inclusion == "exclusive"
        if victims or old.dirty:
            kind = "write" if not victims else "dirty victim" if old.dirty else "clean victim"
            self.pass_on(old.number * self.cache.line, self.cache.line, kind, old.tensor)

    def pass_on(self, address: int, size: int, kind: str, tensor: int) -> bool:
        assert self.below is not None
        return self.below.access(address, size, kind, tensor)

    def access(self, address: int, size: int, kind: str, tensor: int) -> bool:
        """Whether what was read had changes that nobody below knows of."""
        c, what = self.cache, "read" if kind == "read" else "write"
        self.counts[tensor, what + "s"] += 1
        if c is None:
            return False
        missed = moved = False
        for number in range(address // c.line, (address + size - 1) // c.line + 1):
            start, stop = max(address, number * c.line), min(address + size, (number + 1) * c.line)
            line = self.find(number)
            if line is not None:
                self.counts[tensor, what + "_hits"] += 1
                if kind == "read" and c.inclusion == "exclusive":
                    moved |= line.dirty
                    self.remove(line)
                    continue
                if kind in ("write", "dirty victim"):
                    if c.write == "back":
                        line.dirty = True
                    else:
                        self.pass_on(start, stop - start, "write", tensor)
                if kind == "read" or c.store_touches_lru:
                    self.use(line)
                continue
            missed = True
            self.counts[tensor, what + "_misses"] += 1
            if c.inclusion == "exclusive" and kind == "read":
                moved |= self.pass_on(number * c.line, c.line, "read", tensor)
                continue
            if c.inclusion != "exclusive" and kind == "write" and not c.write_allocate:
                self.pass_on(start, stop - start, "write", tensor)
                continue
            dirty = kind in ("read", "write") and self.pass_on(number * c.line, c.line, "read", tensor)
            if kind in ("write", "dirty victim"):
                if c.write == "back":
                    dirty = True
                else:
                    self.pass_on(start, stop - start, "write", tensor)
            self.insert(Line(number, dirty, tensor))
        self.counts[tensor, "missed"] += missed
        return moved

    def flush(self) -> None:
        groups = self.cache.sets
        for group in range(groups):
            for line in self.sets.get(group, []):
                if line is not None and line.dirty:
                    line.dirty = False
                    self.counts[line.tensor, "write_backs"] += 1
                    self.pass_on(line.number * self.cache.line, self.cache.line, "write", line.tensor)


def naive(caches: list[Cache]) -> list[NaiveLevel]:
    """The levels from the core outwards, main memory last."""
    levels = [NaiveLevel(None, None)]  # type: ignore[arg-type]
    for c in reversed(caches):
        levels.insert(0, NaiveLevel(c, levels[0]))
    for k, level in enumerate(levels):
        level.above = levels[:k]
    return levels

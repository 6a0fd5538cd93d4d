"""Misses of a tree of loops in one cache: working sets against capacity, from the innermost loops outwards.

What one iteration misses, every iteration misses, except for lines that it shares with the one before, if what is touched
in between leaves them where they are: between the last use of a tensor's lines in one iteration and their first use in
the next lie the parts behind and before it, and the innermost loop around it along which it moves, once as a whole. A
line stays if no more lines of all of that fall onto its set than there are ways. In the same way lines are shared by
parts that follow each other. All sets of lines are those of the middle iteration of the loops around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tilewright.codegen.cache_estimate.lines import NONE, Lines, lattice, union
from tilewright.codegen.cache_estimate.tree import Access, Branch, Loop, Part, accesses
from tilewright.lang.evaluate import evaluate
from tilewright.lang.ir import Node, variables

Loops = tuple[Loop, ...]

_MOMENTS = 8  # iterations in which it is looked at what meets on a set
_GRID = 1 << 12  # points at which indices that are not linear are evaluated


@dataclass
class Footprints:
    """The lines that parts of a tree touch, by tensor; remembered for caches with lines of one size."""

    root: Branch
    line: int
    middles: dict[Access, dict[Node, np.ndarray]] = field(default_factory=dict)
    terms: dict[tuple, np.ndarray] = field(default_factory=dict)
    found: dict[Part, dict[str, Lines]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for a, around in accesses(self.root):
            self.middles[a] = {loop.var: np.asarray(loop.middle) for loop in around}

    def of(self, part: Part) -> Mapping[str, Lines]:
        """By tensor, in the middle iteration of the loops around `part`."""
        if part not in self.found:
            parts: dict[str, list[Lines]] = {}
            done = set()
            for a, inside in accesses(part):
                key = (a.tensor, a.start, tuple(a.steps.items()), a.terms, a.axes, inside)
                if key not in done:
                    done.add(key)
                    parts.setdefault(a.tensor, []).append(self._access(a, inside))
            self.found[part] = {t: union(x) for t, x in parts.items()}
        return self.found[part]

    def _access(self, a: Access, inside: tuple[Loop, ...]) -> Lines:
        middles = self.middles[a]
        if a.data:
            return self._anywhere(a, inside)
        within = {loop.var: loop.trips for loop in inside}
        start = a.start + sum(step * int(middles[v]) for v, step in a.steps.items() if v not in within)
        moving = {v for _, n in a.terms for v in variables(n) if v in within}
        axes = [(step, within[v]) for v, step in a.steps.items() if v in within and v not in moving]
        starts = np.array([start], np.int64)
        if a.terms:
            starts = start + self._terms(a, {v: within[v] for v in moving})
        return lattice(starts, [*axes, *a.axes], a.size, self.line)

    def _terms(self, a: Access, moving: Mapping[Node, int]) -> np.ndarray:
        """What indices that are not linear add up to at the points of the loops inside, with what these loops add."""
        most = max(2, int(_GRID ** (1 / max(1, len(moving)))))
        env = dict(self.middles[a])
        total = np.zeros((), np.int64)
        for k, (v, n) in enumerate(moving.items()):
            points = np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(np.int64))
            env[v] = points.reshape([-1 if i == k else 1 for i in range(len(moving))])
            total = total + env[v] * a.steps.get(v, 0)
        for factor, n in a.terms:
            total = total + self._term(n, env) * factor
        return np.unique(total)

    def _term(self, n: Node, env: Mapping[Node, np.ndarray]) -> np.ndarray:
        """An index at some points; accesses beside each other have the same ones."""
        key = (n, *((v, env[v].shape, env[v].tobytes()) for v in variables(n)))
        if key not in self.terms:
            self.terms[key] = evaluate([n], env)[0]
        return self.terms[key]

    def _anywhere(self, a: Access, inside: tuple[Loop, ...]) -> Lines:
        """As many lines as so many accesses at random places touch, spread evenly."""
        most = max(1, -(-a.span // self.line))
        n = float(np.prod([float(loop.trips) for loop in inside]))
        count = max(1, round(most * -np.expm1(n * np.log1p(-1 / most)))) if most > 1 else 1
        first = a.start // self.line
        at = first + (np.arange(min(count, _GRID)) * most // min(count, _GRID))
        return Lines(at, at + max(1, count // len(at)) - 1)


@dataclass
class Misses:
    """Of one tensor: lines that are missed by reads and by writes."""

    read: float = 0.0
    write: float = 0.0

    @property
    def total(self) -> float:
        return self.read + self.write

    def scaled(self, by: float) -> Misses:
        return Misses(self.read * by, self.write * by)

    def __add__(self, other: Misses) -> Misses:
        return Misses(self.read + other.read, self.write + other.write)


@dataclass(frozen=True)
class Taken:
    """What lies on every set of a cache at some moments, and by how many sets each tensor has moved there."""

    lines: tuple[np.ndarray, ...]
    moved: Mapping[str, np.ndarray]


@dataclass
class Model:
    """One cache: `sets` of `ways` lines."""

    footprints: Footprints
    sets: int
    ways: int
    kept: dict[tuple[frozenset[Part], Loops], Taken] = field(default_factory=dict)

    def misses(self, part: Part, around: Loops = ()) -> dict[str, Misses]:
        """By tensor, where nothing of the part is in the cache before; `around` are the loops around it."""
        if isinstance(part, Access):
            n = part.share * self.footprints.of(part)[part.tensor].count
            return {part.tensor: Misses(0, n) if part.write else Misses(n, 0)}
        return self._loop(part, (*around, part)) if isinstance(part, Loop) else self._branch(part, around)

    def _loop(self, loop: Loop, around: Loops) -> dict[str, Misses]:
        once, one, all_ = self.misses(loop.body, around), self.footprints.of(loop.body), self.footprints.of(loop)
        if loop.trips == 1:
            return once
        out = {}
        for tensor, m in once.items():
            each = one[tensor].count
            shared = max(0, loop.trips * each - all_[tensor].count)
            between = (*self._after(loop.body, tensor), *self._before(loop.body, tensor))
            stay = self._staying(one[tensor], between, tensor, around)
            out[tensor] = _less(m.scaled(loop.trips), stay * shared * min(1.0, m.total / max(1, each)))
        return out

    def _branch(self, branch: Branch, around: Loops) -> dict[str, Misses]:
        out: dict[str, Misses] = {}
        for k, part in enumerate(branch.parts):
            for tensor, m in self.misses(part, around).items():
                found = self._found_before(branch, k, tensor, m, around)
                out[tensor] = out.get(tensor, Misses()) + _less(m, found)
        return out

    def _found_before(self, branch: Branch, k: int, tensor: str, m: Misses, around: Loops) -> float:
        """How many lines of part k are there from the parts before it."""
        mine, saved = self.footprints.of(branch.parts[k])[tensor], 0.0
        seen, known = NONE, 0
        for j in range(k - 1, -1, -1):
            theirs = self.footprints.of(branch.parts[j]).get(tensor)
            if theirs is None:
                continue
            seen = union([seen, theirs])
            common = mine & seen
            if common.count > known:
                between = (
                    *self._after(branch.parts[j], tensor), *branch.parts[j + 1 : k],
                    *self._before(branch.parts[k], tensor),
                )  # fmt: skip
                saved += (common.count - known) * self._staying(mine & theirs, between, tensor, around)
                known = common.count
            if known == mine.count:
                break
        return saved * min(1.0, m.total / max(1, mine.count))

    def _staying(self, lines: Lines, between: tuple[Part, ...], tensor: str, around: Loops) -> float:
        """The part of a tensor's lines that is still there after other parts."""
        key = (frozenset(between), around)
        if key not in self.kept:
            self.kept[key] = self._taken(between, around)
        taken = self.kept[key]
        most = self.ways if any(tensor in self.footprints.of(p) for p in between) else self.ways - 1
        moved = taken.moved.get(tensor)
        if moved is None:
            some = len(taken.lines) > 1  # moments
            moved = self._moved(around[-1], tensor, around) % self.sets if some else np.zeros(1, np.int64)
        there = [lines.where(np.roll(x <= most, -by)) for x, by in zip(taken.lines, moved.tolist(), strict=True)]
        return sum(there) / (len(there) * max(1, lines.count))

    def _taken(self, between: tuple[Part, ...], around: Loops) -> Taken:
        """Loops around move the tensors against each other, so what meets on a set is looked at in several of their
        iterations, where it matters."""
        of = self.footprints.of
        parts: dict[str, list[Lines]] = {}
        for p in between:
            for t, lines in of(p).items():
                parts.setdefault(t, []).append(lines)
        touched = {t: union(x) for t, x in parts.items()}
        if sum(x.count for x in touched.values()) < self.ways:
            return Taken((np.zeros(1, np.int64),), {})  # no set has too many
        each = {t: x.on_sets(self.sets) for t, x in touched.items()}
        once = np.sum(list(each.values()), axis=0)
        if not around or sum(int(x.max()) for x in each.values()) < self.ways or once.min() > self.ways:
            return Taken((once,), {})
        moved = {t: self._moved(next(p for p in between if t in of(p)), t, around) % self.sets for t in each}
        lines = tuple(np.sum([np.roll(each[t], int(moved[t][k])) for t in each], axis=0) for k in range(_MOMENTS))
        return Taken(lines, moved)

    def _moved(self, part: Part, tensor: str, around: Loops) -> np.ndarray:
        """By how many lines a tensor is elsewhere in some iterations of the loops around than in the middle ones."""
        a = next(a for a, _ in accesses(part) if a.tensor == tensor)
        total = np.zeros(_MOMENTS)
        for k, loop in enumerate(around):
            at = np.random.default_rng(k).permutation(_MOMENTS) * max(0, loop.trips - 1) // (_MOMENTS - 1)
            total += a.steps.get(loop.var, 0) * (at - loop.middle)
        return np.floor(total / self.footprints.line + 0.5).astype(np.int64)

    def _after(self, part: Part, tensor: str) -> tuple[Part, ...]:
        """What is touched between the last use of a line and the end of the part."""
        if isinstance(part, Access):
            return ()
        if isinstance(part, Loop):
            return (part,) if self._moves(part, tensor) else self._after(part.body, tensor)
        first, last = self._users(part, tensor)
        if self._scattered(part, tensor, last):
            return part.parts[first:]
        return (*self._after(part.parts[last], tensor), *part.parts[last + 1 :])

    def _before(self, part: Part, tensor: str) -> tuple[Part, ...]:
        """What is touched between the begin of the part and the first use of a line."""
        if isinstance(part, Access):
            return ()
        if isinstance(part, Loop):
            return (part,) if self._moves(part, tensor) else self._before(part.body, tensor)
        first, last = self._users(part, tensor)
        if self._scattered(part, tensor, first):
            return part.parts[: last + 1]
        return (*part.parts[:first], *self._before(part.parts[first], tensor))

    def _users(self, branch: Branch, tensor: str) -> tuple[int, int]:
        users = [k for k, p in enumerate(branch.parts) if tensor in self.footprints.of(p)]
        return users[0], users[-1]

    def _scattered(self, branch: Branch, tensor: str, k: int) -> bool:
        """Whether other parts use lines of the tensor that part k does not."""
        of = self.footprints.of
        return of(branch)[tensor].count > of(branch.parts[k])[tensor].count

    def _moves(self, loop: Loop, tensor: str) -> bool:
        of = self.footprints.of
        return of(loop)[tensor].count > of(loop.body)[tensor].count


def _less(m: Misses, saved: float) -> Misses:
    """Fewer misses, of both kinds alike."""
    return m.scaled(max(0.0, 1 - saved / m.total)) if m.total else m

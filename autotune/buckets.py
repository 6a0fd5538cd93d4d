"""Shape buckets: boxes of sizes that share a schedule, chosen such that the best schedule changes little inside.

    Buckets.of(p, {"M": (1, 4096), "N": 1024, "K": 1024})       M=1, M=2, ..., M=16, M=17..24, M=25..32, M=33..48, ...

A bucket is advice, not meaning: exact extents drive the bounds of a kernel, a bucket only chooses its schedule. So there is
always one that applies: sizes that lie in no bucket get the nearest one, and whoever asks is told.

A range is cut at points: by default every size up to 16, then the powers of two with the middles between them. A bucket ends
at its point (what is between two points is rounded up), which represents it: it is the size that is tuned for. Of several
axes there are all combinations, with coarser points where these would be more than MOST. Points may be declared
(`points={"M": [1, 8, 64]}`), and traffic (`weights`: how often sizes are called): of a bucket that is called the size with
the most calls stands for it, and its weight is its share of all calls.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tilewright.autotune.errors import TuneError
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import user_location
from tilewright.lang.pipeline import Pipeline

EXACT = 16  # sizes up to here have buckets of their own
MOST = 64  # buckets in all
ANY = 1 << 62  # no size is larger
Sizes = Mapping[str, int]
Weights = Mapping[str, Mapping[int, float]] | Iterable[tuple[Sizes, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """The sizes of one symbol in a bucket: low..high, both included (0..ANY: whatever it is)."""

    name: str
    low: int
    high: int

    def __contains__(self, size: int) -> bool:
        return self.low <= size <= self.high

    def __str__(self) -> str:
        return f"{self.name}={self.low}" if self.low == self.high else f"{self.name}={self.low}..{self.high}"

    def nearest(self, size: int) -> int:
        """The size of the range that is nearest to another one."""
        return min(max(size, self.low), self.high)

    def gap(self, size: int) -> float:
        """How far a size lies outside: the logarithm of its ratio to the nearest end, to the base 2."""
        return abs(_log(size) - _log(self.nearest(size)))

    @property
    def open(self) -> bool:
        """Whether it has all sizes: texts do not name it."""
        return self.low == 0 and self.high == ANY

    @property
    def middle(self) -> int:
        """The geometric middle, rounded."""
        return self.nearest(round(math.sqrt(max(self.low, 1) * self.high)))


@dataclass(frozen=True, slots=True)
class Bucket:
    """A box of sizes. `at` are the sizes that stand for it, axis by axis; `weight` is its share of the calls."""

    ranges: tuple[Axis, ...]
    at: tuple[int, ...]
    weight: float = 1.0

    @property
    def point(self) -> dict[str, int]:
        """The sizes that stand for it, by name: those that it is tuned at."""
        return {r.name: n for r, n in zip(self.ranges, self.at, strict=True) if not r.open}

    @property
    def text(self) -> str:
        """As records and files have it: "M=17..24,N=1024"; "" where there are no sizes."""
        return ",".join(str(r) for r in self.ranges if not r.open)

    def __str__(self) -> str:
        return self.text or "any call"

    def __contains__(self, sizes: Sizes) -> bool:
        return all(r.name in sizes and sizes[r.name] in r for r in self.ranges)

    @property
    def volume(self) -> int:
        """How many sizes are in it."""
        return math.prod(r.high - r.low + 1 for r in self.ranges)

    def distance(self, sizes: Sizes) -> float:
        """How far sizes lie outside: the sum of the gaps along its axes; 0 inside."""
        return sum(r.gap(sizes[r.name]) for r in self.ranges if r.name in sizes)

    def over(self, names: Sequence[str]) -> Bucket:
        """The same with axes in the order of these names, open where it has none."""
        has = {r.name: (r, n) for r, n in zip(self.ranges, self.at, strict=True)}
        axes = [has.get(n, (Axis(n, 0, ANY), 1)) for n in names]
        return replace(self, ranges=tuple(r for r, _ in axes), at=tuple(n for _, n in axes))

    def samples(self) -> tuple[dict[str, int], ...]:
        """Sizes to look at besides its point: the lowest ones, the middle ones and the highest ones, each once."""
        corners = ([r.low for r in self.ranges], [r.middle for r in self.ranges], [r.high for r in self.ranges])
        found = dict.fromkeys(tuple(c) for c in corners)
        return tuple({r.name: n for r, n in zip(self.ranges, c, strict=True)} for c in found if c != self.at)

    @staticmethod
    def read(text: str) -> Bucket:
        """The bucket that a text says; its highest sizes stand for it. Raises TuneError `tune.bucket`."""
        axes = []
        for part in filter(None, (t.strip() for t in text.split(","))):
            m = re.fullmatch(r"(\w+)\s*=\s*(\d{1,19})(?:\s*\.\.\s*(\d{1,19}))?", part)
            if m is None or int(m[3] or m[2]) < int(m[2]) or m[1] in (a.name for a in axes):
                raise TuneError(
                    f"{text!r} is no bucket", code="tune.bucket", where=user_location(),
                    hint='a size or a range for each name: "M=17..24,N=1024"',
                )  # fmt: skip
            axes.append(Axis(m[1], int(m[2]), int(m[3] or m[2])))
        return Bucket(tuple(axes), tuple(a.high for a in axes))


def _log(size: int) -> float:
    return math.log2(size if size > 0 else 0.5)


class Buckets:
    """Buckets in the order of their sizes. Where they overlap (those of several records may) the smaller one counts.
    `coarser` says where axes have fewer points than asked."""

    def __init__(self, buckets: Iterable[Bucket], coarser: str = ""):
        self.all: tuple[Bucket, ...] = tuple(sorted(buckets, key=lambda b: tuple((r.low, r.high) for r in b.ranges)))
        self.coarser = coarser
        names = [tuple(r.name for r in b.ranges) for b in self.all]
        if not self.all or len(set(names)) != 1:
            raise TuneError(
                "buckets are boxes over the same sizes, and there is at least one" if self.all else "there is no bucket",
                code="tune.bucket", where=user_location(), hint='such as "M=1..16,N=1024" and "M=17..64,N=1024"',
            )  # fmt: skip
        self.names: tuple[str, ...] = names[0]
        if len({b.ranges for b in self.all}) != len(self.all):
            raise TuneError("a bucket is there twice", code="tune.bucket", where=user_location(),
                            hint="it has one schedule")  # fmt: skip

    @classmethod
    def of(
        cls, p: Pipeline, sizes: Mapping[str, Any], points: Mapping[str, Sequence[int]] | None = None,
        weights: Weights | None = None, most: int = MOST,
    ) -> Buckets:  # fmt: skip
        """The buckets of ranges of sizes: `{"M": (1, 4096), "N": 1024}`, all sizes of the pipeline.

        `points` declares where ranges are cut, by name: a bucket ends at its point, and the last one at the end of the
        range. `weights` says how often sizes are called: by name (`{"M": {1: 90, 37: 10}}`; axes are independent), or as
        pairs of sizes and a weight. Raises ArgumentError as a call with such sizes does, and TuneError `tune.sizes`,
        `tune.points` or `tune.weights` for what is no range, no points or no weights.
        """
        axes = read_sizes(p, sizes)
        declared = {n: _declared(p, axes, n, given) for n, given in _mapping(p, "points", points).items()}
        parts, coarser = _parts(axes, declared, most)
        boxes = itertools.product(*parts)
        found = cls([Bucket(tuple(r for r, _ in box), tuple(n for _, n in box)) for box in boxes], coarser)
        return found if weights is None else found.weighted(p, axes, weights)

    @classmethod
    def read(cls, texts: Iterable[str]) -> Buckets:
        """The buckets that texts say."""
        return cls(map(Bucket.read, texts))

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, text: str) -> Bucket:
        """A bucket by its text. Raises TuneError `tune.bucket` where there is no such one."""
        wanted = {(r.name, r.low, r.high) for r in Bucket.read(text).ranges}
        for b in self.all:
            if {(r.name, r.low, r.high) for r in b.ranges} == wanted:
                return b
        raise TuneError(f"there is no bucket {text}", code="tune.bucket", where=user_location(),
                        hint=f"the first of {len(self)} is {self.all[0]}")  # fmt: skip

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The sizes that tell buckets apart."""
        return tuple(n for k, n in enumerate(self.names) if len({b.ranges[k] for b in self.all}) > 1)

    def find(self, sizes: Sizes) -> tuple[Bucket, bool]:
        """The bucket for some sizes, and whether they lie in it: else it is the nearest one, by ratios of sizes; of
        several that are as near the smallest, or the one with larger sizes. Sizes that are not given count as inside."""
        best = min(self.all, key=lambda b: (b.distance(sizes), b.volume, [-r.high for r in b.ranges]))
        return best, all(n not in sizes or sizes[n] in r for n, r in zip(self.names, best.ranges, strict=True))

    def split(self, bucket: Bucket) -> Buckets:
        """The buckets in which one is cut in two, across its longest axis (by ratio) at the geometric middle. Both halves
        are as they are by default: their highest sizes stand for them, or the point of the whole where it lies in one.

        Raises TuneError `tune.bucket` for one that has a single size or is none of these.
        """
        if bucket not in self.all or all(r.low == r.high for r in bucket.ranges):
            raise TuneError(
                f"the bucket {bucket} can't be split", code="tune.bucket", where=user_location(),
                hint="one of these buckets that has several sizes",
            )  # fmt: skip
        k = max(range(len(bucket.ranges)), key=lambda k: _log(bucket.ranges[k].high) - _log(bucket.ranges[k].low))
        r = bucket.ranges[k]
        cut = min(r.middle, r.high - 1)
        halves = []
        for part in (Axis(r.name, r.low, cut), Axis(r.name, cut + 1, r.high)):
            at = (*bucket.at[:k], bucket.at[k] if bucket.at[k] in part else part.high, *bucket.at[k + 1 :])
            halves.append(Bucket((*bucket.ranges[:k], part, *bucket.ranges[k + 1 :]), at, bucket.weight / 2))
        return Buckets([*(b for b in self.all if b is not bucket), *halves], self.coarser)

    def weighted(self, p: Pipeline, axes: Sequence[Axis], weights: Weights) -> Buckets:
        """The buckets with their shares of the calls; of those that are called the most called sizes are the points."""
        calls: dict[Bucket, dict[tuple[int, ...], float]] = {}
        for at, weight in _calls(p, axes, weights):
            box, inside = self.find(dict(zip(self.names, at, strict=True)))
            seen = calls.setdefault(box, {})
            seen[at if inside else box.at] = seen.get(at if inside else box.at, 0.0) + weight
        total = sum(sum(c.values()) for c in calls.values())
        if not total > 0:
            raise _bad(p, "weights", "no weight is above 0", "how often sizes are called: {'M': {1: 90, 37: 10}}")
        made = []
        for b in self.all:
            seen = calls.get(b, {})
            real = [t for t in seen if min(t, default=1) > 0]  # there is nothing to measure where sizes are 0
            at = max(real, key=lambda t: (seen[t], t)) if real else b.at
            made.append(replace(b, at=at, weight=sum(seen.values()) / total))
        return Buckets(made, self.coarser)

    def __str__(self) -> str:
        lines = [
            f"{b!s:<32} at {', '.join(f'{n}={v}' for n, v in b.point.items())}  weight {b.weight:.3g}" for b in self
        ]
        return "\n".join([*lines, *([self.coarser] if self.coarser else [])])


# Reading what is asked --------------------------------------------------------------------------------------------


def read_sizes(p: Pipeline, sizes: Mapping[str, Any]) -> tuple[Axis, ...]:
    """Ranges of all sizes of a pipeline, in its order. A size is a number or a pair (low, high)."""
    if not isinstance(sizes, Mapping):
        raise _bad(p, "sizes", f"sizes= is {sizes!r:.60}", "a dict: sizes={'M': (1, 4096), 'N': 1024}")
    ends: dict[str, tuple[Any, Any]] = {}
    for name, given in sizes.items():
        pair = isinstance(given, (tuple, list))
        if pair and (len(given) != 2 or not all(_is_int(x) for x in given) or given[0] > given[1]):
            raise _bad(p, "sizes", f"size {name} is {given!r:.60}",
                       f"a number, or a range of two, the lower one first: {name}=(1, 4096)")  # fmt: skip
        ends[name] = (given[0], given[1]) if pair else (given, given)
    for k in (0, 1):
        check_all_sizes(p, {n: e[k] for n, e in ends.items()})
    return tuple(Axis(n, int(ends[n][0]), int(ends[n][1])) for n in p.sizes)


def _is_int(x: Any) -> bool:
    return hasattr(x, "__index__") and not isinstance(x, bool)


def _mapping(p: Pipeline, what: str, given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _bad(p, what, f"{what}= is {given!r:.60}", f"a dict by size: {what}={{'M': [1, 8, 64]}}")
    return given


def _declared(p: Pipeline, axes: Sequence[Axis], name: str, given: Any) -> list[int]:
    axis = next((a for a in axes if a.name == name), None)
    if axis is None:
        raise _bad(p, "points", f"there is no size {name!r}", f"its sizes: {', '.join(p.sizes) or 'none'}")
    found = sorted({int(x) for x in given}) if isinstance(given, Iterable) and all(map(_is_int, given)) else []
    if not found or any(x not in axis for x in found):
        raise _bad(p, "points", f"the points of {name} are {given!r:.60}", f"numbers in {axis}")
    return found


def _calls(p: Pipeline, axes: Sequence[Axis], weights: Weights) -> Iterator[tuple[tuple[int, ...], float]]:
    """Sizes and how often they are called."""
    names = [a.name for a in axes]
    if isinstance(weights, Mapping):
        given: dict[Any, Any] = dict(weights)
        if any(n not in names or not isinstance(w, Mapping) for n, w in given.items()):
            raise _bad(p, "weights", f"weights= is {weights!r:.60}", "by size: {'M': {1: 90, 37: 10}}")
        tables = [list(given[a.name].items()) if a.name in given else [(a.high, 1.0)] for a in axes]
        pairs = ((tuple(n for n, _ in row), math.prod(w for _, w in row)) for row in itertools.product(*tables))
    elif not isinstance(weights, Iterable):
        raise _bad(p, "weights", f"weights= is {weights!r:.60}", "by size: {'M': {1: 90, 37: 10}}")
    else:
        fixed = {a.name: a.high for a in axes}
        pairs = ((tuple({**fixed, **at}[n] for n in names), w) for at, w in weights)
    try:
        for at, w in pairs:
            if not all(map(_is_int, at)) or not w >= 0 or w == math.inf:
                raise _bad(p, "weights", f"{dict(zip(names, at, strict=True))} has the weight {w!r}",
                           "sizes are integers, weights numbers of at least 0")  # fmt: skip
            yield tuple(map(int, at)), float(w)
    except (TypeError, ValueError):
        raise _bad(
            p, "weights", f"weights= is {weights!r:.60}", "pairs of sizes and a weight: [({'M': 37}, 10)]"
        ) from None


def _bad(p: Pipeline, code: str, message: str, hint: str) -> TuneError:
    return TuneError(f"{p.name}: {message}", code=f"tune.{code}", where=(user_location(), p.location), hint=hint)


# Cutting ranges ---------------------------------------------------------------------------------------------------


def _powers(high: int, step: int = 2, exact: int = 0, middles: bool = False) -> list[int]:
    """Every size up to `exact`, then powers of `step`, with the middles between them."""
    found = set(range(1, exact + 1))
    n = 1
    while n < high:
        found |= {n, n * 3 // 2} if middles and n > 1 else {n}
        n *= step
    return sorted({n for n in found if n < high} | {high})


# From fine to coarse: the points of a range that ends at `high`.
GRIDS: tuple[tuple[str, Callable[[int], list[int]]], ...] = (
    ("every size up to 16, powers of two and their middles", lambda high: _powers(high, exact=EXACT, middles=True)),
    ("powers of two and their middles", lambda high: _powers(high, middles=True)),
    ("powers of two", _powers),
    ("powers of four", lambda high: _powers(high, 4)),
    ("powers of sixteen", lambda high: _powers(high, 16)),
    ("one bucket", lambda high: [high]),
)
Part = tuple[Axis, int]  # a range, and the size that stands for it


def _parts(axes: Sequence[Axis], declared: Mapping[str, Sequence[int]], most: int) -> tuple[list[list[Part]], str]:
    """What each axis is cut into, no more than `most` combinations where no points are declared; and what was made
    coarser for that."""
    level = [0] * len(axes)

    def cut(k: int) -> list[Part]:
        a = axes[k]
        return _between(a, declared[a.name] if a.name in declared else GRIDS[level[k]][1](a.high))

    parts = [cut(k) for k in range(len(axes))]
    while math.prod(map(len, parts)) > most:
        finer = [k for k, a in enumerate(axes) if a.name not in declared and level[k] + 1 < len(GRIDS)]
        if not finer:
            break
        k = max(finer, key=lambda k: len(parts[k]))
        level[k] += 1
        parts[k] = cut(k)
    told = [f"{a.name}: {GRIDS[n][0]}" for a, n in zip(axes, level, strict=True) if n]
    return parts, f"coarser, for no more than {most} buckets: {'; '.join(told)}" if told else ""


def _between(a: Axis, points: Sequence[int]) -> list[Part]:
    """The ranges that end at these points; the last one goes on to the end of the whole."""
    found, low = [], a.low
    inside = [n for n in points if n in a]
    for n in inside:
        found.append((Axis(a.name, low, n if n != inside[-1] else a.high), n))
        low = n + 1
    return found


__all__ = ["Axis", "Bucket", "Buckets", "read_sizes"]

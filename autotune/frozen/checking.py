"""Whether the schedules of a frozen file still hold for its kernels, and whether its buckets lie side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilewright.autotune.buckets import Axis, Bucket
from tilewright.autotune.errors import RecordError
from tilewright.autotune.frozen.file import Entry, Frozen
from tilewright.autotune.records.whole import check_whole
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule

MOST_CELLS = 200_000  # of the grid in which gaps are looked for
MOST_GAPS = 20  # that are told


@dataclass(frozen=True, slots=True)
class Line:
    """What became of one entry: `status` is ok, stale (it is for another version of the algorithm, for which it is legal
    too), illegal, or no-kernel. `why` says more, `line` is where it stands."""

    kernel: str
    bucket: str
    status: str
    why: str
    line: int | None
    directives: int
    figure: str

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass(frozen=True)
class Checked:
    """A file's entries, and what is odd about its buckets: overlaps are pairs of them (the smaller one applies where both
    hold sizes), gaps boxes of sizes between them that none holds (calls there get the nearest bucket). Neither is a
    failure, but a bucket that is there twice is."""

    lines: tuple[Line, ...]
    overlaps: tuple[tuple[str, str, str], ...]
    twice: tuple[tuple[str, str], ...]
    gaps: tuple[tuple[str, str], ...]
    more_gaps: bool = False

    @property
    def ok(self) -> bool:
        return all(x.ok for x in self.lines) and not self.twice

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        width = max((len(x.bucket or "any sizes") for x in self.lines), default=0)
        out = []
        for kernel, mine in itertools.groupby(self.lines, lambda x: x.kernel):
            out.append(kernel)
            for x in mine:
                said = f"{x.directives} directives" + (f", {x.figure}" if x.figure else "")
                out.append(f"  {x.bucket or 'any sizes':<{width}}  {x.status:<7}  {said if x.ok else x.why}")
        out += [f"{k}: there are two schedules for {box or 'any sizes'}" for k, box in self.twice]
        out += [f"{k}: {a} and {b} overlap: the smaller one applies" for k, a, b in self.overlaps]
        out += [f"{k}: no bucket holds {box}; the nearest one applies there" for k, box in self.gaps]
        out += ["and more such gaps"] if self.more_gaps else []
        bad = sum(not x.ok for x in self.lines)
        schedules = f"{len(self.lines)} schedule{'s' * (len(self.lines) != 1)}"
        out.append(f"{schedules}: all are legal" if not bad else f"{schedules}: {bad} can't be used as they are")
        return "\n".join(out)


def check(file: Frozen, kernels: Mapping[str, Pipeline] | None = None, mode: str = "contract") -> Checked:
    """Replay every schedule, complete it as a call would, and check it; look at the buckets.

    kernels: the pipelines by name, where they are not those in the file.
    """
    known = {p.name: p for p in file.kernels} | dict(kernels or {})
    lines = tuple(_line(e, known.get(e.kernel), mode) for e in file.entries)
    overlaps: list[tuple[str, str, str]] = []
    twice: list[tuple[str, str]] = []
    gaps: list[tuple[str, str]] = []
    more = False
    for name in dict.fromkeys(e.kernel for e in file.entries):
        boxes = [*_boxes(file.of(name))]
        meeting = [(a, b) for a, b in itertools.combinations(boxes, 2) if _meet(a, b)]
        twice += dict.fromkeys((name, a.text) for a, b in meeting if {*a.ranges} == {*b.ranges})
        overlaps += (
            (name, a.text or "any sizes", b.text or "any sizes") for a, b in meeting if {*a.ranges} != {*b.ranges}
        )
        found = [*itertools.islice(uncovered(boxes), MOST_GAPS + 1)]
        more = more or len(found) > MOST_GAPS
        gaps += ((name, text) for text in found[:MOST_GAPS])
    return Checked(lines, tuple(overlaps), tuple(twice), tuple(gaps), more)


def legal(e: Entry, p: Pipeline, mode: str = "contract") -> Schedule:
    """The schedule of an entry for a pipeline, whatever version it was written for; with what completes it checked.

    Raises TilewrightError where it is not legal.
    """
    e.box()
    unknown = [r.name for r in e.box().ranges if r.name not in p.sizes]
    if unknown:
        raise RecordError(f"{p.name} has no size {unknown[0]}", code="records.bucket", where=e.place,
                          hint=f"its sizes: {', '.join(p.sizes) or 'none'}")  # fmt: skip
    made = e.schedule(p, stale=True)
    check_whole(made, mode)
    return made


def _line(e: Entry, p: Pipeline | None, mode: str) -> Line:
    line = e.place.line if e.place else None
    figure = str(e.measured).partition(";")[0] if e.measured else ""
    made = Line(e.kernel, e.bucket, "ok", "", line, len(e.text.directives), figure)
    if p is None:
        return replace(made, status="no-kernel", why=f"there is no kernel {e.kernel} to check it against")
    try:
        legal(e, p, mode)
    except TilewrightError as problem:
        return replace(made, status="illegal", why=_why(problem))
    if e.text.hash not in (None, p.digest):
        why = "it is for another version of the kernel, and legal for this one: `tilewright schedules upgrade`"
        return replace(made, status="stale", why=why)
    return made


def _why(e: TilewrightError) -> str:
    place = f"line {e.where[0].line}: " if e.where else ""
    return f"{place}{e.message} [{e.code}]"


# Buckets --------------------------------------------------------------------------------------------------------


def _boxes(entries: Iterable[Entry]) -> Iterator[Bucket]:
    for e in entries:
        try:
            yield e.box()
        except RecordError:
            continue


def _meet(a: Bucket, b: Bucket) -> bool:
    other = {r.name: r for r in b.ranges}
    return all(r.name not in other or (r.low <= other[r.name].high and other[r.name].low <= r.high) for r in a.ranges)


def uncovered(boxes: Sequence[Bucket]) -> Iterator[str]:
    """Boxes of sizes inside the hull of these that none of them holds, as texts; none where they are of different sizes or
    far too many. Each is as long as can be along its last axis."""
    names = {tuple(r.name for r in b.ranges) for b in boxes}
    if len(names) != 1 or () in names:
        return
    cuts = []
    for k in range(len(boxes[0].ranges)):
        cuts.append(sorted({x for b in boxes for x in (b.ranges[k].low, b.ranges[k].high + 1)}))
    cells = 1
    for c in cuts:
        cells *= max(len(c) - 1, 1)
    if cells * len(boxes) > MOST_CELLS * 100:
        return
    held = {
        cell for b in boxes for cell in itertools.product(*(_cells(c, r) for c, r in zip(cuts, b.ranges, strict=True)))
    }
    order = next(iter(names))
    for outer in itertools.product(*(range(len(c) - 1) for c in cuts[:-1])):
        start: int | None = None
        for k in range(len(cuts[-1])):
            free = k < len(cuts[-1]) - 1 and (*outer, k) not in held
            if free and start is None:
                start = k
            elif not free and start is not None:
                at = [(c[i], c[i + 1] - 1) for c, i in zip(cuts, outer, strict=False)]
                spans = [*at, (cuts[-1][start], cuts[-1][k] - 1)]
                yield ",".join(str(Axis(n, lo, hi)) for n, (lo, hi) in zip(order, spans, strict=True))
                start = None


def covered(box: Bucket, boxes: Sequence[Bucket]) -> bool:
    """Whether smaller ones of these boxes hold all sizes of a box together."""
    names = [r.name for r in box.ranges]
    smaller = [b for b in boxes if b.volume < box.volume and [r.name for r in b.ranges] == names and _meet(b, box)]
    if not smaller or len(smaller) > MOST_GAPS * 10:
        return False
    parts = [replace(b, ranges=tuple(map(_inside, b.ranges, box.ranges))) for b in smaller]
    hull = tuple(
        Axis(n, min(b.ranges[k].low for b in parts), max(b.ranges[k].high for b in parts)) for k, n in enumerate(names)
    )
    return hull == box.ranges and next(uncovered(parts), None) is None


def _inside(r: Axis, s: Axis) -> Axis:
    return Axis(r.name, max(r.low, s.low), min(r.high, s.high))


def _cells(cuts: Sequence[int], r: Axis) -> range:
    return range(cuts.index(r.low), cuts.index(r.high + 1))


__all__ = ["Checked", "Line", "check", "covered", "legal", "uncovered"]

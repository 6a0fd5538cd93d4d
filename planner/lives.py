"""When buffers are in use while steps run, some of them at once and some of them twice; what lies on what, and the peak."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.planner.order import Task

Spans = Mapping[str, tuple[tuple[int, int], ...]]


def spans(
    made: Sequence[Collection[str]], used: Sequence[Collection[str]], groups: Sequence[int], keep: Collection[str] = ()
) -> dict[str, tuple[tuple[int, int], ...]]:
    """The first and the last step of each use of what steps make. `used` is what each reads, `groups` the numbers of steps
    that run at once, in turn. What a later step makes again is not in use between; `keep` outlives the last step."""
    first: list[int] = []
    last: list[int] = []
    for n in groups:
        start = len(first)
        first += [start] * n
        last += [start + n - 1] * n
    found: dict[str, list[tuple[int, int]]] = {}
    for k, (new, read) in enumerate(zip(made, used, strict=True)):
        for b in read:
            if b in found:
                a, e = found[b][-1]
                found[b][-1] = a, max(e, last[k])
        for b in new:
            found.setdefault(b, []).append((first[k], last[k]))
    for b in keep:
        if b in found:
            found[b][-1] = found[b][-1][0], len(first)
    return {b: tuple(s) for b, s in found.items()}


@dataclass(frozen=True)
class Lives:
    """Tasks in turn, `groups` of them at once: when each buffer is in use, which lies `over` another that dies with the
    step that makes it, and what lives at each step."""

    tasks: tuple[Task, ...]
    groups: tuple[int, ...]
    spans: Spans
    over: Mapping[str, str]
    live: tuple[int, ...]

    @property
    def peak(self) -> int:
        return max(self.live, default=0)

    @property
    def when(self) -> int:
        """The first step at which most lives."""
        return self.live.index(self.peak) if self.live else 0

    def at(self, step: int) -> dict[str, int]:
        """The bytes of what lives at a step."""
        size = {b: n for t in self.tasks for b, n in t.makes.items()}
        return {b: size[b] for b, s in self.spans.items() if any(a <= step <= e for a, e in s)}


def lives(tasks: Sequence[Task], groups: Sequence[int] | None = None, keep: Collection[str] = ()) -> Lives:
    """Look at tasks in the order in which they run."""
    groups = (1,) * len(tasks) if groups is None else tuple(groups)
    found = spans([t.makes for t in tasks], [t.needs for t in tasks], groups, keep)
    over = _overlays(tasks, groups, found, keep)
    size = {b: n for t in tasks for b, n in t.makes.items()}
    change = [0] * (len(tasks) + 2)
    for b, times in found.items():
        for a, e in times:
            change[a] += size[b]
            change[e + 1] -= size[b]
    scratch, at = [0] * len(tasks), 0
    for n in groups:
        scratch[at : at + n] = [sum(t.scratch for t in tasks[at : at + n])] * n
        for b in (b for t in tasks[at : at + n] for b in t.makes if b in over):
            change[at] -= size[b]  # once for both
            change[at + n] += size[b]
        at += n
    live, now = [], 0
    for k in range(len(tasks)):
        now += change[k]
        live.append(now + scratch[k])
    return Lives(tuple(tasks), groups, found, over, tuple(live))


def _overlays(tasks: Sequence[Task], groups: Sequence[int], found: Spans, keep: Collection[str]) -> dict[str, str]:
    """What is made on what is read for the last time. Buffers at one place are never in use at once but there."""
    over: dict[str, str] = {}
    taken: set[tuple[str, int]] = set()  # what something lies on, and from when
    base: dict[str, str] = {}
    inside: dict[str, list[tuple[int, int]]] = {}  # of a place: when it is in use
    again = {b for b, times in found.items() if len(times) > 1}
    at = 0
    for n in groups:
        group, start, end = tasks[at : at + n], at, at + n - 1
        at += n
        for t in group:
            for b, candidates in t.over.items():
                if b not in t.makes or b in again:
                    continue
                for a in candidates:
                    if a not in t.needs or a not in found or a in keep or (a, end) in taken:
                        continue
                    if any(e == end and s < start for s, e in found[a]) and sum(a in x.needs for x in group) == 1:
                        place = base.get(a, a)
                        held = inside.setdefault(place, list(found[place]))
                        if _apart(held, found[b], start, end):
                            held += found[b]
                            over[b], base[b] = a, place
                            taken.add((a, end))
                            break
    return over


def _apart(held: Iterable[tuple[int, int]], new: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Whether spans meet nowhere but at these steps."""
    return all(max(a, c) >= start and min(b, d) <= end for a, b in held for c, d in new if a <= d and c <= b)


__all__ = ["Lives", "lives", "spans"]

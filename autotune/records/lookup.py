"""Which record is used for a call, how it was found, and why others are not.

A record of the very key is best. Where there is none, what is near stands in, since a schedule is right wherever it is legal
and a bad figure at worst: one of another version of the code generator, of another bucket, other element types, another
machine. How far away a candidate is, is the sum of what differs (see _differences); the nearest one that is legal is used.
Its figure holds for the case in which it was measured only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.errors import TuneError
from tilewright.autotune.fingerprint import Fingerprint, similar
from tilewright.autotune.records.database import Damaged
from tilewright.autotune.records.record import Key, Record, layouts_of
from tilewright.autotune.records.store import Store
from tilewright.autotune.records.whole import check_whole
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule, replay
from tilewright.schedule.text import parse_schedules

if TYPE_CHECKING:
    from tilewright.hw import Machine

Accept = Callable[[Schedule], str | None]  # why a schedule is not wanted, or None
DEPTH, ROWS = 5, 200  # schedules of one key that are looked at, the better ones, and among how many rows

# How far away what is; buckets count by the ratio of sizes, in powers of two.
ANY, VERSION, CACHE, TYPES, MACHINE = 0.04, 0.05, 0.2, 1.5, 4.0


@dataclass(frozen=True)
class Found:
    """A record that can be used, with its schedule for the pipeline that was asked about, replayed and legal.

    `differences` says what is not as asked for, nothing for a record of the very key; `distance` is how much that is.
    """

    record: Record
    schedule: Schedule
    differences: tuple[str, ...]
    distance: float

    @property
    def exact(self) -> bool:
        """Whether the record was measured for just this: then its figure holds."""
        return not self.differences

    @property
    def how(self) -> str:
        """How it was found, in a few words."""
        return "; ".join(self.differences) or "measured for this"


@dataclass(frozen=True)
class Rejected:
    """A record, or all records of a key (`record` is None), that can't be used; `count` records are meant."""

    key: Key
    record: Record | None
    why: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Question:
    """What a schedule is wanted for: a key, of which the bucket may be empty, exact sizes, and the mode of caches."""

    pipeline: Pipeline
    key: Key
    sizes: Mapping[str, int]
    cache: str = "hot"
    machine: Machine | None = None
    accept: Accept | None = None
    whole: bool = True  # whether what needs the whole schedule is checked


def answers(store: Store, q: Question) -> Iterator[Found | Rejected]:
    """All candidates, nearest first, each used or rejected when it is asked for."""
    near: list[tuple[float, tuple[str, ...], Key]] = []
    for key in store.keys("k.algorithm = ? OR k.family = ?", (q.key.algorithm, q.key.family)):
        why = _unusable(key, q.key)
        if why is not None:
            yield Rejected(key, None, why, _count(store, key))
            continue
        differences = list(_differences(key, q))
        near.append((sum(d for d, _ in differences), tuple(text for _, text in differences if text), key))
    for distance, differences, key in sorted(near, key=lambda n: (n[0], n[2].digest)):
        yield from _of_key(store, key, q, distance, differences)


def _of_key(
    store: Store, key: Key, q: Question, distance: float, differences: tuple[str, ...]
) -> Iterator[Found | Rejected]:
    condition = "k.digest = ? AND m.status = 'ok' AND m.cache = ?"
    other = "cold" if q.cache == "hot" else "hot"
    for cache, more in ((q.cache, ()), (other, (f"measured with {other} caches",))):
        seen: set[str] = set()
        for r in store.select(condition, (key.digest, cache), ROWS):
            if isinstance(r, Damaged):
                yield Rejected(key, None, r.why)
                continue
            if r.configuration in seen or len(seen) == DEPTH:
                continue
            seen.add(r.configuration)
            made = schedule_of(r, q.pipeline, q.machine, q.accept, q.whole)
            if isinstance(made, str):
                yield Rejected(key, r, made)
            else:
                yield Found(r, made, (*differences, *more), distance + CACHE * len(more))
    failed = _count(store, key) - _count(store, key, "ok")
    if failed:
        yield Rejected(key, None, "they failed", failed)


def _count(store: Store, key: Key, status: str | None = None) -> int:
    condition = "k.digest = ?" + (" AND m.status = ?" if status else "")
    return store.count(condition, (key.digest, *((status,) if status else ())))


def schedule_of(
    r: Record, p: Pipeline, machine: Machine | None = None, accept: Accept | None = None, whole: bool = True
) -> Schedule | str:
    """The schedule of a record, every directive checked as if written by hand; or why it can't be used.

    Unless `whole` is False also what needs the whole schedule is checked: that takes tens of milliseconds, once for this
    code generator (the cache of kernels remembers it).
    """
    try:
        read = parse_schedules(r.schedule, "the record")
        if len(read) != 1:
            return f"its text says {len(read)} schedules"
        made = replay(replace(read[0], kernel=p.name, hash=None), p, machine)
        if whole:
            check_whole(made)
    except TilewrightError as e:
        return f"not legal: {e.message}"
    given = layouts_of(made)
    if given != r.key.layouts:
        return f"it wants its caller's arrays laid out as {given or 'usual'}"
    return (accept(made) if accept is not None else None) or made


# Nearness -------------------------------------------------------------------------------------------------------


def _unusable(have: Key, want: Key) -> str | None:
    """Why no record of a key can be used."""
    if have.objective != want.objective:
        return f"measured for {have.objective}"
    if have.mode != want.mode:
        return f"in mode {have.mode}"
    if have.layouts != want.layouts:
        return f"arrays are given in the layouts {have.layouts or 'usual'}"
    return None


def _differences(have: Key, q: Question) -> Iterator[tuple[float, str]]:
    """What a key has otherwise than asked, and how much each counts. A text is empty for what makes no difference."""
    want = q.key
    if have.algorithm != want.algorithm:
        yield TYPES, f"for types {have.types}" if have.types != want.types else "for another definition of types"
    if have.fingerprint != want.fingerprint:
        yield _other_machine(have, want)
    yield _other_bucket(have.bucket, q)
    if (have.code, have.versions) != (want.code, want.versions):
        yield VERSION, "measured with another version of the code generator"


def _other_machine(have: Key, want: Key) -> tuple[float, str]:
    threads = f" with {have.threads} thread{'s' * (have.threads != 1)}" if have.threads != want.threads else ""
    text = f"measured on {have.machine}{threads}" if have.machine != want.machine or threads else (
        f"measured on another {have.machine}")  # fmt: skip
    try:
        a, b = Fingerprint.from_json(have.fingerprint), Fingerprint.from_json(want.fingerprint)
    except (ValueError, KeyError):  # of a simulated machine
        return MACHINE, text
    return MACHINE * (1 - similar(a, b)), text


_bucket = functools.lru_cache(1024)(Bucket.read)


def _other_bucket(text: str, q: Question) -> tuple[float, str]:
    """How far a bucket is from the one asked for (or from the exact sizes, where no bucket is asked for)."""
    if not text:  # for any sizes: what is for some sizes comes first
        return (ANY if q.sizes or q.key.bucket else 0.0), "for any sizes" if q.key.bucket else ""
    if text == q.key.bucket:
        return 0.0, ""
    try:
        have = _bucket(text)
        want = _bucket(q.key.bucket) if q.key.bucket else None
    except TuneError:
        return math.inf, f"its bucket {text!r} can't be read"
    if want is not None and {*have.ranges} == {*want.ranges}:
        return 0.0, ""
    unknown = [r.name for r in have.ranges if r.name not in q.pipeline.sizes]
    if unknown:
        return math.inf, f"for {text}, and the kernel has no size {unknown[0]}"
    sizes = {r.name: r.middle for r in want.ranges} if want is not None else dict(q.sizes)
    gap = have.distance(sizes)
    width = sum(math.log2(max(r.high, 1) / max(r.low, 1)) for r in have.ranges)
    aside = 0.001 * width if gap == 0 else 0.001  # of several that hold the sizes the narrowest one
    if gap == 0 and want is None:
        return aside, ""
    return gap + aside + 0.001, f"for {text}"  # never as near as the bucket itself


# Explaining -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explanation:
    """Which record is used for a call, and why not another: `used` is None where none is, and the default schedule is
    taken. `others` are nearest first; `elsewhere` counts records of kernels of that name with other algorithms."""

    question: Question
    used: Found | None
    others: tuple[Found | Rejected, ...]
    elsewhere: int
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        k = self.question.key
        return {
            "kernel": k.kernel, "algorithm": k.algorithm, "sizes": dict(self.question.sizes), "bucket": k.bucket,
            "mode": k.mode, "objective": k.objective, "machine": k.machine, "threads": k.threads,
            "used": None if self.used is None else _found_json(self.used),
            "others": [_found_json(o) if isinstance(o, Found) else _rejected_json(o) for o in self.others],
            "elsewhere": self.elsewhere, "problems": list(self.problems),
        }  # fmt: skip

    def __str__(self) -> str:
        k = self.question.key
        at = " ".join(f"{n}={v}" for n, v in self.question.sizes.items()) or k.bucket
        lines = [f"{k.kernel}{f' at {at}' if at else ''}, {k.objective} on {where(k)}"]
        if self.used is None:
            lines.append("no record is used: the default schedule is taken")
            if not self.others:
                lines.append(f"  there are no records of {k.kernel} as it is now")
        else:
            r = self.used.record
            lines += [f"used: {summary(r)}", f"  {self.used.how}", *(f"  {s}" for s in r.schedule.split("\n"))]
        lines += [f"not used: {_other(o, self.used)}" for o in self.others]
        if self.elsewhere:
            lines.append(f"not used: {self.elsewhere} of other versions of {k.kernel}")
        return "\n".join([*lines, *(f"note: {p}" for p in self.problems)])


def explained(store: Store, q: Question, most: int) -> Explanation:
    """The answer to a question with the candidates that were looked at, at most so many besides the one that is used."""
    used: Found | None = None
    others: list[Found | Rejected] = []
    for a in answers(store, q):
        if isinstance(a, Found) and used is None:
            used = a
        elif len(others) < most:
            others.append(a)
        elif used is not None:
            break
    condition = "k.kernel = ? AND k.algorithm != ? AND k.family != ?"
    elsewhere = store.count(condition, (q.key.kernel, q.key.algorithm, q.key.family))
    return Explanation(q, used, tuple(others), elsewhere, tuple(store.problems))


def where(k: Key) -> str:
    """The machine of a key, in words."""
    return place(k.machine, k.threads)


def place(machine: str, threads: int | None) -> str:
    """`AMD EPYC, 2 threads`; a simulated machine has none."""
    return f"{machine}, {threads} thread{'s' * (threads != 1)}" if threads else machine


def summary(r: Record) -> str:
    """A record in a line."""
    at = f" at {','.join(f'{n}={v}' for n, v in r.sizes.items())}" if r.sizes else ""
    what = quantity(r.figure, r.unit) if r.figure is not None else r.status
    return f"{what}{at} in {r.key.bucket or 'no bucket'}, {r.configuration[:8]}, {r.when[:10]}"


def quantity(figure: float | None, unit: str) -> str:
    """A figure in its unit, as people read it: `12.3 ms`, `4,560 cycles`."""
    if figure is None:
        return ""
    if unit != "s":
        return f"{figure:,.0f} {unit}"
    scale, name = next(((s, n) for s, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if figure >= s), (1e-9, "ns"))
    return f"{figure / scale:.4g} {name}"


def _other(o: Found | Rejected, used: Found | None) -> str:
    if isinstance(o, Found):
        same = used is not None and o.differences == used.differences
        return f"{summary(o.record)}: {'not as good' if same else o.how}"
    head = summary(o.record) if o.record else f"{o.count} of {o.key.bucket or 'no bucket'} on {where(o.key)}"
    return f"{head}: {o.why}"


def _found_json(f: Found) -> dict[str, Any]:
    return {"record": f.record.as_json(), "how": f.how, "exact": f.exact, "distance": f.distance}


def _rejected_json(r: Rejected) -> dict[str, Any]:
    record = r.record.as_json() if r.record else None
    return {"record": record, "bucket": r.key.bucket, "machine": where(r.key), "why": r.why, "count": r.count}


__all__ = [
    "Accept", "Explanation", "Found", "Question", "Rejected", "answers", "explained", "quantity", "schedule_of", "summary",
    "where",
]  # fmt: skip

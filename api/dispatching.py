"""`tw.dispatch`: a kernel that takes for every call the schedule that was found best for its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.dispatch import Dispatch, Entry, Left, Order, obstacle
from tilewright.autotune.errors import TuneError
from tilewright.kernels import Kernel, check_mode
from tilewright.lang.errors import TilewrightError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule, parse_schedule

if TYPE_CHECKING:
    from tilewright.autotune.frozen import Frozen
    from tilewright.autotune.records import Records
    from tilewright.hw import Machine

Source = Any  # Records | Frozen | Tuned | Mapping[str, Schedule | str] | str | Path | None
_DATABASE = b"SQLite format 3\0"


def dispatch(
    kernel: Kernel | Pipeline, source: Source = None, *, objective: str = "time", machine: Machine | str | None = None,
    cache: str = "hot", order: Order = "free", mode: str | None = None, dtypes: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The kernel, with the best schedule that `source` has for the sizes of each call. Call it like the kernel.

    `source` is a database of records (`tw.records.Records`, or its path; None: the usual one), a file of frozen schedules
    (`matmul.tw`), what `tw.tune` gave, or a dict of schedules or their texts by bucket:
    `{"M=1..16,N=1024": schedule, ...}`. Of records those count that were measured for the `objective` (time, or cycles,
    bytes, energy of a simulated `machine`), and where there are none for just this case, the nearest ones: of other
    machines, types or versions. What can't be used is left out; where nothing is left every call has the default schedule.
    `d.explain(a, b)` says what a call gets and why, `d.report()` what there is; `d.warm()` compiles all of it at once
    instead of with the first calls that need it.

    With `order="fixed"` only schedules are used that add up in the order of the default schedule, so that a row has the same
    bits in every bucket, batch and number of threads.

    A kernel with type parameters or static values that are not given here takes them from each call, and has a dispatch for
    each of their combinations. Raises TuneError for what is no kernel, source or order, OSError and ParseError for files.
    """
    how = check_mode(mode or (kernel.mode if isinstance(kernel, Kernel) else "contract"))
    options = {"objective": objective, "machine": _machine(machine), "cache": cache, "mode": how}

    def made(p: Pipeline, keyword_only: tuple[str, ...]) -> Dispatch:
        def refuse(s: Schedule) -> str | None:
            return obstacle(p, s, how, order)

        entries, left = _found(p, source, options, refuse)
        return Dispatch(p, entries, mode=how, keyword_only=keyword_only, order=order, left=left)

    if isinstance(kernel, Pipeline):
        return made(kernel, ())
    if not isinstance(kernel, Kernel):
        raise TuneError(f"{kernel!r:.60} is no kernel", code="tune.kernel", where=user_location(),
                        hint="a @tw.kernel, or kernel.pipeline()")  # fmt: skip
    if dtypes is None and statics is None and (kernel.interface.type_vars or kernel.interface.statics):
        return ByTypes(kernel, made)
    return made(kernel.pipeline(dtypes=dtypes, **(statics or {})), kernel.interface.keyword_only)


class ByTypes:
    """A kernel with type parameters or static values: a dispatch for each combination of them, made when a call has it."""

    def __init__(self, kernel: Kernel, made: Callable[[Pipeline, tuple[str, ...]], Dispatch]):
        self._kernel, self._made = kernel, made
        self._of: dict[Pipeline, Dispatch] = {}
        self._known: dict[tuple, Dispatch] = {}
        self._statics = frozenset(p.name for p in kernel.interface.statics)

    def __repr__(self) -> str:
        return f"<{self._kernel.__name__} with schedules by types and static values, {len(self._of)} so far>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        selection = self._kernel._selection(args, kwargs)
        found = self._known.get(selection) if selection is not None else None
        if found is None:
            found, _ = self._select(args, kwargs)
            if selection is not None:
                self._known[selection] = found
        return found(*args, **{n: v for n, v in kwargs.items() if n not in self._statics} if kwargs else kwargs)

    def of(self, *, dtypes: Mapping[str, Any] | None = None, **statics: Any) -> Dispatch:
        """The dispatch for certain types and static values."""
        p = self._kernel.pipeline(dtypes=dtypes, **statics)
        found = self._of.get(p)
        if found is None:
            found = self._of.setdefault(p, self._made(p, self._kernel.interface.keyword_only))
        return found

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What a call with these arguments gets, and why."""
        found, rest = self._select(args, kwargs)
        return found.explain(*args, **rest)

    def report(self) -> str:
        """The reports of all that calls asked for so far."""
        return "\n".join(d.report() for d in self._of.values()) or repr(self)

    def _select(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Dispatch, dict[str, Any]]:
        p, rest = self._kernel._for_call(args, dict(kwargs))
        found = self._of.get(p)
        if found is None:
            found = self._of.setdefault(p, self._made(p, self._kernel.interface.keyword_only))
        return found, rest


# Sources ----------------------------------------------------------------------------------------------------------

Refuse = Callable[[Schedule], str | None]
Both = tuple[list[Entry], list[Left]]


def _found(p: Pipeline, source: Source, options: Mapping[str, Any], refuse: Refuse) -> Both:
    from tilewright.autotune.frozen import Frozen, read_frozen
    from tilewright.autotune.records import Records
    from tilewright.autotune.tuned import Tuned

    if source is None:
        with Records() as records:
            return _of_records(p, records, options, refuse)
    if isinstance(source, Records):
        return _of_records(p, source, options, refuse)
    if isinstance(source, (str, Path)):
        if not _is_database(Path(source)):
            return _of_file(p, read_frozen(source), str(source))
        with Records(source) as records:
            return _of_records(p, records, options, refuse)
    if isinstance(source, Frozen):
        return _of_file(p, source, "frozen")
    if isinstance(source, Tuned):
        found = [r for r in source.results if r.kernel == p.name]
        return [Entry(r.box, r.schedule, r.figure, r.unit, "tuned") for r in found], []
    return _given(p, source)


def _is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _of_records(p: Pipeline, records: Records, options: Mapping[str, Any], refuse: Refuse) -> Both:
    """The best of records by bucket: those of just this case, or else of what is near."""
    from tilewright.autotune.frozen.freezing import known_buckets
    from tilewright.autotune.records.lookup import quantity

    key = records.question(p, **options).key
    exact = known_buckets(records, key)
    near = records.store.keys("(k.algorithm = ? OR k.family = ?) AND k.objective = ?",
                              (key.algorithm, key.family, key.objective))  # fmt: skip
    entries, left = [], []
    seen: set[frozenset] = set()
    for text in exact or sorted({k.bucket for k in near}):
        try:
            bucket = Bucket.read(text)
        except TuneError as e:  # of another program's key
            left.append(Left(text, e.message))
            continue
        if (same := frozenset(bucket.ranges)) in seen:  # written in another way
            continue
        seen.add(same)
        found = records.find(p, bucket=text, accept=refuse, **options)
        if found is None:
            why = records.explain(p, bucket=text, accept=refuse, most=1, **options)
            left.append(Left(text, " ".join(str(why).split())))
            continue
        figure = found.record.figure if found.exact else None
        how = f"record {found.record.digest[:12]}" + ("" if found.exact else f", {found.how}")
        if not found.exact and found.record.figure is not None:
            how += f" ({quantity(found.record.figure, found.record.unit)})"
        entries.append(Entry(_at(bucket, found.record.sizes), found.schedule, figure, found.record.unit, how))
    return entries, left


def _of_file(p: Pipeline, file: Frozen, name: str) -> Both:
    """The schedules of a frozen file; those that are for another version of the kernel and still legal count."""
    from tilewright.autotune.frozen.checking import legal

    entries, left = [], []
    for e in file.of(p.name):
        place = f"{name}:{e.place.line}" if e.place is not None else name
        try:
            made = legal(e, p)
        except TilewrightError as problem:
            left.append(Left(e.bucket, f"{place}: {problem.message}"))
            continue
        stale = "" if e.text.hash in (None, p.digest) else ", for another version of the kernel"
        measured = e.measured
        figure, unit = (measured.figure, measured.unit) if measured is not None else (None, "")
        box = _at(e.box(), measured.sizes if measured is not None else {})
        entries.append(Entry(box, made, figure, unit, place + stale))
    return entries, left


def _at(bucket: Bucket, sizes: Mapping[str, int]) -> Bucket:
    """The bucket with the sizes that it was measured at."""
    return replace(bucket, at=tuple(sizes.get(r.name, n) for r, n in zip(bucket.ranges, bucket.at, strict=True)))


def _given(p: Pipeline, source: Any) -> Both:
    """The entries of a dict from buckets to schedules, and the texts that are none for this pipeline."""
    if not isinstance(source, Mapping):
        raise TuneError(f"{source!r:.60} holds no schedules by bucket", code="tune.source", where=user_location(),
                        hint='records, a .tw file, or a dict: {"M=1..16,N=1024": schedule}')  # fmt: skip
    entries, left = [], []
    for where, what in source.items():
        bucket = where if isinstance(where, Bucket) else Bucket.read(str(where))
        unknown = [r.name for r in bucket.ranges if r.name not in p.sizes]
        if unknown:
            raise TuneError(f"{p.name} has no size {unknown[0]!r}", code="tune.sizes", where=user_location(),
                            hint=f"its sizes: {', '.join(p.sizes) or 'none'}")  # fmt: skip
        try:
            schedule = parse_schedule(what, p) if isinstance(what, str) else what
        except TilewrightError as e:
            left.append(Left(bucket.text, e.message))
            continue
        if not isinstance(schedule, Schedule):
            raise TuneError(f"{what!r:.60} is no schedule", code="tune.source", where=user_location(),
                            hint="kernel.schedule(), or the text of one")  # fmt: skip
        entries.append(Entry(bucket, schedule))
    return entries, left


def _machine(given: Machine | str | None) -> Machine | None:
    if not isinstance(given, str):
        return given
    from tilewright.hw import load_machine

    return load_machine(given)


__all__ = ["ByTypes", "dispatch"]

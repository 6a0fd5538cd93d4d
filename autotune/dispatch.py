"""A kernel whose schedule is chosen call by call: by the shape bucket that the sizes of the call lie in.

The choice costs a call some 0.3 us: the sizes that tell buckets apart are read off the shapes of arguments, and a table
says which kernel is theirs. Sizes that are new go the long way once: arguments are checked as every call checks them, and
the bucket is found. A kernel is compiled when a call first needs it, or by `warm()`; equal schedules are compiled once.
Dispatches may be called from several threads: while one compiles, those that need the same kernel wait for it, and no
others.

Sizes in no bucket get the nearest bucket's schedule, and sizes that a schedule can't take (`bounds.schedule`) the default
schedule: both are right, and `explain` says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex

import numpy as np

from tilewright.autotune.buckets import Bucket, Buckets
from tilewright.autotune.errors import TuneError
from tilewright.codegen.prepack import Packed
from tilewright.codegen.runtime.processors import available
from tilewright.lang import ir
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, TilewrightError, user_location
from tilewright.lang.nested import flat_arguments, leaves
from tilewright.lang.pipeline import Pipeline

if TYPE_CHECKING:
    from tilewright.codegen.compile import Compiled
    from tilewright.schedule.schedule import Schedule

Order = Literal["free", "fixed"]
ORDERS = ("free", "fixed")
_MANY = 4096  # sizes are remembered
_HOW = ("sizes", "out", "threads", "executor")  # what a call takes besides parameters


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule for a bucket, as it was found. `figure` is what was measured (in `unit`), `origin` where it comes from."""

    bucket: Bucket
    schedule: Schedule
    figure: float | None = None
    unit: str = ""
    origin: str = "given"


@dataclass(frozen=True, slots=True)
class Left:
    """What was found for a bucket and is not used, and why."""

    bucket: str
    why: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a call gets, and why: see `Dispatch.explain`. `schedule` is None for the default one."""

    kernel: str
    sizes: Mapping[str, int]
    bucket: Bucket | None
    inside: bool
    schedule: Schedule | None
    origin: str
    figure: str
    why: str
    compiled: bool

    def __str__(self) -> str:
        what = (
            "the default schedule" if self.schedule is None else f"schedule {self.schedule.hash[:12]} ({self.origin})"
        )
        lines = [f"{self.kernel} at {_at(self.sizes)}: {what}"]
        if self.bucket is not None:
            lines.append(f"  bucket    {self.bucket}")
        if self.figure and self.bucket is not None:
            lines.append(f"  measured  {self.figure} at {_at(self.bucket.point)}")
        lines.append(f"  why       {self.why}")
        lines.append(f"  compiled  {'yes' if self.compiled else 'with the first call that needs it'}")
        return "\n".join(lines)


def _at(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in sizes.items()) or "any sizes"


class Dispatch:
    """A kernel with schedules by bucket. Call it like the kernel (`out=`, `sizes=`, `threads=` are as there)."""

    def __init__(
        self, pipeline: Pipeline, entries: Iterable[Entry], *, mode: str = "contract", keyword_only: tuple[str, ...] = (),
        order: Order = "free", left: Iterable[Left] = (),
    ):  # fmt: skip
        """`entries` have a bucket each (the smaller one counts where they overlap); `left` says what else there was.
        With `order="fixed"` only schedules are used that combine partial results as the default schedule does, so that
        all give the same bits."""
        if order not in ORDERS:
            raise TuneError(f"order is {order!r}", code="tune.order", where=user_location(), hint="free or fixed")
        self.pipeline, self.mode, self.keyword_only, self.order = pipeline, mode, keyword_only, order
        used, more = _usable(pipeline, list(entries), mode, order)
        self.left: tuple[Left, ...] = (*left, *more)
        named = {r.name for e in used for r in e.bucket.ranges}
        names = [n for n in pipeline.sizes if n in named]
        used = [replace(e, bucket=e.bucket.over(names)) for e in used]
        used.sort(key=lambda e: [(r.low, r.high) for r in e.bucket.ranges])
        self.entries: dict[Bucket, Entry] = {e.bucket: e for e in used}
        self.buckets = Buckets([e.bucket for e in used] or [Bucket((), ())])
        self._kernels: dict[str, Compiled] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._refused: dict[str, str] = {}  # schedules that can't be compiled, and why
        self._beyond: dict[tuple[tuple[str, int], ...], str] = {}  # sizes that their bucket's schedule can't take
        self._table: dict[Any, Compiled] = {}
        sources = _sources(pipeline, self.buckets.varying)
        self._read, call = _caller(self._table, pipeline, sources, self._new, self._instead)
        # a function as a static attribute of the class does not bind: calling the object goes straight to it
        self.__class__ = type("Dispatch", (Dispatch,), {"__call__": staticmethod(call)})  # type: ignore[assignment]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # replaced per object, see __init__
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.pipeline.name} with schedules for {_several(len(self.entries), 'bucket')}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{self!r} can't be copied or pickled: it holds machine code. Make it again where it is wanted, "
                        "from the same records or file")  # fmt: skip

    # Choosing -------------------------------------------------------------------------------------------------

    def sizes(self, *args: Any, sizes: Any = None, out: Any = None, **kwargs: Any) -> dict[str, int]:
        """The sizes of a call with these arguments. Raises what the call would raise."""
        from tilewright.codegen.compile import said_by_outputs

        given = {k: v for k, v in kwargs.items() if k not in _HOW}
        flat, named = flat_arguments(self.pipeline, args, given)
        flat, named = [_stand_in(v) for v in flat], {k: _stand_in(v) for k, v in named.items()}
        said = said_by_outputs(self.pipeline, out, sizes)
        return dict(bind(self.pipeline, flat, named, said, len(self.keyword_only)).sizes)

    def bucket(self, sizes: Mapping[str, int]) -> tuple[Bucket, bool]:
        """The bucket that sizes get, and whether they lie in it."""
        return self.buckets.find(sizes)

    def entry(self, sizes: Mapping[str, int]) -> Entry | None:
        """What sizes get; None for the default schedule."""
        bucket, _ = self.buckets.find(sizes)
        found = self.entries.get(bucket)
        if found is None or found.schedule.hash in self._refused or tuple(sizes.items()) in self._beyond:
            return None
        return found

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Compiled:
        """The kernel for sizes that the table does not have."""
        sizes = self.sizes(*args, **kwargs)
        kernel = self.kernel(self.entry(sizes))
        self._remember(args, kwargs, kernel)
        return kernel

    def _instead(self, e: BoundsError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Compiled:
        """The default schedule, for sizes that a bucket's schedule asks more of than they are."""
        if e.code != "bounds.schedule" or not self.entries:
            raise e
        sizes = self.sizes(*args, **kwargs)
        self._beyond[tuple(sizes.items())] = e.message
        kernel = self.kernel(None)
        self._remember(args, kwargs, kernel)
        return kernel

    def _remember(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], kernel: Compiled) -> None:
        try:
            key = self._read(args, kwargs)
        except (LookupError, AttributeError, TypeError):
            return
        if len(self._table) >= _MANY:
            self._table.clear()
        self._table[key] = kernel

    # Kernels --------------------------------------------------------------------------------------------------

    def kernel(self, entry: Entry | None) -> Compiled:
        """The compiled kernel of an entry (None: of the default schedule). Where an entry's can't be compiled it is the
        default one."""
        name = "" if entry is None else entry.schedule.hash
        found = self._kernels.get(name)
        if found is not None:
            return found
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            found = self._kernels.get(name)
            if found is None:
                found = self._kernels[name] = self._compile(entry)
        return found

    def _compile(self, entry: Entry | None) -> Compiled:
        from tilewright.codegen.compile import compile_schedule

        if entry is None:
            return compile_schedule(self.pipeline, None, self.mode, self.keyword_only)
        try:
            return compile_schedule(self.pipeline, entry.schedule, self.mode, self.keyword_only)
        except TilewrightError as e:
            self._refused[entry.schedule.hash] = e.message
            return self.kernel(None)

    def warm(self) -> Dispatch:
        """Compile all that calls may need, side by side, so that none of them has to wait. Gives itself back."""
        wanted = {e.schedule.hash: e for e in self.entries.values()}.values() or [None]
        with ThreadPoolExecutor(min(len(wanted), len(available()))) as pool:
            list(pool.map(self.kernel, wanted))
        return self

    # Telling --------------------------------------------------------------------------------------------------

    def explain(self, *args: Any, sizes: Mapping[str, int] | None = None, **kwargs: Any) -> Chosen:
        """What a call gets and why: of these arguments, or of sizes alone (`sizes={"M": 37, ...}`). Nothing is compiled."""
        if args or any(k not in _HOW for k in kwargs):
            sizes = self.sizes(*args, sizes=sizes, **kwargs)
        sizes = dict(sizes or {})
        unknown = [n for n in sizes if n not in self.pipeline.sizes]
        if unknown:
            raise TuneError(
                f"{self.pipeline.name} has no size {unknown[0]!r}", code="tune.sizes", where=user_location(),
                hint=f"its sizes: {', '.join(self.pipeline.sizes) or 'none'}",
            )  # fmt: skip
        bucket, inside = self.buckets.find(sizes)
        entry = self.entries.get(bucket)
        used = self.entry(sizes)
        why = self._why(sizes, bucket, inside, entry)
        name = "" if used is None else used.schedule.hash
        return Chosen(
            self.pipeline.name, sizes, bucket if entry is not None else None, inside,
            used.schedule if used is not None else None, used.origin if used is not None else "default",
            _figure(used), why, name in self._kernels,
        )  # fmt: skip

    def _why(self, sizes: Mapping[str, int], bucket: Bucket, inside: bool, entry: Entry | None) -> str:
        left = [x for x in self.left if _covers(x.bucket, sizes)]
        told = "".join(f"; what there is for {x.bucket or 'any call'} is left out: {x.why}" for x in left)
        if entry is None:
            return "there is no schedule for any bucket" + told
        if entry.schedule.hash in self._refused:
            return f"the schedule of bucket {bucket} can't be compiled: {self._refused[entry.schedule.hash]}" + told
        beyond = self._beyond.get(tuple(sizes.items()))
        if beyond is not None:
            return f"the schedule of bucket {bucket} does not take these sizes: {beyond}" + told
        if inside:
            return f"bucket {bucket} has these sizes" + told
        return f"no bucket has these sizes; the nearest one is {bucket}" + told

    def report(self) -> str:
        """A line for each bucket: what stands for it, the schedule and where it comes from, what was measured."""
        different = len({e.schedule.hash for e in self.entries.values()})
        lines = [f"{self.pipeline.name}: {_several(len(self.entries), 'bucket')}, {_several(different, 'schedule')}, "
                 f"order {self.order}"]  # fmt: skip
        width = max((len(str(b)) for b in self.entries), default=0)
        for b, e in self.entries.items():
            state = "can't be compiled" if e.schedule.hash in self._refused else (
                "compiled" if e.schedule.hash in self._kernels else "not compiled yet")  # fmt: skip
            lines.append(f"  {b!s:<{width}}  {e.schedule.hash[:12]}  {_figure(e):>12}  {e.origin}, {state}")
        if not self.entries:
            lines.append("  every call: the default schedule")
        lines += [f"  left out {x.bucket or 'any call'}: {x.why}" for x in self.left]
        return "\n".join(lines)


def _several(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _figure(e: Entry | None) -> str:
    from tilewright.autotune.records.lookup import quantity

    return "" if e is None or e.figure is None else quantity(e.figure, e.unit)


def _covers(text: str, sizes: Mapping[str, int]) -> bool:
    try:
        return Bucket.read(text).distance(sizes) == 0
    except TuneError:
        return True


def _usable(p: Pipeline, entries: Sequence[Entry], mode: str, order: Order) -> tuple[list[Entry], list[Left]]:
    """The entries that calls can use, and the others with the reason."""
    used: list[Entry] = []
    left: list[Left] = []
    known: dict[str, str | None] = {}  # of schedules that several buckets have
    for e in entries:
        unknown = [r.name for r in e.bucket.ranges if r.name not in p.sizes]
        if e.schedule.hash not in known:
            known[e.schedule.hash] = obstacle(p, e.schedule, mode, order)
        why = f"{p.name} has no size {unknown[0]}" if unknown else known[e.schedule.hash]
        if why is None:
            used.append(e)
        else:
            left.append(Left(e.bucket.text, why))
    return used, left


def obstacle(p: Pipeline, schedule: Schedule, mode: str, order: Order) -> str | None:
    """Why calls of a pipeline can't use a schedule; None where they can."""
    from tilewright.autotune.order import pinned, reduction_order

    if schedule.pipeline.digest != p.digest:
        return "it is for another algorithm"
    if any(d.kind == "layout" and d.option("given") for d in schedule.directives):
        return "it takes arguments in a layout of its own, which other buckets do not"
    if order == "fixed":
        try:
            if reduction_order(schedule, mode) != pinned(p, mode):
                return "it combines partial results in another order than the default schedule"
        except TilewrightError as problem:
            return problem.message
    return None


def _stand_in(v: Any) -> Any:
    return np.broadcast_to(np.zeros((), v.dtype), v.shape) if type(v) is Packed else v


# Calls ------------------------------------------------------------------------------------------------------------

Read = Callable[[Sequence[Any], Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class _Source:
    """An argument whose shape says sizes: a parameter, and the `path` to it where that is a dict or a list. `axis` is the
    one that says them where it is one alone."""

    place: int
    name: str
    path: tuple[str | int, ...]
    axis: int | None = None


def _sources(p: Pipeline, names: Iterable[str]) -> list[_Source] | None:
    """The arguments whose shapes say these sizes, few of them where they do it plainly; None where no shapes do."""
    says = {a.name: {e.attr: k for k, e in enumerate(a.extents) if e.op == "size"} for a in p.arrays}
    wanted, found = set(names), []
    while wanted:
        best = max(says, key=lambda n: len(wanted & says[n].keys()), default=None)
        if best is None or not wanted & says[best].keys():
            known = {n.attr for a in p.arrays for n in ir.leaves(a.extents, "size")}
            return [_source(p, n, None) for n in says] if wanted <= known else None
        here = wanted & says[best].keys()
        found.append(_source(p, best, says[best][next(iter(here))] if len(here) == 1 else None))
        wanted -= here
    return found


def _source(p: Pipeline, parameter: str, axis: int | None) -> _Source:
    for place, (name, structure) in enumerate(p.signature):
        for path, leaf in leaves(structure, (name,)):
            if leaf == parameter:
                return _Source(place, name, path[1:], axis)
    return _Source(next(k for k, q in enumerate(p.params) if q.name == parameter), parameter, (), axis)


def _reader(p: Pipeline, sources: Sequence[_Source] | None) -> Read:
    """What reads off a call the key of its sizes. It may raise LookupError, AttributeError or TypeError where it finds
    none: then the call is looked at in full."""
    if sources is None:
        return _by_all(p)
    if not sources:
        return lambda args, kwargs: None
    readers = [_by_shape(s) for s in sources]
    if len(readers) == 1:
        return readers[0]
    return lambda args, kwargs: tuple([r(args, kwargs) for r in readers])


def _by_shape(s: _Source) -> Read:
    place, name, path, axis = s.place, s.name, s.path, s.axis

    def read(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        at = args[place] if len(args) > place else kwargs[name]
        for k in path:
            at = at[k]
        return at.shape if axis is None else at.shape[axis]

    return read


def _by_all(p: Pipeline) -> Read:
    """The shapes of all arguments and the sizes that are given: some sizes are in no input."""

    def read(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = kwargs.get("sizes")
        flat, named = flat_arguments(p, args, kwargs)
        shapes = [getattr(v, "shape", None) for v in flat]
        more = [(k, getattr(v, "shape", None)) for k, v in named.items() if k != "sizes"]
        return (*shapes, *more, *(given.items() if given else ()))

    return read


def _caller(
    table: Mapping[Any, Compiled], p: Pipeline, sources: Sequence[_Source] | None, new: Callable[..., Compiled],
    instead: Callable[..., Compiled],
) -> tuple[Read, Callable[..., Any]]:  # fmt: skip
    """What reads the key of a call, and the call itself. The usual forms read their shapes in place, for the call of a
    reader would cost as much again."""
    plain = sources if sources is not None and not any(s.path for s in sources) else []
    if len(plain) == 1 and (axis := plain[0].axis) is not None:
        return _reader(p, plain), _by_one(table, plain[0].place, plain[0].name, axis, new, instead)
    if len(plain) == 2:
        a, b = (replace(s, axis=None) for s in plain)
        return _reader(p, [a, b]), _by_two(table, a, b, new, instead)
    read = _reader(p, sources)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            kernel = table[read(args, kwargs)]
        except (LookupError, AttributeError, TypeError):
            kernel = None
        if kernel is None:
            kernel = new(args, kwargs)
        try:
            return kernel(*args, **kwargs)
        except BoundsError as e:
            kernel = instead(e, args, kwargs)
        return kernel(*args, **kwargs)

    return read, call


def _by_one(
    table: Mapping[Any, Compiled], place: int, name: str, axis: int, new: Callable[..., Compiled],
    instead: Callable[..., Compiled],
) -> Callable[..., Any]:  # fmt: skip
    """The call where one extent decides."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            kernel = table[(args[place] if len(args) > place else kwargs[name]).shape[axis]]
        except (LookupError, AttributeError, TypeError):
            kernel = None
        if kernel is None:
            kernel = new(args, kwargs)
        try:
            return kernel(*args, **kwargs)
        except BoundsError as e:
            kernel = instead(e, args, kwargs)
        return kernel(*args, **kwargs)

    return call


def _by_two(
    table: Mapping[Any, Compiled],
    a: _Source,
    b: _Source,
    new: Callable[..., Compiled],
    instead: Callable[..., Compiled],
) -> Callable[..., Any]:
    """The call where the shapes of two arguments decide."""
    first, first_name, second, second_name = a.place, a.name, b.place, b.name

    def call(*args: Any, **kwargs: Any) -> Any:
        n = len(args)
        try:
            kernel = table[
                (args[first] if n > first else kwargs[first_name]).shape,
                (args[second] if n > second else kwargs[second_name]).shape,
            ]
        except (LookupError, AttributeError, TypeError):
            kernel = None
        if kernel is None:
            kernel = new(args, kwargs)
        try:
            return kernel(*args, **kwargs)
        except BoundsError as e:
            kernel = instead(e, args, kwargs)
        return kernel(*args, **kwargs)

    return call


__all__ = ["Chosen", "Dispatch", "Entry", "Left", "Order", "obstacle"]

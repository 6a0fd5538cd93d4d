"""Which kernel, schedule and sizes a command is about: `FILE[:KERNEL]` and its options."""

from __future__ import annotations

import difflib
import inspect
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.commands.files import SourceFile, UsageError, read_file, running
from tilewright.kernels import Kernel
from tilewright.lang.binding import LARGEST_SIZE
from tilewright.lang.errors import ArgumentError, Location, TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import index_values
from tilewright.schedule.schedule import Schedule

__all__ = [
    "Target",
    "UsageError",
    "check_memory",
    "check_scalars",
    "check_sizes",
    "find_kernel",
    "find_target",
    "too_large",
]


@dataclass(frozen=True, slots=True)
class Target:
    """A kernel with its pipeline and a schedule. `schedule` is None where the default one is meant."""

    kernel: Kernel
    pipeline: Pipeline
    schedule: Schedule | None
    schedule_name: str

    @property
    def start(self) -> Schedule:
        """The schedule that is given, or an empty one."""
        return Schedule(self.pipeline) if self.schedule is None else self.schedule

    def complete(self, mode: str | None = None) -> Schedule:
        """The whole schedule: what is given, and the default for what it leaves alone. Checked."""
        from tilewright.schedule.default import complete

        full = complete(self.start, mode or self.kernel.mode)
        full.check()
        return full


def find_target(
    target: str | Path | Kernel,
    schedule: str | Path | Schedule | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
) -> Target:
    """The target of a command: `FILE[:KERNEL]` or a Kernel, with a schedule.

    `schedule` is a Schedule, the name of a function in the Python file, or a `.tw` file; None means the only schedule
    of a `.tw` file, else the default one. `statics` gives static parameters, `dtypes` type parameters (by default the
    first choice of each). Of a file with a schedule for each of several buckets the one for these `sizes` is taken.
    Raises UsageError, UserCodeError, ParseError, ScheduleError.
    """
    source, kernel, pipeline = _found(target, statics, dtypes)
    made, name = _schedule(source, kernel, pipeline, schedule, sizes)
    if made is not None and made.pipeline.name != pipeline.name:
        raise UsageError(f"{name} is a schedule of {made.pipeline.name}, not of {pipeline.name}", code="usage.schedule")
    return Target(kernel, pipeline if made is None else made.pipeline, made, name)


def find_kernel(
    target: str | Path | Kernel, statics: Mapping[str, Any] | None = None, dtypes: Mapping[str, Any] | None = None
) -> tuple[Kernel, Pipeline]:
    """The kernel of a command that is about no schedule, as `find_target` finds it, and its pipeline."""
    return _found(target, statics, dtypes)[1:]


def _found(
    target: str | Path | Kernel, statics: Mapping[str, Any] | None, dtypes: Mapping[str, Any] | None
) -> tuple[SourceFile | None, Kernel, Pipeline]:
    if isinstance(target, Kernel):
        source, kernel = None, target
    else:
        source, kernel = _kernel(str(target))
    types = {t.name: t.choices[0] for t in kernel.interface.type_vars} | dict(_known(kernel, dtypes or {}))
    return source, kernel, kernel.pipeline(dtypes=types, **(statics or {}))


def _known(kernel: Kernel, dtypes: Mapping[str, Any]) -> Mapping[str, Any]:
    names = [t.name for t in kernel.interface.type_vars]
    for name in dtypes:
        if name not in names:
            raise UsageError(
                f"{kernel.__name__} has no type parameter {name}", code="usage.dtype",
                hint=f"it has {', '.join(names)}" if names else "it has none",
            )  # fmt: skip
    return dtypes


# Kernels --------------------------------------------------------------------------------------------------------


def _kernel(target: str) -> tuple[SourceFile, Kernel]:
    file, colon, name = target.rpartition(":")
    if not colon or Path(target).exists():
        file, name = target, ""
    source = read_file(Path(file))
    if not source.kernels:
        raise UsageError(
            f"{file} has no kernel", code="usage.kernel", hint="a kernel is made with @tw.kernel at top level"
        )
    names = list(source.kernels)
    if not name:
        name = names[0] if len(names) == 1 else source.path.stem
        if name not in source.kernels:
            raise UsageError(
                f"{file} has {len(names)} kernels", code="usage.kernel",
                hint="say which: " + ", ".join(f"{file}:{n}" for n in names),
            )  # fmt: skip
    if name not in source.kernels:
        raise UsageError(f"{file} has no kernel {name!r}", code="usage.kernel", hint=closest(name, names))
    return source, source.kernels[name]


def closest(word: str, known: Iterable[str]) -> str:
    """`did you mean x? there are x, y, z`"""
    names = list(known)
    near = difflib.get_close_matches(word, names, 1)
    return (f"did you mean {near[0]}? " if near else "") + (
        f"there are {', '.join(names)}" if names else "there are none"
    )


# Schedules ------------------------------------------------------------------------------------------------------


def _schedule(
    source: SourceFile | None,
    kernel: Kernel,
    pipeline: Pipeline,
    wanted: str | Path | Schedule | None,
    sizes: Mapping[str, Any] | None,
) -> tuple[Schedule | None, str]:
    if isinstance(wanted, Schedule):
        return wanted, "the schedule"
    if wanted is None:
        tw = source.tw if source is not None else None
        if tw is not None and any(s.kernel == pipeline.name for s in tw.schedules):
            return tw.schedule(pipeline, sizes), str(tw.path)
        return None, "default"
    path = Path(wanted)
    if path.suffix == ".tw":
        tw = read_file(path).tw
        assert tw is not None
        return tw.schedule(pipeline, sizes), str(path)
    name = str(wanted)
    functions = source.functions if source is not None else {}
    if name not in functions:
        place = source.path if source is not None else kernel.__name__
        hint = closest(name, making_schedules(source) if source else ()) + "; a file of schedules ends in .tw"
        raise UsageError(f"{place} has no schedule function {name!r}", code="usage.schedule", hint=hint)
    assert source is not None
    return _from_function(source.path, functions[name], kernel, pipeline), name


_MAKING = frozenset(("schedule", "Schedule", "parse_schedule"))
_DIRECTING = frozenset(("vectorize", "parallel", "unroll", "compute_at", "compute_root", "cache_read", "cache_write"))


def making_schedules(source: SourceFile) -> list[str]:
    """The functions of a file that are schedules: those in its SCHEDULES; without that those that look like it, as they
    need no argument and make a schedule, or need one and give it directives, or call one that does."""
    if source.schedules:
        return [n for n, f in source.functions.items() if f in source.schedules]
    found: list[str] = []
    while more := [n for n, f in source.functions.items() if n not in found and _looks_like_one(f, found)]:
        found += more
    return [n for n in source.functions if n in found]


def _looks_like_one(fn: Any, known: Sequence[str]) -> bool:
    needs = len(_required(fn))
    words = _MAKING.union(known, _DIRECTING if needs else ())
    return needs < 2 and not words.isdisjoint(fn.__code__.co_names)


def _required(fn: Any) -> list[inspect.Parameter]:
    """The parameters that a call must give by position."""
    empty = inspect.Parameter.empty
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(fn).parameters.values() if p.default is empty and p.kind in named]


def _from_function(path: Path, fn: Any, kernel: Kernel, pipeline: Pipeline) -> Schedule:
    """Call a schedule function: it takes nothing, or an empty schedule to fill or a kernel, and gives the schedule."""
    place = Location(str(path), fn.__code__.co_firstlineno)
    parameters = _required(fn)
    if len(parameters) > 1:
        raise UsageError(
            f"{fn.__name__} takes {len(parameters)} arguments", code="usage.schedule", where=place,
            hint="a schedule function takes none, or an empty schedule",
        )  # fmt: skip
    given = Schedule(pipeline)
    with running(path):
        made = fn(*([given] if parameters else []))
    if made is None and parameters:
        made = given
    if not isinstance(made, Schedule):
        raise UsageError(
            f"{fn.__name__} gives {made!r:.60} and no schedule", code="usage.schedule", where=place,
            hint=f"return the schedule: s = {kernel.__name__}.schedule(); ...; return s",
        )  # fmt: skip
    return made


# Sizes ----------------------------------------------------------------------------------------------------------


def check_named(p: Pipeline, sizes: Mapping[str, Any], how: str, example: str) -> None:
    """Raise UsageError `usage.size` unless every size of a kernel has a value, and nothing else has one. `how` they are
    given, and an `example` of one, are said where some are missing."""
    for name in sizes:
        if name not in p.sizes:
            raise UsageError(f"{p.name} has no size {name!r}", code="usage.size", hint=closest(name, p.sizes))
    missing = [n for n in p.sizes if n not in sizes]
    if missing:
        raise UsageError(
            f"{p.name} needs the size{'s' * (len(missing) > 1)} {', '.join(missing)}", code="usage.size",
            hint=f"{how}: --size " + ",".join(f"{n}={example}" for n in missing),
        )  # fmt: skip


def check_sizes(p: Pipeline, sizes: Mapping[str, int]) -> dict[str, int]:
    """All sizes of a pipeline, in its order. Raises UsageError `usage.size` for missing, unknown and impossible ones."""
    check_named(p, sizes, "give them", "512")
    for name, value in sizes.items():
        if value < 0:
            raise UsageError(
                f"size {name} is {value}: a size is not negative", code="usage.size", hint=f"{name}=0 or more"
            )
        if value > LARGEST_SIZE:
            raise UsageError(f"size {name} is {value}", code="usage.size", hint="2**62 is the largest")
    return {n: sizes[n] for n in p.sizes}


def check_scalars(p: Pipeline, scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Values of scalar parameters; others are made up. Raises UsageError `usage.scalar` for an unknown one."""
    names = [q.name for q in p.scalars]
    for name in scalars:
        if name not in names:
            raise UsageError(
                f"{p.name} has no scalar parameter {name!r}", code="usage.scalar", hint=closest(name, names)
            )
    return dict(scalars)


def check_memory(p: Pipeline, sizes: Mapping[str, int], copies: int = 1) -> None:
    """Refuse sizes at which `copies` of all inputs and outputs exceed this computer's memory (it would swap, or worse).

    Raises UsageError `usage.size`. Extents that depend on more than the sizes are left out.
    """
    total = 0
    for extents, t in [(a.extents, a.dtype) for a in p.arrays] + [(o.extents, o.dtype) for o in p.outputs]:
        try:
            total += math.prod(max(0, n) for n in index_values(extents, sizes)) * t.bytes
        except ArgumentError:
            continue
    if total * copies > _memory():
        raise too_large(p, sizes)


def _memory() -> float:
    """Bytes of physical memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def too_large(p: Pipeline, sizes: Mapping[str, int]) -> TilewrightError:
    """The error where memory runs out."""
    shown = ", ".join(f"{k}={v}" for k, v in sizes.items())
    return UsageError(
        f"{p.name} at {shown} needs more memory than there is", code="usage.size", hint="give smaller sizes"
    )

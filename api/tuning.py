"""`tw.tune`: the best schedule for a kernel, by the clock or by a simulated machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import pipelines
from tilewright.autotune.buckets import Buckets, Weights
from tilewright.autotune.errors import TuneError
from tilewright.autotune.measure.task import OBJECTIVES
from tilewright.autotune.progress import Watch
from tilewright.autotune.records import Records
from tilewright.autotune.remember import memory_of
from tilewright.autotune.session import Given, Options, Wanted, check_options, run
from tilewright.autotune.tasks import Subject
from tilewright.autotune.tuned import Tuned
from tilewright.codegen.runtime.processors import default_threads
from tilewright.hw import Machine, load_machine
from tilewright.hw.machine import machine_text
from tilewright.kernels import Kernel, check_mode
from tilewright.lang.errors import user_location
from tilewright.lang.nested import flat_named
from tilewright.lang.pipeline import Pipeline

if TYPE_CHECKING:
    from tilewright.autotune.measure import Measurer

HOST = "host"
Sizes = Mapping[str, int | tuple[int, int]]


def tune(
    kernel: Kernel | Pipeline | Sequence[Kernel | Pipeline],
    sizes: Sizes | Sequence[Sizes],
    *,
    space: Given = None,
    budget_s: float = 60.0,
    objective: str | None = None,
    machine: Machine | str | None = None,
    strategy: str = "evolution",
    threads: int | None = None,
    cache: str = "hot",
    order: str = "free",
    seed: int = 0,
    records: Records | str | Path | bool | None = None,
    measurer: Measurer | str | Any = None,
    points: Mapping[str, Sequence[int]] | None = None,
    weights: Weights | None = None,
    trials: int | None = None,
    mode: str | None = None,
    dtypes: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: str | Watch = "auto",
) -> Tuned:
    """Search for the best schedule of a kernel at given sizes, and give what was found: schedules with their figures.

    `sizes` has every size as a number or as a range `(low, high)`, which is cut into buckets that have a schedule each:
    `points` says where (by name), `weights` how often which sizes are called. Several kernels, with a sequence of sizes,
    share the time. `space` is where to search: a schedule with knobs, a function `fn(s, choose)` that writes a schedule, or
    nothing, which means all that general rules can make of the kernel.

    `budget_s` is the time for all, in seconds, `trials` how many schedules are judged at most. `objective` is time (of this
    computer, with `threads` of them: all by default; the data in the `cache`, hot, or not, cold), or cycles, bytes or energy
    of a simulated `machine` (a preset, a file or a Machine), of which cycles are the usual ones. `strategy` is evolution,
    beam, random, exhaustive or optuna. With `order="fixed"` all schedules combine the partial results of reductions as the
    default schedule does, so that they give the same bits. `inputs` has arrays by name, where made-up ones would not do.

    What is measured is written to `records` (a Records, a file, None for the user's own, False for none) at once, and taken
    from there where it was measured before. `measurer` says where schedules run: in processes of this computer, or on those
    of a Dask cluster (`dask://host:port`, or a Client). `progress` is live, lines, none, auto, or a function that takes
    snapshots.

    The schedule is never worse than the default one: it is that where nothing is faster beyond noise, or nothing could be
    measured. An interruption (Ctrl-C) gives the best so far.

    Raises TuneError for what is no kernel, for options that make no sense and where nothing can be measured at all,
    ArgumentError for wrong sizes, and MachineError for an unknown machine.
    """
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel]
    several: list[Any] = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    if not kernels or len(kernels) != len(several) or (len(kernels) > 1 and space is not None):
        raise TuneError(
            "one space for several kernels" if space else f"{len(kernels)} kernels with {len(several)} sets of sizes",
            code="tune.sizes", where=user_location(), hint="tw.tune([a, b], [sizes of a, sizes of b])",
        )  # fmt: skip
    goal, on = _objective(objective, machine)
    options = Options(
        budget_s, trials, goal, None if on is None else machine_text(on), "" if on is None else on.name, strategy,
        _threads(threads, goal), cache, order, seed, None if measurer is None else {},  # other machines have other rates
    )  # fmt: skip
    check_options(options)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise TuneError(f"inputs={inputs!r:.60}", code="tune.option", where=user_location(),
                        hint="a dict of arrays by name: inputs={'A': a}")  # fmt: skip
    with ExitStack() as stack:
        wanted = []
        for k, at in zip(kernels, several, strict=True):
            subject = _subject(k, mode, dtypes, statics)
            buckets = Buckets.of(subject.pipeline, at, points, weights)
            file = stack.enter_context(_saved(subject.pipeline, inputs)) if inputs else None
            wanted.append(Wanted(subject, buckets, space, dict(scalars or {}), file))
        start, own = _measurer(measurer, options)
        known = stack.enter_context(_records(records))
        return run(wanted, options, start, memory_of(known, on), progress, own=own)


def _subject(kernel: Any, mode: str | None, dtypes: Any, statics: Mapping[str, Any] | None) -> Subject:
    if isinstance(kernel, Kernel):
        types = {t.name: t.choices[0] for t in kernel.interface.type_vars} | dict(dtypes or {})
        p = kernel.pipeline(dtypes=types, **(statics or {}))
        return Subject(p.name, p, check_mode(mode or kernel.mode), kernel.interface.keyword_only)
    if isinstance(kernel, Pipeline) and not dtypes and not statics:
        return Subject(kernel.name, kernel, check_mode(mode or "contract"))
    problem, legal = f"{kernel!r:.60} is no kernel", "a @tw.kernel, or kernel.pipeline()"
    if isinstance(kernel, Pipeline):
        problem, legal = "a pipeline has its types and static values already", "leave out dtypes and statics"
    elif isinstance(kernel, pipelines.Pipeline):
        problem, legal = "this pipeline has no outputs yet", "what it gives: p.returns(out)"
    raise TuneError(problem, code="tune.kernel", where=user_location(), hint=legal)


def _objective(objective: str | None, machine: Machine | str | None) -> tuple[str, Machine | None]:
    """What counts, and the machine where it is a simulated one."""
    native = machine is None or machine == HOST
    goal = objective or ("time" if native else "cycles")
    if goal not in OBJECTIVES:
        raise TuneError(f"{goal!r} is no objective", code="tune.option", where=user_location(),
                        hint=f"one of {', '.join(OBJECTIVES)}")  # fmt: skip
    if native != (goal == "time"):
        raise TuneError(
            f"{goal} of {'this computer' if native else 'a simulated machine'}", code="tune.machine", where=user_location(),
            hint="a simulated machine has cycles, bytes and energy (machine=\"snitch-cluster\"); this computer has time",
        )  # fmt: skip
    if native:
        return goal, None
    return goal, machine if isinstance(machine, Machine) else load_machine(machine)  # type: ignore[arg-type]


def _threads(threads: int | None, objective: str) -> int:
    if threads is None:
        return default_threads() if objective == "time" else 1
    if type(threads) is not int or threads < 1:
        raise TuneError(f"threads={threads!r}", code="tune.option", where=user_location(), hint="a whole number from 1")
    return threads


def _measurer(given: Any, options: Options) -> tuple[Callable[[], Measurer], bool]:
    """What starts the measurer, and whether it ends with the run: one that was given goes on."""
    from tilewright.autotune.measure import LocalMeasurer

    if given is None:
        return LocalMeasurer, True
    if isinstance(given, str):
        if not given.startswith("dask://"):
            raise TuneError(f"measurer={given!r}", code="tune.workers", where=user_location(), hint="dask://host:port")
        return lambda: _cluster(given.removeprefix("dask://")), True
    if callable(getattr(given, "run", None)) and callable(getattr(given, "finals", None)):
        return lambda: given, False
    if hasattr(given, "scheduler_info"):
        return lambda: _cluster(given), True
    raise TuneError(f"measurer={given!r:.60}", code="tune.workers", where=user_location(),
                    hint="a Measurer, a Client of Dask, or dask://host:port")  # fmt: skip


def _cluster(where: Any) -> Measurer:
    from tilewright.autotune.measure import DaskMeasurer

    return DaskMeasurer(where)


@contextmanager
def _records(given: Records | str | Path | bool | None) -> Iterator[Records | None]:
    """The records to use; those that are opened here are closed."""
    if given is not None and not isinstance(given, (bool, Records, str, Path)):
        raise TuneError(f"records={given!r:.60}", code="tune.option", where=user_location(),
                        hint="a Records, the path of a database, None for the user's own, or False for none")  # fmt: skip
    if given is False or isinstance(given, Records):
        yield given if isinstance(given, Records) else None  # one without records counts as false
    elif given in (None, True):
        with Records() as mine:
            yield mine
    else:
        with Records(given) as mine:  # type: ignore[arg-type]
            yield mine


@contextmanager
def _saved(p: Pipeline, inputs: Mapping[str, Any]) -> Iterator[str]:
    """A file with the user's arrays, for as long as the tuner runs."""
    flat = flat_named(p, inputs)
    handle, name = tempfile.mkstemp(suffix=".npz", prefix="tilewright-inputs-")
    try:
        with os.fdopen(handle, "wb") as f:
            np.savez(f, **{n: np.asarray(v) for n, v in flat.items()})  # type: ignore[arg-type]
        yield name
    finally:
        Path(name).unlink(missing_ok=True)


__all__ = ["tune"]

"""One run of the tuner: from kernels, sizes and options to jobs, and from jobs to what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TextIO

from tilewright.autotune.buckets import Bucket, Buckets
from tilewright.autotune.errors import TuneError
from tilewright.autotune.generate import GeneratedSpace
from tilewright.autotune.knobs import FunctionSpace, KnobSpace
from tilewright.autotune.measure.task import OBJECTIVES, Measurer, Task
from tilewright.autotune.model import lower_bound, peaks
from tilewright.autotune.pinned import PinnedSpace
from tilewright.autotune.progress import Watch, progress
from tilewright.autotune.records.lookup import place
from tilewright.autotune.search import STRATEGIES
from tilewright.autotune.space import Point, Space, draw, usual
from tilewright.autotune.tasks import Candidate, Job, Subject
from tilewright.autotune.tune import Memory, Settings, Tuner
from tilewright.autotune.tuned import Tuned, result_of
from tilewright.lang.errors import user_location
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

Given = Space | Schedule | Callable[..., Any] | None


@dataclass(frozen=True)
class Wanted:
    """A kernel to tune, with its buckets. `space` is where to search: None for one that is generated."""

    subject: Subject
    buckets: Buckets
    space: Given = None
    scalars: Mapping[str, Any] = field(default_factory=dict)
    inputs: str | None = None


@dataclass(frozen=True)
class Options:
    """How to tune, see `tw.tune`. `machine` is the text of a simulated machine's file, None where times are measured."""

    budget: float = 60.0
    trials: int | None = None
    objective: str = "time"
    machine: str | None = None
    named: str = ""  # the machine's name
    strategy: str = "evolution"
    threads: int = 1
    cache: str = "hot"
    order: str = "free"
    seed: int = 0
    rates: Mapping[str, float] | None = None  # operations a second at best, by type: measured where they are not given


def run(
    wanted: Sequence[Wanted], options: Options, start: Callable[[], Measurer],
    memory: Callable[[Measurer], Memory] | None = None, shown: str | Watch = "auto", stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic, own: bool = True,
) -> Tuned:  # fmt: skip
    """Tune. `start` gives what measures, which is closed at the end where it is our `own`."""
    check_options(options)
    begun = clock()
    unit = OBJECTIVES[options.objective]
    settings = Settings(
        options.budget, options.trials, options.strategy, options.seed, options.objective, unit, options.named
    )
    jobs = [job for w in wanted for job in jobs_of(w, options)]

    def make(subject: Subject, bucket: Bucket) -> Job:
        return job_of(next(w for w in wanted if w.subject is subject), bucket, options)

    with ExitStack() as stack:
        measurer = start()
        if own:
            stack.callback(measurer.close)
        tuner = Tuner(
            jobs, measurer, settings, memory(measurer) if memory else None, clock=clock, begun=begun, make=make
        )
        tuner.watch = stack.enter_context(progress(shown, tuner.snapshot, stream))
        stopped = tuner.run()
    return Tuned(
        tuple(result_of(j, unit, bool(j.rounds or j.finals)) for j in tuner.jobs), options.objective, unit,
        settings.machine or place(measurer.fingerprint.cpu, options.threads),
        options.strategy, tuner.seconds, options.budget, stopped, options.threads if options.objective == "time" else None,
        (*tuner.words, *tuner.memory.words, *(w.buckets.coarser for w in wanted if w.buckets.coarser)), tuner.regrets,
    )  # fmt: skip


def check_options(o: Options) -> None:
    """Raises TuneError `tune.option` for what no option can be, `tune.strategy` for an unknown strategy."""
    number = type(o.budget) in (int, float) and 0 < o.budget < float("inf")
    _require(number, f"a budget of {o.budget!r} seconds", "a number above 0, such as 60")
    _require(o.trials is None or (type(o.trials) is int and o.trials > 0), f"trials={o.trials!r}",
             "how many schedules to judge at most: a whole number from 1, or None")  # fmt: skip
    _require(type(o.seed) is int and o.seed >= 0, f"{o.seed!r} is no seed", "a whole number from 0")
    _require(
        o.order in ("free", "fixed"), f"order={o.order!r}", "free, or fixed: one order of reductions in all buckets"
    )
    _require(o.objective in OBJECTIVES, f"{o.objective!r} is no objective", f"one of {', '.join(OBJECTIVES)}")
    if o.strategy not in STRATEGIES:
        raise TuneError(f"there is no strategy {o.strategy!r}", code="tune.strategy", where=user_location(),
                        hint=f"there are {', '.join(STRATEGIES)}")  # fmt: skip


def _require(good: bool, problem: str, legal: str) -> None:
    if not good:
        raise TuneError(problem, code="tune.option", where=user_location(), hint=legal)


def jobs_of(w: Wanted, options: Options) -> list[Job]:
    """A job for each bucket of a kernel."""
    return [job_of(w, bucket, options) for bucket in w.buckets]


def job_of(w: Wanted, bucket: Bucket, options: Options) -> Job:
    """The job of one bucket of a kernel, with its share of all calls."""
    task = Task.of(
        w.subject.pipeline, bucket.point, mode=w.subject.mode, scalars=dict(w.scalars), threads=options.threads,
        cache=options.cache, objective=options.objective, machine=options.machine, seed=options.seed, inputs=w.inputs,
        shapes=bucket.samples()[:1],
    )  # fmt: skip
    space = space_of(w, bucket.point, options)
    if options.order == "fixed":
        space = PinnedSpace(space, w.subject.mode)
    return Job(
        w.subject, bucket, task, space, _default(space, w.subject, options),
        weight=bucket.weight / (sum(b.weight for b in w.buckets) or 1.0), bound=_bound(w.subject, bucket.point, options),
    )  # fmt: skip


def _bound(subject: Subject, sizes: Mapping[str, int], options: Options) -> float | None:
    """The seconds that arithmetic takes at least; None where that is not known."""
    if options.objective != "time":
        return None
    rates = peaks(options.threads) if options.rates is None else options.rates
    return lower_bound(subject.pipeline, sizes, rates) or None


def space_of(w: Wanted, sizes: Mapping[str, int], options: Options) -> Space:
    """Where to search: knobs of a schedule, what a function writes, a space as it is, or one that is generated."""
    p, given = w.subject.pipeline, w.space
    if given is None:
        return GeneratedSpace(
            p, sizes, threads=options.threads, mode=w.subject.mode, order=options.order, machine=options.machine
        )
    if isinstance(given, Schedule):
        return KnobSpace(given)
    if callable(getattr(given, "build", None)):
        return given  # type: ignore[return-value]
    if callable(given) and not hasattr(given, "pipeline"):  # a kernel can be called too
        return FunctionSpace(p, given)
    raise TuneError(
        f"space= is {given!r:.60}", code="tune.space", where=user_location(),
        hint="a schedule with knobs, a function (s, choose) that writes one, or nothing: then the space is generated",
    )  # fmt: skip


def _default(space: Space, subject: Subject, options: Options) -> Candidate:
    """The default schedule, as a point of the space where it is the usual one; of a simulated machine, which may have other
    registers and memories than this computer, the usual one of its space."""
    start = draw(space, usual)
    if start is not None and options.machine is not None:
        return Candidate(start, "default")
    default = complete(Schedule(subject.pipeline), subject.mode)
    point = start if start is not None and start.hash == default.hash else Point((), default)
    return Candidate(point, "default")


__all__ = ["Given", "Options", "Wanted", "check_options", "jobs_of", "run", "space_of"]

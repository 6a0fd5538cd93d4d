"""One task in the process that measures it: compile, check, time, each candidate by itself or a few in turns."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.autotune.measure.checks import Arena, Case, Checks, case, shapes_of, shown, trial
from tilewright.autotune.measure.task import Task
from tilewright.autotune.measure.timing import Policy, Times, in_turns, sampled, timed
from tilewright.codegen import runtime
from tilewright.codegen.compile import Compiled, compile_schedule
from tilewright.codegen.runtime.processors import available
from tilewright.hw.errors import CapacityError
from tilewright.lang.errors import ParseError, ScheduleError, TilewrightError
from tilewright.lang.judging import MismatchError
from tilewright.lang.text import parse_kernel
from tilewright.schedule.schedule import Schedule, parse_schedule

if TYPE_CHECKING:
    from tilewright.autotune.model import Model

FINALS = 0.4  # seconds of timed runs of each finalist
_FLUSH = 64 << 20  # bytes at least that flush caches
_REFERENCE, _PATIENCE = 0.5, 20.0  # seconds that the reference may take: it beside the default schedule, it alone
_ROUNDS = 25  # of finalists at most

Report = Callable[..., None]  # report("check") says that a stage begins; "time" waits until nothing else runs


class Refused(Exception):
    """A candidate that is not measured: its status and why. `suspect`: it may have written where it should not."""

    def __init__(self, status: str, message: str, suspect: bool = False):
        super().__init__(message)
        self.status, self.message, self.suspect = status, message, suspect


class Unmeasurable(Exception):
    """A task none of whose candidates can be measured, and why."""

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message


class Bench:
    """What is kept for a task: its pipeline, the data, and what must come out."""

    def __init__(self, task: Task):
        self.task = task
        self.p = parse_kernel(task.kernel, "the kernel of the task")
        self.checks = Checks(self.p, task)
        self.trusted = True  # whether the default schedule says what is right at the task's sizes

    @staticmethod
    def of(task: Task) -> Bench:
        """That of a task. Raises Unmeasurable."""
        with measurable():
            return Bench(task)

    def schedule(self, text: str) -> Schedule:
        """The schedule of a text, legal as far as it can be said before it is compiled."""
        with refused():
            return parse_schedule(text, self.p, _machine(self.task.machine))

    def compiled(self, text: str) -> Compiled:
        """A candidate, compiled (or from the cache). Raises Refused."""
        schedule = self.schedule(text)
        with refused():
            kernel = compile_schedule(self.p, schedule, self.task.mode)
        if kernel.given:
            raise Refused("illegal", f"the caller would have to give {', '.join(kernel.given)} in another layout")
        return kernel

    @functools.cached_property
    def cases(self) -> list[Case]:
        """What is checked at the task's sizes and at its shapes. Empty where the default schedule can't be run there."""
        try:
            return list(self._cases())
        except Exception as e:  # whatever is wrong with the default schedule, it is no fault of a candidate
            self.checks.skipped.append(f"values at the task's sizes: {e}")
            return []

    def _cases(self) -> Iterator[Case]:
        """By the reference where it is fast, or where there is nothing else and it takes seconds."""
        wanted = [(self.task.sizes, self.checks.arguments)]
        wanted += [(s, self.checks.arguments_at(s, {})) for s in self.task.shapes if dict(s) != dict(self.task.sizes)]
        for sizes, args in wanted:
            took = self.checks.case_seconds(sizes)
            if took < _REFERENCE:
                yield case(self.p, self.task, sizes, args)
            elif self.default is not None:
                yield self.checks.large(self.default, args, sizes)
            elif took < _PATIENCE:
                yield self.checks.large(self.checks.by_reference, args, sizes)
            else:
                self.checks.skipped.append(f"values at {shown(sizes)}: the default schedule can't be run")

    @functools.cached_property
    def default(self) -> Compiled | None:
        """The default schedule, judged at small sizes; None where it can't be run."""
        if not self.trusted:
            return None
        try:
            made = compile_schedule(self.p, None, self.task.mode)
            for small in self.checks.small:
                trial(small, made, self.task.threads)
        except Exception:
            return None
        return made

    @functools.cached_property
    def arena(self) -> Arena:
        """The arrays that candidates are timed on."""
        if self.cases:
            return self.cases[0].arena()
        shapes = shapes_of(self.p, self.checks.arguments, self.task.sizes)
        blank = [np.empty(s, o.dtype.np) for s, o in zip(shapes, self.p.outputs, strict=True)]
        return Arena(self.p, self.checks.arguments, blank)

    @functools.cached_property
    def model(self) -> Model:
        """What foresees a candidate's figure."""
        from tilewright.autotune.model import Model

        t = self.task
        return Model(self.p, t.sizes, None, t.mode, t.threads, t.objective, t.scalars)

    @functools.cached_property
    def bound(self) -> float:
        """Seconds below which no time can be true; 0 where nothing is known."""
        from tilewright.autotune.model import lower_bound, peaks

        try:
            return lower_bound(self.p, self.task.sizes, peaks(self.task.threads))
        except TilewrightError:
            return 0.0

    def check(self, kernel: Compiled, report: Report) -> float:
        """Judge a candidate at all sizes; seconds of the run at the task's. Raises Refused."""
        threads = self.task.threads
        report("check")
        with measurable():
            self.checks.arguments  # noqa: B018
        with refused(during="check"):
            for small in self.checks.small:
                trial(small, kernel, threads)
            report("expect")
            cases = self.cases
            report("run")
            start = time.perf_counter()
            if cases:
                trial(cases[0], kernel, threads, self.arena)
            took = time.perf_counter() - start
            for other in cases[1:]:
                trial(other, kernel, threads)
        return took

    def call(self, kernel: Compiled) -> Callable[[], Any]:
        """A candidate on the arrays that are timed."""
        a = self.arena
        return kernel.bind(**a.args, out=a.out, sizes=dict(self.task.sizes), threads=self.task.threads)

    @property
    def before(self) -> Callable[[], None] | None:
        """What happens before every sample."""
        if self.task.cache == "cold":
            return lambda: (self.arena.restore(), flush(self.task.threads))[0]
        return self.arena.restore if self.arena.written else None

    def time(self, kernel: Compiled, best: float | None, report: Report, policy: Policy) -> Times:
        """Time a candidate that is right. Raises Refused for times that can't be."""
        with refused(during="run"):
            run = self.call(kernel)
            with pinned(self.task.threads, policy.pin):
                report("time")
                self.bound  # noqa: B018  (for which this machine's peak is measured, once)
                found = sampled(run, policy, self.before, best, several=self.task.cache == "hot")
                report("timed")
        self.plausible(found)
        return found

    def plausible(self, found: Times) -> None:
        """Raise Refused for times that can't be."""
        if found.best <= 0 or found.best < self.bound:
            raise Refused(
                "instant", f"{found.best:.3g} s is less than the {self.bound:.3g} s that the arithmetic takes"
            )

    def finals(self, kernels: Sequence[Compiled], report: Report, policy: Policy) -> list[Times]:
        """Time candidates that are right in turns."""
        runs = [self.call(k) for k in kernels]
        several = self.task.cache == "hot"
        with pinned(self.task.threads, policy.pin):
            report("time")
            once = [min(timed(run, 1, self.before) for _ in range(2)) for run in runs]
            calls = [max(1, math.ceil(policy.sample / max(t, 1e-9))) if several else 1 for t in once]
            taken = sum(t * c for t, c in zip(once, calls, strict=True))
            rounds = int(min(max(FINALS * len(runs) / max(taken, 1e-9), 3), _ROUNDS))
            found = in_turns(runs, calls, rounds, self.before)
            report("timed")
        return found


@contextmanager
def measurable() -> Iterator[None]:
    """Errors of a task that are none of a candidate."""
    try:
        yield
    except TilewrightError as e:
        raise Unmeasurable(e.message) from e
    except (OSError, ValueError, KeyError) as e:
        raise Unmeasurable(f"{type(e).__name__}: {e}") from e


@contextmanager
def refused(during: str = "compile") -> Iterator[None]:
    """Errors of a candidate as what they mean for it."""
    try:
        yield
    except (Refused, Unmeasurable):
        raise
    except MemoryError as e:
        raise Refused("memory", str(e) or "there is not enough memory") from e
    except (ScheduleError, ParseError, CapacityError) as e:
        raise Refused("illegal", e.message) from e
    except MismatchError as e:
        raise Refused("wrong", e.message, suspect=True) from e
    except RecursionError as e:
        raise Refused("compile", "it nests too deeply") from e
    except Exception as e:
        message = e.message if isinstance(e, TilewrightError) else f"{type(e).__name__}: {e}"
        raise Refused("wrong" if during != "compile" else "compile", message) from e


def _machine(given: str | None) -> Any:
    """A machine by its name or by the text of its file."""
    if given is None or "\n" not in given:
        return given
    from tilewright.hw.machine import parse_machine

    return parse_machine(given, "the machine of the task")


# Surroundings ---------------------------------------------------------------------------------------------------


@contextmanager
def pinned(threads: int, pin: bool = True) -> Iterator[None]:
    """This thread on one processor while it is alone (the pool keeps its own threads apart)."""
    if threads > 1 or not pin or not hasattr(os, "sched_setaffinity"):
        yield
        return
    runtime.address("parallel_for")  # the pool learns of all processors first
    before = available()
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@functools.cache
def _flushing() -> np.ndarray:
    from tilewright.autotune.fingerprint import Fingerprint

    last = max(Fingerprint.here().caches, default=0)
    return np.zeros(max(_FLUSH, 2 * last) // 8, np.uint64)


def flush(threads: int) -> None:
    """Write to twice as much memory as the last cache holds, on the processors of all threads: a second cache may keep what
    the last one has lost."""
    memory = _flushing()
    if threads > 1 and hasattr(os, "sched_setaffinity"):
        here = available()
        for cpu in sorted(here)[:threads]:
            os.sched_setaffinity(0, {cpu})
            memory += 1
        os.sched_setaffinity(0, here)
    else:
        memory += 1


__all__ = ["Bench", "Refused", "Report", "Unmeasurable", "flush", "measurable", "pinned", "refused"]

"""Measuring on this machine: several processes compile side by side, one measures, and while it reads the clock the others
are stopped."""

from __future__ import annotations

import atexit
import hashlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.measure.pool import Call, Pool
from tilewright.autotune.measure.task import Limits, Outcome, Task
from tilewright.codegen.runtime.processors import default_threads
from tilewright.lang.errors import user_location

NOISE = 0.01  # by how much medians of finalists differ at least that are not taken for equal


class LocalMeasurer:
    """Worker processes of this machine (see `Measurer`).

    `compilers` processes (by default one a processor) compile, rank and simulate side by side. One measures, while all
    others, and those of other tuners on this machine, wait; with `pin` on one processor where the task has one thread.
    Workers that crash, hang or take too much memory (`limits`) are killed and replaced; what they worked on is an outcome.
    They end with the tuner, also when it is killed. Raises TuneError `tune.worker` where no worker can be started.
    """

    def __init__(self, compilers: int | None = None, limits: Limits | None = None, pin: bool = True):
        count = default_threads() if compilers is None else compilers
        if type(count) is not int or count < 1:
            raise TuneError(f"compilers= is {compilers!r}", code="tune.option", where=user_location(),
                            hint="it is a positive integer: how many processes compile side by side")  # fmt: skip
        if os.name != "posix":
            raise TuneError("this system can't stop processes while one is timed", code="tune.worker",
                            where=user_location(), hint="measure on a POSIX system, by way of Dask for example")  # fmt: skip
        self._pool = Pool(count, limits or Limits(), pin)
        self._closed = False
        self._thread = threading.Thread(target=self._pool.serve, name="tilewright-measure", daemon=True)
        self._thread.start()
        _alive.add(self)

    @property
    def fingerprint(self) -> Fingerprint:
        """This machine's."""
        return Fingerprint.here()

    def run(
        self, task: Task, schedules: Sequence[str], best: float | None = None, until: float | None = None
    ) -> Iterator[Outcome]:
        """See `Measurer.run`. All schedules are taken at once; several runs may be under way at a time."""
        call = self._begin("figure" if task.objective != "time" else "measure", task, schedules, best)
        return self._results(call, len(schedules), until)

    def _results(self, call: Call, count: int, until: float | None) -> Iterator[Outcome]:
        try:
            for _ in range(count):
                found = _next(call, until)
                if found is None:
                    return
                index, answer = found
                yield self._outcome(call.task, index, call.schedules[index], answer)
        finally:
            self._pool.cancel(call)

    def predict(self, task: Task, schedules: Sequence[str]) -> list[float | None]:
        """See `Measurer.predict`."""
        call = self._begin("predict", task, schedules, None)
        found: list[float | None] = [None] * len(schedules)
        try:
            for _ in schedules:
                index, answer = _next(call)
                found[index] = answer.get("figure")
        finally:
            self._pool.cancel(call)
        return found

    def finals(self, task: Task, schedules: Sequence[str]) -> list[Outcome]:
        """See `Measurer.finals`: in order of their medians, those that can't be told apart by the hash of their text, and
        at last those that failed."""
        if task.objective != "time":
            found = list(self.run(task, schedules))
        elif not schedules:
            return []
        else:
            call = self._begin("finals", task, schedules, None)
            try:
                found = [self._outcome(task, *(i, schedules[i], a)) for i, a in enumerate(_next(call)[1]["finals"])]
            finally:
                self._pool.cancel(call)
        return ranked(found)

    def working(self) -> AbstractContextManager[None]:
        """Around work of this process that would disturb what is timed (with as many threads as processors): it waits until
        nothing is timed, and nothing is timed until it is done. It should be short: the making of one schedule, say."""
        return self._pool.alone.quiet.working()

    def close(self) -> None:
        """End the workers. What is under way is given up."""
        self._closed = True
        self._pool.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> LocalMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, kind: str, task: Task, schedules: Sequence[str], best: float | None) -> Call:
        if self._closed:
            raise TuneError("this measurer is closed", code="tune.closed", where=user_location(), hint="make a new one")
        call = Call(kind, task, tuple(schedules), best)
        self._pool.begin(call)
        return call

    def _outcome(self, task: Task, index: int, schedule: str, answer: Mapping[str, Any]) -> Outcome:
        names = ("figure", "samples", "median", "spread", "message", "seconds")
        given = {n: answer[n] for n in names if answer.get(n) is not None}
        return Outcome(index, schedule, answer["status"], unit=task.unit, fingerprint=self.fingerprint, **given)


def _next(call: Call, until: float | None = None) -> Any:
    """The next answer, a pair; None where it is not there in time. Raises TuneError where there will be none."""
    while True:
        left = 1.0 if until is None else until - time.monotonic()
        try:
            found = call.answers.get(timeout=max(0.0, min(1.0, left)))  # a wait without an end can't be interrupted
        except queue.Empty:
            if left <= 0:
                return None
            continue
        if isinstance(found, TuneError):
            raise found
        return found


def ranked(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The best first, by the median; of those that differ from it by less than the noise the one with the smaller hash."""
    good = sorted((o for o in outcomes if o.ok), key=_median)
    failed = [o for o in outcomes if not o.ok]
    if good:
        first = good[0]
        ties = [o for o in good if _median(o) - _median(first) <= _noise(o, first)]
        rest = [o for o in good if o not in ties]
        good = sorted(ties, key=lambda o: (hashlib.blake2b(o.schedule.encode()).digest(), o.index)) + rest
    return good + failed


def _median(o: Outcome) -> float:
    found = o.figure if o.median is None else o.median
    return float("inf") if found is None else found


def _noise(a: Outcome, b: Outcome) -> float:
    """Seconds by which medians differ by chance: what they are uncertain by, and a part of them at least."""
    if a.unit != "s":
        return 0.0
    error = sum((o.spread or 0.0) / max(o.samples, 1) ** 0.5 for o in (a, b))
    return max(error, NOISE * _median(b))


_alive: weakref.WeakSet[LocalMeasurer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for measurer in list(_alive):
        measurer.close()


def _forget_all() -> None:
    """A forked child has no workers of its own."""
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)

__all__ = ["NOISE", "LocalMeasurer", "ranked"]

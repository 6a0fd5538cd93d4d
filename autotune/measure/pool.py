"""The processes of a measurer, and the thread that serves them: hands out jobs, keeps deadlines, replaces who died."""

from __future__ import annotations

import itertools
import os
import queue
import selectors
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.measure.alone import Alone
from tilewright.autotune.measure.process import COMMAND, Process
from tilewright.autotune.measure.task import RUNS, Limits, Task

_TICK = 0.5  # seconds at most between looks at the deadlines
_GAP = 1.0  # a tick that took so much longer: this process was stopped itself, and its workers too maybe
_TRIES = 3  # of starting a worker
_SAMPLES = 20  # runs of a candidate at most while it is timed
_FINALS = 30.0  # seconds that finals may take besides


@dataclass(eq=False)
class Call:
    """Jobs that came together. Their answers go to `answers`, as (index, answer), or a TuneError in place of all."""

    kind: str
    task: Task
    schedules: tuple[str, ...]
    best: float | None
    answers: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    cancelled: bool = False


@dataclass(eq=False)
class Job:
    """A candidate on its way. `do` is what comes next for it, `stage` what its worker does now."""

    call: Call
    index: int
    do: str
    stage: str = ""
    began: float = 0.0  # when the stage began
    retried: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    out: dict[int, dict[str, Any]] = field(default_factory=dict)  # of finals: those that failed
    which: int = 0  # of finals: the one that is looked at

    @property
    def left(self) -> list[int]:
        """Of finals: those that are still in."""
        return [k for k in range(len(self.call.schedules)) if k not in self.out]


@dataclass(eq=False)
class Seat:
    """A place for a worker: the process (None: to be started), its job and until when it may take."""

    role: str
    process: Process | None = None
    ready: bool = False
    job: Job | None = None
    number: int = 0
    deadline: float | None = None
    room: float = 0.0  # that the stage has
    failures: int = 0


class Pool:
    """All state belongs to the thread that runs `serve`; `begin`, `cancel` and `close` may be called from any."""

    def __init__(self, compilers: int, limits: Limits, pin: bool = True):
        self.limits, self.pin = limits, pin
        self.memory = limits.memory or _half_of_memory()
        self.compilers = [Seat("compile") for _ in range(compilers)]
        self.bench = Seat("measure")
        self.seats = [self.bench, *self.compilers]
        self.small: deque[Job] = deque()  # for compilers: to be ranked
        self.large: deque[Job] = deque()  # to be compiled or simulated
        self.measure: deque[Job] = deque()  # compiled
        self.best: dict[str, float] = {}  # by task
        self.default: dict[str, float] = {}  # seconds in which the default schedule was compiled and run, by task
        self.untrusted: set[str] = set()  # tasks whose default schedule can't be run
        self.alone = Alone()
        self.looked = time.monotonic()
        self.numbers = itertools.count(1)
        self.inbox: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self.bell, self._ring = os.pipe()
        os.set_blocking(self.bell, False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.bell, selectors.EVENT_READ, None)
        self.broken: TuneError | None = None
        self._lock = threading.Lock()
        self.closing = False
        self.ended = False

    # From other threads ---------------------------------------------------------------------------------------

    def begin(self, call: Call) -> None:
        self.inbox.put(call)
        self._wake()

    def cancel(self, call: Call) -> None:
        call.cancelled = True
        self._wake()

    def close(self) -> None:
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if not self.ended:
                os.write(self._ring, b"x")

    # The thread -----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        try:
            while not self.closing:
                self._take()
                self._fill()
                self._assign()
                self._wait()
                self._overdue()
        finally:
            self._end()

    def _take(self) -> None:
        """New calls."""
        while not self.inbox.empty():
            call = self.inbox.get()
            assert call is not None
            if self.broken is not None:
                call.answers.put(self.broken)
                continue
            do = {"measure": "compile", "finals": "finals"}.get(call.kind, call.kind)
            to = {"predict": self.small, "finals": self.measure}.get(call.kind, self.large)
            to.extend(Job(call, k, do) for k in range(1 if call.kind == "finals" else len(call.schedules)))

    def _fill(self) -> None:
        """Start processes where there are none."""
        for seat in self.seats:
            if seat.process is None and self.broken is None:
                try:
                    seat.process = Process(self.memory, self.pin, COMMAND)
                except OSError as e:
                    self._not_started(seat, str(e))
                    continue
                self.alone.enter(seat.process)
                seat.ready, seat.deadline = False, time.monotonic() + self.limits.start
                self.selector.register(seat.process, selectors.EVENT_READ, seat)

    def _not_started(self, seat: Seat, why: str) -> None:
        seat.failures += 1
        if seat.failures >= _TRIES:
            self.broken = TuneError(
                f"a worker process can't be started: {why}", code="tune.worker",
                hint=f"try it: {' '.join(COMMAND)} < /dev/null",
            )  # fmt: skip
            for call in {job.call for job in self._jobs()}:
                call.answers.put(self.broken)
            for jobs in (self.small, self.large, self.measure):
                jobs.clear()

    def _jobs(self) -> Iterator[Job]:
        yield from (*self.small, *self.large, *self.measure)
        yield from (seat.job for seat in self.seats if seat.job is not None)

    def _assign(self) -> None:
        """Jobs to those who have none."""
        for seat in self.seats:
            p = seat.process
            if p is None or not seat.ready or seat.job is not None or p.stopped:
                continue
            if p.jobs >= self.limits.jobs:
                self._replace(seat)
                continue
            queues = (self.measure,) if seat is self.bench else (self.small, self.large)
            job = next(filter(None, map(_first, queues)), None)
            if job is not None:
                self._give(seat, job)

    def _give(self, seat: Seat, job: Job) -> None:
        p, call, task = seat.process, job.call, job.call.task
        assert p is not None
        seat.job, seat.number = job, next(self.numbers)
        p.jobs += 1
        what: dict[str, Any] = {"id": seat.number, "do": job.do, "task": task.key}
        if task.key in self.untrusted:
            what["untrusted"] = True
        if job.do == "finals":
            what["schedules"] = [call.schedules[k] for k in job.left]
        else:
            what["schedule"] = call.schedules[job.index]
        if job.do == "measure":
            known = [b for b in (call.best, self.best.get(task.key)) if b is not None]
            what["best"] = min(known, default=None)
        self._stage(seat, "compile")
        p.send(what, task)

    def _stage(self, seat: Seat, stage: str) -> None:
        """A stage begins, and with it the time that it may take."""
        job, now = seat.job, time.monotonic()
        assert job is not None
        key = job.call.task.key
        if job.stage == "expect":
            self.default[key] = max(self.default.get(key, 0.0), now - job.began)
        best = job.call.best or self.best.get(key) or self.default.get(key, 0.0)
        room = {
            "compile": self.limits.compile,
            "expect": self.limits.compile + self.limits.check,
            "run": max(self.limits.run, RUNS * best),
            "time": max(self.limits.run, RUNS * best) + _SAMPLES * (now - job.began if job.stage == "run" else 0.0),
        }.get(stage, self.limits.check)
        if stage == "time" and job.do == "finals":
            room += _FINALS + _SAMPLES * len(job.left) * self.limits.run
        job.stage, job.began, seat.deadline, seat.room = stage, now, now + room, room

    def _wait(self) -> None:
        """Until something happens."""
        now = time.monotonic()
        deadlines = [seat.deadline for seat in self.seats if seat.deadline is not None]
        wait = min([_TICK, *(max(0.0, d - now) for d in deadlines)])
        if self.alone.wanted:
            wait = min(wait, 0.005)
        found = self.selector.select(wait)
        gap = time.monotonic() - now - wait
        if gap > _GAP:
            self._extend(gap)
        for key, _ in found:
            if key.data is None:
                os.read(self.bell, 1 << 16)
            else:
                self._hear(key.data)
        if (
            self.alone.wanted
            and self.bench.process is not None
            and self.alone.begin(self._processes, self.bench.process)
        ):
            self.bench.process.send({"go": self.bench.number})
            if self.bench.job is not None:
                self._extend(time.monotonic() - self.bench.job.began, self.bench)
        self._look()

    def _look(self) -> None:
        """From time to time, whether another tuner measures: what that takes is no time of ours."""
        now, last = time.monotonic(), self.looked
        if now - last < _TICK / 2:
            return
        self.looked = now
        if any(seat.job is not None for seat in self.seats) and self.alone.stopped(self._processes):
            self._extend(now - last)

    @property
    def _processes(self) -> list[Process]:
        return [seat.process for seat in self.seats if seat.process is not None]

    def _extend(self, seconds: float, *seats: Seat) -> None:
        for seat in seats or self.seats:
            if seat.deadline is not None:
                seat.deadline += seconds

    def _hear(self, seat: Seat) -> None:
        """What a worker has to say."""
        assert seat.process is not None
        lines = seat.process.receive()
        if lines is None:
            self._died(seat)
            return
        for line in lines:
            if "ready" in line:
                seat.ready, seat.deadline, seat.failures = True, None, 0
            elif line.get("id") == seat.number and seat.job is not None:
                if "at" in line:
                    self._heard_stage(seat, line)
                else:
                    self._quiet_ends(seat)
                    job, seat.job, seat.deadline = seat.job, None, None
                    self._answered(seat, job, line)

    def _heard_stage(self, seat: Seat, line: dict[str, Any]) -> None:
        job, stage = seat.job, line["at"]
        assert job is not None
        job.which = line.get("which", job.which)
        self._stage(seat, stage)
        if stage == "time":
            self.alone.want()
        elif stage == "timed":
            self._quiet_ends(seat)

    def _quiet_ends(self, seat: Seat) -> None:
        if seat is self.bench:
            self._extend(self.alone.end(), *self.compilers)

    # Answers --------------------------------------------------------------------------------------------------

    def _answered(self, seat: Seat, job: Job, line: dict[str, Any]) -> None:
        call, status = job.call, line["status"]
        if status == "task":
            problem = TuneError(
                f"{call.task.name} can't be measured: {line['message']}", code="tune.inputs",
                hint="give arguments that it takes: arrays in inputs=, scalars in scalars=",
            )  # fmt: skip
            call.answers.put(problem)
            call.cancelled = True
            return
        if job.do == "finals":
            for k, answer in zip(job.left, line["finals"], strict=True):
                job.out[k] = answer
            call.answers.put((0, {"finals": [job.out[k] for k in sorted(job.out)]}))
            if any(a.get("suspect") for a in job.out.values()):
                self._replace(seat)
            return
        for name, seconds in (line.get("seconds") or {}).items():
            job.seconds[name] = job.seconds.get(name, 0.0) + seconds
        if job.do == "compile" and status == "ok":
            job.do = "measure"
            self.measure.append(job)
            return
        if status == "ok" and line.get("figure") is not None and job.do == "measure":
            key = call.task.key
            self.best[key] = min(self.best.get(key, line["figure"]), line["figure"])
        self._finish(job, {**line, "status": "compile" if status == "failed" else status})
        if line.get("suspect"):
            self._replace(seat)  # who knows what else it has written to

    def _finish(self, job: Job, answer: dict[str, Any]) -> None:
        job.call.answers.put((job.index, {**answer, "seconds": job.seconds}))

    # Deaths ---------------------------------------------------------------------------------------------------

    def _overdue(self) -> None:
        now = time.monotonic()
        for seat in self.seats:
            p = seat.process
            if p is None or seat.deadline is None or p.stopped or now <= seat.deadline:
                continue
            job, stage = seat.job, seat.job.stage if seat.job else "start"
            self._unseat(seat)
            p.end()
            if job is None:
                self._not_started(seat, f"it was not ready after {self.limits.start:g} s")
                continue
            self._lost(job, True, {"status": "timeout", "message": f"{_DOING[stage]} took more than {seat.room:.3g} s"})

    def _died(self, seat: Seat) -> None:
        """A worker is gone."""
        p, job, ready = seat.process, seat.job, seat.ready
        assert p is not None
        self._unseat(seat)
        how, said, first = p.end(patience=2.0), p.said(), p.jobs <= 1
        if job is None:
            if not ready:
                self._not_started(seat, f"{how}: {said}" if said else how)
            return
        known = "out of memory" in said.lower() or "bad_alloc" in said or "cannot allocate" in said.lower()
        status = "memory" if known or how == "SIGKILL" else "crash"
        what = "the system killed it: most likely there was not enough memory" if how == "SIGKILL" else how
        message = f"{_DOING[job.stage]} ended with {what}" if status == "crash" else what
        last = said.splitlines()[-1] if said else ""
        self._lost(job, first, {"status": status, "message": f"{message} ({last})" if last else message})

    def _lost(self, job: Job, first: bool, answer: dict[str, Any]) -> None:
        """A job whose worker is gone. Where the default schedule was running, it is done again without. Where it was not
        the worker's first job, it is done again in a new one: it may have been the one before that broke something."""
        if job.call.cancelled:
            return
        if job.stage == "expect":
            self.untrusted.add(job.call.task.key)
        elif job.do == "finals" and job.left:
            job.out[job.left[min(job.which, len(job.left) - 1)]] = answer
            if not job.left:
                job.call.answers.put((0, {"finals": [job.out[k] for k in sorted(job.out)]}))
                return
        elif first or job.retried:
            self._finish(job, answer)
            return
        else:
            job.retried = True
        to = self.measure if job.do in ("measure", "finals") else self.small if job.do == "predict" else self.large
        to.appendleft(job)

    def _unseat(self, seat: Seat) -> None:
        assert seat.process is not None
        self._quiet_ends(seat)
        self.selector.unregister(seat.process)
        self.alone.leave(seat.process)
        seat.process, seat.ready, seat.job, seat.deadline = None, False, None, None

    def _replace(self, seat: Seat) -> None:
        p = seat.process
        assert p is not None
        self._unseat(seat)
        p.end()

    def _end(self) -> None:
        """All processes, and the calls that nobody will answer."""
        self.alone.end()
        for p in self._processes:
            self.alone.leave(p)
            p.end()
        closed = TuneError("this measurer was closed", code="tune.closed", hint="make a new one")
        while not self.inbox.empty():
            self.inbox.get().answers.put(closed)  # type: ignore[union-attr]
        for call in {job.call for job in self._jobs()}:
            call.answers.put(closed)
        self.selector.close()
        with self._lock:
            self.ended = True
            os.close(self.bell)
            os.close(self._ring)


_DOING = {
    "start": "its start",
    "compile": "its compilation",
    "check": "its check at small sizes",
    "expect": "the default schedule",
    "run": "its first run",
    "time": "its timing",
    "timed": "its timing",
}


def _first(jobs: deque[Job]) -> Job | None:
    """The next job of a queue that somebody still waits for."""
    while jobs:
        job = jobs.popleft()
        if not job.call.cancelled:
            return job
    return None


def _half_of_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return None


__all__ = ["Call", "Job", "Pool", "Seat"]

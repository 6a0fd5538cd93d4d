"""The process that compiles or measures candidates: `python -m tilewright.autotune.measure.worker`.

It reads a job a line from its standard input and writes what it does and what comes out to its standard output, all JSON.
It knows kernels and schedules by their text alone. Whatever else writes to the standard output (native code, libraries)
goes to the standard error. When its input ends it ends, in the middle of a job too: then the tuner is gone.

    {"task": KEY, "is": {...}}                                              no answer
    {"id": 1, "do": "compile", "task": KEY, "schedule": TEXT}               {"id": 1, "status": "ok", "seconds": {...}}
    {"id": 2, "do": "measure", ..., "best": 0.02}    {"id": 2, "at": "check"} ... {"id": 2, "at": "time"}  (waits for "go")
    {"id": 3, "do": "finals", "schedules": [...]}    {"id": 3, "at": "check", "which": 0} ...
    {"id": 4, "do": "predict", ...}                                         {"id": 4, "status": "ok", "figure": 0.02}
    {"id": 5, "do": "figure", ...}                                          the same, of a simulated machine
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from tilewright.autotune.measure.bench import Bench, Refused, Unmeasurable
from tilewright.autotune.measure.task import Task
from tilewright.autotune.measure.timing import Policy, Times
from tilewright.lang.errors import TilewrightError

_KEPT = 4  # tasks at a time


class Worker:
    """Does jobs one after the other; `out` is the file that answers go to."""

    def __init__(self, out: Any, policy: Policy):
        self.out, self.policy = out, policy
        self.tasks: dict[str, Task] = {}
        self.benches: dict[str, Bench] = {}
        self.lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    # Talking --------------------------------------------------------------------------------------------------

    def say(self, **what: Any) -> None:
        self.out.write(json.dumps(what) + "\n")
        self.out.flush()

    def read(self, source: Any) -> None:
        """Take lines in, in a thread of its own; the end of them is the end of the process."""
        for line in source:
            self.lines.put(json.loads(line))
        os._exit(0)

    def serve(self) -> None:
        from tilewright.autotune.fingerprint import Fingerprint

        self.say(ready=os.getpid(), fingerprint=Fingerprint.here().as_json())
        while True:
            job = self.lines.get()
            assert job is not None
            if "is" in job:
                self.tasks[job["task"]] = Task.from_json(job["is"])
            elif "do" in job:
                self.answer(job)

    def answer(self, job: Mapping[str, Any]) -> None:
        """One job's answer, whatever happens in it."""
        try:
            found = getattr(self, f"do_{job['do']}")(job)
        except Refused as e:
            found = {"status": e.status, "message": e.message, "suspect": e.suspect}
        except MemoryError as e:
            found = {"status": "memory", "message": str(e) or "there is not enough memory"}
        except Unmeasurable as e:
            found = {"status": "task", "message": e.message}
        except Exception as e:
            message = e.message if isinstance(e, TilewrightError) else f"{type(e).__name__}: {e}"
            found = {"status": "failed", "message": message}
        self.say(id=job["id"], **found)

    def report(self, job: Mapping[str, Any], **more: Any) -> Any:
        """What tells of the stages of a job; before "time" it waits until the tuner says that nothing else runs."""

        def said(stage: str) -> None:
            self.say(id=job["id"], at=stage, **more)
            while stage == "time" and self.lines.get() != {"go": job["id"]}:
                pass

        return said

    def bench(self, job: Mapping[str, Any]) -> Bench:
        key = job["task"]
        if key not in self.benches:
            while len(self.benches) >= _KEPT:
                self.benches.pop(next(iter(self.benches)))
                gc.collect()
            self.benches[key] = Bench.of(self.tasks[key])
        found = self.benches[key] = self.benches.pop(key)
        if job.get("untrusted"):
            found.trusted = False
        return found

    # Jobs -----------------------------------------------------------------------------------------------------

    def do_compile(self, job: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        self.bench(job).compiled(job["schedule"])
        return {"status": "ok", "seconds": {"compile": time.perf_counter() - start}}

    def do_predict(self, job: Mapping[str, Any]) -> dict[str, Any]:
        bench = self.bench(job)
        found = bench.model.predict(bench.schedule(job["schedule"]))
        return {"status": "ok", "figure": found.cost}

    def do_figure(self, job: Mapping[str, Any]) -> dict[str, Any]:
        from tilewright.autotune.measure.simulated import figure

        start = time.perf_counter()
        found = figure(self.bench(job), job["schedule"])
        return {"status": "ok", "figure": found, "samples": 1, "seconds": {"run": time.perf_counter() - start}}

    def do_measure(self, job: Mapping[str, Any]) -> dict[str, Any]:
        bench, report = self.bench(job), self.report(job)
        start = time.perf_counter()
        kernel = bench.compiled(job["schedule"])
        loaded = time.perf_counter()
        bench.check(kernel, report)
        checked = time.perf_counter()
        found = bench.time(kernel, job.get("best"), report, self.policy)
        seconds = {"compile": loaded - start, "check": checked - loaded, "run": time.perf_counter() - checked}
        return {"status": "ok", "message": "; ".join(bench.checks.skipped), "seconds": seconds, **_figures(found)}

    def do_finals(self, job: Mapping[str, Any]) -> dict[str, Any]:
        bench = self.bench(job)
        answers: list[dict[str, Any]] = []
        kernels = {}
        for k, text in enumerate(job["schedules"]):
            report = self.report(job, which=k)
            try:
                report("compile")
                kernel = bench.compiled(text)
                bench.check(kernel, report)
            except Refused as e:
                answers.append({"status": e.status, "message": e.message, "suspect": e.suspect})
            else:
                kernels[k] = kernel
                answers.append({"status": "ok"})
        found = bench.finals(list(kernels.values()), self.report(job), self.policy) if kernels else []
        for k, times in zip(kernels, found, strict=True):
            answers[k] |= _figures(times)
        return {"status": "ok", "finals": answers}


def _figures(found: Times) -> dict[str, Any]:
    return {"figure": found.best, "samples": len(found.samples), "median": found.median, "spread": found.spread}


def warm() -> None:
    """Import and build what every job needs: the first one should not take longer than the others."""
    import tilewright.codegen.emit
    import tilewright.codegen.lower
    import tilewright.schedule.text
    from tilewright.codegen import runtime, target

    target.machine()
    runtime.address("parallel_for")
    assert tilewright.codegen.emit
    assert tilewright.codegen.lower
    assert tilewright.schedule.text


def limit_memory(size: int) -> None:
    """Let this process have so many bytes more than it has now (where the system can do that)."""
    try:
        import resource
        from pathlib import Path

        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + size, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError):
        return


def tie(fd: int) -> None:
    """Have the system kill this process when the other end of a pipe is closed: also in the middle of native code, and while
    it is stopped (Linux; elsewhere the end of the standard input does nearly that)."""
    if sys.platform != "linux":
        return
    import fcntl
    import signal

    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(fd, 10, signal.SIGKILL)  # F_SETSIG
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tilewright.autotune.measure.worker")
    parser.add_argument("--memory", type=int, help="bytes that jobs may take")
    parser.add_argument(
        "--life", type=int, help="a file descriptor: the process lives as long as its other end is open"
    )
    parser.add_argument("--float", action="store_true", help="one thread is not bound to a processor while it is timed")
    given = parser.parse_args()
    if given.life is not None:
        tie(given.life)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    source = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    worker = Worker(out, Policy(pin=not given.float))
    threading.Thread(target=worker.read, args=(source,), daemon=True).start()
    warm()
    if given.memory is not None:
        limit_memory(given.memory)
    with contextlib.suppress(BrokenPipeError):
        worker.serve()


if __name__ == "__main__":
    sys.exit(main())

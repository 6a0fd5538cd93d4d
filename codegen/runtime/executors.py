"""Parallel loops on somebody else's threads: a context whose `parallel_for` hands tasks to a Python
executor."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from tilewright.codegen import abi, runtime


class Future(Protocol):
    """What `submit` returns; `concurrent.futures.Future` is one."""

    def cancel(self) -> bool:
        """Give up a task that has not started; False when it runs or has run."""
        ...

    def result(self) -> Any:
        """Wait for the task."""
        ...


class Executor(Protocol):
    """What runs tasks; `concurrent.futures.ThreadPoolExecutor` is one. Its threads must be of this
    process."""

    def submit(self, function: Callable[[], Any], /) -> Future:
        """Start a call of `function`, some time, in some thread."""
        ...


_here = threading.local()


def inside() -> bool:
    """Whether this thread runs a task of a parallel loop."""
    return getattr(_here, "inside", False)


class _Loop:
    """One parallel loop: hands out task numbers in order, keeps the code of the smallest task that failed."""

    def __init__(self, body: Callable[[int | None, int], int], env: int | None, n: int):
        self._body, self._env, self._n = body, env, n
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._failed: tuple[int, int] | None = None

    def run(self) -> None:
        outer, _here.inside = inside(), True
        try:
            while self._failed is None and (task := next(self._numbers)) < self._n:
                code = self._body(self._env, task)
                if code:
                    with self._lock:
                        self._failed = min(self._failed or (task, code), (task, code))
        finally:
            _here.inside = outer

    def code(self) -> int:
        return self._failed[1] if self._failed else 0


def context_for(executor: Executor, threads: int | None = None) -> abi.Context:
    """A context whose parallel loops run on `executor` and in the caller, `threads` at most in all.

    The caller takes tasks as well and never waits for a task that has not started, so a busy executor, or one that has
    been shut down, only makes the loop less parallel. A loop inside a task runs in the task's thread, as in our own pool.
    Memory comes from our own allocator. The context must be kept alive while kernels use it.
    """
    count = runtime.default_threads() if threads is None else max(1, threads)

    def parallel_for(_context: int, body: int, env: int | None, n: int, _work: int) -> int:
        loop = _Loop(abi.BODY(body), env, n)
        futures: list[Future] = []
        try:
            for _ in range(0 if inside() else min(count, n) - 1):
                futures.append(executor.submit(loop.run))
        except RuntimeError:  # shut down: the caller does what is left
            pass
        loop.run()
        for future in futures:
            if not future.cancel():
                future.result()
        return loop.code()

    callback = abi.PARALLEL_FOR(parallel_for)
    function = ctypes.cast(callback, ctypes.c_void_p).value
    result = abi.Context(count, function, runtime.address("alloc"), runtime.address("release"), None)
    result.callback = callback  # kept alive with the context
    return result

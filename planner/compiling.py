"""The kernels of a plan, compiled side by side: most of the time is LLVM's, which needs Python's lock as little as it
needs ours."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Hashable, Mapping
from typing import TypeVar

from tilewright.codegen.compile import Compiled, compile_schedule
from tilewright.codegen.runtime.processors import available
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule

Key = TypeVar("Key", bound=Hashable)


def compile_all(wanted: Mapping[Key, tuple[Pipeline, Schedule]], mode: str) -> dict[Key, Compiled]:
    """A kernel for each of `wanted`, in their order, by as many threads as the process has processors.

    Each kernel is what it would be if it were compiled alone. What is raised is the error of the first that has one.
    """
    made: dict[Key, Compiled | Exception] = {}
    todo, take = iter(wanted.items()), threading.Lock()

    def work() -> None:
        while True:
            with take:
                item = next(todo, None)
            if item is None:
                return
            key, (p, schedule) = item
            try:
                made[key] = compile_schedule(p, schedule, mode)
            except Exception as problem:
                made[key] = problem

    others = min(len(available()), len(wanted)) - 1
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(others)]
    for t in threads:
        t.start()
    try:
        work()
    finally:
        with take:
            todo = iter(())  # after an interruption nothing else begins
        for t in threads:
            t.join()
    found: dict[Key, Compiled] = {}
    for key in wanted:
        kernel = made[key]
        if isinstance(kernel, Exception):
            raise kernel
        found[key] = kernel
    return found


__all__ = ["compile_all"]

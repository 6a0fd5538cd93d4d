"""The worker, of which some candidates are made to fail: a comment in a schedule's text says how."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from typing import Any

import numpy as np

from tilewright.autotune.measure import bench, worker
from tilewright.autotune.model.predict import Prediction

compiled = bench.Bench.compiled


class Broken:
    """A kernel with a fault in it. `at`: at which size M it shows."""

    def __init__(self, kernel: Any, fault: str):
        self.kernel, self.fault = kernel, fault

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if self.fault == "nothing":
            return out
        if self.fault == "throws":
            raise ValueError("it throws")
        if self.fault == "memory":
            raise MemoryError
        if self.fault == "noise":
            os.write(1, b"native noise {\n")
            print("noise of Python", '{"id": 1}')
        if self.fault == "segfault":
            ctypes.string_at(0)
        if self.fault == "abort":
            sys.stderr.write("LLVM ERROR: out of memory\n")
            sys.stderr.flush()
            os.abort()
        if self.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "exit":
            os._exit(3)
        if self.fault == "hang":
            ctypes.PyDLL(None).usleep(60_000_000)  # with the interpreter's lock
        result = self.kernel(*args, out=out, **kwargs)
        if self.fault == "beyond":
            ctypes.memset(out.ctypes.data + out.nbytes, 0, 4)
        if self.fault == "before":
            ctypes.memset(out.ctypes.data - 8, 0, 4)
        if self.fault == "input":
            next(a for a in kwargs.values() if isinstance(a, np.ndarray))[...] = 0
        if self.fault == "tail" and out.size:
            out[-1:] = 0
        if self.fault == "large" and max(out.shape) >= 150:
            out[..., 140:] = 7
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


def faulty(self: Any, text: str) -> Any:
    found = re.search(r"# (\w+) in (\w+)", text)
    kernel = compiled(self, text)
    if found is None:
        return kernel
    fault, where = found.groups()
    if where == "compile":
        if fault == "hang":
            time.sleep(60)
        Broken(lambda *a, **k: None, fault)()
    return Broken(kernel, fault) if where == "call" else kernel


class Instant(bench.Bench):
    """Its bound is not that of this machine, whose peak it takes seconds to measure."""

    @property
    def bound(self) -> float:  # type: ignore[override]
        return 1e9 if self.task.seed == 99 else 0.0

    @property
    def default(self) -> Any:  # type: ignore[override]
        if self.task.seed == 98 and self.trusted:
            ctypes.string_at(0)
        return super().default

    @property
    def model(self) -> Any:  # type: ignore[override]
        return self

    def predict(self, schedule: Any) -> Any:
        return Prediction(1.0)


bench._REFERENCE = 0.0  # the default schedule says what is right
bench.Bench.compiled = faulty  # type: ignore[method-assign]
worker.Bench = Instant  # type: ignore[misc]
Instant.of = staticmethod(lambda task: Instant(task))  # type: ignore[method-assign]

if __name__ == "__main__":
    worker.main()

"""A worker as the tuner sees it: a process of its own session that is talked to in lines and can be killed at any time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.autotune.measure.task import Task

# without the current folder among the places to import from: what lies there is the user's
COMMAND = (sys.executable, "-P", "-m", "tilewright.autotune.measure.worker")
_LOOKING = (
    "TILEWRIGHT_DEBUG",
    "TILEWRIGHT_COVERAGE",
    "TILEWRIGHT_DUMP",
    "TILEWRIGHT_REFERENCE",
)  # other code, or slower
_TAIL = 2000  # bytes of what it wrote to its standard error


class Process:
    """A running worker. It ends when this process does, however that ends: `life` is the other end of a pipe of its."""

    def __init__(self, memory: int | None, pin: bool = True, command: Sequence[str] = COMMAND):
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        there, self.life = os.pipe()
        options = [] if memory is None else ["--memory", str(memory)]
        options += [] if pin else ["--float"]
        try:
            self.popen = subprocess.Popen(
                [*command, *options, "--life", str(there)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                start_new_session=True, pass_fds=(there,),
                env={name: value for name, value in os.environ.items() if name not in _LOOKING},
            )  # fmt: skip
        except OSError:
            os.close(self.life)
            self.log.close()
            raise
        finally:
            os.close(there)
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.input, self.output = self.popen.stdin, self.popen.stdout
        os.set_blocking(self.output.fileno(), False)
        self._half = b""
        self._told: set[str] = set()
        self.jobs = 0  # that it has begun
        self.stopped = False

    def fileno(self) -> int:
        """What to wait on for its answers."""
        return self.output.fileno()

    def send(self, what: Mapping[str, Any], task: Task | None = None) -> None:
        """One line, after the task that it is about where that is new. A worker that is gone is noticed when it is read."""
        lines = []
        if task is not None and task.key not in self._told:
            self._told.add(task.key)
            lines.append({"task": task.key, "is": task.as_json()})
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.input.write(b"".join(json.dumps(line).encode() + b"\n" for line in (*lines, what)))
            self.input.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """The lines that are there; None once there will be no more."""
        try:
            data = os.read(self.output.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, self._half = (self._half + data).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    def pause(self) -> None:
        """Stop it until `resume`."""
        self.stopped = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.stopped:
            self.stopped = False
            self._signal(signal.SIGCONT)

    def end(self, patience: float = 0.0) -> str:
        """Kill it, all its threads and children, unless it ends by itself within `patience` seconds; how it ended."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(patience)
        self._signal(signal.SIGKILL)
        code = self.popen.wait()
        self.output.close()
        os.close(self.life)
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def said(self) -> str:
        """The last lines of its standard error."""
        size = os.fstat(self.log.fileno()).st_size
        data = os.pread(self.log.fileno(), _TAIL, max(0, size - _TAIL))
        return data.decode("utf-8", "replace").strip()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)


__all__ = ["COMMAND", "Process"]

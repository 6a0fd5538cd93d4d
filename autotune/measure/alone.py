"""Being alone while the clock is read: all other workers on this machine, of this tuner and of others, are stopped, and
the tuner itself does nothing that can wait.

A folder of the user's has a lock (a file that the system unlocks when its holder is gone) and a file for each worker.
Who dies while others are stopped leaves them so; their own tuners let them go on once the lock is free.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.autotune.measure.process import Process
from tilewright.autotune.measure.quiet import Quiet

_PATIENCE = 20.0  # seconds that another tuner may measure at a time: one that takes longer is stopped itself


class Alone:
    """The lock, and who is stopped meanwhile."""

    def __init__(self) -> None:
        self.wanted = False
        self.quiet = Quiet()
        self._locked = False
        self._waiting = time.monotonic()  # since then for the lock
        self._free = time.monotonic()  # when nobody else had it
        self._paused: list[Process] = []
        self._strangers: list[int] = []
        self._since: float | None = None
        self._folder = _folder()
        self._file = None if self._folder is None else _opened(self._folder / "lock")

    def enter(self, p: Process) -> None:
        """A worker of ours that others are to stop."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / str(p.popen.pid)).write_text(_begun(p.popen.pid) or "")

    def leave(self, p: Process) -> None:
        """One that is gone."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / str(p.popen.pid)).unlink()

    def want(self) -> None:
        """From now on `begin` is tried."""
        self.wanted = True
        self._waiting = time.monotonic()

    def begin(self, own: Sequence[Process], measuring: Process) -> bool:
        """Stop all but the one that measures, unless another tuner measures right now, or this one works."""
        impatient = time.monotonic() - self._waiting > _PATIENCE
        if self._file is not None and not self._locked and not _locked(self._file) and not impatient:
            return False
        self._locked = True
        if not self.quiet.begin():
            return False
        self.wanted, self._since = False, time.monotonic()
        self._paused = [p for p in own if p is not measuring]
        for p in self._paused:
            p.pause()
        ours = {p.popen.pid for p in own}
        self._strangers = [pid for pid in self._others() if pid not in ours]
        for pid in self._strangers:
            _signal(pid, signal.SIGSTOP)
        return True

    def end(self) -> float:
        """Let the others go on; for how many seconds they were stopped."""
        self.wanted = False
        self.quiet.end()
        if self._locked and self._file is not None and self._since is None:
            _unlock(self._file)
        self._locked = False
        if self._since is None:
            return 0.0
        took, self._since = time.monotonic() - self._since, None
        for p in self._paused:
            if p.popen.returncode is None:
                p.resume()
        for pid in self._strangers:
            _signal(pid, signal.SIGCONT)
        self._paused, self._strangers = [], []
        if self._file is not None:
            _unlock(self._file)
        return took

    def stopped(self, own: Sequence[Process]) -> bool:
        """Whether another tuner measures now, so that ours wait. Where none does, ours go on: one may have died, or have
        been stopped by its user."""
        now = time.monotonic()
        if self._locked or self._file is None:
            self._free = now
            return False
        locked = _locked(self._file)
        if not locked and now - self._free < _PATIENCE:
            return True
        for p in own:
            _signal(p.popen.pid, signal.SIGCONT)
        if locked:
            self._free = now
            _unlock(self._file)
        return False

    def _others(self) -> Iterator[int]:
        """All workers of this machine that are alive."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                if not entry.name.isdigit():
                    continue
                begun = _begun(int(entry.name))
                if begun is not None and begun == Path(entry.path).read_text():
                    yield int(entry.name)
                else:  # its tuner could not tidy up
                    Path(entry.path).unlink(missing_ok=True)


def _folder() -> Path | None:
    """One of this user's alone; None where there can be none."""
    try:
        folder = Path(tempfile.gettempdir()) / f"tilewright-measure-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
    except (OSError, AttributeError):
        return None
    private = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077
    return folder if private else None


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _begun(pid: int) -> str | None:
    """When a process began, by the system's ticks: tells it from a later one of the same number. None: it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def _signal(pid: int, number: int) -> None:
    """To a worker and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _locked(file: int) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that has no locks
        return True
    return True


def _unlock(file: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


__all__ = ["Alone"]

"""Being alone while the clock is read: compilers of ours are stopped, other tuners on this machine wait their turn."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.autotune.measure.process import Process


class Alone:
    """A lock of the machine (a file that the system unlocks when its holder is gone), and who is stopped meanwhile."""

    def __init__(self) -> None:
        self.wanted = False
        self._paused: list[Process] = []
        self._since: float | None = None
        self._file = _lock_file()

    def want(self) -> None:
        """From now on `begin` is tried."""
        self.wanted = True

    def begin(self, others: Sequence[Process]) -> bool:
        """Stop the others, unless another tuner measures right now."""
        if self._file is not None and not _locked(self._file):
            return False
        self.wanted, self._since = False, time.monotonic()
        self._paused = list(others)
        for p in self._paused:
            p.pause()
        return True

    def end(self) -> float:
        """Let the others go on; for how many seconds they were stopped."""
        self.wanted = False
        if self._since is None:
            return 0.0
        took, self._since = time.monotonic() - self._since, None
        for p in self._paused:
            if p.popen.returncode is None:
                p.resume()
        self._paused = []
        if self._file is not None:
            _unlock(self._file)
        return took


def _lock_file() -> int | None:
    """One for each user of the machine; None where there can be none."""
    try:
        name = Path(tempfile.gettempdir()) / f"tilewright-measure-{os.getuid()}.lock"
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (OSError, AttributeError):
        return None


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

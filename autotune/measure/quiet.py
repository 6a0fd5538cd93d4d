"""The tuner's own process keeps still while the clock is read: what it computes takes turns with that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE = 60.0  # seconds that work waits for a window to end


class Quiet:
    """Either some threads work, or there is a window in which the clock is read. A window that is wanted comes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0
        self._window = self._wanted = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work of a second at most, in any thread; it begins when no window is open or wanted."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._window or self._wanted), _PATIENCE)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1

    def begin(self) -> bool:
        """Open a window; where somebody works it is wanted from now on, and to be asked for again."""
        with self._changed:
            self._wanted = True
            if self._working:
                return False
            self._window = True
            return True

    def end(self) -> None:
        """Close the window, and want none."""
        with self._changed:
            self._window = self._wanted = False
            self._changed.notify_all()


__all__ = ["Quiet"]

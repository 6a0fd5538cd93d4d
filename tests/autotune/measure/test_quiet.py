"""The tuner's own work and what is timed take turns; what is timed comes first."""

from __future__ import annotations

import threading

from tilewright.autotune.measure.quiet import Quiet


def test_a_window_waits_for_work_and_work_for_a_window() -> None:
    quiet, done = Quiet(), threading.Event()

    def work() -> None:
        with quiet.working():
            done.set()

    with quiet.working(), quiet.working():  # several threads may work
        assert not quiet.begin()
    assert quiet.begin()
    thread = threading.Thread(target=work)
    thread.start()
    assert not done.wait(0.05)
    quiet.end()
    assert done.wait(10)
    thread.join()


def test_a_window_that_is_wanted_comes_before_more_work() -> None:
    quiet, done = Quiet(), threading.Event()

    def work() -> None:
        with quiet.working():
            done.set()

    with quiet.working():
        assert not quiet.begin()
        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.05)
    assert quiet.begin()
    assert not done.is_set()
    quiet.end()
    thread.join(10)
    assert done.is_set()


def test_what_is_no_longer_wanted_holds_nobody_up() -> None:
    quiet = Quiet()
    with quiet.working():
        assert not quiet.begin()
        quiet.end()
        with quiet.working():
            pass

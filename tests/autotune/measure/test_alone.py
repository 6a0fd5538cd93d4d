"""While one measures, the workers of all others stand still; and they go on whatever becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.autotune.measure import alone
from tilewright.autotune.measure.alone import Alone
from tilewright.autotune.measure.process import Process

SLEEP = (sys.executable, "-c", "import time; print('{}', flush=True); time.sleep(60)")


DYING = """
import os, sys, tempfile
from tilewright.autotune.measure.alone import Alone
tempfile.tempdir = sys.argv[1]
a = Alone()
print(a.begin([], None), flush=True)
os._exit(1)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"tilewright-measure-{os.getuid()}"


@pytest.fixture
def workers() -> Iterator[list[Process]]:
    made = [Process(None, command=SLEEP) for _ in range(3)]
    yield made
    for p in made:
        p.end()


def state(p: Process) -> str:
    return Path(f"/proc/{p.popen.pid}/stat").read_text().rpartition(")")[2].split()[0]


def becomes(p: Process, stopped: bool) -> None:
    end = time.monotonic() + 10
    while (state(p) == "T") != stopped:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_all_but_the_one_that_measures_are_stopped(workers: list[Process], folder: Path) -> None:
    here, there = Alone(), Alone()
    mine, measuring, other = workers
    for p in (mine, measuring):
        here.enter(p)
    there.enter(other)
    here.want()
    assert here.begin([mine, measuring], measuring)
    becomes(mine, True)
    becomes(other, True)
    becomes(measuring, False)
    assert not there.begin([other], other), "one at a time"
    assert there.stopped([other])
    assert here.end() > 0
    becomes(mine, False)
    becomes(other, False)
    assert not there.stopped([other])
    assert there.begin([other], other)
    assert there.end() >= 0
    assert here.end() == 0
    for p in (mine, measuring):
        here.leave(p)
    there.leave(other)
    assert os.listdir(folder) == ["lock"]


def test_who_was_stopped_by_one_that_died_goes_on(workers: list[Process], folder: Path) -> None:
    there, other = Alone(), workers[0]
    there.enter(other)
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(folder.parent)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.stdout == "True\n"
    becomes(other, True)
    assert not there.stopped([other])
    becomes(other, False)


def test_one_that_never_ends_is_not_waited_for(workers: list[Process], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there, other = Alone(), Alone(), workers[0]
    here.enter(other)
    assert there.begin([], workers[1])
    here.want()
    assert here.stopped([other])
    assert not here.begin([other], other)
    monkeypatch.setattr(alone, "_PATIENCE", -1.0)
    becomes(other, True)
    assert not here.stopped([other])
    becomes(other, False)
    assert here.begin([other], other)
    here.end()
    there.end()


def test_files_of_processes_that_are_gone_are_removed(workers: list[Process], folder: Path) -> None:
    here = Alone()
    here.enter(workers[0])
    (folder / "1").write_text("0")  # a number that another process has now
    gone = folder / str(2**22 + 1)
    gone.write_text("5")
    assert here.begin([], workers[1])
    here.end()
    assert sorted(os.listdir(folder)) == sorted(["lock", str(workers[0].popen.pid)])


def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, workers: list[Process]) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    here = Alone()
    here.enter(workers[0])
    assert here.begin([workers[0]], workers[1])
    becomes(workers[0], True)
    here.end()
    becomes(workers[0], False)
    assert os.listdir(folder) == []

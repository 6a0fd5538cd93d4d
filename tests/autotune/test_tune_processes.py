"""The tuner with real workers: a whole run, one that is interrupted, and one that is killed and goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.autotune.test_space import double
from tilewright.autotune.records import Records

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

PROGRAM = """
import tilewright as tw

M, N = tw.sizes("M N")

@tw.kernel
def twice(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    B = tw.func("B")
    B[i, j] = A[i, j] * 2.0
    return B[:M, :N]

def tiles(s, choose):
    rows, columns = choose("rows", tuple(range(1, 65))), choose("columns", tuple(range(1, 257)))
    s["B"].tile("i", "j", "io", "jo", "ii", "ji", rows, columns)
    if choose("parallel", (False, True)):
        s["B"].parallel("io")
"""


def test_a_whole_run(tmp_path: Path):
    records = Records(tmp_path / "records.db")
    found = tw.tune(double, {"M": 32, "N": 64}, trials=4, budget_s=60, threads=1, records=records, progress="none")
    r = found.results[0]
    assert found.stopped == "trials"
    assert r.figure is not None
    assert r.default is not None
    assert r.figure <= r.default
    assert r.finals or str(r.schedule) == str(found.best)
    a = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    assert np.array_equal(found.kernel()(a), a * 2)
    assert len(records) >= 4
    assert tw.dispatch(double, records).explain(a).schedule is not None


def command(folder: Path, *more: str) -> list[str]:
    program = folder / "twice.py"
    program.write_text(PROGRAM)
    sizes = ("--size", "M=64,N=256", "--space", "tiles", "--threads", "1", "--progress", "lines")
    return [sys.executable, "-m", "tilewright", "tune", str(program), *sizes, "--records", str(folder / "r.db"), *more]


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    """A tuner that has written down what it measured of three candidates at least. Its space has more of them than there is
    time for: it can't be over before somebody ends it."""
    p = subprocess.Popen(command(folder, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and p.poll() is None:
        if (folder / "r.db").exists():
            with Records(folder / "r.db") as records:
                if len(records) >= 3:
                    return p
        time.sleep(0.1)
    raise AssertionError(p.communicate())


def test_an_interruption_prints_the_best_so_far(tmp_path: Path):
    p = started(tmp_path, "--json", "--budget", "10m")
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=20)
    assert p.returncode == 130
    said = json.loads(out)
    assert said["stopped"] == "interrupted"
    assert not said["complete"]
    assert said["results"][0]["figure"] > 0


def test_a_tuner_that_is_killed_loses_nothing_and_goes_on(tmp_path: Path):
    p = started(tmp_path, "--budget", "10m")
    p.kill()
    p.communicate(timeout=20)
    with Records(tmp_path / "r.db") as records:
        assert not records.problems
        before = {r.schedule for r in records if r.stage == "search"}
    assert len(before) >= 3
    done = subprocess.run(
        command(tmp_path, "--trials", "3", "--json"), capture_output=True, text=True, timeout=60, check=True
    )
    said = json.loads(done.stdout)["results"][0]
    assert said["tried"] == 3
    assert said["reused"] >= 1
    with Records(tmp_path / "r.db") as records:
        all_ = [r.schedule for r in records if r.stage == "search"]
    assert len(set(all_)) == len(all_) == len(before) + 3

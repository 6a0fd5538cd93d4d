"""Random pipelines under random schedules, three ways: the reference, the loop IR interpreted, machine code between
guard pages. A failure names its seed; `python -m tests.fuzz.worker SEED 1 --loops --machine` runs it again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import trials, worker

ROOT = Path(__file__).parents[2]
FUZZ = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))
START = 0 if FUZZ == 1 else random.SystemRandom().randrange(1 << 40)  # the same for everyone, unless one looks further
BATCH = 40


@pytest.mark.parametrize("batch", range(5 * FUZZ))
def test_lowering(batch: int) -> None:
    """Nothing outside of a buffer is touched, nothing undefined used, no loop races, the values are the reference's."""
    for seed in range(START + batch * BATCH, START + (batch + 1) * BATCH):
        t = None
        try:
            rnd = random.Random(seed)
            t = trials.draw(rnd.randrange, seed, 12)
            if t is not None:
                worker.check(t, rnd, machine=False)
        except Exception as e:
            raise AssertionError(f"seed {seed}\n{t}") from e


def run_worker(start: int, count: int, *flags: str) -> None:
    """Trials in another process, which must live to the end."""
    path = os.pathsep.join(p for p in sys.path if p)  # where this process finds the package
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.worker", str(start), str(count), *flags],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    shown = "\n".join(x for x in done.stdout.splitlines() if not x.startswith("seed "))
    last = [x for x in done.stdout.splitlines() if x.startswith("seed ")][-1:]
    assert done.returncode == 0, f"exit code {done.returncode}, the last one was {last}\n{shown}\n{done.stderr[-2000:]}"


def test_machine_code() -> None:
    """The same with machine code: strided arrays, small and large temporaries, tasks in any order."""
    run_worker(START, 40 * FUZZ, "--machine")


@pytest.mark.campaign
def test_campaign() -> None:
    """Some ten minutes of both, from a new place each time."""
    start = random.SystemRandom().randrange(1 << 40)
    for k in range(10):
        run_worker(start + 1000 * k, 150 * FUZZ, "--loops", "--machine", "--steps", str(6 + 2 * k))

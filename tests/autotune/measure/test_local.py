"""Candidates that crash, hang, are wrong, take too much memory or return at once: each has its reason, and none harms
another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.autotune.errors import TuneError
from tilewright.autotune.measure import Limits, LocalMeasurer, Task, pool

HERE = Path(__file__).parent
WORKER = (sys.executable, str(HERE / "faulty_worker.py"))
SIZES = {"M": 150, "N": 160, "K": 8}


M, N, K = tw.sizes("M N K")


@tw.kernel
def product(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def schedule(width: int, fault: str = "") -> str:
    s = product.schedule()
    s["C.update"].reorder("i", "k", "j").vectorize("j", width)
    return f"{s}\n# {fault}" if fault else str(s)


@pytest.fixture(scope="module")
def measurer() -> Iterator[LocalMeasurer]:
    patch = pytest.MonkeyPatch()
    patch.setattr(pool, "COMMAND", WORKER)
    limits = Limits(compile=8.0, check=6.0, run=6.0, memory=2 << 30)
    with LocalMeasurer(compilers=1, limits=limits) as found:
        yield found
    patch.undo()


def task(**options) -> Task:
    return Task.of(product, SIZES, **options)


FAULTS = {
    "segfault in call": ("crash", "its check at small sizes ended with SIGSEGV"),
    "abort in call": ("memory", "out of memory"),
    "hang in call": ("timeout", "its check at small sizes took more than 6"),
    "memory in call": ("memory", "not enough memory"),
    "throws in call": ("wrong", "ValueError: it throws"),
    "beyond in call": ("wrong", "beyond the bounds of C"),
    "large in call": ("wrong", "at M=150, N=160, K=8"),
    "killed in compile": ("memory", "not enough memory"),
}


def test_every_fault_has_its_reason_and_the_others_are_measured(measurer: LocalMeasurer) -> None:
    good = {0: schedule(8), 1: schedule(16)}
    given = [
        good[0],
        *(schedule(8, f) for f in FAULTS),
        schedule(4, "noise in call"),
        "schedule product\n  C: none",
        good[1],
    ]
    found = {o.index: o for o in measurer.run(task(), given)}
    assert sorted(found) == list(range(len(given)))
    for k, (fault, (status, message)) in enumerate(FAULTS.items(), 1):
        assert (found[k].status, found[k].figure) == (status, None), (fault, found[k])
        assert message in found[k].message, (fault, found[k].message)
    for k in (0, len(given) - 3, len(given) - 1):
        o = found[k]
        assert o.ok, o
        assert o.figure is not None
        assert 0 < o.figure <= o.median
        assert o.samples >= 1
        assert o.fingerprint == measurer.fingerprint
        assert set(o.seconds) == {"compile", "check", "run"}
    assert found[len(given) - 2].status == "illegal"


def test_a_compiler_that_hangs_is_replaced(measurer: LocalMeasurer) -> None:
    found = list(measurer.run(task(), [schedule(8, "hang in compile"), schedule(8)]))
    assert [(o.index, o.status) for o in found] == [(0, "timeout"), (1, "ok")]
    assert found[0].message == "its compilation took more than 8 s"


def test_times_below_the_bound_are_none(measurer: LocalMeasurer) -> None:
    (found,) = measurer.run(task(seed=99), [schedule(8)])
    assert (found.status, found.figure) == ("instant", None)
    assert "less than the 1e+09 s" in found.message


def test_a_default_schedule_that_crashes_is_done_without(measurer: LocalMeasurer) -> None:
    assert [o.status for o in measurer.run(task(seed=98), [schedule(8), schedule(16)])] == ["ok", "ok"]


def test_workers_make_place_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "COMMAND", WORKER)
    with LocalMeasurer(compilers=1, limits=Limits(jobs=4)) as measurer:
        found = []
        for o in measurer.run(task(), [schedule(8) + "\n" * k for k in range(5)]):
            assert o.ok
            found.append({s.process.popen.pid for s in measurer._pool.seats if s.process is not None})
    assert len(set().union(*found)) > 2


def test_finals_leave_out_who_fails(measurer: LocalMeasurer) -> None:
    texts = [schedule(8), schedule(8, "segfault in call"), schedule(16), schedule(16, "tail in call")]
    found = measurer.finals(task(), texts)
    assert {o.index: o.status for o in found} == {0: "ok", 1: "crash", 2: "ok", 3: "wrong"}
    assert [o.ok for o in found] == [True, True, False, False]
    assert all(o.samples >= 3 for o in found if o.ok)
    assert measurer.finals(task(), []) == []


def test_a_run_that_is_given_up_leaves_the_workers_to_others(measurer: LocalMeasurer) -> None:
    for outcome in measurer.run(task(), [schedule(w) for w in (4, 8, 16)] * 10):
        assert outcome.ok
        break
    assert [o.status for o in measurer.run(task(), [schedule(8)])] == ["ok"]


def test_no_data_is_no_fault_of_a_candidate(measurer: LocalMeasurer, tmp_path: Path) -> None:
    with pytest.raises(TuneError, match="product can't be measured: FileNotFoundError") as e:
        list(measurer.run(task(inputs=str(tmp_path / "none.npz")), [schedule(8)]))
    assert e.value.code == "tune.inputs"
    assert [o.status for o in measurer.run(task(), [schedule(8)])] == ["ok"]


def test_workers_that_can_not_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-c", "import sys; sys.exit('no such thing')"))
    with LocalMeasurer(compilers=1) as measurer, pytest.raises(TuneError, match="no such thing") as e:
        list(measurer.run(task(), [schedule(8)]))
    assert e.value.code == "tune.worker"


def test_a_closed_measurer_says_so() -> None:
    measurer = LocalMeasurer(compilers=1)
    measurer.close()
    measurer.close()
    with pytest.raises(TuneError, match="closed"):
        measurer.run(task(), [])


PARENT = """
import sys, tilewright as tw
sys.path.insert(0, {folder!r})
from test_local import *
pool.COMMAND = WORKER
m = LocalMeasurer(compilers=1)
for o in m.run(task(), [schedule(8)]):
    print(*(s.process.popen.pid for s in m._pool.seats), flush=True)
list(m.run(task(), [schedule(8, "hang in call"), schedule(8, "hang in compile")]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_a_tuner_that_is_killed(number: int) -> None:
    code = textwrap.dedent(PARENT).format(folder=str(HERE))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(_alive, workers))
        parent.send_signal(number)
        parent.wait()
        end = time.monotonic() + 10
        while any(map(_alive, workers)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not any(map(_alive, workers))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False

"""A Dask cluster of two processes: work is spread, who dies loses nothing, and machines are kept apart."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.autotune.errors import TuneError
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.measure import DaskMeasurer, Task, cluster, remote

distributed = pytest.importorskip("distributed")
M, N = tw.sizes("M N")


@tw.kernel
def scaled(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    B = tw.func("B")
    B[i, j] = A[i, j] * 2.0
    return B[:M, :N]


def schedules(count: int) -> list[str]:
    """Different texts of which each is compiled once."""
    texts = []
    for k in range(count):
        s = scaled.schedule()
        s["B"].vectorize("j", 2 ** (k % 3 + 1))
        texts.append(f"{s}\n# {k}")
    return texts


TASK = Task.of(scaled, {"M": 40, "N": 50})


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as made, distributed.Client(made) as found:
        yield found


class Quicker(distributed.WorkerPlugin):
    """Has workers start processes that don't measure the machine's peak: that takes seconds."""

    def __init__(self) -> None:
        self.command = (sys.executable, str(Path(__file__).parent / "faulty_worker.py"))

    def setup(self, worker: Any) -> None:
        from tilewright.autotune.measure import pool

        pool.COMMAND = self.command


@pytest.fixture(scope="module")
def measurer(client: Any) -> Iterator[DaskMeasurer]:
    client.register_plugin(Quicker())
    with DaskMeasurer(client) as found:
        yield found


def children() -> list[int]:
    measurer = remote._measurer
    if measurer is None:
        return []
    return [seat.process.popen.pid for seat in measurer._pool.seats if seat.process is not None]


def test_a_worker_that_dies_loses_nothing(client: Any, measurer: DaskMeasurer) -> None:
    texts = schedules(24)
    found = []
    for outcome in measurer.run(TASK, texts):
        found.append(outcome)
        if len(found) == 1:
            workers, processes = client.run(children), client.run(os.getpid)
            assert len(workers) == 2
            assert all(len(pids) == 2 for pids in workers.values()), "work is spread"
            dead = next(iter(processes))
            os.kill(processes[dead], signal.SIGKILL)
    assert sorted(o.index for o in found) == list(range(24))
    assert all(o.ok for o in found), [o.message for o in found]
    assert [o.schedule for o in sorted(found, key=lambda o: o.index)] == texts
    assert {o.fingerprint for o in found} == {measurer.fingerprint} == {Fingerprint.here()}
    end = time.monotonic() + 10
    while any(map(_alive, workers[dead])) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(_alive, workers[dead])), "its own workers end with it"
    finals = measurer.finals(TASK, texts[:3])
    assert sorted(o.index for o in finals) == [0, 1, 2]
    assert all(o.ok for o in finals)
    assert measurer.predict(TASK, texts[:3]) == [1.0, 1.0, 1.0]
    assert measurer.finals(TASK, []) == []


def test_errors_come_back(measurer: DaskMeasurer, tmp_path: Path) -> None:
    with pytest.raises(TuneError, match="can't be measured") as e:
        list(measurer.run(Task.of(scaled, TASK.sizes, inputs=str(tmp_path / "none.npz")), schedules(3)))
    assert e.value.code == "tune.inputs"


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def pretend(cpu: str | None) -> None:
    """Be another machine, or the one that it is."""
    from tilewright.autotune import fingerprint

    here = fingerprint.Fingerprint.here()
    made = here if cpu is None else Fingerprint(cpu, here.features, here.caches, here.threads)
    fingerprint._here = lambda: made


def test_machines_are_kept_apart(client: Any, measurer: DaskMeasurer) -> None:
    client.wait_for_workers(2)
    for address, cpu in zip(sorted(client.nthreads()), ("One", "Other"), strict=True):
        client.run(pretend, cpu, workers=[address])
    machines = DaskMeasurer(client).fingerprints
    assert sorted(f.cpu for f in machines) == ["One", "Other"]
    for machine in machines:
        one = DaskMeasurer(client, machine)
        found = list(one.run(TASK, schedules(4)))
        assert [o.ok for o in found] == [True] * 4
        assert {o.fingerprint for o in found} == {machine} == {one.fingerprint}
        assert {o.fingerprint for o in one.finals(TASK, schedules(2))} == {machine}


def test_workers_of_another_version_are_not_used(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "versions", lambda: {"code": "another"})
    with pytest.raises(TuneError, match="no worker has this version") as e:
        DaskMeasurer(client)
    assert e.value.code == "tune.workers"


def test_what_is_under_way_is_given_up_by_closing(client: Any, measurer: DaskMeasurer) -> None:
    one = DaskMeasurer(client)
    waiting = one.run(TASK, schedules(40))
    one._closed = True  # as by `close`, which would end the processes that other tests use
    with pytest.raises(TuneError, match="closed"):
        next(waiting)
    assert not one._under_way
    with pytest.raises(TuneError, match="closed"):
        one.run(TASK, schedules(1))
    assert [o.ok for o in DaskMeasurer(client).run(TASK, schedules(1))] == [True]


def test_no_scheduler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT", 0.3)
    with pytest.raises(TuneError, match="no Dask scheduler at 127") as e:
        DaskMeasurer("dask://127.0.0.1:9")
    assert e.value.code == "tune.workers"

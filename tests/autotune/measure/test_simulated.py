"""Objectives of simulated machines: the figures of the account itself, of what fits; all else has its reason."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.autotune.errors import TuneError
from tilewright.autotune.measure import LocalMeasurer, Task
from tilewright.autotune.measure.bench import Bench, Refused
from tilewright.autotune.measure.simulated import figure
from tilewright.hw import load_machine
from tilewright.hw.machine import machine_text

M, N = tw.sizes("M N")
SIZES = {"M": 64, "N": 64}


@tw.kernel
def total(A: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    B = tw.func("B")
    B[i] = 0.0
    B[i] += A[i, k]
    return B[:M]


def staged(block: int) -> str:
    s = total.schedule(machine="snitch-cluster")
    s["B.update"].split("i", "io", "ii", block)
    s.cache_read("A", at="B.update.io", memory="tcdm")
    return str(s)


@pytest.mark.parametrize("objective", ["cycles", "bytes", "energy"])
def test_the_figure_is_that_of_the_account(objective: str) -> None:
    account = total.account(total.schedule(machine="snitch-cluster"), sizes=SIZES)
    assert account.time is not None
    main = (
        account.of("dram")
        if any(t.memory == "dram" for t in account.traffic)
        else account.of(account.traffic[0].memory)
    )
    expected = {
        "cycles": account.time.cycles,
        "bytes": main.bytes_read + main.bytes_written,
        "energy": sum(account.energy.values()),
    }[objective]
    task = Task.of(total, SIZES, objective=objective, machine="snitch-cluster")
    assert figure(Bench.of(task), str(total.schedule(machine="snitch-cluster"))) == expected > 0


def test_a_machine_may_be_given_by_its_text() -> None:
    by_name = Task.of(total, SIZES, objective="cycles", machine="snitch-cluster")
    by_text = Task.of(total, SIZES, objective="cycles", machine=machine_text(load_machine("snitch-cluster")))
    text = str(total.schedule())
    assert figure(Bench.of(by_text), text) == figure(Bench.of(by_name), text)


def test_what_does_not_fit_is_illegal() -> None:
    task = Task.of(total, {"M": 4096, "N": 4096}, objective="cycles", machine="snitch-cluster")
    with pytest.raises(Refused) as e:
        figure(Bench.of(task), staged(64))
    assert e.value.status == "illegal"
    assert "tcdm" in e.value.message


def test_they_run_in_workers() -> None:
    task = Task.of(total, SIZES, objective="cycles", machine="snitch-cluster")
    with LocalMeasurer(compilers=1) as measurer:
        found = sorted(measurer.run(task, [staged(8), staged(16), "schedule total\n  none:"]), key=lambda o: o.index)
        assert [o.status for o in found] == ["ok", "ok", "illegal"]
        assert found[0].unit == "cycles"
        assert (found[0].samples, found[0].median) == (1, None)
        order = measurer.finals(task, [staged(8), staged(16)])
        assert [o.figure for o in order] == sorted(o.figure for o in found[:2] if o.figure is not None)


def test_options_are_checked() -> None:
    for options in ({"objective": "speed"}, {"cache": "warm"}, {"threads": 0}, {"threads": True}):
        with pytest.raises(TuneError) as e:
            Task.of(total, SIZES, **options)
        assert e.value.code == "tune.option"


def test_functions_of_the_program_are_refused() -> None:
    twice = tw.extern(lambda x: 2 * x, result=tw.f32, args=(tw.f32,), name="twice")

    @tw.kernel
    def called(A: tw.f32[M]):
        i = tw.vars("i")
        B = tw.func("B")
        B[i] = twice(A[i])
        return B[:M]

    with pytest.raises(TuneError, match="called calls twice, a function of this program") as e:
        Task.of(called, {"M": 5})
    assert e.value.code == "tune.extern"


def test_a_task_goes_through_json() -> None:
    task = Task.of(total, SIZES, scalars={}, shapes=({"M": 3, "N": 4},), threads=2, cache="cold", inputs="some.npz")
    assert Task.from_json(task.as_json()) == task
    assert Task.from_json(task.as_json()).key == task.key
    assert task.key != Task.of(total, SIZES).key
    assert task.inputs is not None
    assert task.inputs.startswith("/")
    assert Task.of(total, SIZES).mode == total.mode

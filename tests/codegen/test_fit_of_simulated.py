"""A machine fitted to cycles that the simulator itself makes has the simulator's figures: the models are the same."""

from __future__ import annotations

import dataclasses

import pytest

import tilewright as tw
from tilewright.hw import Machine, load_machine
from tilewright.hw.measurements import Measurement

M, N = tw.sizes("M N")


@tw.kernel
def doubled(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    P = tw.func("P")
    P[i, j] = A[i, j] * 2.0
    return P[:M, :N]


def changed(machine: Machine, **figures: float) -> Machine:
    """The machine with other figures of its only engine."""
    (dma,) = machine.dmas
    return dataclasses.replace(machine, dmas=(dataclasses.replace(dma, **figures),))


def experiment(machine: Machine, rows: int, columns: int) -> Measurement:
    """What the core waits for copies of tiles of rows x columns into the scratchpad, each of which it needs at once."""
    s = doubled.schedule()
    s["P"].tile("i", "j", "io", "jo", "ii", "ji", rows, columns)
    s.cache_read("A", at="P.jo", memory="spm")
    account = doubled.account(s, machine=machine, sizes={"M": 16, "N": 256})
    (copies,) = account.copies
    assert account.time is not None
    return Measurement(
        "dma", account.time.waiting(), copies.bytes, copies.descriptors, copies.runs, copies.copies,
        burst_bytes=copies.burst_bytes,
    )  # fmt: skip


@pytest.mark.parametrize(
    "figures",
    [
        {"bandwidth": 8, "issue": 10, "latency": 100},
        {"bandwidth": 5.5, "issue": 0, "latency": 30, "dims": 1},
        {"bandwidth": 2, "issue": 33, "latency": 0, "dims": 1, "burst": 128},
        {"bandwidth": 7, "issue": 12, "latency": 64, "dims": 3, "burst": 16},
    ],
)
def test_the_simulator_s_own_figures(figures: dict[str, float]) -> None:
    machine = changed(load_machine("toy"), **figures)
    rows = [experiment(machine, r, c) for r, c in ((1, 256), (4, 256), (4, 64), (16, 16), (2, 128), (8, 20))]
    # Were all copies of one piece, descriptors would come with waits one to one: the engine of one dimension shows more.
    rows += [experiment(changed(machine, dims=1), r, c) for r, c in ((4, 64), (16, 32))]
    found = tw.machines.fit(load_machine("toy"), rows)
    (one,) = found.resources
    assert one.error < 1e-4
    got = found.machine.dmas[0]
    assert got.bandwidth == pytest.approx(figures["bandwidth"], rel=2e-3)
    assert got.issue == pytest.approx(figures["issue"], rel=2e-3, abs=2e-3)
    assert got.latency == pytest.approx(figures["latency"], rel=2e-3, abs=2e-3)

"""Rooflines: figures worked out by hand, words, and that a bound never exceeds what was simulated or would be with less."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.hw.random_accounts import TOY, accounts
from tests.hw.sample_account import SNITCH, sample
from tilewright.hw import Account, CopyStream, Dma, Region, Tensor, Traffic, load_machine
from tilewright.hw.cache_counts import CacheCounts, Level
from tilewright.hw.roofline import Bound, Roof, roofline


def test_by_hand_on_the_toy() -> None:
    # 16 operations a cycle; 8 bytes a cycle each way from and to main memory, 64 out of the scratchpad.
    account = Account(
        "k", "toy", {},
        (Traffic("dram", "A", bytes_read=8000, bytes_written=800), Traffic("spm", "a", bytes_read=64_000)),
        copies=(CopyStream("a.load", "a", "dram", "spm", "dma", 1, 2, 8000, 10, 8192),),
        operations={"f32": 1600}, tensors=(Tensor("A", reads=4000), Tensor("B", reads=10)),
    )  # fmt: skip
    line = account.roofline()
    whole = line.whole
    assert (whole.compute, whole.peak) == (100.0, 16.0)
    assert [(r.name, r.kind, r.bytes, r.cycles) for r in whole.roofs] == [
        ("dram", "memory", 8800, 1000.0),
        ("spm", "memory", 64_000, 1000.0),
        ("dma", "engine", 8192, 2 * 10 + 8192 / 8),
    ]
    assert whole.limit == "dma"
    assert whole.verdict == "memory bound (dma) by 10.4x"
    assert whole.intensity(whole.roofs[0]) == 1600 / 8800
    assert whole.ridge(whole.roofs[1]) == 16 / 64
    assert line.compulsory.cycles == 500.0  # B is never touched, so it is not compulsory


def test_the_words() -> None:
    def verdict(compute: float, memory: float) -> str:
        return Bound("x", "whole", int(compute), compute, (Roof("spm", "memory", 1, memory),) if memory else ()).verdict

    assert verdict(10, 23) == "memory bound (spm) by 2.3x"
    assert verdict(14, 10) == "compute bound by 1.4x"
    assert verdict(10, 10) == "compute bound, and balanced"
    assert verdict(0, 10) == "moves data only (spm)"
    assert verdict(10, 0) == "compute bound"
    assert verdict(0, 0) == "nothing to do"


def test_ports_instances_and_units() -> None:
    spm = TOY.memory("spm")
    traffic = (Traffic("spm", "a", bytes_read=640, bytes_written=320),)
    account = Account(
        "k", "toy", {}, traffic, operations={"gemm": 99}, regions=(Region("u", "compute", {}, {"gemm": 50.0}),)
    )

    def cycles(**changes) -> float:
        memories = tuple(replace(m, **changes) if m is spm else m for m in TOY.memories)
        return roofline(account, replace(TOY, memories=memories)).whole.roofs[0].cycles

    assert cycles() == 10.0  # 640/64 beside 320/32
    assert cycles(ports="shared") == 20.0
    cores = replace(TOY, compute=replace(TOY.compute, cores=4))
    shared = replace(cores, memories=tuple(replace(m, per="core") if m is spm else m for m in cores.memories))
    assert roofline(account, shared).whole.roofs[0].cycles == 2.5
    assert roofline(account, TOY).whole.compute == 50.0


@pytest.mark.parametrize("contention, cycles", [("independent", 510.0), ("fifo", 1000.0), ("partitioned", 1010.0)])
def test_channels(contention: str, cycles: float) -> None:
    (dma,) = TOY.dmas
    two: Dma = replace(dma, channels=2, contention=contention)
    account = Account("k", "toy", copies=(CopyStream("a", "a", "dram", "spm", "dma", 2, 2, 8000, 1, 8000),))
    (roof,) = roofline(account, replace(TOY, dmas=(two,))).whole.roofs
    assert roof.cycles == cycles


def test_caches_stand_in_front_of_main_memory() -> None:
    cpu = load_machine("generic-avx2")
    line, name = cpu.caches[0].line, cpu.main.name
    counts = {c.name: CacheCounts(read_misses=1000 // 10**n, write_backs=n) for n, c in enumerate(cpu.caches)}
    account = Account("k", cpu.name, {}, (Traffic(name, "A", bytes_read=10**6),), operations={"f32": 10},
                      caches=tuple(Level(n, {"A": c}) for n, c in counts.items()))  # fmt: skip
    roofs = account.roofline().whole.roofs
    assert [r.name for r in roofs] == [name, *(c.name for c in reversed(cpu.caches))]
    assert roofs[-1].bytes == 10**6
    assert roofs[-2].bytes == 1000 * line
    assert roofs[0].bytes == (1000 // 10 ** (len(cpu.caches) - 1) + len(cpu.caches) - 1) * line


def test_cores_and_engines_do_not_disturb_each_other_at_a_memory() -> None:
    regions = (Region("a", "copy", {}, {}, {"dram": 800}, {"spm": 800}), Region("c", "compute", {}, {}, {"dram": 240}))
    traffic = (Traffic("dram", "A", bytes_read=800), Traffic("dram", "B", bytes_read=240))
    account = Account("k", "toy", {}, traffic, regions=regions, tensors=(Tensor("A", 800), Tensor("B", 240)))
    line = roofline(account, TOY)
    assert [r.cycles for r in line.whole.roofs] == [100.0]  # the copy at 8 bytes a cycle; the cores take 30 beside it
    assert line.compulsory.cycles == 100.0


def test_the_sample_by_section() -> None:
    line = sample().roofline(SNITCH)
    assert [b.name for b in line.regions] == ["B_C.load", "A_C.load", "C.update", "C_tile.store"]
    assert [b.limit for b in line.regions] == ["dma", "dma", "compute", "dma"]
    for b in (line.whole, *line.regions):
        assert b.took is not None and b.took >= b.cycles


def test_as_json() -> None:
    data = json.loads(sample().roofline().to_json())
    assert data["whole"]["verdict"] == "compute bound by 1.6x"
    assert data["whole"]["roofs"][0]["intensity"] == 32768 / (36 * 1024)
    assert [b["name"] for b in data["regions"]][2] == "C.update"
    assert list(data) == [
        "format", "version", "kernel", "machine", "sizes", "clock_ghz", "whole", "compulsory", "regions",
    ]  # fmt: skip


@settings(max_examples=30)
@given(accounts())
def test_compulsory_is_never_more_than_the_whole(account: Account) -> None:
    line = roofline(replace(account, caches=()), TOY)
    assert line.compulsory.cycles <= line.whole.cycles
    assert line.whole.cycles >= max([line.whole.compute, *(r.cycles for r in line.whole.roofs)])
    json.loads(line.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    for b in (line.whole, *line.regions):
        assert b.factor >= 1 and (math.isinf(b.factor) or b.limit)

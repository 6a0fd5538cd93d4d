"""Machines with other figures: every figure of every preset can be changed, and the rules of machine files still hold."""

from __future__ import annotations

import pytest

from tilewright.hw import MachineError, load_machine, machine_names, machine_text, parse_machine
from tilewright.hw.variants import changed, figure, figure_names, figure_text

TOY = load_machine("toy")


@pytest.mark.parametrize("name", machine_names())
def test_every_figure_can_be_named_and_said_again(name: str) -> None:
    machine = load_machine(name)
    for path in figure_names(machine):
        value = figure(machine, path)
        if value is not None:
            assert figure(changed(machine, {path: value}), path) == value


def test_figures_as_text() -> None:
    said = {"memory.spm.capacity": '"64 KiB"', "memory.dram.capacity": '"unbounded"', "unit.mma.energy": "not said",
            "compute.ops.f32": "16", "clock_ghz": "1"}  # fmt: skip
    assert {name: figure_text(TOY, name) for name in said} == said


def test_several_figures_with_their_origin() -> None:
    made = changed(
        TOY, {"memory.spm.capacity": "1 KiB", "compute.ops.f32": 99, "dma.dma.bandwidth": 2.5, "clock_ghz": 2}
    )
    assert (made.memory("spm").capacity, made.compute.ops["f32"], made.dmas[0].bandwidth, made.clock_ghz) == (
        1024,
        99,
        2.5,
        2,
    )
    assert made.compute.ops["f64"] == TOY.compute.ops["f64"]
    assert made.origin("memory.spm.capacity").source == "changed from 65536"
    assert parse_machine(machine_text(made)) == made
    assert load_machine("toy") == TOY


@pytest.mark.parametrize(
    ("path", "value", "code", "said"),
    [
        ("memory.spam.capacity", 1, "machine.unknown-figure", "did you mean memory.spm.capacity"),
        ("memory.spm", 1, "machine.unknown-figure", "memory.spm.*"),
        ("memory.spm.name", "x", "machine.unknown-figure", "memory.spm has capacity, "),
        ("compute.ops.f128", 1, "machine.unknown-figure", "compute.ops has f64"),
        ("", 1, "machine.unknown-figure", "clock_ghz"),
        ("memory.spm.capacity", -1, "machine.bad-value", "legal"),
        ("memory.spm.capacity", "64 KB", "machine.bad-value", "legal"),
        ("compute.cores", 1.5, "machine.bad-value", "legal"),
        ("compute.ops.f32", 0, "machine.bad-value", "legal"),
        ("memory.spm.capacity", 16, "machine.bad-value", "alignment"),  # smaller than what it is aligned to
    ],
)
def test_what_is_wrong_is_said(path: str, value: object, code: str, said: str) -> None:
    with pytest.raises(MachineError) as e:
        changed(TOY, {path: value})
    assert e.value.code == code and said in str(e.value)

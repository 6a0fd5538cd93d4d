"""`tilewright machine ...`: files of machines made, checked, shown, measured and fitted; with good and wrong input."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.codegen.probe import LevelFigures, Probe
from tilewright.hw import MachineError, load_machine
from tilewright.schedule.registers import Registers

Run = Callable[..., tuple[int, str, str]]
CSV = "engine,cycles,bytes,descriptors,waits\n" + "".join(
    f"dma,{7 * d + size * d / 6.5 + 80 * w},{size * d},{d},{w}\n"
    for size in (64, 256, 8192) for d in (1, 4) for w in (0, 1)
)  # fmt: skip


def test_new_check_and_use(run: Run, folder: Path) -> None:
    code, out, _ = run("machine", "new", "--like", "snitch-cluster", "--name", "mine", "-o", "mine.toml")
    assert code == 0 and "mine.toml" in out
    assert run("machine", "check", "mine.toml")[:2] == (0, "mine.toml: ok, machine mine\n")
    made = load_machine(folder / "mine.toml")
    assert made.memories == load_machine("snitch-cluster").memories
    assert run("machine", "show", "./mine.toml")[1].startswith("mine: ")
    printed = run("machine", "new", "--like", "./mine.toml")[1]
    assert tomllib.loads(printed)["name"] == "my-mine" == tw.machines.parse(printed).name


def test_check_says_what_may_not_be_meant(run: Run, folder: Path) -> None:
    text = tw.machines.like("toy", "mine")
    start, end = text.index("# Engines join"), text.index("# Block operations")
    (folder / "mine.toml").write_text(text[:start] + text[end:])
    code, out, _ = run("machine", "check", "mine.toml")
    note = "no engine joins spm: the cores copy to it and from it by hand"
    assert (code, out.splitlines()) == (0, ["mine.toml: ok, machine mine", f"note: {note}"])
    assert json.loads(run("machine", "check", "mine.toml", "--json")[1])["remarks"] == [note]


def test_check_gives_all_problems(run: Run, folder: Path) -> None:
    text = tw.machines.like("toy").replace('"64 KiB"', '"64 kB"').replace('"dram", "spm"', '"dram", "spn"')
    (folder / "bad.toml").write_text(text, encoding="utf-8")
    code, out, err = run("machine", "check", "bad.toml")
    assert (code, err) == (1, "")
    assert out.count("bad.toml:") == 2 and "did you mean spm?" in out and out.endswith("2 problems\n")
    code, out, _ = run("machine", "check", "bad.toml", "--json")
    data = json.loads(out)
    assert (code, data["ok"]) == (1, False)
    assert [p["code"] for p in data["problems"]] == ["machine.bad-value"] * 2
    assert json.loads(run("machine", "check", "no-suffix", "--json")[1] or "{}") == {}
    assert [p.code for p in tw.machines.problems(folder / "bad.toml")] == ["machine.bad-value"] * 2


def test_show(run: Run) -> None:
    code, out, _ = run("machine", "show", "toy")
    assert code == 0 and "spm" in out and "made up for the documentation" in out
    data = json.loads(run("machine", "show", "toy", "--json")[1])
    assert data["memory"][1]["capacity"] == 65536
    assert data["figures"]["memory.spm.capacity"]["confidence"] == "assumed"


def test_fit(run: Run, folder: Path) -> None:
    (folder / "cycles.csv").write_text(CSV, encoding="utf-8")
    code, out, _ = run("machine", "fit", "toy", "cycles.csv", "-o", "fitted.toml")
    assert code == 0 and "dma.dma.latency" in out and "left out" in out
    dma = load_machine(folder / "fitted.toml").dmas[0]
    assert (dma.issue, dma.latency, dma.bandwidth) == (7, 80, 6.5)
    assert "fitted to 12 experiments of cycles.csv" in (folder / "fitted.toml").read_text(encoding="utf-8")
    data = json.loads(run("machine", "fit", "toy", "cycles.csv", "--json")[1])
    assert len(data["resources"][0]["residuals"]) == 12
    assert run("machine", "fit", "./fitted.toml", "cycles.csv", "-o", "fitted.toml", "--force")[0] == 0


def test_probe(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of the figures; that they are measured is tested where it is done."""
    asked: list[float] = []

    def measured(seconds: float) -> Probe:
        asked.append(seconds)
        level = LevelFigures("dram", None, 1 << 26, 10e9, 12e9, 11e9, 90e-9)
        return Probe("A Processor", "2026-01-02", 2e9, (level,), {"f64": 32e9, "f32": 64e9}, Registers(32, 16))

    monkeypatch.setattr(tw.machines, "probe", measured)
    code, out, err = run("machine", "probe", "--seconds", "0.5")
    assert code == 0 and "GB/s" in err and tw.machines.parse(out).compute.ops == {"f64": 16, "f32": 32}
    code, out, err = run("machine", "probe", "-o", "this.toml")
    assert (code, err) == (0, "") and "GB/s" in out and load_machine(folder / "this.toml").clock_ghz == 2
    assert json.loads(run("machine", "probe", "--json")[1])["clock"] == 2e9
    assert asked == [0.5, 10, 10]


WRONG = {
    "new like nothing": (["new", "--like", "tyo"], "machine.unknown", "did you mean toy?"),
    "new with a bad name": (["new", "--like", "toy", "--name", "a b"], "machine.bad-value", "letters"),
    "new over a file": (["new", "--like", "toy", "-o", "program.py"], "usage.file", "--force"),
    "new in no folder": (["new", "--like", "toy", "-o", "no/x.toml"], "usage.file", "no folder no"),
    "new over a folder": (["new", "--like", "toy", "-o", ".", "--force"], "usage.file", "is a folder"),
    "check of no file": (["check", "no.toml"], "machine.no-file", "no.toml"),
    "check of a preset": (["check", "toy"], "machine.no-file", "toy is a preset: tilewright machine show toy"),
    "check of a folder": (["check", "."], "machine.no-file", "."),
    "check of another encoding": (["check", "latin.tw"], "machine.no-file", "UTF-8"),
    "show of nothing": (["show", "tyo"], "machine.unknown", "toy"),
    "fit of no measurements": (["fit", "toy", "no.csv"], "measurements.file", "no.csv"),
    "fit of a text": (["fit", "toy", "notes.txt"], "measurements.", "notes.txt"),
    "probe over a file": (["probe", "-o", "program.py"], "usage.file", "--force"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_misuse_is_told_in_one_paragraph(run: Run, case: str) -> None:
    arguments, code, says = WRONG[case]
    status, out, err = run("machine", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("tilewright: ") and f"[{code}" in err and says in err
    assert "Traceback" not in err and "\n\n" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["frob"], ["new"], ["check"], ["show"], ["fit", "toy"], ["probe", "--seconds", "0"],
        ["probe", "--seconds", "x"], ["probe", "--seconds", "nan"], ["probe", "--seconds", "inf"],
    ],
)  # fmt: skip
def test_arguments_that_can_not_be_parsed(run: Run, arguments: list[str]) -> None:
    status, out, err = run("machine", *arguments)
    assert (status, out) == (2, "")
    assert "usage: tilewright machine" in err and "error:" in err


def test_the_functions_behind_it() -> None:
    assert "toy" in tw.machines.names()
    toy = tw.machines.load("toy")
    assert tw.machines.parse(tw.machines.text(toy, "a heading")) == toy
    assert tw.machines.parse(tw.machines.like(toy)).memories == toy.memories
    with pytest.raises(MachineError, match="3 is no machine"):
        tw.machines.like(3)  # type: ignore[arg-type]

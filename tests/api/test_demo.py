"""The demonstration: its kernels under its schedules, on a small picture and small matrices, and what it reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import demo, testing
from tilewright.cli import main
from tilewright.demo import kernels, photo, run
from tilewright.schedule.registers import Registers, host_registers


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A small picture instead of the photograph, and small matrices; one round of measuring."""
    picture = np.random.default_rng(0).integers(0, 256, (3, 37, 41), dtype=np.uint8)
    monkeypatch.setattr(run, "photograph", lambda: picture)
    for name, value in {"ORDER": 40, "SIMULATED_ORDER": 40, "ROWS_JUDGED": 5, "ROUNDS": 1}.items():
        monkeypatch.setattr(run, name, value)
    return picture


def test_the_photograph_is_there() -> None:
    assert photo.photograph().shape == (3, 600, 512)


@pytest.mark.parametrize("registers", [host_registers(), Registers(32, 16)], ids=["host", "avx2"])
def test_schedules_do_not_change_the_pictures(small: np.ndarray, registers: Registers) -> None:
    expected = kernels.sharpen.reference(small, run.AMOUNT)
    for scheduler in (kernels.stage_by_stage, kernels.in_strips):
        got = kernels.sharpen.compile(scheduler(registers), mode="strict")(small, run.AMOUNT)
        testing.assert_bitwise(got, expected)
    numpy = run._numpy_sharpen(small, run.AMOUNT)
    testing.assert_within_bound(kernels.sharpen, numpy, small, run.AMOUNT)


@pytest.mark.parametrize("scheduler", [kernels.tiled, kernels.packed])
def test_schedules_do_not_change_the_product(scheduler: Any) -> None:
    args = testing.random_inputs(kernels.matmul, {"M": 37, "N": 53, "K": 45})
    schedule = scheduler(host_registers())
    testing.assert_bitwise(kernels.matmul.compile(schedule, mode="strict")(**args), kernels.matmul.reference(**args))


def test_what_it_reports(
    small: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate = run._simulate  # one simulated run is enough
    monkeypatch.setattr(run, "_simulate", lambda job, s, m: simulate(job, s, m) if s is kernels.in_strips else (1, 0))
    said: list[str] = []
    report = demo.demo(tmp_path / "pictures", say=said.append)
    assert report.ok and len(report.rows) == 6
    strips = next(r for r in report.rows if r.schedule == "in strips")
    assert 0 < strips.peak <= 64 * 1024 and strips.moved >= small.size * (1 + 4 + 4)
    assert all(r.seconds > 0 and r.rate > 0 and r.ratio > 0 for r in report.rows)
    assert [Path(p).name for p in report.pictures] == ["blurred.png", "sharpened.png", "comparison.png"]
    assert all(Path(p).read_bytes().startswith(b"\x89PNG") for p in report.pictures)
    assert "in strips" in str(report) and str(report) in "\n".join(said)
    assert capsys.readouterr().out == ""


@pytest.fixture
def unsimulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_simulate", lambda job, scheduler, machine: (1, 1))


@pytest.mark.usefixtures("unsimulated")
def test_on_the_command_line(small: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] and {r["job"].split()[0] for r in data["rows"]} == {"sharpen", "multiply"}


def test_a_folder_that_can_not_be_written(
    small: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert "can't write the pictures" in capsys.readouterr().err


def test_a_missing_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(photo.importlib.util, "find_spec", lambda name: None)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "tilewright[plot]" in capsys.readouterr().err


@pytest.mark.usefixtures("unsimulated")
def test_a_wrong_result_fails(small: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_error", lambda result, bound: 1.5)
    assert main(["demo", "--out", str(tmp_path)]) == 1

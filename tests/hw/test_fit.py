"""Fits to measured cycles: known parameters come back, from noisy data too; files of measurements, and bad ones."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from tilewright.hw import load_machine, parse_machine
from tilewright.hw.errors import MeasurementError
from tilewright.hw.fit import Fit, _non_negative, fit
from tilewright.hw.measurements import COLUMNS, Measurement, parse_measurements, read_measurements
from tilewright.hw.writing import commented_text

TOY = load_machine("toy")
HEAD = "engine,cycles,bytes,descriptors,runs,waits,type,operations"


def copies(bandwidth: float, issue: float, latency: float, noise: float = 0.0, seed: int = 0) -> list[Measurement]:
    """Cycles of a few dozen copies of an engine with these figures and bursts of 64 bytes, timed with noise."""
    rng = np.random.default_rng(seed)
    found = []
    for size, descriptors, runs, waits in itertools.product((64, 200, 4096, 65536), (1, 3, 8), (1, 4), (0, 1, 2)):
        runs_of_all, total = runs * descriptors, size * descriptors
        bus = runs_of_all * math.ceil(total / runs_of_all / 64) * 64
        cycles = issue * descriptors + bus / bandwidth + latency * waits
        cycles *= 1 + noise * rng.standard_normal()
        found.append(Measurement("dma", cycles, total, descriptors, runs_of_all, waits))
    return found


def values(found: Fit) -> dict[str, float]:
    return {p.figure: p.value for one in found.resources for p in one.parameters}


@given(st.floats(0.1, 500), st.floats(0, 500), st.floats(0, 1000))
def test_exact_cycles_give_the_figures_back(bandwidth: float, issue: float, latency: float) -> None:
    found = fit(TOY, copies(bandwidth, issue, latency))
    (one,) = found.resources
    assert one.error < 1e-6 and one.left_out_error is not None and one.left_out_error < 1e-6
    got = values(found)
    assert got["dma.dma.bandwidth"] == pytest.approx(bandwidth, rel=1e-3)
    assert got["dma.dma.issue"] == pytest.approx(issue, rel=1e-3, abs=1e-3)
    assert got["dma.dma.latency"] == pytest.approx(latency, rel=1e-3, abs=1e-3)


@given(st.integers(0, 1000), st.floats(1, 100), st.floats(1, 50), st.floats(10, 500))
def test_noisy_cycles_give_the_figures_back_nearly(seed: int, bandwidth: float, issue: float, latency: float) -> None:
    """Two percent of noise: no figure is off by more than what its share of the cycles allows."""
    found = fit(TOY, copies(bandwidth, issue, latency, 0.02, seed))
    (one,) = found.resources
    assert 0.005 < one.error < 0.035
    assert one.left_out_error is not None and one.error <= one.left_out_error < 1.3 * one.error
    exact = copies(bandwidth, issue, latency)
    for residual, truth in zip(one.residuals, exact, strict=True):
        assert residual.fitted == pytest.approx(truth.cycles, rel=0.05)
    assert values(found)["dma.dma.bandwidth"] == pytest.approx(bandwidth, rel=0.05)


def test_figures_are_not_negative_and_the_best_that_are_not() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        rows, count = rng.integers(4, 12), rng.integers(1, 4)
        matrix = rng.uniform(0, 10, (rows, count))
        cycles = np.abs(matrix @ rng.uniform(-1, 1, count)) + 0.1
        ours = _non_negative(matrix, cycles)
        _, best = nnls(matrix / cycles[:, None], np.ones(rows))
        assert (ours >= 0).all()
        assert np.linalg.norm(matrix @ ours / cycles - 1) == pytest.approx(best, abs=1e-6)


def test_rates_of_types_share_a_latency() -> None:
    rows = [
        Measurement("compute", operations / rate + 5 * waits, waits=waits, type=type_, operations=operations)
        for type_, rate in (("f32", 14.0), ("f64", 7.0))
        for operations, waits in ((100, 1), (1000, 1), (10000, 0), (500, 9))
    ]
    found = fit(TOY, rows, "a.csv")
    compute = found.machine.compute
    assert (compute.ops["f32"], compute.ops["f64"], compute.latency) == (14, 7, 5)
    assert compute.ops["i8"] == TOY.compute.ops["i8"]
    origin = found.machine.origin("compute.ops")
    assert origin.confidence == "assumed" and origin.source.startswith("f32, f64: fitted to 8 experiments of a.csv")
    assert found.machine.origin("compute.latency").confidence == "measured"
    assert parse_machine(commented_text(found.machine)) == found.machine


def test_what_was_not_measured_stays() -> None:
    rows = [m for m in copies(4, 20, 50) if m.waits == 0]
    found = fit(TOY, rows, "b.csv")
    before, after = TOY.dmas[0], found.machine.dmas[0]
    assert (after.bandwidth, after.issue, after.latency) == (4, 20, before.latency)
    assert found.machine.memories == TOY.memories
    assert found.machine.origin("dma.dma.issue").source == f"fitted to {len(rows)} experiments of b.csv, 0.0 % off"
    assert found.machine.origin("dma.dma.latency") == TOY.origin("dma.dma.latency")


def test_a_bandwidth_beyond_the_memories_is_said() -> None:
    assert "allow 8 bytes a cycle" in fit(TOY, copies(20, 1, 1)).notes[0]
    assert fit(TOY, copies(7, 1, 1)).notes == []


def test_the_text(golden) -> None:
    rows = [dataclasses.replace(m, line=i + 2) for i, m in enumerate(copies(20, 7, 90, 0.02)[::7])]
    rows += [Measurement("compute", o / 15 + 3, type="f32", operations=o, line=40 + o) for o in (60, 600, 6000)]
    found = fit(TOY, rows)
    golden(str(found))
    data = json.loads(json.dumps(found.as_json()))
    assert [one["resource"] for one in data["resources"]] == ["dma", "compute"]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "no measurements"),
        ([Measurement("dma", 100, 64)], "1 experiment for 3 parameters"),
        ([Measurement("dma", 100 + n, 64 * n) for n in range(1, 9)], "do not tell bandwidth, issue and latency apart"),
        ([Measurement("dma", 50, 64 * n, n, n, 0) for n in range(1, 9)], "do not tell bandwidth and issue apart"),
        (
            [
                Measurement("dma", 50 * m + 10 * w - n / 10, 64 * n, m, m, w)
                for n, m, w in itertools.product((8, 80), (1, 2), (0, 1))
            ],
            "grow with bytes",
        ),
        ([Measurement("compute", 9, operations=n, type="f32") for n in (5, 50)], "grow with operations of f32"),
        ([Measurement("compute", 9, operations=5, type="f32")] * 3, "do not tell f32 and latency apart"),
    ],
)  # fmt: skip
def test_what_can_not_be_fitted_is_refused(rows: list[Measurement], says: str) -> None:
    with pytest.raises(MeasurementError, match=says) as caught:
        fit(TOY, rows)
    assert caught.value.code in ("measurements.none", "measurements.undetermined")


def test_a_file_of_measurements() -> None:
    text = f"# on the board, 2026\n{HEAD}\ndma, 120.5, 64, 1, , 1, ,\n\n"
    text += "# arithmetic\ncompute,10,,,,,f32,100\ndma,9,8,2,,0,,\n"
    assert parse_measurements(text, "m.csv", TOY) == [
        Measurement("dma", 120.5, 64, 1, 1, 1, line=3),
        Measurement("compute", 10, type="f32", operations=100, line=6),
        Measurement("dma", 9, 8, 2, 2, 0, line=7),
    ]
    assert parse_measurements("cycles,engine,bytes\n5,dma,1e3", "m.csv", TOY) == [Measurement("dma", 5, 1000, line=2)]
    text = "engine,cycles,bytes,burst_bytes\ndma,5,60,128\ndma,6,60,"
    assert [m.burst_bytes for m in parse_measurements(text, "m.csv", TOY)] == [128, None]


BAD = {
    "nothing": ("", "none", 1, "no measurements"),
    "only remarks": ("# a\n\n", "none", 1, "no measurements"),
    "no rows": (HEAD, "none", 1, "under the header"),
    "unknown column": ("engine,cycles,byts\ndma,1,2", "columns", 1, "did you mean bytes"),
    "column twice": ("engine,cycles,cycles\ndma,1,2", "columns", 1, "twice"),
    "no engine column": ("cycles,bytes\n1,2", "columns", 1, "engine is missing"),
    "no cycles column": ("engine,bytes\ndma,2", "columns", 1, "cycles is missing"),
    "short row": ("engine,cycles,bytes\ndma,1,2\ndma,1", "columns", 3, "2 cells under 3 columns"),
    "long row": ("engine,cycles,bytes\ndma,1,2,", "columns", 2, "4 cells"),
    "open quote": ('engine,cycles,bytes\ndma,1,"2', "columns", 2, "no CSV"),
    "unknown engine": ("engine,cycles,bytes\ndmb,1,2", "engine", 2, "did you mean dma"),
    "no cycles": ("engine,cycles,bytes\ndma,,2", "value", 2, "cycles is missing"),
    "cycles of zero": ("engine,cycles,bytes\ndma,0,2", "value", 2, "above 0"),
    "no number": ("engine,cycles,bytes\ndma,1,2k", "value", 2, "bytes is '2k'"),
    "no finite number": ("engine,cycles,bytes\ndma,inf,2", "value", 2, "cycles is 'inf'"),
    "negative bytes": ("engine,cycles,bytes\ndma,1,-2", "value", 2, "at least 0"),
    "no descriptor": ("engine,cycles,bytes,descriptors\ndma,1,2,0", "value", 2, "at least 1"),
    "operations of a copy": ("engine,cycles,bytes,operations\ndma,1,2,3", "value", 2, "given for a copy"),
    "bytes of arithmetic": ("engine,cycles,bytes,type,operations\ncompute,1,2,f32,3", "value", 2, "given for arithmetic"),
    "fewer bytes on the bus": ("engine,cycles,bytes,burst_bytes\ndma,1,64,32", "value", 2, "burst_bytes is '32'"),
    "unknown type": ("engine,cycles,type,operations\ncompute,1,f31,3", "value", 2, "type is 'f31'"),
    "no type": ("engine,cycles,operations\ncompute,1,3", "value", 2, "type is ''"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_their_line(case: str) -> None:
    text, code, line, says = BAD[case]
    with pytest.raises(MeasurementError) as caught:
        parse_measurements(text, "bad.csv", TOY)
    error = caught.value
    assert error.code == f"measurements.{code}"
    assert (error.where[0].file, error.where[0].line) == ("bad.csv", line)
    assert says in str(error) and "legal: " in str(error)


def test_files_that_can_not_be_read(tmp_path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"engine,cycles\ndm\xe4,1\n")
    for name in ("none.csv", "latin.csv", "."):
        with pytest.raises(MeasurementError) as caught:
            read_measurements(tmp_path / name, TOY)
        assert caught.value.code == "measurements.file"
    (tmp_path / "bom.csv").write_text("\ufeffengine,cycles,bytes\ndma,1,2\n", encoding="utf-8")
    assert len(read_measurements(tmp_path / "bom.csv", TOY)) == 1


cells = st.sampled_from(["dma", "compute", "f32", "1", "0", "-1", "nan", "1e400", "", "#", '"', "x", "\x00", "\r"])


@given(st.lists(st.lists(cells, max_size=9), max_size=4), st.permutations(COLUMNS), st.integers(0, 9))
def test_no_file_is_beyond_our_errors(rows: list[list[str]], header: list[str], width: int) -> None:
    text = "\n".join(",".join(row) for row in [header[:width], *rows])
    try:
        fit(TOY, parse_measurements(text, "fuzz.csv", TOY))
    except MeasurementError as error:
        assert error.code.startswith("measurements.")

"""`tw.tune` and `tilewright tune`: what they take, what they refuse, what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.autotune.fakes import FakeMeasurer
from tests.autotune.test_space import Tiles, double
from tilewright.cli import main
from tilewright.tune_cli import seconds

M, N = tw.sizes("M N")
SIZES = {"M": 64, "N": 64}


@tw.kernel
def triple(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    B = tw.func("B")
    B[i, j] = A[i, j] * 3.0
    return B[:M, :N]


def by_length(task: Any, text: str) -> float:
    return 1e-3 + 1e-6 * len(text)


def tuned(kernel: Any = double, sizes: Any = SIZES, **options: Any) -> Any:
    given = {"measurer": FakeMeasurer(by_length), "records": False, "progress": "none", "trials": 4, "budget_s": 600}
    return tw.tune(kernel, sizes, **(given | options))


def test_a_given_measurer_stays_open():
    m = FakeMeasurer(by_length)
    found = tuned(measurer=m)
    assert found.tried == 4
    assert m.closed == 0


def test_the_space_is_generated_unless_one_is_given():
    assert tuned().stopped == "trials"
    m = FakeMeasurer(by_length)
    tuned(space=Tiles(), measurer=m, trials=30)
    texts = {text for _, _, text in m.log}
    assert all("tile" in t or t == "schedule double" or "vectorize" in t for t in texts)

    s = double.schedule()
    rows = s.knob("rows", 4, choices=(2, 4, 8))
    s["B"].split("i", "io", "ii", rows)
    found = tuned(space=s, trials=30)
    assert found.stopped == "exhausted"
    assert found.tried == 4  # and the default schedule

    def writes(s: Any, choose: Any) -> None:
        s["B"].split("i", "io", "ii", choose("rows", (2, 4, 8)))

    assert tuned(space=writes, trials=30).tried == 4


def test_several_kernels_share_the_time():
    m = FakeMeasurer(by_length)
    found = tuned([double, triple], [SIZES, {"M": (1, 2), "N": 64}], measurer=m, trials=9)
    assert [(r.kernel, r.bucket) for r in found.results] == [
        ("double", "M=64,N=64"), ("triple", "M=1,N=64"), ("triple", "M=2,N=64"),
    ]  # fmt: skip
    assert all(r.tried for r in found.results)
    a = np.ones((16, 64), np.float32)
    assert np.array_equal(found.kernel("triple")(a), a * 3)
    assert list(found.of("double").schedules) == ["M=64,N=64"]
    with pytest.raises(tw.TilewrightError) as e:
        found.of("quadruple")
    assert e.value.code == "tune.kernel"


def test_a_simulated_machine_is_tuned_for_cycles():
    found = tuned(machine="toy", space=Tiles(), trials=3)
    assert (found.objective, found.unit, found.machine) == ("cycles", "cycles", "toy")
    assert "on toy" in str(found)


def test_records_are_kept_where_they_are_told(tmp_path: Path):
    tuned(records=tmp_path / "mine.db")
    assert tuned(records=tmp_path / "mine.db", measurer=FakeMeasurer(by_length)).results[0].reused >= 1


def test_figures_and_notebooks():
    found = tuned()
    assert set(found.figures["M=64,N=64"]) == {"default", "best", "bound", "gain"}
    html = found._repr_html_()
    assert "<table" in html
    assert "double" in html


@pytest.mark.parametrize(("options", "code"), [
    ({"kernel": "double"}, "tune.kernel"),
    ({"kernel": double.pipeline(), "dtypes": {"T": tw.f32}}, "tune.kernel"),
    ({"sizes": {"M": (64, 1), "N": 4}}, "tune.sizes"),
    ({"sizes": {"M": 64}}, "argument.size-undetermined"),
    ({"kernel": [double, triple]}, "tune.sizes"),
    ({"kernel": [double, triple], "sizes": [SIZES, SIZES], "space": Tiles()}, "tune.sizes"),
    ({"space": 3}, "tune.space"),
    ({"space": double}, "tune.space"),
    ({"records": 3}, "tune.option"),
    ({"inputs": 3}, "tune.option"),
    ({"inputs": np.ones(3)}, "tune.option"),
    ({"objective": "beauty"}, "tune.option"),
    ({"objective": "cycles"}, "tune.machine"),
    ({"objective": "time", "machine": "toy"}, "tune.machine"),
    ({"machine": "nowhere"}, "machine.unknown"),
    ({"threads": 0}, "tune.option"),
    ({"cache": "warm"}, "tune.option"),
    ({"budget_s": -1}, "tune.option"),
    ({"strategy": "luck"}, "tune.strategy"),
    ({"order": "any"}, "tune.option"),
    ({"points": {"Q": [3]}}, "tune.points"),
    ({"measurer": 3}, "tune.workers"),
    ({"measurer": "tcp://x"}, "tune.workers"),
    ({"progress": "loud"}, "tune.progress"),
    ({"mode": "sloppy"}, "definition.mode"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(options: dict[str, Any], code: str):
    with pytest.raises(tw.TilewrightError) as e:
        tuned(**options)
    assert e.value.code == code
    assert e.value.hint


# The command line -------------------------------------------------------------------------------------------------

PROGRAM = (
    "import tilewright as tw\nM, N = tw.sizes('M N')\n"
    + """
@tw.kernel
def twice(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    B = tw.func("B")
    B[i, j] = A[i, j] * 2.0
    return B[:M, :N]

def rows(s, choose):
    s["B"].split("i", "io", "ii", choose("rows", (2, 4)))

def knobs():
    s = twice.schedule()
    s["B"].split("i", "io", "ii", s.knob("rows", 4, choices=(2, 4, 8)))
    return s
"""
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program; and whatever starts workers gets an imagined measurer."""
    monkeypatch.setattr("tilewright.autotune.measure.LocalMeasurer", lambda: FakeMeasurer(by_length))
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.db"))
    path = tmp_path / "twice.py"
    path.write_text(PROGRAM)
    return str(path)


def test_the_command(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    saved, drawn = tmp_path / "twice.tw", tmp_path / "twice.svg"
    code = main(["tune", program, "--size", "M=1..64,N=64", "--points", "M=8,64", "--space", "rows", "--budget", "10m",
                 "--save", str(saved), "--picture", str(drawn)])  # fmt: skip
    out, err = capsys.readouterr()
    assert code == 0
    assert "M=9..64,N=64" in out
    assert "searching" in err
    assert saved.read_text().count("schedule twice") == 2
    assert drawn.stat().st_size > 5000
    assert main(["schedules", "check", str(saved)]) == 0


def test_weights_and_inputs(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.savez(tmp_path / "in.npz", A=np.ones((8, 64), np.float32))
    code = main(["tune", program, "--size", "M=1..8,N=64", "--points", "M=4,8", "--weights", "M=3:90,8:10", "--space",
                 "rows", "--inputs", str(tmp_path / "in.npz"), "--json", "--progress", "none"])  # fmt: skip
    often, seldom = json.loads(capsys.readouterr().out)["results"]
    assert code == 0
    assert (often["sizes"]["M"], often["weight"]) == (3, 0.9)
    assert seldom["weight"] == pytest.approx(0.1)


def test_errors_in_functions_of_the_file_have_their_line(program: str, capsys: pytest.CaptureFixture[str]):
    with open(program, "a") as file:
        file.write("\ndef at_once(s, choose):\n    raise RuntimeError('oh')\n\ndef later(s, choose):\n"
                   "    if choose('a', (1, 2)) == 2:\n        raise RuntimeError('oh')\n")  # fmt: skip
    lines = Path(program).read_text().splitlines()
    first, second = (k for k, text in enumerate(lines, 1) if "raise" in text)
    size = ["--size", "M=16,N=64", "--progress", "none"]
    assert main(["tune", program, *size, "--space", "at_once"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert f"{program}:{first}: RuntimeError: oh" in err
    assert main(["tune", program, *size, "--space", "later"]) == 0
    assert f"{program}:{second}: RuntimeError: oh" in capsys.readouterr().out


def test_warnings_are_told_without_our_own_lines(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("sys.argv", [__file__])  # whoever calls the program
    code = main(["tune", program, "--size", "M=16,N=64", "--space", "rows", "--records", str(tmp_path / "folder"),
                 "--progress", "none"])  # fmt: skip
    out, err = capsys.readouterr()
    assert code == 0
    assert err.startswith(f"tilewright: {tmp_path / 'folder'} can't be used")
    assert "RecordsWarning" not in err
    assert "can't be used" in out


def test_where_nothing_can_be_measured_the_code_is_1(program: str, capsys: pytest.CaptureFixture[str],
                                                    monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    monkeypatch.setattr("tilewright.autotune.measure.LocalMeasurer", lambda: FakeMeasurer(lambda t, s: "crash"))
    assert main(["tune", program, "--size", "M=16,N=64", "--space", "rows", "--progress", "none"]) == 1
    out, err = capsys.readouterr()
    assert "nothing could be measured" in out
    assert "crash" in out
    assert not err


def test_json(program: str, capsys: pytest.CaptureFixture[str]):
    assert main(["tune", program, "--size", "M=16,N=64", "--space", "knobs", "--json", "--progress", "none"]) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["results"][0]["tried"] == 4
    assert not err
    assert main(["tune", program, "--size", "M=16,N=64", "--space", "knobs", "--json", "--progress", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["reused"] == 4


@pytest.mark.parametrize("options", [
    ["--size", "M=4"], ["--size", "M=9..4,N=4"], ["--size", "M=a..b,N=4"], ["--size", "M=4,N=4", "--budget", "0"],
    ["--size", "M=4,N=4", "--budget", "soon"], ["--size", "M=4,N=4", "--strategy", "luck"],
    ["--size", "M=4,N=4", "--space", "nowhere"], ["--size", "M=4,N=4", "--save", "/nowhere/x.tw"],
    ["--size", "M=4,N=4", "--picture", "x.txt"], ["--size", "M=4,N=4", "--workers", "here"],
    ["--size", "M=4,N=4", "--objective", "cycles"], ["--size", "M=4,N=4", "--points", "M"],
    ["--size", "M=4,N=4", "--weights", "M=1"], ["--size", "M=4,N=4", "--inputs", "nowhere.npz"],
    ["--size", "M=4,N=4", "--machine", "nowhere"], ["--size", "M=1..4,N=4", "--points", "M=2", "--points", "M=4"],
    ["--size", "M=1..4,N=4", "--weights", "M=2:1", "--weights", "M=4:1"], ["--size", "M=4,N=4,Q=3"],
])  # fmt: skip
def test_wrong_input_ends_with_2(program: str, options: list[str], capsys: pytest.CaptureFixture[str],
                                 monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["tune", program, *options])
    except SystemExit as e:
        code = e.code
    out, err = capsys.readouterr()
    assert code == 2
    assert not out
    assert "Traceback" not in err
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.parametrize(("text", "expected"), [("60", 60), ("60s", 60), ("500ms", 0.5), ("10m", 600), ("1h", 3600)])
def test_times(text: str, expected: float):
    assert seconds(text) == expected

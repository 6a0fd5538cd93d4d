"""The harness of the measurements runs one small case; nothing is timed for its own sake here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import harness, openblas, report
from benchmarks.__main__ import measured
from benchmarks.cases import Entry
from benchmarks.harness import Case, Failed, Peer, Skipped, Spread, from_json, in_turns, measure, result

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_one_case_gives_a_line_of_json() -> None:
    done = run("call", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    data = json.loads(line)
    assert set(data) == {"case", "seconds", "peers", "rounds", "threads", "limit", "limit_s", "best_peer"}
    assert (data["case"], data["rounds"], data["threads"]) == ("call", 1, 1)
    (peer,) = data["peers"]
    assert peer["ratio"]["median"] == peer["seconds"]["median"] / data["seconds"]["median"]
    assert data["best_peer"] == peer["name"]


def test_wrong_arguments() -> None:
    for arguments in (["frob"], ["call", "--threads", "0"], ["call", "--threads", "100000"]):
        done = run(*arguments)
        assert done.returncode == 2 and "error:" in done.stderr


def test_files_that_cannot_be_written_are_known_before_anything_is_measured(tmp_path: Path) -> None:
    assert report.unwritable(str(tmp_path / "page.md")) is None and report.unwritable(None) is None
    assert report.unwritable(str(tmp_path)) and report.unwritable(str(tmp_path / "none" / "page.md"))
    assert report.no_picture(str(tmp_path / "p.svg")) is None and report.no_picture(None) is None
    assert ".png" in (report.no_picture(str(tmp_path / "p.bmp")) or "")
    done = run("call", "--markdown", str(tmp_path / "none" / "page.md"))
    assert (done.returncode, done.stdout) == (2, "") and "there is no folder" in done.stderr


def test_a_case_that_ends_with_an_error_does_not_end_the_others(capsys) -> None:
    def wrong(threads: int, rounds: int | None) -> None:
        raise AssertionError("off by 1\nand more")

    failed = measured(Entry("case", "", wrong), 1, None)
    assert failed == Failed("case", "AssertionError: off by 1") and "Traceback" in capsys.readouterr().err
    assert measured(Entry("case", "", lambda threads, rounds: threads), 7, None) == 7


def test_every_example_has_a_real_size() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gallery", "frob"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    listed = done.stderr.split("there are ")[1].strip().split(", ")
    assert set(listed) == {f.stem for f in (ROOT / "examples").glob("*.py")}


def test_cases_without_a_peer() -> None:
    done = run("simulator-caches-estimate", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    data = json.loads(line)
    assert set(data) == {"case", "value", "unit", "aim", "at_least", "details"}
    assert (data["case"], data["unit"], data["at_least"]) == ("simulator-caches-estimate", "ms", False)
    assert data["value"] > 0


def test_what_takes_long_runs_where_it_is_named() -> None:
    from benchmarks.cases import entries
    from benchmarks.report import is_chosen

    cases = entries()
    (long,) = (e for e in cases.values() if e.long)
    assert is_chosen(long, [long.name])
    assert not is_chosen(long, []) and not is_chosen(long, ["simulator"])
    assert is_chosen(cases["simulator-caches-matmul"], ["simulator"])


def test_ratios_are_those_of_a_round() -> None:
    a, b = Peer("a", None, 1.0), Peer("b", None, 2.0)
    found = result(
        "case", {"": [1.0, 2.0, 4.0], "a": [2.0, 4.0, 8.0], "b": [1.0, 1.0, 8.0]}, (a, b, Peer("c", None)), 1
    )
    of_a, of_b, of_c = found.peers
    assert (of_a.ratio, of_a.reached) == (Spread(2.0, 2.0, 2.0), True)
    assert of_b.ratio is not None and (of_b.ratio.median, of_b.reached) == (1.0, False)
    assert of_c.ratio is None and of_c.reached is None
    assert found.best is of_b


def test_a_result_comes_back_from_another_process() -> None:
    found = result("case", {"": [1.0, 2.0], "a": [2.0, 4.0]}, (Peer("a", None, 1.0), Peer("c", None)), 2, "copy", 0.5)
    assert from_json(json.loads(json.dumps(found.as_json()))) == found


def test_two_threads_need_two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.cases import threads

    monkeypatch.setenv("BENCHMARKS_PROCESSORS", "0")
    found = threads.alone("threads-matmul-256", 1)
    assert isinstance(found, Skipped)
    assert found.as_json() == {"case": "threads-matmul-256", "skipped": "2 processors are needed, there is 1"}
    assert "not measured" in str(found)


def test_cases_of_threads_are_cases_and_examples() -> None:
    from benchmarks import gallery
    from benchmarks.cases import entries, threads

    cases = entries()
    assert all(cases[n].make is not None for n in threads.BOUND)
    assert set(threads.EXAMPLES) <= set(gallery.SIZES)


def test_a_case_beside_itself_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.cases.threads import ONE, beside_one
    from tilewright.codegen.runtime import default_threads

    monkeypatch.setenv("TILEWRIGHT_THREADS", "3")
    checked: list[int] = []

    def make() -> Case:
        n = default_threads()
        return Case(lambda: n, (Peer("other", None, 2.0),), lambda: checked.append(n))

    case = beside_one(make, 1.7)
    assert [(p.name, p.target) for p in case.peers] == [(ONE, 1.7), ("other", None)]
    case.check()
    assert case.ours() == 3 and case.peers[0].run is not None and case.peers[0].run() == 1 and checked == [1, 3]


def test_sides_settle_before_they_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample of two threads is preceded by a run that wakes them."""
    monkeypatch.setattr(harness, "SETTLE", 0.0)
    monkeypatch.setattr(harness, "LEAST_SECONDS", 0.0)
    ran: list[str] = []
    runs = {name: (lambda name=name: ran.append(name)) for name in ("a", "b")}
    in_turns(runs, 2, settle=True)
    assert "".join(ran) == "aabb" + "aabb" + "bbaa"


def test_wrong_values_are_not_timed() -> None:
    def wrong() -> None:
        raise AssertionError("off")

    def never() -> None:
        raise RuntimeError("it ran")

    with pytest.raises(AssertionError, match="off"):
        measure("case", Case(never, (), wrong), 1)


def test_a_page_and_a_picture(tmp_path: Path) -> None:
    page, picture = tmp_path / "p.md", tmp_path / "p.png"
    done = run("call", "--rounds", "1", "--markdown", str(page), "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    assert "| **call**" in page.read_text() and picture.read_bytes()[1:4] == b"PNG"


def test_sizes_make_a_curve(tmp_path: Path) -> None:
    peers = (Peer("peer", lambda: None),)
    points = [
        (Entry(f"sweep-{n}", "", run=lambda t, r: None, group="sweep", size=n), result("", times, peers, 1))
        for n, times in ((8, {"": [1.0], "peer": [2.0]}), (9, {"": [1.0], "peer": [0.5]}))
    ]
    row = Entry("row", "a row", run=lambda t, r: None), result("row", {"": [1.0], "peer": [3.0]}, peers, 1)
    report.page([*points, row], 1, str(tmp_path / "page.md"))
    page = (tmp_path / "page.md").read_text()
    assert "Ratios by size: 8: 2.00, 9: 0.50." in page and "**row**" in page and "**sweep" not in page
    report.plot([*points, row], str(tmp_path / "p.png"))
    assert (tmp_path / "p.png").exists() and (tmp_path / "p-sweep.png").exists()
    assert next(report.groups(points)).startswith("sweep: geometric mean 1.000 of 2 ratios")


def test_a_group_counts_peers_that_something_is_asked_of() -> None:
    peers = (Peer("asked", lambda: None, 1.0), Peer("beside", lambda: None))
    one = result("", {"": [1.0], "asked": [2.0], "beside": [0.5]}, peers, 1)
    entries = [(Entry(n, "", run=lambda t, r: None, group="g"), one) for n in "ab"]
    assert next(report.groups(entries)).startswith("g: geometric mean 2.000 of 2")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_kernels_of_openblas_multiply(dtype: type, monkeypatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "as it was")
    a, b = np.arange(35, dtype=dtype).reshape(5, 7), np.arange(21, dtype=dtype).reshape(7, 3)
    run = openblas.product(a, b, np.empty((5, 3), dtype))
    assert os.environ["OPENBLAS_CORETYPE"] == "as it was"
    if run is None:
        pytest.skip("NumPy has no OpenBLAS of its own")
    np.testing.assert_array_equal(run(), a @ b)

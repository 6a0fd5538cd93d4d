"""The harness of the measurements runs one small case; nothing is timed for its own sake here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_one_case_gives_a_line_of_json() -> None:
    done = run("call", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    data = json.loads(line)
    assert set(data) == {"case", "ours_s", "peer", "peer_s", "ratio", "rounds", "threads"}
    assert (data["case"], data["rounds"], data["threads"]) == ("call", 1, 1)
    assert data["ratio"] == data["peer_s"] / data["ours_s"]


def test_wrong_arguments() -> None:
    for arguments in (["frob"], ["call", "--threads", "0"], ["call", "--threads", "100000"]):
        done = run(*arguments)
        assert done.returncode == 2 and "error:" in done.stderr


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
    from benchmarks.__main__ import CASES, _chosen
    from benchmarks.simulator import LONG

    assert set(CASES) >= LONG
    for name in LONG:
        assert _chosen(name, [name])
        assert not _chosen(name, []) and not _chosen(name, ["simulator"])
    assert _chosen("simulator-caches-matmul", ["simulator"])

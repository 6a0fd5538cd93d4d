"""`tilewright plan`: text, JSON, files that are written; right and wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright import commands

Run = Callable[..., tuple[int, str, str]]
MATMUL = ("plan", "program.py:matmul", "--machine", "zen3")


def test_the_text_and_the_json(run: Run) -> None:
    code, out, _ = run(*MATMUL, "--size", "M=64,N=64,K=64", "--objective", "traffic", "--phase", "prefill")
    assert code == 0
    assert out.startswith("matmul on zen3, M=64 K=64 N=64, for traffic (prefill)\n")
    assert "fusion rate" in out and "op by op" in out
    code, out, _ = run(*MATMUL, "--size", "M=1:64", "--size", "N=64,K=64", "--json", "--tokens", "M", "--seed", "3")
    data = json.loads(out)
    assert (code, data["kernel"], data["machine"], data["tokens"]) == (0, "matmul", "zen3", "M")
    assert data["valid_for"]["ranges"]["M"] == [1, 64]
    assert data["goal"]["seed"] == 3


def test_this_computer_is_the_default(run: Run) -> None:
    code, out, _ = run("plan", "program.py:matmul", "--size", "M=64,N=64,K=64")
    assert (code, out.split(",")[0]) == (0, "matmul on host")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--size", "M=8"), "needs the sizes K, N"),
        (("--size", "M=8,N=8,K=8,Q=1"), "has no size 'Q'"),
        (("--size", "M=9:1,N=8,K=8"), "size M runs from 9 to 1"),
        (("--size", "M=1:2:3,N=8,K=8"), "size M must be an integer and is '2:3'"),
        (("--size", "M=:3,N=8,K=8"), "size M must be an integer and is ''"),
        (("--size", "M=-1,N=8,K=8"), "size M is -1"),
        (("--size", "M=8,N=8,K=8", "--objective", "speed"), "invalid choice: 'speed'"),
        (("--size", "M=8,N=8,K=8", "--phase", "training"), "invalid choice: 'training'"),
        (("--size", "M=8,N=8,K=8", "--budget", "0"), "a budget of 0.0 seconds"),
        (("--size", "M=8,N=8,K=8", "--budget", "soon"), "invalid float value"),
        (("--size", "M=8,N=8,K=8", "--tokens", "T"), "no size 'T' that could count tokens"),
        (("--size", "M=8,N=8,K=8", "--machine", "abacus"), "no machine called 'abacus'"),
        (("--size", "M=8,N=8,K=8", "--html", "nowhere/page.html"), "can't write nowhere/page.html"),
        (("--size", "M=8,N=8,K=8", "--save", "nowhere/plan.tw"), "can't write nowhere/plan.tw"),
    ],
)
def test_wrong_input(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run("plan", "program.py:matmul", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_the_schedule_is_written_and_read(run: Run, tmp_path: Path) -> None:
    made = tmp_path / "plan.tw"
    code, _, err = run(*MATMUL, "--size", "M=64,N=64,K=64", "--save", str(made))
    assert (code, err.splitlines()[-1]) == (0, f"{made} written")
    assert made.read_text().startswith("schedule matmul")
    assert run("show", "program.py:matmul", "--schedule", str(made))[0] == 0


def test_the_page_is_written(run: Run, tmp_path: Path) -> None:
    made = tmp_path / "plan.html"
    code, _, err = run(*MATMUL, "--size", "M=64,N=64,K=64", "--html", str(made))
    assert (code, err.splitlines()[-1]) == (0, f"{made} written")
    assert made.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_as_a_function(run: Run) -> None:
    found = commands.plan("program.py:matmul", machine="zen3", sizes={"M": 8, "N": 8, "K": 8}, objective="memory")
    assert found.goal.objective == "memory"
    assert found.metrics.plan.funcs == len(found.pipeline.funcs)

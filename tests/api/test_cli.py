"""The command line: every command with good and wrong input, exit codes, one paragraph and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright import cli, commands
from tilewright.codegen import cache as store
from tilewright.codegen import target
from tilewright.codegen.judge import Judge, Verdict
from tilewright.lang import judging
from tilewright.schedule.schedule import Schedule

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--size", "M=9,N=11,K=7")


def test_show_prints_algorithm_schedule_nest_and_buffers(run: Run) -> None:
    code, out, err = run("show", "program.py:matmul", "--schedule", "tiled", "--size", "M=8,N=8,K=8")
    assert code == 0
    assert "kernel matmul(A: f32[M, K], B: f32[K, N]) -> C[:M, :N]" in out
    assert "split i -> io, ii by 4" in out
    assert "for jo in 0..(N + 7)//8" in out
    assert "C_tile  f32[4, 8]  reg     one iteration of C.update.io    128" in out
    assert "this program prints" in err and "this program prints" not in out


def test_show_json(run: Run) -> None:
    code, out, _ = run("show", "program.py:matmul", "--schedule", "tiled", "--json")
    data = json.loads(out)
    assert (code, data["kernel"], data["schedule_name"]) == (0, "matmul", "tiled")
    assert data["buffers"][0]["name"] == "C_tile"
    assert {x["address"] for x in data["loops"]} >= {"C.update.jo", "C.update.k"}


def test_show_without_schedule_shows_the_default_one(run: Run) -> None:
    code, out, _ = run("show", "program.py:matmul")
    assert code == 0
    assert "# the default schedule\nschedule matmul" in out


def test_a_text_with_its_own_schedule_and_with_another(run: Run) -> None:
    assert "vectorize x by 8" in run("show", "double.tw")[1]
    code, out, _ = run("show", "double.tw", "--schedule", "other.tw")
    assert code == 0 and "vectorize x by 4" in out and "vectorize x by 8" not in out


def test_statics_types_and_schedules_that_fill(run: Run) -> None:
    code, out, _ = run("show", "program.py:window", "--static", "taps=3", "--dtype", "T=f64")
    assert code == 0 and "f64[N]" in out and "x[i + 2]" in out
    assert "f32[N]" in run("show", "program.py:window", "--static", "taps=3")[1]
    assert "vectorize j by 8" in run("show", "program.py:matmul", "--schedule", "filled")[1]


@pytest.mark.parametrize("schedule", ["tiled", "lanes", None])
def test_verify_agrees(run: Run, schedule: str | None) -> None:
    code, out, _ = run("verify", "program.py:matmul", *SMALL, *(["--schedule", schedule] if schedule else []))
    assert code == 0, out
    assert "agree with the reference" in out
    assert "(nothing scheduled)" in out


def test_verify_says_what_a_part_of_a_schedule_leaves_out(run: Run) -> None:
    found = commands.verify("program.py:matmul", schedule="tiled", sizes={"M": 9, "N": 11, "K": 7})
    assert found.ok
    assert [s.directive for s in found.steps[:3]] == [
        "(nothing scheduled)",
        "C.update: split i -> io, ii by 4",
        "C.update: split j -> jo, ji by 8",
    ]
    assert any(s.added for s in found.steps)


def test_verify_leaves_out_promises_that_need_the_rest(run: Run) -> None:
    code, out, _ = run("verify", "program.py:matmul", *SMALL, "--schedule", "early", "--json")
    ignored = {s["directive"]: s["ignored"] for s in json.loads(out)["steps"] if s["ignored"]}
    assert code == 0
    assert ignored == {
        "cache_write C at C.update.io in reg": ["C_tile in reg"],
        "C.update: split j -> jo, ji by 8": ["C_tile in reg"],
    }


def test_verify_names_the_first_wrong_directive(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def wrong_from_the_third_on(a: object, b: object, zeros: bool = False) -> None:
        calls.append(zeros)
        if calls.count(True) >= 3:
            raise judging.MismatchError("result: 1 of 99 elements differ in their bits")

    monkeypatch.setattr(judging, "require_bitwise", wrong_from_the_third_on)
    code, out, _ = run("verify", "program.py:matmul", *SMALL, "--schedule", "tiled", "--json")
    data = json.loads(out)
    assert (code, data["ok"], data["first_wrong"]) == (1, False, 2)
    code, out, _ = run("verify", "program.py:matmul", *SMALL, "--schedule", "tiled")
    assert code == 1 and "the values differ before the first directive" in out


def test_verify_of_a_kernel_that_only_writes_its_arguments(run: Run) -> None:
    code, out, _ = run("verify", "program.py:accumulate", "--size", "N=21")
    assert code == 0, out


def test_verify_says_where_nothing_can_be_compared(run: Run) -> None:
    command = ("verify", "program.py:roots", "--schedule", "in_lanes", "--size", "N=40")
    code, out, _ = run(*command, "--scalar", "shift=-100", "--json")  # roots of negative numbers: NaN everywhere
    steps = json.loads(out)["steps"]
    assert code == 1  # the complete schedule could not be judged
    assert [s["unjudged"] is None for s in steps][:2] == [True, False] and "order of a sum" in steps[1]["unjudged"]
    code, out, _ = run(*command, "--scalar", "shift=2")
    assert code == 0 and "by derived error bounds" in out and "unknown" not in out


def test_verify_of_no_elements_is_no_success(run: Run) -> None:
    code, out, _ = run("verify", "program.py:matmul", "--size", "M=0,N=5,K=7")
    assert code == 1 and "no result has any element" in out and "nothing could be compared" in out


def test_bisect_agrees_with_a_right_schedule(run: Run) -> None:
    code, out, _ = run("verify", "--bisect", "program.py:matmul", *SMALL, "--schedule", "tiled")
    assert code == 0 and "matmul with tiled: the values agree with the reference" in out


def test_bisect_names_the_first_wrong_directive_and_writes_a_case(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wrong_where_something_is_split(self: Judge, s: Schedule) -> Verdict:
        wrong = any(d.kind == "split" and d.results[0] == "jo" for d in s.directives)
        return Verdict(problem="result: 1 of 99 elements differ in their bits" if wrong else None)

    monkeypatch.setattr(Judge, "verdict", wrong_where_something_is_split)
    case = tmp_path / "case.tw"
    command = ("verify", "--bisect", "program.py:matmul", *SMALL, "--schedule", "tiled", "--save", str(case))
    code, out, _ = run(*command, "--json")
    found = json.loads(out)["found"]
    assert code == 1
    assert found["directive"] == "C.update: split j -> jo, ji by 8"
    assert found["sizes"] == {"M": 1, "K": 1, "N": 1}
    monkeypatch.undo()
    code, out, _ = run("verify", str(case), "--size", "M=1,K=1,N=1")
    assert code == 0 and "split j -> jo, ji by 8" in out  # which is right, after all


def test_a_plan_is_verified(run: Run) -> None:
    code, out, _ = run("verify", "--plan", "program.py:matmul", *SMALL)
    assert code == 0 and "all" in out and "agree with the reference" in out
    code, out, _ = run("verify", "--plan", "--bisect", "program.py:matmul", *SMALL, "--json")
    assert (code, json.loads(out)["found"]) == (0, None)


def test_doctor_finds_and_heals(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("doctor", "program.py:matmul", *SMALL)
    assert code == 0 and "warning starved" in out
    code, out, _ = run(
        "doctor", "program.py:matmul", "--size", "M=512,N=512,K=512", "--machine", "skylake-sp", "--json"
    )
    assert (code, json.loads(out)["findings"]) == (0, [])
    made = tmp_path / "healed.tw"
    code, out, _ = run("doctor", "program.py:matmul", *SMALL, "--run", "--apply", str(made))
    assert code == 0 and "after what --apply does:" in out
    assert made.read_text().startswith("schedule matmul")


def test_verify_strict(run: Run) -> None:
    code, out, _ = run("verify", "program.py:matmul", *SMALL, "--schedule", "tiled", "--mode", "strict")
    assert code == 0 and "with the reference" in out
    code, _, err = run("verify", "program.py:matmul", *SMALL, "--schedule", "lanes", "--mode", "strict")
    assert code == 2 and "[schedule.strict]" in err


def test_simulate(run: Run) -> None:
    code, out, _ = run("simulate", "program.py:matmul", "--schedule", "staged", "--machine", "toy", *SMALL)
    assert code == 0 and "spm (64 KiB" in out
    code, out, _ = run("simulate", "program.py:matmul", "--schedule", "staged", "--machine", "toy", *SMALL, "--json")
    assert code == 0 and json.loads(out)["machine"] == "toy"


def test_machines(run: Run) -> None:
    code, out, _ = run("machines")
    assert code == 0 and "toy\n" in out and "snitch-cluster\n" in out
    assert {m["name"] for m in json.loads(run("machines", "--json")[1])} >= {"toy", "snitch-cluster"}


def test_cache(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "kernels"))
    store.put("0" * 64, store.Entry(b"image", {"kernel": "blur", "mode": "strict"}))
    (tmp_path / "kernels" / ("1" * 64 + ".two")).write_bytes(b"damaged")
    store.put("2" * 64, store.Entry(b"record", {"kind": "plan", "kernel": "model", "mode": "contract"}))
    store.put("3" * 64, store.Entry(b"image", {"kind": "runtime", "name": "pool"}))
    code, out, _ = run("cache")
    assert code == 0 and str(tmp_path) in out and "entries   4 (1 plan, 1 damaged: they will be made anew)" in out
    listed = run("cache", "list")[1]
    assert all(f"  {name}\n" in listed for name in ("blur (strict)", "damaged", "model (plan)", "pool (runtime)"))
    data = json.loads(run("cache", "--json")[1])
    assert len(data["entries"]) == 4 and data["bytes"] == sum(e["bytes"] for e in data["entries"])
    assert run("cache", "clear")[:2] == (0, "4 entries removed\n")
    assert commands.cache().entries == ()


WRONG = {
    "no such file": (["show", "nothere.py"], "usage.file", "does not exist"),
    "a folder": (["show", "."], "usage.file", "is a folder"),
    "neither Python nor text": (["show", "notes.txt"], "usage.file", ".tw"),
    "no kernel": (["show", "empty.py"], "usage.kernel", "no kernel"),
    "several kernels": (["show", "program.py"], "usage.kernel", "program.py:matmul"),
    "unknown kernel": (["show", "program.py:matmull"], "usage.kernel", "did you mean matmul?"),
    "syntax error": (["show", "syntax.py"], "usage.python", "syntax.py:1"),
    "an exception": (["show", "raises.py"], "usage.python", "raises.py:3: ZeroDivisionError: division by zero"),
    "sys.exit": (["show", "leaves.py"], "usage.python", "leaves.py:2"),
    "undefined Func": (["show", "undefined.py"], "definition", "undefined.py:9"),
    "text that can't be parsed": (["show", "unread.tw"], "parse", "unread.tw:3"),
    "text in another encoding": (["show", "latin.tw"], "parse.encoding", "UTF-8"),
    "unknown schedule": (["show", "program.py:matmul", "--schedule", "tield"], "usage.schedule", "did you mean tiled?"),
    "no such schedule file": (["show", "program.py:matmul", "--schedule", "no.tw"], "usage.file", "no.tw"),
    "schedule of another kernel": (
        ["show", "program.py:matmul", "--schedule", "double.tw"], "schedule.none", "schedules of double",
    ),
    "schedule function for another kernel": (
        ["show", "program.py:accumulate", "--schedule", "tiled"], "usage.schedule", "schedule of matmul",
    ),
    "schedule function that fails": (
        ["show", "program.py:matmul", "--schedule", "broken"], "usage.python", "NameError: name 'undefined'",
    ),
    "illegal directive": (
        ["show", "program.py:matmul", "--schedule", "illegal"], "schedule.unknown-loop", "program.py:",
    ),
    "a promise that is never kept": (
        ["verify", "program.py:matmul", "--schedule", "never"], "schedule.register-size", "program.py:85",
    ),
    "no schedule": (["show", "program.py:matmul", "--schedule", "number"], "usage.schedule", "gives 3"),
    "too many arguments": (["show", "program.py:matmul", "--schedule", "two"], "usage.schedule", "takes 2 arguments"),
    "function in a text": (["show", "double.tw", "--schedule", "tiled"], "usage.schedule", "double.tw"),
    "plan and schedule": (
        ["verify", "program.py:matmul", "--plan", "--schedule", "tiled"], "usage.plan", "one of the two",
    ),
    "case without bisect": (["verify", "program.py:matmul", "--save", "x.tw"], "usage.save", "--bisect"),
    "unknown size": (["verify", "program.py:matmul", "--size", "Q=4"], "usage.size", "there are"),
    "negative size": (["verify", "program.py:matmul", "--size", "M=-4"], "usage.size", "not negative"),
    "missing size": (["simulate", "program.py:matmul", "--machine", "toy", "--size", "M=4"], "usage.size", "N=512"),
    "too large": (
        ["simulate", "program.py:matmul", "--machine", "toy", "--size", "M=9999999999,N=9999999,K=9"], "usage.size",
        "memory",
    ),
    "unknown scalar": (["verify", "program.py:roots", "--scalar", "shft=1"], "usage.scalar", "did you mean shift?"),
    "scalar of another kind": (["verify", "program.py:roots", "--scalar", "shift=x"], "argument.scalar-kind", "shift"),
    "no machine": (["simulate", "program.py:matmul", *SMALL], "usage.machine", "--machine NAME"),
    "unknown machine": (["simulate", "program.py:matmul", "--machine", "tyo", *SMALL], "machine.unknown", "toy"),
    "unknown machine file": (["machine", "show", "my.toml"], "machine.no-file", "my.toml"),
    "unknown static": (["show", "program.py:window", "--static", "tapz=3"], "argument.", "taps"),
    "missing static": (["show", "program.py:window"], "argument.static", "taps"),
    "unknown type parameter": (["show", "program.py:matmul", "--dtype", "T=f32"], "usage.dtype", "T"),
    "illegal type": (["show", "program.py:window", "--static", "taps=3", "--dtype", "T=i8"], "argument.dtype", "f32"),
    "capacity": (
        ["simulate", "program.py:matmul", "--schedule", "staged", "--machine", "toy", "--size", "M=8,N=200,K=200"],
        "capacity.exceeded", "the smallest change that fits",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_misuse_is_told_in_one_paragraph(run: Run, case: str) -> None:
    arguments, code, says = WRONG[case]
    status, out, err = run(*arguments)
    err = err.removeprefix("this program prints when it is loaded\n")
    assert (status, out) == (2, "")
    assert err.startswith("tilewright: ") and f"[{code}" in err and says in err
    assert "Traceback" not in err and "\n\n" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["frob"], ["show"], ["simulate", "program.py:matmul", "--sync", "never"],
        ["show", "program.py:matmul", "--size", "M"],
        ["show", "program.py:matmul", "--size", "M=x"], ["show", "program.py:matmul", "--size", "M=1,M=2"],
        ["show", "program.py:matmul", "--size", "M=1", "--size", "M=2"],
        ["show", "program.py:matmul", "--mode", "loose"],
        ["show", "program.py:window", "--dtype", "T=f33"], ["show", "program.py:window", "--static", "taps"],
        ["cache", "burn"],
    ],
)  # fmt: skip
def test_arguments_that_can_not_be_parsed(run: Run, arguments: list[str]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "usage: tilewright" in err and "error:" in err


@pytest.mark.parametrize("command", ["", "demo", "show", "verify", "simulate", "machines", "machine", "cache"])
def test_help(run: Run, command: str) -> None:
    status, out, _ = run(*([command] if command else []), "--help")
    assert status == 0 and "usage: tilewright" in out and "--" in out


def test_an_error_of_ours_is_told_apart(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("something broke")

    monkeypatch.setattr(commands, "machines", fail)
    status, _, err = run("machines")
    assert status == cli.INTERNAL and "internal error, RuntimeError: something broke" in err and "Traceback" not in err
    monkeypatch.setenv(cli.TRACEBACK, "1")
    assert "Traceback" in run("machines")[2]


@pytest.mark.parametrize("start", [["-m", "tilewright"], None], ids=["module", "script"])
def test_the_installed_program(start: list[str] | None, folder: Path) -> None:
    program = [sys.executable, *start] if start else [str(Path(sys.executable).with_name("tilewright"))]
    if start is None and not os.path.exists(program[0]):
        pytest.skip("tilewright is not installed in this environment")
    done = subprocess.run([*program, "show", "double.tw"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("kernel double")
    done = subprocess.run([*program, "show", "nothere.tw"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and "usage.file" in done.stderr


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    program = f"{sys.executable} -m tilewright machine show snitch-cluster"
    done = subprocess.run(["bash", "-c", f"{program} | true; exit ${{PIPESTATUS[0]}}"], cwd=folder, capture_output=True)
    assert done.returncode == 0 and b"Traceback" not in done.stderr


def test_export(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("export", "program.py:matmul", "--schedule", "staged", *SMALL)
    assert code == 0 and json.loads(out)["format"] == "tilewright nest"
    code, out, _ = run("export", "program.py:matmul", "--schedule", "staged", "--to", "c")
    assert code == 0 and "int tw_matmul(" in out and '#include "tilewright.h"' not in out  # one text is all there is
    code, out, _ = run("export", "program.py:matmul", "--to", "c", "--json")
    assert code == 0 and list(json.loads(out)) == ["matmul.c", "matmul.h", "tilewright.h"]
    file = tmp_path / "product.c"
    code, out, _ = run("export", "program.py:matmul", "--to", "c", "--machine", "toy", "-o", str(file))
    assert code == 0 and [Path(x).name for x in out.split()] == ["product.c", "product.h", "tilewright.h"]
    assert '#include "product.h"' in file.read_text() and (tmp_path / "product.h").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--size", "M=4"), "usage.size"),
        (("--machine", "nowhere"), "machine.unknown"),
        (("--to", "c", "-o", "/nowhere/at/all.c"), "can't write"),
        (("--to", "c", "-o", "tilewright.c"), "argument.export"),
        (("--schedule", "nothing"), "usage.schedule"),
        (("--schedule", "staged", "--machine", "toy", "--size", "M=99,N=999,K=999"), "capacity.exceeded"),
    ],
)
def test_export_of_what_can_not_be(run: Run, arguments: tuple[str, ...], code: str) -> None:
    found, _, err = run("export", "program.py:matmul", *arguments)
    assert found == 2 and code in err and "Traceback" not in err


def test_only_schedules_are_offered_as_such(run: Run, folder: Path, tmp_path: Path) -> None:
    """Helpers of a program are none: those that give data, check, or need more than an empty schedule."""
    program = tmp_path / "more.py"
    program.write_text(
        (folder / "program.py").read_text() + "def again():\n    return in_lanes()\n"
        "def inputs(n=3):\n    return np.zeros(n)\ndef check():\n    roots(inputs(), 0.5)\n"
    )
    code, _, err = run("show", f"{program}:roots", "--schedule", "none")
    offered = err.partition("there are ")[2].partition(";")[0].split(", ")
    assert code == 2 and {"in_lanes", "again", "filled"} <= set(offered)
    assert not {"inputs", "check", "two", "number"} & set(offered)
    program.write_text(program.read_text() + "SCHEDULES = (tiled,)\n")
    assert "there are tiled;" in run("show", f"{program}:roots", "--schedule", "none")[2]


@pytest.mark.skipif(not target.host().triple.startswith("x86_64"), reason="it reads x86-64")
def test_perf(run: Run) -> None:
    code, out, err = run("perf", "program.py:matmul", "--schedule", "tiled")
    assert code == 0 and "C.update.k: " in out and "of the limit" not in out and "this program prints" in err
    code, out, _ = run("perf", "program.py:matmul", "--schedule", "tiled", *SMALL, "--profile")
    assert code == 0 and "of the limit by" in out and "everything else" in out
    data = json.loads(run("perf", "program.py:roots", "--schedule", "in_lanes", "--size", "N=50", "--json")[1])
    assert data["kernel"] == "roots" and data["distance"]["bytes"] == 4 * 51 and data["stages"] is None
    code, out, _ = run("perf", "program.py:accumulate", "--asm", "--size", "N=9", "--scalar", "a=2.5")
    assert code == 0 and ".text" in out and "inner loops" not in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("program.py:matmul", "--size", "M=4"), "needs the sizes K, N"),
        (("program.py:matmul", "--profile"), "needs the sizes"),
        (("program.py:matmul", "--size", "M=-4,N=4,K=4"), "not negative"),
        (("program.py:matmul", "--size", "M=4000000,N=4000000,K=4"), "smaller sizes"),
        (("program.py:roots", "--size", "N=4", "--scalar", "shift=x"), "shift must be a number"),
        (("program.py:roots", "--size", "N=4", "--scalar", "none=3"), "no scalar parameter"),
        (("program.py:matmul", "--schedule", "illegal"), "nowhere"),
        (("empty.py",), "no kernel"),
    ],
)
def test_perf_of_what_is_not_there(run: Run, arguments: tuple[str, ...], text: str) -> None:
    code, out, err = run("perf", *arguments)
    assert code == 2 and text in err and "Traceback" not in err and not out

"""`tilewright account` and `roofline`: figures, locks, pictures; right and wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from tilewright import commands, machines
from tilewright.hw.account import account_schema

Run = Callable[..., tuple[int, str, str]]
TILED = ("program.py:matmul", "--schedule", "tiled", "--machine", "toy", "--size", "M=9,N=11,K=7")


def test_the_text_and_the_json(run: Run) -> None:
    code, out, _ = run("account", *TILED)
    assert code == 0
    assert out.startswith("matmul on toy (M=9, N=11, K=7)") or out.startswith("matmul on toy (M=9, K=7, N=11)")
    assert "C_tile" in out and "reg (1 KiB" in out
    code, out, _ = run("account", *TILED, "--json")
    data = json.loads(out)
    jsonschema.Draft202012Validator(account_schema()).validate(data)
    assert (code, data["kernel"], data["machine"]) == (0, "matmul", "toy")


def test_a_lock_is_saved_and_checked(run: Run, tmp_path: Path) -> None:
    lock = str(tmp_path / "matmul.lock")
    code, out, err = run("account", *TILED, "--save", lock)
    assert (code, err.splitlines()[-1]) == (0, f"{lock} written")
    n = int(out.split()[0])
    assert n >= 6
    text = Path(lock).read_text()
    assert run("account", *TILED, "--save", lock)[0] == 0
    assert Path(lock).read_text() == text  # saving again changes nothing
    assert run("account", *TILED, "--check", lock)[:2] == (
        0,
        f"matmul on toy ({_sizes(text)}): all {n} figures are as locked in {lock}\n",
    )
    # Machine and sizes are the lock's where they are not given.
    assert run("account", "program.py:matmul", "--schedule", "tiled", "--check", lock)[0] == 0
    code, out, _ = run("account", "program.py:matmul", "--schedule", "tiled", "--check", lock, "--json")
    assert (code, json.loads(out)) == (0, {"lock": lock, "ok": True, "differences": []})


def _sizes(text: str) -> str:
    found = dict(line.split(" = ") for line in text.split("[sizes]\n")[1].split("\n\n")[0].splitlines())
    return ", ".join(f"{name}={found[name]}" for name in ("M", "K", "N"))


def test_what_moved_is_a_table_and_exit_code_1(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "matmul.lock"
    assert run("account", *TILED, "--save", str(lock))[0] == 0
    text = lock.read_text()
    before = next(line for line in text.splitlines() if line.startswith('"dram A read"'))
    read = int(before.split(" = ")[1])
    lock.write_text(text.replace(before, f'"dram A read" = {read + 100}'))
    code, out, err = run("account", *TILED, "--check", str(lock))
    assert (code, err.count("\n")) == (1, 1)  # what the program prints when it is loaded
    assert "1 difference to the" in out
    assert out.splitlines()[-1].split()[:4] == ["bytes", "dram", "A", "read"]
    assert run("account", *TILED, "--check", str(lock), "--tolerance", "bytes=99")[0] == 1
    assert run("account", *TILED, "--check", str(lock), "--tolerance", "cycles=1%,bytes=100")[0] == 0
    code, out, _ = run("account", *TILED, "--check", str(lock), "--json")
    (moved,) = json.loads(out)["differences"]
    assert (code, moved) == (1, {"kind": "bytes", "name": "dram A read", "before": read + 100, "after": read})
    # Another schedule has other figures, some of them new.
    code, out, _ = run("account", "program.py:matmul", "--check", str(lock))
    assert code == 1 and "footprint  reg" in out


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((*TILED, "--check", "nowhere.lock"), "can't read the lock nowhere.lock"),
        ((*TILED, "--check", "program.py"), "lock.syntax"),
        ((*TILED, "--save", "no/such/folder/x"), "can't write no/such/folder/x"),
        ((*TILED, "--tolerance", "bytes=1"), "give one: --check LOCK"),
        ((*TILED[:3], "--size", "M=9,N=11,K=7"), "on which machine?"),
        ((*TILED, "--timeline", "x.txt"), "[account."),
        ((*TILED[:3], "--machine", "toi", "--size", "M=9,N=11,K=7"), "did you mean toy?"),
        ((*TILED[:3], "--machine", "toy", "--size", "M=9"), "needs the sizes"),
    ],
)
def test_wrong_input(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run("account", *arguments)
    assert (code, out) == (2, "")
    assert said in err and "Traceback" not in err


def test_a_lock_of_another_run_and_a_bad_tolerance(run: Run, tmp_path: Path) -> None:
    lock = str(tmp_path / "x.lock")
    assert run("account", *TILED, "--save", lock)[0] == 0
    code, _, err = run("account", *TILED[:5], "--size", "M=8,N=8,K=8", "--check", lock)
    assert code == 2 and "the lock is on sizes" in err
    Path("other.py").write_text(Path("program.py").read_text().replace("def matmul(", "def product("))
    code, _, err = run("account", "other.py:product", "--check", lock)
    assert code == 2 and "the lock is on kernel matmul, not product" in err
    code, _, err = run("account", *TILED, "--check", lock, "--tolerance", "bites=1")
    assert code == 2 and "KIND is one of bytes" in err


def test_a_lock_of_a_schedule_that_is_bound_to_a_machine_of_its_own(run: Run) -> None:
    Path("own.toml").write_text(machines.like("toy", "own"))
    Path("bound.py").write_text(
        Path("program.py").read_text() + '\ndef bound():\n    return matmul.schedule(machine="own.toml")\n'
    )
    target = ("bound.py:matmul", "--schedule", "bound")
    assert run("account", *target, "--size", "M=9,N=11,K=7", "--save", "own.lock")[0] == 0
    code, out, err = run("account", *target, "--check", "own.lock")
    assert code == 0 and "as locked" in out, err
    # A lock is read whatever its editor puts in front.
    Path("own.lock").write_text(Path("own.lock").read_text(), encoding="utf-8-sig")
    assert run("account", *target, "--check", "own.lock")[0] == 0


def test_save_and_check_exclude_each_other(run: Run) -> None:
    code, _, err = run("account", *TILED, "--check", "a", "--save", "b")
    assert code == 2 and "not allowed with" in err


def test_roofline(run: Run) -> None:
    code, out, _ = run("roofline", *TILED)
    assert code == 0 and out.startswith("matmul on toy (")
    code, out, _ = run("roofline", *TILED, "--json")
    data = json.loads(out)
    assert (code, data["format"], data["machine"]) == (0, "tilewright-roofline", "toy")


def test_as_a_function(run: Run) -> None:
    found = commands.account("program.py:matmul", schedule="tiled", machine="toy", sizes={"M": 9, "N": 11, "K": 7})
    assert found.of("dram", "C").bytes_written == 4 * 9 * 11

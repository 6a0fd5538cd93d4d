"""`tilewright records` and `tilewright schedules`: every action, with right and wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autotune.made import record
from tilewright import commands
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.records import Record, Records, key_of
from tilewright.commands import records, schedules
from tilewright.commands.targets import find_target

Run = Callable[..., tuple[int, str, str]]
TILED = "schedule matmul\n  C.update:\n    split i -> io, ii by 4\n    reorder io k ii j"
SIZE = ("--size", "M=20,N=64,K=64")


@pytest.fixture
def kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """A database of three records of `program.py:matmul` (two buckets) and one of another processor, as the default."""
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.db"))
    p = find_target(f"{Path.cwd() / 'program.py'}:matmul").pipeline
    small, large = (key_of(p, bucket=b) for b in ("M=1..16,N=64,K=64", "M=17..24,N=64,K=64"))
    far = key_of(p, bucket="M=17..24,N=64,K=64", fingerprint=Fingerprint("Far CPU", ("neon",), (65536,), 8))
    made = [
        record(1e-3, small, schedule=TILED), record(2e-3, large, schedule=TILED), record(None, large, rows=8),
        record(5e-4, far, schedule="schedule matmul"),
    ]  # fmt: skip
    with Records() as mine:
        mine.add(*made)
    return made


def test_records_are_listed_by_case(run: Run, kept: list[Record]) -> None:
    code, out, _ = run("records", "list")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("4 records in ") and len(lines) == 6
    assert "M=1..16,K=64,N=64" in lines[3] and "1 ms" in lines[3] and kept[0].digest[:8] in lines[3]
    data = json.loads(run("records", "list", "--bucket", "M=17..24,K=64,N=64", "--threads", "8", "--json")[1])
    assert [(r["best"], r["count"], r["failed"]) for r in data["rows"]] == [(5e-4, 1, 0)]
    assert sum(r.count for r in records.list(kernel="matmul").rows) == 4 and not records.list(kernel="blur").rows


def test_a_record_is_shown_in_full(run: Run, kept: list[Record]) -> None:
    code, out, _ = run("records", "show", kept[1].digest[:8])
    assert code == 0 and "figure    2 ms" in out and "  schedule matmul" in out and "split i -> io, ii by 4" in out
    assert "figure    none: crash" in run("records", "show", kept[2].digest)[1]
    assert json.loads(run("records", "show", kept[1].digest, "--json")[1])["records"][0]["hash"] == kept[1].digest


def test_records_travel_in_files(run: Run, kept: list[Record], tmp_path: Path) -> None:
    file, other = str(tmp_path / "x.jsonl"), str(tmp_path / "other.db")
    assert run("records", "export", file, "--status", "ok")[1] == f"{file}: 3 records written\n"
    assert run("records", "import", file, "--records", other)[1] == f"{other}: 3 new, 0 known\n"
    assert json.loads(run("records", "import", file, "--records", other, "--json")[1])["known"] == 3
    assert run("records", "import", other)[1].endswith("0 new, 3 known\n"), "databases are taken too"
    Path(file).write_text(Path(file).read_text() + "nonsense\n" + '{"key": {}}\n')
    code, out, _ = run("records", "import", file)
    assert (
        code == 1 and f"{file}:5: left out, this is no JSON" in out and f"{file}:6: left out, this is no record" in out
    )


def test_records_are_pruned(run: Run, kept: list[Record]) -> None:
    assert run("records", "prune", "--failed", "--dry-run")[1] == "1 record would be removed, 3 left\n"
    assert run("records", "prune", "--failed")[1] == "1 record removed, 3 left\n"
    assert json.loads(run("records", "prune", "--best", "0", "--json")[1])["left"] == 0
    assert len(records.list().rows) == 0


def test_it_is_explained_which_record_a_call_uses(run: Run, kept: list[Record]) -> None:
    code, out, _ = run("records", "explain", "program.py:matmul", *SIZE)
    assert code == 0 and out.startswith("matmul at M=20 K=64 N=64, time on ")
    assert "used: 2 ms at" in out and "  measured for this\n" in out and "measured on Far CPU with 8 threads" in out
    assert "they failed" in out
    data = json.loads(run("records", "explain", "program.py:matmul", "--size", "M=17..24,N=64,K=64", "--json")[1])
    assert data["bucket"] == "M=17..24,K=64,N=64" and data["used"]["exact"]
    _, out, _ = run("records", "explain", "program.py:matmul", *SIZE, "--machine", "toy")
    assert "cycles on toy" in out and "no record is used: the default schedule is taken" in out
    assert "measured for time" in out
    _, out, _ = run("records", "explain", "program.py:roots", "--size", "N=5")
    assert "there are no records of roots as it is now" in out


def test_schedules_are_frozen_checked_compared_and_upgraded(run: Run, kept: list[Record], tmp_path: Path) -> None:
    file = str(tmp_path / "frozen.tw")
    assert run("schedules", "freeze", "program.py:matmul", "-o", file)[:2] == (0, f"{file}: 2 schedules written\n")
    assert run("schedules", "check", file)[0] == 0
    code, out, _ = run("schedules", "check", file, "program.py")
    assert code == 0 and "M=17..24,K=64,N=64  ok       2 directives, 2 ms at" in out
    assert run("show", "program.py:matmul", "--schedule", file, *SIZE)[0] == 0, "other commands take the sizes' bucket"
    worse = Path(file).read_text().replace("ii by 4", "ii by 5", 1)
    (tmp_path / "worse.tw").write_text(worse)
    code, out, _ = run("schedules", "diff", file, str(tmp_path / "worse.tw"))
    assert code == 0 and "matmul M=1..16,K=64,N=64: changed" in out and "+     split i -> io, ii by 5" in out
    (tmp_path / "bad.tw").write_text(worse.replace("reorder io k ii j", "reorder io q"))
    code, out, _ = run("schedules", "check", str(tmp_path / "bad.tw"))
    assert code == 1 and out.count("illegal") == 2 and "2 can't be used as they are" in out
    before = (tmp_path / "bad.tw").read_text()
    code, out, _ = run("schedules", "upgrade", str(tmp_path / "bad.tw"))
    assert code == 1 and "2 left as they were" in out and (tmp_path / "bad.tw").read_text() == before
    assert run("schedules", "upgrade", file, "-o", str(tmp_path / "new.tw"))[0] == 0
    assert (tmp_path / "new.tw").read_text() == Path(file).read_text()
    assert json.loads(run("schedules", "check", file, "--json")[1])["ok"] is True


def test_a_kernel_that_has_changed_makes_schedules_stale_until_they_are_upgraded(
    run: Run, kept: list[Record], tmp_path: Path
) -> None:
    file, changed = tmp_path / "frozen.tw", tmp_path / "changed.py"
    run("schedules", "freeze", "program.py:matmul", "-o", str(file))
    changed.write_text(Path("program.py").read_text().replace("A[i, k] * B[k, j]", "A[i, k] * B[k, j] * 2"))
    code, out, _ = run("schedules", "check", str(file), str(changed))
    assert code == 1 and out.count("stale") == 2
    code, out, _ = run("schedules", "upgrade", str(file), str(changed))
    assert code == 0 and out.splitlines() == [
        "matmul M=1..16,K=64,N=64: upgraded", "matmul M=17..24,K=64,N=64: upgraded", "2 schedules: 2 upgraded",
    ]  # fmt: skip
    assert run("schedules", "check", str(file), str(changed))[0] == 0 and "; of " in file.read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("records", "ACTION"),
        ("records list --records none.db", "there is no database none.db"),
        ("records list --records .", "is a folder"),
        ("records list --records program.py", "is a text and no database"),
        ("records list --objective beauty", "no record has the objective 'beauty'"),
        ("records list --status good", "no record has the status 'good'"),
        ("records list --threads two", "invalid int"),
        ("records show", "required"),
        ("records show 123456", "there is no record '123456'"),
        ("records export nowhere/x.jsonl", "can't write nowhere/x.jsonl"),
        ("records import none.jsonl", "there is no file none.jsonl"),
        ("records import program.py", "is no file of records"),
        ("records prune", "nothing is said to be removed"),
        ("records prune --best -1", "can't keep -1 schedules"),
        ("records prune --days nan", "can't keep nan days"),
        ("records explain program.py:matmul --size M=2", "needs the sizes K, N"),
        ("records explain program.py:matmul --size M=5..2,N=1,K=1", "size M is 5..2"),
        ("records explain program.py:nothing --size M=2", "no kernel 'nothing'"),
        ("records explain program.py:matmul --size M=1,N=1,K=1 --objective cycles", "no records of cycles"),
        ("records explain program.py:matmul --size M=1,N=1,K=1 --machine nothing", "no machine called 'nothing'"),
        ("schedules freeze program.py:window --static taps=3 -o x.tw", "no records of window"),
        ("schedules freeze program.py:matmul", "-o"),
        ("schedules freeze program.py:matmul -o x.tw --bucket M=", "is no bucket"),
        ("schedules check none.tw", "can't read none.tw"),
        ("schedules check double.tw program.py", "there is no such kernel"),
        ("schedules check program.py", "expected kernel or schedule"),
        ("schedules upgrade none.tw", "can't read none.tw"),
        ("schedules diff double.tw none.tw", "can't read none.tw"),
    ],
)  # fmt: skip
def test_wrong_input_ends_with_code_2_and_one_paragraph(run: Run, kept: list[Record], line: str, said: str) -> None:
    code, _, err = run(*line.split())
    assert code == 2 and "Traceback" not in err and said in err, err


def test_what_is_damaged_is_said(run: Run, kept: list[Record], tmp_path: Path) -> None:
    (tmp_path / "records.db").write_bytes(b"\x55" * 9000)
    with pytest.warns(UserWarning, match="was damaged"):
        code, out, _ = run("records", "list")
    assert code == 0 and out.startswith("0 records in ") and "note: " in out and "was damaged" in out


def test_without_a_database_there_are_no_records(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "none.db"))
    assert run("records", "list")[:2] == (0, "0 records in no database\n")
    assert "no record is used" in run("records", "explain", "program.py:roots", "--size", "N=5")[1]
    assert not (tmp_path / "none.db").exists(), "who only asks makes no files"


def test_everything_is_a_function(run: Run, kept: list[Record], tmp_path: Path) -> None:
    found = records.explain("program.py:matmul", sizes={"M": 20, "N": 64, "K": 64})
    assert found.used is not None and found.used.record == kept[1]
    records.export(tmp_path / "x.jsonl")
    assert records.import_([tmp_path / "x.jsonl"], Records(None)).new == 4
    assert schedules.freeze(tmp_path / "f.tw", ["program.py:matmul"], buckets=["M=1,N=64,K=64"]).schedules == 1
    assert schedules.check(tmp_path / "f.tw").ok and schedules.diff(tmp_path / "f.tw", tmp_path / "f.tw").same
    assert replace(found, used=None).used is None and commands.records is records and commands.schedules is schedules

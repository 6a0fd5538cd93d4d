"""What happens to records when processes are killed, disks are full, folders can't be written and files are damaged."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.autotune.made import HERE, at, record
from tests.kernels import matmul
from tilewright.autotune.errors import RecordError, RecordsWarning
from tilewright.autotune.records import Record, Records
from tilewright.autotune.records import database as db
from tilewright.autotune.records.store import location

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


@contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A process that does `work`, writing to a pipe; gives its number and the other end. What it raises is its end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            warnings.simplefilter("ignore")
            work(write)
            code = 0
        except BaseException as e:
            os.write(write, f"\n{type(e).__name__}: {e}".encode())
        finally:
            os._exit(code)
    os.close(write)
    try:
        yield pid, read
    finally:
        os.close(read)


def finished(pid: int, read: int) -> bytes:
    """All that a child has said, once it has ended well."""
    said = b"".join(iter(lambda: os.read(read, 65536), b""))
    assert os.waitpid(pid, 0)[1] == 0, said.decode()
    return said


def one(k: int, bucket: str = "M=1", size: int = 0) -> Record:
    return record(1.0 + k, at(bucket), message="x" * size, origin=f"number {k}")


def numbers(records: Records) -> set[int]:
    return {int(r.origin.split()[1]) for r in records.list()}


def quiet(path: Path | None) -> Records:
    """Records of a file that something is wrong with."""
    with pytest.warns(RecordsWarning):
        return Records(path)


@contextmanager
def told(what: str) -> Iterator[None]:
    """What happens inside is told in a warning that says `what`, maybe among others."""
    with pytest.warns(RecordsWarning) as said:
        yield
    assert any(what in str(w.message) for w in said), [str(w.message) for w in said]


# Processes ------------------------------------------------------------------------------------------------------


def test_a_writer_that_is_killed_loses_at_most_the_record_that_it_was_writing(tmp_path: Path) -> None:
    path, rng, done = tmp_path / "r.db", random.Random(1), 0

    def work(write: int) -> None:
        with Records(path) as mine:
            for k in range(done, 100_000):
                mine.add(one(k, size=rng.randrange(6000)))
                os.write(write, b".")

    for _ in range(15 * int(os.environ.get("TILEWRIGHT_FUZZ", "1"))):
        with child(work) as (pid, read):
            said = b""
            wanted = rng.randrange(1, 12)
            while len(said) < wanted:
                said += os.read(read, 1)
            for _ in range(rng.randrange(2000)):  # some moment between two records
                pass
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            said += b"".join(iter(lambda read=read: os.read(read, 65536), b""))
        with Records(path) as mine:
            found = numbers(mine)
            assert not mine.problems and not mine.damaged()
        assert found >= set(range(done + len(said))) and len(found) <= done + len(said) + 1
        done = max(found) + 1
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_several_write_and_begin_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.db"
    start, go = os.pipe()

    def work(write: int) -> None:
        os.close(go)
        os.read(start, 1)  # all begin together
        with Records(path) as mine:
            for k in range(40):
                mine.add(one(k, f"M={os.getpid()}"), one(k, "M=1"))
            assert not mine.problems, mine.problems

    with child(work) as a, child(work) as b, child(work) as c:
        os.close(start)
        os.close(go)
        for pid, read in (a, b, c):
            finished(pid, read)
    with Records(path) as mine:
        assert len(mine) == 4 * 40 and len(mine.list(bucket="M=1")) == 40 and not mine.problems


def test_after_a_fork_both_go_on(tmp_path: Path) -> None:
    with Records(tmp_path / "r.db") as mine:
        mine.add(one(0))

        def work(write: int) -> None:
            mine.add(one(1))
            assert numbers(mine) == {0, 1}

        with child(work) as (pid, read):
            finished(pid, read)
        mine.add(one(2))
        assert numbers(mine) == {0, 1, 2}


# No room --------------------------------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing_and_what_is_new_is_written_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    mine = Records(path)
    mine.add(*map(one, range(5)))
    raw = mine.store._connection()
    most = raw.execute("PRAGMA max_page_count").fetchone()[0]
    pages = raw.execute("PRAGMA page_count").fetchone()[0]
    raw.execute(f"PRAGMA max_page_count = {pages}")
    with told("full"):
        for k in range(5, 30):
            assert mine.add(one(k, size=3000)) == 1
    assert numbers(mine) == set(range(30)) and mine.best(at("M=1")) == one(0)
    assert any("full" in p for p in mine.problems) and any("kept in memory" in p for p in mine.problems)
    with Records(path) as other:
        assert set(range(5)) <= numbers(other) < set(range(30)) and not other.problems
    raw.execute(f"PRAGMA max_page_count = {most}")
    with told("are now in"):
        assert mine.add(one(30)) == 1
    mine.close()
    with Records(path) as other:
        assert numbers(other) == set(range(31))


def test_what_waits_is_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    mine = Records(path)
    raw = mine.store._connection()
    most = raw.execute("PRAGMA max_page_count").fetchone()[0]
    raw.execute(f"PRAGMA max_page_count = {raw.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.warns(RecordsWarning):
        mine.add(one(1, size=50_000))
    raw.execute(f"PRAGMA max_page_count = {most}")
    with told("are now in"):
        mine.close()
    with Records(path) as other:
        assert numbers(other) == {1}


def test_a_limit_of_the_system_is_like_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with Records(path) as mine:
        mine.add(*map(one, range(5)))

    def work(write: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        mine = Records(path)
        for k in range(5, 60):
            assert mine.add(one(k, size=5000)) == 1, k
        assert numbers(mine) == set(range(60))
        assert any("kept in memory" in p for p in mine.problems), mine.problems
        mine.close()

    with child(work) as (pid, read):
        finished(pid, read)
    with Records(path) as mine:
        assert set(range(5)) <= numbers(mine) and not mine.problems and not mine.damaged()
        assert len(mine) < 60


def test_who_locks_the_file_for_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "BUSY", 0.05)
    with Records(tmp_path / "r.db") as mine:
        mine.add(one(0))
        with closing(sqlite3.connect(tmp_path / "r.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with told("locked"):
                mine.add(one(1))
            assert numbers(mine) == {0, 1}
            other.execute("ROLLBACK")
        with told("are now in"):
            mine.add(one(2))
        assert numbers(mine) == {0, 1, 2}


# No leave -------------------------------------------------------------------------------------------------------


def unprivileged(folder: Path, work: Callable[[], None]) -> None:
    """Run in a process that may not write in the folder."""
    os.chmod(folder, 0o555)

    def run(write: int) -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    with child(run) as (pid, read):
        finished(pid, read)
    os.chmod(folder, 0o755)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everyone may enter."""
    made = Path(tempfile.mkdtemp())
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


def test_in_a_folder_that_cannot_be_written_records_are_read_and_new_ones_kept_in_memory(folder: Path) -> None:
    with Records(folder / "r.db") as mine:
        mine.add(*map(one, range(3)))
    os.chmod(folder / "r.db", 0o444)

    def work() -> None:
        for path, there in ((folder / "r.db", {0, 1, 2}), (folder / "none.db", set()), (folder / "a" / "b.db", set())):
            with Records(path) as mine:
                assert numbers(mine) == there, path
                assert mine.add(one(7)) == 1
                assert numbers(mine) == {*there, 7}
                assert any("can't be used" in p for p in mine.problems), mine.problems
                assert any("kept in memory" in p for p in mine.problems), mine.problems

    unprivileged(folder, work)
    with Records(folder / "r.db") as mine:
        assert numbers(mine) == {0, 1, 2}


def test_a_path_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mine = Records(tmp_path / "file" / "r.db")
    assert len(mine) == 0 and not mine.problems
    with told("can't be used"):
        mine.add(one(1))
    assert "kept in memory" in mine.problems[1]
    assert numbers(mine) == {1}
    with pytest.warns(RecordsWarning):
        assert len(Records(tmp_path)) == 0, "a folder"


# Damage ---------------------------------------------------------------------------------------------------------


def written(path: Path, count: int = 60) -> int:
    with Records(path) as mine:
        for k in range(count):
            mine.add(one(k, f"M={k % 3 + 1}", size=800))
    return path.stat().st_size


def aside(path: Path) -> list[Path]:
    return [p for p in path.parent.glob(f"{path.name}.damaged-*") if p.suffix not in ("-wal", "-shm")]


@pytest.mark.parametrize("first", [True, False])
def test_a_damaged_file_is_set_aside_and_what_can_be_read_is_saved(tmp_path: Path, first: bool) -> None:
    path = tmp_path / "r.db"
    size = written(path)
    with open(path, "r+b") as file:
        file.seek(0 if first else size // 2)
        file.write(os.urandom(1) * 4096)
    damaged = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordsWarning)
        mine = Records(path)
        found = numbers(mine)  # a page in the middle is noticed when it is read
    assert len(mine.problems) == 1 and "was damaged" in mine.problems[0]
    assert len(aside(path)) == 1 and aside(path)[0].name in mine.problems[0]
    assert aside(path)[0].read_bytes() == damaged, "nothing is lost of the damaged file"
    assert f"{len(found)} records" in mine.problems[0] and len(found) >= (60 if first else 45)
    assert mine.add(one(99)) == 1
    mine.close()
    with Records(path) as again:
        assert numbers(again) == found | {99} and not again.problems


@pytest.mark.parametrize("junk", [b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 3000, bytes(range(256)) * 40])
def test_a_file_of_junk_is_set_aside(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "r.db"
    path.write_bytes(junk)
    mine = quiet(path)
    assert "was damaged" in mine.problems[0] and "0 records" in mine.problems[0]
    assert aside(path)[0].read_bytes() == junk
    mine.add(one(1))
    mine.close()
    with Records(path) as again:
        assert numbers(again) == {1} and not again.problems


@pytest.mark.parametrize("seed", range(12))
def test_whatever_bytes_are_changed_records_go_on(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "r.db", random.Random(seed)
    written(path, 30)
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 5, 40])):
        content[rng.randrange(200 if seed % 3 == 0 else len(content))] = rng.randrange(256)
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordsWarning)
        try:
            mine = Records(path)
        except RecordError as e:
            assert e.code == "records.newer", "a version that can't be told from a later one"
            return
        assert numbers(mine) <= set(range(30))
        assert mine.add(one(99)) == 1 and mine.best(at("M=9")) is None
        mine.close()
        with Records(path) as again:
            assert 99 in numbers(again)


def test_a_file_that_was_cut_off_keeps_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    size = written(path)
    os.truncate(path, size // 2 - 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordsWarning)
        mine = Records(path)
        found = numbers(mine)
    assert mine.problems and 5 < len(found) < 60 and found < set(range(60))


def test_a_database_that_was_pruned_is_smaller_and_is_saved_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    size = written(path)
    with Records(path) as mine:
        assert len(mine.prune(best=1)) == 60 - 3, "each bucket has one schedule"
    assert path.stat().st_size < size / 2
    with open(path, "r+b") as file:
        file.write(b"\x55" * 4096)
    with told("was damaged"), Records(path) as mine:
        assert len(mine) == 3


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    with Records(tmp_path / "a" / "r.db") as mine:
        assert len(mine) == 0 and mine.list() == () and mine.best(at("M=1")) is None and mine.prune(best=0) == ()
        assert not (tmp_path / "a").exists()
        mine.add(one(1))
    assert (tmp_path / "a" / "r.db").exists()


def test_threads_share_a_database(tmp_path: Path) -> None:
    with Records(tmp_path / "r.db") as mine, ThreadPoolExecutor(4) as pool:

        def work(t: int) -> int:
            return sum(mine.add(one(100 * t + k)) + 0 * len(mine.of(at("M=1"))) for k in range(15))

        assert sum(pool.map(work, range(4))) == 60
        assert len(mine) == 60 and not mine.problems


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "r.db").write_bytes(b"")
    with Records(tmp_path / "r.db") as mine:
        assert mine.add(one(1)) == 1 and not mine.problems and not aside(tmp_path / "r.db")


def test_damage_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    written(path)
    mine = Records(path)
    with open(path, "r+b") as file:
        for page in range(4, 20):
            file.seek(page * 4096)
            file.write(b"\x55" * 4096)
    with told("was damaged"):
        mine.list()
    assert mine.add(one(99)) == 1 and 99 in numbers(mine)
    mine.close()
    assert len(aside(path)) == 1


def test_several_that_notice_damage_set_it_aside_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    written(path)
    with open(path, "r+b") as file:
        file.write(b"\x55" * 4096)

    def work(write: int) -> None:
        with Records(path) as mine:
            for k in range(100, 110):
                mine.add(one(k, f"M={os.getpid()}"))

    with child(work) as a, child(work) as b, child(work) as c:
        for pid, read in (a, b, c):
            finished(pid, read)
    assert len(aside(path)) == 1
    with Records(path) as mine:
        assert len(mine) == 60 + 3 * 10 and not mine.problems


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "r.db", tmp_path / "other.db"
    for p, k in ((path, 1), (other, 2)):
        with Records(p) as made:
            made.add(one(k))
    with Records(path) as mine:
        assert numbers(mine) == {1}
        os.replace(other, path)
        assert numbers(mine) == {2}
        os.unlink(path)
        assert mine.add(one(3)) == 1 and numbers(mine) == {3}


# Rows and versions ----------------------------------------------------------------------------------------------


def test_rows_that_were_changed_are_never_used(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    written(path, 3)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE measurements SET figure = 0.001 WHERE origin = 'number 0'")
        raw.execute("UPDATE measurements SET samples = 'no JSON' WHERE origin = 'number 1'")
        raw.commit()
    with Records(path) as mine:
        assert numbers(mine) == {2} and mine.best(at("M=1")) is None
        assert sorted(d.why for d in mine.damaged()) == [
            "it is damaged: Expecting value: line 1 column 1 (char 0)", "it was changed after it was written",
        ]  # fmt: skip


@pytest.mark.parametrize("value", ["NULL", "''", "-1", "1e999", "x'00ff80'", "'{'", f"'{'[' * 3000}'", "'null'"])
def test_whatever_a_field_is_changed_to_the_other_records_go_on(tmp_path: Path, value: str) -> None:
    path = tmp_path / "r.db"
    with Records(path) as made:
        made.add(one(0), one(1), record(key=at("M=2..3")))
    keep = path.read_bytes()
    for table in ("keys", "measurements"):
        with closing(sqlite3.connect(path)) as raw:
            columns = [c[1] for c in raw.execute(f"PRAGMA table_info({table})") if c[1] not in ("id", "key")]
        for c in columns:
            path.write_bytes(keep)
            with closing(sqlite3.connect(path)) as raw, suppress(sqlite3.IntegrityError):  # of what may not be empty
                raw.execute(f"UPDATE {table} SET {c} = {value} WHERE id = 1")
                raw.commit()
            with Records(path) as mine:
                assert "search" in {r.origin for r in mine.list()}, c
                assert len(mine.list()) + len(mine.damaged()) == 3, c
                assert mine.find(matmul, {"M": 2, "N": 64, "K": 64}, fingerprint=HERE) is not None, c
                str(mine.explain(matmul, {"M": 2, "N": 64, "K": 64}, fingerprint=HERE))


def test_databases_of_others_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE albums (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(RecordError) as e:
        Records(path)
    assert e.value.code == "records.foreign" and path.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("buy milk\n" * 100)
    with pytest.raises(RecordError) as e:
        Records(text)
    assert e.value.code == "records.foreign" and text.read_text().startswith("buy milk")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_database_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    written(path, 2)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA user_version = {db.version() + 1}")
    with pytest.raises(RecordError, match="later version") as e:
        Records(path)
    assert e.value.code == "records.newer"
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT count(*) FROM measurements").fetchone()[0] == 2


def test_a_database_of_an_earlier_version_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.db"
    written(path, 2)
    monkeypatch.setitem(db.MIGRATIONS, db.version(), "ALTER TABLE measurements ADD COLUMN weather TEXT DEFAULT 'fair'")
    for _ in range(2):
        with Records(path) as mine:
            assert numbers(mine) == {0, 1} and not mine.problems
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT DISTINCT weather FROM measurements").fetchall() == [("fair",)]
        assert raw.execute("PRAGMA user_version").fetchone()[0] == db.version()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.db"
    written(path, 2)
    before = db.version()
    monkeypatch.setitem(
        db.MIGRATIONS, before, "ALTER TABLE measurements ADD COLUMN a TEXT; ALTER TABLE nothing ADD b TEXT"
    )
    assert numbers(quiet(path)) == set()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone()[0] == before
        assert raw.execute("SELECT count(*) FROM pragma_table_info('measurements') WHERE name = 'a'").fetchone()[0] == 0


def test_the_database_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "mine.db"))
    assert location() == tmp_path / "mine.db" == Records().path
    monkeypatch.delenv("TILEWRIGHT_RECORDS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert str(location()).startswith(str(tmp_path)) or os.name == "nt" or os.uname().sysname == "Darwin"

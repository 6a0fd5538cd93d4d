"""Records: their form as JSON, and the database held against a dictionary."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.autotune.made import DAY, HERE, KEY, at, record, records, text
from tests.kernels import matmul
from tilewright.autotune.errors import RecordError, TuneError
from tilewright.autotune.records import Record, Records, key_of, record_of
from tilewright.autotune.records.record import OBJECTIVES, STAGES
from tilewright.hw import load_machine

# Records and keys -----------------------------------------------------------------------------------------------


@given(records())
def test_a_record_is_its_line(r: Record) -> None:
    line = r.line()
    again = record_of(json.loads(line))
    assert again == r and again.digest == r.digest and again.line() == line and "\n" not in line


@given(records(), records())
def test_equal_records_have_equal_hashes_and_others_not(a: Record, b: Record) -> None:
    assert (a == b) == (a.digest == b.digest) == (a.line() == b.line())


def test_a_figure_is_a_number_whatever_kind_of_number_it_was() -> None:
    assert record(5).digest == record(5.0).digest and record(5).figure == 5.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "fine"}, "status is 'fine'"),
        ({"cache": "warm"}, "cache is 'warm'"),
        ({"stage": "best"}, "stage is 'best'"),
        ({"figure": None}, "the status is ok and the figure None"),
        ({"figure": -1.0}, "negative or no number"),
        ({"figure": float("nan")}, "negative or no number"),
        ({"samples": [1.0, float("inf")]}, "negative or no number"),
        ({"status": "crash"}, "the status is crash and the figure"),
        ({"schedule": 5}, "schedule is 5"),
        ({"sizes": {"M": "x"}}, "invalid literal"),
        ({"sizes": 3}, "no attribute"),
        ({"values": {"a": 1.5}}, "1.5"),
        ({"samples": 3}, "not iterable"),
        ({"key": 3}, "no object with a key"),
        ({"more": 3}, "more is unknown"),
        ({"schedule": "\udcff"}, "half a character"),
        ({"origin": "\ud800"}, "half a character"),
        ({"when": "\ud800"}, "half a character"),
        ({"sizes": {"\ud800": 3}}, "half a character"),
        ({"values": {"a": ["b\udfff"]}}, "half a character"),
        ({"key": asdict(KEY) | {"machine": "\ud800"}}, "half a character"),
    ],
)
def test_what_is_no_record_is_told(change: dict, said: str) -> None:
    with pytest.raises(RecordError) as e:
        record_of(record().as_json() | change)
    assert said in str(e.value) and e.value.code == "records.line"


def test_a_record_without_a_field_or_with_a_wrong_key_is_told() -> None:
    data = record().as_json()
    del data["unit"]
    with pytest.raises(RecordError, match="unit is missing"):
        record_of(data)
    with pytest.raises(RecordError, match=r"key\.threads is 'two'"):
        record_of(record().as_json() | {"key": asdict(KEY) | {"threads": "two"}})
    for other in (None, 3, [], "x", {}):
        with pytest.raises(RecordError):
            record_of(other)


def test_a_key_holds_all_that_figures_depend_on() -> None:
    p = matmul.pipeline()
    base = key_of(p, fingerprint=HERE)
    machine = load_machine("snitch-cluster")
    others = [
        key_of(p, fingerprint=replace(HERE, threads=1)), key_of(p, fingerprint=replace(HERE, features=("avx2",))),
        key_of(p, fingerprint=HERE, mode="fast"), key_of(p, fingerprint=HERE, bucket="M=1"),
        key_of(p, fingerprint=HERE, layouts={"B": "k j -> j//16 k j%16"}),
        *(key_of(p, objective=o, machine=machine) for o in OBJECTIVES if o != "time"),
        key_of(p, objective="cycles", machine=load_machine("toy")),
        replace(base, code="another"), replace(base, versions="another"),
    ]  # fmt: skip
    assert len({k.digest for k in (base, *others)}) == len(others) + 1
    assert base == key_of(matmul.pipeline(), fingerprint=HERE) and base.types == "f32 f32 -> f32"
    assert base.versions.startswith("llvmlite ") and len(base.code) == 64


def test_a_bucket_is_written_in_the_order_of_the_sizes() -> None:
    p = matmul.pipeline()
    assert p.sizes == ("M", "K", "N")
    assert key_of(p, fingerprint=HERE, bucket="N=4, K=1..2,M=3").bucket == "M=3,K=1..2,N=4"


def test_wrong_cases_are_refused() -> None:
    p = matmul.pipeline()
    for wrong in ({"objective": "beauty"}, {"objective": "cycles"}, {"machine": load_machine("toy")}):
        with pytest.raises(RecordError) as e:
            key_of(p, fingerprint=HERE, **wrong)  # type: ignore[arg-type]
        assert e.value.code == "records.objective"
    with pytest.raises(TuneError):
        key_of(p, fingerprint=HERE, bucket="M=..")


# The database ---------------------------------------------------------------------------------------------------


class Database(RuleBasedStateMachine):
    """A database, in a file or in memory, opened again now and then, against a dictionary by hash."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "records.db"
        self.records = Records(self.path)
        self.model: dict[str, Record] = {}
        self.second: Records | None = None

    @rule(rs=st.lists(records(), max_size=3))
    def add(self, rs: list[Record]) -> None:
        new = {r.digest: r for r in rs if r.digest not in self.model}
        assert self.records.add(*rs) == len(new)
        self.model |= new

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        assert self.records.add(data.draw(st.sampled_from(sorted(self.model.values(), key=lambda r: r.digest)))) == 0

    @rule(r=records())
    def add_by_another(self, r: Record) -> None:
        if self.second is None:
            self.second = Records(self.path)
        self.second.add(r)
        self.model[r.digest] = r

    @rule()
    def reopen(self) -> None:
        self.records.close()
        self.records = Records(self.path)

    @rule(best=st.integers(0, 2))
    def prune_best(self, best: int) -> None:
        gone = self.records.prune(best=best)
        for r in gone:
            del self.model[r.digest]
        left = list(self.model.values())
        assert all(r.ok for r in left)
        cases = {(r.key.digest, r.cache) for r in left}
        assert all(sum((r.key.digest, r.cache) == c for r in left) <= best for c in cases)

    @rule()
    def prune_failed(self) -> None:
        assert {r.digest for r in self.records.prune(failed=True)} == {d for d, r in self.model.items() if not r.ok}
        self.model = {d: r for d, r in self.model.items() if r.ok}

    @rule()
    def through_a_file(self) -> None:
        file = self.path.with_name("records.jsonl")
        assert self.records.export(file) == len(self.model)
        other = Records(None)
        done = other.merge(file)
        assert (done.new, done.known, done.refused) == (len(self.model), 0, ())
        assert other.list() == self.records.list() and self.records.merge(file).new == 0

    @invariant()
    def same(self) -> None:
        assert len(self.records) == len(self.model)
        found = self.records.list()
        assert {r.digest: r for r in found} == self.model and not self.records.problems
        for key in {r.key for r in found}:
            mine = [r for r in found if r.key == key]
            assert {r.digest for r in self.records.of(key)} == {r.digest for r in mine}
            good = [r for r in mine if r.ok and r.cache == "hot"]
            order = sorted(good, key=lambda r: (-STAGES.index(r.stage), r.figure, r.configuration))
            best = self.records.best(key)
            assert (best is None) == (not good)
            if best is not None:
                assert (best.stage, best.figure, best.schedule) == (order[0].stage, order[0].figure, order[0].schedule)

    def teardown(self) -> None:
        self.records.close()
        if self.second is not None:
            self.second.close()
        self.folder.cleanup()


Database.TestCase.settings = settings(max_examples=12, stateful_step_count=12)
TestDatabase = Database.TestCase


@given(st.lists(records(), max_size=4), st.lists(records(), max_size=4))
@settings(max_examples=20)
def test_merging_is_commutative_and_idempotent(a: list[Record], b: list[Record]) -> None:
    one, two = Records(None), Records(None)
    for into, parts in ((one, (a, b, a)), (two, (b, a))):
        for part in parts:
            other = Records(None)
            other.add(*part)
            into.merge(other)
    assert one.list() == two.list()
    assert [r.line() for r in one.list()] == [r.line() for r in two.list()]


def test_equal_records_make_equal_files(tmp_path: Path) -> None:
    rs = [record(k * 1e-3, at(f"M={k}"), k) for k in range(1, 6)]
    for name, order in (("a", rs), ("b", rs[::-1])):
        with Records(tmp_path / f"{name}.db") as made:
            made.add(*order)
            made.export(tmp_path / f"{name}.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"tilewright records": 1} and len(lines) == 6


def test_lists_are_filtered() -> None:
    r = Records(None)
    r.add(record(1.0, at("M=1")), record(2.0, at("M=2")), record(None, at("M=2")))
    assert [x.figure for x in r.list(bucket="M=2")] == [None, 2.0] or [x.figure for x in r.list(bucket="M=2")] == [
        2.0,
        None,
    ]
    assert [x.figure for x in r.list(bucket="M=2", status="ok")] == [2.0]
    assert r.list(kernel="blur") == () and len(r.list(kernel="matmul", threads=2)) == 3
    with pytest.raises(TypeError, match="no filter"):
        r.list(colour="red")


def test_a_record_is_got_by_the_first_digits_of_a_hash() -> None:
    r = Records(None)
    one, two = record(1.0), record(2.0, rows=8)
    r.add(one, two)
    assert r.get(one.digest[:6]) == (one,) and r.get(two.configuration[:6]) == (two,)
    assert r.get("%") == r.get("_") == r.get("") == r.get("no") == ()


def test_the_best_is_a_winner_before_a_finalist_before_others() -> None:
    r = Records(None)
    r.add(record(1.0, rows=1), record(3.0, rows=3))
    assert r.best(KEY) == record(1.0, rows=1)
    r.add(record(2.0, rows=2, stage="final"), record(2.5, rows=5, stage="final"))
    assert r.best(KEY) == record(2.0, rows=2, stage="final")
    r.add(record(2.5, rows=5, stage="chosen"))
    assert r.best(KEY) == record(2.5, rows=5, stage="chosen")
    assert r.best(KEY, "cold") is None and r.best(at("M=9")) is None
    tied = [record(1.0, at("M=1"), rows) for rows in (1, 2, 3)]
    r.add(*tied)
    assert r.best(at("M=1")) == min(tied, key=lambda x: x.configuration)


# Pruning --------------------------------------------------------------------------------------------------------


def test_pruning_by_age_version_failure_and_rank() -> None:
    r = Records(None)
    old = record(1.0, rows=1, when="2025-01-01T00:00:00Z")
    late = record(2.0, rows=2)
    stale = record(1.5, replace(KEY, code="before"), rows=3)
    alone = record(1.5, at("M=7", code="before"), rows=3)
    failed = record(None, rows=5)
    everything = (old, late, stale, alone, failed)
    r.add(*everything)
    assert r.prune(days=30, when=DAY, dry=True) == (old,) and len(r) == 5
    assert r.prune(versions=True, dry=True) == (stale,), "nothing newer has taken the place of the other one"
    assert r.prune(failed=True, dry=True) == (failed,)
    assert {x.digest for x in r.prune(best=1, dry=True)} == {late.digest, failed.digest}
    again = record(0.9, rows=2)
    r.add(again)
    assert {x.digest for x in r.prune(best=1, dry=True)} == {late.digest, failed.digest, old.digest}
    r.prune(days=30, when=DAY, versions=True, failed=True)
    assert {x.digest for x in r.list()} == {late.digest, again.digest, alone.digest}
    assert len(r.prune(best=0)) == 3 and len(r) == 0 and r.store.keys("true", ()) == []
    for wrong in ({"best": -1}, {"days": -1.0}, {"days": float("nan")}):
        with pytest.raises(RecordError):
            r.prune(**wrong)  # type: ignore[arg-type]


def test_looking_up_imports_no_compiler(tmp_path: Path) -> None:
    program = f"""
import sys
from tests.autotune.made import KEY, record
from tests.kernels import matmul
from tilewright.autotune.records import Records
with Records({str(tmp_path / "r.db")!r}) as r:
    r.add(record())
    assert r.find(matmul, dict(M=3, N=4, K=5)) is not None
assert not {{"numba", "optuna", "rich", "matplotlib"}} & set(sys.modules), "slow to import"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_texts_of_schedules_lose_the_end_of_their_last_line() -> None:
    assert record(schedule=text() + "\n") == record(schedule=text())

"""Which record is used for a call, how it was found, and what is said of those that are not."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

import tilewright as tw
from tests.autotune.made import HERE, KEY, OTHER, SIZES, at, record, text
from tests.kernels import K, M, N, matmul
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.records import Found, Records, Rejected, key_of
from tilewright.autotune.records.lookup import answers, quantity
from tilewright.autotune.records.record import family
from tilewright.hw import load_machine

OLD = {"code": "before"}


def matmul_of(t: Any, name: str = "matmul", double: bool = False) -> tw.Kernel:
    """The same kernel for another type, or (`double`) another algorithm."""

    def fn(A, B):
        i, j = tw.vars("i j")
        k = tw.rdom(k=K)
        C = tw.func("C")
        C[i, j] = 0.0
        C[i, j] += A[i, k] * B[k, j] * 2 if double else A[i, k] * B[k, j]
        return C[:M, :N]

    fn.__name__, fn.__annotations__ = name, {"A": t[M, K], "B": t[K, N]}
    return tw.kernel(fn)


def kept(*rs: Any) -> Records:
    made = Records(None)
    made.add(*rs)
    return made


def ask(records: Records, sizes: Any = SIZES, **options: Any) -> Found | None:
    return records.find(matmul, sizes, fingerprint=HERE, **options)


def test_a_record_of_the_very_bucket_is_exact() -> None:
    found = ask(kept(record(1.0, at("M=17..24,K=64,N=64"))), None, bucket="M=17..24,N=64,K=64")
    assert found is not None and found.exact and found.how == "measured for this"
    assert str(found.schedule) == text() and found.schedule.pipeline.digest == matmul.pipeline().digest


def test_sizes_find_the_narrowest_bucket_that_holds_them() -> None:
    r = kept(*(record(1.0, at(b), n) for n, b in enumerate(("M=1..4096", "M=17..32", "M=17..24", "M=25..32"), 2)))
    found = ask(r)
    assert found is not None and found.exact and found.record.key.bucket == "M=17..24"


@pytest.mark.parametrize("code", range(8))  # ties would be broken by the digests of keys
def test_nothing_is_as_near_as_the_bucket_itself(code: int) -> None:
    keys = (replace(at(b), code=f"{code}" * 64) for b in ("M=20", "M=17..24", "Q=3", "M=20,Q=3"))
    r = kept(*(record(1.0, key, n) for n, key in enumerate(keys, 2)))
    found = [f.record.key.bucket for f in r.candidates(matmul, bucket="M=17..24", fingerprint=HERE)]
    assert found[:2] == ["M=17..24", "M=20"]
    assert "M=17..24" not in found[1:]
    last = [f for f in r.candidates(matmul, SIZES | {"M": 20}, fingerprint=HERE) if "Q" in f.record.key.bucket]
    assert all(not f.exact and "the kernel has no size Q" in f.how for f in last)


def test_what_is_for_any_sizes_stands_back_for_what_is_for_some() -> None:
    r = kept(record(1.0, at(""), 2), record(2.0, at("M=17..24"), 3), record(3.0, at("M=1000..2000"), 4))
    assert [f.record.figure for f in r.candidates(matmul, SIZES, fingerprint=HERE)] == [2.0, 1.0, 3.0]
    found = [f.how for f in r.candidates(matmul, bucket="M=18..20", fingerprint=HERE)]
    assert found[:2] == ["for M=17..24", "for any sizes"]


@pytest.mark.parametrize("size", [25, 30, 47, 60, 10_000])
def test_the_nearest_bucket_stands_in_and_says_so(size: int) -> None:
    r = kept(*(record(1.0, at(b), n) for n, b in enumerate(("M=1..4", "M=17..24", "M=65..128"), 2)))
    found = ask(r, SIZES | {"M": size})
    assert found is not None and not found.exact
    near = "M=17..24" if size < 24 * (65 / 24) ** 0.5 else "M=65..128"
    assert found.record.key.bucket == near and found.how == f"for {near}"


def test_nearer_candidates_come_first() -> None:
    """From the very key outwards: an older version, another bucket, types, machine."""
    here = "M=17..24"
    in_order = [
        record(9.0, at(here), 1),
        record(8.0, at(here, **OLD), 2),
        record(7.0, at("M=25..32"), 3),
        record(6.0, replace(key_of(matmul_of(tw.f64).pipeline(), fingerprint=HERE), bucket=here), 4),
        record(5.0, replace(key_of(matmul.pipeline(), fingerprint=OTHER), bucket=here), 5),
    ]
    shuffled = in_order[:]
    random.Random(5).shuffle(shuffled)
    found = [*kept(*shuffled).candidates(matmul, bucket=here, fingerprint=HERE)]
    assert [f.record.figure for f in found[:3]] == [9.0, 8.0, 7.0] and len(found) == 5
    assert {f.record.figure: f.how for f in found} == {
        9.0: "measured for this", 8.0: "measured with another version of the code generator", 7.0: "for M=25..32",
        6.0: "for types f64 f64 -> f64", 5.0: "measured on Other CPU",
    }  # fmt: skip
    assert all(f.schedule.pipeline.digest == matmul.pipeline().digest for f in found)


def test_of_other_machines_the_more_similar_one_is_taken() -> None:
    far = Fingerprint("Far CPU", ("neon",), (65536,), 64)
    r = kept(*(record(1.0, key_of(matmul.pipeline(), fingerprint=f), n) for n, f in enumerate((far, OTHER), 2)))
    found = ask(r)
    assert found is not None and found.record.key.machine == "Other CPU"
    threads = ask(kept(record(1.0, key_of(matmul.pipeline(), fingerprint=replace(HERE, threads=1)))))
    assert threads is not None and threads.how == "measured on Some CPU with 1 thread"


def test_caches_are_as_asked_or_it_is_said() -> None:
    r = kept(record(1.0, cache="cold"), record(2.0, rows=8))
    assert [(f.record.cache, f.how) for f in r.candidates(matmul, SIZES, fingerprint=HERE, cache="cold")] == [
        ("cold", "measured for this"), ("hot", "measured with hot caches"),
    ]  # fmt: skip


def test_objectives_modes_and_layouts_are_never_mixed() -> None:
    p, toy = matmul.pipeline(), load_machine("toy")
    r = kept(
        record(1.0, key_of(p, objective="cycles", machine=toy), unit="cycles"),
        record(1.0, key_of(p, fingerprint=HERE, mode="fast")),
        record(1.0, key_of(p, fingerprint=HERE, layouts={"B": "k j -> j k"})),
    )
    assert ask(r) is None
    said = [a.why for a in answers(r.store, r.question(matmul, SIZES, fingerprint=HERE)) if isinstance(a, Rejected)]
    assert sorted(said) == ["arrays are given in the layouts B: k j -> j k", "in mode fast", "measured for cycles"]
    assert ask(r, objective="cycles", machine=toy) is not None and ask(r, mode="fast") is not None
    assert ask(r, objective="cycles", machine=load_machine("zen3")) is not None  # of another machine, and it says so
    assert ask(r, objective="bytes", machine=toy) is None


def test_a_schedule_that_wants_its_arguments_laid_out_is_not_used_where_they_are_not() -> None:
    given = "schedule matmul\n  layout B given layout k j -> j k"
    assert ask(kept(record(1.0, schedule=given))) is None
    r = kept(record(1.0, key_of(matmul.pipeline(), fingerprint=HERE, layouts={"B": "k j -> j k"}), schedule=given))
    assert ask(r) is None and ask(r, layouts={"B": "k j -> j k"}) is not None


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("schedule matmul\n  C.update:\n    split q -> a, b by 4", "not legal: "),
        ("schedule matmul\n  C.update:\n    splits i -> a, b by 4", "not legal: "),
        ("schedule matmul\n  C.update:\n    split i ->", "not legal: found"),
        ("schedule matmul\n\nschedule matmul", "its text says 2 schedules"),
        ("", "its text says 0 schedules"),
        ("import os", "not legal: "),
        ("schedule matmul machine nowhere", "not legal: "),
    ],
)
def test_an_edited_record_with_an_illegal_schedule_is_passed_over_with_the_reason(schedule: str, why: str) -> None:
    r = kept(record(1.0, schedule=schedule), record(2.0))
    found = r.explain(matmul, SIZES, fingerprint=HERE)
    assert found.used is not None and found.used.record == record(2.0)
    (bad,) = found.others
    assert isinstance(bad, Rejected) and bad.why.startswith(why) and why in str(found)


def test_what_needs_the_whole_schedule_is_checked_too_but_for_what_a_search_begins_with() -> None:
    whole = "schedule matmul\n  cache_write C in reg"
    r = kept(record(1.0, schedule=whole))
    assert ask(r) is None and ask(r) is None
    assert len([*r.candidates(matmul, SIZES, fingerprint=HERE)]) == 1
    (bad,) = r.explain(matmul, SIZES, fingerprint=HERE).others
    assert isinstance(bad, Rejected) and "can't be in registers" in bad.why


def test_the_caller_may_refuse_schedules() -> None:
    r = kept(record(1.0, rows=4), record(2.0, rows=8))
    found = ask(r, accept=lambda s: "too short" if "by 4" in str(s) else None)
    assert found is not None and found.record.figure == 2.0
    assert "too short" in str(r.explain(matmul, SIZES, fingerprint=HERE, accept=lambda s: "too short"))


def test_other_algorithms_of_the_name_are_not_used() -> None:
    r = kept(record(1.0, key_of(matmul_of(tw.f32, double=True).pipeline(), fingerprint=HERE)))
    found = r.explain(matmul, SIZES, fingerprint=HERE)
    assert found.used is None and found.elsewhere == 1 and not found.others
    assert str(found) == (
        "matmul at M=24 N=64 K=64, time on Some CPU, 2 threads\n"
        "no record is used: the default schedule is taken\n"
        "  there are no records of matmul as it is now\n"
        "not used: 1 of other versions of matmul"
    )


def test_families_are_kernels_that_differ_in_types_alone() -> None:
    one = family(matmul.pipeline())
    assert one == family(matmul_of(tw.f64).pipeline()) == family(matmul_of(tw.bf16).pipeline())
    assert one != family(matmul_of(tw.f32, double=True).pipeline())
    assert one != family(matmul_of(tw.f32, name="other").pipeline())


def test_an_explanation_tells_everything() -> None:
    bucket = "M=17..24,K=64,N=64"
    r = kept(
        record(1e-3, at(bucket)), record(2e-3, at(bucket), 8), record(None, at(bucket), 2), record(None, at(bucket), 1),
        record(3e-3, at("M=33..48,K=64,N=64"), 2),
    )  # fmt: skip
    found = r.explain(matmul, SIZES, fingerprint=HERE)
    first, second = record(1e-3).configuration[:8], record(2e-3, rows=8).configuration[:8]
    third = record(3e-3, rows=2).configuration[:8]
    assert str(found).split("\n") == [
        "matmul at M=24 N=64 K=64, time on Some CPU, 2 threads",
        f"used: 1 ms at M=24,N=64,K=64 in {bucket}, {first}, 2026-01-02",
        "  measured for this",
        *(f"  {line}" for line in text().split("\n")),
        f"not used: 2 ms at M=24,N=64,K=64 in {bucket}, {second}, 2026-01-02: not as good",
        f"not used: 2 of {bucket} on Some CPU, 2 threads: they failed",
        f"not used: 3 ms at M=24,N=64,K=64 in M=33..48,K=64,N=64, {third}, 2026-01-02: for M=33..48,K=64,N=64",
    ]
    data = json.loads(json.dumps(found.as_json()))
    assert data["used"]["exact"] and [o.get("why", o.get("how")) for o in data["others"]] == [
        "measured for this", "they failed", "for M=33..48,K=64,N=64",
    ]  # fmt: skip
    assert len(r.explain(matmul, SIZES, fingerprint=HERE, most=1).others) == 1


def test_what_was_changed_in_the_database_is_told(tmp_path: Any) -> None:
    import sqlite3

    with Records(tmp_path / "r.db") as r:
        r.add(record(1.0), record(2.0, rows=8))
        raw = sqlite3.connect(tmp_path / "r.db")
        raw.execute("UPDATE measurements SET figure = 0.1 WHERE figure = 1.0")
        raw.commit()
        raw.close()
        found = r.explain(matmul, SIZES, fingerprint=HERE)
    assert found.used is not None and found.used.record.figure == 2.0
    assert "it was changed after it was written" in str(found)


def test_buckets_that_can_not_be_read_are_the_last_resort() -> None:
    r = kept(record(1.0, at("no bucket")), record(2.0, at("M=9000"), 8))
    assert [f.record.figure for f in r.candidates(matmul, SIZES, fingerprint=HERE)] == [2.0, 1.0]


def test_quantities_are_written_for_people() -> None:
    shown = [quantity(x, "s") for x in (2.0, 0.0123456, 1.5e-6, 3e-10, None)]
    assert shown == ["2 s", "12.35 ms", "1.5 us", "0.3 ns", ""] and quantity(12345.0, "cycles") == "12,345 cycles"


def test_hundreds_of_records_are_no_matter() -> None:
    r = kept(*(record(1.0 + k, at(f"M={k % 20}"), 1 + k % 30) for k in range(300)))
    found = [*r.candidates(matmul, bucket="M=7", fingerprint=HERE)]
    assert found[0].record.key.bucket == "M=7" and len(found) == 20 * 5 - sum(
        max(0, 5 - len({x.configuration for x in r.list(bucket=f"M={b}")})) for b in range(20)
    )
    assert KEY in {replace(f.record.key, bucket="") for f in found}

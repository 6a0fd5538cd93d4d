"""Frozen schedules: files that are written and read back, made of records, checked, upgraded and compared."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.autotune.made import DAY, HERE, KEY, SIZES, at, record, text
from tests.autotune.test_lookup import matmul_of
from tests.kernels import matmul
from tilewright.autotune.buckets import Buckets
from tilewright.autotune.errors import RecordError
from tilewright.autotune.frozen import (
    Entry,
    Frozen,
    Measured,
    check,
    diff,
    entry_of,
    freeze,
    frozen,
    read_frozen,
    upgrade,
)
from tilewright.autotune.frozen.checking import uncovered
from tilewright.autotune.frozen.file import read_measured
from tilewright.autotune.records import Records
from tilewright.lang.errors import ParseError, ScheduleError
from tilewright.schedule.schedule import parse_schedule

P = matmul.pipeline()


def entry(bucket: str, rows: int = 4, figure: float | None = 1e-3, **more: Any) -> Entry:
    return entry_of(bucket, parse_schedule(text(rows), P), None if figure is None else Measured(figure, **more))


def file(*entries: Entry, kernel: bool = True) -> Frozen:
    return frozen(entries, ("time on a computer",), (P,) if kernel else ())


def through(f: Frozen, folder: Path) -> Frozen:
    f.write(folder / "f.tw")
    return read_frozen(folder / "f.tw")


# Files ----------------------------------------------------------------------------------------------------------

FIGURES = st.floats(0, 1e12, allow_nan=False)
MEASURED = st.builds(
    Measured, FIGURES, st.sampled_from(["s", "cycles", "bytes", "pJ"]),
    st.dictionaries(st.sampled_from(["M", "N", "size_2"]), st.integers(0, 1 << 40)), st.none() | FIGURES,
    st.none() | st.floats(0, 100), st.sampled_from(["hot", "cold"]), st.sampled_from(["", "2026-01-02"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9), st.sampled_from(["", "ab12cd"]),
)  # fmt: skip


@given(MEASURED)
def test_what_was_measured_is_read_back_from_its_line(m: Measured) -> None:
    assert read_measured(str(m)) == m and "\n" not in str(m)


@given(st.floats(1e-12, 1e6))
def test_figures_have_four_digits(x: float) -> None:
    assert abs(Measured(x).figure - x) <= 0.00051 * x


@pytest.mark.parametrize(
    "line", ["", "a remark", "1.5", "ms 3", "3 ms at", "3 ms; hello", "x ms", "3 ms; median", "3 ms; median 4", "1e ms"]
)
def test_other_remarks_are_no_figures(line: str) -> None:
    assert read_measured(line) is None


ENTRIES = st.builds(
    entry, st.sampled_from(["", "M=1..16", "M=17", "M=33..48,N=64"]), st.integers(1, 9), st.none() | FIGURES
)


@given(st.lists(ENTRIES, max_size=4, unique_by=lambda e: e.bucket), st.booleans(), st.sampled_from([(), ("a", "b: c")]))
def test_a_file_is_read_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry], kernel: bool, remarks: tuple[str, ...]
) -> None:
    made = frozen(entries, remarks, (P,) if kernel else ())
    again = through(made, tmp_path_factory.mktemp("f"))
    assert again.entries == made.entries and again.text() == made.text()
    assert again.remarks == (made.remarks if entries or kernel else again.remarks)
    assert [p.digest for p in again.kernels] == [p.digest for p in made.kernels]


def test_a_file_looks_as_documented() -> None:
    made = file(entry("M=17..24", 8, sizes=SIZES, median=0.0012345, spread=0.0213, day="2026-01-02"), entry("M=1..16"))
    assert made.text() == (
        "tilewright 1\n\n#: time on a computer\n\n"
        "kernel matmul(A: f32[M, K], B: f32[K, N]) -> C[:M, :N]\n  C: f32\n  C[i, j] = 0.0\n"
        "  C[i, j] += A[i, k] * B[k, j]  over k in 0:K\n\n"
        f'schedule matmul hash {P.digest} for "M=1..16"\n  #: 1 ms\n'
        "  C.update:\n    split i -> io, ii by 4\n    reorder io k ii j\n\n"
        f'schedule matmul hash {P.digest} for "M=17..24"\n'
        "  #: 1 ms at M=24,N=64,K=64; median 1.234 ms; spread 2.13 %; 2026-01-02\n"
        "  C.update:\n    split i -> io, ii by 8\n    reorder io k ii j\n"
    )


def test_buckets_are_in_order_whatever_order_they_came_in(tmp_path: Path) -> None:
    names = ["M=1..4", "M=5..8", "M=9..100", "M=101..200"]
    made = file(*(entry(b) for b in names[::-1]))
    assert [e.bucket for e in made.entries] == names and made.text() == file(*(entry(b) for b in names)).text()


def test_tw_read_reads_it_and_takes_the_bucket_of_the_sizes(tmp_path: Path) -> None:
    file(entry("M=1..16", 2), entry("M=17..24", 3)).write(tmp_path / "f.tw")
    found = tw.read(tmp_path / "f.tw")
    assert [s.sizes for s in found.schedules] == ["M=1..16", "M=17..24"]
    assert str(found.schedule(matmul, {"M": 20})) == text(3) and str(found.schedule(sizes={"M": 9000})) == text(3)
    with pytest.raises(ScheduleError, match="each for other sizes") as e:
        found.schedule(matmul)
    assert e.value.code == "schedule.several"


def test_a_written_file_takes_the_place_of_the_old_one_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.tw"
    file(entry("M=1")).write(path)
    os.chmod(path, 0o640)
    before = path.read_text()

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(os, "replace", fails)
        with pytest.raises(OSError):
            file(entry("M=2")).write(path)
    assert path.read_text() == before and len(list(tmp_path.iterdir())) == 1
    file(entry("M=2")).write(path)
    assert path.read_text() != before and path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "link.tw").symlink_to(path)
    file(entry("M=3")).write(tmp_path / "link.tw")
    assert (tmp_path / "link.tw").is_symlink() and 'for "M=3"' in path.read_text()


def test_a_file_that_is_none_is_told_with_its_line(tmp_path: Path) -> None:
    wrong = {b"schedule m for 3\n": ":1:16: found '3', expected a string", b"\xff": "no UTF-8", b"x": "expected"}
    for content, said in wrong.items():
        (tmp_path / "f.tw").write_bytes(content)
        with pytest.raises(ParseError, match=said):
            read_frozen(tmp_path / "f.tw")


# Freezing -------------------------------------------------------------------------------------------------------


def test_records_are_frozen_bucket_by_bucket() -> None:
    r = Records(None)
    r.add(
        record(1e-3, at("M=1..16"), 2), record(5e-4, at("M=1..16"), 3), record(2e-3, at("M=17..24"), 5, stage="chosen")
    )
    made = freeze(r, matmul, fingerprint=HERE)
    assert [(e.bucket, e.measured and e.measured.figure) for e in made.entries] == [
        ("M=1..16", 5e-4),
        ("M=17..24", 2e-3),
    ]
    assert (
        str(made.entries[0].schedule(P)) == text(3)
        and made.remarks[0] == "time in mode contract on Some CPU, 2 threads"
    )
    assert made.entries[0].measured == Measured(5e-4, "s", SIZES, day=DAY[:10])
    assert f"code generator {KEY.code[:12]}" in made.remarks[1] and made.pipeline("matmul") is not None
    wanted = freeze(r, matmul, ["M=100"], False, fingerprint=HERE)
    assert wanted.kernels == () and "; stands in: for M=17..24" in wanted.text()
    with pytest.raises(RecordError, match="no records of matmul") as e:
        freeze(r, matmul, fingerprint=replace(HERE, cpu="Nobody's"))
    assert e.value.code == "records.none"
    assert len(freeze(r, [matmul], ["M=3"], fingerprint=replace(HERE, cpu="Nobody's")).entries) == 1


def test_buckets_that_were_split_are_not_frozen_with_their_parts() -> None:
    r = Records(None)
    r.add(*(record(1e-3, at(b), 2) for b in ("M=1..64", "M=17..24", "M=17..20", "M=21..24", "M=60..70")))
    assert [e.bucket for e in freeze(r, matmul, fingerprint=HERE).entries] == [
        "M=1..64", "M=17..20", "M=21..24", "M=60..70",
    ]  # fmt: skip


def test_kernels_that_call_functions_of_the_users_are_not_in_the_file(tmp_path: Path) -> None:
    N = tw.sizes("N")

    def times_itself(x: float) -> float:
        return x * x

    square = tw.extern(times_itself, tw.f32, [tw.f32])

    @tw.kernel
    def squares(A: tw.f32[N]):
        i, B = tw.vars("i"), tw.func("B")
        B[i] = square(A[i])
        return B[:N]

    p = squares.pipeline()
    made = frozen([entry_of("N=1..8", parse_schedule("schedule squares", p))], (), [p])
    assert made.kernels == () and through(made, tmp_path).entries == made.entries
    assert check(through(made, tmp_path), {"squares": p}).ok


# Checking -------------------------------------------------------------------------------------------------------


def test_every_schedule_is_replayed_and_the_bad_ones_named(tmp_path: Path) -> None:
    f = file(entry("M=1..16"), entry("M=17..24"), entry("M=25..32"), entry("Q=1"))
    assert [e.bucket for e in f.entries] == ["M=1..16", "M=17..24", "M=25..32", "Q=1"]
    body = f.text().replace("split i -> io, ii by 4\n    reorder io k ii j", "split q -> io, ii by 4", 1)
    (tmp_path / "f.tw").write_text(body)
    found = check(read_frozen(tmp_path / "f.tw"))
    assert [x.status for x in found.lines] == ["illegal", "ok", "ok", "illegal"] and not found.ok
    assert "line 13: " in found.lines[0].why and "q" in found.lines[0].why and "no size Q" in found.lines[3].why
    assert "4 schedules: 2 can't be used as they are" in str(found) and found.as_json()["ok"] is False


def test_what_only_the_whole_schedule_shows_is_checked_too() -> None:
    never = entry_of("M=1", parse_schedule("schedule matmul\n  cache_write C in reg", P))
    (line,) = check(file(never)).lines
    assert line.status == "illegal" and "schedule.register-size" in line.why


def test_another_version_of_the_kernel_is_noticed() -> None:
    other = matmul_of(tw.f32, double=True).pipeline()
    f = file(entry("M=1..16"), kernel=False)
    assert check(f).lines[0].status == "no-kernel"
    assert check(f, {"matmul": P}).ok
    (line,) = check(f, {"matmul": other}).lines
    assert line.status == "stale" and "upgrade" in line.why


def test_overlaps_and_gaps_are_told() -> None:
    f = file(entry("M=1..16"), entry("M=10..20"), entry("M=25..32"))
    found = check(f)
    assert found.overlaps == (("matmul", "M=1..16", "M=10..20"),) and found.ok
    assert found.gaps == (("matmul", "M=21..24"),)
    text = str(found)
    assert "M=1..16 and M=10..20 overlap: the smaller one applies" in text and "no bucket holds M=21..24" in text
    again = check(file(entry("M=1..16"), entry("M=1..16", 8)))
    assert again.twice == (("matmul", "M=1..16"),) and not again.ok and "two schedules for M=1..16" in str(again)


BOXES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=4
)


@given(BOXES)
def test_gaps_are_all_that_no_bucket_holds(boxes: list[tuple[int, int, int, int]]) -> None:
    buckets = [Buckets.read([f"M={a}..{a + b},N={c}..{c + d}"]).all[0] for a, b, c, d in boxes]
    gaps = [Buckets.read([t]).all[0] for t in uncovered(buckets)]
    span = [(min(b.ranges[k].low for b in buckets), max(b.ranges[k].high for b in buckets)) for k in (0, 1)]
    for m in range(0, 11):
        for n in range(0, 11):
            inside = span[0][0] <= m <= span[0][1] and span[1][0] <= n <= span[1][1]
            held = any({"M": m, "N": n} in b for b in buckets)
            assert sum({"M": m, "N": n} in g for g in gaps) == (inside and not held)


def test_buckets_of_several_kernels_or_sizes_do_not_meet() -> None:
    other = matmul_of(tw.f32, name="other").pipeline()
    mine = entry_of("M=1..16", parse_schedule("schedule other", other))
    f = frozen((entry("M=1..16"), mine), (), (P, other))
    found = check(f)
    assert found.ok and not found.overlaps and [x.kernel for x in found.lines] == ["matmul", "other"]
    assert check(file(entry(""), entry("M=3"))).overlaps, "what is for any sizes overlaps with everything"


# Upgrading ------------------------------------------------------------------------------------------------------


def test_what_is_legal_for_the_kernel_as_it_is_now_is_upgraded(tmp_path: Path) -> None:
    other = matmul_of(tw.f32, double=True).pipeline()
    f = file(entry("M=1..16"), entry("M=17..24", figure=None))
    done = upgrade(f, {"matmul": other})
    assert done.ok and [c.status for c in done.changes] == ["upgraded", "upgraded"]
    assert check(done.file).ok and {e.text.hash for e in done.file.entries} == {other.digest}
    assert [p.digest for p in done.file.kernels] == [other.digest]
    first = through(done.file, tmp_path).entries[0].measured
    assert first is not None and first.earlier == P.digest and first.figure == 1e-3
    again = upgrade(done.file)
    assert [c.status for c in again.changes] == ["same", "same"] and again.file.text() == done.file.text()
    back = upgrade(done.file, {"matmul": P})
    assert back.file.entries[0].measured == first, "what was measured stays what it was measured for"


def test_what_is_not_legal_now_stays_as_it_was(tmp_path: Path) -> None:
    body = file(entry("M=1..16"), entry("M=17..24", 8)).text().replace("ii by 8", "ii by 8\n    unroll nothing")
    (tmp_path / "f.tw").write_text(body)
    f = read_frozen(tmp_path / "f.tw")
    other = matmul_of(tw.f32, double=True).pipeline()
    done = upgrade(f, {"matmul": other})
    assert not done.ok and [c.status for c in done.changes] == ["upgraded", "kept"]
    assert (
        done.file.entries[1] == f.entries[1] and "left as it was: " in str(done) and "1 upgraded, 1 left" in str(done)
    )
    assert upgrade(file(entry("M=1"), kernel=False)).changes[0].why == "there is no kernel matmul"


def test_old_forms_are_written_anew(tmp_path: Path) -> None:
    (tmp_path / "f.tw").write_text(
        "tilewright 1\n"
        'schedule matmul for "N=3 , M=1 .. 2" # old\n'
        "   C.update:\n      split i->io,ii by 4  # four\n#: kept\n"
    )
    done = upgrade(read_frozen(tmp_path / "f.tw"), {"matmul": P})
    assert done.ok and done.file.text() == (
        f'tilewright 1\n\nschedule matmul hash {P.digest} for "N=3,M=1..2"\n'
        "  #: kept\n  C.update:\n    split i -> io, ii by 4\n"
    )


# Comparing ------------------------------------------------------------------------------------------------------


def test_differences_are_told_by_bucket() -> None:
    a = file(entry("M=1..16"), entry("M=17..24"), entry("M=25..32"), entry("M=33"))
    b = file(entry("M=1..16"), entry("M=17..24", 8, 5e-4), entry("M=25..32", figure=2e-3), entry("M=34", figure=None))
    found = diff(a, b)
    assert [(d.bucket, d.status) for d in found.buckets] == [
        ("M=17..24", "changed"), ("M=25..32", "measured"), ("M=33", "removed"), ("M=34", "added"),
    ]  # fmt: skip
    changed, measured, *_ = found.buckets
    assert changed.lines == (
        "    C.update:", "-     split i -> io, ii by 4", "+     split i -> io, ii by 8", "      reorder io k ii j",
    ) and changed.ratio == 0.5  # fmt: skip
    assert measured.lines == () and measured.ratio == 2.0 and not found.same
    assert "matmul M=17..24: changed, 1 ms -> 500 us (x0.50)" in str(found)
    assert "matmul M=34: added" in str(found) and found.as_json()["same"] is False
    assert diff(a, a).same and str(diff(a, a)) == "the same schedules and figures"


def test_a_diff_backwards_is_the_diff_the_other_way_round() -> None:
    a, b = file(entry("M=1"), entry("M=2", 8)), file(entry("M=2", 9), entry("M=3"))
    there, back = diff(a, b), diff(b, a)
    turned = {"added": "removed", "removed": "added"}
    assert [(d.bucket, turned.get(d.status, d.status)) for d in there.buckets] == [
        (d.bucket, d.status) for d in back.buckets
    ]


def test_another_version_or_header_is_a_difference() -> None:
    other = matmul_of(tw.f32, double=True).pipeline()
    a = frozen([entry("M=1", figure=None)], ("one",))
    b = upgrade(a, {"matmul": other}).file
    assert [d.status for d in diff(a, b).buckets] == ["for another version"]
    assert diff(a, replace(a, remarks=("two",))).remarks == ("- one", "+ two")

"""The annotated nest of hand-made accounts: its text, its widths, and that it never loses a line."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import Account, Line, SimulationError, Stall, Time, Use
from tilewright.hw.timing import CAUSES

KIB = 1024
WAITS = {"load": 200_000.0, "store": 50_000.0, "drain": 1234.0}
LINES = (
    Line("loop", 0, "io", "for io in 0..(M + 63)//64", 1, 8, 3 << 20, 600_000, WAITS),
    Line("loop", 1, "jo", "for jo in 0..(N + 63)//64", 8, 64, 3 << 20, 600_000, WAITS),
    Line("buffer", 2, "C_tile", "buffer C_tile: f32[64, 64] in tcdm", 64, live={"tcdm": 16 * KIB}),
    Line("buffer", 2, "A_C", "buffer A_C: 2 x f32[64, 64] in tcdm", 64, live={"tcdm": 48 * KIB}),
    Line("loop", 2, "ko", "for ko in 0..(K + 63)//64", 64, 512, 2 << 20, 600_000, {"load": 200_000.0},
         live={"tcdm": 48 * KIB}),
    Line("buffer", 3, "B_C", "buffer B_C: f32[64, 64] in tcdm", 512, live={"tcdm": 64 * KIB}),
    Line("copy", 3, "A_C.load", "load A_C over i 64*io..min(M, 64*io + 64), k 64*ko..min(K, 64*ko + 64) asynchronously", 512,
         bytes=1 << 20, transfer=130_000, live={"tcdm": 64 * KIB}),
    Line("copy", 3, "B_C.load", "load B_C over k 64*ko..min(K, 64*ko + 64), j 64*jo..min(N, 64*jo + 64)", 512, bytes=1 << 20,
         waits={"load": 120_000.0, "issue": 2000.0}, transfer=130_000, live={"tcdm": 64 * KIB}),
    Line("compute", 3, "C.update", "C.update over ii, ki, ji", 512, busy=600_000, waits={"load": 80_000.0, "bank": 3000.0},
         live={"tcdm": 64 * KIB}),
    Line("copy", 2, "C.store", "store C_tile over i 64*io..min(M, 64*io + 64)", 64, bytes=1 << 20, waits={"store": 50_000.0},
         transfer=40_000, live={"tcdm": 16 * KIB}),
)  # fmt: skip
STALLS = (
    Stall("load", "B_C.load", "B_C", 120_000),
    Stall("load", "C.update", "A_C", 80_000),
    Stall("store", "C.store", "C", 50_000),
    Stall("drain", "", "", 1234),
)
TIME = Time(851_234, 600_000, "decoupled", 620_000, STALLS, (Use("compute", 600_000),), LINES)
ACCOUNT = Account("matmul", "snitch-cluster", {"M": 512, "N": 512, "K": 512}, time=TIME, notes=("B is copied by hand",))
ANSI = re.compile(r"\x1b\[\d*m")


def test_the_text(golden) -> None:
    golden(str(ACCOUNT.nest))


def test_colours_change_no_letter() -> None:
    nest = ACCOUNT.nest
    coloured = nest.text(colour=True)
    assert coloured != str(nest)
    assert [x.rstrip() for x in ANSI.sub("", coloured).splitlines()] == str(nest).splitlines()


def test_an_account_without_time_has_none() -> None:
    with pytest.raises(SimulationError, match="time=True") as e:
        _ = replace(ACCOUNT, time=None).nest
    assert e.value.code == "simulation.no-time"


def test_what_takes_no_time_is_no_division() -> None:
    line = Line("loop", 0, "i", "for i in 0..N", 1)
    assert "nothing takes any time" in str(Account("k", "toy", time=Time(0, 0, "decoupled", 0, lines=(line,))).nest)


waits = st.dictionaries(st.sampled_from(CAUSES), st.integers(0, 10**12).map(float), max_size=3)
lines = st.lists(
    st.builds(
        Line, st.sampled_from(["loop", "parallel", "spatial", "copy", "compute", "buffer", "if"]), st.integers(0, 6),
        st.just("x"), st.text("abc 0123..*", min_size=1, max_size=120).map(lambda t: f"for {t}x"), st.integers(0, 10**12),
        st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**12).map(float), waits,
        st.integers(0, 10**12).map(float), st.dictionaries(st.sampled_from(["main", "tcdm"]), st.integers(0, 1 << 40)),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@given(lines, st.integers(0, 10**12), st.integers(40, 200))
def test_every_line_is_there_and_widths_are_bounded(found: list[Line], more: int, width: int) -> None:
    total = max((x.busy + x.waiting for x in found), default=0) + more
    nest = Account("k", "toy", time=Time(total, total, "decoupled", total / 2, lines=tuple(found))).nest
    body = nest.text(width).split("\n\n")[1].splitlines() if total else []
    if not total:
        return
    assert len(body) == len(found) + 1
    assert all(len(x) <= max(width, 24 + 12 * 9) for x in body)
    for line, text in zip(found, body[1:], strict=True):
        assert text.startswith(("  " * line.depth + line.text)[:20].rstrip())
    assert all(len(row.bar) <= 10 for row in nest.rows())

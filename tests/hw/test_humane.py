"""Numbers as people read them: the unit, three digits, and never a wrong impression."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import humane

SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}


def test_examples() -> None:
    assert [humane.count(v) for v in (0, 7, 999, 1000, 12_345, 1_234_567, 0.5, 12.34)] == [
        "0", "7", "999", "1.00 k", "12.3 k", "1.23 M", "0.5", "12.3",
    ]  # fmt: skip
    assert [humane.size(v) for v in (96, 1023, 65_536, 3 << 19)] == ["96 B", "1023 B", "64 KiB", "1.50 MiB"]
    assert [humane.whole(v) for v in (0, 1_234_567, 10**15 - 1, 2**63)] == [
        "0", "1,234,567", "999,999,999,999,999", "9.223372e+18",
    ]  # fmt: skip
    assert [f(-(10**29)) for f in (humane.count, humane.size)] == ["-1.00e+29", "-1.00e+29 B"]
    assert [humane.share(v) for v in (0, 0.001, 0.413, 0.999, 1)] == ["0 %", "<1 %", "41 %", ">99 %", "100 %"]
    assert [humane.ratio(a, b) for a, b in ((2, 8), (8, 2), (3, 3), (1, 0), (0, 1), (1001, 1000))] == [
        "/4.00", "x4.00", "=", "new", "gone", "~",
    ]  # fmt: skip


@given(st.integers(0, 10**20) | st.integers(0, 10**40))
def test_what_is_shown_is_within_half_a_percent_and_short(n: int) -> None:
    for text, scales in ((humane.count(n), SCALES), (humane.size(n), BINARY)):
        found = re.fullmatch(r"([\d.]+(?:e\+\d\d)?) ?(\w*)", text)
        assert found is not None and len(found[1].partition("e")[0]) <= 4, text
        assert abs(float(found[1]) * scales[found[2]] - n) <= 0.0051 * n, text

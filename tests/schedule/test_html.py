"""Schedules and nests in a notebook: the same text, escaped, in one block."""

from __future__ import annotations

import html
import re

import tilewright as tw
from tilewright.schedule.schedule import Schedule

M, N = tw.sizes("M N")


@tw.kernel
def scale(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    B = tw.func("B")
    B[i, j] = A[i, j] * 2.0
    return B[:M, :N]


def scheduled() -> Schedule:
    s = scale.schedule()
    s.specialize("B", "(M < 4) & (N > 2)", "small")
    s["B"].split("i", "io", "ii", 4)
    return s


def test_the_html_is_the_text_in_one_block() -> None:
    s = scheduled()
    for thing in (s, s.loops()):
        shown = thing._repr_html_()
        block = re.fullmatch(r"<pre style=\"[^\"<>]*\">(.*)</pre>", shown, re.DOTALL)
        assert block is not None
        assert html.unescape(re.sub(r"<[^>]*>", "", block[1])) == str(thing)


def test_signs_of_html_are_escaped_and_words_stand_out() -> None:
    s = scheduled()
    assert "M &lt; 4" in s._repr_html_() and "M < 4" not in s._repr_html_()
    assert ">specialize</span>" in s._repr_html_()
    assert ">for</span> io in " in s.loops()._repr_html_()

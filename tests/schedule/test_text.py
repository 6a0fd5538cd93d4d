"""The text form of schedules: expected texts, round trips, errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang.errors import ParseError, ScheduleError
from tilewright.schedule import text as schedule_text
from tilewright.schedule.directive import Directive, KnobRef
from tilewright.schedule.directives.kinds import KINDS
from tilewright.schedule.text import FLAG, KEYS, LAYOUT, ScheduleText, canonical_map, parse_schedules, print_directives

GEMM = (
    Directive("split", "C.update", ("i",), ("io", "ii"), (("by", 6),)),
    Directive("tile", "C.update", ("i", "j"), ("a", "b", "c", "d"), (("by", (KnobRef("t"), 16)), ("tail", "shift"))),
    Directive("reorder", "C.update", ("jo", "io", "k", "ii", "ji")),
    Directive("unroll", "C.update", ("ii",)),
    Directive("cache_write", "", ("C",), (), (("at", "C.update.io"), ("in", "reg"))),
    Directive("cache_read", "", ("B",), (), (("at", "C{small}.jo"), ("layout", "k j -> j//16 k j%16"), ("pad", -1))),
    Directive("knob", "", ("t",), (), (("=", 8), ("of", (4, 8, 16)))),
    Directive("serial", "C.update[1]", ("k",)),
    Directive("layout", "", ("A",), (), (("layout", "i j -> j i"), ("given", 1))),
)


def test_a_schedule_as_text(golden) -> None:
    text = print_directives("matmul", GEMM, hash="9c1d0f", machine="snitch-cluster")
    golden(text)
    assert parse_schedules(text) == [ScheduleText("matmul", "9c1d0f", "snitch-cluster", GEMM)]


NAME = st.sampled_from(["i", "io", "C", "by", "at", "in", "given", "layout", "schedule", "hash", "t_1"])
WORD = st.one_of(NAME, st.sampled_from(["C.update[1].io", "C{a}.io", "C.init", "in.by"]), st.text(max_size=5))
ADDRESS = st.sampled_from(["", "", "C.update", "C.update[2]", "by", "C.update{small}"])
VALUE = st.recursive(
    st.one_of(st.integers(-(10**20), 10**20), WORD, NAME.map(KnobRef)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
MAP = st.one_of(st.sampled_from(["k j -> j//16 k j%16", "i j -> j (i+1)%4", "at -> at", "x"]), st.text(max_size=8))
OPTION = st.one_of(
    st.tuples(st.sampled_from(KEYS), VALUE), st.tuples(st.just(LAYOUT), MAP),
    st.tuples(st.just(FLAG), st.one_of(st.just(1), VALUE)),
)  # fmt: skip
WORDS = st.lists(WORD, max_size=3).map(tuple)
DIRECTIVE = st.builds(
    Directive, st.sampled_from(["split", "knob", "schedule", "hash", "layout", "by"]), ADDRESS, WORDS, WORDS,
    st.lists(OPTION, max_size=3).map(tuple),
)  # fmt: skip
NOTES = st.one_of(st.none(), st.sampled_from(["ab12", "0f"]))
MACHINES = st.one_of(st.none(), st.sampled_from(["snitch-cluster", "hash", "my machine", "7"]))
SCHEDULE = st.builds(ScheduleText, WORD, NOTES, MACHINES, st.lists(DIRECTIVE, max_size=6).map(tuple))


@given(st.lists(SCHEDULE, max_size=3))
def test_every_schedule_comes_back(schedules: list[ScheduleText]) -> None:
    text = "\n".join(print_directives(s.kernel, s.directives, s.hash, s.machine) for s in schedules)
    back = parse_schedules(text)
    assert back == schedules
    assert "\n".join(print_directives(s.kernel, s.directives, s.hash, s.machine) for s in back) == text


def test_headings_may_repeat_and_text_order_is_kept() -> None:
    text = "schedule f\n  C.update:\n    unroll i\n  C.update:\n    unroll j\n  root A\n  C.update:\n    unroll k\n"
    (s,) = parse_schedules(text)
    assert [(d.stage, *d.operands) for d in s.directives] == [
        ("C.update", "i"), ("C.update", "j"), ("", "A"), ("C.update", "k"),
    ]  # fmt: skip
    printed = print_directives(s.kernel, s.directives)
    assert printed == "schedule f\n  C.update:\n    unroll i\n    unroll j\n  root A\n  C.update:\n    unroll k\n"


def test_people_may_write_it_their_way() -> None:
    text = """# tuned by hand
tilewright 1

schedule f machine "my machine"   # for the old one
    C:
          tile i j -> io, jo, ii,ji by 8,4   # small
    cache_read B at C.jo layout k   j->j // 16  k j %16 pad 0
"""
    (s,) = parse_schedules(text, "a.tw", first_line=5)
    assert s.machine == "my machine"
    assert s.directives == (
        Directive("tile", "C", ("i", "j"), ("io", "jo", "ii", "ji"), (("by", (8, 4)),)),
        Directive("cache_read", "", ("B",), (), (("at", "C.jo"), ("layout", "k j -> j//16 k j%16"), ("pad", 0))),
    )
    assert [str(d.location) for d in s.directives] == ["a.tw:10:11", "a.tw:11:5"]


def test_spacing_of_index_maps() -> None:
    assert canonical_map("k  j->( j +1 )//16   k j % 16") == "k j -> (j+1)//16 k j%16"


WRONG = {
    "no indent": "schedule m\n  C.update:\n  split i\n",
    "no value": "schedule m\n  split i -> a, b by\n",
    "no results": "schedule m\n  split i ->\n",
    "word": "sched m\n",
    "sign": "schedule m\n  C.u:\n    split i -> a, b by 3 4 $t tail @\n",
    "comma": "schedule m\n  C.u:\n    split i -> a b by 3\n",
    "nested": "schedule m\n  a\n    b\n",
    "aligned": "schedule m\n    a\n  b\n",
    "layout": "schedule m\n  layout A layout\n",
    "kind": "schedule m\n  C.update i\n",
    "twice": "schedule m hash a hash b\n",
    "string": 'schedule m\n  split "\\x"\n',
    "version": "tilewright 3\nschedule m\n",
    "operand": "schedule m\n  split 3 -> a, b\n",
}


def test_errors(golden) -> None:
    out = []
    for what, text in WRONG.items():
        with pytest.raises(ParseError) as e:
            parse_schedules(text, "a.tw")
        out.append(f"{what}:\n{e.value}\n")
    golden("\n".join(out))


@pytest.mark.parametrize(
    "d",
    [Directive("a b"), Directive("split", "C update"), Directive("split", options=(("colour", 1),)),
     Directive("split", options=(("layout", 3),)), Directive("split", options=(("by", 1.5),)),
     Directive("split", options=(("by", KnobRef("a b")),))],
)  # fmt: skip
def test_what_has_no_text_form_is_refused(d: Directive) -> None:
    with pytest.raises(ScheduleError, match="has no text form"):
        print_directives("f", [d])


def test_the_grammar_knows_the_keys() -> None:
    grammar = (Path(schedule_text.__file__).parent / "schedule.lark").read_text(encoding="utf-8")
    lists = re.findall(r"\(([a-z|=]*\bby\b[a-z|=]*)\)", grammar)
    assert len(lists) == 2
    for found in lists:
        assert set(found.split("|")) | {"=", FLAG, LAYOUT} == {*KEYS, FLAG, LAYOUT}
    for kind in KINDS.values():
        assert {o.key for o in kind.options} <= {*KEYS, FLAG, LAYOUT}, kind.name
